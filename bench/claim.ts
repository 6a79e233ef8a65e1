/*
 * Line (c): what a claim costs as ended effects pile up. Two databases, one with 10⁴ and one with 10⁶ ended effects, each
 * with 1,000 open ones per queue; claims of 100 take turns between the two, and medians count. Never analysed first (the
 * autovacuum daemon is kept off the table), then analysed. The peer of the big table is the small one.
 */
import pg from 'pg';
import { migrate } from '../src/db/migrate.ts';
import { makePool, type Pool, type Tx } from '../src/db/pool.ts';
import { claimPending, claimSealed } from '../src/engine/claims.ts';
import { silentLog } from '../src/kernel/log.ts';
import { systemPorts } from '../src/kernel/ports.ts';
import { planOf, seedEffects } from '../test/support/claims.ts';
import { type BenchCount, type BenchResult, median } from './rounds.ts';

const RAIL = 'noop';
const SIGNERS = ['wallet-1', 'wallet-2', 'wallet-3', 'wallet-4'];
const BATCH = 100;
const OPEN = 1_000;
const ENDED = [10_000, 1_000_000] as const;
/** Claims per queue and database: the median of so many is steady on a busy machine. */
const CLAIMS = 100;
const WARM_UP = 10;
/** Issue 2's aim. */
const RATIO_MAX = 1.5;

/** A lease that is over at once: the queue goes round, and each claim finds a full batch. */
const LEASE_MS = 0;

const QUEUES: Readonly<Record<string, (tx: Tx) => Promise<bigint[]>>> = {
  effects_sealed: (tx) => claimSealed(tx, RAIL, BATCH, LEASE_MS),
  effects_pending: (tx) =>
    claimPending(
      tx,
      RAIL,
      SIGNERS.map((signer) => ({ signer, room: BATCH / SIGNERS.length })),
      LEASE_MS,
    ),
};

export async function benchClaim(serverUrl: string): Promise<BenchResult> {
  const small = await prepare(serverUrl, ENDED[0]);
  const big = await prepare(serverUrl, ENDED[1]);
  const counts: BenchCount[] = [];
  for (const statistics of ['never analysed', 'analysed']) {
    if (statistics === 'analysed') for (const pool of [small, big]) await pool.query('analyze payonce.effects');
    for (const [index, claim] of Object.entries(QUEUES))
      counts.push(await compareClaims(`claim by ${index}, ${statistics}, 10⁶ ÷ 10⁴ ended`, index, claim, small, big));
  }
  for (const pool of [small, big]) await pool.end();
  return { lines: [], counts, notes: [] };
}

async function compareClaims(
  line: string,
  index: string,
  claim: (tx: Tx) => Promise<bigint[]>,
  small: Pool,
  big: Pool,
): Promise<BenchCount> {
  const plan = await planOf(big, claim);
  if (!plan.includes(`Scan using ${index}`) || plan.includes('Seq Scan'))
    throw new Error(`the claim does not go by ${index}:\n${plan}`);
  const times = new Map<Pool, number[]>([
    [small, []],
    [big, []],
  ]);
  for (let turn = 0; turn < WARM_UP + CLAIMS; turn += 1) {
    for (const [pool, figures] of times) {
      const began = performance.now();
      const claimed = await pool.tx('claim', claim);
      if (turn >= WARM_UP) figures.push(performance.now() - began);
      if (claimed.length !== BATCH) throw new Error(`claimed ${claimed.length} of ${BATCH}`);
    }
  }
  const [before, after] = [median(times.get(small) ?? []), median(times.get(big) ?? [])];
  const buffers = /Buffers: shared ([^\n]*)/.exec(plan)?.[1] ?? '';
  return {
    line,
    figure: after / before,
    ceiling: RATIO_MAX,
    note: `${after.toFixed(2)} ms ÷ ${before.toFixed(2)} ms for ${BATCH}; Index Scan using ${index}; buffers ${buffers}`,
  };
}

async function prepare(serverUrl: string, ended: number): Promise<Pool> {
  const url = new URL(serverUrl);
  url.pathname = `/bench_claim_${ended}`;
  const admin = new pg.Client({ connectionString: serverUrl });
  await admin.connect();
  await admin.query(`create database bench_claim_${ended}`);
  await admin.end();
  await migrate(url.href);
  await seedEffects(url.href, { rail: RAIL, signers: SIGNERS, ended, open: OPEN });
  return makePool({ url: url.href, ports: systemPorts(), log: silentLog, connectionsMax: 2 });
}
