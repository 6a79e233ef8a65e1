/*
 * Goal: whatever a caller sends wrong is refused as a problem that names the field, what was got and what was expected, says
 * where the money is, and has written nothing. Method: each line of the table is sent to a real server over a real database;
 * the rows of every table that a request could write are counted before and after. Raw bytes go over a real socket.
 */
import assert from 'node:assert/strict';
import { type AddressInfo, connect } from 'node:net';
import { after, before, test } from 'node:test';
import { createApiKey, revokeApiKey } from '../../src/api/keys.ts';
import { type Answer, type ApiWorld, type Ask, makeApiWorld, SOMEBODY } from './api-world.ts';

let api: ApiWorld;
before(async () => {
  api = await makeApiWorld({ label: 'bad_input' });
});
after(() => api.end());

interface Wrong {
  readonly what: string;
  readonly fields?: Record<string, unknown>;
  readonly ask?: Ask;
  readonly status: number;
  readonly code: string;
  readonly pointer?: string;
  readonly got?: string | RegExp;
  readonly expected?: RegExp;
}

const amount = (value: unknown, got: string, expected: RegExp): Wrong => ({
  what: `the amount ${got}`,
  fields: { amount: value },
  status: 400,
  code: 'PO_AMOUNT_INVALID',
  pointer: '/amount',
  got,
  expected,
});
const field = (what: string, fields: Record<string, unknown>, pointer: string, expected: RegExp): Wrong => ({
  what,
  fields,
  status: 400,
  code: 'PO_REQUEST_INVALID',
  pointer,
  expected,
});
const destination = (what: string, text: string, expected: RegExp): Wrong => ({
  what,
  fields: { destination: text },
  status: 400,
  code: 'PO_ADDRESS_INVALID',
  pointer: '/destination',
  got: text,
  expected,
});
const key = (what: string, ask: Ask, code: string): Wrong => ({
  what,
  ask,
  status: 400,
  code,
  pointer: '/headers/idempotency-key',
});

const strict = /no sign, exponent, blank or leading zero/;
const AMOUNTS: Wrong[] = [
  amount(1.5, 'the number 1.5', /decimal string/),
  amount(1e-7, 'the number 1e-7', /decimal string/),
  amount(1e21, 'the number 1e+21', /decimal string/),
  amount(null, 'null', /decimal string/),
  ...['1e-7', '+1', ' 1', '1 ', '01', '1.', '.5', 'NaN', '-0', '-1', '１００', '1,5', '0x10', '', '1e21', '1\n'].map(
    (text) => amount(text, text, strict),
  ),
  amount('0', '0', /more than zero/),
  amount('0.000000', '0.000000', /more than zero/),
  amount('1.0000001', '1.0000001', /at most 6 digits/),
  amount('0.0000001', '0.0000001', /at most 6 digits/),
  amount('1.1234567890123456789', '1.1234567890123456789', /at most 6 digits/),
  amount('9'.repeat(78), '9'.repeat(78), /2\^256/),
];

