/*
 * Goal: each scripted fault of the simulated liquidity provider is what it says, and is counted when it changed something.
 * Method: a script, a call over a real socket, and the provider's own book beside the answer.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EscrowOptions } from '../../sim/escrow/escrow.ts';
import type { EscrowFault } from '../../sim/escrow/faults.ts';
import { ask, open, type Told, withEscrow } from './escrow-client.ts';

const STILL: EscrowOptions = { clock: { ticking: false } };

/** The first create is hit. What it and the same request again were told, and how many trades the book has after each. */
async function hit(
  fault: EscrowFault,
): Promise<{ first: Told | 'broken'; again: Told; trades: readonly number[]; count: number }> {
  let told: Awaited<ReturnType<typeof hit>> | null = null;
  await withEscrow({ ...STILL, faults: [{ on: 'create', calls: [1], fault }] }, async (escrow) => {
    const first = await open(escrow, 'k1').catch((): 'broken' => 'broken');
    const before = escrow.book.count();
    const again = await open(escrow, 'k1');
    const names = Object.keys(escrow.counts).filter((name) => name.startsWith(fault.kind));
    told = { first, again, trades: [before, escrow.book.count()], count: names.length };
  });
  assert.ok(told !== null);
  return told;
}

const statusOf = (told: Told | 'broken'): number | 'broken' => (told === 'broken' ? told : told.status);

/** Fault; answer to the first call and its code; answer to the same again; trades after each. */
const FAULTS: readonly (readonly [
  EscrowFault,
  number | 'broken',
  string | undefined,
  number,
  readonly [number, number],
])[] = [
  [{ kind: 'lose_request' }, 'broken', undefined, 201, [0, 1]],
  [{ kind: 'lose_answer', how: 'fin' }, 'broken', undefined, 201, [1, 1]],
  [{ kind: 'deliver_twice' }, 201, undefined, 201, [1, 1]],
  [{ kind: 'garble', how: 'html' }, 201, undefined, 201, [1, 1]],
  [{ kind: 'garble', how: 'html', status: 502, effect: false }, 502, undefined, 201, [0, 1]],
  [{ kind: 'garble', how: 'truncated', end: 'reset' }, 'broken', undefined, 201, [1, 1]],
  [{ kind: 'http', status: 500 }, 500, undefined, 201, [0, 1]],
  [{ kind: 'http', status: 503, effect: true, html: true }, 503, undefined, 201, [1, 1]],
  [{ kind: 'http', status: 500, stored: true }, 500, undefined, 500, [0, 0]],
  [{ kind: 'http', status: 500, stored: true, effect: true }, 500, undefined, 500, [1, 1]],
  [{ kind: 'http', status: 429, retryAfterS: 7 }, 429, undefined, 201, [0, 1]],
  [{ kind: 'refuse' }, 422, 'no_liquidity', 422, [0, 0]],
  [{ kind: 'refuse', reason: 'market_closed', stored: false }, 422, 'market_closed', 201, [0, 1]],
  [{ kind: 'lie', reason: 'account_disabled' }, 422, 'account_disabled', 422, [1, 1]],
  [{ kind: 'lie', stored: false }, 422, 'no_liquidity', 201, [1, 1]],
  [{ kind: 'unknown_code' }, 422, 'code_of_tomorrow', 422, [0, 0]],
  [{ kind: 'unknown_code', effect: true, stored: false }, 422, 'code_of_tomorrow', 201, [1, 1]],
  [{ kind: 'conflict', meaning: 'in_progress' }, 409, 'in_progress', 201, [0, 1]],
  [{ kind: 'conflict', meaning: 'in_progress', effect: true }, 409, 'in_progress', 201, [1, 1]],
  [{ kind: 'conflict', meaning: 'other_body' }, 409, 'idempotency_mismatch', 201, [0, 1]],
  [{ kind: 'conflict', meaning: 'other_body', effect: true }, 409, 'idempotency_mismatch', 201, [1, 1]],
];

