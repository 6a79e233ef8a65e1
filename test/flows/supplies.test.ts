/*
 * Goal: what waiting payments lack is bought once, by effects of its own, after the claim and before the payment's seal; what
 * cannot be had leaves the payment in the queue with a reason, nothing of it sealed, told once (req R7, R16). Method: payments
 * that need energy or gas on a rail whose answers are the test's, with the database's clock put forward.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadAttention } from '../../src/audit/attention.ts';
import { loadGauges } from '../../src/audit/gauges.ts';
import { giveBackWaiting } from '../../src/engine/wait.ts';
import { claimOne } from '../../src/engine/claims.ts';
import { loadEffects } from '../../src/engine/store.ts';
import { levelOf } from '../../src/flows/supplies/levels.ts';
import type { WatchedWallet } from '../../src/flows/supplies/index.ts';
import { accountName } from '../../src/ledger/accounts.ts';
import { post } from '../../src/ledger/post.ts';
import { assertBooksClean } from '../support/books.ts';
import { balanceOf, type World } from '../support/world.ts';
import { makeDue } from '../engine/noop-scene.ts';
import {
  alertsOf,
  bought,
  BURN,
  CHAIN,
  COIN,
  effectSeen,
  ENERGY,
  GAS_WALLET,
  makeScene,
  MARKET,
  policyOf,
} from './supplies-scene.ts';

const MARKET_RAIL = 'energy:main';
const MINUTE_MS = 60_000;

test('energy is rented after the claim and before the seal, the payment is woken when it has come, and the rental is booked (req R16)', async () => {
  const scene = await makeScene({ label: 'energy', policy: policyOf(), lacks: 'energy' });
  const { world } = scene;
  const now = await scene.at(0);
  const id = await scene.pay();
  await now.pass();
  const waiting = await effectSeen(world, id);
  assert.deepEqual([waiting.state, waiting.identity], ['PENDING', null]);
  assert.match(waiting.reason ?? '', /^ENERGY_SHORT: short; rental nrg_\w+ is under way$/);
  assert.ok(waiting.wait_ms > 5_000, `${waiting.wait_ms} ms`);
  assert.deepEqual(await bought(world), ['energy 1 PENDING 3250000']);
  await now.pass(MARKET_RAIL);
  assert.deepEqual(await bought(world), ['energy 1 SETTLED 3250000']);
  assert.ok((await effectSeen(world, id)).wait_ms <= 0, 'it is due as soon as its energy has come');
  await now.pass();
  assert.equal((await effectSeen(world, id)).state, 'SETTLED');
  assert.equal((await balanceOf(world, `custody:${CHAIN}:${MARKET}`, COIN)).balance, ENERGY * 50n);
  assert.equal((await balanceOf(world, 'gas', COIN)).balance, -ENERGY * 50n);
  await assertBooksClean(world.pool);
  await now.end();
});

test('one need is one rental: asked again, by two workers at once, or while the chain does not show it, nothing more is bought until it has run out (req R16)', async () => {
  const scene = await makeScene({ label: 'energy-once', policy: policyOf(), lacks: 'energy' });
  const { world } = scene;
  const [now, other] = [await scene.at(0), await scene.at(0)];
  const id = await scene.pay();
  scene.shows = false;
  for (let time = 0; time < 3; time += 1) {
    await Promise.all([now.pass(), other.pass()]);
    await makeDue(world);
  }
  assert.deepEqual(await bought(world), ['energy 1 PENDING 3250000']);
  await Promise.all([now.pass(MARKET_RAIL), other.pass(MARKET_RAIL)]);
  await makeDue(world);
  await Promise.all([now.pass(), other.pass()]);
  assert.match((await effectSeen(world, id)).reason ?? '', /rental nrg_\w+ was delivered/);
  assert.deepEqual(await bought(world), ['energy 1 SETTLED 3250000']);
  const later = await scene.at(61 * MINUTE_MS);
  await later.pass();
  assert.deepEqual(await bought(world), ['energy 1 SETTLED 3250000', 'energy 2 PENDING 3250000'], 'the first ran out');
  await later.pass(MARKET_RAIL);
  scene.shows = true;
  await later.pass();
  assert.equal((await effectSeen(world, id)).state, 'SETTLED');
  await assertBooksClean(world.pool);
  for (const one of [now, other, later]) await one.end();
});

test('energy refused: the payment goes back with the reason and nothing is sealed, people are told once, and the next order has an identity of its own (req R4, R16)', async () => {
  let refuses = true;
  const scene = await makeScene({
    label: 'energy-refused',
    policy: policyOf(),
    lacks: 'energy',
    market: {
      send: (sealed) =>
        Promise.resolve(
          refuses
            ? { kind: 'object_failed', objectId: `o-${sealed.effectId}`, keyStaysBound: true, detail: 'no stock' }
            : {},
        ),
      look: () => Promise.resolve([{ kind: 'not_found' }]),
    },
  });
  const { world } = scene;
  const id = await scene.pay();
  for (const minute of [0, 1, 2]) {
    const moment = await scene.at(minute * MINUTE_MS);
    await moment.pass();
    await moment.pass(MARKET_RAIL);
    await makeDue(world);
    await moment.pass();
    assert.match((await effectSeen(world, id)).reason ?? '', /rental nrg_\w+ was refused/);
    await moment.end();
  }
  assert.deepEqual(
    await bought(world),
    [1, 2, 3].map((ordinal) => `energy ${ordinal} RELEASED 3250000`),
  );
  const { rows } = await world.pool.query<{ count: number }>(
    "select count(distinct identity)::int as count from payonce.effects where subject_type = 'energy'",
  );
  assert.equal(rows[0]?.count, 3);
  assert.deepEqual(await alertsOf(world, 'energy_unavailable'), { open: 1, ever: 1 });
  assert.deepEqual(await alertsOf(world, 'energy_short'), { open: 1, ever: 1 });
  assert.deepEqual([(await effectSeen(world, id)).state, (await effectSeen(world, id)).identity], ['PENDING', null]);
  refuses = false;
  const moment = await scene.at(3 * MINUTE_MS);
  await moment.pass();
  await moment.pass(MARKET_RAIL);
  await moment.pass();
  assert.equal((await effectSeen(world, id)).state, 'SETTLED');
  assert.deepEqual(await alertsOf(world, 'energy_unavailable'), { open: 0, ever: 1 });
  assert.equal((await balanceOf(world, 'gas', COIN)).balance, -ENERGY * 50n, 'only what was delivered is paid');
  await assertBooksClean(world.pool);
  await moment.end();
});

test('energy that has not come in 60 s of the database’s clock lets a payment burn coin, up to the cap of its policy and not before (req R16)', async () => {
  const silent = {
    send: () => Promise.resolve({ kind: 'in_progress' as const }),
    look: () => Promise.resolve([{ kind: 'in_progress' as const }]),
  };
  for (const [whenNone, ends] of [
    [{ act: 'burn', upTo: BURN }, 'SETTLED'],
    [{ act: 'burn', upTo: BURN - 1n }, 'PENDING'],
    [{ act: 'wait' }, 'PENDING'],
  ] as const) {
    const policy = policyOf({ energy: policyOf().energy.map((one) => ({ ...one, whenNone })) });
    const scene = await makeScene({ label: 'energy-burn', policy, lacks: 'energy', market: silent });
    const id = await scene.pay();
    for (const [shiftMs, state] of [
      [0, 'PENDING'],
      [55_000, 'PENDING'],
      [62_000, ends],
    ] as const) {
      const moment = await scene.at(shiftMs);
      await makeDue(scene.world);
      await moment.pass();
      assert.equal((await effectSeen(scene.world, id)).state, state, `${whenNone.act} after ${shiftMs} ms`);
      await moment.end();
    }
    await assertBooksClean(scene.world.pool);
    await scene.world.end();
  }
});

test('an address without gas gets one top-up from a gas wallet, up to its level, however many payments wait for it (req R16)', async () => {
  const scene = await makeScene({ label: 'topup', policy: policyOf(), lacks: 'gas' });
  const { world } = scene;
  const now = await scene.at(0);
  const ids = [await scene.pay(), await scene.pay(), await scene.pay()];
  await now.pass();
  assert.deepEqual(await bought(world), ['topup 1 PENDING 50']);
  for (const id of ids) assert.match((await effectSeen(world, id)).reason ?? '', /top-up top_\w+ is under way/);
  await now.pass();
  assert.deepEqual(await bought(world), ['topup 1 SETTLED 50']);
  await now.pass();
  for (const id of ids) assert.equal((await effectSeen(world, id)).state, 'SETTLED');
  assert.equal((await balanceOf(world, `custody:${CHAIN}:${GAS_WALLET}`, COIN)).balance, 50n);
  assert.equal((await balanceOf(world, `custody:${CHAIN}:wallet-1`, COIN)).balance, -50n);
  await assertBooksClean(world.pool);
  await now.end();
});

test('no wallet that may pay, or more than one top-up brings: the payment waits with that reason, nothing is sealed, told once (req R7)', async () => {
  for (const [gas, reason] of [
    [{ wallets: ['nobody'] }, /no gas wallet of this chain may pay/],
    [{ wallets: ['wallet-1'] }, /wallet-1 is a gas wallet itself: fund it/],
    [{ amountMax: 6n }, /it lacks 7, one top-up brings 6 at most/],
  ] as const) {
    const policy = policyOf({ gas: policyOf().gas.map((one) => ({ ...one, ...gas })) });
    const scene = await makeScene({ label: 'no-gas', policy, lacks: 'gas' });
    const now = await scene.at(0);
    const id = await scene.pay();
    for (let time = 0; time < 3; time += 1) {
      await makeDue(scene.world);
      await now.pass();
    }
    const seen = await effectSeen(scene.world, id);
    assert.deepEqual([seen.state, seen.identity], ['PENDING', null]);
    assert.match(seen.reason ?? '', reason);
    assert.deepEqual(await bought(scene.world), []);
    assert.deepEqual(await alertsOf(scene.world, 'gas_not_supplied'), { open: 1, ever: 1 });
    assert.deepEqual(await alertsOf(scene.world, 'gas_short'), { open: 1, ever: 1 });
    await assertBooksClean(scene.world.pool);
    await now.end();
    await scene.world.end();
  }
});

test('a worker that lost its lease while it planned buys nothing (req R1, R16)', async () => {
  const scene = await makeScene({ label: 'stale', policy: policyOf(), lacks: 'energy' });
  const { world } = scene;
  const now = await scene.at(0);
  const id = await scene.pay();
  await world.pool.tx('claim', (tx) => claimOne(tx, id, 30_000));
  const [stale] = await loadEffects(world.pool, [id]);
  await makeDue(world);
  await world.pool.tx('claim', (tx) => claimOne(tx, id, 30_000));
  assert.ok(stale);
  const rail = now.engine.rails.get(CHAIN);
  assert.ok(rail);
  await giveBackWaiting(now.engine, rail, [
    {
      effect: stale,
      verdict: {
        verdict: 'wait',
        reason: 'ENERGY_SHORT',
        detail: 'short',
        alert: false,
        lasts: 'until_mended',
        needs: { kind: 'energy', address: 'wallet-1', units: ENERGY },
      },
    },
  ]);
  assert.deepEqual(await bought(world), []);
  await now.end();
});

const WATCHED: WatchedWallet = {
  chain: CHAIN,
  address: GAS_WALLET,
  coinAssetId: COIN,
  warnBelow: 100n,
  warnWithinMs: 6 * 3_600_000,
};

/** Coin comes to the gas wallet (`> 0`), or gas is burned (`< 0`). */
async function moveCoin(world: World, key: string, units: bigint, at: string = GAS_WALLET): Promise<void> {
  await world.pool.tx('coin', async (tx) => {
    const [wallet, other] = await world.chart.ids(tx, [
      accountName.custody(CHAIN, at, COIN),
      units > 0n ? accountName.treasury(COIN) : accountName.gas(COIN),
    ]);
    assert.ok(wallet !== undefined && other !== undefined);
    const entries = [
      { accountId: wallet, amount: -units },
      { accountId: other, amount: units },
    ];
    await post(tx, [{ kind: 'post', key, reference: 'coin', entries }]);
  });
}

