/*
 * Matching off the request (M1, M3, M15), beside the incident's way (`p2p-old-way.ts`):
 *   others   how long other buyers wait, to have their order written and to have it matched, while a provider answers in 30 s and
 *            in 10 ms; the same load both times, a fifth of it for the provider.
 *   matched  orders matched in a second by 1, 2 and 4 matchers, every other one by sellers and the rest by a provider, who answers in
 *            50 ms. The peer holds its locks through the call.
 * The provider is a rail that answers after so long; the engine, the matcher and the database are the product's.
 */
import { once } from 'node:events';
import pg from 'pg';
import { migrate } from '../src/db/migrate.ts';
import { makePool, type Pool } from '../src/db/pool.ts';
import { sendOnce } from '../src/engine/advance.ts';
import type { EngineDeps } from '../src/engine/deps.ts';
import { makeEngine } from '../src/engine/engine.ts';
import { makeNoopRail } from '../src/engine/noop.ts';
import type { Rail } from '../src/engine/rail.ts';
import { checkInvariants } from '../src/audit/invariants.ts';
import {
  createDepositOrders,
  createWithdrawOrders,
  type DepositOrderRequest,
  makeMatcher,
  makeP2pFlows,
} from '../src/flows/p2p/index.ts';
import { makeIds } from '../src/kernel/ids.ts';
import { silentLog } from '../src/kernel/log.ts';
import { systemPorts } from '../src/kernel/ports.ts';
import { accountName, makeChart } from '../src/ledger/accounts.ts';
import { post } from '../src/ledger/post.ts';
import { makeOldWay } from './p2p-old-way.ts';
import { type BenchOptions, type BenchResult, compare, median } from './rounds.ts';

const ASSET = 'noop/erc20:token';
const ONE = 1_000_000n;
const PRICE = 1_300n * 10n ** 12n;
/** A price at which no seller gives: only the provider fills it. */
const LOW_PRICE = PRICE - 10n ** 12n;
const BUYERS = 50;
/** Orders a second in "others", and every which one is the provider's. */
const ARRIVING = 60;
const LP_EVERY = 5;
const OTHERS_MS = 20_000;
/** Issue 5's aim: M15. */
const SLOWED_MAX = 1.5;
const SLOW_MS = 30_000;
const FAST_MS = 10;
const MATCHED_ORDERS = 400;
const MATCHED_LP_MS = 50;
const OLD_CONNECTIONS = 32;

interface Market {
  readonly engines: readonly EngineDeps[];
  readonly pools: readonly Pool[];
  readonly rail: Rail;
  /** Of the provider's answers, from now on. */
  latency: { ms: number };
}

export async function benchP2p(serverUrl: string, options: BenchOptions): Promise<BenchResult> {
  const result: BenchResult = { lines: [], counts: [], notes: [] };
  await benchOthers(serverUrl, result);
  await benchMatched(serverUrl, options, result);
  return result;
}

async function benchOthers(serverUrl: string, result: BenchResult): Promise<void> {
  const market = await openMarket(serverUrl, 'bench_p2p_others', 2, true);
  const figures = new Map<number, { written: number; matched: number }>();
  for (const ms of [FAST_MS, SLOW_MS]) figures.set(ms, await measureOthers(market, ms));
  await close(market);
  const [fast, slow] = [figures.get(FAST_MS), figures.get(SLOW_MS)];
  if (fast === undefined || slow === undefined) return;
  for (const what of ['written', 'matched'] as const)
    result.counts.push({
      line: `other buyers' orders ${what}, p99, provider at 30 s ÷ at 10 ms`,
      figure: slow[what] / fast[what],
      ceiling: SLOWED_MAX,
      note: `${slow[what].toFixed(1)} ms and ${fast[what].toFixed(1)} ms`,
    });
  const url = await database(serverUrl, 'bench_p2p_old_others');
  const old: string[] = [];
  for (const ms of [FAST_MS, SLOW_MS]) old.push(await measureOldOthers(url, ms));
  result.notes.push(
    `the old way, other buyers' requests: provider at 10 ms: ${old[0] ?? ''}; at 30 s: ${old[1] ?? ''}`,
  );
}

