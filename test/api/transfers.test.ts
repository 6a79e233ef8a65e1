/*
 * Goal: a partner's bank transfer is made once however often it is asked for, tells its whole life, and is nobody else's.
 * Method: the API by inject and over real sockets, a real database, and a simulated bank behind a real socket whose books,
 * with ours, are the judge.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { advanceOnce } from '../../src/engine/advance.ts';
import { watchReleasedOnce } from '../../src/engine/look.ts';
import { type BankApi, FEE, FUNDS, makeBankApi } from './bank-world.ts';

const AMOUNT = 12_500n;

let api: BankApi;
let url: string;
before(async () => {
  api = await makeBankApi({ label: 'api_transfers' });
  url = await api.app.listen({ port: 0, host: '127.0.0.1' });
});
after(() => api.end());

async function settle(one: BankApi = api): Promise<void> {
  await one.pass();
  one.bank.clock.advance(120_000);
  await one.pass(3);
}

// oxlint-disable-next-line typescript/no-explicit-any -- tests read JSON of every shape
async function read(id: unknown, one: BankApi = api): Promise<any> {
  return (await one.ask('GET', `/v1/transfers/${String(id)}`)).body;
}

async function paidOut(one: BankApi = api): Promise<bigint[]> {
  return (await one.bank.books.movements()).filter(({ kind }) => kind === 'out').map(({ amount }) => amount);
}

async function eventsOf(id: unknown, one: BankApi = api): Promise<string[]> {
  const { body } = await one.ask('GET', `/v1/events?subject=${String(id)}&limit=200`);
  return (body.items as { type: string }[]).map(({ type }) => type).reverse();
}

test('a transfer is taken, paid by the bank, and told with what it was and where it is (req T1)', async () => {
  const made = await api.transfer({ memo: '급여', external_id: 'salary-1' });
  assert.equal(made.status, 201, made.text);
  const { id } = made.body;
  assert.equal(made.headers['location'], `/v1/transfers/${String(id)}`);
  assert.deepEqual(
    [made.body.status, made.body.bank_code, made.body.account_number, made.body.holder_name, made.body.memo],
    ['pending', '004', '110-123-0456', '홍길동', '급여'],
  );
  assert.deepEqual([made.body.amount, made.body.fee, made.body.warnings], ['12500', '100', []]);
  assert.deepEqual(await api.balance(), { balance: FUNDS, held: AMOUNT + FEE });
  await settle();
  const now = await read(id);
  assert.deepEqual([now.status, now.returns, now.repaid_by, now.final_at], ['confirmed', [], null, null]);
  assert.ok(now.bank_id.length > 0);
  assert.deepEqual([now.history[0].state, now.history.at(-1).state], ['PENDING', 'SETTLED']);
  assert.deepEqual(await api.balance(), { balance: FUNDS - AMOUNT - FEE, held: 0n });
  assert.deepEqual(await paidOut(), [AMOUNT]);
  assert.deepEqual(await eventsOf(id), ['transfer.created', 'transfer.confirmed']);
});

test('fifty requests at once under one key make one transfer, one movement and one answer (case C4, C11, inv E15)', async () => {
  const before = await paidOut();
  const body = JSON.stringify({
    asset: 'KRW',
    amount: '7',
    bank_code: '004',
    account_number: '0012',
    holder_name: '홍길동',
  });
  const answers = await Promise.all(
    Array.from({ length: 50 }, async () => {
      const answer = await fetch(`${url}/v1/transfers`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${api.key}`,
          'content-type': 'application/json',
          'idempotency-key': 'fifty-to-a-bank',
        },
        body,
      });
      return { status: answer.status, body: (await answer.json()) as { id: string } };
    }),
  );
  assert.equal(answers.filter((one) => one.status === 201).length, 1);
  assert.equal(answers.filter((one) => one.status === 200).length, 49);
  assert.equal(new Set(answers.map((one) => one.body.id)).size, 1);
  await settle();
  assert.deepEqual(await paidOut(), [...before, 7n]);
});

test('reordered fields are the same body; another one is refused, a name in another normal form too (case C8, M5)', async () => {
  const ask = { idempotencyKey: 'one-body' };
  const first = await api.transfer({}, ask);
  assert.equal(first.status, 201);
  const reordered = {
    holder_name: '홍길동',
    account_number: '110-123-0456',
    bank_code: '004',
    amount: '12500',
    asset: 'KRW',
  };
  const again = await api.ask('POST', '/v1/transfers', { ...ask, body: reordered });
  assert.deepEqual([again.status, again.body.id, again.headers['idempotent-replayed']], [200, first.body.id, 'true']);
  for (const other of [
    { amount: '12501' },
    { account_number: '1101230456' },
    { memo: 'x' },
    { holder_name: '홍길동'.normalize('NFD') },
  ]) {
    const { status, body, text } = await api.transfer(other, ask);
    assert.deepEqual([status, body.code, body.money_state], [422, 'PO_KEY_REUSED', 'not_sent'], text);
    assert.deepEqual(body.resource, { type: 'transfer', id: first.body.id });
  }
});

test('a key holds one order of whatever kind, and the refusal names it with where its money is (case C8)', async () => {
  const transfer = await api.transfer({}, { idempotencyKey: 'kinds-1' });
  const withdrawal = await api.pay({}, { idempotencyKey: 'kinds-2' });
  await settle();
  const crossed = [
    [await api.pay({}, { idempotencyKey: 'kinds-1' }), { type: 'transfer', id: transfer.body.id }, 'sent'],
    [await api.transfer({}, { idempotencyKey: 'kinds-2' }), { type: 'withdrawal', id: withdrawal.body.id }, 'not_sent'],
  ] as const;
  for (const [answer, resource, moneyState] of crossed) {
    assert.equal(answer.status, 422, answer.text);
    assert.deepEqual(
      [answer.body.code, answer.body.resource, answer.body.money_state],
      ['PO_KEY_REUSED', resource, moneyState],
    );
  }
});

test('refusals of business are repeated for ever, byte for byte, also when their reason is gone (inv E15)', async () => {
  const failed = await api.transfer({}, { idempotencyKey: 'to-be-cancelled' });
  const id = String(failed.body.id);
  const taken = await api.transfer({ external_id: 'taken-1' });
  const refusals = [
    [{ amount: '5000001' }, 'PO_AMOUNT_OUT_OF_LIMITS', '/amount'],
    [{ external_id: 'taken-1' }, 'PO_EXTERNAL_ID_TAKEN', '/external_id'],
    [{ repays: id }, 'PO_REPAYS_REFUSED', '/repays'],
    [{ repays: 'tr_nobody' }, 'PO_REPAYS_REFUSED', '/repays'],
  ] as const;
  const rows = await api.countRows();
  for (const [index, [fields, code, pointer]] of refusals.entries()) {
    const ask = { idempotencyKey: `refused-${index}` };
    const first = await api.transfer(fields, ask);
    assert.deepEqual([first.body.code, first.body.pointer], [code, pointer], first.text);
    // Of what holds the reference, or is to be paid again, all may have gone.
    const money = index === 0 || index === 3 ? 'not_sent' : 'unknown';
    assert.deepEqual([first.body.money_state, first.headers['idempotent-replayed']], [money, undefined]);
    const second = await api.transfer(fields, ask);
    assert.deepEqual([second.text, second.headers['idempotent-replayed']], [first.text, 'true']);
  }
  assert.deepEqual(await api.countRows(), { ...rows, idempotency_keys: (rows['idempotency_keys'] ?? 0n) + 4n });
  assert.equal((await api.ask('POST', `/v1/transfers/${id}/cancel`)).body.status, 'cancelled');
  const late = await api.transfer({ repays: id }, { idempotencyKey: 'refused-2' });
  assert.deepEqual([late.body.code, late.headers['idempotent-replayed']], ['PO_REPAYS_REFUSED', 'true']);
  assert.equal((await api.transfer({ repays: id })).status, 201, 'under a new key it is paid again');
  assert.equal((await read(taken.body.id)).status, 'pending');
});

test('too little money is refused, stored, and nothing is held', async () => {
  const { balance } = await api.balance(api.otherPartnerId);
  const poor = await makeBankApi({ label: 'api_poor' });
  try {
    await poor.world.pool.query('update payonce.asset_policies set withdrawal_max = 100000000');
    const ask = { idempotencyKey: 'poor' };
    const first = await poor.transfer({ amount: String(FUNDS) }, ask);
    assert.deepEqual([first.status, first.body.code], [422, 'PO_INSUFFICIENT_FUNDS'], first.text);
    assert.match(
      first.body.detail,
      /^The available balance is 10000000 KRW; 10000000 and the fee of 100 need 10000100$/,
    );
    assert.equal((await poor.transfer({ amount: String(FUNDS) }, ask)).text, first.text);
    assert.deepEqual(await poor.balance(), { balance: FUNDS, held: 0n });
  } finally {
    await poor.end();
  }
  assert.deepEqual(await api.balance(api.otherPartnerId), { balance, held: 0n });
});

test('before the seal a cancel gives the whole hold back, as often as it is asked; afterwards it is 409 (case A3)', async () => {
  await settle();
  const { balance, held } = await api.balance();
  assert.equal(held, 0n);
  const id = String((await api.transfer({}, { idempotencyKey: 'cancelled' })).body.id);
  const cancel = (one: string) => api.ask('POST', `/v1/transfers/${one}/cancel`);
  for (let n = 0; n < 3; n += 1)
    assert.deepEqual([(await cancel(id)).status, (await read(id)).status], [200, 'cancelled']);
  assert.deepEqual(await api.balance(), { balance, held: 0n });
  assert.deepEqual(await eventsOf(id), ['transfer.created', 'transfer.cancelled']);
  const again = await api.transfer({}, { idempotencyKey: 'cancelled' });
  assert.deepEqual([again.status, again.body.status], [200, 'cancelled'], 'a replay shows it as it is now');
  const paid = String((await api.transfer()).body.id);
  await settle();
  const late = await cancel(paid);
  assert.deepEqual([late.status, late.body.code, late.body.money_state], [409, 'PO_TOO_LATE', 'sent']);
  assert.deepEqual(late.body.resource, { type: 'transfer', id: paid });
});

test('a cancel and the worker meet: either it is cancelled and never left, or it left and the cancel is 409 (case A3)', async () => {
  const before = (await paidOut()).length;
  const ids: string[] = [];
  for (let n = 0; n < 10; n += 1) ids.push(String((await api.transfer({ amount: '3' })).body.id));
  const [answers] = await Promise.all([
    Promise.all(ids.map((id) => api.ask('POST', `/v1/transfers/${id}/cancel`))),
    advanceOnce(api.world.engine, api.rail),
  ]);
  await settle();
  const cancelled = answers.filter((one) => one.status === 200).length;
  assert.equal(answers.filter((one) => one.status === 409).length, 10 - cancelled);
  assert.equal((await paidOut()).length, before + 10 - cancelled);
});

test('what came back is shown with its fee, flags the payee, and is paid again once by a new transfer, when all of it is back (case M1)', async () => {
  const account = { account_number: '220-987-0001' };
  const id = String((await api.transfer(account)).body.id);
  await settle();
  const { bank_id: bankId } = await read(id);
  const { balance } = await api.balance();
  const given = { units: 5_000n, feeUnits: 500n, reason: 'account closed' };
  api.bank.transfers.giveBack({ id: bankId }, given);
  await api.world.pool.query("update payonce.effects set watch_at = payonce.now() - interval '1 second'");
  await watchReleasedOnce(api.world.engine, api.rail);
  const back = await read(id);
  assert.deepEqual([back.status, back.payee_flagged, back.bank_id], ['returned', true, bankId]);
  assert.deepEqual(
    back.returns.map((one: { amount: string; fee: string }) => [one.amount, one.fee]),
    [['5000', '500']],
  );
  assert.equal((await api.balance()).balance, balance + 4_500n);
  const [event] = (await api.ask('GET', `/v1/events?subject=${id}&type=transfer.returned`)).body.items;
  assert.deepEqual(
    [event.data.status, event.data.returned_amount, event.data.return_fee, event.data.return_id],
    ['returned', '5000', '500', back.returns[0].id],
  );
  const early = await api.transfer({ ...account, repays: id });
  assert.deepEqual([early.status, early.body.code], [422, 'PO_REPAYS_REFUSED']);
  assert.match(early.body.detail, /only a part of it came back/);
  api.bank.transfers.giveBack({ id: bankId }, { units: 7_500n, feeUnits: 0n, reason: 'account closed' });
  await api.world.pool.query("update payonce.effects set watch_at = payonce.now() - interval '1 second'");
  await watchReleasedOnce(api.world.engine, api.rail);
  const next = await api.transfer({ ...account, repays: id });
  assert.deepEqual([next.status, next.body.repays, next.body.payee_flagged], [201, id, true]);
  assert.equal((await read(id)).repaid_by, next.body.id);
  const twice = await api.transfer({ ...account, repays: id });
  assert.match(twice.body.detail, new RegExp(`^This cannot be paid again: ${String(next.body.id)} pays it again`));
  await settle();
});

test('while a no waits to become final the partner sees why, and until when at least; then it failed (req T5, T6)', async () => {
  const one = await makeBankApi({ label: 'api_believed', direct: false, bank: { otherAccounts: 'unknown' } });
  try {
    const id = String((await one.transfer()).body.id);
    await one.pass(2);
    const waiting = await read(id, one);
    assert.equal(waiting.status, 'processing');
    assert.ok(waiting.reason.length > 0);
    assert.ok(Date.parse(waiting.final_at) - Date.parse(waiting.requested_at) >= 30 * 60_000, waiting.final_at);
    const [event] = (await one.ask('GET', `/v1/events?subject=${id}&type=transfer.processing`)).body.items;
    assert.deepEqual([event.data.reason, event.data.final_at], [waiting.reason, waiting.final_at]);
    const late = await one.ask('POST', `/v1/transfers/${id}/cancel`);
    assert.deepEqual([late.status, late.body.money_state], [409, 'unknown']);
    await one.world.pool.query("update payonce.effects set lateness_until = payonce.now() - interval '1 second'");
    await one.pass();
    const failed = await read(id, one);
    assert.deepEqual([failed.status, failed.reason, failed.final_at], ['failed', null, null]);
    assert.deepEqual(await one.balance(), { balance: FUNDS, held: 0n });
    assert.equal((await one.transfer({ repays: id })).status, 201);
  } finally {
    await one.end();
  }
});

test('success is told once it is committed: neither a failing wake-up nor a failing read changes it (case C5, B7)', async () => {
  api.woken.fails = true;
  assert.equal((await api.transfer()).status, 201);
  api.woken.fails = false;
  await api.world.pool.query('alter table payonce.returns rename column reason to reason_away');
  const answer = await api.transfer({ bank_code: '999' }, { idempotencyKey: 'unread-transfer' });
  await api.world.pool.query('alter table payonce.returns rename column reason_away to reason');
  assert.deepEqual([answer.status, answer.body.status, answer.body.warnings.length], [202, 'pending', 1], answer.text);
  const again = await api.transfer({ bank_code: '999' }, { idempotencyKey: 'unread-transfer' });
  assert.deepEqual([again.status, again.body.id, again.body.warnings.length], [200, answer.body.id, 1]);
});

test('the list is read to its end in pages, each transfer once, and filtered; a cursor of another list is refused', async () => {
  const newest: string[] = [];
  for (let n = 0; n < 5; n += 1)
    newest.unshift(String((await api.transfer({ amount: '1', external_id: `list-${n}` })).body.id));
  const seen: string[] = [];
  let next: string | null = null;
  for (let pages = 0; pages < 100 && seen.length < 5; pages += 1) {
    const { body } = await api.ask('GET', `/v1/transfers?limit=2${next === null ? '' : `&cursor=${next}`}`);
    seen.push(...(body.items as { id: string }[]).map(({ id }) => id));
    next = body.next;
    // One that comes meanwhile is on no later page.
    if (pages === 0) await api.transfer({ amount: '1' });
  }
  assert.deepEqual(seen.slice(0, 5), newest);
  const byExternal = (await api.ask('GET', '/v1/transfers?external_id=list-3')).body.items;
  assert.deepEqual([byExternal.length, byExternal[0].id], [1, newest[1]]);
  const returned = (await api.ask('GET', '/v1/transfers?status=returned')).body.items;
  assert.deepEqual(
    returned.map((one: { status: string }) => one.status),
    ['returned'],
  );
  assert.equal((await api.ask('GET', `/v1/withdrawals?cursor=${String(next)}`)).body.pointer, '/query/cursor');
  assert.equal((await api.ask('GET', `/v1/transfers?cursor=${String(next)}`, { key: api.otherKey })).status, 400);
  assert.deepEqual((await api.ask('GET', '/v1/transfers', { key: api.otherKey })).body.items, []);
});
