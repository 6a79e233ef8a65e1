/**
 * Issue 4, show 4: energy is paid once even if the worker dies between renting and sealing; and where none can be had, the
 * payment goes back to the queue with a reason, nothing sealed, told once. Method: workers in processes of their own, killed by
 * SIGKILL at each step of a rental, over the simulated TRON and its energy market; the market's own books and the chain's are
 * the judges.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { type EnergyMarket, startEnergyMarket } from '../../sim/tron/energy-market.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import type { Cut } from '../../src/kernel/ports.ts';
import { assertBooksClean } from '../support/books.ts';
import {
  MARKET_ACCOUNT,
  MARKET_RAIL,
  makeSupplyEngine,
  type SupplyEngine,
  type SupplyPlace,
  supplyWorker,
} from '../support/supply-engine.ts';
import { genesisOf, makeTronWorld, TRX, type TronWorld } from '../support/tron-world.ts';
import { balanceOf } from '../support/world.ts';

/** Each step of a rental, and of the payment after it, at which a worker may die. */
const POINTS: readonly (readonly [string, Cut])[] = [
  [
    'before the rental is written down',
    { name: 'commit give back', after: 'payonce.supplies', ordinal: 1, mode: 'before' },
  ],
  ['written down', { name: 'commit give back', after: 'payonce.supplies', ordinal: 1, mode: 'after' }],
  ['sealed, not sent', { name: 'commit seal', ordinal: 1, mode: 'after' }],
  ['half of the order out', { kind: 'http', name: `${MARKET_RAIL} send`, ordinal: 1, mode: 'half_written' }],
  ['half of the answer in', { kind: 'http', name: `${MARKET_RAIL} send`, ordinal: 1, mode: 'half_read' }],
  ['sent, the answer not stored', { kind: 'http', name: `${MARKET_RAIL} send`, ordinal: 1, mode: 'after' }],
  ['taken, not delivered', { name: 'commit record', ordinal: 1, mode: 'after' }],
  ['delivered, the payment not sealed', { name: 'commit seal', ordinal: 2, mode: 'before' }],
  ['the payment sealed, not sent', { name: 'commit seal', ordinal: 2, mode: 'after' }],
];
const GIVE_UP_MS = 60_000;

interface Scene {
  readonly world: TronWorld;
  readonly market: EnergyMarket;
  readonly place: SupplyPlace;
  readonly worker: SupplyEngine;
  /** A withdrawal out of this wallet. */
  pay(wallet: string): Promise<string>;
  /** Blocks and passes until all has ended. */
  drain(): Promise<void>;
  end(): Promise<void>;
}

