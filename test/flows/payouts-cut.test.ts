/*
 * Goal: the daily cut pays each creator once for each business date, at 05:00 of the programme's wall clock, whatever clocks do and
 * whoever is down, twice or at once; and it reads only what is due. Method: virtual time, cuts run as the scheduler runs them, and
 * PostgreSQL's own account of how a page was read.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { cutProgramme, runCuts } from '../../src/flows/payouts/index.ts';
import { loadPage } from '../../src/flows/payouts/cut.ts';
import { assertBooksClean } from '../support/books.ts';
import { planOf } from '../support/claims.ts';
import { eventsOf, lineOf, makePayoutWorld, type PayoutWorld } from '../support/payout-scene.ts';
import { makeVirtualTime, type VirtualTime } from '../support/virtual-time.ts';

let world: PayoutWorld;
let time: VirtualTime;
afterEach(async () => {
  await assertBooksClean(world.pool);
  await world.end();
});

async function begin(start: string, timeZone: string, cutMin = '1'): Promise<void> {
  world = await makePayoutWorld();
  time = await makeVirtualTime(world.pool, start);
  await world.programme('p', { threshold: '1000000', cut_min: cutMin, time_zone: timeZone });
  await world.creator('ann');
}

async function dates(): Promise<(string | null)[]> {
  return (await world.payouts()).filter((one) => one.origin === 'cut').map((one) => one.date);
}

const DAYS: readonly {
  title: string;
  zone: string;
  start: string;
  cuts: readonly (readonly [at: string, date: string])[];
}[] = [
  {
    title: 'the clock goes forward',
    zone: 'America/New_York',
    start: '2026-03-07T12:00:00-05:00',
    cuts: [
      ['2026-03-08T05:00:00-04:00', '2026-03-08'],
      ['2026-03-09T05:00:00-04:00', '2026-03-09'],
    ],
  },
  {
    title: 'the clock goes back',
    zone: 'Europe/Berlin',
    start: '2026-10-24T12:00:00+02:00',
    cuts: [
      ['2026-10-25T05:00:00+01:00', '2026-10-25'],
      ['2026-10-26T05:00:00+01:00', '2026-10-26'],
    ],
  },
  {
    title: 'by half an hour only',
    zone: 'Australia/Lord_Howe',
    start: '2026-04-04T12:00:00+11:00',
    cuts: [
      ['2026-04-05T05:00:00+10:30', '2026-04-05'],
      ['2026-04-06T05:00:00+10:30', '2026-04-06'],
    ],
  },
  {
    title: 'a month ends',
    zone: 'Asia/Seoul',
    start: '2026-01-30T12:00:00+09:00',
    cuts: [
      ['2026-01-31T05:00:00+09:00', '2026-01-31'],
      ['2026-02-01T05:00:00+09:00', '2026-02-01'],
    ],
  },
  {
    title: 'there is a 29th of February',
    zone: 'Asia/Kolkata',
    start: '2028-02-28T04:59:00+05:30',
    cuts: [
      ['2028-02-28T05:00:00+05:30', '2028-02-28'],
      ['2028-02-29T05:00:00+05:30', '2028-02-29'],
      ['2028-03-01T05:00:00+05:30', '2028-03-01'],
    ],
  },
];

for (const { title, zone, start, cuts } of DAYS) {
  test(`the cut comes at 05:00 of the wall, once a date, where ${title} (req P6)`, async () => {
    await begin(start, zone);
    for (const [index, [at, date]] of cuts.entries()) {
      await world.accrue(eventsOf('ann', '20'));
      await time.set(new Date(Date.parse(at) - 1_000));
      assert.deepEqual(await runCuts(world.deps), [], `a second before 05:00 of ${date}`);
      await time.set(new Date(at));
      assert.deepEqual(
        (await runCuts(world.deps)).map((one) => [one.date, one.payouts]),
        [[date, 1]],
      );
      assert.deepEqual(await runCuts(world.deps), []);
      assert.equal((await dates()).length, index + 1);
      await world.pass();
    }
    assert.deepEqual(
      await dates(),
      cuts.map(([, date]) => date),
    );
    assert.equal(world.book.length, cuts.length);
  });
}

test('a node that is down from 04:50 to 05:40, or for days, catches up: one payout for each creator and date (req P6)', async () => {
  await begin('2026-05-10T12:00:00+09:00', 'Asia/Seoul');
  await world.accrue(eventsOf('ann', '50'));
  await time.set(new Date('2026-05-11T05:40:00+09:00'));
  assert.deepEqual(
    (await runCuts(world.deps)).map((one) => [one.date, one.payouts]),
    [['2026-05-11', 1]],
  );
  await world.pass();
  await world.accrue(eventsOf('ann', '50'));
  await time.set(new Date('2026-05-14T09:00:00+09:00'));
  assert.deepEqual(
    (await runCuts(world.deps)).map((one) => [one.date, one.payouts]),
    [
      ['2026-05-12', 1],
      ['2026-05-13', 0],
      ['2026-05-14', 0],
    ],
    'what was due comes with the first of them',
  );
  await world.pass();
  assert.deepEqual(await dates(), ['2026-05-11', '2026-05-12']);
});

test('two nodes and a person at once: one payout for each creator and date, and by hand again nothing (case A7, req P6)', async () => {
  await begin('2026-05-10T12:00:00Z', 'UTC');
  const names = Array.from({ length: 30 }, (_, n) => `c-${n}`);
  for (const name of names) await world.creator(name);
  await world.accrue(names.flatMap((name) => eventsOf(name, '15')));
  await time.set(new Date('2026-05-11T05:00:00Z'));
  const { id } = await world.programme('p', { threshold: '1000000', cut_min: '1', time_zone: 'UTC' });
  await Promise.all([
    runCuts(world.deps),
    runCuts(world.deps),
    cutProgramme(world.deps, id, null),
    cutProgramme(world.deps, id, '2026-05-11'),
  ]);
  assert.equal((await dates()).length, 30);
  await world.accrue(names.flatMap((name) => eventsOf(name, '15')));
  assert.equal((await cutProgramme(world.deps, id, '2026-05-11')).payouts, 0, 'they have the payout of that date');
  await assert.rejects(cutProgramme(world.deps, id, '2026-05-12'), /has not come/);
  await time.set(new Date('2026-05-12T05:00:00Z'));
  await runCuts(world.deps);
  assert.equal((await dates()).length, 60);
  await world.pass();
  assert.equal(world.book.length, 60);
});

test('what is under the least amount carries over, and who has no address waits and loses nothing (req P6, P7)', async () => {
  await begin('2026-05-10T12:00:00Z', 'UTC', '5');
  await world.accrue([...eventsOf('ann', '49.999'), ...eventsOf('ben', '60')]);
  await time.set(new Date('2026-05-11T05:00:00Z'));
  assert.deepEqual(
    (await runCuts(world.deps)).map((one) => [one.payouts, one.waiting]),
    [[0, 1]],
  );
  await world.accrue(eventsOf('ann', '0.001'));
  await world.creator('ben');
  await time.set(new Date('2026-05-12T05:00:00Z'));
  await runCuts(world.deps);
  await world.pass();
  assert.deepEqual(new Set(world.book.map((one) => one.amount)), new Set([5_000_000n, 6_000_000n]));
  assert.equal(lineOf(await world.statement(), 'ann').carried, '0');
});

test('a page of the cut reads what is due by its index, among 20,000 pools that owe nothing, analysed or not (req P6)', async () => {
  await begin('2026-05-10T12:00:00Z', 'UTC');
  const { id } = await world.programme('p', { threshold: '1000000', cut_min: '1', time_zone: 'UTC' });
  // As rows that were accrued and paid: nothing but the pools' own columns is read here.
  await world.pool.query(`alter table payonce.pools set (autovacuum_enabled = false)`);
  await world.pool.query(
    `insert into payonce.creators (id, partner_id, external_id) select 'crt_seed' || n, $1, 'seed-' || n from generate_series(1, 20050) n`,
    [world.partnerId],
  );
  await world.pool.query(
    `insert into payonce.pools (programme_id, creator_id, reward_divisor, reward)
     select $1, 'crt_seed' || n, 1, case when n > 20000 then 2000000 + n when n % 2 = 0 then 900000 else 0 end from generate_series(1, 20050) n`,
    [id],
  );
  for (const isAnalysed of [false, true]) {
    if (isAnalysed) await world.pool.query('analyze payonce.pools');
    const plan = await planOf(world.pool, (tx) => loadPage(tx, id, '2026-05-11', { payable: 0n, poolId: 0n }, 500));
    assert.match(plan, /Index (?:Only )?Scan using pools_payable/, plan);
    assert.doesNotMatch(plan, /Seq Scan on (?:pools|accruals)/, plan);
    const [, rows = ''] = /using pools_payable on pools p[^\n]*rows=([\d.]+) loops=1/.exec(plan) ?? [];
    assert.equal(Number(rows), 50, plan);
    assert.doesNotMatch(plan, /Rows Removed by Filter: [1-9]\d{2,}/, plan);
    assert.doesNotMatch(plan, /accruals/, plan);
  }
  await world.pool.query("update payonce.pools set reward = 0 where creator_id like 'crt_seed%'");
});
