/*
 * Goal: each night moves what each partner's fees came to, once: whatever is late, missed, given back, refused or done by two
 * at once. Method: fees booked at moments of the test's choosing, nights run by hand in virtual time, on the rail where
 * nothing moves; the ledger and the verdict are read afterwards.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { sendOnce } from '../../src/engine/advance.ts';
import { cancelSubject } from '../../src/engine/cancel.ts';
import type { EngineDeps } from '../../src/engine/deps.ts';
import {
  judgeNight,
  judgeNights,
  realizeDate,
  runNightly,
  type Ticked,
  tickOnce,
} from '../../src/flows/realizations/index.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeRealizeWorld, type RealizeOptions, type RealizeWorld, SETTLEMENT } from '../support/realize-world.ts';
import { balanceOf } from '../support/world.ts';

/** Noon in Seoul, so that a night is thirteen hours away. */
const NOON = '2026-03-10T12:00:00+09:00';
const HOUR = 3_600_000;

let world: RealizeWorld;
const begin = async (options: Partial<RealizeOptions> = {}): Promise<RealizeWorld> => {
  world = await makeRealizeWorld({ start: NOON, ...options });
  return world;
};
afterEach(() => world.end());

async function made(): Promise<string[]> {
  const { rows } = await world.pool.query<{ partner_id: string; date: string; ordinal: number; amount: bigint }>(
    'select partner_id, business_date::text as date, ordinal, amount from payonce.realizations order by business_date, partner_id, ordinal',
  );
  return rows.map((row) => `${row.date} ${row.partner_id} ${row.ordinal}: ${row.amount}`);
}

async function sendAll(engine: EngineDeps = world.engine): Promise<void> {
  const rail = engine.rails.get('noop');
  assert.ok(rail);
  await sendOnce(engine, rail);
}

test('at 01:00 a partner’s fees of the day before move from master to settlement, and nobody is debited or credited (req R8)', async () => {
  await begin();
  await world.fee('par_a', 300n);
  await world.fee('par_a', 25n);
  await world.fee('par_b', 70n);
  await world.time.run(12 * HOUR + 30 * 60_000);
  assert.deepEqual(
    (await runNightly(world.nights())).map((one) => one.date),
    ['2026-03-09'],
    'a day without fees',
  );
  await world.fee('par_a', 1_000n);
  await world.time.run(HOUR);
  const before = [await balanceOf(world, 'partner:par_a'), await balanceOf(world, 'fees')];
  await runNightly(world.nights());
  assert.deepEqual(await made(), ['2026-03-10 par_a 0: 325', '2026-03-10 par_b 0: 70']);
  assert.deepEqual(await runNightly(world.nights()), [], 'once');
  await sendAll();
  assert.deepEqual([await balanceOf(world, 'partner:par_a'), await balanceOf(world, 'fees')], before);
  assert.equal((await balanceOf(world, `custody:noop:${SETTLEMENT}`)).balance, -395n);
  await world.time.run(24 * HOUR);
  await runNightly(world.nights());
  assert.deepEqual((await made()).at(-1), '2026-03-11 par_a 0: 1000', 'what came after midnight is the next day’s');
  await sendAll();
  await assertBooksClean(world.pool);
});

test('two processes at once make one set, and eight do (req R3, R8)', async () => {
  await begin();
  for (let nth = 0; nth < 10; nth += 1) await world.fee(`par_${nth}`, 10n);
  await world.time.run(24 * HOUR);
  const processes = await Promise.all([world.process(), world.process(7_000)]);
  const runs = processes.flatMap((one) => Array.from({ length: 4 }, () => runNightly(world.nights(one))));
  const outcomes = (await Promise.all(runs)).flat();
  assert.equal(outcomes.flatMap((one) => one.made).length, 10);
  assert.equal((await made()).length, 10);
  await sendAll();
  await assertBooksClean(world.pool);
});

test('missed nights are made one by one, each with its own fees; fees given back carry over (req R8)', async () => {
  await begin();
  await world.time.run(24 * HOUR);
  await runNightly(world.nights());
  for (const units of [100n, 40n, -60n, 15n]) {
    await world.fee('par_a', units);
    await world.time.run(24 * HOUR);
  }
  for (let pass = 0; pass < 4; pass += 1) {
    await runNightly(world.nights());
    await sendAll();
  }
  assert.deepEqual(
    await made(),
    ['2026-03-11 par_a 0: 100', '2026-03-12 par_a 0: 40'],
    'the days after them owe less than nothing together',
  );
  await world.fee('par_a', 50n);
  await world.time.run(24 * HOUR);
  await runNightly(world.nights());
  assert.equal((await made()).at(-1), '2026-03-15 par_a 0: 5');
  await sendAll();
  await assertBooksClean(world.pool);
});

