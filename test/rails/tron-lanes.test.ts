/*
 * Goal: a large batch over TRON is asked within a part of a lease, and no answer is mixed up with a neighbour's or with
 * another machine's. Method: the rail against simulated nodes; the pace against a clock that stands.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SealedEffect } from '../../src/engine/rail.ts';
import type { Clock } from '../../src/kernel/ports.ts';
import { makePace, overLanes } from '../../src/rails/tron/lanes.ts';
import { makeStage, NOTHING_OPEN, type Stage, TRX } from './tron-stage.ts';

const BATCH = 24;

async function pay({ tron, rail, intents }: Stage): Promise<SealedEffect[]> {
  const verdicts = await rail.plan(intents, NOTHING_OPEN);
  const sealed = intents.map((intent, index): SealedEffect => {
    const verdict = verdicts[index];
    assert.ok(verdict?.verdict === 'ready', JSON.stringify(verdict));
    const { plan } = verdict;
    return { ...intent, seal: rail.seal(intent, plan, null), plan, variants: [], sealedAt: tron.clock.now() };
  });
  assert.ok(rail.specify !== undefined && rail.sign !== undefined);
  for (const one of sealed) await rail.send(one, await rail.sign(one, await rail.specify(one, 'original')));
  return sealed;
}

test('a batch over several connections: each payment gets its own answer, from each node, whole on one connection (case G1)', async (t) => {
  const stage = await makeStage(t, BATCH);
  const sealed = await pay(stage);
  stage.tron.mine(2);
  stage.tron.solidify();
  const looked = await stage.rail.look(sealed);
  for (const [index, one] of sealed.entries()) {
    const kinds = (looked[index] ?? []).map((answer) => stage.rail.read(answer, one));
    assert.deepEqual(
      kinds.map(({ kind, operator }) => [kind, operator]),
      [
        ['final_success', 'operator-0'],
        ['final_success', 'operator-1'],
      ],
      `payment ${index}`,
    );
    const body = looked[index]?.[0]?.body ?? '';
    assert.match(body, /"oneConnection":true/);
    assert.match(body, new RegExp(one.seal.identity.slice('tron:'.length)), 'it speaks of this payment');
  }
});

test('what the batch takes is counted in its order, however its questions were asked', async (t) => {
  const stage = await makeStage(t, BATCH);
  const intents = stage.intents.map((intent) => ({ ...intent, amount: 400n * TRX }));
  const verdicts = await stage.rail.plan(intents, NOTHING_OPEN);
  const ready = verdicts.flatMap((one, index) => (one.verdict === 'ready' ? [index] : []));
  assert.deepEqual(ready, [0, 1], '1,000 TRX pay two times 400, and the first two are those');
});

test('few items keep to one connection, and results keep the order of the items', async () => {
  const used: [string, readonly number[]][] = [];
  const work = (lane: string, part: readonly number[]): Promise<readonly number[]> => {
    used.push([lane, part]);
    return Promise.resolve(part.map((one) => one * 10));
  };
  assert.deepEqual(await overLanes(['a', 'b', 'c'], [1, 2, 3, 4], work), [10, 20, 30, 40]);
  assert.deepEqual(used, [['a', [1, 2, 3, 4]]]);
  assert.deepEqual(await overLanes(['a', 'b', 'c'], [1, 2, 3, 4, 5], work), [10, 20, 30, 40, 50]);
  assert.deepEqual(
    used.slice(1).map(([lane]) => lane),
    ['a', 'b'],
  );
});

test('questions wait for their turn at the configured pace; a send takes its place and waits for nobody', async () => {
  const waits: number[] = [];
  const clock: Clock = {
    now: () => new Date(0),
    monotonicMs: () => 5_000,
    sleep(ms) {
      waits.push(ms);
      return Promise.resolve();
    },
  };
  const pace = makePace(clock, 10);
  await pace.turn();
  await pace.turn();
  pace.count();
  await pace.turn();
  assert.deepEqual(waits, [100, 300], 'ten a second, and the send has used one place');
  await makePace(clock, undefined).turn();
  assert.equal(waits.length, 2);
});
