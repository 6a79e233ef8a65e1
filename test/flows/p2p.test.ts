/* P2P on real PostgreSQL: orders, legs and money, with a provider on the rail where nothing moves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertBooksClean } from '../support/books.ts';
import { BUYER, makeP2pScene, ONE, SELLER } from '../support/p2p-scene.ts';

const SECONDS = 1_000;

test('a buyer’s order is written and answered, then matched with a seller and settled when the leg is confirmed (req M1, M8, M13)', async () => {
  const scene = await makeP2pScene({ feeBp: 50 });
  const before = await scene.available(SELLER);
  const sold = await scene.sell({ amount: 150n * ONE });
  assert.equal(await scene.available(SELLER), before - 150n * ONE);
  const bought = await scene.buy();
  assert.equal((await scene.deposit(bought)).order.status, 'PENDING');
  await scene.settleDown();
  const matched = await scene.deposit(bought);
  assert.deepEqual(
    [matched.order.status, matched.order.remaining, matched.legs.map((leg) => [leg.kind, leg.amount, leg.fiatAmount])],
    ['MATCHED', 0n, [['SELLER', 100n * ONE, 130_000n]]],
  );
  const [leg] = matched.legs;
  assert.ok(leg !== undefined);
  assert.equal((await scene.confirm(leg.id, '129999')).outcome, 'differs');
  assert.deepEqual(await scene.confirm(leg.id), { outcome: 'settled' });
  assert.deepEqual(await scene.confirm(leg.id), { outcome: 'already' });
  const done = await scene.deposit(bought);
  assert.deepEqual([done.order.status, done.order.closeReason], ['COMPLETED', 'PAID_IN_FULL']);
  assert.equal(await scene.available(BUYER), 100n * ONE - 500_000n);
  assert.deepEqual(await scene.events(bought), ['created', 'matched', 'leg_settled', 'completed']);
  assert.deepEqual(await scene.events(sold), ['created', 'matched', 'leg_settled']);
  assert.equal((await scene.withdraw(sold)).order.status, 'OPEN');
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
});

test('three sellers and a provider: never more than three legs, and a remainder under the minimum is left (req M8)', async () => {
  const scene = await makeP2pScene({
    lp: {
      send: () => Promise.resolve({ kind: 'accepted', objectId: 'trade-1' }),
      look: () => Promise.resolve([{ kind: 'accepted', objectId: 'trade-1' }]),
    },
  });
  await scene.sell({ amount: 30n * ONE });
  await scene.sell({ amount: 30n * ONE });
  await scene.sell({ amount: 30n * ONE });
  const bought = await scene.buy({ amount: 100n * ONE });
  await scene.settleDown();
  const { order, legs } = await scene.deposit(bought);
  assert.deepEqual(
    [order.status, legs.map((leg) => leg.kind), legs.reduce((sum, leg) => sum + leg.amount, 0n)],
    ['MATCHED', ['SELLER', 'SELLER', 'LP'], 100n * ONE],
  );
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
});

test('a provider that releases settles its leg; its clearing account owes what it gave (req M9, M10)', async () => {
  let state: 'accepted' | 'final_success' = 'accepted';
  const scene = await makeP2pScene({
    lp: {
      send: () => Promise.resolve({ kind: 'in_progress' }),
      look: () => Promise.resolve([{ kind: state, objectId: 'trade-1' }]),
    },
  });
  const bought = await scene.buy();
  await scene.settleDown();
  assert.equal((await scene.deposit(bought)).order.status, 'MATCHED');
  state = 'final_success';
  await scene.settleDown();
  assert.equal((await scene.deposit(bought)).order.status, 'COMPLETED');
  assert.equal(await scene.available(BUYER), 100n * ONE);
  assert.deepEqual(await scene.events(bought), ['created', 'matched', 'leg_settled', 'completed']);
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
});

test('a provider that refuses gives its amount back and the order looks again, until its attempts are used up (req M6, M18)', async () => {
  const scene = await makeP2pScene({
    lp: {
      send: () =>
        Promise.resolve({
          kind: 'refused',
          detail: 'no liquidity',
          refusal: { stage: 'after_key_check', storedUnderKey: true, replayed: false, final: true, atOnce: false },
        }),
      look: () =>
        Promise.resolve([
          {
            kind: 'refused',
            detail: 'no liquidity',
            refusal: { stage: 'after_key_check', storedUnderKey: true, replayed: false, final: true, atOnce: false },
          },
        ]),
    },
  });
  const bought = await scene.buy();
  for (let round = 0; round < 6; round += 1) {
    await scene.settleDown();
    await scene.later(100 * SECONDS);
  }
  const { order, legs } = await scene.deposit(bought);
  assert.deepEqual([order.status, order.closeReason, order.remaining], ['CANCELLED', 'MATCH_FAILED', 100n * ONE]);
  assert.deepEqual(new Set(legs.map((leg) => leg.state)), new Set(['VOID']));
  assert.deepEqual(await scene.events(bought), ['created', 'cancelled']);
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
});

test('no liquidity is no failed attempt: the order waits until its deadline, and then is EXPIRED (req M19)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const bought = await scene.buy();
  await scene.settleDown();
  const waiting = await scene.deposit(bought);
  assert.deepEqual(
    [waiting.order.status, waiting.order.attempts, waiting.order.waitReason],
    ['PENDING', 0, 'NO_LIQUIDITY'],
  );
  await scene.later(3_700 * SECONDS);
  await scene.settleDown();
  assert.deepEqual(await scene.events(bought), ['created', 'expired']);
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
});

test('a leg that is not paid in time gives its amount back to the seller; what is paid after that is credited (req M13, case I1)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const sold = await scene.sell({ amount: 100n * ONE });
  const bought = await scene.buy();
  await scene.settleDown();
  await scene.later(1_000 * SECONDS);
  await scene.settleDown();
  const expired = await scene.deposit(bought);
  assert.deepEqual([expired.order.status, expired.order.remaining], ['EXPIRED', 100n * ONE]);
  assert.equal((await scene.withdraw(sold)).order.reserved, 0n);
  const [leg] = expired.legs;
  assert.deepEqual(await scene.confirm(leg?.id ?? ''), { outcome: 'settled' });
  const late = await scene.deposit(bought);
  assert.deepEqual([late.order.status, late.order.closeReason], ['COMPLETED', 'PAID_LATE']);
  assert.equal((await scene.withdraw(sold)).order.status, 'COMPLETED');
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
});
