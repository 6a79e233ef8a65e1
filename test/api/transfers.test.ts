/*
 * Goal: a partner's bank transfer is made once however often it is asked for, tells its whole life, and is nobody else's.
 * Method: the API by inject and over real sockets, a real database, and a simulated bank behind a real socket whose books,
 * with ours, are the judge.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type BankApi, FEE, FUNDS, makeBankApi } from './bank-world.ts';

let api: BankApi;
before(async () => {
  api = await makeBankApi({ label: 'api_transfers' });
});
after(() => api.end());

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
  assert.deepEqual(await api.balance(), { balance: FUNDS, held: 12_500n + FEE });
  await api.pass();
  api.bank.clock.advance(120_000);
  await api.pass(3);
  const now = (await api.ask('GET', `/v1/transfers/${String(id)}`)).body;
  const [movement] = await api.bank.books.movements();
  assert.ok(movement !== undefined);
  assert.deepEqual([now.status, now.returns, now.repaid_by, now.final_at], ['confirmed', [], null, null]);
  assert.ok(now.bank_id.length > 0);
  assert.deepEqual([now.history[0].state, now.history.at(-1).state], ['PENDING', 'SETTLED']);
  assert.deepEqual(await api.balance(), { balance: FUNDS - 12_500n - FEE, held: 0n });
});
