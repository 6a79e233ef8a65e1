/*
 * Claims stay cheap: among many ended effects the open ones are found by the queues' own indexes, whether the table was
 * ever analysed or not. Method: a seeded table, the claims as the engine runs them, and PostgreSQL's own account of how
 * it ran them. The times are the benchmark's (line c).
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { makePool, type Pool, type Tx } from '../../src/db/pool.ts';
import { sealEffects, settleEffects } from '../../src/engine/edges.ts';
import { claimPending, claimSealed } from '../../src/engine/claims.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { planOf, seedEffects } from '../support/claims.ts';
import { testDatabase } from '../support/postgres.ts';

const SIGNERS = ['wallet-1', 'wallet-2', 'wallet-3', 'wallet-4'];
const BATCH = 100;
/** One batch's index entries, heap pages and their update; a scan of the ended effects would be thousands more. */
const BUFFERS_PER_ROW_MAX = 60;

const claims: Readonly<Record<string, (tx: Tx) => Promise<bigint[]>>> = {
  effects_sealed: (tx) => claimSealed(tx, 'noop', BATCH, 30_000),
  effects_pending: (tx) =>
    claimPending(
      tx,
      'noop',
      SIGNERS.map((signer) => ({ signer, room: BATCH / SIGNERS.length })),
      30_000,
    ),
};

async function assertByIndex(pool: Pool, index: string, claim: (tx: Tx) => Promise<bigint[]>): Promise<void> {
  const plan = await planOf(pool, claim);
  assert.match(plan, new RegExp(`Index (Only )?Scan using ${index}`), plan);
  assert.doesNotMatch(plan, /Seq Scan/, plan);
  const buffers = /Buffers: shared ([^\n]*)/.exec(plan)?.[1] ?? '';
  const touched = [...buffers.matchAll(/(?:hit|read)=(\d+)/g)].reduce((sum, match) => sum + Number(match[1]), 0);
  assert.ok(touched > 0 && touched <= BATCH * BUFFERS_PER_ROW_MAX, `${touched} buffers:\n${plan}`);
}

test('a claim finds its queue by index among 20,000 ended effects, never analysed and analysed (req R1)', async () => {
  const database = await testDatabase('claim_plan');
  await seedEffects(database.url, { rail: 'noop', signers: SIGNERS, ended: 20_000, open: 1_000 });
  const pool = makePool({ url: database.url, ports: systemPorts(), log: silentLog, connectionsMax: 2 });
  for (const [index, claim] of Object.entries(claims)) await assertByIndex(pool, index, claim);
  await pool.query('analyze payonce.effects');
  for (const [index, claim] of Object.entries(claims)) await assertByIndex(pool, index, claim);
  for (const claim of Object.values(claims)) assert.equal((await pool.tx('claim', claim)).length, BATCH);
  await pool.end();
  await database.drop();
});

test('a seal and an end reach their effects by id, not through a queue with all that has left it (case L1)', async () => {
  const database = await testDatabase('edge_plan');
  await seedEffects(database.url, { rail: 'noop', signers: SIGNERS, ended: 20_000, open: 1_000 });
  const pool = makePool({ url: database.url, ports: systemPorts(), log: silentLog, connectionsMax: 2 });
  // Ended ones: the statements are planned and run, and change nothing.
  const ids = Array.from({ length: BATCH }, (_, index) => BigInt(index + 1));
  const seals = ids.map((id) => ({
    id,
    token: 1n,
    identity: `other:${id}`,
    payload: Buffer.from('{}'),
    expect: {},
    plan: {},
    nonce: null,
  }));
  const ends = ids.map((id) => ({ id, evidenceId: 1n }));
  const edges: ((tx: Tx) => Promise<unknown>)[] = [
    (tx) => sealEffects(tx, seals, 30_000),
    (tx) => settleEffects(tx, ends),
  ];
  for (const isAnalysed of [false, true]) {
    if (isAnalysed) await pool.query('analyze payonce.effects');
    for (const edge of edges) assert.doesNotMatch(await planOf(pool, edge), /effects_(pending|sealed|unmined)/);
  }
  await pool.end();
  await database.drop();
});
