/*
 * Line (a): postings a second. Each posting debits one account and credits another, under a floor of 0 on both.
 *   spread   both accounts drawn at random from 1,000
 *   hot      one account is always the debtor, the other is drawn from 1,000
 * Payonce: `makePoster` over eight connections at most, at 1, 32 and 256 callers; each gets its own verdict.
 * The naive way is the incident documents': one transaction per posting on one of 32 connections: SELECT … FOR UPDATE of
 * both accounts in order, two entries with their key and balance_after, two balances, COMMIT. Its tables are its own, with
 * the same types, keys and references, and no triggers.
 */
import pg from 'pg';
import { migrate } from '../src/db/migrate.ts';
import { makePool, type Pool } from '../src/db/pool.ts';
import { silentLog } from '../src/kernel/log.ts';
import { systemPorts } from '../src/kernel/ports.ts';
import { makePoster } from '../src/ledger/poster.ts';
import { describeFault, verify } from '../src/ledger/verify.ts';
import { type BenchLine, type BenchOptions, compare, interleaved, rate } from './rounds.ts';

const ACCOUNTS = 1_000;
const NAIVE_CONNECTIONS = 32;
const CALLERS = [1, 32, 256] as const;
/** Enough that no debit ever fails. */
const FUNDS = 10n ** 15n;
/** Issue 2's aims, at 256 callers. */
const FLOORS: Readonly<Record<string, number>> = { 'spread 256': 10, 'hot 256': 30 };

const NAIVE_TABLES = `
create table naive_accounts (
  id bigint primary key,
  balance numeric(78,0) not null check (balance >= 0)
) with (fillfactor = 50);
create table naive_entries (
  id bigint generated always as identity primary key,
  idem_key text not null unique,
  account_id bigint not null references naive_accounts (id),
  amount numeric(78,0) not null,
  balance_after numeric(78,0) not null,
  created_at timestamptz not null default now()
);
create index naive_entries_account on naive_entries (account_id, id);
insert into naive_accounts (id, balance) select id, greatest(balance, 0) from payonce.accounts`;

type Pair = () => readonly [debtor: bigint, creditor: bigint];

interface Bench {
  readonly pool: Pool;
  readonly naive: pg.Pool;
  readonly pairs: Readonly<Record<'spread' | 'hot', Pair>>;
}

export async function benchPostings(serverUrl: string, options: BenchOptions): Promise<BenchLine[]> {
  const bench = await prepare(serverUrl);
  const lines: BenchLine[] = [];
  for (const place of ['spread', 'hot'] as const) {
    const pair = bench.pairs[place];
    const results = await interleaved(
      {
        naive: () => rate(NAIVE_CONNECTIONS, options.roundMs, () => postNaively(bench.naive, pair())),
        ...Object.fromEntries(
          CALLERS.map((callers) => [String(callers), () => ours(bench.pool, pair, callers, options)]),
        ),
      },
      options.rounds,
    );
    const peer = results.get('naive');
    for (const callers of CALLERS) {
      const measured = results.get(String(callers));
      if (measured === undefined || peer === undefined) continue;
      lines.push(
        compare(
          `postings, ${place}, ${callers} caller${callers === 1 ? '' : 's'}`,
          { ...measured, name: 'payonce' },
          { ...peer, name: `naive, ${NAIVE_CONNECTIONS} connections` },
          FLOORS[`${place} ${callers}`],
        ),
      );
    }
  }
  const { faults, entries } = await verify(bench.pool);
  if (faults.length > 0)
    throw new Error(`the books are not clean: ${faults.slice(0, 5).map(describeFault).join('; ')}`);
  console.log(`books of ${entries} entries verified after the run\n`);
  await bench.naive.end();
  await bench.pool.end();
  return lines;
}

async function prepare(serverUrl: string): Promise<Bench> {
  const url = new URL(serverUrl);
  url.pathname = '/bench_postings';
  const admin = new pg.Client({ connectionString: serverUrl });
  await admin.connect();
  await admin.query('create database bench_postings');
  await admin.end();
  await migrate(url.href);
  const pool = makePool({ url: url.href, ports: systemPorts(), log: silentLog });
  await pool.query("insert into payonce.assets (id, code, chain, decimals) values ('usdt', 'USDT', 'none', 6)");
  const { rows } = await pool.query<{ id: bigint }>(
    `insert into payonce.accounts (code, asset_id, floor)
     select 'bench-' || n, 'usdt', case when n > 0 then 0 end from generate_series(0, $1 + 1) n order by n returning id`,
    [ACCOUNTS],
  );
  const [house = 0n, hot = 0n, ...accounts] = rows.map((row) => row.id);
  const entries = [hot, ...accounts].map((accountId) => ({ accountId, amount: FUNDS }));
  entries.push({ accountId: house, amount: -FUNDS * BigInt(entries.length) });
  await makePoster(pool).post({ kind: 'post', key: 'FUND', reference: 'bench', entries });
  await pool.query(NAIVE_TABLES);
  const naive = new pg.Pool({ connectionString: url.href, max: NAIVE_CONNECTIONS });
  naive.on('error', () => {});

  const draw = (): bigint => accounts[Math.floor(Math.random() * accounts.length)] ?? hot;
  const spread: Pair = () => {
    const debtor = draw();
    let creditor = draw();
    while (creditor === debtor) creditor = draw();
    return [debtor, creditor];
  };
  return { pool, naive, pairs: { spread, hot: () => [hot, draw()] } };
}

let ordinal = 0;

async function ours(pool: Pool, pair: Pair, callers: number, options: BenchOptions): Promise<number> {
  const poster = makePoster(pool);
  return rate(callers, options.roundMs, async () => {
    const [debtor, creditor] = pair();
    ordinal += 1;
    const { verdict } = await poster.post({
      kind: 'post',
      key: `BENCH:${ordinal}`,
      reference: `bench ${ordinal}`,
      entries: [
        { accountId: debtor, amount: -1n },
        { accountId: creditor, amount: 1n },
      ],
    });
    if (verdict !== 'posted') throw new Error(`a posting of the bench was ${verdict}`);
  });
}

async function postNaively(pool: pg.Pool, [debtor, creditor]: readonly [bigint, bigint]): Promise<void> {
  ordinal += 1;
  const key = ordinal;
  const client = await pool.connect();
  try {
    await client.query('begin');
    const { rows } = await client.query<{ id: string; balance: string }>(
      'select id, balance from naive_accounts where id = any($1) order by id for update',
      [[debtor, creditor]],
    );
    for (const row of rows) {
      const amount = BigInt(row.id) === debtor ? -1n : 1n;
      const balance = BigInt(row.balance) + amount;
      await client.query(
        'insert into naive_entries (idem_key, account_id, amount, balance_after) values ($1, $2, $3, $4)',
        [`BENCH:${key}:${row.id}`, row.id, amount, balance],
      );
      await client.query('update naive_accounts set balance = $2 where id = $1', [row.id, balance]);
    }
    await client.query('commit');
  } finally {
    client.release();
  }
}
