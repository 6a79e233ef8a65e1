/*
 * Goal: a pass is never begun while the one before is running in this process (R3's first line), and a loop sleeps after
 * its work, wakes early, goes on after a failure and stops only between passes. Method: passes that the test holds open.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { systemClock } from '../../src/kernel/ports.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { startLoop, withoutOverlap } from '../../src/worker/loop.ts';

test('a pass that is still running is not begun a second time (req R3)', async () => {
  const gate = Promise.withResolvers<void>();
  let running = 0;
  let most = 0;
  const pass = withoutOverlap(async () => {
    running += 1;
    most = Math.max(most, running);
    await gate.promise;
    running -= 1;
    return true;
  });
  const first = pass();
  const others = Promise.all([pass(), pass()]);
  gate.resolve();
  assert.equal(await first, true);
  assert.deepEqual(await others, [false, false]);
  assert.equal(most, 1);
  assert.equal(await pass(), true);
});

test('a loop goes on after a failed pass and ends with the pass in progress', async () => {
  let passes = 0;
  let ended = false;
  const third = Promise.withResolvers<void>();
  const loop = startLoop({
    name: 'test',
    clock: { ...systemClock, sleep: () => Promise.resolve() },
    log: silentLog,
    idleMs: 60_000,
    async runOnce() {
      passes += 1;
      if (passes === 1) throw new Error('the first pass fails');
      if (passes === 3) {
        third.resolve();
        await new Promise((resolve) => setTimeout(resolve, 50));
        ended = true;
      }
      return false;
    },
  });
  await third.promise;
  await loop.stop();
  assert.equal(ended, true);
  assert.equal(passes, 3);
});

test('a loop that sleeps is woken early', async () => {
  let passes = 0;
  const second = Promise.withResolvers<void>();
  const loop = startLoop({
    name: 'test',
    clock: systemClock,
    log: silentLog,
    idleMs: 60_000,
    runOnce() {
      passes += 1;
      if (passes === 2) second.resolve();
      return Promise.resolve(false);
    },
  });
  await new Promise((resolve) => setTimeout(resolve, 20));
  loop.wake();
  await second.promise;
  await loop.stop();
  assert.equal(passes, 2);
});
