/*
 * Goal: each provider that the simulated bank plays does what its document says about keys, bodies, refusals, scope,
 * retention, look-ups, states and returns. Method: plain fetch by real sockets, time moved on the bank's own clock.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, test } from 'node:test';
import { type Bank, type BankOptions, startBank } from '../../sim/bank/bank.ts';
import type { ProfileName } from '../../sim/bank/profile.ts';
import { encryptJwe } from '../../sim/bank/jwe.ts';
import { ask, outCount, pay, type Reply, written } from './bank-client.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const NAMES = ['generic', 'toss', 'stripe', 'increase', 'modern-treasury', 'paypal-payouts', 'unkeyed'] as const;
const running: Bank[] = [];

async function start(profile: ProfileName, options: Partial<BankOptions> = {}): Promise<Bank> {
  const bank = await startBank({ profile, ...options });
  running.push(bank);
  return bank;
}

afterEach(async () => {
  for (const bank of running.splice(0)) await bank.stop();
});

/** The second of two requests at once, while the first is in progress. */
async function secondOfTwo(bank: Bank): Promise<Reply> {
  bank.script({ on: 'create', hitsMax: 1, fault: { kind: 'slow', ms: 150 } });
  const first = pay(bank, { key: 'slow' });
  while (bank.counts.slow !== 1) await sleep(5);
  const second = await pay(bank, { key: 'slow' });
  await first;
  return second;
}

type Facts = {
  same: number;
  other: number;
  inProgress: number;
  /** After this long the same request pays again. `null`: never. */
  retentionMs: number | null;
  keepsRefusals: boolean;
  /** A new credential finds the old one's keys. */
  acrossCredentials: boolean;
  noMoney: [status: number, word: string];
};

const FACTS: Record<Exclude<ProfileName, 'unkeyed'>, Facts> = {
  generic: {
    same: 201,
    other: 422,
    inProgress: 409,
    retentionMs: DAY_MS,
    keepsRefusals: true,
    acrossCredentials: true,
    noMoney: [422, 'insufficient_funds'],
  },
  toss: {
    same: 200,
    other: 200,
    inProgress: 409,
    retentionMs: 15 * DAY_MS,
    keepsRefusals: true,
    acrossCredentials: false,
    noMoney: [400, 'INSUFFICIENT_AVAILABLE_BALANCE'],
  },
  stripe: {
    same: 200,
    other: 400,
    inProgress: 409,
    retentionMs: DAY_MS,
    keepsRefusals: true,
    acrossCredentials: true,
    noMoney: [400, 'balance_insufficient'],
  },
  increase: {
    same: 200,
    other: 409,
    inProgress: 409,
    retentionMs: null,
    keepsRefusals: false,
    acrossCredentials: true,
    noMoney: [409, 'invalid_operation_error'],
  },
  'modern-treasury': {
    same: 201,
    other: 201,
    inProgress: 409,
    retentionMs: DAY_MS,
    keepsRefusals: false,
    acrossCredentials: false,
    noMoney: [422, 'insufficient_balance'],
  },
  'paypal-payouts': {
    same: 400,
    other: 400,
    inProgress: 400,
    retentionMs: 30 * DAY_MS,
    keepsRefusals: false,
    acrossCredentials: true,
    noMoney: [422, 'INSUFFICIENT_FUNDS'],
  },
};

