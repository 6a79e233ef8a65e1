/*
 * Line (b): effects a second through the whole life on a rail that does nothing: intake with its hold, claim, plan, seal,
 * send, record, settle with the posting and the event. What was taken in during a round is ended in it.
 *   Payonce: one loop takes withdrawals in, in batches; one or two workers, each with a pool of its own, advance them.
 *   The naive way: 32 connections, one transaction per step and item: {row, hold}, {sealed}, {settled, entries, balances}.
 * Both sides: the same partners, the same wallets, drawn alike. The naive tables are its own, without triggers, and it
 * keeps neither answers nor evidence nor history nor events.
 */
import pg from 'pg';
import { migrate } from '../src/db/migrate.ts';
import { makePool, type Pool } from '../src/db/pool.ts';
import { advanceOnce } from '../src/engine/advance.ts';
import type { EngineDeps } from '../src/engine/deps.ts';
import { makeEngine } from '../src/engine/engine.ts';
import { makeNoopRail } from '../src/engine/noop.ts';
import { createWithdrawals, makeWithdrawals } from '../src/flows/withdrawals/index.ts';
import { makeIds } from '../src/kernel/ids.ts';
import { silentLog } from '../src/kernel/log.ts';
import { systemPorts } from '../src/kernel/ports.ts';
import { accountName, makeChart } from '../src/ledger/accounts.ts';
import { makePoster } from '../src/ledger/poster.ts';
import { describeFault, verify } from '../src/ledger/verify.ts';
import { type BenchOptions, type BenchResult, compare, interleaved, rate } from './rounds.ts';

const PARTNERS = 100;
const WALLETS = 8;
const NAIVE_CONNECTIONS = 32;
/** What the intake gathers into one transaction: as many requests as wait at the API under load. */
const INTAKE_BATCH = 200;
/** Taken in and not yet ended, at most: the queue stays as long as under a steady load. */
const BACKLOG_MAX = 800;
/** Enough that no hold ever fails. */
const FUNDS = 10n ** 15n;
/** Issue 2's aim, and design §11's for what one effect costs under load. */
const RATIO_MIN = 5;
const COMMITS_MAX = 0.1;
const STATEMENTS_MAX = 0.3;

const RAIL = 'noop';
const CHAIN = 'noop';
const ASSET = 'noop/erc20:token';

const NAIVE_TABLES = `
create table naive_accounts (
  id int primary key,
  balance numeric(78,0) not null,
  held numeric(78,0) not null default 0,
  floor numeric(78,0),
  check (floor is null or balance - held >= floor)
) with (fillfactor = 50);
create table naive_payouts (
  id bigint generated always as identity primary key,
  idem_key text not null unique,
  partner int not null references naive_accounts (id),
  wallet int not null references naive_accounts (id),
  amount numeric(78,0) not null,
  destination text not null,
  state text not null default 'pending',
  created_at timestamptz not null default now(),
  sealed_at timestamptz,
  settled_at timestamptz
) with (fillfactor = 60);
create index naive_payouts_open on naive_payouts (created_at, id) where state <> 'settled';
create table naive_entries (
  id bigint generated always as identity primary key,
  idem_key text not null unique,
  account_id int not null references naive_accounts (id),
  amount numeric(78,0) not null,
  balance_after numeric(78,0) not null,
  created_at timestamptz not null default now()
);
create index naive_entries_account on naive_entries (account_id, id);
insert into naive_accounts (id, balance, floor) select n, ${FUNDS}, 0 from generate_series(1, ${PARTNERS}) n;
insert into naive_accounts (id, balance) select 1000 + n, 0 from generate_series(1, ${WALLETS}) n`;

interface Bench {
  readonly intake: EngineDeps;
  readonly workers: readonly EngineDeps[];
  readonly naive: pg.Pool;
}

/** What a contender's counted rounds cost, over all its pools. */
interface Cost {
  effects: number;
  commits: number;
  statements: number;
  /** Milliseconds spent in each kind of transaction, from BEGIN to the COMMIT's answer. */
  readonly spent: Map<string, number>;
}

export async function benchEffects(serverUrl: string, options: BenchOptions): Promise<BenchResult> {
  const bench = await prepare(serverUrl);
  const costs = new Map<string, Cost>();
  const measured = await interleaved(
    {
      naive: () => rate(NAIVE_CONNECTIONS, options.roundMs, () => payNaively(bench.naive)),
      '1 worker': () => payOurs(bench, 1, options.roundMs, costOf(costs, '1 worker')),
      '2 workers': () => payOurs(bench, 2, options.roundMs, costOf(costs, '2 workers')),
    },
    options.rounds,
  );
  const peer = measured.get('naive');
  const result: BenchResult = { lines: [], counts: [], notes: [] };
  for (const name of ['1 worker', '2 workers']) {
    const ours = measured.get(name);
    if (ours === undefined || peer === undefined) continue;
    result.lines.push(
      compare(
        `effects, whole life, ${name}`,
        { ...ours, name: 'payonce' },
        { ...peer, name: `a transaction per step, ${NAIVE_CONNECTIONS} connections` },
        RATIO_MIN,
      ),
    );
    const cost = costOf(costs, name);
    result.counts.push(
      { line: `commits per effect, ${name}`, figure: cost.commits / cost.effects, ceiling: COMMITS_MAX },
      { line: `statements per effect, ${name}`, figure: cost.statements / cost.effects, ceiling: STATEMENTS_MAX },
    );
    result.notes.push(`where an effect's time goes, ${name}: ${timesOf(cost)}`);
  }
  await assertAllEnded(bench);
  for (const one of [bench.intake, ...bench.workers]) await one.pool.end();
  await bench.naive.end();
  return result;
}

