/*
 * Goal: what stands around the payments: addresses, webhook endpoints, inbound events, events, problems, the document, health
 * and metrics do what the document says. Method: one server over a real database, by inject; bytes are compared as bytes.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeApi } from '../../src/api/server.ts';
import { EVENT_TYPES } from '../../src/api/event-types.ts';
import { describeProblem, isErrorCode } from '../../src/api/problem-pages.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { ERRORS, InvariantBroken } from '../../src/kernel/errors.ts';
import { deriveEndpointSecret, signatureOf } from '../../src/outbox/signature.ts';
import { root } from '../../scripts/copy-tree.ts';
import { type ApiWorld, makeApiWorld, MASTER_SECRET, SOURCE_SECRET } from './api-world.ts';

let api: ApiWorld;
before(async () => {
  api = await makeApiWorld({ label: 'surface', deps: { railHealth: () => [{ rail: 'noop', status: 'degraded' }] } });
});
after(() => api.end());

test('a user has one address per chain, however often it is asked for; without a user each is new', async () => {
  const ask = (body: object) => api.ask('POST', '/v1/addresses', { body });
  const answers = await Promise.all(Array.from({ length: 8 }, () => ask({ chain: 'noop', user_ref: '사용자 1' })));
  assert.equal(new Set(answers.map((one) => one.body.id)).size, 1);
  assert.equal(answers.filter((one) => one.status === 201).length, 1);
  assert.equal(answers[0]?.body.user_ref, '사용자 1');
  const [left, right] = [await ask({ chain: 'noop' }), await ask({ chain: 'noop' })];
  assert.notEqual(left.body.address, right.body.address);
  const unknown = await ask({ chain: 'moon' });
  assert.deepEqual([unknown.status, unknown.body.pointer, unknown.body.expected], [400, '/chain', 'noop']);
});

test('an endpoint shows its secret once, is listed without it, and is gone when deleted', async () => {
  const made = await api.ask('POST', '/v1/endpoints', { body: { url: 'https://hooks.partner.example/in' } });
  assert.equal(made.status, 201);
  assert.equal(made.body.secret, deriveEndpointSecret(MASTER_SECRET, made.body.id, 1));
  const listed = await api.ask('GET', '/v1/endpoints');
  assert.ok(listed.text.includes(made.body.id) && !listed.text.includes('whsec_'));
  for (let n = 0; n < 2; n += 1)
    assert.equal((await api.ask('DELETE', `/v1/endpoints/${String(made.body.id)}`)).status, 204);
  assert.deepEqual((await api.ask('GET', '/v1/endpoints')).body.items, []);
  await api.pay();
  assert.equal((await api.world.pool.query('select 1 from payonce.deliveries')).rowCount, 0);
});

test('an endpoint must be a public https URL, and there are ten at most', async () => {
  for (const url of [
    'http://partner.example/',
    'https://localhost/',
    'https://10.0.0.1/',
    'https://u:p@partner.example/',
    'ftp://x.example/',
    'nonsense',
  ]) {
    const answer = await api.ask('POST', '/v1/endpoints', { body: { url } });
    assert.deepEqual([answer.status, answer.body.pointer, answer.body.got], [400, '/url', url]);
  }
  const add = (url: string) => api.ask('POST', '/v1/endpoints', { key: api.otherKey, body: { url } });
  const answers = await Promise.all(Array.from({ length: 12 }, (_, n) => add(`https://many.partner.example/${n}`)));
  assert.equal(answers.filter((one) => one.status === 201).length, 10);
});

test('a URL that has an endpoint keeps it: asked for again, at once or later, it is that one without its secret', async () => {
  const add = () => api.ask('POST', '/v1/endpoints', { body: { url: 'https://twice.partner.example/in' } });
  const answers = await Promise.all(Array.from({ length: 5 }, add));
  const made = answers.filter((one) => one.status === 201);
  assert.equal(made.length, 1);
  for (const one of [...answers.filter((answer) => answer.status === 200), await add()]) {
    const { secret, ...same } = made[0]?.body ?? {};
    assert.deepEqual([one.status, one.body], [200, same]);
    assert.ok(!one.text.includes(String(secret)));
  }
  await api.ask('DELETE', `/v1/endpoints/${String(made[0]?.body.id)}`);
  const anew = await add();
  assert.equal(anew.status, 201, 'a deleted one does not come back');
  await api.ask('DELETE', `/v1/endpoints/${String(anew.body.id)}`);
});

test('an inbound event is answered 2xx once it is stored, whatever is in it (case D5)', async () => {
  const send = (id: string, body: string, over: Record<string, string> = {}, source = 'monitor') => {
    const timestamp = Math.floor(Date.now() / 1000).toString();
    return api.ask('POST', `/v1/inbound/${source}`, {
      key: null,
      raw: body,
      headers: {
        'content-type': 'text/weird',
        'webhook-id': id,
        'webhook-timestamp': timestamp,
        'webhook-signature': signatureOf(SOURCE_SECRET, id, timestamp, Buffer.from(body)),
        ...over,
      },
    });
  };
  const body = '{"unheard_of": [1e400, "\\ud800"], "enum": "NEW"} trailing';
  assert.deepEqual((await send('evt-1', body)).body, { status: 'stored' });
  assert.deepEqual((await send('evt-1', body)).body, { status: 'already_received' });
  assert.equal((await send('evt-empty', '')).status, 200);
  const { rows } = await api.world.pool.query<{ body: Buffer }>(
    "select body from payonce.inbox where external_id = 'evt-1'",
  );
  assert.equal(rows[0]?.body.toString(), body);
  const count = await api.countRows();
  const refused = [
    await send('evt-2', body, { 'webhook-signature': 'v1,AAAA' }),
    await send('evt-2', body, { 'webhook-timestamp': '1' }),
  ];
  for (const one of refused) assert.deepEqual([one.status, one.body.code], [401, 'PO_SIGNATURE_INVALID']);
  for (const id of ['a.b', 'a b', 'x'.repeat(256)]) {
    const { status, body: problem } = await send(id, body);
    assert.deepEqual([status, problem.code, problem.pointer], [400, 'PO_REQUEST_INVALID', '/headers/webhook-id']);
    assert.match(problem.detail, /webhook-id is not valid/);
  }
  assert.equal((await send('evt-2', body, {}, 'stranger')).status, 404);
  assert.equal((await send('evt-2', 'x'.repeat(300_000))).status, 413);
  assert.deepEqual(await api.countRows(), count);
});

test('an inbound event that cannot be stored is 5xx, so that its source comes again (case D5)', async () => {
  await api.world.pool.query('alter table payonce.inbox rename to inbox_away');
  const timestamp = Math.floor(Date.now() / 1000).toString();
  const answer = await api.ask('POST', '/v1/inbound/monitor', {
    key: null,
    raw: '{}',
    headers: {
      'webhook-id': 'evt-9',
      'webhook-timestamp': timestamp,
      'webhook-signature': signatureOf(SOURCE_SECRET, 'evt-9', timestamp, Buffer.from('{}')),
    },
  });
  await api.world.pool.query('alter table payonce.inbox_away rename to inbox');
  assert.deepEqual([answer.status, answer.body.code], [500, 'PO_INTERNAL']);
  assert.ok(!/inbox|relation|payonce\./.test(answer.text), 'the inside is not shown');
});

test('an event is given byte for byte as it is stored', async () => {
  const { rows } = await api.world.pool.query<{ event_id: string; body: string }>(
    'select event_id, body from payonce.events limit 1',
  );
  const row = rows[0];
  assert.ok(row !== undefined);
  assert.equal((await api.ask('GET', `/v1/events/${row.event_id}`)).text, row.body);
  assert.ok((await api.ask('GET', '/v1/events')).text.includes(row.body));
});

test('after the payment left a cancel is 409 with where the money is', async () => {
  const id = String((await api.pay()).body.id);
  const rail = api.world.engine.rails.get('noop');
  assert.ok(rail !== undefined);
  for (let n = 0; n < 20 && (await api.ask('GET', `/v1/withdrawals/${id}`)).body.status !== 'confirmed'; n += 1)
    await advanceOnce(api.world.engine, rail);
  const late = await api.ask('POST', `/v1/withdrawals/${id}/cancel`, {
    headers: { 'content-type': 'application/json' },
  });
  assert.deepEqual([late.status, late.body.code, late.body.money_state], [409, 'PO_TOO_LATE', 'sent']);
  assert.deepEqual(late.body.resource, { type: 'withdrawal', id });
  const { history } = (await api.ask('GET', `/v1/withdrawals/${id}`)).body;
  assert.deepEqual([history[0].state, history.at(-1).state], ['PENDING', 'SETTLED']);
});

test('what breaks inside is 500 without a word of the inside; a broken invariant stops the process', async () => {
  const stopped: Error[] = [];
  let broken: Error = new Error('the key store at 10.1.2.3 says no');
  const app = await makeApi({
    ...api.deps,
    newDepositAddress: () => Promise.reject(broken),
    fatal: (error) => stopped.push(error),
  });
  const ask = () =>
    app.inject({
      method: 'POST',
      url: '/v1/addresses',
      headers: { authorization: `Bearer ${api.key}` },
      payload: { chain: 'noop' },
    });
  for (const error of [broken, new InvariantBroken('posting 7 does not add up')]) {
    broken = error;
    const answer = await ask();
    assert.deepEqual([answer.statusCode, answer.json().code], [500, 'PO_INTERNAL']);
    assert.ok(!/10\.1|posting|store/.test(answer.body));
  }
  assert.deepEqual(stopped, [broken]);
  await app.close();
});

test('a server that is closed lets open requests end, and ends with them', async () => {
  const app = await makeApi(api.deps);
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  let closing: Promise<void> | undefined;
  let answer: Promise<Response> | undefined;
  await api.world.pool.tx('hold the partner', async (tx) => {
    await tx.query('select 1 from payonce.partners where id = $1 for update', [api.world.partnerId]);
    answer = fetch(`${url}/v1/addresses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${api.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ chain: 'noop', user_ref: 'last' }),
    });
    // The view of activity is frozen within a transaction unless it is let go.
    const waits =
      "select 1 from pg_stat_clear_snapshot(), pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    while ((await tx.query(waits)).rowCount === 0) await sleep(5);
    closing = app.close();
    await sleep(20);
  });
  assert.equal((await answer)?.status, 201);
  const began = performance.now();
  await closing;
  assert.ok(performance.now() - began < 5_000, 'kept-alive connections do not hold it up');
});

test('each error code is in docs/errors.md with its own words, and the page names no other', async () => {
  const page = readFileSync(join(root, 'docs/errors.md'), 'utf8');
  const rows = page.split('\n').filter((line) => line.startsWith('| `PO_'));
  const named = rows.map((line) => line.split('`')[1] ?? '');
  assert.deepEqual(named, Object.keys(ERRORS));
  assert.ok([...page.matchAll(/PO_[A-Z_]+/g)].every(([code]) => isErrorCode(code)));
  for (const [index, code] of Object.keys(ERRORS).filter(isErrorCode).entries()) {
    const { body } = await api.ask('GET', `/problems/${code}`, { key: null });
    assert.deepEqual(body, describeProblem(code));
    const row = rows[index] ?? '';
    assert.ok(
      [String(body.status), body.meaning, body.what_to_do].every((word: string) => row.includes(word)),
      code,
    );
  }
  assert.equal((await api.ask('GET', '/problems/PO_NOTHING', { key: null })).status, 404);
  assert.equal((await api.ask('GET', '/problems/constructor', { key: null })).status, 404);
});

test('the document is OpenAPI 3.1 and names for every route its refusals and who may call it', () => {
  const { document } = api;
  assert.equal(document.openapi, '3.1.0');
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      assert.ok(operation.operationId.length > 0, `${method} ${path}`);
      if (operation.security === undefined)
        assert.ok('4XX' in operation.responses && '5XX' in operation.responses, path);
    }
  }
  const webhook = document.webhooks['event']?.['post'];
  assert.ok(Object.keys(EVENT_TYPES).every((type) => JSON.stringify(webhook).includes(type)));
  assert.ok(!JSON.stringify(document).includes('"number"'), 'no amount is a JSON number anywhere');
});

test('a degraded rail leaves the API ready; each answer has its request id and closed headers', async () => {
  const ready = await api.ask('GET', '/readyz', { key: null });
  assert.deepEqual(ready.body, {
    status: 'ready',
    database: 'ok',
    rails: [{ rail: 'noop', status: 'degraded' }],
    attention: { rails_stopped: [], scans_halted: [], alerts: [], long_stays: 0, wallets_short: 0 },
  });
  assert.equal((await api.ask('GET', '/livez', { key: null })).body.version, '0.0.0-test');
  assert.match(String(ready.headers['x-request-id']), /^req_[0-9a-z]{16}$/);
  assert.equal(ready.headers['cache-control'], 'no-store');
  assert.equal(ready.headers['x-content-type-options'], 'nosniff');
});

test('metrics count what is open, without a partner, an id or an amount in them', async () => {
  const { text } = await api.ask('GET', '/metrics', { key: null });
  const lines = text.split('\n');
  const valueOf = (name: string): string | undefined =>
    lines.find((line) => line.startsWith(`${name} `))?.slice(name.length + 1);
  const { rows } = await api.world.pool.query<{ n: bigint }>(
    "select count(*) as n from payonce.effects where state = 'PENDING'",
  );
  assert.equal(valueOf('payonce_effects_pending{rail="noop"}'), rows[0]?.n.toString());
  assert.equal(valueOf('payonce_cases_open{severity="3"}'), '0');
  assert.equal(valueOf('payonce_inbox_waiting'), '2');
  assert.notEqual(valueOf('payonce_engine_total{what="sealed"}'), '0');
  assert.ok(lines.some((line) => line.startsWith('payonce_http_request_seconds_count{route="/v1/withdrawals"')));
  assert.ok(!text.includes('par_') && !text.includes('wd_'), 'no id is a label');
});