for (const [fault, status, code, then, trades] of FAULTS) {
  test(`a provider with the fault ${JSON.stringify(fault)} opens what its book says, and is asked again`, async () => {
    const told = await hit(fault);
    assert.deepEqual(
      [
        statusOf(told.first),
        told.first === 'broken' ? undefined : told.first.body.code,
        told.again.status,
        told.trades,
      ],
      [status, code, then, trades],
    );
    assert.equal(told.count, 1);
  });
}

test('a mismatch that has its effect names the trade that it opened', () =>
  withEscrow(
    { faults: [{ on: 'create', fault: { kind: 'conflict', meaning: 'other_body', effect: true } }] },
    async (escrow) => {
      assert.equal((await open(escrow, 'k1')).body.trade_id, escrow.book.trades()[0]?.id);
    },
  ));

test('a request behind a gateway that gave up is executed when the clock says, and its answer is kept under the key', () =>
  withEscrow(STILL, async (escrow) => {
    escrow.script({ on: 'create', calls: [1], fault: { kind: 'deliver_later', ms: 60_000, how: 504 } });
    assert.equal((await open(escrow, 'k1')).status, 504);
    assert.equal(escrow.book.count(), 0);
    escrow.clock.advance(60_000);
    const again = await open(escrow, 'k1');
    assert.deepEqual([again.status, again.replayed, escrow.book.count()], [201, true, 1]);
    assert.equal(escrow.counts.deliver_later, 1);
  }));

test('a copy of the bytes that comes when the key is forgotten opens a second trade', () =>
  withEscrow({ ...STILL, keyRetentionMs: 1_000 }, async (escrow) => {
    escrow.script({ on: 'create', calls: [1], fault: { kind: 'deliver_twice', ms: 5_000 } });
    await open(escrow, 'k1');
    escrow.clock.advance(5_000);
    assert.deepEqual(
      [escrow.book.of('leg_1').length, escrow.counts.deliver_twice, escrow.counts.key_expired],
      [2, 1, 1],
    );
  }));

test('a key is forgotten before its time when the script says so', () =>
  withEscrow({}, async (escrow) => {
    escrow.script({ on: 'create', calls: [2], fault: { kind: 'forget_key' } });
    for (let call = 1; call <= 3; call += 1) await open(escrow, 'k1');
    assert.deepEqual([escrow.book.count(), escrow.counts.forget_key], [2, 1]);
  }));

test('while a request is worked at, the same is in progress, and another body under its key is refused', () =>
  withEscrow(STILL, async (escrow) => {
    escrow.script({ on: 'create', calls: [1], fault: { kind: 'slow', ms: 60_000, what: 'execution' } });
    const slow = open(escrow, 'k1');
    while (escrow.calls.create === 0) await new Promise((resolve) => setImmediate(resolve));
    assert.equal((await open(escrow, 'k1')).body.code, 'in_progress');
    assert.equal((await open(escrow, 'k1', { amount: '13' })).body.code, 'idempotency_mismatch');
    escrow.clock.advance(60_000);
    assert.deepEqual([(await slow).status, escrow.book.count()], [201, 1]);
  }));

test('a replica that is behind shows a trade as it was, and one that it has not seen not at all', () =>
  withEscrow(STILL, async (escrow) => {
    const { id } = (await open(escrow, 'k1')).body.trade;
    escrow.clock.advance(1_000);
    escrow.trades.markPaid(id);
    escrow.clock.advance(1_000);
    escrow.trades.release(id);
    const at = async (ms: number): Promise<Told> => {
      const withdraw = escrow.script({ on: 'look', fault: { kind: 'stale', ms } });
      const told = await ask(escrow, 'GET', `/v1/trades/${id}`);
      withdraw();
      return told;
    };
    const shown = (told: Told): unknown[] => [
      told.body.trade.state,
      told.body.trade.released_amount,
      told.body.trade.paid_marked_at !== null,
    ];
    assert.deepEqual(shown(await at(500)), ['buyer_marked_paid', null, true]);
    assert.deepEqual(shown(await at(1_500)), ['created', null, false]);
    assert.equal((await at(2_500)).status, 404);
    assert.deepEqual(shown(await at(0)), ['released', '12.5', true]);
    assert.equal(escrow.counts.stale, 3);
  }));

