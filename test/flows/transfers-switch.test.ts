/*
 * Goal: a transfer whose outcome is unknown cannot be paid over another rail, a cancel and a send have one winner, and what
 * the bank calls cancelled and pays after all is not lost. Method: a real database, a simulated bank with its own books.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Bank, type BankOptions, startBank } from '../../sim/bank/bank.ts';
import { advanceOnce, sendOnce } from '../../src/engine/advance.ts';
import { intendEffects } from '../../src/engine/edges.ts';
import { lookAt } from '../../src/engine/look.ts';
import { reopenOnce } from '../../src/engine/reopen.ts';
import { loadEffects } from '../../src/engine/store.ts';
import { cancelTransfer } from '../../src/flows/transfers/index.ts';
import { AMOUNT, type BankWorld, FUNDS, makeBankWorld } from '../support/bank-world.ts';
import { assertBooksClean } from '../support/books.ts';
import { balanceOf } from '../support/world.ts';

const DAY_MS = 24 * 3_600_000;

async function scene(
  t: TestContext,
  options: Omit<BankOptions, 'profile'> = {},
): Promise<{ bank: Bank; world: BankWorld }> {
  const bank = await startBank({ profile: 'generic', ...options });
  const world = await makeBankWorld({
    label: 'switch',
    profile: 'generic',
    url: bank.url,
    secret: () => bank.credentials.current(),
    config: { capabilities: { resendAfterMs: 0 } },
  });
  t.after(async () => {
    await world.end();
    await bank.stop();
  });
  return { bank, world };
}

async function pass(world: BankWorld, times = 1): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    await world.pool.query('update payonce.effects set next_at = payonce.now() where ended_at is null');
    await advanceOnce(world.engine, world.rail);
  }
}

async function effectOf(world: BankWorld, subject: string): Promise<{ id: bigint; state: string }> {
  const { rows } = await world.pool.query<{ id: bigint; state: string }>(
    'select id, state from payonce.effects where subject_id = $1 order by seq desc limit 1',
    [subject],
  );
  return rows[0] ?? assert.fail(`no effect of ${subject}`);
}

test('a transfer that is unknown at the bank is not paid over another rail: the subject has one live effect, whoever asks (case A5)', async (t) => {
  const { bank, world } = await scene(t, { faults: [{ on: 'create', fault: { kind: 'lose_answer' } }] });
  const id = await world.take('one');
  await sendOnce(world.engine, world.rail);
  const [unknown] = await loadEffects(world.pool, [(await effectOf(world, id)).id]);
  assert.ok(unknown !== undefined && unknown.state === 'SEALED');
  await world.pool.query("insert into payonce.rails (name) values ('evm:1')");
  const elsewhere = {
    subjectType: unknown.subjectType,
    subjectId: unknown.subjectId,
    seq: 2,
    partnerId: unknown.partnerId,
    rail: 'evm:1',
    lane: null,
    assetId: unknown.asset.id,
    amount: unknown.amount,
    destination: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
    wallet: unknown.wallet,
    signer: unknown.signer,
    call: null,
    holdKey: null,
  };
  await assert.rejects(
    world.pool.tx('another rail', (tx) => intendEffects(tx, [elsewhere])),
    (error: Error) => /effects_one_live|duplicate key/.test(error.message),
  );
  await assert.rejects(
    world.pool.query('update payonce.effects set rail = $2 where id = $1', [unknown.id, 'evm:1']),
    /frozen/,
    'nor does the effect itself change its rail',
  );
  bank.heal();
  await pass(world, 3);
  assert.equal((await effectOf(world, id)).state, 'SETTLED');
  assert.equal((await bank.books.movements()).length, 1);
  await assertBooksClean(world.pool);
});

test('cancel and send at once have one winner: cancelled and never asked, or too late and paid (case I3, A3)', async (t) => {
  const { bank, world } = await scene(t);
  let cancelled = 0;
  const rounds = 20;
  for (let round = 0; round < rounds; round += 1) {
    const id = await world.take(`round ${round}`);
    await world.pool.query('update payonce.effects set next_at = payonce.now() where ended_at is null');
    const asked = bank.calls.create;
    // Heads start of some milliseconds, for one or the other; the first two rounds have a sure winner.
    const cancel = (): Promise<string> => cancelTransfer(world.engine, world.partnerId, id, 'partner');
    const send = (): Promise<number> => sendOnce(world.engine, world.rail);
    const first = round % 2 === 0 ? cancel() : send();
    if (round < 2) await first;
    else await sleep(round % 5);
    const [one, other] = await Promise.all([first, round % 2 === 0 ? send() : cancel()]);
    const outcome = typeof one === 'string' ? one : other;
    const { state } = await effectOf(world, id);
    if (outcome === 'cancelled') {
      cancelled += 1;
      assert.equal(state, 'RELEASED');
      assert.equal(bank.calls.create, asked, 'what was cancelled is never asked for');
    } else {
      assert.equal(outcome, 'too_late');
      assert.notEqual(state, 'RELEASED');
    }
  }
  assert.ok(cancelled > 0 && cancelled < rounds, `${cancelled} of ${rounds} were cancelled`);
  await pass(world, 3);
  const out = (await bank.books.movements()).filter((one) => one.kind === 'out');
  assert.equal(out.length, rounds - cancelled);
  assert.deepEqual(await balanceOf(world), { balance: FUNDS - AMOUNT * BigInt(rounds - cancelled), held: 0n });
  await assertBooksClean(world.pool);
});

test('what the bank calls cancelled and pays after all is looked at again: testimony, never lost (case I3)', async (t) => {
  const { bank, world } = await scene(t, { settleMs: null });
  const id = await world.take('one');
  await pass(world);
  const key = bank.transfers.all()[0]?.batch.key ?? assert.fail('nothing is there');
  bank.transfers.moveTo({ key }, 'cancelled');
  await pass(world);
  const { id: effectId, state } = await effectOf(world, id);
  assert.equal(state, 'SEALED', 'a failed object of this provider is a belief');
  assert.deepEqual(await balanceOf(world), { balance: FUNDS, held: AMOUNT });
  bank.transfers.moveTo({ key }, 'paid', true);
  await lookAt(world.engine, world.rail, await loadEffects(world.pool, [effectId]));
  await reopenOnce(world.engine);
  assert.equal((await effectOf(world, id)).state, 'SETTLED');
  assert.deepEqual(await balanceOf(world), { balance: FUNDS - AMOUNT, held: 0n });
  await assertBooksClean(world.pool);
});

test('what nobody can look at for long becomes more urgent, and stays held: never failed by time (case B1, inv E10, V1)', async (t) => {
  const { bank, world } = await scene(t, {
    faults: [
      { on: 'create', fault: { kind: 'lose_answer' } },
      { on: 'look', fault: { kind: 'http', status: 503 } },
    ],
  });
  const id = await world.take('one');
  await pass(world);
  const severities: number[] = [];
  for (const days of [1.1, 2.1, 30]) {
    const url = new URL(world.url);
    url.searchParams.set('options', `-c payonce.clock_shift_ms=${days * DAY_MS}`);
    const later = world.at(url.href);
    await later.pool.query(
      'update payonce.effects set next_at = payonce.now(), lease_until = null where ended_at is null',
    );
    await advanceOnce(later.engine, world.rail);
    const { rows } = await later.pool.query<{ severity: number }>(
      "select severity from payonce.cases where kind = 'undecided' and closed_at is null",
    );
    severities.push(rows[0]?.severity ?? 0);
    await later.pool.end();
  }
  assert.deepEqual(severities, [2, 3, 3]);
  assert.equal((await effectOf(world, id)).state, 'SEALED');
  assert.deepEqual(await balanceOf(world), { balance: FUNDS, held: AMOUNT });
  assert.equal((await bank.books.movements()).length, 1);
  await assertBooksClean(world.pool);
});
