/*
 * Goal: every answer to a broadcast is read with its true meaning (rails.md §3.2): none is a yes, none is a no, and what is
 * not in the table is unreadable. Method: the table itself, over answers as java-tron writes them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Answer, Reach } from '../../src/engine/rail.ts';
import { readSendAnswer, type SendKind } from '../../src/rails/tron/answers.ts';
import { sealOf, testRail } from './tron-scene.ts';

const TX = 'ab'.repeat(32);
const hex = (text: string): string => Buffer.from(text).toString('hex');
const said = (code: string, message = ''): string => JSON.stringify({ code, txid: TX, message: hex(message) });

const CASES: readonly (readonly [body: string, kind: SendKind, reach?: Reach, status?: number | null])[] = [
  [JSON.stringify({ result: true, txid: TX }), 'in_progress'],
  [JSON.stringify({ result: true, code: 'SUCCESS', txid: TX, message: '', transaction: '{}' }), 'in_progress'],
  [said('DUP_TRANSACTION_ERROR', 'Dup transaction.'), 'in_progress'],
  [said('DUP_TRANSACTION_ERROR', 'Transaction already exists.'), 'in_progress'],
  [said('NOT_ENOUGH_EFFECTIVE_CONNECTION', 'P2P broadcast failed.'), 'in_progress'],
  [said('NOT_ENOUGH_EFFECTIVE_CONNECTION', 'Effective connection:0 is less than minEffectiveConnection:1'), 'blocked'],
  [said('TRANSACTION_EXPIRATION_ERROR', 'Transaction expired'), 'blocked'],
  [said('TAPOS_ERROR', 'Tapos check error'), 'blocked'],
  [said('SIGERROR', 'Validate signature error'), 'blocked'],
  [said('CONTRACT_VALIDATE_ERROR', 'Contract validate error : account does not exist'), 'blocked'],
  [said('CONTRACT_EXE_ERROR'), 'blocked'],
  [said('BANDWITH_ERROR', 'Account resource insufficient error'), 'blocked'],
  [said('TOO_BIG_TRANSACTION_ERROR'), 'blocked'],
  [said('SERVER_BUSY'), 'blocked'],
  [said('NO_CONNECTION'), 'blocked'],
  [said('BLOCK_UNSOLIDIFIED'), 'blocked'],
  [said('OTHER_ERROR', 'Error: java.lang.NullPointerException'), 'unreadable'],
  // A code of a newer node (case G10).
  [said('SHARD_MOVED', 'later'), 'unreadable'],
  [JSON.stringify({ result: true, code: 'SIGERROR', txid: TX }), 'unreadable'],
  [JSON.stringify({ result: false, code: 'SUCCESS', txid: TX }), 'unreadable'],
  [JSON.stringify({ result: false }), 'unreadable'],
  [JSON.stringify({ result: true, txid: 'cd'.repeat(32) }), 'unreadable'],
  ['{}', 'unreadable'],
  ['"ok"', 'unreadable'],
  ['this API is closed because this node is a lite fullnode', 'unreadable'],
  [JSON.stringify({ Error: 'class java.lang.NullPointerException : null' }), 'unreadable'],
  [JSON.stringify({ Error: 'class java.lang.IllegalAccessException : lack of computing resources' }), 'blocked'],
  [JSON.stringify({ result: true, txid: TX }), 'blocked', 'answer', 503],
  ['<html>Bad gateway</html>', 'blocked', 'answer', 502],
  ['this API is unavailable due to config', 'blocked', 'answer', 404],
  ['', 'blocked', 'answer', 413],
  ['', 'blocked', 'answer', 429],
  ['ECONNREFUSED', 'never_left', 'never_connected', null],
  ['ECONNRESET', 'unreadable', 'request_written', null],
  ['{"result":tr', 'unreadable', 'partial_answer', 200],
];

test('each answer to a broadcast has its meaning, and none is a yes or a no (case G1, G10, B9)', () => {
  for (const [body, kind, reach = 'answer', status = 200] of CASES) {
    const reading = readSendAnswer({ reach, status, body }, TX);
    assert.equal(reading.kind, kind, `${reach} ${status} ${body}: ${reading.detail}`);
  }
});

test('messages are shown in the clear, whether they came as hex or not', () => {
  const coded = readSendAnswer({ reach: 'answer', status: 200, body: said('SIGERROR', 'not in permission') }, TX);
  assert.match(coded.detail, /SIGERROR.*not in permission/);
  const body = JSON.stringify({ code: 'SIGERROR', message: 'not in permission' });
  assert.match(readSendAnswer({ reach: 'answer', status: 200, body }, TX).detail, /not in permission/);
});

test('a later DUP does not hide the refusal that came first: each answer is read alone (case G1)', () => {
  const rail = testRail();
  const sealed = sealOf(rail);
  const answer = (body: string): Answer => ({
    operation: 'send',
    source: 'node-a.invalid',
    operator: 'a',
    reach: 'answer',
    status: 200,
    body,
    variantHash: TX,
  });
  const kinds = [said('SIGERROR', 'bad'), said('DUP_TRANSACTION_ERROR', 'Dup transaction.')].map(
    (body) => rail.read(answer(body), sealed).kind,
  );
  assert.deepEqual(kinds, ['blocked', 'in_progress']);
});