async function measureOthers(market: Market, latencyMs: number): Promise<{ written: number; matched: number }> {
  market.latency.ms = latencyMs;
  const [engine, worker] = market.engines;
  if (engine === undefined || worker === undefined) throw new Error('no engines');
  const working = run(worker, market.rail, 1);
  const written: number[] = [];
  const others: string[] = [];
  const began = performance.now();
  const open: Promise<unknown>[] = [];
  for (let count = 0; performance.now() - began < OTHERS_MS; count += 1) {
    const due = (count * 1_000) / ARRIVING - (performance.now() - began);
    if (due > 0) await new Promise((resolve) => setTimeout(resolve, due));
    const isLp = count % LP_EVERY === 0;
    const at = performance.now();
    const write = async (): Promise<void> => {
      const [outcome] = await createDepositOrders(engine, [order(count, isLp ? LOW_PRICE : PRICE, latencyMs)]);
      if (isLp) return;
      written.push(performance.now() - at);
      if (outcome?.outcome === 'created') others.push(outcome.id);
    };
    open.push(write());
  }
  await Promise.all(open);
  await until(async () => (await countOf(engine.pool, others, 'PENDING', 'MATCHING')) === 0);
  working.stop();
  await working.ended;
  const { rows } = await engine.pool.query<{ ms: number }>(
    'select (extract(epoch from matched_at - created_at) * 1000)::float8 as ms from payonce.p2p_deposit_orders where id = any ($1::text[]) and matched_at is not null',
    [others],
  );
  return { written: p99(written), matched: p99(rows.map((row) => row.ms)) };
}

async function measureOldOthers(url: string, latencyMs: number): Promise<string> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query('drop table if exists old_legs, old_orders, old_sellers, old_partners');
  await client.end();
  const old = await makeOldWay(url, OLD_CONNECTIONS);
  const took: number[] = [];
  let asked = 0;
  const began = performance.now();
  for (let count = 0; performance.now() - began < OTHERS_MS; count += 1) {
    const due = (count * 1_000) / ARRIVING - (performance.now() - began);
    if (due > 0) await new Promise((resolve) => setTimeout(resolve, due));
    const isLp = count % LP_EVERY === 0;
    if (!isLp) asked += 1;
    const at = performance.now();
    const ask = async (): Promise<void> => {
      await old.order(isLp, latencyMs);
      if (!isLp) took.push(performance.now() - at);
    };
    // Cut off with the run, it has no answer.
    ask().catch(() => undefined);
  }
  // What still waits has waited for as long as the run took, at least; nobody stays for the rest.
  const figure = `${took.length} of ${asked} answered within the ${OTHERS_MS / 1_000} s, p99 ${Math.round(p99([...took, ...Array<number>(asked - took.length).fill(OTHERS_MS)]))} ms`;
  const killer = new pg.Client({ connectionString: url });
  await killer.connect();
  await killer.query(
    'select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()',
  );
  await killer.end();
  await old.end().catch(() => undefined);
  return figure;
}

async function benchMatched(serverUrl: string, options: BenchOptions, result: BenchResult): Promise<void> {
  const market = await openMarket(serverUrl, 'bench_p2p_matched', 5, false);
  market.latency.ms = MATCHED_LP_MS;
  const old = await makeOldWay(await database(serverUrl, 'bench_p2p_old'), OLD_CONNECTIONS);
  const rates = new Map<string, number[]>();
  const note = (name: string, figure: number): void => void rates.set(name, [...(rates.get(name) ?? []), figure]);
  for (let round = 0; round <= options.rounds; round += 1) {
    for (const matchers of [1, 2, 4]) {
      const figure = await measureMatched(market, matchers, round);
      if (round > 0) note(`${matchers}`, figure);
    }
    const began = performance.now();
    let left = Math.round(MATCHED_ORDERS / 10);
    await Promise.all(
      Array.from({ length: OLD_CONNECTIONS }, async () => {
        while (left > 0) {
          left -= 1;
          await old.order(left % 2 === 0, MATCHED_LP_MS);
        }
      }),
    );
    if (round > 0) note('old', (Math.round(MATCHED_ORDERS / 10) * 1_000) / (performance.now() - began));
  }
  await old.end();
  const broken = await checkInvariants(market.engines[0]?.pool as Pool);
  if (broken.length > 0)
    throw new Error(`the books are broken after the benchmark: ${JSON.stringify(broken.slice(0, 3))}`);
  await close(market);
  const toMeasured = (name: string, key: string) => ({
    name,
    rounds: rates.get(key) ?? [],
    median: median(rates.get(key) ?? []),
  });
  for (const matchers of [1, 2, 4])
    result.lines.push(
      compare(
        `orders matched, provider at ${MATCHED_LP_MS} ms, ${matchers} matcher${matchers === 1 ? '' : 's'}`,
        toMeasured('payonce', `${matchers}`),
        toMeasured('one transaction that holds the locks through the call', 'old'),
      ),
    );
}

