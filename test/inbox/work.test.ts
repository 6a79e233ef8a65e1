/*
 * Goal: a stored event is worked until it took effect once, whatever throws, dies or comes too early. Method: handlers that
 * write a row of their own into the real database, so that what they did and the mark can be compared.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { reviveEvents } from '../../src/inbox/store.ts';
import type { Handler } from '../../src/inbox/work.ts';
import { InvariantBroken } from '../../src/kernel/errors.ts';
import { type InboxWorld, letter, makeInboxWorld } from './inbox-world.ts';

let world: InboxWorld;
const SOURCES = [
  'plain',
  'died',
  'throws',
  'early',
  'never',
  'busy',
  'pair',
  'lease',
  'late',
  'mixed',
  'orphan',
  'broken',
];
before(async () => {
  world = await makeInboxWorld('work', SOURCES);
  await world.pool.query('create table effects_of_tests (source text, external_id text)');
});
after(() => world.close());

/** Writes one row for each event that it was given. */
const write: Handler = async (event, tx) => {
  await tx.query('insert into effects_of_tests values ($1, $2)', [event.source, event.externalId]);
  return 'done';
};

async function written(source: string): Promise<number> {
  const { rows } = await world.pool.query<{ n: bigint }>(
    'select count(*) as n from effects_of_tests where source = $1',
    [source],
  );
  return Number(rows[0]?.n);
}

async function openAlerts(key: string): Promise<number> {
  const { rows } = await world.pool.query('select 1 from payonce.alerts where key = $1 and cleared_at is null', [key]);
  return rows.length;
}

test('a worked event is marked with what the handler wrote, and never worked again (case D10)', async () => {
  const worker = world.worker({ plain: write });
  await world.post('plain', letter('msg_1', { a: 1 }));
  for (let round = 0; round < 3; round += 1) {
    await worker.runOnce();
    await world.makeDue();
  }
  assert.equal(await written('plain'), 1);
  const [row] = await world.rows('plain');
  assert.equal(row?.state, 'done');
  assert.equal(row.attempts, 1);
});

test('a connection that dies in the middle leaves neither the mark nor the effect, and the next attempt makes both (case C6, case D10)', async () => {
  let kill = true;
  const worker = world.worker({
    died: async (event, tx) => {
      await write(event, tx);
      if (kill) await tx.query('select pg_terminate_backend(pg_backend_pid())');
      return 'done';
    },
  });
  await world.post('died', letter('msg_1', { a: 1 }));
  await worker.runOnce();
  assert.equal(await written('died'), 0);
  assert.equal((await world.rows('died'))[0]?.state, 'new');
  kill = false;
  await world.makeDue();
  await worker.runOnce();
  assert.equal(await written('died'), 1);
  assert.equal((await world.rows('died'))[0]?.state, 'done');
});

test('a handler that throws on something unknown keeps the event, people are told, and it is worked in the end (case D5)', async () => {
  const one = letter('msg_unknown', { state: 'A_STATE_NOBODY_KNOWS', extra: { nested: true } });
  await world.post('throws', one);
  let understood = false;
  const worker = world.worker({
    throws: async (event, tx) => {
      await write(event, tx);
      if (!understood) throw new Error('unknown state A_STATE_NOBODY_KNOWS');
      return 'done';
    },
  });
  for (let attempt = 1; attempt <= 6; attempt += 1) {
    assert.equal(await openAlerts('throws:msg_unknown'), attempt > 5 ? 1 : 0);
    await worker.runOnce();
    const [row] = await world.rows('throws');
    assert.equal(row?.state, 'new');
    assert.equal(row.last_error, 'unknown state A_STATE_NOBODY_KNOWS');
    assert.equal(row.body.toString(), one.body);
    const { worked } = await worker.runOnce();
    assert.equal(worked, 0, 'it waits before the next attempt');
    await world.makeDue();
  }
  understood = true;
  await worker.runOnce();
  assert.equal((await world.rows('throws'))[0]?.state, 'done');
  assert.equal(await written('throws'), 1, 'what the failed attempts wrote was rolled back');
  assert.equal(await openAlerts('throws:msg_unknown'), 0);
});

test('an event that came before its record is kept and takes effect once the record is there (case D4)', async () => {
  const worker = world.worker({
    early: async (event, tx) => {
      const { reference } = JSON.parse(event.body.toString()) as { reference: string };
      const { rows } = await tx.query('select 1 from payonce.partners where id = $1', [reference]);
      return rows.length === 0 ? 'unmatched' : write(event, tx);
    },
  });
  await world.post('early', letter('msg_completed', { state: 'completed', reference: 'par_early' }));
  await worker.runOnce();
  assert.equal((await world.rows('early'))[0]?.state, 'unmatched');
  await world.pool.query("insert into payonce.partners (id, name) values ('par_early', 'late to be stored')");
  await world.makeDue();
  await worker.runOnce();
  assert.equal((await world.rows('early'))[0]?.state, 'done');
  assert.equal(await written('early'), 1);
});