for (const [name, facts] of Object.entries(FACTS) as [Exclude<ProfileName, 'unkeyed'>, Facts][]) {
  test(`${name}: one key is one payment, whatever is asked again inside its retention`, async () => {
    const bank = await start(name, { clock: { start: '2026-11-30T00:00:00Z', ticking: false } });
    assert.ok((await pay(bank, { key: 'a' })).status < 300);
    assert.equal((await pay(bank, { key: 'a' })).status, facts.same);
    assert.equal((await pay(bank, { key: 'a', amount: 7_700n })).status, facts.other);
    assert.equal(await outCount(bank), 1);
    bank.clock.advance((facts.retentionMs ?? 400 * DAY_MS) - 1);
    assert.equal((await pay(bank, { key: 'a' })).status, facts.same);
    assert.equal(await outCount(bank), 1);
    bank.clock.advance(1);
    await pay(bank, { key: 'a' });
    assert.equal(await outCount(bank), facts.retentionMs === null ? 1 : 2, 'after retention the key is new (case C3)');
  });

  test(`${name}: the second of two requests at once is refused and pays nothing`, async () => {
    const bank = await start(name);
    assert.equal((await secondOfTwo(bank)).status, facts.inProgress);
    assert.equal(await outCount(bank), 1);
  });

  test(`${name}: want of money is refused, and ${facts.keepsRefusals ? 'stays so under the key' : 'pays after a top-up'}`, async () => {
    const bank = await start(name, { balance: 0n });
    const [status, word] = facts.noMoney;
    const refused = await pay(bank, { key: 'a' });
    assert.equal(refused.status, status);
    assert.ok(refused.text.includes(word), refused.text);
    bank.balance.set(1_000_000n);
    assert.equal((await pay(bank, { key: 'a' })).status < 300, !facts.keepsRefusals);
    assert.equal(await outCount(bank), facts.keepsRefusals ? 0 : 1);
  });

  test(`${name}: a new credential ${facts.acrossCredentials ? 'finds the old keys' : 'pays again under an old key'}`, async () => {
    const bank = await start(name);
    const old = bank.credentials.current();
    await pay(bank, { key: 'a' });
    bank.credentials.rotate();
    assert.equal((await pay(bank, { key: 'a' }, { secret: old })).status, 401);
    await pay(bank, { key: 'a' });
    assert.equal(await outCount(bank), facts.acrossCredentials ? 1 : 2);
  });
}

for (const name of NAMES) {
  test(`${name}: each fault leaves one movement or none, and is counted`, async () => {
    const faults = [
      [{ kind: 'lose_answer' }, 1],
      [{ kind: 'lose_request' }, 0],
      [{ kind: 'lie', reason: 'account_closed' }, 1],
      [{ kind: 'refuse', reason: 'limit' }, 0],
      [{ kind: 'http', status: 500, effect: true }, 1],
      [{ kind: 'garble', how: 'html' }, 1],
      [{ kind: 'unknown_code' }, 0],
      [{ kind: 'conflict', meaning: 'in_progress' }, 0],
      [{ kind: 'other_transfer', fields: ['amount', 'reference'] }, 1],
      [{ kind: 'unknown_state' }, 1],
    ] as const;
    const bank = await start(name);
    for (const [place, [fault, moved]] of faults.entries()) {
      const withdraw = bank.script({ on: 'create', fault });
      const before = await outCount(bank);
      await pay(bank, { key: `k${place}` }).catch(() => null);
      assert.equal((await outCount(bank)) - before, moved, fault.kind);
      withdraw();
    }
    const fired = Object.values(bank.counts).reduce<number>((sum, count) => sum + (count ?? 0), 0);
    assert.equal(fired, faults.length);
  });

  test(`${name}: the books name key, reference, account, amount and what came back`, async () => {
    const bank = await start(name, { balance: 10_000n, settleMs: null });
    bank.accounts.add({ bankCode: '020', accountNumber: '555', handle: 'seller_0012345678' });
    await pay(bank, { key: 'a', reference: 'r-1' });
    const [only] = await bank.books.movements();
    assert.equal(only?.amount, 1_500n);
    assert.equal(only.key, name === 'unkeyed' ? null : 'a');
    assert.equal(only.reference, name === 'increase' ? 'a' : 'r-1');
    assert.match(only.to, /0012345678|020:555/);
    assert.equal(only.final, false);
    bank.transfers.giveBack({}, { feeUnits: 100n });
    const [out, back] = await bank.books.movements();
    assert.deepEqual([out?.returned, out?.final, back?.amount, back?.kind], ['fully', true, 1_400n, 'return']);
    assert.equal(bank.balance.get(), 9_900n);
  });

  test(`${name}: a transfer goes through its states by itself, or fails before it left`, async () => {
    const bank = await start(name, { settleMs: 1_000, clock: { start: '2026-11-30T00:00:00Z', ticking: false } });
    await pay(bank, { key: 'a' });
    const { state } = bank.transfers.find({});
    bank.clock.advance(60_000);
    assert.notEqual(bank.transfers.find({}).state, state);
    assert.equal(bank.transfers.find({}).standing, 'final');
    assert.throws(() => bank.transfers.fail({}), /has left already/);
  });
}

test('generic: the key is a quoted string, and missing or bare it is refused (IETF draft)', async () => {
  const bank = await start('generic');
  const { path, body, headers } = written(bank, { key: 'a' });
  for (const key of ['a', '', '"a']) {
    const reply = await ask(bank, 'POST', path, { body, headers: { ...headers, 'idempotency-key': key } });
    assert.equal(reply.status, 400);
    assert.equal(reply.headers.get('content-type'), 'application/problem+json');
  }
  assert.equal(await outCount(bank), 0);
});