/** Written first, then matched: orders a second from the first claim until the last is MATCHED. */
async function measureMatched(market: Market, matchers: number, round: number): Promise<number> {
  const [engine, ...workers] = market.engines;
  if (engine === undefined) throw new Error('no engine');
  const requests = Array.from({ length: MATCHED_ORDERS }, (_, count) => ({
    ...order(count, PRICE, round * 10 + matchers),
    // Two sellers fill one, and there are as many sellers as buyers.
    amount: 2n * HALF,
  }));
  await refill(engine, MATCHED_ORDERS, round * 10 + matchers);
  const outcomes = await createDepositOrders(engine, requests);
  const ids = outcomes.flatMap((one) => (one.outcome === 'created' ? [one.id] : []));
  const began = performance.now();
  const running = workers.slice(0, matchers).map((worker, index) => run(worker, market.rail, index === 0 ? 1 : 0));
  await until(async () => (await countOf(engine.pool, ids, 'PENDING', 'MATCHING')) === 0);
  const figure = (ids.length * 1_000) / (performance.now() - began);
  for (const one of running) one.stop();
  await Promise.all(running.map((one) => one.ended));
  return figure;
}

const HALF = 50n * ONE;

/** Sellers' orders of half an order each, enough for every other buyer. */
async function refill(engine: EngineDeps, count: number, round: number): Promise<void> {
  await createWithdrawOrders(
    engine,
    Array.from({ length: count }, (_, index) => ({
      partnerId: 'par_seller',
      idempotencyKey: `sell-${round}-${index}`,
      fingerprint: '',
      externalId: null,
      assetId: ASSET,
      fiat: 'KRW',
      userRef: `seller-${round}-${index}`,
      amount: HALF,
      price: PRICE,
      forMs: null,
      bankCode: '004',
      accountNumber: '1234567890',
      holderName: 'Kim',
    })),
  );
}

function order(count: number, price: bigint, round: number): DepositOrderRequest {
  return {
    partnerId: `par_${count % BUYERS}`,
    idempotencyKey: `buy-${round}-${price}-${count}`,
    fingerprint: '',
    externalId: null,
    assetId: ASSET,
    fiat: 'KRW',
    userRef: `buyer-${count}`,
    amount: 10n * ONE,
    price,
    forMs: null,
    takesPart: true,
  };
}

function run(engine: EngineDeps, rail: Rail, senders: number): { stop(): void; readonly ended: Promise<unknown> } {
  const over = new AbortController();
  const loop = async (work: () => Promise<boolean>): Promise<void> => {
    while (!over.signal.aborted) if (!(await work())) await new Promise((resolve) => setTimeout(resolve, 5));
  };
  const matcher = makeMatcher(engine, silentLog);
  // A pass that waits for the provider is not waited for: it ends after the run, and the next one begins meanwhile.
  const ended = Promise.all([
    loop(() => matcher.runOnce()),
    ...Array.from({ length: senders * SENDERS }, () =>
      Promise.race([loop(async () => (await sendOnce(engine, rail)) > 0), once(over.signal, 'abort')]),
    ),
  ]);
  return { stop: () => over.abort(), ended };
}

/** Passes at once: each waits for the slowest answer of its batch. */
const SENDERS = 4;

async function openMarket(serverUrl: string, name: string, engines: number, isDeep: boolean): Promise<Market> {
  const url = await database(serverUrl, name);
  await migrate(url);
  const latency = { ms: FAST_MS };
  const ports = systemPorts();
  const makeId = makeIds(ports.clock, ports.chance);
  const slept = async (kind: 'accepted', objectId: string) => {
    await new Promise((resolve) => setTimeout(resolve, latency.ms));
    return { kind, objectId };
  };
  const rail = makeNoopRail(
    'escrow:lp',
    {
      send: (sealed) => slept('accepted', `trade of ${sealed.subjectId}`),
      look: async (sealed) => [await slept('accepted', `trade of ${sealed.subjectId}`)],
    },
    { sendConcurrencyMax: 256, lookEveryMs: 60_000 },
  );
  const pools: Pool[] = [];
  const made: EngineDeps[] = [];
  for (let index = 0; index < engines; index += 1) {
    const pool = makePool({ url, ports, log: silentLog, connectionsMax: 8 });
    const chart = makeChart();
    pools.push(pool);
    made.push(
      await makeEngine({
        pool,
        ports,
        log: silentLog,
        makeId,
        chart,
        flows: makeP2pFlows(chart, makeId),
        rails: [rail],
        leaseMs: 120_000,
      }),
    );
  }
  const [engine] = made;
  if (engine === undefined) throw new Error('no engine');
  await fill(engine, rail.name, isDeep);
  return { engines: made, pools, rail, latency };
}

