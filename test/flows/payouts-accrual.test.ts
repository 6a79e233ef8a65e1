/*
 * Goal: volume is counted once and exactly, whatever comes twice, late, wrong or at once. Method: events through the same function
 * that the API and a library's user call, on a real database; the pools' sums are compared with what was sent.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ACCRUALS_MAX } from '../../src/flows/payouts/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { eventsOf, lineOf, makePayoutWorld, type PayoutWorld } from '../support/payout-scene.ts';

let world: PayoutWorld;
before(async () => {
  world = await makePayoutWorld({ endedByHook: true });
  await world.programme('p');
});
after(async () => {
  await assertBooksClean(world.pool);
  await world.end();
});

test('an event counts once by its source id: the same again answers the same, other content is refused and listed (req P7)', async () => {
  const items = eventsOf('twice', '7', 3);
  const first = await world.accrue(items);
  const again = await world.accrue(items);
  assert.deepEqual([first.accrued, first.fresh, first.refused], [3, 3, []]);
  assert.deepEqual([again.accrued, again.fresh, again.refused], [3, 0, []]);
  const other = await world.accrue([
    { ...items[0], volume: '8' },
    { ...items[1], creator: 'somebody-else' },
    items[2] ?? {},
  ]);
  assert.deepEqual(
    [other.accrued, other.fresh, other.refused.map((one) => [one.item, one.field])],
    [
      1,
      0,
      [
        [0, 'source_id'],
        [1, 'source_id'],
      ],
    ],
  );
  assert.equal(lineOf(await world.statement(), 'twice').volume, '21');
});

test('a batch that is sent by ten at once counts once (case A7, req P7)', async () => {
  const items = [...eventsOf('storm-a', '1', 40), ...eventsOf('storm-b', '2', 40)];
  const mixed = Array.from({ length: 10 }, (_, n) => (n % 2 === 0 ? items : items.toReversed()));
  const answers = await Promise.all(mixed.map((list) => world.accrue(list)));
  assert.deepEqual(new Set(answers.map((one) => one.accrued)), new Set([80]));
  assert.equal(
    answers.reduce((sum, one) => sum + one.fresh, 0),
    80,
  );
  assert.equal(lineOf(await world.statement(), 'storm-a').volume, '40');
  assert.equal(lineOf(await world.statement(), 'storm-b').volume, '80');
});

test('what is wrong is refused item by item, in words, and its neighbours count (req P7)', async () => {
  const good = eventsOf('among-bad', '1')[0] ?? {};
  const hour = 3_600_000;
  const bad: [object | string, string, RegExp][] = [
    [{ ...good, source_id: 'b1', volume: '-1' }, 'volume', /no sign/],
    [{ ...good, source_id: 'b2', volume: '0' }, 'volume', /more than zero/],
    [{ ...good, source_id: 'b3', volume: 1 }, 'volume', /decimal string/],
    [{ ...good, source_id: 'b4', volume: '0.0000001' }, 'volume', /at most 6 digits/],
    [{ ...good, source_id: 'b5', programme: 'nowhere' }, 'programme', /a programme of yours/],
    [
      { ...good, source_id: 'b6', occurred_at: new Date(Date.now() + hour).toISOString() },
      'occurred_at',
      /a time that has been/,
    ],
    [{ ...good, source_id: 'b7', occurred_at: '2026-02-31T99:00:00Z' }, 'occurred_at', /a time such as/],
    [{ ...good, source_id: '' }, 'source_id', /1 to 128/],
    [{ ...good, source_id: 'b8', creator: 'with blank' }, 'creator', /1 to 128/],
    [{ ...good, source_id: 'b9', amount: '1' }, 'amount', /only source_id/],
    ['nothing', '', /an object with/],
  ];
  const { accrued, refused } = await world.accrue([...bad.map(([item]) => item), good] as object[]);
  assert.equal(accrued, 1);
  assert.deepEqual(
    refused.map((one) => [one.item, one.field]),
    bad.map(([, field], item) => [item, field]),
  );
  refused.forEach((one, item) => assert.match(one.expected, bad[item]?.[2] ?? /never/));
  assert.equal(lineOf(await world.statement(), 'among-bad').volume, '1');
});

test('an id that stands twice in one batch is one event, or the later one is refused (req P7)', async () => {
  const [one = {}] = eventsOf('double', '5');
  const same = await world.accrue([one, one, { ...one, volume: '6' }]);
  assert.deepEqual([same.accrued, same.fresh, same.refused.map((fault) => fault.item)], [2, 1, [2]]);
  assert.equal(lineOf(await world.statement(), 'double').volume, '5');
});

test('another partner’s programme is none, and ten thousand events are one statement (req P6)', async () => {
  await world.pool.query("insert into payonce.partners (id, name) values ('par_other', 'Other')");
  const foreign = await world.accrue(eventsOf('x', '1'), 'par_other');
  assert.deepEqual([foreign.accrued, foreign.refused[0]?.field], [0, 'programme']);
  const creators = Array.from({ length: 100 }, (_, n) => `many-${n}`);
  const items = creators.flatMap((name) => eventsOf(name, '0.5', ACCRUALS_MAX / 100));
  const { statements } = world.pool.counts;
  assert.equal((await world.accrue(items)).fresh, ACCRUALS_MAX);
  assert.ok(world.pool.counts.statements - statements < 20, 'a statement for each event');
  assert.equal((await world.accrue(items)).accrued, ACCRUALS_MAX);
  assert.equal(lineOf(await world.statement('many-7'), 'many-7').volume, '50');
});

test('tiers, cap and what does not divide: the reward is exact, however the volume is cut (req P7)', async () => {
  await world.programme('tiers', {
    threshold: '1000000',
    volume_decimals: 2,
    tiers: [
      { from: '0', rate: '0.000000333333' },
      { from: '100', rate: '0.01' },
      { from: '1000.5', rate: '0.5' },
    ],
    cap: '600',
  });
  for (const volume of ['0.01', '99.98', '0.02', '900.49', '0.01', '500'])
    await world.accrue(eventsOf('split', volume, 1, 'tiers'));
  await world.accrue(eventsOf('whole', '1500.51', 1, 'tiers'));
  const [split, whole] = ['split', 'whole'];
  const lines = await world.statement();
  // 100 × 0.000000333333 + 900.5 × 0.01 + 500.01 × 0.5 = 259.010 033 333 3
  assert.equal(lineOf(lines, split).accrued, '259.010033');
  assert.equal(lineOf(lines, whole).accrued, '259.010033');
  await world.accrue(eventsOf('whole', '100000', 1, 'tiers'));
  assert.equal(lineOf(await world.statement(), 'whole').accrued, '600');
});

test('other terms count from their moment on, and the same terms change nothing (req P6)', async () => {
  const before = await world.programme('changing', { threshold: '1000000', rate: '1' });
  await world.accrue(eventsOf('c', '10', 1, 'changing'));
  assert.equal(
    (await world.programme('changing', { threshold: '1000000', rate: '1' })).termsVersion,
    before.termsVersion,
  );
  await world.programme('changing', { threshold: '1000000', rate: '0.5' });
  await world.accrue(eventsOf('c', '10', 1, 'changing'));
  assert.equal(lineOf(await world.statement('c'), 'c').accrued, '15');
  await assert.rejects(world.programme('changing', { threshold: '1', volume_decimals: 2 }), /that stays/);
});

test('no event is edited, deleted or added behind a payout, whoever asks (req P7)', async () => {
  await world.accrue(eventsOf('kept', '1', 2));
  await assert.rejects(world.pool.query('update payonce.accruals set volume = 9'), {
    constraint: 'accruals_append_only',
  });
  await assert.rejects(world.pool.query('delete from payonce.accruals'), { constraint: 'accruals_append_only' });
  await assert.rejects(world.pool.query('truncate payonce.accruals'), { constraint: 'accruals_append_only' });
  await assert.rejects(
    world.pool.query(
      "insert into payonce.accruals (programme, source_id, pool_id, seq, volume, digest, occurred_at) select 999, 'x', id, seq + 1, 1, '', now() from payonce.pools limit 1",
    ),
    { constraint: 'accruals_whole' },
  );
});
