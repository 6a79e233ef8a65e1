/*
 * Ten thousand deposit addresses in one hour's cycle (issue 4, show 7). Method: the real flow, engine, ledger and PostgreSQL in
 * virtual time; the rail is a stand-in that counts what it is asked and shows each sweep in a block after 3 s and final after
 * 60 s, as TRON does, so that the figures are of what we ask, not of a node. What a node is asked per sweep, JSON-RPC call by
 * call, is counted on anvil in the second test.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sendOnce, watchOnce } from '../../src/engine/advance.ts';
import { makeNoopRail } from '../../src/engine/noop.ts';
import type { Rail, SealedEffect } from '../../src/engine/rail.ts';
import { type Collected, collectOnce, makeCollections } from '../../src/flows/collections/index.ts';
import { makeWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { depositAt, heldAt, sweepAbove, sweepsOf } from '../support/collect-scene.ts';
import { makeCollectScene } from '../support/collect-evm.ts';
import { makeVirtualTime } from '../support/virtual-time.ts';
import { makeWorld } from '../support/world.ts';

const CHAIN = 'noop';
const ADDRESSES = 10_000;
/** One in ten holds dust. */
const DUST_EVERY = 10;
const SWEPT = ADDRESSES - ADDRESSES / DUST_EVERY;
const FINAL_MS = 60_000;
const INCLUDED_MS = 3_000;
/** What a pass of a hundred takes a worker on a real network: a plan, a hundred sends sixteen at a time; a batch of looks. */
const SEND_PASS_MS = 2_000;
const LOOK_PASS_MS = 300;
const LOOK_EVERY_MS = 20_000;
const DEPOSITS_POSTED = 1_000;
const HOURS_MAX = 3;
/** Plan, seal and send once; looks until finality. */
const RAIL_CALLS_MAX = 8;
const DB_CALLS_MAX = 2;
const WALL_MS_MAX = 120_000;

