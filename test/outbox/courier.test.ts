/*
 * Goal: each committed event reaches each endpoint of its partner at least once, in order, with one id and the same
 * bytes, or lies in the dead-letter list. Method: the real courier against real endpoints on loopback; time passes by
 * moving `next_at` and `lease_until` in the database.
 */
import assert from 'node:assert/strict';
import { AsyncResource } from 'node:async_hooks';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Webhook } from 'standardwebhooks';
import { deriveEndpointSecret } from '../../src/outbox/signature.ts';
import { replayDeliveries, replayEvents } from '../../src/outbox/store.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts';
import { type CourierWorld, makeCourierWorld, masterSecret } from './courier-world.ts';

let world: CourierWorld;
const receivers: WebhookReceiver[] = [];
/** The async context that this file began with: no transaction is open in it. */
const outside = new AsyncResource('outside of any transaction');

async function receiver(): Promise<WebhookReceiver> {
  const one = await startWebhookReceiver();
  receivers.push(one);
  return one;
}

/** A partner with one endpoint and one subject. */
async function scene() {
  const hook = await receiver();
  const partner = await world.partner();
  const endpoint = await world.endpoint(partner, hook.url);
  const subject = await world.subject(partner);
  return { hook, partner, endpoint, subject };
}

before(async () => {
  world = await makeCourierWorld('courier');
});
after(async () => {
  for (const one of receivers) await one.close();
  await world.close();
});

test('an event and its delivery row share the transition’s transaction, and nothing leaves before the commit (req W9)', async () => {
  const { hook, endpoint, subject } = await scene();
  const courier = world.courier();
  await world.pool.tx('transition', async (tx) => {
    await world.emitIn(tx, subject);
    const { rows } = await tx.query('select 1 from payonce.deliveries where endpoint_id = $1', [endpoint]);
    assert.equal(rows.length, 1, 'the delivery row is there with the event');
    // From outside of this transaction's context, as another process would.
    await outside.runInAsyncScope(() => courier.runOnce());
    assert.equal(hook.hits.length, 0);
  });
  await courier.runOnce();
  assert.equal(hook.hits.length, 1);
});

test('an event of a transaction that rolled back is never sent (req W9)', async () => {
  const { hook, endpoint, subject } = await scene();
  await assert.rejects(
    world.pool.tx('transition', async (tx) => {
      await world.emitIn(tx, subject);
      throw new Error('the transition failed');
    }),
    /the transition failed/,
  );
  await world.courier().runOnce();
  assert.equal(hook.hits.length, 0);
  assert.deepEqual(await world.deliveries(endpoint), []);
});

test('an event whose process died right after the commit is delivered by the next one (case D7, inv N1)', async () => {
  const { hook, subject } = await scene();
  const id = await world.event(subject);
  // Here the process that made it is gone: no courier of its has ever run.
  await world.courier().runOnce();
  assert.deepEqual(hook.ids(), [id]);
});

test('a courier that died after its claim leaves the event to the next one (case D7, inv N1)', async () => {
  const { hook, endpoint, subject } = await scene();
  const id = await world.event(subject);
  await world.pool.query(
    "update payonce.deliveries set lease_token = lease_token + 1, attempts = 1, lease_until = payonce.now() + interval '30 s' where endpoint_id = $1",
    [endpoint],
  );
  const courier = world.courier();
  await courier.runOnce();
  assert.deepEqual(hook.ids(), [], 'the dead courier’s lease still stands');
  await world.pool.query('update payonce.deliveries set lease_until = payonce.now() where endpoint_id = $1', [
    endpoint,
  ]);
  await courier.runOnce();
  assert.deepEqual(hook.ids(), [id]);
});

