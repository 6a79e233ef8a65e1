/*
 * Goal: each fault of the simulated bank does to the wire, and leaves in its books, what its name says, and is counted when
 * and only when it did. Method: plain fetch against a real server; the books are asked for what really moved.
 */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, test } from 'node:test';
import { type Bank, type BankOptions, startBank } from '../../sim/bank/bank.ts';
import { netOf } from '../../sim/oracle.ts';
import { ask, outCount, pay, type Reply, written } from './bank-client.ts';

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

test('a refusal is kept under the key or not, as told', async () => {
  for (const stored of [true, false]) {
    const fault = { kind: 'refuse', reason: 'limit', stored } as const;
    const bank = await start({ faults: [{ on: 'create', calls: [1], fault }] });
    assert.equal((await pay(bank, { key: 'a' })).at('code'), 'limit_exceeded');
    assert.equal((await pay(bank, { key: 'a' })).status, stored ? 422 : 201);
    assert.equal(await outCount(bank), stored ? 0 : 1);
  }
});

test('a lying refusal paid, and says so again only where it is kept', async () => {
  for (const stored of [true, false]) {
    const fault = { kind: 'lie', reason: 'account_closed', stored } as const;
    const bank = await start({ faults: [{ on: 'create', calls: [1], fault }] });
    assert.equal((await pay(bank, { key: 'a' })).at('code'), 'account_closed');
    assert.equal(await outCount(bank), 1);
    assert.equal((await pay(bank, { key: 'a' })).status, stored ? 422 : 201);
    assert.equal(await outCount(bank), 1);
    assert.equal(bank.counts.lie, 1);
  }
});

test('a fault that a stored answer made needless is not counted', async () => {
  const bank = await start({ faults: [{ on: 'create', calls: [2], fault: { kind: 'lie', reason: 'limit' } }] });
  await pay(bank, { key: 'a' });
  assert.equal((await pay(bank, { key: 'a' })).status, 201);
  assert.equal(bank.counts.lie, undefined);
});

test('codes and states that stand in no document', async () => {
  const bank = await start({
    faults: [
      { on: 'create', calls: [1], fault: { kind: 'unknown_code', effect: true } },
      { on: 'look', fault: { kind: 'unknown_state' } },
    ],
  });
  assert.equal((await pay(bank, { key: 'a' })).at('code'), 'settlement_vector_misaligned');
  assert.equal(await outCount(bank), 1);
  const seen = await ask(bank, 'GET', '/v1/transfers?idempotency_key=a');
  assert.equal(seen.at('data', 0, 'status'), 'UNDER_LUNAR_REVIEW');
});

test("an answer speaks of another transfer's key, amount or account, once, while the books stay right", async () => {
  const fields = ['key', 'reference', 'amount', 'currency', 'destination'] as const;
  for (const field of fields) {
    const fault = { kind: 'other_transfer', fields: [field] } as const;
    const bank = await start({ faults: [{ on: 'create', calls: [1], fault }] });
    const told = await pay(bank, { key: 'a' });
    const right = await pay(bank, { key: 'a' });
    const paths = {
      key: ['idempotency_key'],
      reference: ['reference'],
      amount: ['amount', 'value'],
      currency: ['amount', 'currency'],
      destination: ['creditor', 'account_number'],
    };
    const path = paths[field];
    assert.notEqual(told.at(...path), right.at(...path), field);
    assert.equal(right.at('reference'), 'ref-a');
    assert.equal(bank.counts.other_transfer, 1);
  }
});

test('409 in all its meanings', async () => {
  const meanings = ['in_progress', 'done', 'other_body', 'new_key'] as const;
  const seen = new Map<string, Reply>();
  for (const meaning of meanings) {
    const bank = await start({ faults: [{ on: 'create', calls: [1], fault: { kind: 'conflict', meaning } }] });
    const reply = await pay(bank, { key: 'a' });
    assert.equal(reply.status, 409);
    assert.equal(await outCount(bank), meaning === 'done' ? 1 : 0);
    assert.equal(bank.counts[`conflict_${meaning}`], 1);
    seen.set(meaning, reply);
  }
  assert.equal(seen.get('done')?.at('reference'), 'ref-a');
  assert.equal(new Set([...seen.values()].map(({ text }) => text)).size, meanings.length);
});

