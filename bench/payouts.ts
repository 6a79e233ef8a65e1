/*
 * Creators' volume: 1,000,000 events into one programme, in requests of 10,000 over 1,000 creators; after each of them a request in
 * which 100 creators cross their threshold. What counts is that nothing grows: the time of a crossing request, its payouts included,
 * at the end against the beginning (Show 4). The peer of the end is the beginning. How many events go in a second is printed.
 */
import pg from 'pg';
import { migrate } from '../src/db/migrate.ts';
import { makePool } from '../src/db/pool.ts';
import { accrue, type PayoutDeps, putCreator, putProgramme } from '../src/flows/payouts/index.ts';
import { makeIds } from '../src/kernel/ids.ts';
import { silentLog } from '../src/kernel/log.ts';
import { systemPorts } from '../src/kernel/ports.ts';
import { accountName, makeChart } from '../src/ledger/accounts.ts';
import { post } from '../src/ledger/post.ts';
import { type BenchResult, median } from './rounds.ts';

const EVENTS = Number(process.env['PAYONCE_BENCH_EVENTS'] ?? 1_000_000);
const IN_ONE = 10_000;
const CREATORS = 1_000;
const CROSSING = 100;
/** Requests at each end whose median counts. */
const ENDS = 10;
/** Show 4's aim. */
const RATIO_MAX = 1.3;
const PARTNER = 'par_bench';

export async function benchPayouts(serverUrl: string): Promise<BenchResult> {
  const deps = await prepare(serverUrl);
  const asset = { id: 'noop/token', decimals: 6 };
  await putProgramme(deps, PARTNER, 'bench', asset, { rate: '0.001', threshold: '100' });
  for (let n = 0; n < CREATORS; n += 1)
    await putCreator(deps, PARTNER, `creator-${n}`, { chain: 'noop', address: `at-${n}` });
  const event = (name: string, creator: number, volume: string): object => ({
    source_id: name,
    programme: 'bench',
    creator: `creator-${creator % CREATORS}`,
    volume,
  });
  const timed = async (items: readonly object[]): Promise<number> => {
    const began = performance.now();
    await accrue(deps, PARTNER, items);
    return performance.now() - began;
  };
  const accruing: number[] = [];
  const enqueuing: number[] = [];
  for (let from = 0; from < EVENTS; from += IN_ONE) {
    accruing.push(await timed(Array.from({ length: IN_ONE }, (_, n) => event(`event-${from + n}`, n, '0.001'))));
    enqueuing.push(
      await timed(Array.from({ length: CROSSING }, (_, n) => event(`cross-${from + n}`, from / 100 + n, '100'))),
    );
  }
  const payouts = (await deps.pool.query<{ n: bigint }>('select count(*) as n from payonce.payouts')).rows[0]?.n ?? 0n;
  await deps.pool.end();
  const [start, end] = [median(enqueuing.slice(1, 1 + ENDS)), median(enqueuing.slice(-ENDS))];
  const [first, last] = [median(accruing.slice(1, 1 + ENDS)), median(accruing.slice(-ENDS))];
  const rate = Math.round(EVENTS / (accruing.reduce((sum, one) => sum + one, 0) / 1_000));
  return {
    lines: [],
    counts: [
      {
        line: `crossing the threshold, the last ${ENDS} requests ÷ the first ${ENDS}`,
        figure: end / start,
        ceiling: RATIO_MAX,
        note: `${end.toFixed(0)} ms ÷ ${start.toFixed(0)} ms for ${CROSSING} payouts; ${EVENTS} events, ${payouts} payouts made`,
      },
    ],
    notes: [
      `accruals: ${rate} events/s, one caller, durable commits; ${IN_ONE} took ${first.toFixed(0)} ms at the start, ${last.toFixed(0)} ms at the end`,
    ],
  };
}

async function prepare(serverUrl: string): Promise<PayoutDeps> {
  const url = new URL(serverUrl);
  url.pathname = '/bench_payouts';
  const admin = new pg.Client({ connectionString: serverUrl });
  await admin.connect();
  await admin.query('create database bench_payouts');
  await admin.end();
  await migrate(url.href);
  const ports = systemPorts();
  const pool = makePool({ url: url.href, ports, log: silentLog, connectionsMax: 2 });
  const chart = makeChart();
  await pool.query("insert into payonce.partners (id, name) values ($1, 'Bench')", [PARTNER]);
  await pool.query(
    "insert into payonce.assets (id, code, chain, contract, decimals) values ('noop/token', 'USDT', 'noop', 'token', 6)",
  );
  await pool.query("insert into payonce.rails (name) values ('noop')");
  await pool.query(
    "insert into payonce.asset_policies (asset_id, rail, wallet, withdrawal_max, withdrawal_day_max) values ('noop/token', 'noop', 'wallet-1', 1000000000000, 1000000000000)",
  );
  await pool.tx('fund', async (tx) => {
    const [to, from] = await chart.ids(tx, [
      accountName.partner(PARTNER, 'noop/token'),
      accountName.custody('noop', 'wallet-1', 'noop/token'),
    ]);
    if (to === undefined || from === undefined) throw new Error('no account');
    const units = 10n ** 15n;
    const entries = [
      { accountId: to, amount: units },
      { accountId: from, amount: -units },
    ];
    await post(tx, [{ kind: 'post', key: 'MIGRATED:fund', reference: 'fund', entries }]);
  });
  const makeId = makeIds(ports.clock, ports.chance);
  return { pool, makeId, chart, log: silentLog, wordOf: () => '0'.repeat(64), mayCall: () => false };
}