test('a wallet that runs dry is told before it is empty, by its level and by the rate of its last day, once, until it is filled (req R7)', async () => {
  const scene = await makeScene({ label: 'levels', policy: policyOf({ watched: [WATCHED] }), lacks: 'gas' });
  const { world } = scene;
  const now = await scene.at(0);
  await moveCoin(world, 'MIGRATED:opening', 1_000n);
  const [full] = await now.supplies.checkLevels();
  assert.deepEqual([full?.units, full?.isShort, full?.secondsLeft], [1_000n, false, null]);
  // 600 in the last hour: what is left lasts 40 minutes, although it is far above its level.
  await moveCoin(world, 'GAS:9001', -600n);
  for (let time = 0; time < 3; time += 1) {
    const [burning] = await now.supplies.checkLevels();
    assert.deepEqual([burning?.units, burning?.isShort, burning?.secondsLeft], [400n, true, 2_400n]);
  }
  assert.deepEqual(await alertsOf(world, 'wallet_short'), { open: 1, ever: 1 });
  const { walletsShort } = await loadAttention(world.pool);
  assert.deepEqual(walletsShort, [
    { chain: CHAIN, address: GAS_WALLET, left: '0.0000000000000004 COIN', hoursLeft: '0.7' },
  ]);
  const gauges = await loadGauges(world.pool);
  const value = (name: string): number | undefined => gauges.find((one) => one.name === name)?.value;
  assert.deepEqual([value('wallets_short'), value('wallet_seconds_left')], [1, 2_400]);
  await moveCoin(world, 'MIGRATED:refill', 100_000n);
  await now.supplies.checkLevels();
  assert.deepEqual(await alertsOf(world, 'wallet_short'), { open: 0, ever: 1 });
  assert.deepEqual((await loadAttention(world.pool)).walletsShort, []);
  await now.end();
});