test('generic: re-ordered JSON is the same body, unless the bank compares bytes', async () => {
  for (const [compares, status] of [
    ['canonical', 201],
    ['raw', 422],
  ] as const) {
    const bank = await start('generic', { behave: { compares } });
    const { path, body, headers } = written(bank, { key: 'a' });
    const turned = JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(body) as object).toReversed()));
    await ask(bank, 'POST', path, { body, headers });
    assert.equal((await ask(bank, 'POST', path, { body: turned, headers })).status, status);
  }
});

test('generic: bad bank codes, accounts and amounts are refused as they stand', async () => {
  const bank = await start('generic');
  for (const bad of [{ bankCode: '' }, { account: '110-123-456' }, { account: '1.1E+11' }, { amount: 0n }]) {
    assert.equal((await pay(bank, { key: JSON.stringify(bad, (_n, v: unknown) => String(v)), ...bad })).status, 400);
  }
});

test('toss: bodies are encrypted both ways, and a nonce works once', async () => {
  const bank = await start('toss');
  const reply = await pay(bank, { key: 'a' });
  assert.equal(reply.text.split('.').length, 5);
  assert.equal(reply.at('entityBody', 'items', 0, 'refPayoutId'), 'ref-a');
  assert.equal(reply.at('entityBody', 'items', 0, 'status'), 'REQUESTED');

  const once = written(bank, { key: 'b' });
  assert.equal((await ask(bank, 'POST', once.path, once)).status, 200);
  assert.equal((await ask(bank, 'POST', once.path, once)).status, 400);
  assert.equal(bank.counts.nonce_reused, 1);

  const foreign = encryptJwe('[]', Buffer.alloc(32, 1), { iat: '2026-11-30T09:00:00+09:00', nonce: randomUUID() });
  assert.equal((await ask(bank, 'POST', once.path, { ...once, body: foreign })).at('code'), 'INVALID_REQUEST');
});

test('toss: without encryption plain JSON goes both ways', async () => {
  const bank = await start('toss', { encryption: false });
  assert.equal(bank.securityKey, null);
  assert.equal((await pay(bank, { key: 'a' })).at('entityBody', 'items', 0, 'amount', 'value'), 1_500n);
});

test('toss: another body under the key gets the first payment as its own success', async () => {
  const bank = await start('toss');
  await pay(bank, { key: 'a' });
  const other = await pay(bank, { key: 'a', reference: 'another', amount: 9n });
  assert.equal(other.at('entityBody', 'items', 0, 'refPayoutId'), 'ref-a');
  assert.equal(other.at('entityBody', 'items', 0, 'amount', 'value'), 1_500n);
});

test('toss: in progress and too long keys have their codes, and the list finds refPayoutId page by page', async () => {
  const bank = await start('toss');
  assert.equal((await secondOfTwo(bank)).at('code'), 'IDEMPOTENT_REQUEST_PROCESSING');
  assert.equal((await pay(bank, { key: 'k'.repeat(301) })).at('code'), 'INVALID_IDEMPOTENCY_KEY');
  await pay(bank, { key: 'b' });
  await pay(bank, { key: 'c' });
  const seen: unknown[] = [];
  let cursor = '';
  for (;;) {
    const page = await ask(bank, 'GET', `/v2/payouts?limit=2${cursor}`);
    seen.push(page.at('entityBody', 'items', 0, 'refPayoutId'), page.at('entityBody', 'items', 1, 'refPayoutId'));
    if (page.at('entityBody', 'hasNext') !== true) break;
    cursor = `&startingAfter=${page.text.match(/"lastCursor":"(\w+)"/)?.[1] ?? ''}`;
  }
  assert.deepEqual(seen, ['ref-c', 'ref-b', 'ref-slow', null]);
});

test('toss: a seller that nobody registered is refused where the bank asks its directory', async () => {
  const bank = await start('toss', { otherAccounts: 'unknown' });
  assert.equal((await pay(bank, { key: 'a' })).at('code'), 'NOT_FOUND_SELLER');
});