async function makeScene(label: string, walletCount: number, sun?: bigint): Promise<Scene> {
  const world = await makeTronWorld({ label, walletCount, ...(sun === undefined ? {} : { sun }) });
  const market = await startEnergyMarket({ tron: world.tron });
  await world.pool.query(`insert into payonce.rails (name) values ($1) on conflict do nothing`, [MARKET_RAIL]);
  await world.pool.query(
    "insert into payonce.signers (rail, address, label, next_nonce) values ($1, $2, 'account at the market', 0)",
    [MARKET_RAIL, MARKET_ACCOUNT],
  );
  const place: SupplyPlace = {
    databaseUrl: world.url,
    chain: world.tron.rail,
    genesisId: await genesisOf(world.tron.url),
    nodes: world.tron.nodes.map((node) => node.url),
    keys: world.wallets.map((_, index): `0x${string}` => `0x${(index + 17).toString(16).padStart(64, '0')}`),
    market: { url: market.url, apiKey: market.apiKey },
    gasWallets: world.wallets.slice(-1),
  };
  const worker = await makeSupplyEngine(place);
  return {
    world,
    market,
    place,
    worker,
    async pay(wallet) {
      await world.pool.query('update payonce.asset_policies set wallet = $1', [wallet]);
      const [created] = await createWithdrawals(world, [world.request({ destination: world.outsider() })]);
      return created?.outcome === 'created' ? created.id : assert.fail(JSON.stringify(created));
    },
    async drain() {
      for (let round = 0; round < 200; round += 1) {
        await makeDue(world);
        await worker.pass();
        const { rowCount } = await world.pool.query('select 1 from payonce.effects where ended_at is null limit 1');
        if (rowCount === 0) return;
        if (round % 4 === 0) world.mine(2); // Slowly: a head an hour ahead of our clock is not believed.
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      assert.fail('it does not end');
    },
    async end() {
      await worker.close();
      await market.stop();
      await world.end();
    },
  };
}

/** What waits may be asked for at once; a dead worker's lease runs out by itself. */
async function makeDue(world: TronWorld): Promise<void> {
  await world.pool.query(
    "update payonce.effects set next_at = payonce.now() - interval '1 second' where ended_at is null and lease_until is null",
  );
}

test('a worker killed at each step between renting and sealing: each payment is made once, and its energy is paid once (req R16, P3, inv E1)', async (t) => {
  const scene = await makeScene('supplies-crash', POINTS.length);
  const { world, market } = scene;
  const ids: string[] = [];
  try {
    for (const [index, [name, cut]] of POINTS.entries()) {
      ids.push(await scene.pay(world.wallets[index] ?? ''));
      const killed = supplyWorker(scene.place, cut);
      for (let round = 0; killed.process.signalCode === null && round < 400; round += 1) {
        if (round % 4 === 0) world.mine(1);
        await makeDue(world);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      if (killed.process.signalCode === null) killed.process.kill('SIGTERM');
      assert.equal(await killed.gone, 'SIGKILL', `${name}: it did not die there`);
      await scene.drain();
      assert.equal(market.books.orders().length, ids.length, `${name}: one order for one payment`);
    }
    const paid = await world.paid();
    assert.equal(paid.length, ids.length);
    assert.equal(new Set(paid.map((one) => one.to)).size, ids.length);
    const orders = market.books.orders();
    assert.equal(new Set(orders.map((one) => one.clientOrderId)).size, ids.length);
    assert.equal(new Set(orders.map((one) => one.receiver)).size, ids.length);
    const booked = await balanceOf(world, `custody:${world.tron.rail}:${MARKET_ACCOUNT}`, world.coinAssetId);
    assert.equal(booked.balance, market.books.paidSun(), 'our books and the market’s agree to the unit');
    t.diagnostic(`${POINTS.length} workers killed; ${orders.length} orders, ${market.books.paidSun()} sun`);
    await assertBooksClean(world.pool);
  } finally {
    await scene.end();
  }
});

async function reasonOf(world: TronWorld): Promise<string> {
  const { rows } = await world.pool.query<{ text: string }>(
    "select state || ' ' || coalesce(identity, 'unsealed') || ' ' || coalesce(wait_reason, '') as text from payonce.effects where subject_type = 'withdrawal'",
  );
  return rows[0]?.text ?? '';
}

async function openAlerts(world: TronWorld): Promise<string[]> {
  const { rows } = await world.pool.query<{ kind: string }>(
    'select kind from payonce.alerts where cleared_at is null order by kind',
  );
  return rows.map((row) => row.kind);
}

test('energy refused: the payment is in the queue with the reason, nothing of it is sealed, told once; when there is some it is paid once (req R4, R16)', async () => {
  const scene = await makeScene('supplies-refused', 1);
  const { world, market, worker } = scene;
  try {
    market.script({ on: 'create', fault: { kind: 'refuse', reason: 'no_supply' } });
    await scene.pay(world.wallets[0] ?? '');
    for (let round = 0; round < 8; round += 1) {
      await makeDue(world);
      await worker.pass();
      await new Promise((resolve) => setTimeout(resolve, 120));
    }
    assert.match(
      await reasonOf(world),
      /^PENDING unsealed ENERGY_SHORT: .*; rental nrg_\w+ is under way \(HTTP 422 no_supply \(no energy to be had\)\)$/,
    );
    await world.pool.query('update payonce.needs set first_at = first_at - make_interval(secs => $1::float8 / 1000)', [
      GIVE_UP_MS,
    ]);
    for (let round = 0; round < 3; round += 1) {
      await makeDue(world);
      await worker.pass();
    }
    assert.match(await reasonOf(world), /waited for 6\d s$/);
    assert.deepEqual(await openAlerts(world), ['energy_short', 'energy_unavailable']);
    const { rows } = await world.pool.query<{ alerts: number; orders: number }>(
      `select (select count(*)::int from payonce.alerts) as alerts,
              (select count(*)::int from payonce.effects where subject_type = 'energy') as orders`,
    );
    assert.deepEqual(rows[0], { alerts: 2, orders: 1 }, 'one order, asked for again under its own id; told once each');
    assert.ok((market.calls.create ?? 0) > 1);
    assert.equal(market.books.paidSun(), 0n);
    assert.deepEqual(await world.paid(), []);
    market.heal();
    await scene.drain();
    assert.equal(market.books.orders().length, 1);
    assert.equal((await world.paid()).length, 1);
    assert.ok(!(await openAlerts(world)).includes('energy_unavailable'), 'what has come is told no more');
    await assertBooksClean(world.pool);
  } finally {
    await scene.end();
  }
});

test('a market that refuses what it then does is found out by the next question, and paid once (req R16)', async () => {
  const scene = await makeScene('supplies-lie', 1);
  const { world, market } = scene;
  try {
    market.script({ on: 'create', calls: [1], fault: { kind: 'lie', reason: 'no_supply' } });
    await scene.pay(world.wallets[0] ?? '');
    await scene.drain();
    assert.equal(market.books.orders().length, 1);
    assert.equal((await world.paid()).length, 1);
    await assertBooksClean(world.pool);
  } finally {
    await scene.end();
  }
});

test('a wallet without TRX for its bandwidth: nothing is sealed until a gas wallet has brought some, once (req R7, R16)', async () => {
  const scene = await makeScene('supplies-bandwidth', 2, 0n);
  const { world, worker } = scene;
  const [wallet, gasWallet] = world.wallets;
  try {
    assert.ok(wallet !== undefined && gasWallet !== undefined);
    // The free bandwidth of the day is used up.
    world.tron.fund(wallet, 10n);
    world.tron.stake(wallet, { energy: 1_000_000n });
    for (let used = 0; used < 2; used += 1) {
      world.tron.act(wallet, { kind: 'send', to: gasWallet, sun: 1n });
      world.mine(1);
    }
    await scene.pay(wallet);
    for (let round = 0; round < 3; round += 1) {
      await makeDue(world);
      await worker.pass();
    }
    const reason = await reasonOf(world);
    assert.match(reason, /^PENDING unsealed GAS_SHORT/, reason);
    world.tron.fund(gasWallet, 500n * TRX);
    await scene.drain();
    assert.equal((await world.paid()).length, 1);
    const { rows } = await world.pool.query<{ count: number }>(
      "select count(*)::int as count from payonce.effects where subject_type = 'topup'",
    );
    assert.equal(rows[0]?.count, 1);
    await assertBooksClean(world.pool);
  } finally {
    await scene.end();
  }
});
