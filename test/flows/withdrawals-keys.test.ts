/*
 * Goal: an idempotency key belongs to its partner: two partners may use the same text, and neither is shown the other's
 * payment (inv E15). Method: the intake itself, with two funded partners.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { makeNoopRail } from '../../src/engine/noop.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeWorld } from '../support/world.ts';

test('two partners use one key for two payments, at once and one after the other (inv E15, case C4)', async () => {
  const one = await makeWorld({ label: 'keys', rails: () => [makeNoopRail('noop')] });
  const other = 'par_other';
  await one.pool.query('insert into payonce.partners (id, name) values ($1, $2)', [other, 'Other partner']);
  await one.fund(1_000_000_000n, other);
  const requests = [
    one.request({ idempotencyKey: 'same' }),
    one.request({ idempotencyKey: 'same', partnerId: other }),
  ] as const;
  const created = await createWithdrawals(one, requests);
  assert.deepEqual(
    created.map((answer) => answer.outcome),
    ['created', 'created'],
  );
  for (const [index, request] of requests.entries()) {
    const [again] = await createWithdrawals(one, [request]);
    assert.deepEqual(again, { ...created[index], outcome: 'replayed' });
  }
  await assertBooksClean(one.pool);
  await one.end();
});
