/*
 * Goal: money that moves between wallets of ours moves by the one mechanism: once per natural key, one at a time per lane,
 * from custody to custody, and no partner's account, hold or event is in it. Method: a flow of the test's over the real
 * mechanism, on the rail where nothing moves.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sendOnce, watchOnce } from '../../src/engine/advance.ts';
import { cancelSubject } from '../../src/engine/cancel.ts';
import type { NoopBehaviour } from '../../src/engine/noop.ts';
import {
  makeOwnMoveFlow,
  type MoveOutcome,
  OWN_PARTNER,
  type OwnMove,
  type OwnMoveKind,
  takeOwnMoves,
} from '../../src/engine/own-move.ts';
import type { Capabilities } from '../../src/engine/rail.ts';
import { postingKey } from '../../src/kernel/ids.ts';
import { assertBooksClean } from '../support/books.ts';
import { balanceOf, type World } from '../support/world.ts';
import { makeDue, makeNoopWorld, railOf } from './noop-scene.ts';

const SWEEP: OwnMoveKind = {
  subjectType: 'collection',
  idPrefix: 'col',
  key: postingKey.collectionMove,
  arrivesAt: 'custody',
  triesMax: 2,
};

function makeMoves(behave: NoopBehaviour = {}, capabilities: Partial<Capabilities> = {}, kind = SWEEP): Promise<World> {
  return makeNoopWorld(behave, {
    capabilities,
    world: { flows: (chart) => [makeOwnMoveFlow(chart, kind)], fundUnits: 0n },
  });
}

function moveOf(world: World, fields: Partial<OwnMove> = {}): OwnMove {
  return {
    partnerId: world.partnerId,
    naturalKey: 'address-1 at 10:00',
    lane: `sweep:address-1:${world.assetId}`,
    rail: 'noop',
    assetId: world.assetId,
    amount: 250n,
    wallet: 'wallet-1',
    signer: 'wallet-1',
    destination: 'master',
    ...fields,
  };
}

function take(world: World, moves: readonly OwnMove[], kind = SWEEP): Promise<MoveOutcome[]> {
  return world.pool.tx('moves', (tx) => takeOwnMoves(tx, world, kind, moves, () => Promise.resolve()));
}

async function statesOf(world: World): Promise<string[]> {
  const { rows } = await world.pool.query<{ state: string }>('select state from payonce.effects order by id');
  return rows.map((row) => row.state);
}

async function sendAll(world: World): Promise<void> {
  await makeDue(world);
  await sendOnce(world.engine, railOf(world));
  await watchOnce(world.engine, railOf(world));
}

test('an own move books custody to custody, once, and neither a partner’s account nor an event is in it (req W8, R13)', async () => {
  const world = await makeMoves();
  const [made] = await take(world, [moveOf(world)]);
  assert.equal(made?.outcome, 'made');
  assert.deepEqual(await take(world, [moveOf(world)]), [{ outcome: 'exists', id: made.id }]);
  await sendAll(world);
  assert.deepEqual(await statesOf(world), ['SETTLED']);
  assert.equal((await balanceOf(world, 'custody:noop:wallet-1')).balance, 250n);
  assert.equal((await balanceOf(world, 'custody:noop:master')).balance, -250n);
  assert.equal((await balanceOf(world)).balance, 0n);
  const told = await world.pool.query('select 1 from payonce.events');
  assert.equal(told.rowCount, 0);
  assert.deepEqual(await take(world, [moveOf(world)]), [{ outcome: 'exists', id: made.id }], 'also after its end');
  await assertBooksClean(world.pool);
});

test('a lane has one open move: the next one is told who has it, and is made when that has ended (inv E16)', async () => {
  const world = await makeMoves();
  const later = moveOf(world, { naturalKey: 'address-1 at 11:00' });
  const [first, second] = await take(world, [moveOf(world), later]);
  assert.equal(first?.outcome, 'made');
  assert.deepEqual(second, { outcome: 'lane_taken', by: { subjectType: 'collection', subjectId: first.id } });
  assert.equal((await take(world, [later]))[0]?.outcome, 'lane_taken');
  await sendAll(world);
  assert.equal((await take(world, [later]))[0]?.outcome, 'made');
  await assertBooksClean(world.pool);
});

test('eight at once make one move, and nobody gets an error (req R12)', async () => {
  const world = await makeMoves();
  for (let round = 0; round < 10; round += 1) {
    const move = moveOf(world, { naturalKey: `round ${round}`, lane: `lane ${round}` });
    const answers = await Promise.all(Array.from({ length: 8 }, () => take(world, [move])));
    const outcomes = answers.flat().map((one) => one.outcome);
    assert.equal(outcomes.filter((one) => one === 'made').length, 1);
    assert.equal(outcomes.filter((one) => one === 'exists').length, 7);
  }
  await assertBooksClean(world.pool);
});

test('what is spent arrives at gas, what moves nothing books nothing, and ourselves pay what is no partner’s (req R16)', async () => {
  const energy: OwnMoveKind = {
    ...SWEEP,
    subjectType: 'energy',
    idPrefix: 'nrg',
    key: postingKey.energy,
    arrivesAt: 'gas',
  };
  const world = await makeMoves({}, {}, energy);
  const rented = moveOf(world, { partnerId: OWN_PARTNER, naturalKey: 'effect 1', lane: 'energy:1' });
  await take(world, [rented, { ...rented, naturalKey: 'effect 2', lane: 'energy:2', amount: 0n }], energy);
  await sendAll(world);
  assert.deepEqual(await statesOf(world), ['SETTLED', 'SETTLED']);
  assert.equal((await balanceOf(world, 'gas')).balance, -250n);
  assert.equal((await balanceOf(world, 'custody:noop:wallet-1')).balance, 250n);
  await assertBooksClean(world.pool);
});

test('a try that is proved dead is followed by another, a few times; then a person is asked (req R4)', async () => {
  const world = await makeMoves({
    send: () => Promise.resolve({ kind: 'reverted_final', objectId: 'tx' }),
    look: () => Promise.resolve([{ kind: 'reverted_final', objectId: 'tx' }]),
  });
  await take(world, [moveOf(world)]);
  await sendAll(world);
  assert.deepEqual(await statesOf(world), ['RELEASED', 'PENDING']);
  await sendAll(world);
  assert.deepEqual(await statesOf(world), ['RELEASED', 'RELEASED']);
  const { rows } = await world.pool.query<{ kind: string }>('select kind from payonce.cases where closed_at is null');
  assert.deepEqual(
    rows.map((row) => row.kind),
    ['after_release'],
  );
  await assertBooksClean(world.pool);
});

test('a move that is cancelled before its seal ends quietly, and its lane is free (req R2)', async () => {
  const world = await makeMoves();
  const [made] = await take(world, [moveOf(world)]);
  assert.equal(made?.outcome, 'made');
  const cancelled = await cancelSubject(world.engine, 'collection', world.partnerId, made.id, 'operator');
  assert.equal(cancelled, 'cancelled');
  const [next] = await take(world, [moveOf(world, { naturalKey: 'address-1 at 11:00' })]);
  assert.equal(next?.outcome, 'made');
  await sendAll(world);
  await assertBooksClean(world.pool);
});

test('a posting of a move that books something else, or belongs to no move, is a breach (inv L5, E3)', async () => {
  const world = await makeMoves();
  await take(world, [moveOf(world)]);
  await sendAll(world);
  const { rows } = await world.pool.query<{ subject: string }>(
    `with forged as (
       insert into payonce.postings (idem_key, reference) values ('COL_MOVE:col_nobody', 'forged') returning id)
     select id from forged`,
  );
  assert.equal(rows.length, 1);
  await assert.rejects(assertBooksClean(world.pool, { only: ['L5'] }), /COL_MOVE:col_nobody belongs to no effect/);
});

test('the kinds of own moves and their keys are the same in the code and in the database (inv L5)', async () => {
  const world = await makeMoves();
  const { rows } = await world.pool.query<{ subject_type: string; key_kind: string; arrives_at: string }>(
    'select subject_type, key_kind, arrives_at from payonce.own_move_kinds order by subject_type',
  );
  assert.deepEqual(
    rows.map((row) => `${row.subject_type} ${row.key_kind}:x ${row.arrives_at}`),
    [
      `allowance ${postingKey.allowance('x')} gas`,
      `collection ${postingKey.collectionMove('x')} custody`,
      `energy ${postingKey.energy('x')} gas`,
      `realization ${postingKey.realizationMove('x')} custody`,
      `topup ${postingKey.topup('x')} custody`,
    ],
  );
});
