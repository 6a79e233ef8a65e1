/*
 * Goal: each fence of the engine's statements holds alone: the affected-row verdict, the state predicate, the lease, the
 * count of testimonies, the stop of sends, and claims that never wait. Method: the statements and `settleBatch` themselves
 * on a real database, called with what a stale or second worker would have in its hands; where another layer would catch
 * the same fault, it is taken away in the test's own database (req W13).
 */
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import pg from 'pg';
import type { Pool } from '../../src/db/pool.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { raiseSends } from '../../src/engine/raise.ts';
import { releaseEffects, sealEffects, settleEffects } from '../../src/engine/edges.ts';
import { settleBatch } from '../../src/engine/settle.ts';
import { claimOne, claimPending, claimSealed } from '../../src/engine/claims.ts';
import { giveBack } from '../../src/engine/store.ts';
import { assertBooksClean } from '../support/books.ts';
import type { World } from '../support/world.ts';
import {
  dropEdgeGuard,
  effectOf,
  evidenceOf,
  intendOne,
  leaseOne,
  makeDue,
  makeNoopWorld,
  railOf,
  settledBy,
  silentUntil,
} from './noop-scene.ts';

/** A session of somebody else that holds this effect's row, until `letGo`. */
async function holdRow(t: TestContext, one: World, id: bigint): Promise<{ letGo(): Promise<void> }> {
  const holder = new pg.Client({ connectionString: one.url });
  await holder.connect();
  t.after(() => holder.end());
  await holder.query('begin');
  await holder.query('select 1 from payonce.effects where id = $1 for update', [id]);
  return { letGo: () => holder.end() };
}

/** A world with one effect, sealed and sent, of which nothing is known yet. */
async function sealedOne(): Promise<{ one: World; id: bigint }> {
  const one = await makeNoopWorld(silentUntil(() => [{ kind: 'not_found' }]));
  const id = await intendOne(one);
  await advanceOnce(one.engine, railOf(one));
  assert.equal((await effectOf(one, id)).state, 'SEALED');
  return { one, id };
}

test('the rows of the edge are the verdict: who is not in its answer posts and tells nothing (req W1, W2, W13)', async () => {
  const { one, id } = await sealedOne();
  const effect = await effectOf(one, id);
  const evidenceId = await evidenceOf(one, effect, 'FINAL_SUCCESS');
  const settle = (): Promise<Set<bigint>> =>
    one.pool.tx('settle', (tx) => settleBatch(tx, one.engine, null, [settledBy(effect, evidenceId)]));
  assert.deepEqual([...(await settle())], [id]);
  // A monitor that read the row before the first one's commit, and did not look again.
  assert.deepEqual([...(await settle())], []);
  const { rowCount } = await one.pool.query("select 1 from payonce.events where type = 'withdrawal.confirmed'");
  assert.equal(rowCount, 1, 'the loser of the edge told the partner as well');
  await assertBooksClean(one.pool);
  await one.end();
});

test('an edge names the state that it leaves, and holds without the guard of the database (req W13, W15)', async () => {
  const { one, id } = await sealedOne();
  const evidenceId = await evidenceOf(one, await effectOf(one, id), 'FINAL_SUCCESS');
  await dropEdgeGuard(one);
  const settle = (): Promise<Set<bigint>> => one.pool.tx('settle', (tx) => settleEffects(tx, [{ id, evidenceId }]));
  assert.equal((await settle()).size, 1);
  assert.equal((await settle()).size, 0, 'a settled effect was settled again');
  await one.end();
});

test('a no under another lease, or after its own ended, releases nothing (case L2, inv E11)', async () => {
  const { one, id } = await sealedOne();
  const effect = await leaseOne(one, id);
  const evidenceId = await evidenceOf(one, effect, 'REVERTED_FINAL');
  const release = (token: bigint): Promise<Set<bigint>> =>
    one.pool.tx('release', (tx) =>
      releaseEffects(tx, [{ id, token, evidenceId, rank: 'dead' as const, overWord: true }]),
    );
  assert.equal((await release(effect.leaseToken - 1n)).size, 0, 'a stale no released');
  await makeDue(one);
  assert.equal((await release(effect.leaseToken)).size, 0, 'a no released after its lease had ended');
  await one.end();
});

test('a no tests the testimonies on the row in its own statement, and holds without the guard of the database (req W13)', async () => {
  const { one, id } = await sealedOne();
  const effect = await leaseOne(one, id);
  await evidenceOf(one, effect, 'FINAL_SUCCESS');
  const evidenceId = await evidenceOf(one, effect, 'REVERTED_FINAL');
  await dropEdgeGuard(one);
  const released = await one.pool.tx('release', (tx) =>
    releaseEffects(tx, [{ id, token: effect.leaseToken, evidenceId, rank: 'dead', overWord: false }]),
  );
  assert.equal(released.size, 0, 'released over testimony');
  await one.end();
});

