/*
 * Goal: a file is uploaded as people have it, told line by line, and is nobody else's; the same one again is the same batch.
 * Method: the API by inject, a real database, and a simulated bank whose books are the judge.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Answer, type Ask } from './api-world.ts';
import { type BankApi, FEE, FUNDS, makeBankApi } from './bank-world.ts';

const PATH = '/v1/transfer-batches';
const HEADER = '은행코드;계좌번호;예금주;금액;메모;참조\r\n';

let api: BankApi;
before(async () => {
  api = await makeBankApi({ label: 'api_batches' });
});
after(() => api.end());

function upload(csv: string | Buffer, more: Ask & { query?: string } = {}): Promise<Answer> {
  const { query = '?asset=KRW', headers, ...ask } = more;
  return api.ask('POST', PATH + query, { raw: csv, ...ask, headers: { 'content-type': 'text/csv', ...headers } });
}
const row = (reference: string, account = '110-123-0456', amount = '1000'): string =>
  `004;${account};홍길동;${amount};급여;${reference}\r\n`;

test('a CSV batch with one bad line: the others are paid once, the bad one is told with line and column', async () => {
  const csv = `\uFEFF${HEADER}${row('may-1')}${row('may-2', '1.1E+11')}${row('may-3', '0012345678', '2500')}`;
  const made = await upload(csv);
  assert.equal(made.status, 201, made.text);
  const { id } = made.body;
  assert.equal(made.headers['location'], `${PATH}/${String(id)}`);
  assert.deepEqual(made.body.lines, { good: 2, bad: 1, by_fate: { pending: 2 } });
  assert.deepEqual(made.body.bad_lines, [
    {
      line: 3,
      column: '계좌번호',
      column_number: 2,
      got: '1.1E+11',
      expected: 'the account number as text; a spreadsheet has turned this one into a rounded number',
    },
  ]);
  assert.deepEqual([made.body.amount, made.body.format, made.body.pays_as], ['3500', 'csv', 'transfers']);
  assert.deepEqual(await api.balance(), { balance: FUNDS, held: 3_500n + 2n * FEE });

  await api.pass();
  api.bank.clock.advance(120_000);
  await api.pass(3);
  const out = (await api.bank.books.movements()).filter(({ kind }) => kind === 'out').map(({ amount }) => amount);
  assert.deepEqual(out, [1_000n, 2_500n]);
  assert.deepEqual(await api.balance(), { balance: FUNDS - 3_500n - 2n * FEE, held: 0n });

  const again = await upload(csv);
  assert.equal(again.status, 200);
  assert.equal(again.headers['idempotent-replayed'], 'true');
  assert.deepEqual([again.body.id, again.body.status, again.body.lines.by_fate], [id, 'finished', { confirmed: 2 }]);
  assert.equal(again.body.paid, '3500');
  const finished = await api.ask('GET', `${PATH}?status=finished`);
  assert.deepEqual(
    finished.body.items.map((one: { id: string }) => one.id),
    [id],
  );
  assert.deepEqual((await api.ask('GET', `${PATH}?status=failed`)).body.items, []);
  const first = await api.ask('GET', `${PATH}/${String(id)}/lines?limit=1`);
  assert.match(first.body.items[0].bank_id, /./, 'as the bank calls it');
  const next = await api.ask('GET', `${PATH}/${String(id)}/lines?limit=1&cursor=${String(first.body.next)}`);
  assert.deepEqual(
    [...first.body.items, ...next.body.items].map(({ line, external_id, fate }) => [line, external_id, fate]),
    [
      [2, 'may-1', 'confirmed'],
      [4, 'may-3', 'confirmed'],
    ],
  );
  assert.equal(next.body.next, null);
  const transfer = await api.ask('GET', `/v1/transfers/${String(first.body.items[0].transfer_id)}`);
  assert.equal(transfer.body.external_id, 'may-1');
  const events = await api.ask('GET', `/v1/events?subject=${String(id)}`);
  assert.deepEqual(
    events.body.items.map(({ type }: { type: string }) => type),
    ['transfer_batch.created'],
  );
});

test('JSON is taken the same way: lines are judged one by one, and another order of fields is the same file', async () => {
  const line = { amount: '700', bank_code: '004', account_number: '0012345678', holder_name: 'A', external_id: 'js-1' };
  const lines = [line, { ...line, external_id: 'js-2', amount: 700 }];
  const made = await api.ask('POST', PATH, { body: { asset: 'KRW', lines } });
  assert.equal(made.status, 201, made.text);
  assert.deepEqual(
    made.body.bad_lines.map(({ line: at, column, got }: Record<string, unknown>) => [at, column, got]),
    [[2, 'amount', 'the number 700']],
  );
  const turned = lines.map((one) => Object.fromEntries(Object.entries(one).reverse()));
  const again = await api.ask('POST', PATH, { body: { lines: turned, asset: 'KRW' } });
  assert.deepEqual([again.status, again.body.id], [200, made.body.id]);
  const two = await api.ask('POST', `${PATH}?asset=USD`, { body: { asset: 'KRW', lines } });
  assert.deepEqual([two.status, two.body.pointer], [400, '/query/asset']);
  for (const body of [{ asset: 'KRW', lines: [] }, { asset: 'KRW' }, { asset: 'KRW', lines: [line], extra: 1 }])
    assert.equal((await api.ask('POST', PATH, { body })).status, 400);
});

test('a dry run tells everything and stores nothing', async () => {
  const before = await api.countRows();
  const csv = HEADER + row('dry-1') + row('dry-2', '0012345678', '1,000') + row('dry-1');
  const checked = await upload(csv, { query: '?asset=KRW&dry_run=true' });
  assert.equal(checked.status, 200, checked.text);
  assert.deepEqual(
    [checked.body.dry_run, checked.body.amount, checked.body.fee, checked.body.lines],
    [true, '1000', '100', { good: 1, bad: 2 }],
  );
  const { balance, held } = await api.balance();
  assert.deepEqual([checked.body.available, checked.body.covered], [String(balance - held), true]);
  const much = Array.from({ length: 3 }, (_, n) => row(`much-${n}`, '0012345678', '5000000')).join('');
  const over = await upload(HEADER + much, { query: '?asset=KRW&dry_run=true' });
  assert.deepEqual([over.body.covered, over.body.lines.good], [false, 3], 'it looks at the money too');
  const odd = { amount: '1', bank_code: '998', account_number: '1', holder_name: 'A', external_id: 'odd-1' };
  const warned = await api.ask('POST', `${PATH}?dry_run=true`, { body: { asset: 'KRW', lines: [odd] } });
  assert.deepEqual(
    warned.body.warnings.map(({ line, column, got }: Record<string, unknown>) => [line, column, got]),
    [[1, 'bank_code', '998']],
  );
  const media = await api.ask('POST', PATH, { raw: 'a', headers: { 'content-type': 'application/pdf' } });
  assert.deepEqual([media.status, media.body.expected], [415, 'text/csv or application/json, in utf-8']);
  assert.deepEqual(
    checked.body.bad_lines.map(({ line, column, got }: Record<string, unknown>) => [line, column, got]),
    [
      [3, '금액', '1,000'],
      [4, '참조', 'dry-1'],
    ],
  );
  const none = await upload(HEADER + row('', 'x'), { query: '?asset=KRW&dry_run=true' });
  assert.deepEqual([none.status, none.body.lines], [200, { good: 0, bad: 1 }]);
  assert.deepEqual(await api.countRows(), before);
});

test('a file of bad lines only is refused with the list and stores nothing, not even its key', async () => {
  const before = await api.countRows();
  const csv = HEADER + row('b 1') + row('b-2', '0012345678', '0');
  const refused = await upload(csv, { idempotencyKey: 'only-bad' });
  assert.deepEqual([refused.status, refused.body.code, refused.body.money_state], [422, 'PO_FILE_REFUSED', 'not_sent']);
  assert.deepEqual(
    refused.body.faults.map(({ pointer, got }: Record<string, unknown>) => [pointer, got]),
    [
      ['/lines/2/참조', 'b 1'],
      ['/lines/3/금액', '0'],
    ],
  );
  assert.equal(refused.body.money_state, 'not_sent');
  assert.deepEqual(await api.countRows(), before);
  const corrected = await upload(HEADER + row('b-1'), { idempotencyKey: 'only-bad' });
  assert.equal(corrected.status, 201, corrected.text);
});

test('the same key with other bytes is refused and names the batch; the same bytes are one batch under any key (case A8)', async () => {
  const csv = HEADER + row('k-1');
  const made = await upload(csv, { idempotencyKey: 'june' });
  assert.equal(made.status, 201, made.text);
  const other = await upload(HEADER + row('k-2'), { idempotencyKey: 'june' });
  assert.deepEqual(
    [other.status, other.body.code, other.body.resource, other.body.money_state],
    [422, 'PO_KEY_REUSED', { type: 'transfer_batch', id: made.body.id }, 'unknown'],
  );
  const bare = await upload(csv);
  assert.deepEqual([bare.status, bare.body.id], [200, made.body.id]);
  const another = await upload(csv, { idempotencyKey: 'june again' });
  assert.equal(another.status, 400, 'a key is visible ASCII');
  const twice = await upload(csv, { idempotencyKey: 'june-again' });
  assert.deepEqual([twice.status, twice.body.code], [422, 'PO_FILE_REFUSED'], 'its references are taken');
  assert.equal(twice.body.money_state, 'unknown', 'it was paid by the first file, so nobody is told that it was not');
  const transfer = await api.transfer({}, { idempotencyKey: 'june' });
  assert.deepEqual([transfer.status, transfer.body.code], [422, 'PO_KEY_REUSED']);
});

test('a file that cannot be read is refused with the place, and what to do', async () => {
  const refused = async (csv: string | Buffer, more: Parameters<typeof upload>[1] = {}): Promise<unknown[]> => {
    const answer = await upload(csv, more);
    return [answer.status, answer.body.code, answer.body.pointer, answer.body.got];
  };
  const eucKr = Buffer.concat([Buffer.from('bank_code,'), Buffer.from('c0bac7e0', 'hex'), Buffer.from('\n')]);
  assert.deepEqual(await refused(eucKr), [400, 'PO_FILE_INVALID', '/file', 'byte 11 is 0xC0']);
  assert.deepEqual(await refused('금액;은행코드;계좌번호;예금주;용도\n1;004;1;A;x\n'), [
    400,
    'PO_FILE_INVALID',
    '/line 1',
    '용도',
  ]);
  assert.deepEqual(await refused(HEADER + row('n-1'), { query: '' }), [
    400,
    'PO_REQUEST_INVALID',
    '/query/asset',
    'nothing',
  ]);
  assert.deepEqual(await refused(HEADER + row('n-1'), { query: '?asset=USDT' }), [
    400,
    'PO_REQUEST_INVALID',
    '/asset',
    'USDT',
  ]);
  assert.deepEqual(await refused(HEADER + row('n-1'), { query: '?asset=NONE' }), [
    400,
    'PO_ASSET_UNKNOWN',
    '/asset',
    'NONE',
  ]);
  assert.deepEqual((await refused(HEADER, { headers: { 'content-type': 'text/csv; charset=euc-kr' } })).slice(0, 2), [
    415,
    'PO_REQUEST_MEDIA',
  ]);
  assert.deepEqual((await refused('x', { headers: { 'content-type': 'application/xml' } })).slice(0, 2), [
    415,
    'PO_REQUEST_MEDIA',
  ]);
  const large = await upload(Buffer.alloc(2_097_153, 'a'));
  assert.deepEqual([large.status, large.body.code], [413, 'PO_REQUEST_TOO_LARGE']);
  assert.match(large.body.expected, /2097152 bytes/);
  const csv = await api.ask('POST', '/v1/transfers', {
    idempotencyKey: 'csv',
    raw: 'a,b',
    headers: { 'content-type': 'text/csv' },
  });
  assert.equal(csv.status, 415, 'CSV is read here and nowhere else');
});

test('an asset may stand in a column, and a file of thousands of lines is taken at once', async () => {
  const lines = Array.from({ length: 2_000 }, (_, n) => `KRW,1,004,0012345678,A,col-${n}\n`).join('');
  const made = await upload(`asset,amount,bank_code,account_number,holder_name,external_id\n${lines}`, { query: '' });
  assert.equal(made.status, 201, made.text.slice(0, 500));
  assert.deepEqual(made.body.lines, { good: 2_000, bad: 0, by_fate: { pending: 2_000 } });
});

test('a batch is its partner’s alone, in lists too', async () => {
  const made = await upload(HEADER + row('own-1'));
  const { id } = made.body;
  for (const path of [`${PATH}/${String(id)}`, `${PATH}/${String(id)}/lines`]) {
    assert.equal((await api.ask('GET', path)).status, 200);
    assert.equal((await api.ask('GET', path, { key: api.otherKey })).status, 404);
    assert.equal((await api.ask('GET', path, { key: null })).status, 401);
  }
  const others = await api.ask('GET', PATH, { key: api.otherKey });
  assert.deepEqual(others.body.items, []);
  const theirs = await upload(HEADER + row('own-1'), { key: api.otherKey });
  assert.equal(theirs.status, 201, 'the same bytes of another partner are another batch');
  assert.notEqual(theirs.body.id, id);
  const page = await api.ask('GET', `${PATH}?limit=1`);
  assert.equal(page.body.items[0].id, id);
  const rest = await api.ask('GET', `${PATH}?limit=200&cursor=${String(page.body.next)}`);
  assert.ok(rest.body.items.length >= 4);
  assert.ok(rest.body.items.every((one: { id: string }) => one.id !== id));
});