test('the package standardwebhooks verifies what the courier sends, before and after a turn of the secret', async () => {
  const { hook, endpoint, subject } = await scene();
  const courier = world.courier();
  const id = await world.event(subject);
  await courier.runOnce();
  await world.pool.query('update payonce.endpoints set secret_version = 2 where id = $1', [endpoint]);
  await world.event(subject);
  await courier.runOnce();
  const [first, second] = hook.hits;
  assert(first !== undefined && second !== undefined);
  const headersOf = (hit: typeof first) => hit.headers as Record<string, string>;
  const secret = deriveEndpointSecret(masterSecret, endpoint, 1);
  const turned = deriveEndpointSecret(masterSecret, endpoint, 2);
  const read = new Webhook(secret).verify(first.body, headersOf(first)) as Record<string, unknown>;
  assert.equal(read['id'], id);
  assert.equal(first.headers['webhook-id'], id);
  assert.throws(() => new Webhook(turned).verify(first.body, headersOf(first)), /No matching signature/);
  new Webhook(secret).verify(second.body, headersOf(second));
  new Webhook(turned).verify(second.body, headersOf(second));
});

test('every attempt has the same id and the same bytes, and a timestamp of its own (inv N1)', async () => {
  const { hook, endpoint, subject } = await scene();
  const courier = world.courier();
  const id = await world.event(subject);
  hook.answer = () => ({ status: hook.hits.length < 3 ? 500 : 204 });
  for (let attempt = 1; attempt <= 3; attempt += 1) {
    await courier.runOnce();
    await world.makeDue();
    if (attempt === 1) await sleep(1_100);
  }
  assert.deepEqual(hook.ids(), [id, id, id]);
  assert.equal(new Set(hook.hits.map((hit) => hit.body)).size, 1);
  assert.notEqual(hook.hits[0]?.headers['webhook-timestamp'], hook.hits[1]?.headers['webhook-timestamp']);
  const [delivery] = await world.deliveries(endpoint);
  assert.equal(delivery?.state, 'delivered');
  assert.equal(delivery.attempts, 3);
});

test('the second event of a subject waits until the first was delivered, and other subjects do not (inv N2)', async () => {
  const { hook, partner, endpoint, subject } = await scene();
  const other = await world.subject(partner);
  const courier = world.courier();
  const first = await world.event(subject, 'withdrawal.created');
  const second = await world.event(subject, 'withdrawal.confirmed');
  const apart = await world.event(other, 'withdrawal.created');
  hook.answer = (hit) => ({
    status: hit.headers['webhook-id'] === first && hook.ids().filter((id) => id === first).length < 3 ? 500 : 200,
  });
  await courier.runOnce();
  assert.deepEqual(new Set(hook.ids()), new Set([first, apart]));
  const blocked = (await world.deliveries(endpoint)).find((row) => row.sequence === 2n);
  assert((blocked?.wait_ms ?? 0) > 3_000, 'what is blocked is not looked at again before its predecessor');
  for (let round = 0; round < 4; round += 1) {
    await world.makeDue();
    await courier.runOnce();
  }
  const ofSubject = hook.ids().filter((id) => id !== apart);
  assert.deepEqual(ofSubject, [first, first, first, second]);
  const sequences = hook.hits
    .map((hit) => JSON.parse(hit.body))
    .filter((body) => body.subject.id === subject)
    .map((body) => body.sequence);
  assert.deepEqual([...new Set(sequences)], ['1', '2']);
});

test('a delivered event lets its successor go at once, whatever back-off it had', async () => {
  const { hook, subject } = await scene();
  const courier = world.courier();
  hook.answer = () => ({ status: hook.hits.length === 1 ? 500 : 200 });
  const first = await world.event(subject);
  const second = await world.event(subject);
  await courier.runOnce();
  await world.pool.query(
    'update payonce.deliveries set next_at = payonce.now() where subject_id = $1 and sequence = 1',
    [subject],
  );
  await courier.runOnce();
  await courier.runOnce();
  assert.deepEqual(hook.ids(), [first, first, second]);
});