test('an answer may speak of another trade, in a state unheard of; a replay shows the trade itself', () =>
  withEscrow({}, async (escrow) => {
    escrow.script({ on: 'create', calls: [1], fault: { kind: 'other_trade', fields: ['id', 'amount', 'fiat'] } });
    escrow.script({ on: 'create', calls: [1], fault: { kind: 'unknown_state' } });
    const { trade } = (await open(escrow, 'k1')).body;
    assert.deepEqual(
      [trade.id, trade.amount, trade.fiat, trade.state, trade.reference],
      ['trd_of_somebody_else', '1', 'ELS', 'NEW_STATE_9', 'leg_1'],
    );
    const again = (await open(escrow, 'k1')).body.trade;
    assert.deepEqual([again.id, again.amount, again.state], [escrow.book.trades()[0]?.id, '12.5', 'created']);
  }));

test('what is cancelled may be told as not cancellable, and what is not as in progress', () =>
  withEscrow({}, async (escrow) => {
    escrow.script({ on: 'cancel', calls: [1], fault: { kind: 'conflict', meaning: 'in_progress' } });
    escrow.script({ on: 'cancel', calls: [2], fault: { kind: 'conflict', meaning: 'not_cancellable', effect: true } });
    const { id } = (await open(escrow, 'k1')).body.trade;
    const cancel = (key: string): Promise<Told> => ask(escrow, 'POST', `/v1/trades/${id}/cancel`, key, {});
    assert.equal((await cancel('c1')).body.code, 'in_progress');
    assert.equal(escrow.book.get(id)?.stage, 'created');
    assert.equal((await cancel('c1')).body.code, 'not_cancellable');
    assert.equal(escrow.book.get(id)?.stage, 'cancelled');
    // The contract has one word for what cannot be cancelled any more, and shows the trade.
    const other = await cancel('c2');
    assert.deepEqual([other.status, other.body.code, other.body.trade.state], [409, 'not_cancellable', 'cancelled']);
  }));

test('it is not found for as long as the script stands, and an address that is none never is', () =>
  withEscrow({}, async (escrow) => {
    const { id } = (await open(escrow, 'k1')).body.trade;
    const withdraw = escrow.script({ on: 'look', fault: { kind: 'blind' } });
    for (let look = 0; look < 3; look += 1)
      assert.equal((await ask(escrow, 'GET', `/v1/trades/${id}`)).body.code, 'not_found');
    assert.deepEqual((await ask(escrow, 'GET', '/v1/trades?reference=leg_1')).body.trades, []);
    withdraw();
    assert.equal((await ask(escrow, 'GET', `/v1/trades/${id}`)).status, 200);
    assert.equal(escrow.counts.blind, 4);
    assert.equal((await ask(escrow, 'POST', '/v1/elsewhere', 'k9', {})).status, 404);
    assert.equal(escrow.book.count(), 1);
  }));

test('the same seed hits the same calls', async () => {
  const run = async (): Promise<readonly number[]> => {
    const statuses: number[] = [];
    const faults = [{ on: 'create', chance: 0.4, fault: { kind: 'http', status: 500 } }] as const;
    await withEscrow({ seed: 7, faults }, async (escrow) => {
      for (let n = 0; n < 20; n += 1) statuses.push((await open(escrow, `k${n}`)).status);
    });
    return statuses;
  };
  const first = await run();
  assert.deepEqual(await run(), first);
  assert.ok(first.includes(500) && first.includes(201));
});
