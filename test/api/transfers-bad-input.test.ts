/*
 * Goal: what a bank would cut, round, replace or refuse is refused before anything is stored, with the field, what was got
 * and what is expected; what is only odd is taken with a warning; nothing is changed but a name's normal form. Method: each
 * line of the tables is sent to a real server over a real database under the rules of the profile generic, and the rows of
 * every table that a request could write are counted before and after. What is taken is read at the bank.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Answer } from './api-world.ts';
import { type BankApi, KRW, makeBankApi } from './bank-world.ts';

let api: BankApi;
before(async () => {
  api = await makeBankApi({ label: 'transfers_bad_input' });
});
after(() => api.end());

type Wrong = readonly [what: string, value: unknown, got: string, expected: RegExp];

async function assertRefused(field: string, code: string, [what, value, got, expected]: Wrong): Promise<void> {
  const rows = await api.countRows();
  const { status, body, text } = await api.transfer({ [field]: value });
  assert.deepEqual([status, body.code, body.pointer], [400, code, `/${field}`], `${what}: ${text}`);
  assert.equal(body.got, got, what);
  assert.match(body.expected, expected, what);
  assert.equal(body.money_state, 'not_sent', what);
  assert.match(body.hint, /same key|as text/, what);
  assert.deepEqual(await api.countRows(), rows, `${what} wrote something`);
}

const text = (what: string, value: string, expected: RegExp): Wrong => [what, value, value, expected];
const digits = /^the account number as text: digits, with dashes/;

const ACCOUNTS: Wrong[] = [
  text('letters', '110-ABC-0456', digits),
  text('spaces', '110 123 0456', digits),
  text('a blank at the end', '1101230456 ', digits),
  text('a line break', '1101230456\n', digits),
  text('full-width digits', '１１０１２３', digits),
  text('a sign', '+1101230456', digits),
  text('dashes at the end', '110-123-', digits),
  text('nothing', '', digits),
  text('too many digits', '1'.repeat(35), digits),
  text('a point', '110.123', digits),
  text('what a spreadsheet made of it', '1.1E+11', /as text; a spreadsheet has turned this one into a rounded number/),
  text('the same with a comma', '1,1E+11', /spreadsheet/),
  text('the same in small letters', '1e11', /spreadsheet/),
];

test('an account number that is no longer what the bank printed is refused, never mended (case M5)', async () => {
  for (const wrong of ACCOUNTS) await assertRefused('account_number', 'PO_PAYEE_INVALID', wrong);
});

test('a JSON number in place of a text has lost what it was: refused, with the hint to send it as text (case M5, K3)', async () => {
  const asText = /as text in quotes/;
  await assertRefused('account_number', 'PO_REQUEST_INVALID', ['digits', 1101230456, 'the number 1101230456', asText]);
  await assertRefused('bank_code', 'PO_REQUEST_INVALID', ['a bank code', 4, 'the number 4', asText]);
  await assertRefused('holder_name', 'PO_REQUEST_INVALID', ['null', null, 'null', asText]);
  await assertRefused('memo', 'PO_REQUEST_INVALID', ['a list', ['a'], 'the array ["a"]', asText]);
  await assertRefused('amount', 'PO_AMOUNT_INVALID', ['an amount', 12500, 'the number 12500', /text in quotes/]);
  const raw = '{"asset":"KRW","amount":"1","bank_code":"004","account_number":1.1E+11,"holder_name":"홍길동"}';
  const { body } = await api.transfer({}, { raw, idempotencyKey: 'exponent' });
  assert.deepEqual([body.pointer, body.got], ['/account_number', 'the number 110000000000']);
});

test('an amount that the currency cannot carry is refused, never rounded (case K6)', async () => {
  await assertRefused('amount', 'PO_AMOUNT_INVALID', text('half a won', '0.5', /at most 0 digits after the point/));
  await assertRefused('amount', 'PO_AMOUNT_INVALID', text('with points', '12500.0', /at most 0 digits/));
  await assertRefused('amount', 'PO_AMOUNT_INVALID', text('with commas', '12,500', /no sign, exponent/));
  await assertRefused('amount', 'PO_AMOUNT_INVALID', text('a spreadsheet’s', '1.25E+4', /no sign, exponent/));
  await assertRefused('amount', 'PO_AMOUNT_INVALID', text('full-width', '１２５００', /no sign/));
  await assertRefused('amount', 'PO_AMOUNT_INVALID', text('nothing', '0', /more than zero/));
});

test('a bank code that cannot be one is refused; one that is not known here is taken with a warning', async () => {
  const code = /^a bank code as text, such as "004"$/;
  for (const value of ['4', '00 4', '은행', '', '0'.repeat(12), '００４'])
    await assertRefused('bank_code', 'PO_PAYEE_INVALID', text('a bank code', value, code));
  const taken = await api.transfer({ bank_code: '999' }, { idempotencyKey: 'warned' });
  assert.equal(taken.status, 201);
  const warning = {
    pointer: '/bank_code',
    got: '999',
    expected: 'a bank code that is known here; check it before paying',
  };
  assert.deepEqual(taken.body.warnings, [warning]);
  const read = await api.ask('GET', `/v1/transfers/${String(taken.body.id)}`);
  assert.deepEqual(read.body.warnings, [warning], 'whoever reads it later sees it too');
  const again = await api.transfer({ bank_code: '999' }, { idempotencyKey: 'warned' });
  assert.deepEqual([again.status, again.body.warnings], [200, [warning]]);
});

const NAMES: Wrong[] = [
  text('72 characters', '가'.repeat(72), /^at most 70 characters; this has 72$/),
  text('an emoji', '홍길동😀', /no emoji/),
  text('a heart', '홍길동❤️', /no emoji/),
  text('full-width letters', 'ＨＯＮＧ', /half-width/),
  text('full-width digits', '홍길동１', /half-width/),
  text('a full-width blank', '홍　길동', /half-width/),
  text('a blank that does not break', '홍\u00A0길동', /no blanks but the ordinary one/),
  text('a blank of no width', '홍\u200B길동', /invisible/),
  text('a filler', '홍\u3164길동', /invisible/),
  text('a turned direction', '홍\u202E길동', /invisible/),
  text('a NUL', '홍\0길동', /control/),
  text('a tab', '홍\t길동', /control/),
  text('blanks at the ends', ' 홍길동', /no blanks at the ends/),
  text('nothing', '', /not empty/),
  text('only blanks', '   ', /not empty/),
];

test('a name that the bank would cut or replace is refused with the reason (case M2)', async () => {
  for (const wrong of NAMES) await assertRefused('holder_name', 'PO_PAYEE_INVALID', wrong);
  const half = await api.transfer({ holder_name: '홍\ud800' });
  assert.deepEqual([half.status, half.body.pointer], [400, '/holder_name']);
  assert.match(half.body.expected, /whole characters/);
});

test('a memo over the limit in bytes is refused at the edge with its size, never cut (case M2)', async () => {
  const over = '가'.repeat(47);
  await assertRefused(
    'memo',
    'PO_PAYEE_INVALID',
    text('141 bytes', over, /^at most 140 bytes \(UTF-8\); this has 141$/),
  );
  await assertRefused('memo', 'PO_PAYEE_INVALID', text('an emoji', 'pay 🙂', /no emoji/));
  const fits = `${'가'.repeat(46)}ab`;
  const taken = await api.transfer({ memo: fits });
  assert.deepEqual([taken.status, taken.body.memo], [201, fits], taken.text);
});

test('a name in decomposed Hangul is sent composed, and kept and shown as it was written (case M5)', async () => {
  const written = '홍길동'.normalize('NFD');
  assert.notEqual(written, '홍길동');
  const { body } = await api.transfer({ holder_name: written, account_number: '330-1' });
  assert.equal(body.holder_name, written);
  await api.pass();
  const { rows } = await api.world.pool.query<{ sent: string; nfc: string }>(
    `select convert_from(e.payload, 'UTF8') as sent, t.holder_name_nfc as nfc
     from payonce.effects e join payonce.transfers t on t.id = e.subject_id where t.id = $1`,
    [body.id],
  );
  assert.equal(rows[0]?.nfc, '홍길동');
  assert.ok(rows[0].sent.includes('홍길동') && !rows[0].sent.includes(written));
  assert.equal((await api.ask('GET', `/v1/transfers/${String(body.id)}`)).body.holder_name, written);
  // 72 code points as written, 36 as sent: what is sent is what is counted.
  assert.equal((await api.transfer({ holder_name: '가'.repeat(36).normalize('NFD') })).status, 201);
});

test('all faults of a payee are told at once, the first one as the problem itself', async () => {
  const { body } = await api.transfer({
    bank_code: '!',
    account_number: '1E5',
    holder_name: '😀',
    memo: 'x'.repeat(141),
  });
  assert.deepEqual([body.code, body.pointer], ['PO_PAYEE_INVALID', '/bank_code']);
  assert.deepEqual(
    body.faults.map((one: { pointer: string }) => one.pointer),
    ['/bank_code', '/account_number', '/holder_name', '/memo'],
  );
  assert.match(body.detail, /^The payee is not valid: got "!", expected a bank code as text/);
});

test('fields that are missing, unknown or of another shape are named with what is expected', async () => {
  const refused = async (fields: Record<string, unknown>): Promise<Answer['body']> => {
    const rows = await api.countRows();
    const { status, body } = await api.transfer(fields);
    assert.deepEqual([status, body.code], [400, 'PO_REQUEST_INVALID']);
    assert.deepEqual(await api.countRows(), rows);
    return body;
  };
  for (const field of ['bank_code', 'account_number', 'holder_name', 'asset']) {
    const body = await refused({ [field]: undefined });
    assert.deepEqual([body.pointer, body.got], [`/${field}`, 'nothing']);
  }
  assert.equal((await refused({ destination: '004:1' })).pointer, '/destination');
  assert.equal((await refused({ account_no: '1' })).pointer, '/account_no');
  assert.equal((await refused({ repays: 'that one' })).pointer, '/repays');
  assert.equal((await refused({ external_id: 'a b' })).pointer, '/external_id');
  assert.equal((await refused({ memo: 'x'.repeat(401) })).pointer, '/memo');
});

test('a transfer of an asset of a chain, and a withdrawal of one that a bank pays, are refused by field, with the way that fits', async () => {
  const rows = await api.countRows();
  const chain = await api.transfer({ asset: 'USDT', amount: '1' });
  assert.deepEqual(
    [chain.status, chain.body.code, chain.body.pointer, chain.body.got],
    [400, 'PO_REQUEST_INVALID', '/asset', 'USDT'],
  );
  assert.match(chain.body.expected, /POST \/v1\/withdrawals/);
  for (const asset of ['KRW', KRW]) {
    const bank = await api.pay({ asset, amount: '1' });
    assert.deepEqual([bank.status, bank.body.pointer, bank.body.got], [400, '/asset', 'KRW']);
    assert.match(bank.body.expected, /POST \/v1\/transfers/);
  }
  const assets = (await api.ask('GET', '/v1/assets')).body.items as { code: string; paid_out_by: string | null }[];
  assert.deepEqual(Object.fromEntries(assets.map((one) => [one.code, one.paid_out_by])), {
    COIN: null,
    KRW: '/v1/transfers',
    USDT: '/v1/withdrawals',
  });
  assert.equal((await api.transfer({ asset: 'NOPE' })).body.code, 'PO_ASSET_UNKNOWN');
  assert.deepEqual(await api.countRows(), rows);
});

test('without a key nothing else is judged; a refused body leaves its key free for the right one (case A8)', async () => {
  const without = await api.transfer({ account_number: 'x' }, { idempotencyKey: undefined });
  assert.equal(without.body.code, 'PO_KEY_MISSING');
  const ask = { idempotencyKey: 'mended' };
  assert.equal((await api.transfer({ account_number: '1.1E+11' }, ask)).status, 400);
  assert.equal((await api.transfer({ account_number: '110123456789' }, ask)).status, 201);
});