function costOf(costs: Map<string, Cost>, name: string): Cost {
  const cost = costs.get(name) ?? { effects: 0, commits: 0, statements: 0, spent: new Map() };
  costs.set(name, cost);
  return cost;
}

function timesOf(cost: Cost): string {
  return [...cost.spent]
    .toSorted(([, left], [, right]) => right - left)
    .map(([name, ms]) => `${name} ${((ms * 1_000) / cost.effects).toFixed(0)} µs`)
    .join(', ');
}

/** The pool with a watch on its transactions. */
function timed(pool: Pool, spent: Map<string, number>): Pool {
  return {
    ...pool,
    async tx(name, work) {
      const began = performance.now();
      try {
        return await pool.tx(name, work);
      } finally {
        spent.set(name, (spent.get(name) ?? 0) + performance.now() - began);
      }
    },
  };
}

async function prepare(serverUrl: string): Promise<Bench> {
  const url = new URL(serverUrl);
  url.pathname = '/bench_effects';
  const admin = new pg.Client({ connectionString: serverUrl });
  await admin.connect();
  await admin.query('create database bench_effects');
  await admin.end();
  await migrate(url.href);
  const intake = await engineOf(url.href);
  const { pool, chart } = intake;
  await pool.query(
    "insert into payonce.assets (id, code, chain, contract, decimals) values ($1, 'USDT', $2, 'token', 6)",
    [ASSET, CHAIN],
  );
  await pool.query(
    "insert into payonce.partners (id, name) select 'par_' || n, 'Partner ' || n from generate_series(1, $1::int) n",
    [PARTNERS],
  );
  await pool.query(
    `insert into payonce.signers (rail, address, label, next_nonce)
     select $2, 'wallet-' || n, 'hot', 0 from generate_series(1, $1::int) n`,
    [WALLETS, RAIL],
  );
  await pool.query(
    `insert into payonce.asset_policies (asset_id, partner_id, rail, wallet, withdrawal_max, withdrawal_day_max)
     select $1, 'par_' || n, $2, 'wallet-' || 1 + n % $4, $5, $5 from generate_series(1, $3::int) n`,
    [ASSET, RAIL, PARTNERS, WALLETS, FUNDS],
  );
  const names = Array.from({ length: PARTNERS }, (_, index) => accountName.partner(`par_${index + 1}`, ASSET));
  const [treasury = 0n, ...partners] = await chart.ids(pool, [accountName.treasury(ASSET), ...names]);
  await makePoster(pool).post({
    kind: 'post',
    key: 'MIGRATED:bench',
    reference: 'bench',
    entries: [
      ...partners.map((accountId) => ({ accountId, amount: FUNDS })),
      { accountId: treasury, amount: -FUNDS * BigInt(PARTNERS) },
    ],
  });
  await pool.query(NAIVE_TABLES);
  const naive = new pg.Pool({ connectionString: url.href, max: NAIVE_CONNECTIONS });
  naive.on('error', () => {});
  return { intake, workers: [await engineOf(url.href), await engineOf(url.href)], naive };
}

async function engineOf(url: string): Promise<EngineDeps> {
  const ports = systemPorts();
  const chart = makeChart();
  return makeEngine({
    pool: makePool({ url, ports, log: silentLog, connectionsMax: 2 }),
    ports,
    log: silentLog,
    makeId: makeIds(ports.clock, ports.chance),
    chart,
    flows: [makeWithdrawals(chart)],
    rails: [makeNoopRail(RAIL)],
    leaseMs: 30_000,
  });
}

let ordinal = 0;