test('look-ups lag, and flap by ordinal, while the thing is there (case B3)', async () => {
  const bank = await start({
    clock: { start: '2026-11-30T00:00:00Z', ticking: false },
    faults: [
      { on: 'create', fault: { kind: 'lag', ms: 90_000 } },
      { on: 'look', calls: [3], fault: { kind: 'blind' } },
    ],
  });
  const id = (await pay(bank, { key: 'a' })).text.match(/"id":"(trf_\w+)"/)?.[1] ?? '';
  const look = async (): Promise<number> => (await ask(bank, 'GET', `/v1/transfers/${id}`)).status;
  assert.equal(await look(), 404);
  bank.clock.advance(90_000);
  assert.deepEqual([await look(), await look(), await look()], [200, 404, 200]);
  assert.deepEqual([bank.counts.lag, bank.counts.blind], [1, 1]);
});

test('a key forgotten before its time pays again', async () => {
  const bank = await start({ faults: [{ on: 'create', calls: [2], fault: { kind: 'forget_key' } }] });
  await pay(bank, { key: 'a' });
  await pay(bank, { key: 'a' });
  assert.equal(await outCount(bank), 2);
  assert.equal(bank.counts.forget_key, 1);
});

test('a balance looked at before the key refuses what was already paid (req T12)', async () => {
  const bank = await start({
    balance: 2_000n,
    faults: [{ on: 'create', calls: [2], fault: { kind: 'balance_first' } }],
  });
  assert.equal((await pay(bank, { key: 'a' })).status, 201);
  assert.equal((await pay(bank, { key: 'a' })).at('code'), 'insufficient_funds');
  assert.equal((await pay(bank, { key: 'a' })).status, 201);
  assert.equal(await outCount(bank), 1);
  assert.equal(bank.counts.balance_first, 1);
});

test('the same payment is refused for want of money, and after a top-up as the key keeps it', async () => {
  for (const keeps of ['all', 'successes'] as const) {
    const bank = await start({ balance: 0n, behave: { keeps } });
    assert.equal((await pay(bank, { key: 'a' })).at('code'), 'insufficient_funds');
    bank.balance.set(5_000n);
    assert.equal((await pay(bank, { key: 'a' })).status, keeps === 'all' ? 422 : 201);
  }
});

test('money comes back later, in part and less a fee, and the list may name it twice (case M1)', async () => {
  const fault = { kind: 'return_later', ms: 7 * 24 * HOUR_MS, units: 1_000n, feeUnits: 30n, reports: 2 } as const;
  const bank = await start({ balance: 10_000n, faults: [{ on: 'create', fault }] });
  const id = (await pay(bank, { key: 'a' })).text.match(/"id":"(trf_\w+)"/)?.[1] ?? '';
  await until(async () => (await ask(bank, 'GET', `/v1/transfers/${id}`)).at('status') === 'completed');
  bank.clock.advance(7 * 24 * HOUR_MS);
  const seen = await ask(bank, 'GET', `/v1/transfers/${id}`);
  assert.equal(seen.at('status'), 'returned');
  assert.deepEqual(
    [seen.at('returns', 0, 'amount', 'value'), seen.at('returns', 1, 'amount', 'value')],
    ['970', '970'],
  );
  assert.equal(seen.at('returns', 0, 'id'), seen.at('returns', 1, 'id'));
  const moves = await bank.books.movements();
  assert.deepEqual(
    moves.map(({ kind, amount, returned }) => [kind, amount, returned]),
    [
      ['out', 1_500n, 'partly'],
      ['return', 970n, 'partly'],
    ],
  );
  assert.equal(10_000n + netOf(moves, await bank.books.costs(), bank.accounts.own, 'KRW'), bank.balance.get());
  bank.transfers.giveBack({ key: 'a' });
  assert.equal((await bank.books.movements())[0]?.returned, 'fully');
  assert.throws(() => bank.transfers.giveBack({ key: 'a' }), /0 left to come back/);
});

test('what failed before it left is no movement', async () => {
  const bank = await start({ balance: 9_000n, faults: [{ on: 'create', fault: { kind: 'fail_later', ms: 60_000 } }] });
  await pay(bank, { key: 'a' });
  assert.equal(await outCount(bank), 1);
  bank.clock.advance(60_000);
  assert.equal(await outCount(bank), 0);
  assert.equal(bank.balance.get(), 9_000n);
  assert.equal((await ask(bank, 'GET', '/v1/transfers?idempotency_key=a')).at('data', 0, 'status'), 'failed');
});

