/*
 * Goal: what one partner asks for stops nobody else's payouts, and what changes while a payout is being made, or comes back after it
 * ended, pays nothing twice. Method: the payouts' scene; a second connection that holds a lock for as long as the test likes.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import pg from 'pg';
import type { Observation } from '../../src/engine/rail.ts';
import { reopenOnce } from '../../src/engine/reopen.ts';
import { watchReleasedOnce } from '../../src/engine/look.ts';
import { makePayouts } from '../../src/flows/payouts/enqueue.ts';
import { accrue, payWaitingOnce, runCuts } from '../../src/flows/payouts/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { eventsOf, lineOf, makePayoutWorld, type PayoutWorld } from '../support/payout-scene.ts';
import { makeVirtualTime } from '../support/virtual-time.ts';

let world: PayoutWorld;
afterEach(async () => {
  await assertBooksClean(world.pool);
  await world.end();
});

test('a time zone that the database does not know, or reads the other way round, is refused and stops nobody’s cut (req P6)', async () => {
  world = await makePayoutWorld();
  await world.programme('p', { cut_min: '1' });
  for (const zone of ['+05', '-03', '+0530', 'US/Pacific-New', 'nowhere', 'localtime', '']) {
    await assert.rejects(world.programme('p', { cut_min: '1', time_zone: zone }), { code: 'PO_REQUEST_INVALID' }, zone);
    await assert.rejects(world.programme('q', { time_zone: zone }), { code: 'PO_REQUEST_INVALID' }, zone);
  }
  for (const zone of ['Africa/Casablanca', 'Asia/Kolkata', 'Pacific/Apia', 'America/Sao_Paulo', 'Etc/GMT+5', 'UTC'])
    await world.programme('p', { cut_min: '1', time_zone: zone });
  await runCuts(world.deps);
});

/** What the cut makes of one creator with 6, when this is committed while it waits for the pool's lock. */
async function cutThatWaits(change: string): Promise<number | undefined> {
  world = await makePayoutWorld();
  const time = await makeVirtualTime(world.pool, '2026-05-10T12:00:00Z');
  await world.programme('p', { cut_min: '5' });
  await world.creator('ann', 'old');
  await world.accrue(eventsOf('ann', '60'));
  await time.set(new Date('2026-05-11T05:00:00Z'));
  const other = new pg.Client({ connectionString: world.url });
  await other.connect();
  await other.query('begin');
  await other.query('select 1 from payonce.pools for no key update');
  const cut = runCuts(world.deps);
  const isWaiting = async (): Promise<boolean> =>
    ((
      await other.query(
        "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()",
      )
    ).rowCount ?? 0) > 0;
  while (!(await isWaiting())) await new Promise((resolve) => setTimeout(resolve, 10));
  await other.query(change);
  await other.query('commit');
  await other.end();
  return (await cut)[0]?.payouts;
}

test('a cut that waited for a creator pays to the address that is set by then (req P6)', async () => {
  const change =
    "insert into payonce.creator_addresses (creator_id, chain, address) select id, 'noop', 'new' from payonce.creators";
  assert.equal(await cutThatWaits(change), 1);
  await world.pass();
  assert.deepEqual(
    world.book.map((one) => one.to),
    ['new'],
  );
});

test('a cut that waited for a creator pays nothing where there is less than its least amount by then (req P6)', async () => {
  assert.equal(await cutThatWaits('update payonce.programmes set cut_min = 6000001'), 0, 'it is less');
  assert.equal(lineOf(await world.statement(), 'ann').carried, '6');
});

test('who waits for an address, and misses the moment in which it is set, is looked at again within the hour (req P6)', async () => {
  world = await makePayoutWorld();
  const time = await makeVirtualTime(world.pool, '2026-05-10T12:00:00Z');
  await world.programme('p');
  await world.accrue(eventsOf('ann', '100'));
  // As a commit beside the accrual's own: it finds nobody to wake.
  await world.pool.query(
    "insert into payonce.creator_addresses (creator_id, chain, address) select id, 'noop', 'late' from payonce.creators",
  );
  assert.equal((await payWaitingOnce(world.deps)).made.length, 0);
  await time.set(new Date('2026-05-10T13:00:01Z'));
  assert.equal((await payWaitingOnce(world.deps)).made.length, 1);
});