test('ten thousand deposit addresses are swept within the hour, by few calls each (req R9, inv E16)', async (t) => {
  const asked = { plan: 0, send: 0, look: 0, planBatches: 0, lookBatches: 0 };
  let nowMs = Date.parse('2026-03-01T00:00:00Z');
  const sealedAt = new Map<bigint, number>();
  const rails = (): Rail[] => {
    const inner = makeNoopRail(
      CHAIN,
      {
        send: (sealed: SealedEffect) => {
          sealedAt.set(sealed.effectId, nowMs);
          return Promise.resolve({ kind: 'in_progress' });
        },
        look(sealed) {
          const age = nowMs - (sealedAt.get(sealed.effectId) ?? nowMs);
          const kind = age >= FINAL_MS ? 'final_success' : age >= INCLUDED_MS ? 'included' : 'in_progress';
          return Promise.resolve([{ kind }]);
        },
      },
      { lookEveryMs: LOOK_EVERY_MS, resendAfterMs: 300_000, sequenced: false },
    );
    return [
      {
        ...inner,
        plan(effects, context) {
          asked.plan += effects.length;
          asked.planBatches += 1;
          return inner.plan(effects, context);
        },
        send(sealed, signed) {
          asked.send += 1;
          return inner.send(sealed, signed);
        },
        look(sealed) {
          asked.look += sealed.length;
          asked.lookBatches += 1;
          return inner.look(sealed);
        },
      },
    ];
  };
  const world = await makeWorld({
    label: 'collect_many',
    rails,
    flows: (chart) => [makeWithdrawals(chart), makeCollections(chart)],
  });
  await sweepAbove(world, CHAIN, { assetId: world.assetId, min: 1_000n });
  await world.pool.query(
    `insert into payonce.addresses (id, chain, address, kind, partner_id)
     select 'adr_' || lpad(n::text, 26, '0'), $1, 'deposit-' || lpad(n::text, 12, '0'), 'DEPOSIT', $2 from generate_series(1, $3::int) n`,
    [CHAIN, world.partnerId, ADDRESSES],
  );
  const deposits = Array.from({ length: ADDRESSES }, (_, index) => ({
    address: `deposit-${String(index + 1).padStart(12, '0')}`,
    units: index % DUST_EVERY === 0 ? 999n : 1_000n + BigInt(index),
  }));
  for (let from = 0; from < ADDRESSES; from += DEPOSITS_POSTED)
    await depositAt(world, CHAIN, world.assetId, deposits.slice(from, from + DEPOSITS_POSTED));
  await world.pool.query('analyze');
  const master = await heldAt(world, CHAIN, world.wallet, world.assetId);
  const time = await makeVirtualTime(world.pool, new Date(nowMs).toISOString());
  await world.pool.query('update payonce.collection_terms set next_at = payonce.now()');
  await world.pool.query('update payonce.effects set next_at = payonce.now()');
  const tick = async (ms: number): Promise<void> => {
    nowMs += ms;
    await time.set(new Date(nowMs));
  };
  const rail = world.engine.rails.get(CHAIN);
  assert.ok(rail);

  const [started, startedAt, database] = [performance.now(), nowMs, world.ports.gate.counts().db];
  const cycles: Collected[] = [];
  let [made, finishedAt, cycleMs] = [0, 0, 0];
  const isOn = (): boolean => nowMs - startedAt < HOURS_MAX * 3_600_000;
  while (isOn()) {
    // The scheduler's question, as often as it comes round: whose turn it is, the database says.
    const before = performance.now();
    const cycle = await collectOnce(world.engine, CHAIN);
    if (cycle.assets.length > 0) cycles.push(cycle);
    if (cycle.made > 0) cycleMs = performance.now() - before;
    made += cycle.made;
    const sent = await sendOnce(world.engine, rail);
    if (sent > 0) await tick(SEND_PASS_MS);
    let looked = 0;
    for (let pass = 0; pass < 5; pass += 1) {
      const found = await watchOnce(world.engine, rail);
      if (found === 0) break;
      looked += found;
      await tick(LOOK_PASS_MS);
    }
    if (sent + looked > 0) continue;
    const open = await world.pool.query('select 1 from payonce.effects where ended_at is null limit 1');
    if (open.rowCount === 0 && finishedAt === 0 && made > 0) finishedAt = nowMs;
    await tick(open.rowCount === 0 ? 600_000 : 1_000);
  }
  const [wallMs, calls] = [performance.now() - started, world.ports.gate.counts().db - database];

  assert.equal(made, SWEPT);
  assert.deepEqual(
    cycles.map((one) => [one.looked, one.made]),
    [[ADDRESSES, SWEPT], ...Array.from({ length: cycles.length - 1 }, () => [ADDRESSES / DUST_EVERY, 0])],
    'the first hour sweeps, the others find dust',
  );
  assert.ok(cycles.length >= HOURS_MAX - 1);
  const sweeps = await sweepsOf(world);
  assert.ok(sweeps.length === SWEPT && sweeps.every((one) => one.status === 'swept'));
  const sum = deposits.reduce((total, one) => total + (one.units >= 1_000n ? one.units : 0n), 0n);
  assert.equal(await heldAt(world, CHAIN, world.wallet, world.assetId), master + sum);
  assert.ok(finishedAt > 0 && finishedAt - startedAt < 3_600_000, 'within its hour');

  const each = (count: number): string => (count / SWEPT).toFixed(2);
  const railCalls = asked.plan + asked.send + asked.look;
  t.diagnostic(
    `${ADDRESSES} addresses, ${SWEPT} swept in ${Math.round((finishedAt - startedAt) / 1_000)} s of virtual time, ${Math.round(wallMs / 1_000)} s of ours (the cycle itself ${Math.round(cycleMs)} ms)`,
  );
  t.diagnostic(
    `rail, per sweep: plan ${each(asked.plan)}, send ${each(asked.send)}, look ${each(asked.look)}; in batches: ${asked.planBatches} plans, ${asked.lookBatches} looks; per address with dust: 0`,
  );
  t.diagnostic(`database, per sweep: ${each(calls)} calls, transaction marks included`);
  assert.equal(asked.plan, SWEPT);
  assert.equal(asked.send, SWEPT);
  assert.ok(railCalls / SWEPT <= RAIL_CALLS_MAX, `${each(railCalls)} rail calls per sweep`);
  assert.ok(calls / SWEPT <= DB_CALLS_MAX, `${each(calls)} database calls per sweep`);
  assert.ok(wallMs < WALL_MS_MAX, `${Math.round(wallMs)} ms`);
  await assertBooksClean(world.pool);
  await world.end();
});

test('what a node is asked per sweep is counted on a real chain (req R9)', async (t) => {
  const scene = await makeCollectScene('collect_calls');
  await sweepAbove(scene, scene.chain, { assetId: scene.assetId, min: 1n });
  const addresses = [];
  for (let index = 0; index < 6; index += 1) addresses.push(await scene.deposit());
  for (const one of addresses) await scene.payIn(one.lower, 1_000_000n);
  const count = (): number =>
    scene.nodes.reduce((sum, node) => sum + Object.values(node.calls).reduce((all, calls) => all + calls, 0), 0);
  const before = count();
  assert.equal((await scene.collect()).made, addresses.length);
  assert.equal(count(), before, 'the cycle asks the ledger, not the chain');
  await scene.work();
  assert.ok((await sweepsOf(scene)).every((one) => one.status === 'swept'));
  const calls = count() - before;
  t.diagnostic(
    `anvil, two nodes: ${(calls / addresses.length).toFixed(1)} JSON-RPC calls per sweep, from plan to finality, the scanner's included`,
  );
  assert.ok(calls / addresses.length < 60, `${calls} calls`);
  await assertBooksClean(scene.pool, {
    books: await scene.books(),
    wallets: [...scene.wallets, ...addresses.map((one) => one.lower)],
  });
  await scene.end();
});
