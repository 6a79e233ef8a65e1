/* The simulated liquidity provider over real sockets: its contract, its own book, and that its faults are what they say. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openEscrowDoor } from '../../sim/escrow/steering-door.ts';
import { VOCABULARY } from '../../sim/escrow/vocabulary.ts';
import { TRADE_PROFILES } from '../../src/rails/escrow/index.ts';
import { ask, open, openMany, withEscrow } from './escrow-client.ts';

test('one key opens one trade; the same body shows it as it is now, another body is refused and names it', () =>
  withEscrow({}, async (escrow) => {
    const first = await open(escrow, 'k1');
    assert.equal(first.status, 201);
    const { id } = first.body.trade;
    escrow.trades.markPaid(id);
    const again = await open(escrow, 'k1');
    assert.deepEqual(
      [again.status, again.replayed, again.body.trade.id, again.body.trade.state],
      [201, true, id, 'buyer_marked_paid'],
    );
    const other = await open(escrow, 'k1', { amount: '13' });
    assert.deepEqual([other.status, other.body], [409, { code: 'idempotency_mismatch', trade_id: id }]);
    assert.equal(escrow.book.trades().length, 1);
    assert.deepEqual((await ask(escrow, 'GET', '/v1/trades?reference=leg_1')).body.trades.length, 1);
    assert.equal((await ask(escrow, 'GET', `/v1/trades/${id}`)).body.trade.amount, '12.5');
    assert.equal((await ask(escrow, 'GET', '/v1/trades/none')).status, 404);
  }));

test('a refusal is kept under its key and replayed; a new key is a new trade', () =>
  withEscrow({}, async (escrow) => {
    escrow.refuse('no_liquidity');
    assert.deepEqual((await open(escrow, 'k1')).body.code, 'no_liquidity');
    escrow.refuse(null);
    const again = await open(escrow, 'k1');
    assert.deepEqual([again.status, again.replayed, again.body.code], [422, true, 'no_liquidity']);
    assert.equal((await open(escrow, 'k2', { amount: 12.5 })).body.code, 'bad_request');
    assert.equal((await open(escrow, 'k3')).status, 201);
    assert.equal(escrow.book.trades().length, 1);
  }));

test('what nobody paid is cancelled on request, once; what was paid is not', () =>
  withEscrow({}, async (escrow) => {
    const { id } = (await open(escrow, 'k1')).body.trade;
    const done = await ask(escrow, 'POST', `/v1/trades/${id}/cancel`, 'c1', {});
    assert.deepEqual([done.status, done.body.trade.state], [200, 'cancelled']);
    assert.equal((await ask(escrow, 'POST', `/v1/trades/${id}/cancel`, 'c1', {})).replayed, true);
    const other = (await open(escrow, 'k2')).body.trade.id;
    escrow.trades.markPaid(other);
    const refused = await ask(escrow, 'POST', `/v1/trades/${other}/cancel`, 'c2', {});
    assert.deepEqual([refused.status, refused.body.code], [409, 'not_cancellable']);
    escrow.trades.release(other);
    assert.deepEqual(
      escrow.book.released().map((trade) => [trade.id, trade.releasedAmount]),
      [[other, '12.5']],
    );
  }));

test('an answer that is lost has had its effect; a request that is lost has not; a late one comes when the clock says', () =>
  withEscrow({ clock: { ticking: false } }, async (escrow) => {
    escrow.script({ on: 'create', calls: [1], fault: { kind: 'lose_answer' } });
    escrow.script({ on: 'create', calls: [2], fault: { kind: 'lose_request' } });
    escrow.script({ on: 'create', calls: [3], fault: { kind: 'deliver_later', ms: 60_000 } });
    for (const key of ['k1', 'k2', 'k3']) await assert.rejects(open(escrow, key));
    assert.equal(escrow.book.trades().length, 1);
    escrow.clock.advance(60_000);
    assert.equal(escrow.book.trades().length, 2);
    assert.deepEqual([escrow.counts.lose_answer, escrow.counts.lose_request, escrow.counts.deliver_later], [1, 1, 1]);
  }));

test('a key that is forgotten opens a second trade, and its book shows both', () =>
  withEscrow({ keyRetentionMs: 1_000, clock: { ticking: false } }, async (escrow) => {
    await open(escrow, 'k1');
    escrow.clock.advance(1_000);
    await open(escrow, 'k1');
    assert.equal(escrow.book.of('leg_1').length, 2);
    assert.equal(escrow.counts.key_expired, 1);
  }));

test('look-ups lag and go blind, states are unheard of, answers come late, secrets end', () =>
  withEscrow({ clock: { ticking: false } }, async (escrow) => {
    escrow.script({ on: 'create', calls: [1], fault: { kind: 'lag', ms: 90_000 } });
    const { id } = (await open(escrow, 'k1')).body.trade;
    assert.deepEqual((await ask(escrow, 'GET', '/v1/trades?reference=leg_1')).body.trades, []);
    escrow.clock.advance(90_000);
    assert.equal((await ask(escrow, 'GET', '/v1/trades?reference=leg_1')).body.trades.length, 1);
    const sees = escrow.script({ on: 'look', fault: { kind: 'blind' } });
    assert.equal((await ask(escrow, 'GET', `/v1/trades/${id}`)).status, 404);
    sees();
    escrow.script({ on: 'look', fault: { kind: 'unknown_state', state: 'ARBITRATION' } });
    assert.equal((await ask(escrow, 'GET', `/v1/trades/${id}`)).body.trade.state, 'ARBITRATION');
    escrow.latency(120);
    const began = performance.now();
    await ask(escrow, 'GET', `/v1/trades/${id}`);
    assert.ok(performance.now() - began >= 100);
    escrow.latency(0);
    const old = escrow.secret;
    assert.notEqual(escrow.rotate(), old);
    const refused = await fetch(`${escrow.url}/v1/trades/${id}`, { headers: { authorization: `Bearer ${old}` } });
    assert.equal(refused.status, 401);
  }));

test('buyers and the provider act by themselves where that is asked for; levers work from another process', () =>
  withEscrow(
    { clock: { ticking: false }, auto: { payAfterMs: 1_000, releaseAfterMs: 1_000, everyDisputed: 2 } },
    async (escrow) => {
      await open(escrow, 'k1');
      await open(escrow, 'k2', { reference: 'leg_2' });
      escrow.clock.advance(1_000);
      assert.deepEqual(
        escrow.book.trades().map((trade) => trade.stage),
        ['buyer_marked_paid', 'buyer_marked_paid'],
      );
      escrow.clock.advance(1_000);
      assert.deepEqual(
        escrow.book.trades().map((trade) => trade.stage),
        ['released', 'disputed'],
      );
      const door = await openEscrowDoor(escrow);
      const pull = await fetch(`${door.url}/refund`, { method: 'POST', body: JSON.stringify({ reference: 'leg_2' }) });
      assert.equal(pull.status, 200);
      assert.equal(escrow.book.of('leg_2')[0]?.stage, 'refunded');
      await door.stop();
    },
  ));

test('each provider has its own words for every stage, and those are words of the profile of its name', async () => {
  for (const [name, words] of Object.entries(VOCABULARY)) {
    const states = TRADE_PROFILES.find((profile) => profile.name === name)?.states ?? {};
    assert.deepEqual(
      Object.values(words).filter((word) => !Object.hasOwn(states, word)),
      [],
      name,
    );
    assert.deepEqual([states[words.created], states[words.cancelled]], ['stands', 'ended'], name);
    await withEscrow({ vocabulary: name as keyof typeof VOCABULARY }, async (escrow) => {
      const { trade } = (await open(escrow, 'k1')).body;
      assert.equal(trade.state, words.created);
      escrow.trades.release(trade.id);
      const { state } = (await open(escrow, 'k1')).body.trade;
      assert.deepEqual([state, states[state]], [words.released, 'released']);
    });
  }
});

test('the book keeps each step with who asked for it and under which key, and adds up what is released in parts', () =>
  withEscrow({ clock: { ticking: false } }, async (escrow) => {
    const { id } = (await open(escrow, 'k1')).body.trade;
    escrow.trades.markPaid(id);
    escrow.trades.release(id, '5');
    escrow.trades.dispute(id);
    escrow.trades.release(id, '2.25');
    assert.equal(escrow.book.get(id)?.releasedAmount, '7.25');
    escrow.trades.release(id);
    assert.equal((await ask(escrow, 'GET', `/v1/trades/${id}`)).body.trade.released_amount, '12.5');
    assert.throws(() => escrow.trades.release(id), /0 is left/);
    assert.throws(() => escrow.trades.release(id, '-1'), /cannot be released/);
    assert.throws(() => escrow.trades.release('trd_none'), /no trade/);
    assert.deepEqual(
      escrow.book.get(id)?.steps.map(({ stage, by, key, released }) => [stage, by, key, released]),
      [
        ['created', 'caller', 'k1', null],
        ['buyer_marked_paid', 'buyer', null, null],
        ['released', 'provider', null, '5'],
        ['disputed', 'provider', null, null],
        ['released', 'provider', null, '2.25'],
        ['released', 'provider', null, '5.25'],
      ],
    );
    const other = (await open(escrow, 'k2')).body.trade.id;
    await ask(escrow, 'POST', `/v1/trades/${other}/cancel`, 'c2', {});
    assert.deepEqual(escrow.book.get(other)?.steps.at(-1)?.key, 'c2');
    // What the provider releases after all is its own doing, and stands in its book.
    escrow.trades.release(other);
    assert.equal(escrow.book.released().length, 2);
  }));

test('it is as slow as it is told, by the kind of call, from one call to the next', () =>
  withEscrow({ latencyMs: { look: 30_000 } }, async (escrow) => {
    let isTold = false;
    const slow = ask(escrow, 'GET', '/v1/trades/none').then(
      () => (isTold = true),
      () => 'broken by the stop',
    );
    while (escrow.calls.look === 0) await new Promise((resolve) => setImmediate(resolve));
    // Others are not held up by it, nor is the next of its kind when that is told to be quick.
    assert.equal((await open(escrow, 'k1')).status, 201);
    escrow.latency({ look: 0 });
    assert.equal((await ask(escrow, 'GET', '/v1/trades/none')).status, 404);
    assert.equal(isTold, false);
    escrow.latency({ create: 150 });
    const began = performance.now();
    await open(escrow, 'k2');
    assert.ok(performance.now() - began >= 140);
    assert.throws(() => escrow.latency(30_001), /0 to 30000/);
    assert.throws(() => escrow.latency({ look: -1 }), /0 to 30000/);
    await escrow.stop();
    assert.equal(await slow, 'broken by the stop');
  }));

test('the levers reach all that the provider does: parts, words, refusals, freezing, latency, faults', () =>
  withEscrow({ clock: { ticking: false } }, async (escrow) => {
    const door = await openEscrowDoor(escrow);
    const pull = async (what: string, body: object = {}): Promise<number> =>
      (await fetch(`${door.url}/${what}`, { method: 'POST', body: JSON.stringify(body) })).status;
    const see = async (what: string) => JSON.parse(await (await fetch(`${door.url}/${what}`)).text());
    await open(escrow, 'k1');
    await pull('pay', { reference: 'leg_1' });
    await pull('release', { reference: 'leg_1', amount: '3' });
    await pull('say', { reference: 'leg_1', state: 'cancelled_with_payment' });
    assert.equal((await open(escrow, 'k1')).body.trade.state, 'cancelled_with_payment');
    await pull('dispute', { reference: 'leg_1' });
    assert.equal((await open(escrow, 'k1')).body.trade.state, 'disputed');

    await pull('refuse', { code: 'no_liquidity' });
    assert.equal((await open(escrow, 'k2')).body.code, 'no_liquidity');
    await pull('refuse');
    assert.equal(await pull('latency', { ms: 20, on: 'create' }), 200);
    await pull('script', { on: 'create', hits_max: 1, fault: { kind: 'http', status: 503 } });
    assert.deepEqual([(await open(escrow, 'k3')).status, (await open(escrow, 'k3')).status], [503, 201]);

    await pull('freeze');
    const waits = open(escrow, 'k4');
    await see('trades');
    assert.equal(escrow.book.count(), 2);
    await pull('thaw');
    assert.equal((await waits).status, 201);

    assert.deepEqual(
      [await pull('pay', { reference: 'leg_9' }), await pull('script', { fault: { kind: 'maintenance' } })],
      [409, 409],
    );
    assert.deepEqual(
      [
        await pull('refuse', { code: 'no' }),
        await pull('latency', { ms: 31_000 }),
        await pull('latency', { ms: 0, on: 'x' }),
      ],
      [409, 409, 409],
    );
    const [trade] = (await see('trades')).trades;
    assert.deepEqual(
      [trade.reference, trade.key, trade.stage, trade.released_amount],
      ['leg_1', 'k1', 'disputed', '3'],
    );
    assert.equal(trade.steps.length, 4);
    const { counts, calls } = await see('counts');
    assert.deepEqual([counts.http_503, calls.look], [1, 0]);
    await door.stop();
  }));

test('ten thousand trades are opened, paid and released within a test', async () => {
  const auto = { payAfterMs: 1_000, releaseAfterMs: 1_000, everyDisputed: 100, everyExpired: 50 };
  await withEscrow({ clock: { ticking: false }, auto }, async (escrow) => {
    await openMany(escrow, 10_000);
    escrow.clock.advance(2_000);
    assert.equal(escrow.book.count(), 10_000);
    assert.equal(new Set(escrow.book.trades().map(({ reference }) => reference)).size, 10_000);
    const of = (stage: string): number => escrow.book.trades().filter((trade) => trade.stage === stage).length;
    // Every hundredth would be disputed, but every fiftieth was never paid.
    assert.deepEqual([of('expired'), of('disputed'), of('released')], [200, 0, 9_800]);
    assert.equal(escrow.book.released().length, 9_800);
  });
});