test('after the last back-off an event is in the dead-letter list, its successor goes on, and a replay brings it again (inv N1)', async () => {
  const { hook, endpoint, subject } = await scene();
  const courier = world.courier({ backoffMs: [0, 1_000, 2_000] });
  const first = await world.event(subject);
  const second = await world.event(subject);
  hook.answer = (hit) => ({ status: hit.headers['webhook-id'] === first ? 502 : 200 });
  for (let round = 0; round < 6; round += 1) {
    await courier.runOnce();
    await world.makeDue();
  }
  assert.deepEqual(hook.ids(), [first, first, first, second]);
  const [dead] = await world.deliveries(endpoint);
  assert(dead !== undefined);
  assert.equal(dead.state, 'dead');
  assert.equal(dead.last_status, 502);
  assert.equal(courier.counts.dead, 1);

  hook.answer = () => ({ status: 200 });
  assert.equal(await world.pool.tx('replay', (tx) => replayDeliveries(tx, [dead.id])), 1);
  assert.equal(
    await world.pool.tx('replay', (tx) => replayDeliveries(tx, [dead.id])),
    0,
    'a waiting one is left alone',
  );
  await courier.runOnce();
  assert.deepEqual(hook.ids().slice(4), [first]);
  assert.equal(hook.hits[4]?.body, hook.hits[0]?.body);
  const [again] = await world.deliveries(endpoint);
  assert.equal(again?.id, dead.id, 'the same row');
  assert.equal(again.state, 'delivered');
});

test('the back-off grows along the schedule with jitter', async () => {
  const { hook, endpoint, subject } = await scene();
  const courier = world.courier();
  await world.event(subject);
  hook.answer = () => ({ status: 500 });
  for (const pause of [5_000, 300_000, 1_800_000]) {
    await courier.runOnce();
    const [row] = await world.deliveries(endpoint);
    const waits = row?.wait_ms ?? 0;
    assert(waits > pause - 3_000 && waits <= pause * 1.1, `${waits} ms is about ${pause} ms`);
    await world.makeDue();
  }
});

test('410 disables the endpoint: what waits for it is in the dead-letter list and later events make no delivery', async () => {
  const { hook, partner, endpoint, subject } = await scene();
  const courier = world.courier();
  await world.event(subject);
  await world.event(subject);
  hook.answer = () => ({ status: 410 });
  await courier.runOnce();
  await courier.runOnce();
  assert.equal(hook.hits.length, 1, 'nothing more is sent to it');
  const rows = await world.deliveries(endpoint);
  assert.deepEqual(
    rows.map((row) => [row.state, row.last_status, row.last_error]),
    [
      ['dead', 410, 'answered 410 Gone'],
      ['dead', null, 'the endpoint is disabled'],
    ],
  );
  await world.event(subject);
  assert.equal((await world.deliveries(endpoint)).length, 2);

  // A new endpoint of the partner can have what was missed.
  const next = await receiver();
  await world.endpoint(partner, next.url);
  const { rows: events } = await world.pool.query<{ event_id: string }>(
    'select event_id from payonce.events where subject_id = $1 order by sequence',
    [subject],
  );
  const ids = events.map((row) => row.event_id);
  assert.equal(await world.pool.tx('replay', (tx) => replayEvents(tx, partner, ids)), 3);
  for (let round = 0; round < 3; round += 1) await courier.runOnce();
  assert.deepEqual(next.ids(), ids);
});

test('a partner’s events are not replayed for somebody else', async () => {
  const { subject } = await scene();
  const stranger = await scene();
  const id = await world.event(subject);
  await world.courier().runOnce();
  assert.equal(await world.pool.tx('replay', (tx) => replayEvents(tx, stranger.partner, [id])), 0);
});

test('429 and 503 are asked again no sooner than they say', async () => {
  for (const [status, header] of [
    [429, '600'],
    [503, new Date(Date.now() + 600_000).toUTCString()],
  ] as const) {
    const { hook, endpoint, subject } = await scene();
    await world.event(subject);
    hook.answer = () => ({ status, headers: { 'retry-after': header } });
    await world.courier().runOnce();
    const [row] = await world.deliveries(endpoint);
    assert.equal(row?.last_status, status);
    assert(row.wait_ms > 590_000 && row.wait_ms < 610_000, `${row.wait_ms} ms`);
  }
});

test('a redirect is a failure and nobody follows it', async () => {
  const { hook, endpoint, subject } = await scene();
  const elsewhere = await receiver();
  await world.event(subject);
  hook.answer = () => ({ status: 307, headers: { location: elsewhere.url } });
  await world.courier().runOnce();
  assert.equal(elsewhere.hits.length, 0);
  const [row] = await world.deliveries(endpoint);
  assert.equal(row?.state, 'waiting');
  assert.equal(row.last_error, 'answered 307; redirects are not followed');
});

