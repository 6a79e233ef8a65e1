/*
 * Goal: nothing but a named no frees money: not silence, not time, not a word that we do not know, not one witness alone,
 * not a stale worker's no, not a refusal that says nothing of the key, not a no beside a yes on the row. Method: the engine
 * on the rail where nothing moves, which answers as each test likes; where the database would refuse as well, its guard is
 * taken away in the test's own database (req W13).
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { advanceOnce } from '../../src/engine/advance.ts';
import { classify } from '../../src/engine/classify.ts';
import type { Facts } from '../../src/engine/effect.ts';
import type { Observation } from '../../src/engine/rail.ts';
import { record } from '../../src/engine/record.ts';
import { assertBooksClean } from '../support/books.ts';
import { balanceOf, type World } from '../support/world.ts';
import {
  dropEdgeGuard,
  effectOf,
  intendOne,
  leaseOne,
  makeDue,
  makeNoopWorld,
  railOf,
  silentUntil,
} from './noop-scene.ts';

const HELD = { balance: 1_000_000_000n, held: 1_000_000n };

async function passes(one: World, times: number): Promise<void> {
  for (let pass = 0; pass < times; pass += 1) {
    await makeDue(one);
    await advanceOnce(one.engine, railOf(one));
  }
}

test('a word that no rule names is nothing: the money stays held (case B4, inv E10)', async () => {
  const strange = 'settled_by_pigeon' as 'unreadable';
  const one = await makeNoopWorld(silentUntil(() => [{ kind: strange }]));
  const id = await intendOne(one);
  await passes(one, 3);
  assert.equal((await effectOf(one, id)).state, 'SEALED');
  assert.deepEqual(await balanceOf(one), HELD);
  await assertBooksClean(one.pool);
  await one.end();
});

test('absence takes two witnesses with operators of their own (case F1, F5)', async () => {
  const other = { kind: 'spent_by_other', objectId: '0xother' } as const;
  const witnesses = [
    { ...other, source: 'node-1', operator: 'a' },
    { ...other, source: 'node-2', operator: 'a' },
  ];
  const one = await makeNoopWorld(
    silentUntil(() => witnesses),
    { capabilities: { absenceWitnesses: 2 } },
  );
  const id = await intendOne(one);
  await passes(one, 3);
  assert.equal((await effectOf(one, id)).state, 'SEALED');
  witnesses.push({ ...other, source: 'node-3', operator: 'b' });
  await makeDue(one);
  await advanceOnce(one.engine, railOf(one));
  assert.equal((await effectOf(one, id)).state, 'RELEASED');
  await assertBooksClean(one.pool);
  await one.end();
});

test('word testimony settles nothing, also where the database would let it (inv E4, req W13)', async () => {
  const one = await makeNoopWorld(silentUntil(() => [{ kind: 'accepted', objectId: 'payment-1' }]));
  const id = await intendOne(one);
  await passes(one, 1);
  await dropEdgeGuard(one);
  await passes(one, 2);
  assert.equal((await effectOf(one, id)).state, 'SEALED');
  assert.deepEqual(await balanceOf(one), HELD);
  await one.end();
});

test('time alone frees nothing, also where the database would let it (case A1, inv E10, req R5, W13)', async () => {
  const one = await makeNoopWorld(
    silentUntil(() => [{ kind: 'not_found' }]),
    { capabilities: { decideWithinMs: 0 } },
  );
  const id = await intendOne(one);
  await passes(one, 1);
  await dropEdgeGuard(one);
  await passes(one, 3);
  assert.equal((await effectOf(one, id)).state, 'SEALED');
  assert.deepEqual(await balanceOf(one), HELD);
  await one.end();
});

test('a no about another object than the accepted one is a case: testimony counts on the row (inv E11, E13)', async () => {
  let told: Partial<Observation> = { kind: 'accepted', objectId: 'payment-1' };
  const one = await makeNoopWorld(silentUntil(() => [told]));
  const id = await intendOne(one);
  await passes(one, 2);
  assert.equal((await effectOf(one, id)).acceptedObject, 'payment-1');
  told = { kind: 'object_failed', objectId: 'payment-2', keyStaysBound: true };
  await passes(one, 2);
  assert.equal((await effectOf(one, id)).state, 'SEALED');
  assert.deepEqual(await balanceOf(one), HELD);
  const cases = await one.pool.query<{ kind: string }>('select kind from payonce.cases');
  assert.deepEqual(
    cases.rows.map((row) => row.kind),
    ['contradiction'],
  );
  await assertBooksClean(one.pool);
  await one.end();
});

test('the no of a worker whose lease was taken over is kept as an answer and is no evidence (case L3, inv E11)', async () => {
  const one = await makeNoopWorld(silentUntil(() => [{ kind: 'not_found' }]));
  const id = await intendOne(one);
  await passes(one, 1);
  const { leaseToken } = await leaseOne(one, id);
  const observation: Observation = {
    kind: 'reverted_final',
    source: 'late',
    operator: 'late',
    witness: true,
    objectId: '0x1',
    detail: '',
    cost: null,
  };
  const answer = {
    operation: 'look',
    source: 'late',
    operator: 'late',
    reach: 'answer',
    status: 200,
    body: '{}',
    variantHash: null,
  } as const;
  const pass = { effectId: id, found: [{ answer, observation, sendNumber: 1 }], nextAfterMs: 0 };
  await record(one.engine, railOf(one), [{ ...pass, token: leaseToken - 1n }]);
  const count = async (table: string): Promise<number> =>
    (await one.pool.query(`select 1 from payonce.${table} where source = 'late'`)).rowCount;
  assert.deepEqual([await count('effect_answers'), await count('effect_evidence')], [1, 0]);
  await record(one.engine, railOf(one), [{ ...pass, token: leaseToken }]);
  assert.equal((await effectOf(one, id)).state, 'RELEASED');
  await assertBooksClean(one.pool);
  await one.end();
});

test('a refusal that was given before the key was looked at says nothing of an earlier send (req T5, T12)', () => {
  const facts: Facts = {
    state: 'SEALED',
    sends: 2,
    sendsNeverLeft: 0,
    sendsRefused: 1,
    sendsRefusedAtOnce: 1,
    testimonies: 0,
    objectTestimony: false,
    acceptedObject: null,
    namedObjects: [],
    absence: [],
    absenceWitnesses: 1,
    keyed: true,
    latenessWithinKey: true,
    refusedAtOnceCounts: true,
    pastDecide: false,
    sequenced: false,
    provesAbsence: false,
    canBelieve: true,
    failedObject: null,
    believing: null,
    freshLook: 'none',
  };
  const refused = (stage: 'before_key_check' | 'after_key_check' | 'unknown'): string =>
    classify(facts, {
      kind: 'refused',
      source: 'bank',
      operator: 'bank',
      witness: false,
      objectId: null,
      detail: 'invalid account',
      cost: null,
      refusal: { stage, storedUnderKey: false, replayed: false, final: true, atOnce: true },
    }).kind;
  assert.equal(refused('before_key_check'), 'BLOCKED');
  assert.equal(refused('unknown'), 'BLOCKED');
  assert.equal(refused('after_key_check'), 'REJECTED');
});