async function fill(engine: EngineDeps, rail: string, isDeep: boolean): Promise<void> {
  const { pool, chart } = engine;
  await pool.query(
    "insert into payonce.assets (id, code, chain, contract, decimals) values ($1, 'USDT', 'noop', 'token', 6)",
    [ASSET],
  );
  await pool.query(
    "insert into payonce.partners (id, name) select 'par_' || n, 'Buyer' from generate_series(0, $1::int - 1) n",
    [BUYERS],
  );
  await pool.query("insert into payonce.partners (id, name) values ('par_seller', 'Seller')");
  await pool.query("insert into payonce.p2p_groups (name) values ('g')");
  await pool.query(
    "insert into payonce.p2p_members (partner_id, group_name) select id, 'g' from payonce.partners where id <> 'par_own'",
  );
  await pool.query(
    `insert into payonce.p2p_markets (group_name, asset_id, fiat, fiat_decimals, order_min, order_max, leg_min, fee_bp, pay_within_ms, order_for_ms)
     values ('g', $1, 'KRW', 0, 1000000, 1000000000000, 1000000, 0, 900000, 3600000)`,
    [ASSET],
  );
  await pool.query(
    `insert into payonce.p2p_routes (group_name, asset_id, fiat, rail, account, priority, min, max) values ('g', $1, 'KRW', $2, 'lp', 1, 1000000, 1000000000)`,
    [ASSET, rail],
  );
  await pool.query("insert into payonce.signers (rail, address, label, next_nonce) values ($1, 'lp', 'lp', 0)", [rail]);
  await pool.tx('fund', async (tx) => {
    const [partner, custody] = await chart.ids(tx, [
      accountName.partner('par_seller', ASSET),
      accountName.custody('noop', 'wallet', ASSET),
    ]);
    if (partner === undefined || custody === undefined) throw new Error('no account');
    await post(tx, [
      {
        kind: 'post',
        key: 'MIGRATED:funds',
        reference: '',
        entries: [
          { accountId: partner, amount: 10n ** 15n },
          { accountId: custody, amount: -(10n ** 15n) },
        ],
      },
    ]);
  });
  if (!isDeep) return;
  // What the other buyers of "others" take: few large orders, as a deep market has.
  await createWithdrawOrders(
    engine,
    Array.from({ length: 50 }, (_, index) => ({
      partnerId: 'par_seller',
      idempotencyKey: `deep-${index}`,
      fingerprint: '',
      externalId: null,
      assetId: ASSET,
      fiat: 'KRW',
      userRef: `deep-${index}`,
      amount: 1_000_000n * ONE,
      price: PRICE,
      forMs: null,
      bankCode: '004',
      accountNumber: '1234567890',
      holderName: 'Kim',
    })),
  );
}

async function database(serverUrl: string, name: string): Promise<string> {
  const client = new pg.Client({ connectionString: serverUrl });
  await client.connect();
  await client.query(`create database ${name}`);
  await client.end();
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

async function countOf(pool: Pool, ids: readonly string[], ...statuses: string[]): Promise<number> {
  const { rows } = await pool.query<{ n: number }>(
    'select count(*)::int as n from payonce.p2p_deposit_orders where id = any ($1::text[]) and status = any ($2::text[])',
    [ids, statuses],
  );
  return rows[0]?.n ?? 0;
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  const began = performance.now();
  while (!(await holds())) {
    if (performance.now() - began > 120_000) throw new Error('it does not come to an end');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

async function close(market: Market): Promise<void> {
  for (const pool of market.pools) await pool.end();
}

function p99(figures: readonly number[]): number {
  const sorted = figures.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.99))] ?? 0;
}
