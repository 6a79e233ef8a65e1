/* The simulated liquidity provider over real sockets: its contract, its own book, and that its faults are what they say. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Escrow, type EscrowOptions, startEscrow } from '../../sim/escrow/escrow.ts';
import { openEscrowDoor } from '../../sim/escrow/steering-door.ts';
import { VOCABULARY } from '../../sim/escrow/vocabulary.ts';

const ORDER = {
  reference: 'leg_1',
  side: 'buy',
  asset: 'USDT',
  amount: '12.5',
  fiat: 'KRW',
  fiat_amount: '16250',
  price: '1300',
  pay_by: '2026-12-01T00:00:00.000Z',
};

async function withEscrow(options: EscrowOptions, act: (escrow: Escrow) => Promise<void>): Promise<void> {
  const escrow = await startEscrow(options);
  try {
    await act(escrow);
  } finally {
    await escrow.stop();
  }
}

interface Told {
  readonly status: number;
  readonly replayed: boolean;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests read JSON of every shape
  readonly body: any;
}

async function ask(escrow: Escrow, method: string, path: string, key?: string, body?: object): Promise<Told> {
  const response = await fetch(`${escrow.url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${escrow.secret}`,
      'content-type': 'application/json',
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    replayed: response.headers.get('idempotent-replayed') === 'true',
    body: text.startsWith('{') ? JSON.parse(text) : text,
  };
}
const open = (escrow: Escrow, key: string, fields: object = {}): Promise<Told> =>
  ask(escrow, 'POST', '/v1/trades', key, { ...ORDER, ...fields });

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

test('each provider has its own words for every stage', async () => {
  for (const [name, words] of Object.entries(VOCABULARY)) {
    await withEscrow({ vocabulary: name as keyof typeof VOCABULARY }, async (escrow) => {
      const { trade } = (await open(escrow, 'k1')).body;
      assert.equal(trade.state, words.created);
      escrow.trades.release(trade.id);
      assert.equal((await open(escrow, 'k1')).body.trade.state, words.released);
    });
  }
});

test('it is fast enough for proofs: thousands of trades in seconds', () =>
  withEscrow({}, async (escrow) => {
    const lanes = Array.from({ length: 16 }, async (_, lane) => {
      for (let n = 0; n < 125; n += 1) await open(escrow, `k-${lane}-${n}`, { reference: `leg_${lane}_${n}` });
    });
    await Promise.all(lanes);
    assert.equal(escrow.book.trades().length, 2_000);
  }));
