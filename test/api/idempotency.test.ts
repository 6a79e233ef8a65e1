/*
 * Goal: a payment that is asked for again, in whatever way, is made once; what was answered stays the answer; and nothing
 * that fails after the commit turns it into an error. Method: requests in parallel over real sockets and by inject, with the
 * rows in the database as the judge; the database is cut off behind a proxy where its answer must be lost.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { makeApi } from '../../src/api/server.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { makePool } from '../../src/db/pool.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { systemClock, systemPorts } from '../../src/kernel/ports.ts';
import { startTcpProxy } from '../../sim/tcp-proxy.ts';
import { balanceOf } from '../support/world.ts';
import { type ApiWorld, makeApiWorld, SOMEBODY } from './api-world.ts';

let api: ApiWorld;
let url: string;
/** What the rail shows of every payment. */
let seen: 'in_progress' | 'final_success' = 'in_progress';
before(async () => {
  api = await makeApiWorld({
    label: 'idempotency',
    behave: { send: async () => ({ kind: seen }), look: async () => [{ kind: seen }] },
  });
  url = await api.app.listen({ port: 0, host: '127.0.0.1' });
});
after(() => api.end());

const BODY = { asset: 'USDT', amount: '1.5', destination: SOMEBODY };

async function post(
  idempotencyKey: string,
  body: object = BODY,
): Promise<{ status: number; replayed: boolean; body: { id: string; code?: string } }> {
  const response = await fetch(`${url}/v1/withdrawals`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${api.key}`,
      'content-type': 'application/json',
      'idempotency-key': idempotencyKey,
    },
    body: JSON.stringify(body),
  });
  const replayed = response.headers.get('idempotent-replayed') === 'true';
  return { status: response.status, replayed, body: (await response.json()) as { id: string } };
}

async function count(sql: string, values: readonly unknown[] = []): Promise<bigint> {
  return (await api.world.pool.query<{ n: bigint }>(`select count(*) as n from ${sql}`, values)).rows[0]?.n ?? -1n;
}

test('fifty requests at once under one key make one payment and get one answer (case C4, C11, inv E15)', async () => {
  const answers = await Promise.all(Array.from({ length: 50 }, () => post('fifty')));
  assert.equal(answers.filter((one) => one.status === 201 && !one.replayed).length, 1);
  assert.equal(answers.filter((one) => one.status === 200 && one.replayed).length, 49);
  const ids = new Set(answers.map((one) => one.body.id));
  assert.equal(ids.size, 1);
  assert.equal(await count('payonce.effects where subject_id = $1', [[...ids][0]]), 1n);
});

test('a hundred equal payments under a hundred keys are a hundred payments (case C9)', async () => {
  const before = await count('payonce.effects');
  const { commits } = api.world.pool.counts;
  const answers = await Promise.all(Array.from({ length: 100 }, (_, n) => post(`equal-${n}`)));
  assert.deepEqual([...new Set(answers.map((one) => one.status))], [201]);
  assert.equal(new Set(answers.map((one) => one.body.id)).size, 100);
  assert.equal(await count('payonce.effects'), before + 100n);
  assert.ok(api.world.pool.counts.commits - commits < 100, 'those that came together share a commit');
});

test('one external_id under twenty keys at once is one payment; the others are told which (case A8, A9)', async () => {
  const body = { ...BODY, external_id: 'invoice-7' };
  const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => post(`ext-${n}`, body)));
  const made = answers.filter((one) => one.status === 201);
  assert.equal(made.length, 1);
  const refused = answers.filter((one) => one.status === 409);
  assert.equal(refused.length, 19);
  for (const one of refused) {
    assert.equal(one.body.code, 'PO_EXTERNAL_ID_TAKEN');
    assert.deepEqual((one.body as unknown as { resource: object }).resource, {
      type: 'withdrawal',
      id: made[0]?.body.id,
    });
  }
  assert.equal(await count("payonce.withdrawals where external_id = 'invoice-7'"), 1n);
});

test('reordered fields are the same body; another text of the amount, another body are refused with what holds the key (case C8)', async () => {
  const first = await post('fingerprint', { asset: 'USDT', amount: '1.0', destination: SOMEBODY });
  assert.equal(first.status, 201);
  const again = await post('fingerprint', { destination: SOMEBODY, amount: '1.0', asset: 'USDT' });
  assert.deepEqual([again.status, again.replayed, again.body.id], [200, true, first.body.id]);
  for (const other of [{ amount: '1.00' }, { amount: '2.0' }, { reference: 'x' }]) {
    const answer = await api.pay({ asset: 'USDT', amount: '1.0', ...other }, { idempotencyKey: 'fingerprint' });
    assert.equal(answer.status, 422, answer.text);
    assert.equal(answer.body.code, 'PO_KEY_REUSED');
    assert.deepEqual(answer.body.resource, { type: 'withdrawal', id: first.body.id });
    assert.equal(answer.body.money_state, 'not_sent');
    assert.equal(answer.headers['idempotent-replayed'], undefined);
  }
});

test('keys belong to their partner: two partners may use the same one', async () => {
  const mine = await api.pay({}, { idempotencyKey: 'shared' });
  const theirs = await api.pay({}, { idempotencyKey: 'shared', key: api.otherKey });
  assert.equal(mine.status, 201);
  assert.equal(theirs.body.code, 'PO_INSUFFICIENT_FUNDS');
  assert.equal(theirs.body.resource, undefined);
});

test('a refusal is repeated for ever, also when its reason is gone (inv E15)', async () => {
  const ask = { idempotencyKey: 'poor', key: api.otherKey };
  const first = await api.pay({ amount: '5' }, ask);
  assert.equal(first.status, 422);
  assert.equal(first.body.code, 'PO_INSUFFICIENT_FUNDS');
  assert.equal(first.body.detail, 'The available balance is 0 USDT; 5 and the fee of 0 need 5');
  assert.equal(first.headers['idempotent-replayed'], undefined);
  await api.world.fund(100_000_000n, api.otherPartnerId);
  const second = await api.pay({ amount: '5' }, ask);
  assert.equal(second.text, first.text);
  assert.equal(second.headers['idempotent-replayed'], 'true');
  assert.equal((await api.pay({ amount: '5' }, { ...ask, idempotencyKey: 'rich' })).status, 201);
  const other = await api.pay({ amount: '6' }, ask);
  assert.deepEqual(
    [other.body.code, other.body.money_state, other.body.resource],
    ['PO_KEY_REUSED', 'not_sent', undefined],
  );
});

test('a replay shows the payment as it is now', async () => {
  const made = await api.pay({}, { idempotencyKey: 'now' });
  const id = String(made.body.id);
  assert.equal((await api.ask('POST', `/v1/withdrawals/${id}/cancel`)).body.status, 'cancelled');
  const again = await api.pay({}, { idempotencyKey: 'now' });
  assert.deepEqual([again.status, again.body.status, again.body.id], [200, 'cancelled', id]);
  assert.equal((await api.ask('POST', `/v1/withdrawals/${id}/cancel`)).status, 200);
});

test('a reused key and a late cancel tell where the money of the first payment is, at each stage', async () => {
  const rail = api.world.engine.rails.get('noop');
  assert.ok(rail !== undefined);
  const id = String((await api.pay({}, { idempotencyKey: 'stages' })).body.id);
  const statusBecomes = async (status: string): Promise<void> => {
    for (let n = 0; n < 200; n += 1) {
      if ((await api.ask('GET', `/v1/withdrawals/${id}`)).body.status === status) return;
      await advanceOnce(api.world.engine, rail);
      await api.world.pool.query("update payonce.effects set next_at = payonce.now() where state = 'SEALED'");
    }
    assert.fail(`it never became ${status}`);
  };
  const states = async (): Promise<unknown[]> => {
    const reused = await api.pay({ amount: '9' }, { idempotencyKey: 'stages' });
    const cancelled = await api.ask('POST', `/v1/withdrawals/${id}/cancel`);
    assert.deepEqual([reused.status, reused.body.resource], [422, { type: 'withdrawal', id }]);
    assert.deepEqual([cancelled.status, cancelled.body.code], [409, 'PO_TOO_LATE']);
    return [reused.body.money_state, cancelled.body.money_state];
  };
  await statusBecomes('processing');
  assert.deepEqual(await states(), ['unknown', 'unknown']);
  seen = 'final_success';
  await statusBecomes('confirmed');
  assert.deepEqual(await states(), ['sent', 'sent']);
});

test('success is told once it is committed: neither a failing wake-up nor a failing read changes it (case C5, B7)', async () => {
  api.woken.fails = true;
  const times = api.woken.times;
  assert.equal((await api.pay()).status, 201);
  assert.equal(api.woken.times, times + 1);
  api.woken.fails = false;
  await api.world.pool.query('alter table payonce.effect_variants rename to effect_variants_away');
  const answer = await api.pay({}, { idempotencyKey: 'unread' });
  await api.world.pool.query('alter table payonce.effect_variants_away rename to effect_variants');
  assert.equal(answer.status, 202);
  assert.equal(answer.body.status, 'pending');
  const again = await api.pay({}, { idempotencyKey: 'unread' });
  assert.deepEqual([again.status, again.body.id], [200, answer.body.id]);
});

test('when the answer to COMMIT is lost it is 503 unknown, never 4xx, and the same key tells what became of it', async () => {
  const there = new URL(api.world.url);
  const proxy = await startTcpProxy({ host: there.hostname, port: Number(there.port), protocol: 'postgres' });
  const through = new URL(api.world.url);
  through.host = `${proxy.host}:${proxy.port}`;
  const ports = { ...systemPorts(), clock: { ...systemClock, sleep: () => Promise.resolve() } };
  const pool = makePool({ url: through.href, ports, log: silentLog, connectionsMax: 1 });
  const app = await makeApi({ ...api.deps, pool });
  const pay = () =>
    app.inject({
      method: 'POST',
      url: '/v1/withdrawals',
      headers: { authorization: `Bearer ${api.key}`, 'idempotency-key': 'lost-commit' },
      payload: BODY,
    });
  try {
    let refused: Promise<void> | undefined;
    proxy.cutWhenServer((frame) => {
      if (!frame.text().startsWith('COMMIT')) return false;
      refused = proxy.refuse(true);
      return true;
    }, 'before');
    const lost = await pay();
    assert.equal(lost.statusCode, 503, lost.body);
    assert.deepEqual([lost.json().code, lost.json().money_state], ['PO_DB_COMMIT_UNKNOWN', 'unknown']);
    const down = await pay();
    assert.deepEqual(
      [down.statusCode, down.json().code, down.json().money_state],
      [503, 'PO_DB_UNAVAILABLE', 'unknown'],
    );
    await refused;
    await proxy.refuse(false);
    const again = await pay();
    assert.equal(again.statusCode, 200, again.body);
    assert.equal(again.headers['idempotent-replayed'], 'true');
    assert.equal(await count("payonce.withdrawals where idempotency_key = 'lost-commit'"), 1n);
  } finally {
    await app.close();
    await pool.end();
    await proxy.stop();
  }
});

test('money that was asked for equals what is held: nothing was held twice', async () => {
  const { held } = await balanceOf(api.world);
  const { rows } = await api.world.pool.query<{ total: bigint }>(
    "select coalesce(sum(amount), 0) as total from payonce.effects where state = 'PENDING' and partner_id = $1",
    [api.world.partnerId],
  );
  assert.equal(held, rows[0]?.total);
});