test('a payout that is paid after all, after its volume went to another, is a surplus: no volume is in two, and none is lost (req P7, case I1, inv P1)', async () => {
  const says = new Map<string, Observation['kind']>();
  world = await makePayoutWorld({
    send: () => Promise.resolve({ kind: 'in_progress' }),
    look: (sealed) =>
      Promise.resolve([{ kind: says.get(sealed.destination) ?? 'in_progress', objectId: sealed.seal.identity }]),
  });
  await world.programme('p');
  await world.creator('ann', 'first');
  await world.accrue(eventsOf('ann', '100'));
  says.set('first', 'reverted_final');
  await world.pass();
  await world.creator('ann', 'second');
  assert.equal((await payWaitingOnce(world.deps)).made.length, 1);
  says.set('second', 'final_success');
  await world.pass();
  // The chain shows the first one as moved now, and then says again that it reverted: what was shown once stands.
  says.set('first', 'final_success');
  await world.pool.query("update payonce.effects set watch_at = payonce.now() - interval '1 second'");
  const [rail] = world.engine.rails.values();
  assert.ok(rail);
  await watchReleasedOnce(world.engine, rail);
  assert.equal(await reopenOnce(world.engine), 1);
  says.set('first', 'reverted_final');
  await world.pass();
  assert.deepEqual(
    (await world.payouts()).map((one) => one.status),
    ['confirmed', 'confirmed'],
  );
  await world.accrue(eventsOf('ann', '100'));
  assert.equal((await world.payouts()).length, 2, 'what was paid twice is set off');
  await world.accrue(eventsOf('ann', '1'));
  says.set('second', 'in_progress');
  const line = lineOf(await world.statement(), 'ann');
  assert.deepEqual(
    [line.accrued, line.paid, line.in_flight, line.carried, line.payouts],
    ['20.1', '20', '0.1', '0', 3],
  );
});

test('a quote that no word of a contract holds, and a slippage that binds nobody, are refused; no least output is nothing (req P8)', async () => {
  world = await makePayoutWorld();
  const call = {
    to: 'swap',
    data: '0x11223344{amount}{min_output}',
    value: 'nothing' as const,
    logs: [{ address: 'swap', topics: [null], minimumWord: 0 }],
  };
  const terms = { pays_by: 'call' as const, call };
  await assert.rejects(world.programme('p', { ...terms, quote: `1${'0'.repeat(77)}` }), { code: 'PO_REQUEST_INVALID' });
  await assert.rejects(world.programme('p', { ...terms, quote: '1', slippage_basis_points: 10_000 }), {
    code: 'PO_REQUEST_INVALID',
  });
  await world.programme('p', { ...terms, quote: '1', slippage_basis_points: 5_000 });
  await world.creator('ann');
  await world.accrue(eventsOf('ann', '100'));
  const least = await world.pool.query<{ least: bigint }>('select min_output as least from payonce.payouts');
  assert.deepEqual(least.rows, [{ least: 5n }]);
});

test('no programme asks of a contract what the operators did not allow: the wallet holds other partners’ money (req P8)', async () => {
  world = await makePayoutWorld();
  const logs = [{ address: 'token', topics: [null] }];
  // The token itself, asked to give everything to somebody.
  const theft = { to: 'token', data: `0xa9059cbb${'1'.repeat(128)}`, value: 'nothing' as const, logs };
  await assert.rejects(world.programme('p', { pays_by: 'call', call: theft }), { code: 'PO_REQUEST_INVALID' });
  await world.programme('p', { pays_by: 'call', call: { ...theft, to: 'swap' } });
  await world.creator('ann');
  await world.accrue(eventsOf('ann', '100'));
  const strict = { ...world.deps, mayCall: () => false };
  await accrue(strict, world.partnerId, eventsOf('ben', '100'));
  await world.creator('ben');
  await payWaitingOnce(strict);
  assert.deepEqual(
    (await world.payouts()).map((one) => one.creator),
    ['ann'],
    'what is allowed no more is made no more',
  );
  assert.equal(lineOf(await world.statement(), 'ben').waits_for, 'NO_POLICY');
});

test('one payout of the cut for each creator and date, and no word of a payout that is made ever changes, whoever asks (req P6, P8)', async () => {
  world = await makePayoutWorld();
  await world.programme('p', { threshold: '1000', cut_min: '1' });
  await world.creator('ann', 'old');
  const cut = async (): Promise<unknown> => {
    await world.accrue(eventsOf('ann', '20'));
    return world.pool.tx('cut', (tx) => makePayouts(tx, world.deps, [1n], { origin: 'cut', cutDate: '2026-05-11' }));
  };
  await cut();
  await assert.rejects(cut(), { constraint: 'payouts_once_a_date' });
  await world.creator('ann', 'new');
  for (const change of ["destination = 'new'", 'quote = 1', 'min_output = 1', "consumed = '{}'", 'volume = 1'])
    await assert.rejects(
      world.pool.query(`update payonce.payouts set ${change}`),
      { constraint: 'payouts_append_only' },
      change,
    );
  await world.pass();
  assert.deepEqual(
    world.book.map((one) => one.to),
    ['old'],
  );
});
