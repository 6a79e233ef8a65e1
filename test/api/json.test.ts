/*
 * Goal: a body that two readers could take for two things, or that kills the reader, is refused by name, and whatever fails
 * leaves as a problem. Method: the reader of bodies against JSON.parse over random texts, then bodies sent to the API.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { readJson } from '../../src/api/json.ts';
import { JSON_DEPTH_MAX } from '../../src/api/limits.ts';
import { PayonceError } from '../../src/kernel/errors.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { type ApiWorld, makeApiWorld, SOMEBODY } from './api-world.ts';

let api: ApiWorld;
before(async () => {
  api = await makeApiWorld({ label: 'json' });
});
after(() => api.end());

const read = (text: string): unknown => readJson(Buffer.from(text));
const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);

test('every JSON text is read as JSON.parse reads it', () => {
  const value = fc.jsonValue({ maxDepth: 3 });
  fc.assert(
    fc.property(value, fc.constantFrom(0, 1, 2), (one, blanks) => {
      const text = JSON.stringify(one, null, blanks);
      if (!text.includes('"__proto__"')) assert.deepEqual(read(text), JSON.parse(text));
    }),
  );
  for (const text of [
    '{}',
    '[]',
    ' \n\t\r1 ',
    '-0',
    '1.5e-7',
    '"\\u00e9\\n\\\\"',
    '{"a":[{"b":null}],"":{}}',
    '"\ud83d\ude00"',
  ])
    assert.deepEqual(read(text), JSON.parse(text), text);
});

test('what JSON.parse refuses is refused', () => {
  const pieces = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    ',',
    ':',
    '"',
    '\\',
    'a',
    '"a"',
    '1',
    '01',
    '-',
    '.',
    'e',
    'true',
    'nul',
    ' ',
    '\u00a0',
    '\n',
  );
  const isReadBy = (reader: (text: string) => unknown, text: string): boolean => {
    try {
      reader(text);
      return true;
    } catch (error) {
      assert.ok(error instanceof PayonceError || error instanceof SyntaxError, String(error));
      return false;
    }
  };
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 9 }), (list) => {
      const text = list.join('');
      if (/"a"[^,]*:.*"a"[^,]*:/s.test(text)) return;
      assert.equal(isReadBy(read, text), isReadBy(JSON.parse, text), text);
    }),
    { numRuns: 2_000 },
  );
  for (const text of [
    '\ufeff{}',
    "{'a':1}",
    '[1,]',
    '{"a":1,}',
    '{"a"}',
    '"\t"',
    '"\\x"',
    '"\\u12"',
    '+1',
    '1 2',
    '/**/1',
  ])
    assert.equal(isReadBy(read, text), false, text);
});

test('lists and objects may stand 32 deep and no deeper', () => {
  assert.deepEqual(read(nested(JSON_DEPTH_MAX)), JSON.parse(nested(JSON_DEPTH_MAX)));
  for (const text of [nested(JSON_DEPTH_MAX + 2), nested(100_000), '{"a":'.repeat(50_000)])
    assert.throws(() => read(text), { name: 'PayonceError', message: /nested too deep/ });
});

test('a body nested 5,000 deep, a field that stands twice and a prototype are 400 and say which', async () => {
  const good = `"asset":"USDT","destination":"${SOMEBODY}"`;
  const bodies: [string, string, RegExp][] = [
    [nested(5_000), '', /nested too deep/],
    [`{${good},"amount":${nested(5_000)}}`, '', /nested too deep/],
    [`{${good},"amount":"0.01","amount":"5"}`, '/amount', /"amount" stands twice/],
    [`{${good},"amount":"0.01","am\\u006funt":"5"}`, '/amount', /"amount" stands twice/],
    [`{${good},"amount":"1","x":[{"a":1,"a":1}]}`, '/x/0/a', /"a" stands twice/],
    [`{${good},"amount":"1","__proto__":{"amount":"5"}}`, '/__proto__', /no field "__proto__"/],
    [`{${good},"amount":"1","constructor":{"prototype":{}}}`, '/constructor/prototype', /no field "prototype"/],
  ];
  const rows = await api.countRows();
  for (const [raw, pointer, detail] of bodies) {
    for (const path of ['/v1/withdrawals', '/v1/addresses', '/v1/endpoints']) {
      const { status, body, text } = await api.ask('POST', path, { raw, idempotencyKey: 'bad' });
      assert.deepEqual(
        [status, body.code, body.money_state, body.pointer],
        [400, 'PO_REQUEST_INVALID', 'not_sent', pointer],
        text,
      );
      assert.match(body.detail, detail);
    }
  }
  assert.deepEqual(await api.countRows(), rows);
});

test('JSON in another charset than UTF-8 is 415, in UTF-8 by any of its spellings it is taken', async () => {
  const raw = JSON.stringify({ chain: 'noop', user_ref: 'charset' });
  for (const charset of ['latin1', 'utf-16', '"utf-16le"', 'utf-8; charset=latin1']) {
    const headers = { 'content-type': `application/json; charset=${charset}` };
    const { status, body, text } = await api.ask('POST', '/v1/addresses', { raw, headers });
    assert.deepEqual([status, body.code, body.pointer], [415, 'PO_REQUEST_MEDIA', '/headers/content-type'], text);
  }
  for (const charset of ['utf-8', 'UTF-8', '"utf-8"', 'utf8']) {
    const headers = { 'content-type': `application/json; charset=${charset}` };
    assert.ok((await api.ask('POST', '/v1/addresses', { raw, headers })).status < 300, charset);
  }
});

test('an error whose judging fails as well is a problem that says nothing of the inside', async () => {
  const dead = () => {
    throw new RangeError('Maximum call stack size exceeded');
  };
  const broken = await makeApiWorld({
    label: 'json_broken',
    deps: {
      newDepositAddress: () => Promise.reject(new Error('the safe is shut')),
      log: { ...silentLog, error: dead },
    },
  });
  try {
    const { status, body, text } = await broken.ask('POST', '/v1/addresses', { body: { chain: 'noop' } });
    assert.deepEqual([status, body.code, body.money_state], [500, 'PO_INTERNAL', 'unknown'], text);
    assert.ok(!/stack|safe/.test(text));
  } finally {
    await broken.end();
  }
});
