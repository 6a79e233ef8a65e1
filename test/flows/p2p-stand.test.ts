/*
 * Orders whose trades stand: told together, and none of them held up by another. Method: a provider that accepts, commits counted by the
 * pool, and a trigger of the test's own that refuses one order's row.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { advanceOnce } from '../../src/engine/advance.ts';
import { standOnce } from '../../src/flows/p2p/timers.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeP2pScene, ONE, type P2pScene } from '../support/p2p-scene.ts';

/** Buyers' orders whose trades the provider has accepted, and of whom nobody was told yet. */
async function accepted(scene: P2pScene, orders: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < orders; n += 1) ids.push(await scene.buy({ amount: 10n * ONE }));
  await scene.matcher.runOnce();
  await advanceOnce(scene.world.engine, scene.rail);
  return ids;
}

const provider = {
  send: ({ subjectId }: { subjectId: string }) =>
    Promise.resolve({ kind: 'accepted', objectId: `trade of ${subjectId}` } as const),
  look: ({ subjectId }: { subjectId: string }) =>
    Promise.resolve([{ kind: 'accepted', objectId: `trade of ${subjectId}` } as const]),
};

const statusesOf = async (scene: P2pScene, ids: readonly string[]): Promise<string[]> =>
  Promise.all(ids.map(async (id) => (await scene.deposit(id)).order.status));

test('orders whose trades stand are matched many to a commit, each told once (req M3, M18, M21)', async () => {
  const scene = await makeP2pScene({ lp: provider });
  const { pool, engine, log } = scene.world;
  const ids = await accepted(scene, 12);
  assert.deepEqual(new Set(await statusesOf(scene, ids)), new Set(['MATCHING']));
  const before = pool.counts.commits;
  assert.equal(await standOnce(pool, { ...engine, log }), 12);
  assert.equal(pool.counts.commits - before, 1);
  assert.equal(await standOnce(pool, { ...engine, log }), 0);
  assert.deepEqual(new Set(await statusesOf(scene, ids)), new Set(['MATCHED']));
  for (const id of ids) assert.deepEqual(await scene.events(id), ['created', 'matched']);
  await assertBooksClean(pool);
  await scene.world.end();
});

test('one order that cannot be written holds up none of those whose trades stand beside it (req M3)', async () => {
  const scene = await makeP2pScene({ lp: provider });
  const { pool, engine, log } = scene.world;
  const ids = await accepted(scene, 3);
  const [, refused] = ids;
  await pool.query(`create function public.refuse_one() returns trigger language plpgsql as $$
begin
  if new.id = '${refused}' and new.status = 'MATCHED' then raise exception 'refused by the test'; end if;
  return new;
end $$`);
  await pool.query(
    'create trigger refuse_one before update on payonce.p2p_deposit_orders for each row execute function public.refuse_one()',
  );
  assert.equal(await standOnce(pool, { ...engine, log }), 2);
  assert.deepEqual(await statusesOf(scene, ids), ['MATCHED', 'MATCHING', 'MATCHED']);
  await pool.query('drop trigger refuse_one on payonce.p2p_deposit_orders');
  assert.equal(await standOnce(pool, { ...engine, log }), 1);
  await assertBooksClean(pool);
  await scene.world.end();
});