test('an endpoint that hangs ties up its own sends alone', async () => {
  const hanging = await scene();
  const well = await scene();
  hanging.hook.answer = () => null;
  const courier = world.courier({ roundMs: 100, timeoutMs: 2_000, leaseMs: 10_000 });
  for (let n = 0; n < 20; n += 1) await world.event(await world.subject(hanging.partner));
  for (let round = 0; round < 3; round += 1) {
    const id = await world.event(well.subject);
    const began = performance.now();
    while (!well.hook.ids().includes(id)) await courier.runOnce();
    assert(performance.now() - began < 1_500, 'it does not wait for the other endpoint’s time-out');
  }
  assert.equal(hanging.hook.hits.length, 8, 'no more than eight at once');
  await courier.drain();
  const rows = await world.deliveries(hanging.endpoint);
  assert.equal(rows.filter((row) => row.last_error === 'no answer within 2000 ms').length, 8);
  await world.pool.query(
    "update payonce.deliveries set state = 'dead', ended_at = payonce.now() where endpoint_id = $1 and state = 'waiting'",
    [hanging.endpoint],
  );
});

test('two couriers at once never send one event at the same time, and send each once', async () => {
  const { hook, partner, endpoint } = await scene();
  hook.answer = () => ({ status: 200, afterMs: 5 });
  for (let n = 0; n < 30; n += 1) {
    const subject = await world.subject(partner);
    await world.event(subject, 'withdrawal.created');
    await world.event(subject, 'withdrawal.confirmed');
  }
  const work = async () => {
    const courier = world.courier();
    for (let idle = 0; idle < 3; ) {
      const { worked } = await courier.runOnce();
      idle = worked === 0 ? idle + 1 : 0;
    }
  };
  await Promise.all([work(), work()]);
  assert.equal(hook.hits.length, 60);
  assert.equal(new Set(hook.ids()).size, 60);
  assert.deepEqual(new Set(hook.mostAtOnce.values()), new Set([1]));
  assert((await world.deliveries(endpoint)).every((row) => row.state === 'delivered' && row.attempts === 1));
  const order = Map.groupBy(
    hook.hits.map((hit) => JSON.parse(hit.body)),
    (body) => body.subject.id,
  );
  for (const bodies of order.values())
    assert.deepEqual(
      bodies.map((body) => body.sequence),
      ['1', '2'],
    );
});

test('a lease that ran out lets another courier send the same id and bytes, and the late one records nothing', async () => {
  const { hook, endpoint, subject } = await scene();
  const slow = world.courier({ roundMs: 10 });
  const quick = world.courier({ roundMs: 10 });
  const id = await world.event(subject);
  hook.answer = () => (hook.hits.length === 1 ? { status: 500, afterMs: 300 } : { status: 200, afterMs: 900 });
  await slow.runOnce();
  while (hook.hits.length < 1) await sleep(5);
  await world.pool.query('update payonce.deliveries set lease_until = payonce.now() where endpoint_id = $1', [
    endpoint,
  ]);
  await quick.runOnce();
  while (hook.hits.length < 2) await sleep(5);
  await slow.drain();
  const [during] = await world.deliveries(endpoint);
  assert.deepEqual([during?.state, during?.last_status], ['waiting', null], 'the new lease stands');
  assert.equal((await world.courier().runOnce()).worked, 0);
  await quick.drain();
  assert.deepEqual(hook.ids(), [id, id]);
  assert.equal(hook.hits[0]?.body, hook.hits[1]?.body);
  assert.equal(slow.counts.lostLeases, 1);
  const [row] = await world.deliveries(endpoint);
  assert.deepEqual([row?.state, row?.last_status], ['delivered', 200]);
});

test('the claim of due deliveries locks nobody out: a row that another session holds is passed over', async () => {
  const { hook, partner, subject } = await scene();
  const held = await world.event(subject);
  const free = await world.event(await world.subject(partner));
  await world.pool.tx('holder', async (tx) => {
    await tx.query(
      'select 1 from payonce.deliveries d join payonce.events e on e.id = d.event_id where e.event_id = $1 for update of d',
      [held],
    );
    const courier = world.courier();
    await outside.runInAsyncScope(() => courier.runOnce());
  });
  assert.deepEqual(hook.ids(), [free]);
  await world.courier().runOnce();
  assert.deepEqual(hook.ids(), [free, held]);
});
