/**
 * A believed no waits: lateness, then a fresh look that finds nothing, and a watch list for what comes after all. And what
 * is sent again without keys, or has never left. Method: the engine on a rail without a sequence, whose lateness is a part
 * of a second; the database's clock decides.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { advanceOnce } from '../../src/engine/advance.ts';
import { watchReleasedOnce } from '../../src/engine/look.ts';
import { makeNoopRail, type NoopBehaviour } from '../../src/engine/noop.ts';
import type { Capabilities, Observation, Rail } from '../../src/engine/rail.ts';
import { reopenOnce } from '../../src/engine/reopen.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { readWithdrawal } from '../../src/flows/withdrawals/store.ts';
import { assertBooksClean } from '../support/books.ts';
import { balanceOf, makeWorld, type World } from '../support/world.ts';

const LATENESS_MS = 400;
const REFUSED: Partial<Observation> = {
  kind: 'refused',
  refusal: { stage: 'after_key_check', storedUnderKey: false, replayed: false, final: true, atOnce: false },
};

async function world(behave: NoopBehaviour, capabilities: Partial<Capabilities> = {}): Promise<World> {
  return makeWorld({
    label: 'believe',
    rails: () => [makeNoopRail('noop', behave, { latenessMs: LATENESS_MS, ...capabilities })],
  });
}
function railOf(one: World): Rail {
  const rail = one.engine.rails.get('noop');
  assert.ok(rail);
  return rail;
}
async function take(one: World): Promise<string> {
  const [created] = await createWithdrawals(one, [one.request()]);
  assert.equal(created?.outcome, 'created');
  return created.outcome === 'created' ? created.id : '';
}
async function pass(one: World): Promise<void> {
  await one.pool.query('update payonce.effects set next_at = payonce.now(), lease_until = null where ended_at is null');
  await advanceOnce(one.engine, railOf(one));
}
interface Row extends Record<string, unknown> {
  state: string;
  release_rank: string | null;
  send_count: number;
  believing: boolean;
}
async function effectOf(one: World): Promise<Row | undefined> {
  return (
    await one.pool.query<Row>(
      'select state, release_rank, send_count, believed_evidence is not null as believing from payonce.effects order by id',
    )
  ).rows[0];
}
const lateness = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, LATENESS_MS + 50));

test('a final refusal stops all sends, waits for lateness and a fresh look, and only then releases (req T5, T6, inv E11)', async () => {
  const one = await world(
    { send: () => Promise.resolve(REFUSED), look: () => Promise.resolve([{ kind: 'not_found' }]) },
    { resendAfterMs: 0 },
  );
  // The lease's end bounds the last send; a short one keeps the test short.
  const id = await take(one);
  await pass(one);
  await one.pool.query("update payonce.effects set lateness_until = payonce.now() + interval '400 milliseconds'");
  assert.deepEqual(await effectOf(one), { state: 'SEALED', release_rank: null, send_count: 1, believing: true });
  for (let tick = 0; tick < 3; tick += 1) await pass(one);
  assert.deepEqual(await effectOf(one), { state: 'SEALED', release_rank: null, send_count: 1, believing: true });
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n, held: 1_000_000n });
  const told = await one.pool.query<{ body: string }>(
    "select body from payonce.events where type = 'withdrawal.processing'",
  );
  assert.match(told.rows[0]?.body ?? '', /"final_at"\s*:\s*"20/);
  await lateness();
  await pass(one);
  assert.deepEqual(await effectOf(one), {
    state: 'RELEASED',
    release_rank: 'believed',
    send_count: 1,
    believing: true,
  });
  assert.equal((await readWithdrawal(one.pool, one.partnerId, id))?.status, 'in_review');
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n, held: 0n });
  await assertBooksClean(one.pool);
  await one.end();
});

for (const kind of ['in_progress', 'unreadable', 'blocked'] as const) {
  test(`a fresh look that answers ${kind} starts lateness anew (inv E11)`, async () => {
    let unclear = true;
    const one = await world({
      send: () => Promise.resolve(REFUSED),
      look: () => Promise.resolve([{ kind: 'not_found' }, { kind: unclear ? kind : 'not_found', source: 'second' }]),
    });
    await take(one);
    await pass(one);
    await one.pool.query("update payonce.effects set lateness_until = payonce.now() + interval '100 milliseconds'");
    await lateness();
    await pass(one);
    const { rows } = await one.pool.query<{ waits: boolean }>(
      'select lateness_until > payonce.now() as waits from payonce.effects',
    );
    assert.deepEqual(rows, [{ waits: true }]);
    assert.equal((await effectOf(one))?.state, 'SEALED');
    unclear = false;
    await lateness();
    await pass(one);
    assert.equal((await effectOf(one))?.release_rank, 'believed');
    await assertBooksClean(one.pool);
    await one.end();
  });
}

test('testimony while it waits bars the no, and testimony after the release re-opens it from the watch list (req T6, inv E13)', async () => {
  let seen: Partial<Observation> = { kind: 'not_found' };
  const one = await world({ send: () => Promise.resolve(REFUSED), look: () => Promise.resolve([seen]) });
  const id = await take(one);
  await pass(one);
  await one.pool.query("update payonce.effects set lateness_until = payonce.now() + interval '50 milliseconds'");
  await lateness();
  await pass(one);
  assert.equal((await effectOf(one))?.state, 'RELEASED');
  seen = { kind: 'final_success', objectId: 'bank-1' };
  assert.equal(await watchReleasedOnce(one.engine, railOf(one)), 0, 'not before its hour');
  await one.pool.query("update payonce.effects set watch_at = payonce.now() - interval '1 second'");
  assert.equal(await watchReleasedOnce(one.engine, railOf(one)), 1);
  assert.equal(await reopenOnce(one.engine), 1);
  await pass(one);
  assert.equal((await readWithdrawal(one.pool, one.partnerId, id))?.status, 'confirmed');
  assert.deepEqual(await balanceOf(one), { balance: 999_000_000n, held: 0n });
  await assertBooksClean(one.pool);
  await one.end();
});

test('a rail that cannot be looked up keeps the money and asks a person', async () => {
  const one = await world({ send: () => Promise.resolve(REFUSED), look: () => Promise.resolve([]) }, { lookUp: false });
  await take(one);
  for (let tick = 0; tick < 2; tick += 1) await pass(one);
  assert.equal((await effectOf(one))?.believing, false);
  assert.deepEqual((await one.pool.query<{ kind: string }>('select kind from payonce.cases')).rows, [
    { kind: 'undecided' },
  ]);
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n, held: 1_000_000n });
  await assertBooksClean(one.pool);
  await one.end();
});

test('what never left is sent again, and is dead once the time to decide is over (req T1)', async () => {
  const one = await world(
    { send: () => Promise.resolve({ kind: 'never_left' }), look: () => Promise.resolve([]) },
    { resendAfterMs: 0, keyed: false, decideWithinMs: 1_500 },
  );
  await take(one);
  for (let tick = 0; tick < 3; tick += 1) await pass(one);
  assert.equal((await effectOf(one))?.send_count, 3, 'without keys too, while nothing has ever left');
  await new Promise((resolve) => setTimeout(resolve, 1_600));
  await pass(one);
  assert.deepEqual(await effectOf(one), { state: 'RELEASED', release_rank: 'dead', send_count: 4, believing: false });
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n, held: 0n });
  await assertBooksClean(one.pool);
  await one.end();
});

test('without keys nothing is sent again after a doubt: a person is the way out (req T15, case B15)', async () => {
  const one = await world(
    { send: () => Promise.resolve({ kind: 'unreadable' }), look: () => Promise.resolve([{ kind: 'not_found' }]) },
    { resendAfterMs: 0, keyed: false, decideWithinMs: 0 },
  );
  await take(one);
  for (let tick = 0; tick < 5; tick += 1) await pass(one);
  assert.equal((await effectOf(one))?.send_count, 1);
  assert.deepEqual((await one.pool.query<{ kind: string }>('select kind from payonce.cases')).rows, [
    { kind: 'undecided' },
  ]);
  await assertBooksClean(one.pool);
  await one.end();
});
