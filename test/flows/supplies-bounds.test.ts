/*
 * Goal: what one node or one market says that is not so costs no more than a bounded amount, and people are told. Method: the
 * stage of supplies, with a chain that never shows what arrived and a market that takes more than it was allowed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { advanceEffect } from '../../src/engine/advance.ts';
import { closeCases } from '../../src/engine/cases.ts';
import type { Rail } from '../../src/engine/rail.ts';
import { TOPUPS_A_DAY_MAX } from '../../src/flows/supplies/limits.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeDue } from '../engine/noop-scene.ts';
import { alertsOf, bought, COIN, effectSeen, makeScene, MARKET, policyOf } from './supplies-scene.ts';

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

test('what a market takes above the order’s price is booked as taken and told, and it gets no further order until people close the case (req R16)', async () => {
  const taken = 3_250_000_000n;
  let dear = true;
  const scene = await makeScene({
    label: 'energy-dear',
    policy: policyOf(),
    lacks: 'energy',
    market: {
      send() {
        const objectId = dear ? 'dear' : 'eo_2';
        dear = false;
        return Promise.resolve({ objectId });
      },
    },
  });
  const { world } = scene;
  const market = world.engine.rails.get(MARKET_RAIL) ?? assert.fail();
  const plain = { ...market };
  const cost = { assetId: COIN, payer: MARKET, units: taken };
  const shows: Rail['read'] = (answer, sealed) => {
    const seen = plain.read(answer, sealed);
    return seen.objectId === 'dear' ? { ...seen, cost } : seen;
  };
  Object.assign(market, { read: shows });
  const now = await scene.at(0);
  await scene.pay();
  await scene.pay();
  await now.pass();
  assert.equal((await bought(world)).length, 2);
  const [rental] = (
    await world.pool.query<{ id: bigint }>("select id from payonce.effects where subject_type = 'energy' order by id")
  ).rows;
  assert.equal(await advanceEffect(now.engine, rental?.id ?? 0n), 'advanced');
  assert.match((await bought(world))[0] ?? '', /energy 1 SETTLED/);
  const { rows: booked } = await world.pool.query<{ code: string; balance: bigint }>(
    "select code, balance from payonce.accounts where (code like 'custody:%' or code = 'gas') and asset_id = $1 and balance <> 0",
    [COIN],
  );
  assert.deepEqual(
    new Map(booked.map((row) => [row.code.split(':').at(-1), row.balance])),
    new Map([
      ['gas', -taken],
      [MARKET, taken],
    ]),
  );
  assert.deepEqual(await alertsOf(world, 'energy_overpriced'), { open: 1, ever: 1 });
  const { rows: cases } = await world.pool.query<{ kind: string; amount: bigint }>(
    'select kind, amount from payonce.cases where closed_at is null',
  );
  assert.deepEqual(cases, [{ kind: 'overpriced', amount: taken }]);

  // What was ordered and not sealed stays, and nothing new is ordered.
  await now.pass(MARKET_RAIL);
  assert.match((await bought(world))[1] ?? '', /PENDING/, 'the order beside it is not sealed');
  scene.energised.clear();
  const late = await scene.pay();
  await makeDue(world);
  await now.pass();
  assert.equal((await bought(world)).length, 2, 'nothing more is ordered there');
  assert.match((await effectSeen(world, late)).reason ?? '', /rental nrg_\w+ cost more than was ordered/);

  await closeCases(world.pool, [rental?.id ?? 0n], ['overpriced'], 'the market paid it back');
  assert.deepEqual(await alertsOf(world, 'energy_overpriced'), { open: 0, ever: 1 });
  await makeDue(world);
  await now.pass(MARKET_RAIL);
  assert.match((await bought(world))[1] ?? '', /SETTLED/);
  await assertBooksClean(world.pool);
  await now.end();
});
