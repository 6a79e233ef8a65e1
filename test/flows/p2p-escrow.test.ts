/*
 * Goal: orders, engine and the escrow rail together: one trade per leg whatever gets lost, money only when the provider released,
 * given back only when nobody can have paid. Method: real PostgreSQL, the rail on a real socket, a provider with a book of its own.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { makeMetrics } from '../../src/api/metrics.ts';
import { readOrder } from '../../src/audit/p2p-list.ts';
import { cancelLeg } from '../../src/flows/p2p/index.ts';
import { listWithdrawOrders } from '../../src/flows/p2p/reads.ts';
import { type EscrowRail, makeEscrowRail, TRADE_PROFILES } from '../../src/rails/escrow/index.ts';
import { type Provider, startProvider, type Trade } from '../rails/escrow-provider.ts';
import { assertBooksClean } from '../support/books.ts';
import { BUYER, makeP2pScene, ONE, type P2pScene, SELLER } from '../support/p2p-scene.ts';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Together {
  readonly scene: P2pScene;
  readonly provider: Provider;
  /** The provider's book has this one trade. */
  readonly trade: () => Trade;
  readonly status: (order: string) => Promise<string>;
  readonly cases: () => Promise<string[]>;
}

async function together(): Promise<Together> {
  const provider = await startProvider();
  closing.push(() => provider.stop());
  const [standard] = TRADE_PROFILES;
  assert.ok(standard !== undefined);
  const scene = await makeP2pScene({
    rail(ports) {
      const rail: EscrowRail = makeEscrowRail(
        {
          name: 'escrow:lp',
          profile: standard,
          baseUrl: provider.url,
          account: 'lp-account',
          credential: { id: 'cred_1', secret: () => 'lp-secret-1' },
          deployment: 'test',
          capabilities: { resendAfterMs: 1 },
        },
        { ports, http: { timeoutMs: 500 } },
      );
      closing.push(() => rail.close());
      return rail;
    },
  });
  return {
    scene,
    provider,
    trade() {
      const [trade, second] = [...provider.trades.values()];
      assert.ok(trade !== undefined && second === undefined, `${provider.trades.size} trades in the book`);
      return trade;
    },
    status: async (order) => (await scene.deposit(order)).order.status,
    async cases() {
      const { rows } = await scene.world.pool.query<{ kind: string }>(
        'select kind from payonce.cases where closed_at is null order by kind',
      );
      return rows.map((row) => row.kind);
    },
  };
}

async function end({ world }: P2pScene): Promise<void> {
  await assertBooksClean(world.pool);
  await world.end();
}

test('a create whose answer is lost is asked again under its key: one trade, and its order waits meanwhile (case B2, req M9)', async () => {
  const { scene, provider, trade, status } = await together();
  const order = await scene.buy();
  provider.next = 'lost';
  provider.lags = true;
  await scene.settleDown();
  await scene.settleDown();
  assert.equal(await status(order), 'MATCHED');
  const posts = provider.asked.filter((one) => one.method === 'POST');
  assert.equal(posts.length, 2, 'lost, and asked again');
  assert.equal(new Set(posts.map((one) => `${String(one.headers['idempotency-key'])} ${one.body}`)).size, 1);
  provider.lags = false;
  assert.equal(await scene.available(BUYER), 0n);
  Object.assign(trade(), { state: 'released', paid_marked_at: '2030-01-02T03:30:00Z', released_amount: '100' });
  await scene.settleDown();
  assert.equal(await status(order), 'COMPLETED');
  assert.equal(await scene.available(BUYER), 100n * ONE);
  await end(scene);
});

test('an order whose trade is unknown stays in matching, however long the provider is silent (case B2, req M18)', async () => {
  const { scene, provider, trade, status } = await together();
  const order = await scene.buy();
  provider.lags = true;
  provider.next = 'lost';
  provider.broken = { status: 500, body: 'down' };
  await scene.settleDown();
  await scene.later(24 * 3_600_000);
  await scene.settleDown();
  assert.equal(await status(order), 'MATCHING');
  provider.broken = null;
  await scene.settleDown();
  assert.equal(await status(order), 'MATCHED');
  assert.equal(trade()['state'], 'created');
  await end(scene);
});

test('while a trade is being opened no partner is told of the order’s other legs, and people are (req M18)', async () => {
  const { scene, provider, status } = await together();
  const { pool } = scene.world;
  const sold = await scene.sell({ amount: 40n * ONE });
  const order = await scene.buy();
  provider.next = 'lost';
  provider.broken = { status: 500, body: 'down' };
  provider.lags = true;
  await scene.settleDown();
  const { legs } = await scene.withdraw(sold);
  assert.deepEqual([await status(order), legs.length], ['MATCHING', 0]);
  const filter = { before: null, statuses: null, externalId: null, limit: 5 };
  assert.deepEqual(
    (await listWithdrawOrders(pool, SELLER, filter)).map((one) => one.legs.length),
    [0],
  );
  assert.equal((await readOrder(pool, sold)).legs.length, 1, 'an operator sees what is reserved');
  provider.broken = null;
  await scene.settleDown();
  assert.deepEqual([await status(order), (await scene.withdraw(sold)).legs.length], ['MATCHED', 1]);
  await end(scene);
});

