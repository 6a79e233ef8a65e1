/*
 * Goal: operators see and steer P2P at the command line: groups and members, orders and why they wait, payments that nobody can
 * place, and legs that two persons decide. Method: the real program against a market with its matcher; the audit log is read.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadGauges } from '../../src/audit/gauges.ts';
import { countPayment, disputeLeg } from '../../src/flows/p2p/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { BUYER, makeP2pScene, ONE, type P2pScene, SELLER } from '../support/p2p-scene.ts';
import { addOperator, firstAdmin, payonceOn } from './cli-scene.ts';

interface People {
  readonly run: ReturnType<typeof payonceOn>;
  readonly ann: string;
  readonly bob: string;
}

async function people(scene: P2pScene): Promise<People> {
  const run = payonceOn(scene.world.url);
  const admin = await firstAdmin(run);
  return {
    run,
    ann: await addOperator(run, admin, 'Ann', 'operator'),
    bob: await addOperator(run, admin, 'Bob', 'approver'),
  };
}

async function ended(scene: P2pScene): Promise<void> {
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
}

/** A buyer's order with one leg of a seller. */
async function matched(scene: P2pScene): Promise<{ sold: string; bought: string; leg: string }> {
  const sold = await scene.sell();
  const bought = await scene.buy();
  await scene.settleDown();
  const [leg] = (await scene.deposit(bought)).legs;
  assert.ok(leg !== undefined);
  return { sold, bought, leg: leg.id };
}

async function auditOf({ world }: P2pScene, partner: string): Promise<string[]> {
  const { rows } = await world.pool.query<{ action: string }>(
    'select action from payonce.audit_log where object = $1 order by seq',
    [partner],
  );
  return rows.map((row) => row.action);
}

test('members come and go by operators, and the audit log names each act (req M22)', async () => {
  const scene = await makeP2pScene({ label: 'cli p2p members' });
  const { run, ann } = await people(scene);
  const { pool } = scene.world;
  await pool.query("insert into payonce.partners (id, name) values ('par_new', 'New')");
  await pool.query("insert into payonce.p2p_groups (name) values ('europe')");
  const shown = await run(['p2p', 'groups']);
  assert.match(shown.stdout, /Group asia\nMEMBER[^\n]*\npar_buyer +Buyers +on\n/);
  assert.match(shown.stdout, /USDT\/KRW +1 +100000 +1 +0 +configured\n/);
  assert.match(shown.stdout, /escrow:lp +USDT\/KRW +the group +0 +1 +1000 +asked\n/);

  assert.equal((await run(['p2p', 'join', 'par_new', 'asia'])).code, 2, 'nobody said who it is');
  const unknown = await run(['p2p', 'join', 'par_none', 'asia', '--json'], ann);
  assert.equal(unknown.code, 3);
  assert.match(unknown.problem().detail, /<partner>: got "par_none", expected the id of a partner/);
  const nowhere = await run(['p2p', 'join', 'par_new', 'mars', '--json'], ann);
  assert.equal(nowhere.code, 3);
  assert.match(nowhere.problem().detail, /<group>: got "mars", expected one of: asia, europe/);
  assert.match((await run(['p2p', 'join', 'par_new', 'asia'], ann)).stdout, /^par_new is in asia/);
  assert.match((await run(['p2p', 'join', 'par_new', 'asia'], ann)).stdout, /was in asia already/);
  const other = await run(['p2p', 'join', 'par_new', 'europe', '--json'], ann);
  assert.equal(other.code, 4);
  assert.match(other.problem().detail, /got "europe", expected "asia", the group that par_new is in/);
  assert.match((await run(['p2p', 'leave', 'par_new'], ann)).stdout, /^par_new has left asia/);
  const gone = await run(['p2p', 'leave', 'par_new', '--json'], ann);
  assert.equal(gone.code, 3);
  assert.match(gone.problem().detail, /got "par_new", which is in no group/);
  assert.deepEqual(await auditOf(scene, 'par_new'), ['p2p.joined', 'p2p.left']);

  const order = await scene.buy({ amount: 2_000n * ONE });
  const held = await run(['p2p', 'leave', BUYER, '--json'], ann);
  assert.equal(held.code, 4);
  assert.match(held.problem().detail, new RegExp(`got "par_buyer" with 1 open order \\(${order}\\), expected`));
  await ended(scene);
});

