/*
 * Goal: a cycle sweeps what is worth it, once, whoever runs it and however often, and says why the rest stays. Method: the pure
 * decision over tables; cycles over the real engine and a rail on which everything succeeds, with the ledger as the judge.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { advanceOnce } from '../../src/engine/advance.ts';
import { makeNoopRail, type NoopBehaviour } from '../../src/engine/noop.ts';
import type { Rail } from '../../src/engine/rail.ts';
import { cancelCollection, collectOnce, listLeft, makeCollections } from '../../src/flows/collections/index.ts';
import { decideHolding, type Holding, laneOf } from '../../src/flows/collections/plan.ts';
import { makeWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { cycle, depositAt, heldAt, HOUR_MS, ownAddress, sweepAbove, sweepsOf } from '../support/collect-scene.ts';
import { balanceOf, makeWorld, type World } from '../support/world.ts';

const CHAIN = 'noop';
const holding = (change: Partial<Holding> = {}): Holding => ({
  chain: CHAIN,
  address: 'a',
  partnerId: 'p',
  assetId: 'noop/erc20:token',
  isCoin: false,
  units: 100n,
  min: 10n,
  keep: 0n,
  accountSeq: 7n,
  rail: 'noop',
  wallet: 'master',
  walletIsMaster: true,
  openLane: null,
  ordinal: 0,
  last: null,
  ...change,
});

test('a holding is swept whole at its minimum and stays below it; each reason to leave it has its name (req R9)', () => {
  const last = { accountSeq: 7n, closedAs: null, undecided: false };
  const rows: [Partial<Holding>, bigint | string][] = [
    [{}, 100n],
    [{ units: 10n }, 10n],
    [{ units: 9n }, 'below_min'],
    [{ keep: 90n }, 10n],
    [{ keep: 91n }, 'below_min'],
    [{ openLane: laneOf(holding()) }, 'sweep_open'],
    [{ isCoin: true, assetId: 'noop/slip44:60', openLane: laneOf(holding()) }, 'tokens_first'],
    [{ wallet: null, rail: null }, 'no_master'],
    [{ walletIsMaster: false }, 'no_master'],
    [{ last: { ...last, undecided: true } }, 'in_review'],
    [{ last: { ...last, closedAs: 'failed' } }, 'ended_before'],
    [{ last: { ...last, closedAs: 'failed', accountSeq: 6n } }, 100n],
    [{ last: { ...last, closedAs: 'cancelled' } }, 100n],
    [{ last: { ...last, accountSeq: 5n } }, 100n],
  ];
  for (const [change, expected] of rows) {
    const decision = decideHolding(holding(change));
    assert.equal(decision.do === 'sweep' ? decision.amount : decision.why, expected, JSON.stringify(expected, String));
  }
});

test('what is swept is never more than what lies there less what must stay, and never less than the minimum', () => {
  const units = fc.bigInt(0n, 2n ** 90n);
  fc.assert(
    fc.property(units, fc.bigInt(1n, 2n ** 90n), units, (have, min, keep) => {
      const decision = decideHolding(holding({ units: have, min, keep }));
      if (decision.do === 'sweep') assert.ok(decision.amount + keep === have && decision.amount >= min);
      else assert.ok(have - keep < min);
    }),
  );
});

let seen: NonNullable<NoopBehaviour['send']> = () => Promise.resolve({});
let world: World;
before(async () => {
  world = await makeWorld({
    label: 'collections',
    rails: (): Rail[] => [makeNoopRail('noop', { send: (sealed) => seen(sealed) })],
    flows: (chart) => [makeWithdrawals(chart), makeCollections(chart)],
    endedByHook: true,
  });
  await sweepAbove(world, CHAIN, { assetId: world.assetId, min: 10n });
});
after(async () => {
  await assertBooksClean(world.pool);
  await world.end();
});

let addresses = 0;
async function deposited(units: bigint): Promise<string> {
  addresses += 1;
  const address = `deposit-${String(addresses).padStart(3, '0')}`;
  await ownAddress(world, CHAIN, address, 'DEPOSIT', world.partnerId);
  await depositAt(world, CHAIN, world.assetId, [{ address, units }]);
  return address;
}
async function passes(count = 3): Promise<void> {
  const rail = world.engine.rails.get('noop');
  assert.ok(rail);
  for (let round = 0; round < count; round += 1) {
    await world.pool.query(
      "update payonce.effects set next_at = payonce.now() - interval '1 second' where ended_at is null and lease_until is null",
    );
    await advanceOnce(world.engine, rail);
  }
}
const sweepOf = async (address: string) => (await sweepsOf(world)).filter((one) => one.address === address);

test('a cycle moves what is worth it into the master wallet, leaves dust, and credits nobody (req R9, W8, inv E16)', async () => {
  const [rich, poor] = [await deposited(50n), await deposited(9n)];
  const before = await balanceOf(world);
  const master = await heldAt(world, CHAIN, world.wallet, world.assetId);
  const collected = await cycle(world, CHAIN);
  assert.deepEqual([collected.made, collected.left], [1, { below_min: 1 }]);
  await passes();
  assert.equal((await sweepOf(rich))[0]?.status, 'swept');
  assert.deepEqual(await sweepOf(poor), []);
  assert.equal(await heldAt(world, CHAIN, rich, world.assetId), 0n);
  assert.equal(await heldAt(world, CHAIN, world.wallet, world.assetId), master + 50n);
  assert.deepEqual(await balanceOf(world), before, 'the partner has what it had');
  const [dust] = await listLeft(world.pool, world.assetId);
  assert.deepEqual([dust?.holding.address, dust?.holding.units, dust?.why], [poor, 9n, 'below_min']);
  assert.equal((await cycle(world, CHAIN)).made, 0, 'a second cycle finds nothing more');
});

test('eight cycles at once over the same addresses make one sweep each (req R3, case N6, inv E16)', async () => {
  const made = [await deposited(20n), await deposited(30n), await deposited(40n)];
  const collected = await Promise.all(Array.from({ length: 8 }, () => cycle(world, CHAIN)));
  assert.equal(
    collected.reduce((sum, one) => sum + one.made, 0),
    3,
  );
  for (const address of made) assert.equal((await sweepOf(address)).length, 1);
  await passes();
});

test('the hour is one process’s turn: the others find nothing due, and a cycle that died is taken over (req R3)', async () => {
  const address = await deposited(20n);
  const due = "update payonce.collection_terms set next_at = payonce.now() - interval '1 second'";
  await world.pool.query(due);
  const collected = await Promise.all(Array.from({ length: 4 }, () => collectOnce(world.engine, CHAIN)));
  assert.equal(collected.filter((one) => one.assets.length === 1).length, 1, 'one process had the hour');
  assert.equal((await sweepOf(address)).length, 1);
  const { rows } = await world.pool.query<{ wait_ms: number }>(
    'select extract(epoch from next_at - began_at)::float8 * 1000 as wait_ms from payonce.collection_terms where asset_id = $1',
    [world.assetId],
  );
  assert.equal(rows[0]?.wait_ms, HOUR_MS);
  // A turn that was taken and never ended lies open for a few minutes, not for an hour.
  await world.pool.query(
    "update payonce.collection_terms set token = token + 1, began_at = payonce.now() - interval '11 minutes', next_at = payonce.now() - interval '1 minute'",
  );
  const other = await deposited(20n);
  assert.deepEqual((await collectOnce(world.engine, CHAIN)).assets, [world.assetId]);
  assert.equal((await sweepOf(other)).length, 1);
  await passes();
});

test('what comes while a sweep is open is swept in a later cycle, under a subject of its own (case N6)', async () => {
  const address = await deposited(20n);
  await cycle(world, CHAIN);
  await depositAt(world, CHAIN, world.assetId, [{ address, units: 70n, key: 'second' }]);
  assert.equal((await cycle(world, CHAIN)).left.sweep_open, 1);
  await passes();
  assert.equal(await heldAt(world, CHAIN, address, world.assetId), 70n);
  assert.equal((await cycle(world, CHAIN)).made, 1);
  await passes();
  assert.deepEqual(
    (await sweepOf(address)).map((one) => [one.amount, one.status]),
    [
      [70n, 'swept'],
      [20n, 'swept'],
    ],
  );
});

test('a sweep whose money left otherwise is called off, and the next one is made for what is there', async () => {
  const address = await deposited(100n);
  await cycle(world, CHAIN);
  await world.pool.query(
    "update payonce.effects set failures = 1, wait_reason = 'ONCHAIN_INSUFFICIENT', next_at = payonce.now() + interval '1 hour' where wallet = $1",
    [address],
  );
  // Somebody swept 60 of it by hand; the scanner has booked that.
  await depositAt(world, CHAIN, world.assetId, [{ address, units: -60n, key: 'by-hand' }]);
  const collected = await cycle(world, CHAIN);
  assert.deepEqual([collected.calledOff, collected.made], [1, 1]);
  await passes();
  assert.deepEqual(
    (await sweepOf(address)).map((one) => [one.amount, one.status]),
    [
      [40n, 'swept'],
      [100n, 'cancelled'],
    ],
  );
});

test('a person calls a sweep off before its seal; a second time and after the seal nothing happens', async () => {
  const address = await deposited(20n);
  await cycle(world, CHAIN);
  const [sweep] = await sweepOf(address);
  assert.ok(sweep);
  assert.equal(await cancelCollection(world.engine, sweep.id, 'op'), 'cancelled');
  assert.equal(await cancelCollection(world.engine, sweep.id, 'op'), 'cancelled');
  assert.equal(await cancelCollection(world.engine, 'col_none', 'op'), 'not_found');
  await cycle(world, CHAIN);
  await passes();
  const [again] = await sweepOf(address);
  assert.equal(again?.status, 'swept');
  assert.equal(await cancelCollection(world.engine, again?.id ?? '', 'op'), 'too_late');
});

test('a sweep that fails again and again goes to a person, is not made again by the hour, and stops no other (case E8, N1)', async () => {
  const [bad, good] = [await deposited(20n), await deposited(20n)];
  seen = (sealed) =>
    Promise.resolve(
      sealed.wallet === bad ? { kind: 'reverted_final', witness: true, detail: 'execution reverted' } : {},
    );
  await cycle(world, CHAIN);
  await passes(6);
  seen = () => Promise.resolve({});
  assert.equal((await sweepOf(good))[0]?.status, 'swept');
  assert.equal((await sweepOf(bad))[0]?.status, 'in_review');
  const cases = await world.pool.query(
    "select 1 from payonce.cases where kind = 'after_release' and closed_at is null and subject_key like 'collection:%'",
  );
  assert.equal(cases.rowCount, 1);
  assert.equal((await cycle(world, CHAIN)).left.in_review, 1, 'a person has not decided yet');
  assert.equal((await sweepOf(bad)).length, 1);
});

test('an asset that is no longer collected is left alone, and a wallet that is no master gets nothing', async () => {
  await deposited(20n);
  await sweepAbove(world, CHAIN);
  assert.deepEqual((await cycle(world, CHAIN)).assets, []);
  await sweepAbove(world, CHAIN, { assetId: world.assetId, min: 10n });
  await world.pool.query("update payonce.asset_policies set wallet = 'elsewhere' where asset_id = $1", [world.assetId]);
  // The other is the one that failed before.
  assert.deepEqual((await cycle(world, CHAIN)).left, { below_min: 1, no_master: 2 });
  await world.pool.query('update payonce.asset_policies set wallet = $2 where asset_id = $1', [
    world.assetId,
    world.wallet,
  ]);
});