const OTHERS: Wrong[] = [
  key('no idempotency key (case A8)', { idempotencyKey: undefined }, 'PO_KEY_MISSING'),
  key('an empty idempotency key (case C5)', { idempotencyKey: '' }, 'PO_KEY_MISSING'),
  key('a key of blanks (case C5)', { idempotencyKey: '   ' }, 'PO_KEY_INVALID'),
  key('a key with a blank inside', { idempotencyKey: 'a b' }, 'PO_KEY_INVALID'),
  key('a key of 256 characters', { idempotencyKey: 'k'.repeat(256) }, 'PO_KEY_INVALID'),
  destination('a broken checksum', '0x52908400098527886E0F7030069857D2E4169Ee7', /wrong case/),
  destination('the zero address', `0x${'0'.repeat(40)}`, /destroyed/),
  destination('a short address', '0x1234', /40 hex digits/),
  destination('an address with a blank', ` ${SOMEBODY}`, /40 hex digits/),
  {
    what: 'an unknown asset',
    fields: { asset: 'NOPE' },
    status: 400,
    code: 'PO_ASSET_UNKNOWN',
    pointer: '/asset',
    got: 'NOPE',
  },
  field('an asset as a number', { asset: 1 }, '/asset', /code or id/),
  field('a missing destination', { destination: undefined }, '/destination', /address/),
  field('a field that does not exist', { amuont: '1' }, '/amuont', /^only asset, amount, destination/),
  field(
    'a prototype as a field',
    JSON.parse('{"__proto__":{"amount":"1"}}') as Record<string, unknown>,
    '/__proto__',
    /^only/,
  ),
  field('another purpose', { purpose: 'gift' }, '/purpose', /customer, settlement, self/),
  field('an empty external_id', { external_id: '' }, '/external_id', /1 to 128/),
  field('an external_id with a blank', { external_id: 'a b' }, '/external_id', /visible/),
  field('an external_id of 129 characters', { external_id: 'x'.repeat(129) }, '/external_id', /128/),
  field('a null for what may be left out', { external_id: null }, '/external_id', /128/),
  field('a reference of 141 characters', { reference: 'x'.repeat(141) }, '/reference', /140/),
  field('a NUL in a reference', { reference: 'a\0b' }, '/reference', /140/),
  field('half a character in a reference', { reference: 'a\ud800b' }, '/reference', /140/),
  {
    what: 'no body',
    ask: { body: undefined, idempotencyKey: 'none' },
    status: 400,
    code: 'PO_REQUEST_INVALID',
    pointer: '',
  },
  {
    what: 'a list for a body',
    ask: { body: [], idempotencyKey: 'list' },
    status: 400,
    code: 'PO_REQUEST_INVALID',
    pointer: '',
  },
  {
    what: 'half a body',
    ask: { raw: '{"asset":', idempotencyKey: 'half' },
    status: 400,
    code: 'PO_REQUEST_INVALID',
    pointer: '',
    expected: /JSON/,
  },
  {
    what: 'bytes that are no UTF-8',
    ask: { raw: Buffer.from('{"reference":"\xff"}', 'latin1'), idempotencyKey: 'latin' },
    status: 400,
    code: 'PO_REQUEST_INVALID',
    pointer: '',
    expected: /UTF-8/,
  },
  {
    what: 'an oversized body',
    ask: { raw: `{"reference":"${'x'.repeat(300_000)}"}`, idempotencyKey: 'big' },
    status: 413,
    code: 'PO_REQUEST_TOO_LARGE',
    pointer: '',
    expected: /262144 bytes/,
  },
  {
    what: 'a form',
    ask: {
      raw: 'asset=USDT',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      idempotencyKey: 'form',
    },
    status: 415,
    code: 'PO_REQUEST_MEDIA',
    expected: /application\/json/,
  },
  {
    what: 'plain text',
    ask: { raw: '{}', headers: { 'content-type': 'text/plain' }, idempotencyKey: 'text' },
    status: 415,
    code: 'PO_REQUEST_MEDIA',
    expected: /application\/json/,
  },
  {
    what: 'no API key',
    ask: { key: null },
    status: 401,
    code: 'PO_AUTH_MISSING',
    pointer: '/headers/authorization',
    got: 'nothing',
  },
  {
    what: 'a key that never was',
    ask: { key: `pk_test_${'a'.repeat(51)}` },
    status: 401,
    code: 'PO_AUTH_WRONG',
    pointer: '/headers/authorization',
  },
  {
    what: 'a key of another shape',
    ask: { key: 'secret' },
    status: 401,
    code: 'PO_AUTH_WRONG',
    pointer: '/headers/authorization',
  },
  {
    what: 'another scheme than Bearer',
    ask: { key: null, headers: { authorization: 'Basic Zm9v' } },
    status: 401,
    code: 'PO_AUTH_WRONG',
    pointer: '/headers/authorization',
  },
];

async function send(wrong: Wrong): Promise<Answer> {
  return api.pay(wrong.fields, wrong.ask);
}

async function assertRefused(wrong: Wrong): Promise<void> {
  const rows = await api.countRows();
  const { status, body, text } = await send(wrong);
  assert.equal(status, wrong.status, `${wrong.what}: ${text}`);
  assert.equal(body.code, wrong.code, `${wrong.what}: ${text}`);
  assert.equal(body.money_state, 'not_sent', wrong.what);
  if (wrong.pointer !== undefined) assert.equal(body.pointer, wrong.pointer, `${wrong.what}: ${text}`);
  if (wrong.got !== undefined) assert.equal(body.got, wrong.got, wrong.what);
  if (wrong.expected !== undefined) assert.match(body.expected, wrong.expected, wrong.what);
  assert.ok(String(body.expected).length > 0, wrong.what);
  assert.deepEqual(await api.countRows(), rows, `${wrong.what} wrote something`);
}

test('amounts that are not strict decimal strings within the asset are refused, never rounded (case K3, K6)', async () => {
  for (const wrong of AMOUNTS) await assertRefused(wrong);
});

test('wrong keys, fields, addresses and bodies are refused with pointer, got and expected, and nothing is written', async () => {
  for (const wrong of OTHERS) await assertRefused(wrong);
});