test('a trade that ended after a claim of payment is a case, gives nothing back, and settles if the provider releases after all (case I3)', async () => {
  const { scene, trade, status, cases } = await together();
  const order = await scene.buy();
  await scene.settleDown();
  Object.assign(trade(), { state: 'cancelled', paid_marked_at: '2030-01-02T03:30:00Z' });
  await scene.settleDown();
  assert.deepEqual(await cases(), ['rail_asks']);
  const [leg] = (await scene.deposit(order)).legs;
  assert.deepEqual([await status(order), leg?.state], ['MATCHED', 'OPEN']);
  Object.assign(trade(), { state: 'released', released_amount: '100' });
  await scene.settleDown();
  assert.equal(await status(order), 'COMPLETED');
  assert.equal(await scene.available(BUYER), 100n * ONE);
  await end(scene);
});

test('a trade that ended unpaid gives its amount back, and the buyer gets nothing', async () => {
  const { scene, trade, cases, status } = await together();
  const order = await scene.buy();
  await scene.settleDown();
  Object.assign(trade(), { state: 'expired' });
  await scene.settleDown();
  const { legs, order: read } = await scene.deposit(order);
  assert.deepEqual([legs[0]?.state, read.remaining], ['VOID', 100n * ONE]);
  assert.notEqual(await status(order), 'MATCHED');
  assert.deepEqual([await cases(), await scene.available(BUYER)], [[], 0n]);
  await end(scene);
});

test('released in part is a case, and no money until people have agreed', async () => {
  const { scene, trade, cases, status } = await together();
  const order = await scene.buy();
  await scene.settleDown();
  Object.assign(trade(), { state: 'released', paid_marked_at: '2030-01-02T03:30:00Z', released_amount: '60' });
  await scene.settleDown();
  assert.deepEqual([await cases(), await status(order), await scene.available(BUYER)], [['rail_asks'], 'MATCHED', 0n]);
  await end(scene);
});

test('a buyer’s partner gives a trade up: the provider is asked by an act of its own, and the leg ends with the trade (case I3)', async () => {
  const { scene, provider, trade } = await together();
  const order = await scene.buy();
  await scene.settleDown();
  const leg = (await scene.deposit(order)).legs[0]?.id ?? assert.fail('no leg');
  provider.next = 'lost';
  assert.equal(await cancelLeg(scene.world.engine, BUYER, leg), 'asked');
  assert.equal((await scene.deposit(order)).legs[0]?.state, 'OPEN', 'until the provider says so');
  await scene.settleDown();
  await scene.settleDown();
  assert.equal(trade()['state'], 'cancelled');
  assert.equal((await scene.deposit(order)).legs[0]?.state, 'VOID');
  assert.deepEqual(await effectStates(scene), ['p2p_cancel SETTLED', 'p2p_leg RELEASED']);
  await end(scene);
});

test('a release that was quicker than the cancel settles the leg, and the cancel came to nothing (case I3)', async () => {
  const { scene, trade, status } = await together();
  const order = await scene.buy();
  await scene.settleDown();
  const leg = (await scene.deposit(order)).legs[0]?.id ?? assert.fail('no leg');
  Object.assign(trade(), { state: 'released', paid_marked_at: '2030-01-02T03:30:00Z', released_amount: '100' });
  assert.equal(await cancelLeg(scene.world.engine, BUYER, leg), 'asked');
  await scene.settleDown();
  await scene.settleDown();
  assert.equal(await status(order), 'COMPLETED');
  assert.deepEqual(await effectStates(scene), ['p2p_cancel RELEASED', 'p2p_leg SETTLED']);
  assert.equal(await scene.available(BUYER), 100n * ONE);
  await end(scene);
});

async function effectStates({ world }: P2pScene): Promise<string[]> {
  const { rows } = await world.pool.query<{ shown: string }>(
    "select subject_type || ' ' || state as shown from payonce.effects order by 1",
  );
  return rows.map((row) => row.shown);
}

test('how long a provider takes to open trades is a histogram per rail, each trade once, and every gauge of the queue is there with zero (req M22)', async () => {
  const { scene, trade } = await together();
  const { pool, engine, ports } = scene.world;
  const metrics = makeMetrics({ pool, engine, ports });
  const figures = async (): Promise<Map<string, string>> => {
    // Answers of one second are kept.
    await new Promise((resolve) => setTimeout(resolve, 1_050));
    return new Map(
      (await metrics.print())
        .split('\n')
        .filter((line) => line.startsWith('payonce_p2p_') || line.startsWith('payonce_lp_'))
        .map((line) => [line.slice(0, line.lastIndexOf(' ')), line.slice(line.lastIndexOf(' ') + 1)]),
    );
  };
  const rail = 'rail="escrow:lp"';
  const before = await figures();
  for (const state of ['pending', 'matching', 'waits_lp'])
    for (const name of ['p2p_orders', 'p2p_orders_oldest_seconds'])
      assert.equal(before.get(`payonce_${name}{state="${state}"}`), '0', `${name} ${state}`);
  assert.equal(before.get(`payonce_lp_trade_seconds_count{${rail}}`), '0');
  await scene.buy();
  assert.equal((await figures()).get('payonce_p2p_orders{state="pending"}'), '1');
  await scene.settleDown();
  for (const seen of [{}, { state: 'released', released_amount: '100' }]) {
    Object.assign(trade(), seen);
    await scene.settleDown();
    const found = await figures();
    assert.equal(
      found.get(`payonce_lp_trade_seconds_count{${rail}}`),
      '1',
      'each trade once, however often it is asked',
    );
    assert.equal(found.get(`payonce_lp_trade_seconds_bucket{le="300",${rail}}`), '1');
    assert.equal(found.get(`payonce_lp_trade_seconds_bucket{le="+Inf",${rail}}`), '1');
    assert.ok(Number(found.get(`payonce_lp_trade_seconds_sum{${rail}}`)) < 300);
    assert.equal(found.get('payonce_p2p_orders{state="pending"}'), '0');
  }
  await end(scene);
});