test('a worker whose lease was taken over seals nothing (case L2)', async () => {
  const one = await makeNoopWorld();
  const id = await intendOne(one);
  const { leaseToken } = await leaseOne(one, id);
  const seal = (token: bigint): Promise<Set<bigint>> =>
    one.pool.tx('seal', (tx) =>
      sealEffects(
        tx,
        [{ id, token, identity: 'id', payload: Buffer.from('{}'), expect: {}, plan: {}, nonce: null }],
        1_000,
      ),
    );
  assert.equal((await seal(leaseToken - 1n)).size, 0, 'a stale worker sealed');
  assert.equal((await seal(leaseToken)).size, 1);
  await one.end();
});

test('permission to send again is given to the lease alone, and never after a re-open (inv E11, E13, case L2)', async () => {
  const { one, id } = await sealedOne();
  const { leaseToken } = await leaseOne(one, id);
  const raise = (token: bigint): Promise<Map<bigint, number>> =>
    one.pool.tx('raise', (tx) => raiseSends(tx, [{ id, token }], 1_000, null, true));
  assert.equal((await raise(leaseToken - 1n)).size, 0, 'a stale worker may send');
  assert.deepEqual([...(await raise(leaseToken))], [[id, 2]]);
  await one.pool.query('update payonce.effects set no_send = true where id = $1', [id]);
  assert.equal((await raise(leaseToken)).size, 0, 'what was re-opened may be sent again');
  await one.end();
});

test('a stale worker does not give back the lease of the one who has it now (case L2)', async () => {
  const { one, id } = await sealedOne();
  const { leaseToken, leaseUntil } = await leaseOne(one, id);
  await one.pool.tx('give back', (tx) =>
    giveBack(tx, [{ id, token: leaseToken - 1n, waitMs: 0, reason: 'stale', counts: false }]),
  );
  assert.deepEqual((await effectOf(one, id)).leaseUntil, leaseUntil, 'a stale worker ended the lease');
  await one.end();
});

test('a worker that slept through its lease right after the claim does not take the next token for its own (case L2)', async () => {
  const one = await makeNoopWorld();
  const id = await intendOne(one);
  const { pool } = one.engine;
  // It wakes when somebody else has the lease.
  const slept: Pool = {
    ...pool,
    async tx(name, work) {
      const result = await pool.tx(name, work);
      if (name === 'claim pending')
        await pool.query('update payonce.effects set lease_token = lease_token + 1 where id = $1', [id]);
      return result;
    },
  };
  await advanceOnce({ ...one.engine, pool: slept }, railOf(one));
  assert.equal((await effectOf(one, id)).state, 'PENDING', 'two workers act under one token');
  await assertBooksClean(one.pool);
  await one.end();
});

test('a claim passes over what another session holds and waits for nobody (req R1, R12)', async (t) => {
  const one = await makeNoopWorld(silentUntil(() => [{ kind: 'not_found' }]));
  const [first, second] = [await intendOne(one), await intendOne(one)];
  const claim = (): Promise<bigint[]> =>
    one.pool.tx('claim', async (tx) => {
      await tx.query("set local lock_timeout = '500ms'");
      const pending = await claimPending(tx, 'noop', [{ signer: one.wallet, room: 10 }], 30_000);
      return [...pending, ...(await claimSealed(tx, 'noop', 10, 30_000))];
    });
  const held = await holdRow(t, one, first);
  assert.deepEqual(await claim(), [second]);
  await held.letGo();

  await makeDue(one);
  await advanceOnce(one.engine, railOf(one));
  await makeDue(one);
  const heldAgain = await holdRow(t, one, first);
  assert.deepEqual(await claim(), [second]);
  await heldAgain.letGo();
  await assertBooksClean(one.pool);
  await one.end();
});

test('whoever wants one effect that another holds is told busy at once (req R3, case L2)', async (t) => {
  const { one, id } = await sealedOne();
  await makeDue(one);
  const claim = (): Promise<string> =>
    one.pool.tx('claim one', async (tx) => {
      await tx.query("set local lock_timeout = '500ms'");
      return claimOne(tx, id, 30_000);
    });
  const held = await holdRow(t, one, id);
  assert.equal(await claim(), 'busy');
  await held.letGo();
  assert.equal(await claim(), 'claimed');
  assert.equal(await claim(), 'busy', 'two have the lease of one effect');
  await one.end();
});

test('the event of a transition is in the transaction of the transition (req W9, case D7)', async () => {
  const { one, id } = await sealedOne();
  const effect = await effectOf(one, id);
  const evidenceId = await evidenceOf(one, effect, 'FINAL_SUCCESS');
  const seen = await one.pool.tx('settle', async (tx) => {
    await settleBatch(tx, one.engine, null, [settledBy(effect, evidenceId)]);
    return (await tx.query("select 1 from payonce.events where type = 'withdrawal.confirmed'")).rowCount;
  });
  assert.equal(seen, 1, 'the event was not written with its transition');
  await assertBooksClean(one.pool);
  await one.end();
});
