/*
 * Goal: what a source signed is stored once, as it came, and answered; everything else is refused and leaves no trace.
 * Method: letters signed by the package standardwebhooks, sent over HTTP to the real receiver.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { makeReceiver } from '../../src/inbox/receive.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { type InboxWorld, type Letter, letter, makeInboxWorld, secret } from './inbox-world.ts';

let world: InboxWorld;
before(async () => {
  world = await makeInboxWorld('receive', ['bank', 'chain', 'twenty', 'replay', 'odd']);
});
after(() => world.close());

test('twenty copies at once are stored once, counted, logged and all answered with success (case D1, req W2)', async () => {
  const one = letter('msg_twenty', { type: 'withdrawal.confirmed', tx: '0xabc' });
  const statuses = await Promise.all(Array.from({ length: 20 }, () => world.post('twenty', one)));
  assert.deepEqual(new Set(statuses), new Set([200]));
  const rows = await world.rows('twenty');
  assert.equal(rows.length, 1);
  assert.equal(rows[0]?.redeliveries, 19);
  assert.equal(rows[0].body.toString(), one.body);
  assert.equal(world.lines.filter((line) => line.includes('"already received"')).length, 19);
  assert.equal(world.receiver.counts.redeliveries, 19);
  assert.equal(world.wakes(), 1, 'only the first one wakes the worker');
});

test('a letter without one of its three headers is refused, never passed (case D11)', async () => {
  for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) {
    const one = letter(`msg_${name}`, { a: 1 });
    const headers = Object.fromEntries(Object.entries(one.headers).filter(([key]) => key !== name));
    assert.equal(await world.post('bank', { ...one, headers }), 401, name);
  }
  assert.deepEqual(await world.rows('bank'), []);
});

test('the signature is over the raw bytes: the same JSON written otherwise is refused (case D11)', async () => {
  const one = letter('msg_order', '{"amount":"1.0","id":7}');
  for (const body of [
    '{"id":7,"amount":"1.0"}',
    '{"amount": "1.0","id":7}',
    '{"amount":"1.00","id":7}',
    `${one.body}\n`,
  ]) {
    assert.equal(await world.post('bank', { ...one, body }), 401, body);
  }
  assert.deepEqual(await world.rows('bank'), []);
  assert.equal(await world.post('bank', one), 200);
});

test('a timestamp ten minutes off is refused in both directions, and one a little ahead is not (case D11)', async () => {
  const off = (ms: number): Letter => letter(`msg_off_${ms}`, { a: 1 }, { at: new Date(Date.now() + ms) });
  const before = (await world.rows('chain')).length;
  for (const ms of [-600_000, 600_000, -310_000, 90_000])
    assert.equal(await world.post('chain', off(ms)), 401, String(ms));
  assert.equal((await world.rows('chain')).length, before);
  for (const ms of [-240_000, 0, 30_000]) assert.equal(await world.post('chain', off(ms)), 200, String(ms));
});

test('a fresh timestamp written over an old one breaks the signature (case D11)', async () => {
  const one = letter('msg_moved', { a: 1 }, { at: new Date(Date.now() - 600_000) });
  const headers = { ...one.headers, 'webhook-timestamp': String(Math.floor(Date.now() / 1000)) };
  assert.equal(await world.post('bank', { ...one, headers }), 401);
});

test('a replay within the window is answered like the first and worked no second time (case D11)', async () => {
  const one = letter('msg_replayed', { a: 1 }, { at: new Date(Date.now() - 4 * 60_000) });
  let worked = 0;
  const worker = world.worker({
    replay: () => {
      worked += 1;
      return Promise.resolve('done');
    },
  });
  assert.equal(await world.post('replay', one), 200);
  await worker.runOnce();
  assert.equal(await world.post('replay', one), 200);
  await world.makeDue();
  await worker.runOnce();
  assert.equal(worked, 1);
});

test('another secret’s signature, an unknown source and a body too large are refused', async () => {
  const foreign = letter('msg_foreign', { a: 1 }, { secret: `whsec_${randomBytes(32).toString('base64')}` });
  assert.equal(await world.post('bank', foreign), 401);
  assert.equal(await world.post('nobody', letter('msg_1', { a: 1 })), 404);
  assert.equal(await world.post('bank', letter('msg_large', 'x'.repeat(300_000))), 413);
});

test('an id with a point or blanks is refused: its signed text could be read in two ways', async () => {
  for (const id of ['msg.1', 'msg 1', 'x'.repeat(256)])
    assert.equal(await world.post('bank', letter(id, { a: 1 })), 400, id);
});

test('while a secret is being changed both are taken', async () => {
  const next = `whsec_${randomBytes(32).toString('base64')}`;
  const { pool } = world;
  const sources = [{ name: 'odd', secrets: [next, secret] }];
  const receiver = makeReceiver({ pool, ports: systemPorts(), log: silentLog, sources, wake: () => {} });
  for (const [id, by] of [
    ['msg_next', next],
    ['msg_former', secret],
  ] as const) {
    const one = letter(id, { a: 1 }, { secret: by });
    assert.equal((await receiver.receive('odd', one.headers, Buffer.from(one.body))).kind, 'stored');
  }
});

test('other bytes under a known id change nothing and are told', async () => {
  const first = letter('msg_two_bodies', { amount: '1' });
  const second = letter('msg_two_bodies', { amount: '2' });
  assert.equal(await world.post('odd', first), 200);
  assert.equal(await world.post('odd', second), 200);
  const row = (await world.rows('odd')).find((one) => one.body.toString() === first.body);
  assert.equal(row?.redeliveries, 1);
  assert(world.lines.some((line) => line.includes('has other bytes')));
});

test('what is no JSON at all is stored to the byte, and credentials of the connection are not (case D5)', async () => {
  const one = letter('msg_garbled', '<html>\u0000 not json');
  await world.post('odd', { ...one, headers: { ...one.headers, authorization: 'Bearer secret', cookie: 'a=b' } });
  const row = (await world.rows('odd')).find(({ headers }) => headers['webhook-id'] === 'msg_garbled');
  assert.equal(row?.body.toString(), one.body);
  assert.equal('authorization' in row.headers || 'cookie' in row.headers, false);
});

test('an event that could not be stored is not acknowledged (case D5)', async () => {
  const broken = await makeInboxWorld('receive broken', ['bank']);
  try {
    await broken.pool.query('alter table payonce.inbox rename to inbox_gone');
    assert.equal(await broken.post('bank', letter('msg_1', { a: 1 })), 503);
    await broken.pool.query('alter table payonce.inbox_gone rename to inbox');
    assert.equal(await broken.post('bank', letter('msg_1', { a: 1 })), 200);
    assert.equal((await broken.rows('bank')).length, 1);
  } finally {
    await broken.close();
  }
});

test('a source without a usable secret does not start', () => {
  const { pool } = world;
  for (const secrets of [[], ['secret'], ['whsec_']]) {
    const options = {
      pool,
      ports: systemPorts(),
      log: silentLog,
      sources: [{ name: 'bank', secrets }],
      wake: () => {},
    };
    assert.throws(() => makeReceiver(options), /secret/);
  }
});
