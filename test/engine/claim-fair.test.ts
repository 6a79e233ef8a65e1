/*
 * Goal: one partner's backlog holds up no other partner (issue "payouts", fairness). Method: a seeded queue with 100,000 effects of
 * one partner at one signer, ten of another that came later, and claims as the engine runs them; PostgreSQL's own account of how.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { makePool, type Pool } from '../../src/db/pool.ts';
import { claimPending } from '../../src/engine/claims.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { planOf, seedEffects } from '../support/claims.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';

const ROOM = 16;
const BACKLOG = 100_000;
/** Two partners' heads and the queue's own, locked and updated; the backlog would be thousands of pages more. */
const BUFFERS_MAX = 2_500;

let database: TestDatabase;
let pool: Pool;
before(async () => {
  database = await testDatabase('claim_fair');
  await seedEffects(database.url, { rail: 'noop', signers: ['wallet-1'], ended: 0, open: BACKLOG });
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query('set session_replication_role = replica');
  await client.query(
    "update payonce.effects set partner_id = 'par_many', next_at = now() - interval '1 day' where state = 'PENDING'",
  );
  await client.query(
    "update payonce.effects set partner_id = 'par_few', next_at = now() - interval '1 second' where id in (select id from payonce.effects where state = 'PENDING' order by id desc limit 10)",
  );
  await client.query('vacuum payonce.effects');
  await client.end();
  pool = makePool({ url: database.url, ports: systemPorts(), log: silentLog, connectionsMax: 8 });
});
after(async () => {
  await pool.end();
  await database.drop();
});

async function claimed(): Promise<string[]> {
  const ids = await pool.tx('claim', (tx) => claimPending(tx, 'noop', [{ signer: 'wallet-1', room: ROOM }], 60_000));
  const { rows } = await pool.query<{ partner_id: string }>(
    'select partner_id from payonce.effects where id = any ($1::bigint[])',
    [ids],
  );
  return rows.map((row) => row.partner_id);
}

test('a claim reads the heads of each partner’s queue and nothing of a backlog, never analysed and analysed (req P5)', async () => {
  for (const isAnalysed of [false, true]) {
    if (isAnalysed) await pool.query('analyze payonce.effects');
    const plan = await planOf(pool, (tx) => claimPending(tx, 'noop', [{ signer: 'wallet-1', room: ROOM }], 0));
    assert.doesNotMatch(plan, /Seq Scan/, plan);
    const buffers = /Buffers: shared ([^\n]*)/.exec(plan)?.[1] ?? '';
    const touched = [...buffers.matchAll(/(?:hit|read)=(\d+)/g)].reduce((sum, match) => sum + Number(match[1]), 0);
    assert.ok(touched > 0 && touched <= BUFFERS_MAX, `${touched} buffers:\n${plan}`);
  }
});

test('with 100,000 of one partner waiting, another’s ten are taken within two claim rounds (req P5)', async () => {
  const rounds = [await claimed(), await claimed()];
  assert.deepEqual(
    rounds.map((one) => one.length),
    [ROOM, ROOM],
  );
  const few = rounds.map((one) => one.filter((partner) => partner === 'par_few').length);
  assert.ok((few[0] ?? 0) >= 8, `${few.join(' and ')} of ten`);
  assert.equal((few[0] ?? 0) + (few[1] ?? 0), 10);
});

test('eight who claim at once share the queue: nothing is claimed twice and nobody goes away empty (req P5)', async () => {
  const lists = await Promise.all(
    Array.from({ length: 8 }, () =>
      pool.tx('claim', (tx) => claimPending(tx, 'noop', [{ signer: 'wallet-1', room: ROOM }], 60_000)),
    ),
  );
  const all = lists.flat();
  assert.equal(new Set(all).size, all.length);
  assert.deepEqual(
    lists.map((one) => one.length),
    lists.map(() => ROOM),
  );
});