test('a night waits for the one before that is still open, and is made when that has ended (inv E16)', async () => {
  await begin();
  await world.fee('par_a', 100n);
  await world.time.run(24 * HOUR);
  await runNightly(world.nights());
  await world.fee('par_a', 30n);
  await world.time.run(24 * HOUR);
  const [second] = await runNightly(world.nights());
  assert.deepEqual([second?.whole, second?.waiting.map((one) => one.why)], [false, ['lane_taken']]);
  await sendAll();
  assert.equal((await runNightly(world.nights()))[0]?.whole, true);
  assert.deepEqual(await made(), ['2026-03-10 par_a 0: 100', '2026-03-11 par_a 0: 30']);
  await sendAll();
  await assertBooksClean(world.pool);
});

test('what was given back is due again: as a correction with the next ordinal, or with the next night (req R18)', async () => {
  await begin();
  await world.fee('par_a', 100n);
  await world.time.run(24 * HOUR);
  const [night] = await runNightly(world.nights());
  const id = night?.made[0]?.id ?? '';
  assert.deepEqual((await realizeDate(world.nights(), '2026-03-10', false)).made, [], 'nothing is due of it');
  await cancelSubject(world.engine, 'realization', 'par_a', id, 'an operator');
  assert.equal((await realizeDate(world.nights(), '2026-03-10', true)).made.length, 1, 'shown');
  assert.equal((await made()).length, 1, 'and not kept');
  await realizeDate(world.nights(), '2026-03-10', false);
  assert.deepEqual(await made(), ['2026-03-10 par_a 0: 100', '2026-03-10 par_a 1: 100']);
  await sendAll();
  assert.equal((await balanceOf(world, `custody:noop:${SETTLEMENT}`)).balance, -100n);
  await assert.rejects(realizeDate(world.nights(), '2026-03-11', false), /has not come/);
  await assertBooksClean(world.pool);
});

test('thirty rounds of eight who come for one realization: one takes it, seven walk away and are counted (req R1, R12, R17)', async () => {
  await begin({ takesMs: () => 60_000 });
  const processes = await Promise.all([world.process(), world.process(-3_000)]);
  for (let round = 0; round < 30; round += 1) {
    await world.fee('par_a', 10n);
    await world.time.run(24 * HOUR);
    await runNightly(world.nights());
    const outcomes: Ticked[] = [];
    for (let nth = 0; nth < 8; nth += 1)
      world.time.start(async () => {
        outcomes.push(await tickOnce(processes[nth % 2] ?? world.engine));
      });
    await world.time.run(90_000);
    assert.equal(outcomes.length, 8);
    assert.equal(
      outcomes.reduce((sum, one) => sum + one.advanced, 0),
      1,
      `round ${round}`,
    );
    assert.deepEqual(await tickOnce(world.engine), { advanced: 0, lost: 0 }, 'what is completed is never claimed');
  }
  assert.equal(world.book.sends, 30);
  const { rows } = await world.pool.query<{ lost: bigint }>(
    'select coalesce(sum(lost), 0)::bigint as lost from payonce.realization_claims_lost',
  );
  assert.ok((rows[0]?.lost ?? 0n) > 0n, 'nobody’s loss was counted');
  await assertBooksClean(world.pool);
});

test('the verdict: inconclusive where nobody lost a claim, a pass where somebody did, a failure where the chain got more (req R17)', async () => {
  await begin();
  await world.fee('par_a', 100n);
  await world.fee('par_b', 50n);
  await world.time.run(24 * HOUR);
  await runNightly(world.nights());
  const verdict = async (): Promise<string> => (await judgeNight(world.pool, '2026-03-10')).verdict;
  assert.equal(await verdict(), 'pending', 'nothing has moved');
  await sendAll();
  assert.equal(await verdict(), 'pending', 'the chain’s transfers were not seen yet');
  await world.scan();
  assert.equal(await verdict(), 'inconclusive', 'no overlap was put to the test');
  const [one] = (await world.pool.query<{ id: string }>('select id from payonce.realizations order by id')).rows;
  await world.pool.query('insert into payonce.realization_claims_lost values ($1, 3)', [one?.id]);
  assert.equal(await verdict(), 'pass');
  const [kept] = await judgeNights(world.pool, silentLog);
  await judgeNights(world.pool, silentLog);
  assert.deepEqual(kept?.networks, [
    { chain: 'noop', assetId: world.assetId, records: 2, recorded: 150n, inflows: 2, inflow: 150n },
  ]);
  // The incident: the same again, in a transaction that no record of ours knows.
  await world.pool.query(
    `insert into payonce.chain_transfers
       (chain, tx_hash, position, block_number, block_hash, asset_id, from_address, to_address, amount, class, class_reason, final_at)
     values ('noop', 'orphan', 0, 2, 'block', $1, 'wallet-1', $2, 100, 'UNKNOWN_INTERNAL', 'both_ours_without_a_record', payonce.now())`,
    [world.assetId, SETTLEMENT],
  );
  await judgeNights(world.pool, silentLog);
  const verdicts = await world.pool.query<{ verdict: string }>(
    'select verdict from payonce.realization_verdicts order by id',
  );
  assert.deepEqual(
    verdicts.rows.map((row) => row.verdict),
    ['pass', 'fail'],
    'a verdict is written down once for each change',
  );
  const alerts = await world.pool.query<{ message: string }>(
    "select message from payonce.alerts where kind = 'realizations_differ' and cleared_at is null",
  );
  assert.match(alerts.rows[0]?.message ?? '', /2 realizations of 0\.00015 USDT, 3 inflows of 0\.00025 USDT/);
});

