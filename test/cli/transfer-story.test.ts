/*
 * Goal: whoever must decide about a transfer reads at the command line whom it pays, how the bank calls it, what it said and
 * what came back. Method: the real program against a database in which transfers went to a simulated bank: one that was
 * paid and partly came back, one whose answer was lost, one whose refusal waits to become final.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { openCase } from '../../src/engine/cases.ts';
import { watchReleasedOnce } from '../../src/engine/look.ts';
import { type BankApi, makeBankApi } from '../api/bank-world.ts';
import { payonceOn } from './cli-scene.ts';

let api: BankApi;
let run: ReturnType<typeof payonceOn>;
before(async () => {
  api = await makeBankApi({ label: 'cli_transfers', direct: false });
  run = payonceOn(api.world.url);
});
after(() => api.end());

test('the story of a paid transfer names payee, the bank’s id of it and what came back (case M1)', async () => {
  const id = String((await api.transfer({ memo: '급여' })).body.id);
  await api.pass();
  api.bank.clock.advance(120_000);
  await api.pass(3);
  const { bank_id: bankId } = (await api.ask('GET', `/v1/transfers/${id}`)).body;
  api.bank.transfers.giveBack({ id: bankId }, { units: 5_000n, feeUnits: 500n });
  await api.world.pool.query("update payonce.effects set watch_at = payonce.now() - interval '1 second'");
  await watchReleasedOnce(api.world.engine, api.rail);
  const shown = await run(['effect', 'show', id]);
  assert.equal(shown.code, 0, shown.stderr);
  for (const part of [
    /12500 KRW to 004:110-123-0456/,
    /Payee\nbank +004\naccount +110-123-0456\nholder +홍길동\nmemo +급여\nflagged +money of this partner came back/,
    new RegExp(`(?:accepted as|at the rail) +${String(bankId)}`),
    /Came back\nRETURN.*\nret_\w+ +5000 KRW +500 KRW/,
    /TRF_CONFIRM:/,
    /RETURN:ret_/,
    /transfer\.returned/,
  ])
    assert.match(shown.stdout, part);
  const byBank = await run(['effect', 'show', String(bankId), '--json']);
  const [story] = byBank.json<{ effects: { subject_id: string; payee: object; returns: { amount: string }[] }[] }>()
    .effects;
  assert.equal(story?.subject_id, id);
  assert.deepEqual(story.payee, {
    bank_code: '004',
    account_number: '110-123-0456',
    holder_name: '홍길동',
    memo: '급여',
    flagged: true,
  });
  assert.equal(story.returns[0]?.amount, '5000');
});

test('the case of a transfer whose answer was lost shows payee, the lost answer and no return', async () => {
  api.bank.script({ on: 'create', fault: { kind: 'lose_answer' } });
  api.bank.script({ on: 'look', fault: { kind: 'blind' } });
  const id = String((await api.transfer()).body.id);
  await api.pass();
  api.bank.heal();
  const [effect] = (
    await api.world.pool.query<{ id: bigint; amount: bigint }>(
      'select id, amount from payonce.effects where subject_id = $1',
      [id],
    )
  ).rows;
  assert.ok(effect !== undefined);
  const caseId = await openCase(api.world.pool, api.world.makeId, {
    kind: 'undecided',
    severity: 2,
    subjectKey: `effect:${effect.id}`,
    effectId: effect.id,
    partnerId: api.world.partnerId,
    amount: effect.amount,
    summary: 'no answer for an hour',
  });
  const shown = await run(['case', 'show', caseId]);
  assert.match(shown.stdout, new RegExp(`for +transfer ${id}, try 1`));
  assert.match(shown.stdout, /Payee\nbank +004\naccount +110-123-0456/);
  assert.match(shown.stdout, /send 1 /);
  assert.doesNotMatch(shown.stdout, /Came back/);
});

test('a no that waits is told with its reason, and that nothing is sent any more (req T6)', async () => {
  api.bank.accounts.close('9991');
  const id = String((await api.transfer({ account_number: '999-1' })).body.id);
  await api.pass(2);
  const shown = await run(['effect', 'show', id]);
  assert.match(shown.stdout, /a no waits +.+; nothing is sent any more; final at \S+ .*at the earliest/);
});
