/*
 * The queue stays cheap (req M12): among a million closed orders a claim finds what is due by the queue's own index, whether the
 * table was ever analysed or not, and touches as much as among ten thousand. Method: seeded tables, the claim as the matcher runs
 * it, and PostgreSQL's own account of how it ran. The figures in time are the benchmark's.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { makePool, type Pool } from '../../src/db/pool.ts';
import { claimIn } from '../../src/flows/p2p/claim.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { planOf } from '../support/claims.ts';
import { testDatabase } from '../support/postgres.ts';

const CLOSED = [10_000, 1_000_000] as const;
const OPEN = 1_000;
const BATCH = 50;

/** Rows alone, without what they refer to: only the plan of the claim counts here. */
const SEED = `insert into payonce.p2p_deposit_orders
  (id, partner_id, group_name, asset_id, fiat, user_ref, amount, price, takes_part, leg_min, fee_bp, fiat_decimals, pay_within_ms, created_at,
   expires_at, status, remaining_amount, next_at, closed_at, close_reason)
select 'pdo_' || n, 'par_1', 'g', 'a', 'KRW', 'u', 10, 1, true, 1, 0, 0, 1, now() - interval '1 day' + n * interval '1 ms', now() + interval '1 hour',
       case when n <= $1::int then 'EXPIRED' else 'PENDING' end, 10, now() - interval '1 day' + n * interval '1 ms',
       case when n <= $1::int then now() end, case when n <= $1::int then 'NO_LIQUIDITY' end
from generate_series(1, $1::int + $2::int) n`;

async function seeded(closed: number): Promise<{ pool: Pool; drop: () => Promise<void> }> {
  const database = await testDatabase(`p2p_plan_${closed}`);
  const pool = makePool({ url: database.url, ports: systemPorts(), log: silentLog, connectionsMax: 2 });
  await pool.query('alter table payonce.p2p_deposit_orders set (autovacuum_enabled = off)');
  await pool.tx('seed', async (tx) => {
    await tx.query('set local session_replication_role = replica');
    await tx.query('set local statement_timeout = 0');
    await tx.query(SEED, [closed, OPEN]);
  });
  return {
    pool,
    async drop() {
      await pool.end();
      await database.drop();
    },
  };
}

/** Buffers of the claim's own plan, which must be by the queue's index. */
async function buffersOf(pool: Pool): Promise<number> {
  const plan = await planOf(pool, (tx) => claimIn(tx, BATCH));
  assert.match(plan, /Index Scan using p2p_deposit_orders_pending/, plan);
  assert.doesNotMatch(plan, /Seq Scan/, plan);
  const buffers = /Buffers: shared ([^\n]*)/.exec(plan)?.[1] ?? '';
  return [...buffers.matchAll(/(?:hit|read)=(\d+)/g)].reduce((sum, match) => sum + Number(match[1]), 0);
}

test('a claim among 1,000,000 closed orders is by index and touches what it does among 10,000 (req M12)', async () => {
  const touched: number[] = [];
  for (const closed of CLOSED) {
    const { pool, drop } = await seeded(closed);
    const never = await buffersOf(pool);
    await pool.query('analyze payonce.p2p_deposit_orders');
    const analysed = await buffersOf(pool);
    touched.push(never, analysed);
    assert.equal((await pool.tx('claim', (tx) => claimIn(tx, BATCH))).length, BATCH);
    await drop();
  }
  const [few = 0, fewAnalysed = 0, many = 0, manyAnalysed = 0] = touched;
  assert.ok(few > 0 && many <= few * 1.5, `never analysed: ${many} buffers among a million, ${few} among ten thousand`);
  assert.ok(manyAnalysed <= fewAnalysed * 1.5, `analysed: ${manyAnalysed} and ${fewAnalysed}`);
});