test('a clock that ran a month ahead for one night is told, and each day up to it is made all the same, with all its fees (req R8)', async () => {
  await begin();
  await world.fee('par_a', 300n);
  await world.time.set(new Date('2026-04-20T02:00:00+09:00'));
  await runNightly(world.nights());
  await sendAll();
  assert.deepEqual(await made(), ['2026-04-19 par_a 0: 300']);
  const told = async () =>
    (
      await world.pool.query<{ message: string }>(
        "select message from payonce.alerts where kind = 'realizations_ahead' and cleared_at is null",
      )
    ).rows.map((row) => row.message);
  assert.deepEqual(await told(), []);

  for (let day = 11; day <= 13; day += 1) {
    await world.time.set(new Date(`2026-03-${day}T00:30:00+09:00`));
    await world.fee('par_a', BigInt(day));
    await world.time.set(new Date(`2026-03-${day}T02:00:00+09:00`));
    await runNightly(world.nights());
    await sendAll();
  }
  assert.match((await told())[0] ?? '', /^The night of 2026-04-19 was made, and the latest that is due is 2026-03-10 /);
  assert.deepEqual(await made(), ['2026-03-11 par_a 0: 11', '2026-03-12 par_a 0: 12', '2026-04-19 par_a 0: 300']);
  assert.deepEqual((await realizeDate(world.nights(), '2026-03-12', true)).made, [], 'nothing of it is due twice');

  await world.time.set(new Date('2026-04-21T02:00:00+09:00'));
  await runNightly(world.nights());
  await sendAll();
  assert.deepEqual(await told(), []);
  const { rows } = await world.pool.query<{ sum: bigint }>('select sum(amount) as sum from payonce.realizations');
  assert.equal(rows[0]?.sum, 300n + 11n + 12n + 13n);
  await assertBooksClean(world.pool);
});

test('what has no wallet to go to waits and comes later, whole; what no partner paid moves nowhere (req R8)', async () => {
  await begin();
  await world.pool.query('update payonce.addresses set kind = $1 where address = $2', ['ADMIN', SETTLEMENT]);
  await world.fee('par_a', 100n);
  await world.time.run(24 * HOUR);
  const [night] = await runNightly(world.nights());
  assert.deepEqual([night?.whole, night?.waiting.map((one) => one.why)], [true, ['no_settlement_wallet']]);
  await world.pool.query('update payonce.addresses set kind = $1 where address = $2', ['SETTLEMENT', SETTLEMENT]);
  await world.fee('par_a', 1n);
  await world.time.run(24 * HOUR);
  await runNightly(world.nights());
  assert.deepEqual(await made(), ['2026-03-11 par_a 0: 101']);
  await sendAll();
  await assertBooksClean(world.pool);
});

test('the database refuses a second realization of a period, and a day that does not begin where the last one ended (req R8)', async () => {
  await begin();
  await world.fee('par_a', 100n);
  await world.time.run(24 * HOUR);
  await runNightly(world.nights());
  await sendAll();
  const again = `insert into payonce.realizations
    select 'rlz_again', partner_id, asset_id, business_date, ordinal, fees_through, realized_before, amount, wallet, destination from payonce.realizations`;
  await assert.rejects(world.pool.query(again), { constraint: 'realizations_period' });
  await world.pool.query("insert into payonce.realization_nights values ('2026-03-20', 'UTC')");
  await assert.rejects(
    world.pool.query(
      "insert into payonce.realization_days select asset_id, '2026-03-20', 0, 5 from payonce.realization_days limit 1",
    ),
    { constraint: 'realization_days_end_to_end' },
  );
});