test('in the maintenance window, over midnight in Korea, all is 503', async () => {
  const bank = await start({
    clock: { start: '2026-11-30T14:29:00Z', ticking: false },
    faults: [{ fault: { kind: 'maintenance' } }],
  });
  const statuses: number[] = [];
  for (const time of ['14:29', '14:30', '15:29', '15:30']) {
    bank.clock.set(`2026-11-30T${time}:00Z`);
    statuses.push((await pay(bank, { key: time })).status);
  }
  assert.deepEqual(statuses, [201, 503, 503, 201]);
  assert.equal(bank.counts.maintenance, 2);
});

test('a rotated credential is refused before the key, the new one finds the key again', async () => {
  const bank = await start();
  const old = bank.credentials.current();
  await pay(bank, { key: 'a' });
  bank.credentials.rotate();
  assert.equal((await pay(bank, { key: 'a' }, { secret: old })).status, 401);
  assert.equal((await pay(bank, { key: 'a' })).status, 201);
  assert.equal(await outCount(bank), 1);
  assert.equal(bank.counts.stale_credential, 1);
});

test('a stopped server takes requests in and executes them when it wakes, also of clients long gone', async () => {
  const bank = await start();
  bank.pause();
  await lost(pay(bank, { key: 'a' }, { waitMs: 100 }));
  const patient = pay(bank, { key: 'b' });
  await sleep(50);
  assert.equal(await outCount(bank), 0);
  bank.resume();
  assert.equal((await patient).status, 201);
  await until(async () => (await outCount(bank)) === 2);
  assert.equal(bank.counts.executed_for_nobody, 1);
});

test('a bank that is down refuses connections, and comes up on the same port', async () => {
  const bank = await start();
  await bank.down();
  const refused = new Promise<string>((resolve) => {
    connect(bank.port, '127.0.0.1').once('error', (error: Error & { code?: string }) => resolve(error.code ?? ''));
  });
  assert.equal(await refused, 'ECONNREFUSED');
  await bank.up();
  assert.equal((await pay(bank, { key: 'a' })).status, 201);
});

test('closed and unknown accounts are refused, others exist', async () => {
  const bank = await start({ otherAccounts: 'unknown', accounts: [{ bankCode: '088', accountNumber: '0012345678' }] });
  assert.equal((await pay(bank, { key: 'a' })).status, 201);
  assert.equal((await pay(bank, { key: 'b', account: '777777' })).at('code'), 'account_not_found');
  bank.accounts.close('0012345678');
  assert.equal((await pay(bank, { key: 'c' })).at('code'), 'account_closed');
});

test('chances come from the seed: two banks with one seed are hit alike', async () => {
  const pattern = async (seed: number): Promise<string> => {
    const bank = await start({ seed, faults: [{ on: 'create', chance: 0.5, fault: { kind: 'http', status: 502 } }] });
    let hits = '';
    for (let round = 0; round < 16; round += 1)
      hits += (await pay(bank, { key: `k${round}` })).status === 502 ? 'x' : '.';
    return hits;
  };
  const [one, same, other] = [await pattern(1), await pattern(1), await pattern(2)];
  assert.equal(one, same);
  assert.notEqual(one, other);
  assert.match(one, /x/);
});

test('a script is withdrawn by its own function, all of them by heal; counters and books stay', async () => {
  const bank = await start();
  const withdraw = bank.script({ on: 'create', fault: { kind: 'http', status: 503 } });
  assert.equal((await pay(bank, { key: 'a' })).status, 503);
  withdraw();
  assert.equal((await pay(bank, { key: 'a' })).status, 201);
  bank.script({ fault: { kind: 'http', status: 503 } });
  bank.heal();
  assert.equal((await pay(bank, { key: 'b' })).status, 201);
  assert.equal(bank.counts.http_503, 1);
  assert.deepEqual({ ...bank.calls }, { create: 3, look: 0, other: 0 });
});

test('an amount beyond 2^53 is kept as it was written', async () => {
  const bank = await start({ profile: 'increase', balance: 10n ** 20n });
  const { path, body, headers } = written(bank, { key: 'a', amount: 1n });
  const big = body.replace('"amount":1,', '"amount":90071992547409931,');
  const reply = await ask(bank, 'POST', path, { body: big, headers });
  assert.match(reply.text, /"amount":90071992547409931,/);
  assert.equal((await bank.books.movements())[0]?.amount, 90_071_992_547_409_931n);
});
