/*
 * Goal: callers share a transaction and still get their own result. Method: the batcher over functions that record what
 * they were given, then over the ledger with an item that poisons its batch.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeBatcher } from '../../src/db/batcher.ts';
import { PayonceError } from '../../src/kernel/errors.ts';
import { makePoster } from '../../src/ledger/poster.ts';
import { makeLedgerWorld, posting } from '../support/ledger-world.ts';

function recorder(
  options: { lanes?: number; itemsMax?: number; fails?: (items: readonly number[]) => Error | undefined } = {},
) {
  const batches: number[][] = [];
  const running = { now: 0, most: 0 };
  const batcher = makeBatcher<number, string>({
    lanes: options.lanes ?? 1,
    laneOf: (item) => item,
    itemsMax: options.itemsMax ?? 100,
    isItemsFault: (error) => error instanceof RangeError,
    async run(items) {
      batches.push([...items]);
      running.now += 1;
      running.most = Math.max(running.most, running.now);
      await new Promise((resolve) => setTimeout(resolve, 2));
      running.now -= 1;
      const failure = options.fails?.(items);
      if (failure !== undefined) throw failure;
      return items.map((item) => `done ${item}`);
    },
  });
  return { batcher, batches, running };
}

test('items that come together share a batch, and those that come meanwhile share the next one', async () => {
  const { batcher, batches } = recorder();
  const first = [batcher.submit(1), batcher.submit(2)];
  await new Promise((resolve) => setImmediate(resolve));
  await new Promise((resolve) => setImmediate(resolve));
  const second = [batcher.submit(3), batcher.submit(4), batcher.submit(5)];
  assert.deepEqual(
    await Promise.all([...first, ...second]),
    [1, 2, 3, 4, 5].map((item) => `done ${item}`),
  );
  assert.deepEqual(batches, [
    [1, 2],
    [3, 4, 5],
  ]);
});

test('a batch is no larger than its limit and keeps the order of arrival', async () => {
  const { batcher, batches } = recorder({ itemsMax: 2 });
  await Promise.all([1, 2, 3, 4, 5].map((item) => batcher.submit(item)));
  assert.deepEqual(batches, [[1, 2], [3, 4], [5]]);
});

test('lanes run beside each other, and one lane never beside itself', async () => {
  const { batcher, running } = recorder({ lanes: 3, itemsMax: 1 });
  await Promise.all(Array.from({ length: 12 }, (_, item) => batcher.submit(item)));
  assert.equal(running.most, 3);
});

test('callers that submit again at once come together again, not in two cohorts that take turns', async () => {
  const { batcher, batches } = recorder();
  await Promise.all(
    Array.from({ length: 8 }, async (_, caller) => {
      for (let round = 0; round < 3; round += 1) await batcher.submit(caller);
    }),
  );
  assert.deepEqual(
    batches.map((batch) => batch.length),
    [8, 8, 8],
  );
});

test('an item that poisons its batch fails alone; its neighbours get their results', async () => {
  const { batcher, batches } = recorder({
    fails: (items) => (items.includes(3) ? new RangeError('3 is poison') : undefined),
  });
  const results = await Promise.allSettled([0, 1, 2, 3, 4, 5, 6, 7].map((item) => batcher.submit(item)));
  results.forEach((result, item) => {
    if (item === 3) assert.match(String((result as PromiseRejectedResult).reason), /3 is poison/);
    else assert.equal((result as PromiseFulfilledResult<string>).value, `done ${item}`);
  });
  assert.equal(batches.length, 7, 'halving: 1 + 2 x log2(8)');
});

test("an error that is no item's fault goes to everybody at once, and nothing is run again", async () => {
  const { batcher, batches } = recorder({ fails: () => new PayonceError('PO_DB_COMMIT_UNKNOWN') });
  const results = await Promise.allSettled([1, 2, 3].map((item) => batcher.submit(item)));
  assert.ok(results.every((result) => result.status === 'rejected'));
  assert.equal(batches.length, 1);
});

test('drain waits for what is queued and running', async () => {
  const { batcher } = recorder({ itemsMax: 1 });
  await batcher.drain();
  let done = 0;
  const submit = async (item: number): Promise<void> => {
    await batcher.submit(item);
    done += 1;
  };
  const all = Promise.all([1, 2, 3].map(submit));
  await batcher.drain();
  assert.equal(done, 3);
  await all;
});

test('concurrent postings share commits, and a poisoned one is told alone', async () => {
  const world = await makeLedgerWorld('poster');
  const account = await world.account();
  const poster = makePoster(world.pool);
  const { commits } = world.pool.counts;
  const verdicts = await Promise.allSettled(
    Array.from({ length: 64 }, (_, nth) =>
      poster.post(posting(`poster:${nth}`, [world.house, nth === 40 ? -2n : -1n], [account, 1n])),
    ),
  );
  verdicts.forEach((result, nth) => {
    if (nth === 40) assert.equal((result as PromiseRejectedResult).reason.constraint, 'ledger_entries_balanced');
    else assert.equal((result as PromiseFulfilledResult<{ verdict: string }>).value.verdict, 'posted');
  });
  assert.ok(world.pool.counts.commits - commits <= 6, 'halves that fit, not one commit per item');
  assert.equal((await world.balance(account)).balance, 63n);
  await world.end();
});

test('one caller alone needs one round trip: BEGIN, the posting and COMMIT leave together', async () => {
  const world = await makeLedgerWorld('poster alone');
  const account = await world.account();
  const { statements, commits } = world.pool.counts;
  const poster = makePoster(world.pool);
  for (let nth = 0; nth < 5; nth += 1) await poster.post(posting(`alone:${nth}`, [world.house, -1n], [account, 1n]));
  assert.equal(world.pool.counts.statements - statements, 15);
  assert.equal(world.pool.counts.commits - commits, 5);
  await world.end();
});