test('stripe: validation is not kept, the mismatch has its type, replays are marked and frozen', async () => {
  const bank = await start('stripe', { settleMs: null });
  const { path, headers } = written(bank, { key: 'a' });
  const bad = await ask(bank, 'POST', path, { headers, body: 'amount=-5&currency=usd' });
  assert.deepEqual([bad.status, bad.at('error', 'param')], [400, 'amount']);
  assert.equal((await pay(bank, { key: 'a' })).at('status'), 'pending');
  assert.equal((await pay(bank, { key: 'a', amount: 3n })).at('error', 'type'), 'idempotency_error');
  bank.transfers.moveTo({ key: 'a' }, 'in_transit');
  const again = await pay(bank, { key: 'a' });
  assert.equal(again.headers.get('idempotent-replayed'), 'true');
  assert.equal(again.at('status'), 'pending');
});

test('stripe: the same key on transfers is a mismatch, and payouts are listed newest first with their metadata', async () => {
  const bank = await start('stripe');
  await pay(bank, { key: 'a' });
  await pay(bank, { key: 'b' });
  assert.equal((await pay(bank, { key: 'a' }, { path: '/v1/transfers' })).at('error', 'type'), 'idempotency_error');
  const list = await ask(bank, 'GET', '/v1/payouts?limit=1');
  assert.deepEqual([list.at('data', 0, 'metadata', 'ref'), list.at('has_more')], ['ref-b', true]);
  const transfer = await pay(bank, { key: 'c' }, { path: '/v1/transfers' });
  assert.deepEqual([transfer.at('object'), transfer.at('amount_reversed')], ['transfer', 0n]);
});

test('stripe: paid becomes failed, and the balance transaction says what came back (case M1)', async () => {
  const bank = await start('stripe', { settleMs: null });
  const id = (await pay(bank, { key: 'a' })).text.match(/"id":"(po_\w+)"/)?.[1] ?? '';
  bank.transfers.moveTo({ key: 'a' }, 'paid', true);
  bank.transfers.giveBack({ key: 'a' }, { feeUnits: 50n });
  const seen = await ask(bank, 'GET', `/v1/payouts/${id}`);
  assert.deepEqual([seen.at('status'), seen.at('failure_code')], ['failed', 'account_closed']);
  const transaction = seen.text.match(/"failure_balance_transaction":"(\w+)"/)?.[1] ?? '';
  const money = await ask(bank, 'GET', `/v1/balance_transactions/${transaction}`);
  assert.deepEqual([money.at('amount'), money.at('fee'), money.at('net')], [1_500n, 50n, 1_450n]);
});

test('increase: replays show the object as it is now, other content names the object, lists filter by key', async () => {
  const bank = await start('increase', { settleMs: null });
  const first = await pay(bank, { key: 'a' });
  bank.transfers.moveTo({ key: 'a' }, 'submitted', true);
  const again = await pay(bank, { key: 'a' });
  assert.equal(again.headers.get('idempotent-replayed'), 'true');
  assert.equal(again.at('status'), 'submitted');
  const other = await pay(bank, { key: 'a', amount: 2n });
  assert.deepEqual(
    [other.status, other.at('type'), other.at('resource_id')],
    [409, 'idempotency_key_already_used_error', first.at('id')],
  );
  await pay(bank, { key: 'b' });
  const list = await ask(bank, 'GET', '/ach_transfers?idempotency_key=a');
  assert.deepEqual([list.at('data', 0, 'id'), list.at('data', 1)], [first.at('id'), null]);
  bank.transfers.giveBack({ key: 'a' });
  assert.equal((await ask(bank, 'GET', '/ach_transfers?idempotency_key=a')).at('data', 0, 'status'), 'returned');
});

test('modern-treasury: one space of keys for all routes, the first echoed on any of them', async () => {
  const bank = await start('modern-treasury');
  const first = await pay(bank, { key: 'a' });
  const elsewhere = await pay(bank, { key: 'a' }, { path: '/api/payment_orders/create_async' });
  assert.deepEqual([elsewhere.status, elsewhere.at('id')], [201, first.at('id')]);
  assert.equal(await outCount(bank), 1);
  assert.equal((await pay(bank, { key: 'b' }, { path: '/api/payment_orders/create_async' })).status, 202);
  const found = await ask(bank, 'GET', '/api/payment_orders?metadata%5Bref%5D=ref-a');
  assert.deepEqual([found.at(0, 'id'), found.at(1)], [first.at('id'), null]);
});

