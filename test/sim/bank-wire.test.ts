/*
 * Goal: answers that are lost, late, doubled, slow or no answer at all leave in the books what their name says, and are counted when
 * and only when it did. Method: plain fetch against a real server; the books are asked for what really moved.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, test } from 'node:test';
import { type Bank, type BankOptions, startBank } from '../../sim/bank/bank.ts';
import { ask, outCount, pay } from './bank-client.ts';

const HOUR_MS = 3_600_000;
const running: Bank[] = [];

async function start(options: Partial<BankOptions> = {}): Promise<Bank> {
  const bank = await startBank({ profile: 'generic', ...options });
  running.push(bank);
  return bank;
}

afterEach(async () => {
  for (const bank of running.splice(0)) await bank.stop();
});

async function lost(call: Promise<unknown>): Promise<void> {
  await assert.rejects(call);
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let round = 0; round < 200; round += 1) {
    if (await condition()) return;
    await sleep(10);
  }
  assert.fail('it never came about');
}

test('an answer lost before the effect leaves no movement, and the same key pays once', async () => {
  for (const how of ['reset', 'fin'] as const) {
    const bank = await start({ faults: [{ on: 'create', calls: [1], fault: { kind: 'lose_request', how } }] });
    await lost(pay(bank, { key: 'a' }));
    assert.equal(await outCount(bank), 0);
    assert.equal((await pay(bank, { key: 'a' })).status, 201);
    assert.equal(await outCount(bank), 1);
    assert.equal(bank.counts.lose_request, 1);
  }
});

test('an answer lost after the effect leaves a movement, and the same key answers with it', async () => {
  const bank = await start({ faults: [{ on: 'create', calls: [1], fault: { kind: 'lose_answer' } }] });
  await lost(pay(bank, { key: 'a' }));
  assert.equal(await outCount(bank), 1);
  const again = await pay(bank, { key: 'a' });
  assert.equal(again.status, 201);
  assert.equal(again.at('amount', 'value'), '1500');
  assert.equal(await outCount(bank), 1);
  assert.deepEqual({ ...bank.counts }, { lose_answer: 1, replayed: 1 });
});

test('a silent connection stays silent until the caller gives up', async () => {
  const bank = await start({ faults: [{ fault: { kind: 'lose_answer', how: 'hang' } }] });
  await lost(pay(bank, { key: 'a' }, { waitMs: 100 }));
  assert.equal(await outCount(bank), 1);
});

test('a request delivered hours later is executed at that time of the bank', async () => {
  const fault = { kind: 'deliver_later', ms: 3 * HOUR_MS } as const;
  const bank = await start({
    clock: { start: '2026-11-30T00:00:00Z', ticking: false },
    faults: [{ on: 'create', calls: [1], fault }],
  });
  await lost(pay(bank, { key: 'a' }));
  assert.equal(await outCount(bank), 0);
  assert.equal(bank.counts.deliver_later, undefined);
  bank.clock.advance(3 * HOUR_MS);
  await until(() => bank.counts.deliver_later === 1);
  const [movement] = await bank.books.movements();
  assert.equal(movement?.at.toISOString(), '2026-11-30T03:00:00.000Z');
  assert.equal(movement?.key, 'a');
});

test('a request delivered later than its key was kept pays a second time (case C3)', async () => {
  const bank = await start({
    faults: [{ on: 'create', calls: [1], fault: { kind: 'deliver_later', ms: 26 * HOUR_MS, how: 504 } }],
  });
  assert.equal((await pay(bank, { key: 'a' })).status, 504);
  assert.equal((await pay(bank, { key: 'a' })).status, 201);
  bank.clock.advance(26 * HOUR_MS);
  await until(async () => (await outCount(bank)) === 2);
  assert.equal(bank.counts.key_expired, 1);
});

test('bytes delivered twice pay once under a key, twice without', async () => {
  const faults = [{ on: 'create', calls: [1], fault: { kind: 'deliver_twice' } }] as const;
  const keyed = await start({ faults });
  assert.equal((await pay(keyed, { key: 'a' })).status, 201);
  assert.equal(await outCount(keyed), 1);
  const unkeyed = await start({ profile: 'unkeyed', faults });
  assert.equal((await pay(unkeyed, { key: 'a' })).status, 200);
  assert.equal(await outCount(unkeyed), 2);
  assert.equal(unkeyed.counts.deliver_twice, 1);
});

test('a copy that is delivered hours later meets a kept key, or pays where there is none', async () => {
  const faults = [{ on: 'create', calls: [1], fault: { kind: 'deliver_twice', ms: 5 * HOUR_MS } }] as const;
  for (const [profile, payments] of [
    ['generic', 1],
    ['unkeyed', 2],
  ] as const) {
    const bank = await start({ profile, faults });
    assert.ok((await pay(bank, { key: 'a' })).status < 300);
    assert.equal(bank.counts.deliver_twice, undefined);
    bank.clock.advance(5 * HOUR_MS);
    await until(() => bank.counts.deliver_twice === 1);
    assert.equal(await outCount(bank), payments, profile);
  }
});

test('a slow execution holds its key as in progress, and a slow answer does not (case B11)', async () => {
  const bank = await start({ faults: [{ on: 'create', calls: [1], fault: { kind: 'slow', ms: 300 } }] });
  const first = pay(bank, { key: 'a' });
  await until(() => bank.counts.slow === 1);
  assert.equal((await pay(bank, { key: 'a' })).status, 409);
  assert.equal(await outCount(bank), 0);
  assert.equal((await first).status, 201);
  assert.equal((await pay(bank, { key: 'a' })).status, 201);
  assert.equal(await outCount(bank), 1);

  const late = await start({
    faults: [{ on: 'create', calls: [1], fault: { kind: 'slow', ms: 300, what: 'answer' } }],
  });
  const waiting = pay(late, { key: 'a' });
  await until(async () => (await outCount(late)) === 1);
  assert.equal((await pay(late, { key: 'a' })).status, 201);
  assert.equal((await waiting).status, 201);
});

test('bodies that are no answer come after the effect, or without it when so told', async () => {
  const hows = ['html', 'empty', 'not_json'] as const;
  for (const how of hows) {
    for (const effect of [true, false]) {
      const bank = await start({ faults: [{ on: 'create', fault: { kind: 'garble', how, effect, status: 200 } }] });
      const reply = await pay(bank, { key: 'a' });
      assert.equal(reply.status, 200);
      assert.equal(reply.body, undefined, how);
      assert.equal(await outCount(bank), effect ? 1 : 0);
      assert.equal(bank.counts[`garble_${how}`], 1);
    }
  }
});

test('a truncated body breaks in the middle', async () => {
  const bank = await start({ faults: [{ on: 'create', fault: { kind: 'garble', how: 'truncated' } }] });
  await lost(pay(bank, { key: 'a' }));
  assert.equal(await outCount(bank), 1);
});

test('a body of ten megabytes is all blanks before its answer', async () => {
  const bank = await start({ faults: [{ on: 'create', fault: { kind: 'garble', how: 'huge' } }] });
  const reply = await pay(bank, { key: 'a' });
  assert.ok(reply.text.length > 10 * 1024 * 1024);
  assert.equal(reply.at('status'), 'accepted');
});

test('a dripping body takes its time, and bad UTF-8 is bad', async () => {
  const bank = await start({
    faults: [
      { on: 'create', calls: [1], fault: { kind: 'garble', how: 'drip', ms: 400 } },
      { on: 'create', calls: [2], fault: { kind: 'garble', how: 'bad_utf8' } },
    ],
  });
  const began = performance.now();
  assert.equal((await pay(bank, { key: 'a' })).at('status'), 'accepted');
  assert.ok(performance.now() - began >= 300);
  assert.ok((await pay(bank, { key: 'b' })).text.includes('\ufffd'));
});

test('a 5xx after the effect is not what the key answers; a stored one is, for ever', async () => {
  const bank = await start({
    faults: [
      { on: 'create', calls: [1], fault: { kind: 'http', status: 500, effect: true } },
      { on: 'create', calls: [3], fault: { kind: 'http', status: 500, effect: true, stored: true } },
      { on: 'create', calls: [5], fault: { kind: 'http', status: 500, stored: true } },
    ],
  });
  const statuses: number[] = [];
  for (const key of ['a', 'a', 'b', 'b', 'c', 'c']) statuses.push((await pay(bank, { key })).status);
  assert.deepEqual(statuses, [500, 201, 500, 500, 500, 500]);
  assert.deepEqual(
    (await bank.books.movements()).map(({ key }) => key),
    ['a', 'b'],
  );
  assert.equal(bank.counts.http_500, 3);
});

test('gateway answers, rate limits and access refusals touch nothing', async () => {
  for (const status of [401, 403, 429, 502, 503, 504]) {
    const bank = await start({ faults: [{ calls: [1], fault: { kind: 'http', status, retryAfterS: 7 } }] });
    const reply = await pay(bank, { key: 'a' });
    assert.equal(reply.status, status);
    assert.equal(reply.headers.get('retry-after'), '7');
    assert.equal(await outCount(bank), 0);
    assert.equal((await pay(bank, { key: 'a' })).status, 201);
  }
});

test('look-ups break, garble and fail too, and change nothing', async () => {
  const faults = [
    { kind: 'http', status: 500, effect: true },
    { kind: 'garble', how: 'html' },
    { kind: 'garble', how: 'empty' },
    { kind: 'http', status: 429 },
  ] as const;
  const bank = await start({ faults: faults.map((fault, place) => ({ on: 'look', calls: [place + 1], fault })) });
  await pay(bank, { key: 'a' });
  const seen: [number, boolean][] = [];
  for (let round = 0; round < 5; round += 1) {
    const reply = await ask(bank, 'GET', '/v1/transfers?idempotency_key=a');
    seen.push([reply.status, reply.body === undefined]);
  }
  assert.deepEqual(seen, [
    [500, false],
    [200, true],
    [200, true],
    [429, false],
    [200, false],
  ]);
  assert.equal(await outCount(bank), 1);
});
