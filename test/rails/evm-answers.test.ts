/*
 * Goal: what nodes answer to a send is read by meaning, by one table, and nothing a node says frees money. Method: the
 * recorded texts of seven clients as data, then answers that are none.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSendAnswer } from '../../src/rails/evm/answers.ts';
import { RECORDED } from './evm-answers.ts';

const HASH = `0x${'ab'.repeat(32)}`;

function read(body: unknown, status = 200) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return readSendAnswer({ reach: 'answer', status, body: text }, HASH);
}

for (const client of new Set(RECORDED.map((one) => one.client))) {
  test(`the recorded answers of ${client} are read by their meaning (case E3)`, () => {
    const wrong = RECORDED.filter((one) => one.client === client).flatMap((one) => {
      const error = { code: one.code, message: one.message };
      const got = read({ jsonrpc: '2.0', id: 1, error });
      const shouted = read({ jsonrpc: '2.0', id: 1, error: { ...error, message: one.message.toUpperCase() } });
      const same = got.kind === one.kind && got.advice === one.advice && shouted.kind === one.kind;
      return same ? [] : [{ ...one, got }];
    });
    assert.deepEqual(wrong, []);
  });
}

test('no recorded answer is read as a refusal that could free money', () => {
  const kinds = new Set(RECORDED.map((one) => read({ id: 1, error: { code: one.code, message: one.message } }).kind));
  assert.deepEqual([...kinds].sort(), ['blocked', 'in_progress', 'unreadable']);
});

test('our own hash as result is in progress, another hash is unreadable', () => {
  assert.equal(read({ jsonrpc: '2.0', id: 1, result: HASH }).kind, 'in_progress');
  assert.equal(read({ jsonrpc: '2.0', id: 1, result: HASH.toUpperCase().replace('0X', '0x') }).kind, 'in_progress');
  assert.equal(read({ jsonrpc: '2.0', id: 1, result: `0x${'cd'.repeat(32)}` }).kind, 'unreadable');
  assert.equal(read({ jsonrpc: '2.0', id: 1, result: null }).kind, 'unreadable');
});

test('HTML with status 200, garbled text and foreign ids are unreadable', () => {
  const bodies = [
    '<html><body>OK</body></html>',
    '{"jsonrpc":"2.0","id":1,"resu',
    '',
    'null',
    '[]',
    { jsonrpc: '2.0', id: 2, result: HASH },
    { jsonrpc: '2.0', result: HASH },
    { jsonrpc: '2.0', id: 1 },
    { jsonrpc: '2.0', id: 1, error: 'already known' },
    [{ jsonrpc: '2.0', id: 1, result: HASH }],
  ];
  for (const body of bodies) assert.equal(read(body).kind, 'unreadable', JSON.stringify(body));
});

test('door-keepers and gateways are blocked, whatever their body says', () => {
  for (const status of [401, 403, 429]) assert.equal(read({ id: 1, result: HASH }, status).kind, 'blocked');
  for (const status of [500, 502, 503, 504]) assert.equal(read('<html>Bad Gateway</html>', status).kind, 'blocked');
});

test('an error with a JSON-RPC body keeps its meaning under status 500', () => {
  assert.equal(read({ id: 1, error: { code: -32000, message: 'already known' } }, 500).kind, 'in_progress');
});

test('a request that surely never left is told apart from one whose answer is lost', () => {
  const at = (reach: 'never_connected' | 'request_written' | 'partial_answer') =>
    readSendAnswer({ reach, status: null, body: 'ECONNREFUSED' }, HASH).kind;
  assert.equal(at('never_connected'), 'never_left');
  assert.equal(at('request_written'), 'unreadable');
  assert.equal(at('partial_answer'), 'unreadable');
});
