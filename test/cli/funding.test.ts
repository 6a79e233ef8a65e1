/*
 * Goal: what arrives at a bank is credited by two persons, once per reference; effects, inbound events and what a proposal replaced
 * are found at the command line; a closed case is told no more. Method: the real program on a world with a bank.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBank } from '../../sim/bank/bank.ts';
import { sendOnce } from '../../src/engine/advance.ts';
import { raiseAlert } from '../../src/engine/alerts.ts';
import { openCase } from '../../src/engine/cases.ts';
import { createTransfers } from '../../src/flows/transfers/index.ts';
import { makeBankWorld } from '../support/bank-world.ts';
import { assertBooksClean } from '../support/books.ts';
import { balanceOf } from '../support/world.ts';
import { addOperator, firstAdmin, payonceOn } from './cli-scene.ts';

test('money that arrived at a bank is credited by two persons, and a reference once for ever', async (t) => {
  const bank = await startBank({ profile: 'generic' });
  const world = await makeBankWorld({
    label: 'funding',
    profile: 'generic',
    url: bank.url,
    secret: () => bank.credentials.current(),
  });
  t.after(async () => {
    await world.end();
    await bank.stop();
  });
  const run = payonceOn(world.url);
  const admin = await firstAdmin(run);
  const [otto, pia] = [
    await addOperator(run, admin, 'Otto', 'operator'),
    await addOperator(run, admin, 'Pia', 'approver'),
  ];
  const before = await balanceOf(world);
  const propose = (changes: Readonly<Record<string, string>> = {}): ReturnType<typeof run> =>
    run(
      [
        'funding',
        'propose',
        '--json',
        ...Object.entries({
          '--partner': world.partnerId,
          '--asset': world.currency,
          '--amount': '1000',
          '--reference': 'STMT 42/7',
          '--reason': 'statement of today',
          ...changes,
        }).flat(),
      ],
      otto,
    );
  for (const [changes, code] of [
    [{ '--partner': 'par_nobody' }, 4],
    [{ '--asset': 'DOGE' }, 3],
    [{ '--amount': '0' }, 2],
    [{ '--amount': '-1' }, 2],
    [{ '--reference': 'straße' }, 2],
  ] as const) {
    const refused = await propose(changes);
    assert.equal(refused.code, code, JSON.stringify(changes) + refused.stdout + refused.stderr);
  }
  const first = (await propose({ '--amount': '10' })).json<{ proposal_id: string; case_id: string }>();
  const second = (await propose()).json<{ proposal_id: string; case_id: string; replaced: string[] }>();
  assert.deepEqual([second.case_id, second.replaced], [first.case_id, [first.proposal_id]]);
  assert.equal((await run(['funding', 'approve', first.proposal_id], pia)).code, 4);
  assert.equal((await run(['funding', 'approve', second.proposal_id], otto)).code, 1, 'an operator approves nothing');
  assert.equal((await balanceOf(world)).balance, before.balance, 'nothing yet');
  for (let time = 0; time < 2; time += 1) {
    const done = await run(['funding', 'approve', second.proposal_id], pia);
    assert.equal(done.code, 0, done.stdout + done.stderr);
    assert.match(done.stdout, /Done: credited 1000 /);
  }
  const after = await balanceOf(world);
  assert.ok(after.balance > before.balance);
  const again = await propose();
  assert.equal(again.code, 4);
  assert.match(again.problem().detail, /STMT 42\/7 was credited before, by posting \d+/);
  assert.equal((await balanceOf(world)).balance, after.balance);
  const acts = await run(['audit', 'list', '--object', second.case_id, '--json']);
  assert.deepEqual(
    acts.json<{ acts: { action: string }[] }>().acts.map((one) => one.action),
    ['case.approved.fund', 'case.proposed.fund', 'case.replaced', 'case.proposed.fund'],
  );
  assert.match((await run(['case', 'list'])).stdout, /No open case/);
  await assertBooksClean(world.pool);
});

test('an effect is found by the partner’s own reference and in a list, and an ask says that it is held back', async (t) => {
  const bank = await startBank({ profile: 'generic', faults: [{ on: 'create', fault: { kind: 'lose_answer' } }] });
  const world = await makeBankWorld({
    label: 'effect list',
    profile: 'generic',
    url: bank.url,
    secret: () => bank.credentials.current(),
  });
  t.after(async () => {
    await world.end();
    await bank.stop();
  });
  const run = payonceOn(world.url);
  const admin = await firstAdmin(run);
  await createTransfers(world, [{ ...world.transferRequest('one'), externalId: '4711' }]);
  await sendOnce(world.engine, world.rail);
  await world.take('two');
  const found = await run(['effect', 'show', '4711', '--json']);
  assert.equal(found.json<{ effects: { id: string }[] }>().effects[0]?.id, '1', found.stderr);
  const ids = async (...args: string[]): Promise<string[]> =>
    (await run(['effect', 'list', ...args, '--json']))
      .json<{ effects: { id: string }[] }>()
      .effects.map((one) => one.id);
  assert.deepEqual(await ids(), ['2', '1']);
  assert.deepEqual(await ids('--state', 'SEALED'), ['1']);
  assert.deepEqual(await ids('--rail', 'bank:other'), []);
  assert.deepEqual(await ids('--open', '--before', '2'), ['1']);
  assert.deepEqual(await ids('--withheld'), []);
  await world.pool.query(
    "update payonce.effects set wait_reason = 'WITHHELD: sealed for another address.' where id = 1",
  );
  assert.deepEqual(await ids('--withheld'), ['1']);
  assert.match((await run(['effect', 'list'])).stdout, /1 +SEALED .*4711 .*WITHHELD/);
  const asked = await run(['effect', 'ask', '4711'], admin);
  assert.match(asked.stdout, /Nothing is sent while it is held back: sealed for another address/);
  assert.doesNotMatch(asked.stdout, /same bytes are sent again/);
  await assertBooksClean(world.pool);
});

test('a grave case is among the alerts until it is closed, and takes the alert with it that was raised with it', async (t) => {
  const bank = await startBank({ profile: 'generic' });
  const world = await makeBankWorld({
    label: 'case alerts',
    profile: 'generic',
    url: bank.url,
    secret: () => bank.credentials.current(),
  });
  t.after(async () => {
    await world.end();
    await bank.stop();
  });
  const run = payonceOn(world.url);
  const admin = await firstAdmin(run);
  const pia = await addOperator(run, admin, 'Pia', 'approver');
  const subjectKey = 'eip155:1:0xaa:usdt';
  await raiseAlert(world.pool, 'unknown_inbound', subjectKey, 'an inflow');
  await raiseAlert(world.pool, 'unknown_inbound', 'elsewhere', 'another inflow');
  const caseId = await openCase(world.pool, world.makeId, {
    kind: 'unmatched_inbound',
    severity: 2,
    subjectKey,
    summary: 'an inflow',
  });
  const minor = { kind: 'long_stay', severity: 1, subjectKey: 'effect:9', summary: 'slow' } as const;
  await openCase(world.pool, world.makeId, minor);
  const keys = async (): Promise<string[]> =>
    (await run(['alerts', '--json']))
      .json<{ alerts: { key: string }[] }>()
      .alerts.map((one) => one.key)
      .sort();
  assert.deepEqual(await keys(), [caseId, subjectKey, 'elsewhere'].sort());
  assert.match((await run(['alerts'])).stdout, new RegExp(`case +${caseId} .*unmatched_inbound: an inflow`));
  const made = await run(['case', 'propose', caseId, 'close', '--reason', 'it is ours', '--json'], admin);
  assert.equal((await run(['case', 'approve', made.json<{ proposal_id: string }>().proposal_id], pia)).code, 0);
  assert.deepEqual(await keys(), ['elsewhere']);
});

test('inbound events are listed and shown with their bytes, by number, id or the case’s subject', async (t) => {
  const bank = await startBank({ profile: 'generic' });
  const world = await makeBankWorld({
    label: 'inbox',
    profile: 'generic',
    url: bank.url,
    secret: () => bank.credentials.current(),
  });
  t.after(async () => {
    await world.end();
    await bank.stop();
  });
  const run = payonceOn(world.url);
  await world.pool.query(
    `insert into payonce.inbox (source, external_id, headers, body, state, last_error)
     values ('monitor', 'evt-1', '{}', $1, 'dead', 'it belongs to nothing we know'), ('monitor', 'evt-2', '{}', $1, 'new', null)`,
    [Buffer.from('{"what":"\u001b[2Jhello"}')],
  );
  assert.match((await run(['inbox', 'list'])).stdout, /2 .*evt-2 .*new[^]*1 .*evt-1 .*dead/);
  const dead = await run(['inbox', 'list', '--state', 'dead', '--json']);
  assert.deepEqual(
    dead.json<{ events: { id: string }[] }>().events.map((one) => one.id),
    ['1'],
  );
  for (const asked of ['1', 'evt-1', 'inbox:monitor:evt-1']) {
    const shown = await run(['inbox', 'show', asked]);
    assert.match(shown.stdout, /Event 1 of monitor: evt-1[^]*it belongs to nothing[^]*hello/);
    assert.ok(!shown.stdout.includes('\u001b'));
  }
  assert.equal((await run(['inbox', 'show', 'nothing'])).code, 3);
});