test('modern-treasury: a return names itself and its amount', async () => {
  const bank = await start('modern-treasury', { settleMs: null });
  await pay(bank, { key: 'a' });
  const { id } = bank.transfers.giveBack({ key: 'a' });
  const found = await ask(bank, 'GET', '/api/payment_orders?metadata%5Bref%5D=ref-a');
  assert.deepEqual([found.at(0, 'status'), found.at(0, 'current_return', 'id')], ['returned', id]);
});

test('paypal-payouts: a duplicate names the first batch by a link that can be followed', async () => {
  const bank = await start('paypal-payouts');
  const first = await pay(bank, { key: 'a' });
  const again = await pay(bank, { key: 'a' });
  assert.equal(again.at('name'), 'USER_BUSINESS_ERROR');
  const link = again.at('details', 0, 'link', 0, 'href');
  assert.ok(typeof link === 'string' && link.startsWith(bank.url));
  const found = await ask(bank, 'GET', new URL(link).pathname);
  assert.equal(found.at('batch_header', 'payout_batch_id'), first.at('batch_header', 'payout_batch_id'));
  assert.equal(found.at('items', 0, 'payout_item', 'sender_item_id'), 'ref-a');
  assert.equal(found.at('items', 0, 'payout_item', 'amount', 'value'), '15.00');
});

test('paypal-payouts: one bad item refuses all of the batch, and each item has its own fate (cases I7, M6, M7)', async () => {
  const bank = await start('paypal-payouts', { settleMs: null });
  const item = (reference: string, value: string) => ({
    recipient_type: 'EMAIL',
    receiver: `${reference}@example.com`,
    sender_item_id: reference,
    amount: { value, currency: 'USD' },
  });
  const send = async (items: unknown[]): Promise<Reply> =>
    ask(bank, 'POST', '/v1/payments/payouts', {
      body: JSON.stringify({ sender_batch_header: { sender_batch_id: 'batch' }, items }),
    });
  const states = ['SUCCESS', 'FAILED', 'RETURNED', 'UNCLAIMED', 'ONHOLD', 'BLOCKED', 'REFUNDED', 'REVERSED', 'PENDING'];
  const items = states.map((state) => item(state.toLowerCase(), '1.00'));
  const refused = await send([...items, item('bad', '1.001')]);
  assert.deepEqual([refused.at('name'), refused.at('details', 0, 'field')], ['VALIDATION_ERROR', 'items[9].amount']);
  assert.equal(await outCount(bank), 0);

  const made = await send(items);
  assert.equal(made.at('batch_header', 'batch_status'), 'PENDING');
  for (const state of states) {
    const which = { reference: state.toLowerCase() };
    if (state === 'FAILED') bank.transfers.fail(which);
    else if (['RETURNED', 'REFUNDED', 'REVERSED'].includes(state)) bank.transfers.giveBack(which, { state });
    else bank.transfers.moveTo(which, state, state === 'SUCCESS');
  }
  const id = made.text.match(/"payout_batch_id":"(\w+)"/)?.[1] ?? '';
  const seen = await ask(bank, 'GET', `/v1/payments/payouts/${id}`);
  assert.deepEqual(
    states.map((_state, place) => seen.at('items', place, 'transaction_status')),
    states,
  );
  assert.equal(await outCount(bank), states.length - 1);
});

test('paypal-payouts: a token bought with the secret is good until the secret is rotated', async () => {
  const bank = await start('paypal-payouts');
  const authorization = `Basic ${Buffer.from(`client:${bank.credentials.current()}`).toString('base64')}`;
  const token = (await ask(bank, 'POST', '/v1/oauth2/token', { headers: { authorization } })).at('access_token');
  assert.ok(typeof token === 'string');
  assert.equal((await pay(bank, { key: 'a' }, { secret: token })).status, 201);
  bank.credentials.rotate();
  assert.equal((await pay(bank, { key: 'a' }, { secret: token })).status, 401);
});

test('unkeyed: the same reference pays again, and is found only after the lag (cases B15, B3)', async () => {
  const bank = await start('unkeyed', { clock: { start: '2026-11-30T00:00:00Z', ticking: false } });
  await pay(bank, { key: 'x', reference: 'r' });
  await pay(bank, { key: 'x', reference: 'r' });
  assert.equal(await outCount(bank), 2);
  const look = async (): Promise<Reply> => ask(bank, 'GET', '/transfers?reference=r');
  assert.equal((await look()).at('transfers', 0), null);
  bank.clock.advance(90_000);
  const found = await look();
  assert.deepEqual([found.at('transfers', 0, 'reference'), found.at('transfers', 1, 'reference')], ['r', 'r']);
});
