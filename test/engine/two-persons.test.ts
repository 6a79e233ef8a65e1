/*
 * Goal: what frees or books money takes two persons, also where the database's own constraint on it is gone (req W13; the
 * constraint alone: schema-guards.test.ts). Method: the verbs on cases, on a real database without that constraint.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { approve, propose } from '../../src/engine/adjudicate.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { openCase } from '../../src/engine/cases.ts';
import { createOperator, type Operator } from '../../src/engine/operators.ts';
import { PayonceError } from '../../src/kernel/errors.ts';
import { assertBooksClean } from '../support/books.ts';
import type { World } from '../support/world.ts';
import { effectOf, intendOne, makeNoopWorld, railOf, silentUntil } from './noop-scene.ts';

async function operator(one: World, name: string): Promise<Operator> {
  const made = await one.pool.tx('operator', (tx) =>
    createOperator(tx, one.makeId, one.ports.chance, name, 'approver', 'test'),
  );
  return made.operator;
}

/** A sealed effect of which nothing is known, with its case. */
async function undecidedOne(): Promise<{ one: World; id: bigint; caseId: string }> {
  const one = await makeNoopWorld(silentUntil(() => [{ kind: 'not_found' }]));
  const id = await intendOne(one);
  await advanceOnce(one.engine, railOf(one));
  const caseId = await openCase(one.pool, one.makeId, {
    kind: 'undecided',
    severity: 2,
    subjectKey: `effect:${id}`,
    effectId: id,
    summary: 'given by the test',
  });
  return { one, id, caseId };
}

test('nobody approves an own proposal, also where the database would let them (req W13)', async () => {
  const { one, id, caseId } = await undecidedOne();
  const [ann, bob] = [await operator(one, 'Ann'), await operator(one, 'Bob')];
  await one.pool.query('alter table payonce.proposals drop constraint proposals_four_eyes');
  const { proposalId } = await propose(one.engine, ann, caseId, 'settled', { reason: 'seen at the bank' });
  await assert.rejects(
    approve(one.engine, ann, proposalId),
    (error) => error instanceof PayonceError && error.code === 'PO_OPERATOR_FORBIDDEN',
  );
  assert.equal((await effectOf(one, id)).state, 'SEALED');
  assert.equal((await approve(one.engine, bob, proposalId)).outcome, 'done');
  assert.equal((await effectOf(one, id)).state, 'SETTLED');
  await assertBooksClean(one.pool);
  await one.end();
});
