/*
 * Goal: no request of a stranger makes an answer of ours a 5xx: whatever stands in a path, a query, a cursor or a body. Method:
 * every route of both documents is asked with values that databases, parsers and hashes choke on; genuine cursors are taken and
 * each part of their place is replaced.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { makeApi } from '../../src/api/server.ts';
import { createOperator } from '../../src/engine/operators.ts';
import { type BankApi, makeBankApi } from './bank-world.ts';

const NASTY = [
  '\u0000',
  'a\u0000b',
  '\ud800',
  'a\udfff',
  '',
  ' ',
  "'",
  '%',
  '0',
  '-1',
  '1e400',
  '2147483648',
  '9223372036854775807',
  '9223372036854775808',
  '99999999999999999999999',
  '9999-99-99T99:99:99.999999Z',
  '0000-01-01T00:00:00.000000Z',
  '2030-02-30T00:00:00.000000Z',
  '9999-12-31T23:59:59.999999Z',
  '2030-01-01T24:00:00.000000Z',
  '__proto__',
  'constructor',
  'tr_x',
  `tr_${'z'.repeat(60)}`,
  '9'.repeat(400),
  '{"a":1}',
];
/** Values of JSON that are no text, written out: some of them only exist as text. */
const NASTY_JSON = [
  '1e400',
  '-1e400',
  '1e-400',
  '123456789012345678901234567890',
  'null',
  'true',
  '[]',
  '{}',
  '[[[[[]]]]]',
];

interface Route {
  readonly method: string;
  readonly path: string;
  readonly query: readonly string[];
  readonly fields: readonly string[];
}

let api: BankApi;
let operatorKey: string;
let routes: Route[];
let asked = 0;

before(async () => {
  api = await makeBankApi({ label: 'no server error' });
  const { pool, makeId, ports } = api.world;
  operatorKey = (await pool.tx('op', (tx) => createOperator(tx, makeId, ports.chance, 'ada', 'admin', 'test'))).key;
  for (let n = 0; n < 3; n += 1) {
    await api.transfer({ external_id: `e${n}` });
    await api.pay({ external_id: `w${n}` });
    await api.ask('POST', '/v1/addresses', { body: { chain: 'noop', user_ref: `u${n}` } });
    await api.ask('POST', '/v1/endpoints', { body: { url: `https://${n}.partner.example/` } });
    const { lines } = {
      lines: [0, 1].map((line) => ({
        amount: `${10 + n}`,
        bank_code: '004',
        account_number: `1${n}${line}`,
        holder_name: 'A',
      })),
    };
    assert.equal((await api.ask('POST', '/v1/transfer-batches', { body: { asset: 'KRW', lines } })).status, 201);
    await pool.query(
      "insert into payonce.cases (id, kind, severity, subject_key, partner_id, summary) values ($1, 'undecided', 2, $2, $3, 'x')",
      [makeId('case'), `x:${n}`, api.world.partnerId],
    );
    await pool.tx('op', (tx) => createOperator(tx, makeId, ports.chance, `bob${n}`, 'viewer', 'test'));
  }
  routes = [...routesOf(api.document), ...routesOf((await call('GET', '/ops/openapi.json')).body)];
  assert.ok(routes.length > 40, `only ${routes.length} routes`);
});
after(async () => {
  await api.end();
});

function routesOf(document: unknown): Route[] {
  interface Parameter {
    readonly in: string;
    readonly name: string;
  }
  interface Operation {
    readonly parameters?: readonly Parameter[];
    readonly requestBody?: { content: Record<string, { schema: { properties?: Record<string, unknown> } }> };
  }
  const { paths } = document as { paths: Record<string, Record<string, Operation>> };
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      query: (operation.parameters ?? []).flatMap((one) => (one.in === 'query' ? [one.name] : [])),
      fields: Object.values(operation.requestBody?.content ?? {}).flatMap((one) =>
        Object.keys(one.schema.properties ?? {}),
      ),
    })),
  );
}