test('matching of a partner is switched off and on, orders tell why they wait, and the gauges count them (req M5, M22)', async () => {
  const scene = await makeP2pScene({ label: 'cli p2p matching', routes: [] });
  const { run, ann } = await people(scene);
  assert.equal((await run(['p2p', 'matching', 'maybe', BUYER], ann)).code, 2);
  assert.equal((await run(['p2p', 'matching', 'off', BUYER])).code, 2, 'nobody said who it is');
  assert.match((await run(['p2p', 'matching', 'off', BUYER], ann)).stdout, /^Orders of par_buyer wait until/);
  const sold = await scene.sell();
  const bought = await scene.buy();
  await scene.settleDown();
  assert.match((await run(['p2p', 'groups'])).stdout, /par_buyer +Buyers +off since/);
  const { orders } = (await run(['p2p', 'orders', '--json'])).json<{ orders: Record<string, string>[] }>();
  assert.deepEqual(
    orders.map((one) => [one['id'], one['side'], one['status'], one['amount'], one['remaining_amount'], one['price']]),
    [
      [bought, 'deposit', 'PENDING', '100', '100', '1300'],
      [sold, 'withdraw', 'OPEN', '100', '100', '1300'],
    ],
  );
  const gauges = await loadGauges(scene.world.pool);
  const count = (state: string): number | undefined =>
    gauges.find((one) => one.name === 'p2p_orders' && one.labels['state'] === state)?.value;
  assert.deepEqual([count('pending'), count('matching'), count('waits_lp')], [1, 0, 0]);
  assert.equal(gauges.filter((one) => one.name === 'p2p_orders_oldest_seconds').length, 3);

  await run(['p2p', 'matching', 'on', BUYER], ann);
  await scene.later(60_000);
  await scene.settleDown();
  assert.match(
    (await run(['p2p', 'orders', '--status', 'matched'])).stdout,
    new RegExp(`^ORDER.*\n${bought} +deposit +MATCHED +.* par_buyer +asia +100 USDT +0 +1300 KRW +-\n$`),
  );
  assert.match((await run(['p2p', 'orders', '--partner', SELLER])).stdout, new RegExp(`${sold} +withdraw +OPEN`));
  assert.equal((await run(['p2p', 'orders', '--status', 'lost'])).code, 2);
  assert.deepEqual(await auditOf(scene, BUYER), ['p2p.matching_off', 'p2p.matching_on']);
  await ended(scene);
});

test('an order shows its legs, trades, payments and cases; what no leg is named by is unclear (req M5, M13, case I1)', async () => {
  const scene = await makeP2pScene({ label: 'cli p2p order' });
  const { pool, engine } = scene.world;
  const { run } = await people(scene);
  const lp = await scene.buy({ amount: 50n * ONE });
  await scene.settleDown();
  const traded = await run(['p2p', 'order', lp]);
  assert.match(traded.stdout, /Trades at providers\nEFFECT.*\n\d+ +leg_\w+ +open +escrow:lp +SETTLED +/);
  const { bought, sold, leg } = await matched(scene);
  const pay = (externalId: string, reference: string, fiatAmount: bigint): Promise<unknown> =>
    pool.tx('payment', (tx) =>
      countPayment(tx, engine, { source: 'payments-kb', externalId, reference, fiat: 'KRW', fiatAmount }),
    );
  await pay('a', leg, 1_000n);
  await pay('b', 'rent', 7n);
  const seen = await run(['p2p', 'order', bought]);
  for (const part of [
    new RegExp(`^Deposit order ${bought}\n`),
    /status +matched\n/,
    new RegExp(`${leg} +open +100 +130000 +${sold} +.*said to be paid`),
    /payments-kb +a +1000 KRW +part/,
  ])
    assert.match(seen.stdout, part);
  assert.match((await run(['p2p', 'order', sold])).stdout, new RegExp(`${leg} +open +100 +130000 +${bought}`));
  await disputeLeg(pool, engine, { partnerId: BUYER, legId: leg, reason: 'paid, not confirmed' });
  const story = (await run(['p2p', 'order', bought, '--json'])).json<{
    open_cases: { kind: string }[];
    payments: { fate: string }[];
    legs: { disputed: boolean }[];
  }>();
  assert.deepEqual(
    [story.open_cases[0]?.kind, story.payments[0]?.fate, story.legs[0]?.disputed],
    ['leg_disputed', 'part', true],
  );
  const unclear = await run(['p2p', 'payments', '--unclear']);
  assert.match(unclear.stdout, /payments-kb +b +7 KRW +unmatched +- +- +rent +case_/);
  assert.doesNotMatch(unclear.stdout, /1000 KRW/);
  assert.match((await run(['p2p', 'payments'])).stdout, /1000 KRW/);
  assert.equal((await run(['p2p', 'order', 'dep_none'])).code, 3);
  await ended(scene);
});