test('one unit more than the asset has places is refused, the smallest unit is taken (case K6)', async () => {
  assert.equal((await api.pay({ amount: '0.000001' })).status, 201);
  assert.equal((await api.pay({ amount: '1.100000' })).body.amount, '1.1');
});

test('an amount over the limits is refused with the limits, and stored as a refusal only', async () => {
  const rows = await api.countRows();
  const answer = await api.pay({ amount: '1000000.000001' });
  assert.equal(answer.status, 422);
  assert.equal(answer.body.code, 'PO_AMOUNT_OUT_OF_LIMITS');
  assert.equal(answer.body.pointer, '/amount');
  assert.equal(answer.body.got, '1000000.000001');
  assert.match(answer.body.expected, /^from 0\.000001 to 1000000$/);
  assert.equal(answer.body.money_state, 'not_sent');
  assert.deepEqual(await api.countRows(), { ...rows, idempotency_keys: (rows['idempotency_keys'] ?? 0n) + 1n });
});

test('a name that fits two assets names none', async () => {
  await api.world.pool.query(
    "insert into payonce.assets (id, code, chain, contract, decimals) values ('COIN', 'ODD', 'noop', 'odd', 2)",
  );
  assert.equal((await api.ask('GET', '/v1/entries?asset=COIN')).body.code, 'PO_ASSET_UNKNOWN');
  const byId = await api.ask('GET', `/v1/entries?asset=${encodeURIComponent(api.world.coinAssetId)}`);
  assert.equal(byId.status, 200);
});

test('the detail alone says what was got and what was expected', async () => {
  const details: [Record<string, unknown>, RegExp][] = [
    [{ amount: '01' }, /^The amount is not valid: got "01", expected /],
    [{ amount: 1.5 }, /^The amount is not valid: got the number 1\.5, expected a decimal string/],
    [{ amount: undefined }, /^"amount" is missing: expected a decimal string/],
    [{ amount: '0' }, /^The amount is not valid: got "0", expected more than zero$/],
    [{ amuont: '1' }, /^There is no field "amuont": expected only asset, amount/],
    [{ purpose: 'gift' }, /^"purpose" is not valid: got "gift", expected one of customer, settlement, self$/],
    [
      { asset: 'NOPE' },
      /^The asset is not known: got "NOPE", expected an asset’s id, or a code that one asset alone has \(GET \/v1\/assets\)$/,
    ],
    [{ amount: '9999999' }, /^The amount is outside the limits: got "9999999", expected from 0\.000001 to 1000000$/],
  ];
  for (const [fields, detail] of details) assert.match((await api.pay(fields)).body.detail, detail);
  const empty = await api.ask('POST', '/v1/withdrawals', { idempotencyKey: 'no-body' });
  assert.equal(empty.body.detail, 'The body is empty: expected a JSON object', empty.text);
  const list = await api.pay({}, { raw: '[]', idempotencyKey: 'list' });
  assert.equal(list.body.detail, 'The body is not an object: got the array [], expected a JSON object');
});

test('a read that is refused speaks of no key and of no money', async () => {
  for (const [path, key] of [
    ['/v1/withdrawals?limit=0', undefined],
    ['/v1/withdrawals', null],
    ['/v1/withdrawals', 'pk_test_wrong'],
    ['/v1/entries?asset=NOPE', undefined],
  ] as const) {
    const { body } = await api.ask('GET', path, key === undefined ? {} : { key });
    assert.equal(body.money_state, undefined, path);
    assert.doesNotMatch(body.hint, /same key/);
  }
});

test('a token is found by its id however its contract is cased, and by no other change of case', async () => {
  const contract = '0x52908400098527886e0f7030069857d2e4169ee7';
  const id = `eip155:31337/erc20:${contract}`;
  await api.world.pool.query(
    "insert into payonce.assets (id, code, chain, contract, decimals) values ($1, 'CASED', 'eip155:31337', $2, 6)",
    [id, contract],
  );
  const asked = (name: string) => api.ask('GET', `/v1/entries?asset=${encodeURIComponent(name)}`);
  for (const spelling of [
    contract,
    '0x52908400098527886E0F7030069857D2E4169EE7',
    `0x${contract.slice(2).toUpperCase()}`,
  ])
    assert.equal((await asked(`eip155:31337/erc20:${spelling}`)).status, 200, spelling);
  for (const other of [`EIP155:31337/erc20:${contract}`, `eip155:31337/ERC20:${contract}`, `${id}0`, 'cased'])
    assert.equal((await asked(other)).body.code, 'PO_ASSET_UNKNOWN', other);
});