let keys = 0;
async function call(
  method: string,
  path: string,
  body?: string,
): Promise<{ status: number; body: unknown; text: string }> {
  asked += 1;
  keys += 1;
  const isOps = path.startsWith('/ops');
  const answer = await api.app.inject({
    method: method as 'GET',
    url: path,
    headers: {
      authorization: `Bearer ${isOps ? operatorKey : api.key}`,
      'idempotency-key': `k${keys}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { payload: body }),
  });
  const isJson = String(answer.headers['content-type']).includes('json');
  return { status: answer.statusCode, body: isJson ? JSON.parse(answer.body) : null, text: answer.body };
}

async function hold(method: string, path: string, body?: string): Promise<void> {
  const { status, text } = await call(method, path, body);
  // The rate limit is none of what is asked here.
  assert.ok(
    status < 500 && status !== 429,
    `${method} ${path} ${body?.slice(0, 200) ?? ''}\n${status} ${text.slice(0, 500)}`,
  );
}

/** Percent-encoded; half a character as the bytes that some clients send for it. */
function encoded(text: string): string {
  return Array.from(text, (one) => (one.isWellFormed() ? encodeURIComponent(one) : '%ED%A0%80')).join('');
}

/** Ids of what there is, in a path where one is due: the request comes further than a first look-up. */
function filled(path: string, value: string): string {
  return path.replaceAll(/\{[^}]+\}/g, encoded(value));
}

test('no path and no query of any route makes a server error (case A8)', async () => {
  for (const { method, path, query } of routes) {
    const body = method === 'GET' ? undefined : '{}';
    for (const value of NASTY) {
      if (path.includes('{')) await hold(method, filled(path, value), body);
      for (const name of query) await hold(method, `${filled(path, 'tr_x')}?${name}=${encoded(value)}`, body);
    }
  }
});

test('no text, number or shape in a body makes a server error, and none of it moves money (case A8)', async () => {
  const values = [...NASTY.map((text) => JSON.stringify(text)), ...NASTY_JSON];
  const rows = await api.countRows();
  for (const { method, path, fields } of routes) {
    if (method === 'GET' || fields.length === 0) continue;
    for (const value of values) {
      await hold(method, filled(path, 'tr_x'), value);
      for (const field of fields) await hold(method, filled(path, 'tr_x'), `{${JSON.stringify(field)}:${value}}`);
    }
  }
  const { transfers, withdrawals } = await api.countRows();
  assert.deepEqual({ transfers, withdrawals }, { transfers: rows['transfers'], withdrawals: rows['withdrawals'] });
});

const GOOD = { amount: '1', bank_code: '004', account_number: '1', holder_name: 'A' };

test('a field of a good order or line is refused where it stands, whatever it holds, and never as ours (case A8)', async () => {
  const values = [...NASTY.map((text) => JSON.stringify(text)), ...NASTY_JSON];
  for (const field of [...Object.keys(GOOD), 'memo', 'external_id', 'asset', 'repays', 'un\u0000known', '\ud800']) {
    const withValue = (one: object, value: string): string =>
      JSON.stringify({ ...one, [field]: '@' }).replace('"@"', () => value);
    for (const value of values) await hold('POST', '/v1/transfers', withValue({ asset: 'KRW', ...GOOD }, value));
    const good = JSON.stringify({ ...GOOD, external_id: `good-${encodeURIComponent(field.toWellFormed())}` });
    const lines = [good, ...values.map((value, n) => withValue({ ...GOOD, external_id: `${n}` }, value))];
    await hold('POST', '/v1/transfer-batches', `{"asset":"KRW","lines":[${lines.join(',')}]}`);
  }
  const header = 'external_id,amount,bank_code,account_number,holder_name,memo\n';
  for (const [n, value] of NASTY.entries()) {
    const csv = `${header}"${value}",1,004,1,"${value}","${value}"\ncsv-${n},"1","004","1","A",\n`;
    const { statusCode, body } = await api.app.inject({
      method: 'POST',
      url: '/v1/transfer-batches?asset=KRW',
      headers: { authorization: `Bearer ${api.key}`, 'content-type': 'text/csv' },
      payload: Buffer.from(csv),
    });
    assert.ok(statusCode < 500, body);
  }
});

test('no forged cursor makes a server error: its place is in range, or it is refused (case A8)', async () => {
  let forged = 0;
  const batch = (await call('GET', '/v1/transfer-batches')).body as { items: { id: string }[] };
  const lists = routes
    .filter((route) => route.method === 'GET' && route.query.includes('cursor'))
    .map(({ path }) => filled(path, batch.items[0]?.id ?? ''));
  for (const path of lists) {
    const first = `${path}?limit=1${path === '/v1/entries' ? '&asset=KRW' : ''}`;
    const { next } = (await call('GET', first)).body as { next?: string | null };
    if (next === null || next === undefined) continue;
    const parts = JSON.parse(Buffer.from(next, 'base64url').toString()) as string[];
    assert.equal((await call('GET', `${first}&cursor=${next}`)).status, 200, path);
    for (const [index] of parts.entries())
      for (const value of NASTY) {
        const other = Buffer.from(JSON.stringify(parts.with(index, value))).toString('base64url');
        await hold('GET', `${first}&cursor=${other}`);
        forged += 1;
      }
  }
  assert.ok(forged > 500, `only ${forged} cursors`);
  assert.ok(asked > 2_000, `only ${asked} requests`);
});

test('a database that goes away in the middle of a request is 503, with or without words of its own (req W12)', async () => {
  const { deps, key } = api;
  for (const error of [
    new Error('Connection terminated unexpectedly'),
    new Error('Client has encountered a connection error and is not queryable'),
    Object.assign(new Error('terminating connection due to administrator command'), { code: '57P01' }),
  ]) {
    const app = await makeApi({ ...deps, pool: { ...deps.pool, query: () => Promise.reject(error) } });
    const answer = await app.inject({
      method: 'GET',
      url: '/v1/transfers',
      headers: { authorization: `Bearer ${key}` },
    });
    assert.equal(answer.statusCode, 503, answer.body);
    await app.close();
  }
});
