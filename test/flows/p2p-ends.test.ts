/* P2P: what partners, banks, time and two persons may do to orders and legs, and what they may not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  cancelDepositOrder,
  cancelLeg,
  cancelWithdrawOrder,
  countPayment,
  disputeLeg,
  makeLegVerbs,
  markPaid,
  type PaymentNotice,
  PRICE_DECIMALS,
  switchMatching,
} from '../../src/flows/p2p/index.ts';
import { DEPOSIT_EDGES, LEG_EDGES, WITHDRAW_EDGES } from '../../src/flows/p2p/edges.ts';
import { listDepositOrders, listWithdrawOrders, readQueueGauges } from '../../src/flows/p2p/reads.ts';
import { assertBooksClean } from '../support/books.ts';
import { BUYER, makeP2pScene, ONE, type P2pScene, PRICE, SELLER } from '../support/p2p-scene.ts';

const MINUTES = 60_000;

async function matched(scene: P2pScene): Promise<{ sold: string; bought: string; leg: string }> {
  const sold = await scene.sell();
  const bought = await scene.buy();
  await scene.settleDown();
  const { order, legs } = await scene.deposit(bought);
  assert.equal(order.status, 'MATCHED');
  return { sold, bought, leg: legs[0]?.id ?? '' };
}

async function pay(scene: P2pScene, notice: Partial<PaymentNotice>): ReturnType<typeof countPayment> {
  const whole = { source: 'bank', externalId: 'n-1', reference: '', fiat: 'KRW', fiatAmount: 130_000n, ...notice };
  return scene.world.pool.tx('notice', (tx) => countPayment(tx, scene.world.engine, whole));
}

async function ended(scene: P2pScene): Promise<void> {
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
}

test('the edges of the schema are the table’s (req M4)', async () => {
  const scene = await makeP2pScene();
  const { rows } = await scene.world.pool.query<{ of: string; from_state: string; to_state: string }>(
    'select of, from_state, to_state from payonce.p2p_edges',
  );
  const told = (of: string, edges: Readonly<Record<string, readonly string[]>>): string[] =>
    Object.entries(edges).flatMap(([from, list]) => list.map((to) => `${of} ${from} ${to}`));
  assert.deepEqual(
    rows.map((row) => `${row.of} ${row.from_state} ${row.to_state}`).sort(),
    [
      ...told('deposit_order', DEPOSIT_EDGES),
      ...told('withdraw_order', WITHDRAW_EDGES),
      ...told('leg', LEG_EDGES),
    ].sort(),
  );
  assert.ok(scene.matcher.idleMs <= 1_000, 'M12: once a second');
  assert.equal(PRICE, 1_300n * 10n ** BigInt(PRICE_DECIMALS));
  await ended(scene);
});

test('a buyer cancels what is not matched, once; what is matched is refused with its legs (req M20, case I3)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { engine } = scene.world;
  const waiting = await scene.buy();
  assert.equal(await cancelDepositOrder(engine, SELLER, waiting), 'not_found', 'another partner’s');
  assert.equal(await cancelDepositOrder(engine, BUYER, waiting), 'cancelled');
  assert.equal(await cancelDepositOrder(engine, BUYER, waiting), 'cancelled');
  const { bought, leg } = await matched(scene);
  assert.deepEqual(await cancelDepositOrder(engine, BUYER, bought), { matched: [leg] });
  assert.equal(await cancelLeg(engine, BUYER, leg), 'cancelled');
  assert.deepEqual(await scene.events(bought), ['created', 'matched', 'leg_ended', 'cancelled']);
  assert.deepEqual(await cancelDepositOrder(engine, BUYER, bought), 'cancelled');
  await ended(scene);
});

test('a seller gets back what no leg has, and closes with the last leg (req M13)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const before = await scene.available(SELLER);
  const sold = await scene.sell({ amount: 150n * ONE });
  const bought = await scene.buy();
  await scene.settleDown();
  assert.equal(await cancelWithdrawOrder(scene.world.engine, SELLER, sold), 'closing');
  assert.equal(await scene.available(SELLER), before - 100n * ONE);
  const [leg] = (await scene.deposit(bought)).legs;
  await scene.confirm(leg?.id ?? '');
  const { order } = await scene.withdraw(sold);
  assert.deepEqual(
    [order.status, order.closeReason, order.givenBack],
    ['PARTIALLY_SETTLED', 'CANCELLED_BY_PARTNER', 50n * ONE],
  );
  assert.deepEqual(await scene.events(sold), ['created', 'matched', 'leg_settled', 'partially_settled']);
  await ended(scene);
});

test('a leg that is marked as paid has no timer; one that is not ends in time (design §7)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { leg, bought } = await matched(scene);
  assert.equal(await markPaid(scene.world.pool, scene.world.engine, { partnerId: SELLER, legId: leg }), 'not_found');
  assert.equal(await markPaid(scene.world.pool, scene.world.engine, { partnerId: BUYER, legId: leg }), 'marked');
  await scene.later(60 * MINUTES);
  await scene.settleDown();
  assert.equal((await scene.deposit(bought)).order.status, 'MATCHED');
  assert.deepEqual(await cancelLeg(scene.world.engine, BUYER, leg), { ended: 'said to be paid: a dispute decides it' });
  assert.deepEqual(await scene.confirm(leg), { outcome: 'settled' });
  await ended(scene);
});

test('40 % before the deadline and 80 % after it: credited once, the rest is a person’s (case I1)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { leg, bought } = await matched(scene);
  assert.deepEqual(await pay(scene, { reference: leg, fiatAmount: 52_000n }), {
    outcome: 'counted',
    fate: 'part',
    legId: leg,
  });
  await scene.later(60 * MINUTES);
  await scene.settleDown();
  assert.deepEqual(await pay(scene, { reference: leg, externalId: 'n-2', fiatAmount: 104_000n }), {
    outcome: 'counted',
    fate: 'over',
    legId: leg,
  });
  assert.deepEqual(await pay(scene, { reference: leg, externalId: 'n-2', fiatAmount: 104_000n }), {
    outcome: 'known',
    fate: 'over',
    differs: false,
  });
  assert.equal((await scene.deposit(bought)).order.status, 'COMPLETED');
  assert.equal(await scene.available(BUYER), 100n * ONE);
  const { rows } = await scene.world.pool.query<{ summary: string }>(
    "select summary from payonce.cases where kind = 'payment_unclear'",
  );
  assert.match(rows[0]?.summary ?? '', /26000 KRW too much/);
  await ended(scene);
});

test('what is paid late for an amount that has gone elsewhere, or for no leg, is kept and is a person’s (case I1)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { leg } = await matched(scene);
  await scene.later(16 * MINUTES);
  await scene.settleDown();
  const other = await scene.buy();
  await scene.settleDown();
  assert.equal((await scene.deposit(other)).order.status, 'MATCHED', 'the seller’s amount is another buyer’s now');
  assert.equal((await pay(scene, { reference: leg })).fate, 'late');
  assert.equal((await pay(scene, { reference: 'leg_of_nobody', externalId: 'n-2' })).fate, 'unmatched');
  const { rows } = await scene.world.pool.query(
    "select 1 from payonce.cases where kind = 'payment_unclear' and closed_at is null",
  );
  assert.equal(rows.length, 2);
  assert.equal(await scene.available(BUYER), 0n);
  await ended(scene);
});

test('a disputed leg is frozen for both sides until two persons say what happened (rails.md §4)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { pool, engine } = scene.world;
  const { leg, bought } = await matched(scene);
  assert.equal(await disputeLeg(pool, engine, { partnerId: 'par_own', legId: leg, reason: '' }), 'not_found');
  assert.equal(
    await disputeLeg(pool, engine, { partnerId: BUYER, legId: leg, reason: 'paid, not confirmed' }),
    'disputed',
  );
  assert.deepEqual(await scene.confirm(leg), { outcome: 'ended', state: 'disputed' });
  await scene.later(60 * MINUTES);
  await scene.settleDown();
  assert.equal((await scene.deposit(bought)).order.status, 'MATCHED');
  const verbs = makeLegVerbs(pool, engine);
  const about = { kind: 'leg_disputed', subjectKey: `leg:${leg}` };
  assert.equal(await verbs.p2p_settle.objection(about, {}), null);
  const did = await pool.tx('approve', async (tx) =>
    verbs.p2p_settle.carryOut?.(tx, { id: 'prop_1', about, detail: {} }),
  );
  assert.deepEqual(did, { did: `leg ${leg} was settled`, closesCase: true });
  assert.equal(await scene.available(BUYER), 100n * ONE);
  const fix = { direction: 'recall', amount: '40' };
  await pool.tx('approve', async (tx) => verbs.p2p_correct.carryOut?.(tx, { id: 'prop_2', about, detail: fix }));
  await pool.tx('approve', async (tx) => verbs.p2p_correct.carryOut?.(tx, { id: 'prop_3', about, detail: fix }));
  assert.equal(await scene.available(BUYER), 20n * ONE, 'each correction has a key of its own (req W4)');
  await ended(scene);
});

test('no user is matched with itself, nor outside its market, and a partner’s matching can be switched off (req M8, M22)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { pool } = scene.world;
  await scene.sell({ partnerId: SELLER, userRef: 'kim', amount: 200n * ONE });
  const own = await scene.buy({ partnerId: SELLER, userRef: 'kim' });
  const cheap = await scene.buy({ price: PRICE - 1n });
  await scene.settleDown();
  assert.equal((await scene.deposit(own, SELLER)).order.status, 'PENDING');
  assert.equal((await scene.deposit(cheap)).order.status, 'PENDING', 'no seller gives it for that');
  assert.equal(await switchMatching(pool, BUYER, true), true);
  const off = await scene.buy();
  await scene.settleDown();
  assert.equal((await scene.deposit(off)).order.waitReason, 'MATCHING_IS_OFF');
  const gauges = await readQueueGauges(pool);
  assert.deepEqual([gauges.pending, gauges.matching], [3, 0]);
  assert.ok(gauges.oldestPendingSeconds > 0);
  await switchMatching(pool, BUYER, false);
  await scene.later(5 * MINUTES);
  await scene.settleDown();
  assert.equal((await scene.deposit(off)).order.status, 'MATCHED');
  const page = { before: null, statuses: null, externalId: null, limit: 10 };
  assert.deepEqual(
    (await listDepositOrders(pool, BUYER, page)).map((one) => one.order.id),
    [off, cheap],
  );
  assert.equal((await listWithdrawOrders(pool, SELLER, page)).length, 1);
  await ended(scene);
});

test('what cannot be: below the minimum, above the limit, an unknown market, too little money; each stored under its key', async () => {
  const scene = await makeP2pScene();
  const codeOf = (outcome: Awaited<ReturnType<P2pScene['tryBuy']>>): string =>
    outcome.outcome === 'refused' ? outcome.problem.code : outcome.outcome;
  assert.equal(codeOf(await scene.tryBuy({ amount: ONE - 1n })), 'PO_AMOUNT_OUT_OF_LIMITS');
  assert.equal(codeOf(await scene.trySell({ amount: 100_001n * ONE })), 'PO_AMOUNT_OUT_OF_LIMITS');
  const elsewhere = await scene.tryBuy({ fiat: 'JPY' });
  assert.equal(codeOf(elsewhere), 'PO_MARKET_UNKNOWN');
  assert.match(JSON.stringify(elsewhere), /"expected":"one of: USDT for KRW"/);
  await scene.world.pool.query("insert into payonce.partners (id, name) values ('par_alone', 'Alone')");
  const alone = await scene.tryBuy({ partnerId: 'par_alone' });
  assert.equal(codeOf(alone), 'PO_MARKET_UNKNOWN');
  assert.match(JSON.stringify(alone), /You belong to no group.*let you join one/);
  const poor = { partnerId: BUYER, idempotencyKey: 'poor', fingerprint: 'poor' };
  assert.equal(codeOf(await scene.trySell(poor)), 'PO_INSUFFICIENT_FUNDS');
  const again = await scene.trySell(poor);
  assert.deepEqual([codeOf(again), again.outcome === 'refused' && again.replayed], ['PO_INSUFFICIENT_FUNDS', true]);
  assert.equal((await scene.trySell({ ...poor, fingerprint: 'other' })).outcome, 'key_reused');
  await ended(scene);
});