test('an event that is unmatched for ten minutes becomes one case, and a person can have it worked again (case D4)', async () => {
  let known = false;
  const worker = world.worker({ never: (event, tx) => (known ? write(event, tx) : Promise.resolve('unmatched')) });
  await world.post('never', letter('msg_nobody', { a: 1 }));
  const cases = async () =>
    (
      await world.pool.query(
        "select summary from payonce.cases where kind = 'unmatched_inbound' and subject_key = 'inbox:never:msg_nobody'",
      )
    ).rows;
  await worker.runOnce();
  await world.pool.query(
    "update payonce.inbox set received_at = received_at - interval '9 min' where source = 'never'",
  );
  await world.makeDue();
  await worker.runOnce();
  assert.deepEqual(await cases(), []);
  await world.pool.query(
    "update payonce.inbox set received_at = received_at - interval '1 min' where source = 'never'",
  );
  for (let round = 0; round < 3; round += 1) {
    await world.makeDue();
    await worker.runOnce();
  }
  assert.equal((await cases()).length, 1);
  const [row] = await world.rows('never');
  assert.equal(row?.state, 'dead');

  known = true;
  assert.equal(await world.pool.tx('revive', (tx) => reviveEvents(tx, [row.id])), 1);
  await worker.runOnce();
  assert.equal((await world.rows('never'))[0]?.state, 'done');
  assert.equal(await written('never'), 1);
});

test('a redelivery that comes while the first is being worked is answered at once (case D1)', async () => {
  const one = letter('msg_slow', { a: 1 });
  await world.post('busy', one);
  const held = Promise.withResolvers<void>();
  const entered = Promise.withResolvers<void>();
  const worker = world.worker({
    busy: async (event, tx) => {
      await write(event, tx);
      entered.resolve();
      await held.promise;
      return 'done';
    },
  });
  const working = worker.runOnce();
  await entered.promise;
  const began = performance.now();
  assert.equal(await world.post('busy', one), 200);
  assert(performance.now() - began < 2_000);
  held.resolve();
  await working;
  const [row] = await world.rows('busy');
  assert.deepEqual([row?.state, row?.redeliveries, await written('busy')], ['done', 1, 1]);
});
test('two workers at once work each event once (case D1)', async () => {
  for (let n = 0; n < 40; n += 1) await world.post('pair', letter(`msg_${n}`, { n }));
  const workers = [world.worker({ pair: write }), world.worker({ pair: write })];
  for (let round = 0; round < 2; round += 1) await Promise.all(workers.map((worker) => worker.runOnce()));
  assert.equal(await written('pair'), 40);
  assert((await world.rows('pair')).every((row) => row.state === 'done' && row.attempts === 1));
});

test('a worker whose lease was taken over keeps nothing of what it wrote (case D10)', async () => {
  await world.post('lease', letter('msg_1', { a: 1 }));
  const held = Promise.withResolvers<void>();
  const entered = Promise.withResolvers<void>();
  const slow = world.worker({
    lease: async (event, tx) => {
      await write(event, tx);
      entered.resolve();
      await held.promise;
      return 'done';
    },
  });
  const stale = slow.runOnce();
  await entered.promise;
  await world.makeDue();
  const quick = world.worker({ lease: write });
  await quick.runOnce();
  assert.equal(quick.counts.done, 1);
  held.resolve();
  await stale;
  assert.deepEqual([slow.counts.takenOver, slow.counts.done], [1, 0]);
  assert.equal(await written('lease'), 1);
});

test('a failure that comes after the lease was lost changes nothing for the one who works it now', async () => {
  await world.post('late', letter('msg_1', { a: 1 }));
  const gates = [0, 1].map(() => ({ entered: Promise.withResolvers<void>(), held: Promise.withResolvers<void>() }));
  const [first, second] = gates;
  assert(first !== undefined && second !== undefined);
  const handle =
    (gate: typeof first, end: Handler): Handler =>
    async (event, tx) => {
      gate.entered.resolve();
      await gate.held.promise;
      return end(event, tx);
    };
  const slow = world.worker({ late: handle(first, () => Promise.reject(new Error('too late'))) });
  const quick = world.worker({ late: handle(second, write) });
  const stale = slow.runOnce();
  await first.entered.promise;
  await world.makeDue();
  const working = quick.runOnce();
  await second.entered.promise;
  first.held.resolve();
  await stale;
  assert.equal((await world.rows('late'))[0]?.last_error, null);
  second.held.resolve();
  await working;
  assert.equal((await world.rows('late'))[0]?.state, 'done');
  assert.equal(await written('late'), 1);
});

test('an event that fails does not hold up its neighbours, and one without a handler is kept', async () => {
  for (let n = 0; n < 9; n += 1) await world.post('mixed', letter(`msg_${n}`, { n }));
  await world.post('orphan', letter('msg_1', { a: 1 }));
  const worker = world.worker({
    mixed: (event, tx) => (event.externalId === 'msg_0' ? Promise.reject(new Error('poison')) : write(event, tx)),
  });
  await worker.runOnce();
  assert.equal(await written('mixed'), 8);
  const [orphan] = await world.rows('orphan');
  assert.equal(orphan?.state, 'new');
  assert.equal(orphan.last_error, 'no handler is configured for source "orphan"');
});

test('a broken invariant in a handler keeps the event and reaches the process', async () => {
  await world.post('broken', letter('msg_1', { a: 1 }));
  const worker = world.worker({ broken: () => Promise.reject(new InvariantBroken('the books are wrong')) });
  await assert.rejects(worker.runOnce(), /the books are wrong/);
  assert.equal((await world.rows('broken'))[0]?.state, 'new');
});