test('a query is held to its schema: unknown fields, limits and cursors that are not ours', async () => {
  const table: [string, string][] = [
    ['/v1/withdrawals?limit=0', '/query/limit'],
    ['/v1/withdrawals?limit=201', '/query/limit'],
    ['/v1/withdrawals?limit=1e1', '/query/limit'],
    ['/v1/withdrawals?limit=1&limit=2', '/query/limit'],
    ['/v1/withdrawals?page=2', '/query/page'],
    ['/v1/withdrawals?status=lost', '/query/status'],
    ['/v1/withdrawals?cursor=%00', '/query/cursor'],
    ['/v1/addresses?user_ref=%00', '/query/user_ref'],
    ['/v1/entries', '/query/asset'],
  ];
  for (const [path, pointer] of table) {
    const { status, body, text } = await api.ask('GET', path);
    assert.equal(status, 400, `${path}: ${text}`);
    assert.equal(body.code, 'PO_REQUEST_INVALID');
    assert.equal(body.pointer, pointer, text);
  }
});

test('an unknown route, another method and a broken path are problems too', async () => {
  const nothing = (await api.ask('GET', '/v1/nothing?x=1')).body;
  assert.deepEqual([nothing.code, nothing.detail], ['PO_NOT_FOUND', 'There is no route GET /v1/nothing']);
  assert.match(nothing.hint, /openapi\.json/);
  const put = await api.ask('PUT', '/v1/withdrawals');
  assert.deepEqual([put.status, put.body.code, put.headers['allow']], [405, 'PO_METHOD_UNKNOWN', 'POST, GET']);
  assert.equal((await api.ask('DELETE', '/v1/withdrawals/wd_1')).headers['allow'], 'GET');
  assert.equal((await api.ask('GET', '/v1/withdrawals/%E0%A4%A')).status, 400);
  assert.equal((await api.ask('GET', `/v1/withdrawals/${'x'.repeat(500)}`)).body.code, 'PO_NOT_FOUND');
  assert.equal((await api.ask('GET', '/v1/withdrawals/wd_%00')).body.code, 'PO_NOT_FOUND');
});

test('a revoked key is refused from the next request on, and a repeat under it is not called unsent', async () => {
  const { pool, makeId, ports, partnerId } = api.world;
  const made = await createApiKey(pool, { makeId, chance: ports.chance }, partnerId, 'live');
  assert.match(made.key, /^sk_live_[0-9a-z]{51}$/);
  assert.equal((await api.ask('GET', '/v1/balances', { key: made.key })).status, 200);
  const stored = await pool.query<{ all: string }>('select row_to_json(k)::text as all from payonce.api_keys k');
  assert.ok(stored.rows.every((row) => !row.all.includes(made.key)));
  assert.equal(await revokeApiKey(pool, 'par_other', made.id), false);
  assert.equal(await revokeApiKey(pool, partnerId, made.id), true);
  const answer = await api.ask('GET', '/v1/balances', { key: made.key });
  assert.equal(answer.status, 401);
  assert.equal(answer.headers['www-authenticate'], 'Bearer realm="payonce"');
  assert.equal((await api.pay({}, { key: made.key, idempotencyKey: 'before' })).body.money_state, 'unknown');
});

test('what is no HTTP gets a problem as well, over a real socket', async () => {
  await api.app.listen({ port: 0, host: '127.0.0.1' });
  const { port } = api.app.server.address() as AddressInfo;
  const text = await new Promise<string>((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('NONSENSE\r\n\r\n'));
    let got = '';
    socket.on('data', (chunk) => (got += chunk.toString()));
    socket.on('end', () => resolve(got));
    socket.on('error', reject);
  });
  assert.match(text, /^HTTP\/1\.1 400 /);
  assert.match(text, /application\/problem\+json/);
  assert.match(text, /"code":"PO_REQUEST_INVALID"/);
  const live = await fetch(`http://127.0.0.1:${port}/livez`);
  assert.equal(live.status, 200);
});

test('more than the limit of a key is 429 with Retry-After; other keys go on', async () => {
  const limited = await makeApiWorld({ label: 'rate', deps: { requestsPerMinuteMax: 3 } });
  try {
    for (let n = 0; n < 3; n += 1) assert.equal((await limited.ask('GET', '/v1/balances')).status, 200);
    const rows = await limited.countRows();
    const answer = await limited.pay({}, { idempotencyKey: 'again' });
    assert.equal(answer.status, 429);
    assert.equal(answer.body.code, 'PO_RATE_LIMITED');
    assert.equal(answer.body.money_state, 'unknown');
    assert.ok(Number(answer.headers['retry-after']) > 0);
    assert.deepEqual(await limited.countRows(), rows);
    assert.equal((await limited.ask('GET', '/v1/balances', { key: limited.otherKey })).status, 200);
  } finally {
    await limited.end();
  }
});