test('two persons settle a disputed leg and correct it, by the verbs of its case (req W4)', async () => {
  const scene = await makeP2pScene({ label: 'cli p2p verbs', routes: [] });
  const { pool, engine } = scene.world;
  const { run, ann, bob } = await people(scene);
  const { leg } = await matched(scene);
  const openCase = async (kind: string): Promise<string> => {
    const { rows } = await pool.query<{ id: string }>(
      'select id from payonce.cases where kind = $1 and closed_at is null',
      [kind],
    );
    return rows[0]?.id ?? '';
  };
  const decide = async (...words: string[]) => {
    const proposed = await run(['case', 'propose', ...words, '--reason', 'seen at the bank', '--json'], ann);
    if (proposed.code !== 0) return proposed;
    return run(['case', 'approve', proposed.json<{ proposal_id: string }>().proposal_id], bob);
  };
  await disputeLeg(pool, engine, { partnerId: BUYER, legId: leg, reason: 'paid, not confirmed' });
  const disputed = await openCase('leg_disputed');
  assert.match((await run(['case', 'show', disputed])).stdout, /p2p_settle/);
  assert.match((await decide(disputed, 'p2p_settle')).stdout, new RegExp(`^Done: leg ${leg} was settled`));
  assert.equal(await scene.available(BUYER), 100n * ONE);
  assert.equal(await openCase('leg_disputed'), '');

  // The seller's bank tells of it once more.
  const again = { source: 'payments-kb', externalId: 'x', reference: leg, fiat: 'KRW', fiatAmount: 130_000n };
  await pool.tx('payment', (tx) => countPayment(tx, engine, again));
  const unclear = await openCase('payment_unclear');
  assert.match((await decide(unclear, 'p2p_settle')).stderr, /there is no leg .* name it by/);
  assert.match((await decide(unclear, 'p2p_settle', '--leg', leg)).stderr, /it is settled/);
  assert.match((await decide(unclear, 'p2p_void', '--leg', leg)).stderr, /it is settled/);
  assert.match((await decide(unclear, 'p2p_correct', '--leg', leg)).stderr, /p2p_correct needs --amount AMOUNT/);
  const correct = ['p2p_correct', '--leg', leg, '--direction', 'recall', '--amount'];
  assert.match((await decide(unclear, ...correct, '101')).stderr, /at most the leg/);
  assert.match((await decide(unclear, ...correct, '40')).stdout, /^Done: leg .* was corrected \(recall\)/);
  assert.equal(await scene.available(BUYER), 60n * ONE);
  await ended(scene);
});

test('a settled leg is corrected in a case that the proposal opens, with both persons in the audit log (req W4)', async () => {
  const scene = await makeP2pScene({ label: 'cli p2p correct', routes: [] });
  const { run, ann, bob } = await people(scene);
  const { leg } = await matched(scene);
  const correct = (amount: string, ...more: string[]) =>
    run(['p2p', 'correct', leg, '--direction', 'recall', '--amount', amount, '--reason', 'charged back', ...more], ann);
  const early = await correct('40', '--json');
  assert.equal(early.code, 4);
  assert.match(early.problem().detail, /it is open; only what was settled is corrected/);
  await scene.confirm(leg);
  assert.equal(
    (await run(['p2p', 'correct', 'leg_none', '--direction', 'recall', '--amount', '1', '--reason', 'x'], ann)).code,
    3,
  );
  assert.match((await correct('101', '--json')).problem().detail, /at most the leg/);
  const first = (await correct('40', '--json')).json<{ proposal_id: string; case_id: string }>();
  const again = await correct('30');
  assert.match(
    again.stdout,
    new RegExp(`^Proposed to take back 30 of ${leg} as prop_\\w+, in case ${first.case_id}\\.`),
  );
  const shown = await run(['case', 'show', first.case_id]);
  for (const part of [/leg_correction/, /at risk +40 USDT/, new RegExp(`about +leg:${leg}`), /next +see the leg/])
    assert.match(shown.stdout, part);
  assert.equal((await run(['case', 'approve', first.proposal_id], bob)).code, 4, 'it was replaced');
  const proposal = /as (prop_\w+)/.exec(again.stdout)?.[1] ?? '';
  assert.match((await run(['case', 'approve', proposal], ann)).stderr, /second person|approver/);
  assert.match((await run(['case', 'approve', proposal], bob)).stdout, new RegExp(`^Done: leg ${leg} was corrected`));
  assert.equal(await scene.available(BUYER), 70n * ONE);
  assert.match((await run(['case', 'list'])).stdout, /No open case\./);
  assert.deepEqual(await auditOf(scene, first.case_id), [
    'case.proposed.p2p_correct',
    'case.replaced',
    'case.proposed.p2p_correct',
    'case.approved.p2p_correct',
  ]);
  await ended(scene);
});