test('each batch looks at the wallets that pay for it, and what the chain shows counts before the books (req R7)', async () => {
  let onChain: bigint | null = 99n;
  const scene = await makeScene({
    label: 'levels-batch',
    policy: policyOf({ watched: [{ ...WATCHED, address: 'wallet-1' }, WATCHED] }),
    lacks: 'gas',
    readBalance: () => Promise.resolve(onChain),
  });
  const { world } = scene;
  const now = await scene.at(0);
  await moveCoin(world, 'MIGRATED:opening', 1_000n);
  assert.deepEqual(await alertsOf(world, 'wallet_short'), { open: 0, ever: 0 });
  await scene.pay();
  await now.pass();
  assert.deepEqual(await alertsOf(world, 'wallet_short'), { open: 0, ever: 0 }, 'on no book: only the chain knows');
  await moveCoin(world, 'MIGRATED:little', 1n, 'wallet-1');
  await makeDue(world);
  await now.pass();
  const { rows } = await world.pool.query<{ key: string }>('select key from payonce.alerts where kind = $1', [
    'wallet_short',
  ]);
  assert.deepEqual(
    rows.map((row) => row.key),
    [`${CHAIN}:wallet-1`],
    'the wallet that the batch pays from, no other',
  );
  const levels = await now.supplies.checkLevels();
  assert.deepEqual(
    levels.map((one) => [one.source, one.units, one.isShort]),
    [
      ['chain', 99n, true],
      ['chain', 99n, true],
    ],
  );
  // The next batch pays from the gas wallet, and by the books it has enough: what the chain has shown stands.
  await makeDue(world);
  await now.pass();
  assert.deepEqual(await alertsOf(world, 'wallet_short'), { open: 2, ever: 2 });
  onChain = 100_000n;
  await now.supplies.checkLevels();
  assert.deepEqual(await alertsOf(world, 'wallet_short'), { open: 0, ever: 2 });
  onChain = null;
  assert.equal((await now.supplies.checkLevels())[1]?.source, 'books', 'no node answers: the books');
  await now.end();
});

test('the measure of a level is whole units over whole time, and nothing burned lasts for ever', () => {
  const level = (units: bigint, burned: bigint): unknown => {
    const { secondsLeft, isShort } = levelOf(WATCHED, units, 'books', burned, 86_400_000);
    return [secondsLeft, isShort];
  };
  assert.deepEqual(level(100n, 0n), [null, false]);
  assert.deepEqual(level(99n, 0n), [null, true]);
  assert.deepEqual(level(426n, 423n), [87_012n, false]);
  assert.deepEqual(level(-5n, 1n), [0n, true], 'books below zero: nothing is left');
  assert.deepEqual(level(1_000n, 4_001n), [21_594n, true]);
});