/** Effects ended a second, from the first intake to the last end. */
async function payOurs(bench: Bench, workers: number, roundMs: number, cost: Cost): Promise<number> {
  const withWatch = (one: EngineDeps): EngineDeps => ({ ...one, pool: timed(one.pool, cost.spent) });
  const intaker = withWatch(bench.intake);
  const engines = bench.workers.slice(0, workers).map(withWatch);
  const pools = [intaker, ...engines].map((one) => one.pool);
  const before = sum(pools);
  const began = performance.now();
  const bell = makeBell();
  const total = { taken: 0, ended: 0, isTaking: true };
  const intake = async (): Promise<void> => {
    while (performance.now() - began < roundMs) {
      if (total.taken - total.ended >= BACKLOG_MAX) {
        await bell.heard();
        continue;
      }
      const created = await createWithdrawals(intaker, Array.from({ length: INTAKE_BATCH }, request));
      const refused = created.find((one) => one.outcome !== 'created');
      if (refused !== undefined) throw new Error(`a withdrawal of the bench was answered ${refused.outcome}`);
      total.taken += created.length;
      bell.ring();
    }
    total.isTaking = false;
    bell.ring();
  };
  const work = async (engine: EngineDeps): Promise<void> => {
    const rail = engine.rails.get(RAIL);
    if (rail === undefined) throw new Error('the bench has no rail');
    while (total.isTaking || total.ended < total.taken) {
      const mayChange = bell.heard();
      const { pending, sealed } = await advanceOnce(engine, rail);
      total.ended += pending;
      if (pending > 0) bell.ring();
      if (pending + sealed === 0 && (total.isTaking || total.ended < total.taken)) await mayChange;
    }
  };
  await Promise.all([intake(), ...engines.map(work)]);
  const seconds = (performance.now() - began) / 1_000;
  const after = sum(pools);
  cost.effects += total.taken;
  cost.commits += after.commits - before.commits;
  cost.statements += after.statements - before.statements;
  return total.taken / seconds;
}

function sum(pools: readonly Pool[]): { commits: number; statements: number } {
  const total = { commits: 0, statements: 0 };
  for (const { counts } of pools) {
    total.commits += counts.commits;
    total.statements += counts.statements;
  }
  return total;
}

/** Work wakes whoever waits for it, as a worker's `wake` does: nobody asks the database in a loop. */
function makeBell(): { ring(): void; heard(): Promise<void> } {
  let next = Promise.withResolvers<void>();
  return {
    ring() {
      const { resolve } = next;
      next = Promise.withResolvers<void>();
      resolve();
    },
    heard: () => next.promise,
  };
}

function request(): Parameters<typeof createWithdrawals>[1][number] {
  ordinal += 1;
  return {
    partnerId: `par_${1 + Math.floor(Math.random() * PARTNERS)}`,
    idempotencyKey: `bench-${ordinal}`,
    fingerprint: `body-${ordinal}`,
    externalId: null,
    purpose: 'customer',
    assetId: ASSET,
    amount: 1_000_000n,
    destination: `somebody-${ordinal}`,
    reference: null,
  };
}

async function payNaively(pool: pg.Pool): Promise<void> {
  ordinal += 1;
  const key = `bench-${ordinal}`;
  const partner = 1 + Math.floor(Math.random() * PARTNERS);
  const wallet = 1_001 + (partner % WALLETS);
  const amount = 1_000_000n;
  const id = await inOwnTransaction(pool, async (client) => {
    await client.query('select balance, held from naive_accounts where id = $1 for update', [partner]);
    const { rows } = await client.query<{ id: string }>(
      'insert into naive_payouts (idem_key, partner, wallet, amount, destination) values ($1, $2, $3, $4, $5) returning id',
      [key, partner, wallet, amount, `somebody-${ordinal}`],
    );
    await client.query('update naive_accounts set held = held + $2 where id = $1', [partner, amount]);
    return rows[0]?.id;
  });
  await inOwnTransaction(pool, (client) =>
    client.query("update naive_payouts set state = 'sealed', sealed_at = now() where id = $1 and state = 'pending'", [
      id,
    ]),
  );
  await inOwnTransaction(pool, async (client) => {
    await client.query(
      "update naive_payouts set state = 'settled', settled_at = now() where id = $1 and state = 'sealed'",
      [id],
    );
    const { rows } = await client.query<{ id: number; balance: string }>(
      'select id, balance from naive_accounts where id = any($1) order by id for update',
      [[partner, wallet]],
    );
    for (const row of rows) {
      const change = row.id === partner ? -amount : amount;
      await client.query(
        'insert into naive_entries (idem_key, account_id, amount, balance_after) values ($1, $2, $3, $4)',
        [`${key}:${row.id}`, row.id, change, BigInt(row.balance) + change],
      );
      await client.query('update naive_accounts set balance = balance + $2, held = held - $3 where id = $1', [
        row.id,
        change,
        row.id === partner ? amount : 0n,
      ]);
    }
  });
}

async function inOwnTransaction<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    await client.query('begin');
    const value = await work(client);
    await client.query('commit');
    return value;
  } finally {
    client.release();
  }
}

async function assertAllEnded(bench: Bench): Promise<void> {
  const { pool } = bench.intake;
  const open = await pool.query("select 1 from payonce.effects where state <> 'SETTLED' limit 1");
  if (open.rowCount !== 0) throw new Error('effects of the bench did not settle');
  const { faults } = await verify(pool);
  if (faults.length > 0)
    throw new Error(`the books are not clean: ${faults.slice(0, 5).map(describeFault).join('; ')}`);
  const wrong = await bench.naive.query('select 1 from naive_payouts where state <> $1 limit 1', ['settled']);
  if (wrong.rowCount !== 0) throw new Error('payouts of the naive way did not settle');
}
