/*
 * Goal: what stays too long is told once per stay, by whatever process and after a restart too; it says what is known and what the
 * rail can prove, ends when the stay ends, and returns nothing to the queue. Method: a real engine over a rail that says nothing.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadGauges } from '../../src/audit/gauges.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { makeEngine } from '../../src/engine/engine.ts';
import { watchLongStays } from '../../src/engine/long-stays.ts';
import { makeNoopRail } from '../../src/engine/noop.ts';
import type { Rail } from '../../src/engine/rail.ts';
import { cancelWithdrawal, createWithdrawals, makeWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { readWithdrawal } from '../../src/flows/withdrawals/store.ts';
import { assertBooksClean } from '../support/books.ts';
import { collectingLog, makeWorld, type World } from '../support/world.ts';

const silent = { look: 'not_found' as 'not_found' | 'final_success' };

async function world(label: string): Promise<{ one: World; rail: Rail; log: ReturnType<typeof collectingLog> }> {
  silent.look = 'not_found';
  const rail = makeNoopRail('noop', {
    send: () => Promise.resolve({ kind: 'unreadable' }),
    look: () => Promise.resolve([{ kind: silent.look, objectId: 'object-1' }]),
  });
  const log = collectingLog();
  return { one: await makeWorld({ label, rails: () => [rail], log }), rail, log };
}
const alerts = async (one: World): Promise<{ message: string; is_open: boolean }[]> =>
  (
    await one.pool.query<{ message: string; is_open: boolean }>(
      "select message, cleared_at is null as is_open from payonce.alerts where kind = 'long_stay' order by id",
    )
  ).rows;
const staying = async (one: World): Promise<number> =>
  (await loadGauges(one.pool)).find((gauge) => gauge.name === 'effects_staying')?.value ?? -1;

test('a stay is told once, by any number of processes and after a restart, with partner, amount and name (req R5)', async () => {
  const { one, rail, log } = await world('long_once');
  assert.equal(await watchLongStays(one.engine, rail, 0), 0, 'an empty queue is watched too');
  await createWithdrawals(one, [one.request({ amount: 7n })]);
  await advanceOnce(one.engine, rail);
  await Promise.all([watchLongStays(one.engine, rail, 0), watchLongStays(one.engine, rail, 0)]);
  const restarted = await makeEngine({ ...one, flows: [makeWithdrawals(one.chart)], rails: [rail], leaseMs: 30_000 });
  assert.equal(await watchLongStays(restarted, rail, 0), 1);
  const [told, ...others] = await alerts(one);
  assert.deepEqual(others, []);
  assert.match(
    told?.message ?? '',
    /^withdrawal wd_\w+ of par_test: 0\.000007 USDT on noop is under way for too long \(\S+\)$/,
  );
  assert.equal(log.lines.filter((line) => line.fields['alert'] === 'long_stay').length, 1);
  assert.equal(await staying(one), 1);
  const { rows } = await one.pool.query<{ state: string; send_count: number }>(
    'select state, send_count from payonce.effects',
  );
  assert.deepEqual(rows, [{ state: 'SEALED', send_count: 1 }], 'no timer returned it to the queue');
});

test('its case says what is known and what the rail can prove, and a partner sees no review (req R5)', async () => {
  const { one, rail } = await world('long_case');
  const [created] = await createWithdrawals(one, [one.request()]);
  await advanceOnce(one.engine, rail);
  await watchLongStays(one.engine, rail, 0);
  const cases = await one.pool.query<{ severity: number; summary: string; closed_at: Date | null }>(
    "select severity, summary, closed_at from payonce.cases where kind = 'long_stay'",
  );
  assert.equal(cases.rowCount, 1);
  assert.match(
    cases.rows[0]?.summary ?? '',
    /sent 1 times, and no testimony\. .*(?:decides|two persons).* See payonce effect show \d+\.$/,
  );
  assert.ok(created?.outcome === 'created');
  assert.equal((await readWithdrawal(one.pool, one.partnerId, created.id))?.status, 'processing');

  silent.look = 'final_success';
  await one.pool.query('update payonce.effects set next_at = payonce.now(), lease_until = null');
  await advanceOnce(one.engine, rail);
  assert.equal((await readWithdrawal(one.pool, one.partnerId, created.id))?.status, 'confirmed');
  assert.equal(await watchLongStays(one.engine, rail, 0), 0);
  const [told] = await alerts(one);
  assert.equal(told?.is_open, false, 'the alert ends with the stay');
  assert.notEqual(
    (await one.pool.query<{ closed_at: Date | null }>('select closed_at from payonce.cases')).rows[0]?.closed_at,
    null,
  );
  assert.equal(await staying(one), 0);
  await assertBooksClean(one.pool);
});

test('what waits unsealed is told without a case, and the stay after its seal is another one (req R5)', async () => {
  const { one, rail } = await world('long_waits');
  await createWithdrawals(one, [one.request()]);
  await watchLongStays(one.engine, rail, 0);
  await watchLongStays(one.engine, rail, 0);
  assert.deepEqual(
    (await alerts(one)).map((told) => [
      told.message.endsWith('nothing has left, and it may be cancelled'),
      told.is_open,
    ]),
    [[true, true]],
  );
  assert.equal((await one.pool.query('select 1 from payonce.cases')).rowCount, 0);
  await advanceOnce(one.engine, rail);
  await watchLongStays(one.engine, rail, 0);
  assert.deepEqual(
    (await alerts(one)).map((told) => told.is_open),
    [false, true],
  );
  assert.equal((await one.pool.query('select 1 from payonce.cases')).rowCount, 1);
  await assertBooksClean(one.pool);
});

test('more than a thousand stays are all told, a thousand a pass, and none twice (req R5)', async () => {
  const { one, rail } = await world('long_many');
  const made = await createWithdrawals(
    one,
    Array.from({ length: 1_005 }, () => one.request({ amount: 1n })),
  );
  assert.equal(made.length, 1_005);
  for (let pass = 0; pass < 3; pass += 1) assert.equal(await watchLongStays(one.engine, rail, 0), 1_005);
  assert.equal((await alerts(one)).length, 1_005);
  const [first] = made;
  assert.ok(first?.outcome === 'created');
  await cancelWithdrawal(one.engine, one.partnerId, first.id, 'a test');
  assert.equal(await watchLongStays(one.engine, rail, 0), 1_004);
  assert.equal((await alerts(one)).filter((told) => !told.is_open).length, 1);
});
