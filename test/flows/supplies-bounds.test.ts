/*
 * Goal: what one node or one market says that is not so costs no more than a bounded amount, and people are told. Method: the
 * stage of supplies, with a chain that never shows what arrived and a market that takes more than it was allowed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TOPUPS_A_DAY_MAX } from '../../src/flows/supplies/limits.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeDue } from '../engine/noop-scene.ts';
import { alertsOf, bought, effectSeen, makeScene, policyOf } from './supplies-scene.ts';

const HOUR_MS = 3_600_000;
const MARKET_RAIL = 'energy:main';

test('an address that a node shows as empty for ever is topped up so often a day, then a person is told (req R16)', async () => {
  const scene = await makeScene({ label: 'topups-a-day', policy: policyOf(), lacks: 'gas' });
  const { world } = scene;
  const id = await scene.pay();
  const rounds = async (count: number, fromMs: number): Promise<void> => {
    for (let round = 0; round < count; round += 1) {
      const moment = await scene.at(fromMs + round * 31_000);
      for (let time = 0; time < 2; time += 1) {
        // What arrives is in the books, and the node goes on to show nothing.
        scene.gassed.delete('wallet-1');
        await makeDue(world);
        await moment.pass();
      }
      await moment.end();
    }
  };
  await rounds(TOPUPS_A_DAY_MAX, 0);
  assert.equal((await bought(world)).length, TOPUPS_A_DAY_MAX);
  assert.deepEqual(await alertsOf(world, 'gas_not_supplied'), { open: 0, ever: 0 });
  await rounds(5, TOPUPS_A_DAY_MAX * 31_000);
  assert.equal((await bought(world)).length, TOPUPS_A_DAY_MAX, 'no more of it on this day');
  assert.match((await effectSeen(world, id)).reason ?? '', /24 top-ups of it in 24 hours: compare it with its chain/);
  assert.deepEqual(await alertsOf(world, 'gas_not_supplied'), { open: 1, ever: 1 });
  await rounds(1, 25 * HOUR_MS);
  assert.equal((await bought(world)).length, TOPUPS_A_DAY_MAX + 1);
  await assertBooksClean(world.pool);
});

test('a market that takes more than the order allowed gets no further order until two persons have said what that was (req R16)', async () => {
  const scene = await makeScene({
    label: 'energy-dear',
    policy: policyOf(),
    lacks: 'energy',
    market: {
      send: () => Promise.resolve({ kind: 'moved_otherwise', objectId: 'eo_1', detail: 'lent for a thousand times' }),
      look: () => Promise.resolve([{ kind: 'moved_otherwise', objectId: 'eo_1', detail: 'lent for a thousand times' }]),
    },
  });
  const { world } = scene;
  const now = await scene.at(0);
  const [first] = [await scene.pay(), await scene.pay()];
  await now.pass();
  await now.pass(MARKET_RAIL);
  const before = await bought(world);
  assert.ok(before.length > 0 && before.every((one) => one.includes(' SEALED ')), before.join(', '));
  assert.deepEqual(
    (await world.pool.query<{ kind: string }>('select distinct kind from payonce.cases where closed_at is null')).rows,
    [{ kind: 'moved_otherwise' }],
  );
  const late = await scene.pay();
  await makeDue(world);
  await now.pass();
  assert.deepEqual(await bought(world), before, 'nothing more is ordered there');
  assert.match((await effectSeen(world, late)).reason ?? '', /rental nrg_\w+ is another than was ordered/);
  assert.equal((await effectSeen(world, first)).identity, null);
  await assertBooksClean(world.pool);
  await now.end();
});
