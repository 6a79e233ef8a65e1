/*
 * Goal: a statement is read as what it is or refused whole with the place named; nothing of it is half stored, and no line
 * counts twice. Method: files written by hand and by the simulated bank's own writer, then broken one by one; a database that
 * holds what was taken in.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startBank } from '../../sim/bank/bank.ts';
import { type Entry, writeCamt, writeCsv } from '../../sim/bank/statement.ts';
import { readCamt } from '../../src/audit/statements/camt.ts';
import { readCsv } from '../../src/audit/statements/csv.ts';
import { type Imported, importStatement } from '../../src/audit/statements/import.ts';
import { lineKeys } from '../../src/audit/statements/line-key.ts';
import { type ReadStatements, readUnits, signed, type StatementLine } from '../../src/audit/statements/statement.ts';
import type { Operator } from '../../src/engine/operators.ts';
import { makeNoopRail } from '../../src/engine/noop.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeWorld, type World } from '../support/world.ts';

const KRW = new Map([['KRW', 0]]);
const USD = new Map([['USD', 2]]);
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** A statement in the message definition's own words; `change` takes its text apart. */
function camt(entries: string, closing = '900.00', version = '08'): string {
  return `<?xml version="1.0" encoding="UTF-8"?>
<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.${version}"><BkToCstmrStmt><Stmt>
<Id>S1</Id><Acct><Id><IBAN>DE02</IBAN></Id></Acct>
<Bal><Tp><CdOrPrtry><Cd>OPBD</Cd></CdOrPrtry></Tp><Amt Ccy="USD">1000.00</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2030-01-02</Dt></Dt></Bal>
<Bal><Tp><CdOrPrtry><Cd>CLBD</Cd></CdOrPrtry></Tp><Amt Ccy="USD">${closing}</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2030-01-02</Dt></Dt></Bal>
${entries}
</Stmt></BkToCstmrStmt></Document>`;
}

function entry(amount: string, more = '', change: Record<string, string> = {}): string {
  const { sign = 'DBIT', status = '<Sts><Cd>BOOK</Cd></Sts>', day = '<BookgDt><Dt>2030-01-02</Dt></BookgDt>' } = change;
  return `<Ntry><Amt Ccy="USD">${amount}</Amt><CdtDbtInd>${sign}</CdtDbtInd>${status}${day}${more}</Ntry>`;
}

function linesOf(read: ReadStatements): readonly StatementLine[] {
  assert.ok(read.ok, read.ok ? '' : JSON.stringify(read.faults));
  return read.statements.flatMap((one) => one.lines);
}

function faultsOf(read: ReadStatements): string {
  assert.ok(!read.ok, 'it was read');
  return read.faults.map((fault) => `${fault.place}: ${fault.detail}`).join('\n');
}

test('an entry is read with its references, its other side and its reason', () => {
  const details = `<AcctSvcrRef>E1</AcctSvcrRef><NtryDtls><TxDtls><Refs><EndToEndId>our-key</EndToEndId><InstrId>i</InstrId><TxId>t</TxId></Refs>
    <RltdPties><Cdtr><Pty><Nm>홍길동</Nm></Pty></Cdtr><CdtrAcct><Id><Othr><Id>0012</Id></Othr></Id></CdtrAcct></RltdPties>
    <RmtInf><Ustrd>salary</Ustrd><Ustrd>May &amp; June</Ustrd></RmtInf></TxDtls></NtryDtls>`;
  const read = readCamt(bytes(camt(entry('100.00', details))), USD);
  assert.deepEqual(linesOf(read), [
    {
      place: 'Stmt[1]/Ntry[1] (line 6)',
      ownReference: 'E1',
      direction: 'out',
      amount: 10_000n,
      bookedOn: '2030-01-02',
      valueOn: null,
      references: ['E1', 'our-key', 'i', 't'],
      counterpartyName: '홍길동',
      counterpartyAccount: '0012',
      remittance: 'salary May & June',
      isReversal: false,
      isCharge: false,
      returnReason: null,
    },
  ]);
  assert.ok(read.ok);
  const [statement] = read.statements;
  assert.deepEqual(
    [read.format, statement?.account, statement?.from, statement?.to, statement?.opening, statement?.closing],
    ['camt.053.001.08', 'DE02', '2030-01-02', '2030-01-02', 100_000n, 90_000n],
  );
});

test('a batch-booked entry is its parts, each told apart, and only booked entries count', () => {
  const part = (amount: string, key: string): string =>
    `<TxDtls><Refs><EndToEndId>${key}</EndToEndId></Refs><AmtDtls><TxAmt><Amt Ccy="USD">${amount}</Amt></TxAmt></AmtDtls></TxDtls>`;
  const whole = entry(
    '100.00',
    `<AcctSvcrRef>B1</AcctSvcrRef><NtryDtls>${part('60.00', 'a')}${part('40', 'b')}</NtryDtls>`,
    {
      status: '<Sts>BOOK</Sts>',
    },
  );
  const pending = entry('7.00', '', { status: '<Sts>PDNG</Sts>' });
  const read = readCamt(bytes(camt(whole + pending, '900.00', '02')), USD);
  assert.deepEqual(
    linesOf(read).map((line) => [line.ownReference, line.amount, line.references]),
    [
      ['B1/1', 6_000n, ['B1', 'a']],
      ['B1/2', 4_000n, ['B1', 'b']],
    ],
  );
  assert.equal(read.ok && read.skipped, 1);
});

test('a return is an incoming line that takes back an earlier one, with the bank’s reason', () => {
  const details =
    '<RvslInd>true</RvslInd><NtryDtls><TxDtls><Refs><EndToEndId>our-key</EndToEndId></Refs><RtrInf><Rsn><Cd>AC04</Cd></Rsn></RtrInf></TxDtls></NtryDtls>';
  const [line] = linesOf(readCamt(bytes(camt(entry('5.00', details, { sign: 'CRDT' }), '1005.00')), USD));
  assert.deepEqual([line?.direction, line?.isReversal, line?.returnReason], ['in', true, 'AC04']);
});

const LAUGHS = `<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol">${Array.from(
  { length: 9 },
  (_, at) => `<!ENTITY lol${at + 1} "${`&lol${at === 0 ? '' : at};`.repeat(10)}">`,
).join('')}]><Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08">&lol9;</Document>`;
const OUTSIDE = `<?xml version="1.0"?><!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/hostname">]><Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08">&x;</Document>`;
const part = (amount: string): string => `<TxDtls><Amt Ccy="USD">${amount}</Amt></TxDtls>`;

const BAD_CAMT: readonly (readonly [what: string, text: string, says: RegExp])[] = [
  ['a billion laughs', LAUGHS, /line 1, column \d+: it carries a document type/],
  ['an entity from outside', OUTSIDE, /it carries a document type/],
  [
    'an entity that nobody defined',
    camt(entry('1.00', '<AddtlNtryInf>&nope;</AddtlNtryInf>')),
    /line 6, column \d+: it is no well-formed XML/,
  ],
  ['a file cut in the middle', camt(entry('100.00')).slice(0, -40), /it is no well-formed XML/],
  [
    'elements without an end',
    `<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08">${'<a>'.repeat(100)}`,
    /deep/,
  ],
  ['another message', camt('').replaceAll('camt.053', 'pain.001'), /expected Document\/BkToCstmrStmt/],
  ['a version from the future', camt(entry('100.00'), '900.00', '99'), /camt\.053\.001\.02 to \.08/],
  ['another encoding', camt('').replace('UTF-8', 'EUC-KR'), /it says that it is EUC-KR/],
  ['an account statement of nothing', camt('').replaceAll(/<Stmt>[\s\S]*<\/Stmt>/g, ''), /it has no Stmt/],
  [
    'balances that do not add up',
    camt(entry('100.01')),
    /Stmt\[1\] \(line 2\): opening 100000 and entries of -10001 make 89999, not the closing 90000/,
  ],
  ['no closing balance', camt(entry('100.00')).replace('CLBD', 'CLAV'), /no opening and closing balance/],
  ['two opening balances', camt(entry('100.00')).replace('CLBD', 'OPBD'), /2 balances OPBD/],
  [
    'parts that do not add up',
    camt(entry('100.00', `<NtryDtls>${part('60.00')}${part('39.00')}</NtryDtls>`)),
    /Ntry\[1\] \(line 6\): its parts add up to -9900, the entry is -10000/,
  ],
  [
    'too many places',
    camt(entry('100.001')),
    /Ntry\[1\] \(line 6\): its Amt is "100.001", expected digits and at most 2 places/,
  ],
  ['an amount with a sign', camt(entry('-100.00')), /its Amt is "-100.00"/],
  ['an amount with an exponent', camt(entry('1e2')), /its Amt is "1e2"/],
  ['another currency', camt(entry('100.00').replace('USD', 'EUR')), /its currency is EUR, the statement's USD/],
  [
    'a currency that the rail does not pay',
    camt(entry('100.00')).replaceAll('USD', 'EUR'),
    /no asset in EUR; it pays in USD/,
  ],
  ['neither credit nor debit', camt(entry('100.00', '', { sign: 'BOTH' })), /its CdtDbtInd is BOTH/],
  ['no day', camt(entry('100.00', '', { day: '' })), /it has no BookgDt/],
  [
    'a day that does not exist',
    camt(entry('100.00', '', { day: '<BookgDt><Dt>2030-02-30</Dt></BookgDt>' })),
    /its BookgDt is "2030-02-30"/,
  ],
  ['an unknown status', camt(entry('100.00', '', { status: '<Sts>MAYB</Sts>' })), /its Sts is MAYB/],
];
describe('a camt file that is not what it says is refused with its place', () => {
  for (const [what, text, says] of BAD_CAMT) {
    test(`camt with ${what} is refused`, () => assert.match(faultsOf(readCamt(bytes(text), USD)), says));
  }
  test('bytes that are no UTF-8 are refused', () => {
    assert.match(faultsOf(readCamt(Uint8Array.of(0x3c, 0xff, 0xfe), USD)), /no UTF-8/);
    assert.match(faultsOf(readCsv(Uint8Array.of(0x3c, 0xff, 0xfe), USD)), /no UTF-8/);
  });
});

test('a CSV is read by its header’s names, whatever its delimiter, marks and order', () => {
  const columns = { date: '거래일자', debit: '출금액', credit: '입금액', balance: '잔액', reference: '메모' };
  const text =
    '\uFEFF거래일자;출금액;입금액;잔액;메모\r\n2030/01/03;;"1.500,00";"2.400,00";"a;b"\r\n2030.01.02;100;;900;our-key\r\n\r\n';
  const read = readCsv(bytes(text), USD, { columns, grouping: '.', decimalMark: ',' });
  assert.deepEqual(
    linesOf(read).map((line) => [line.place, line.direction, line.amount, line.bookedOn, line.references]),
    [
      ['line 2', 'in', 150_000n, '2030-01-03', ['a;b']],
      ['line 3', 'out', 10_000n, '2030-01-02', ['our-key']],
    ],
  );
  assert.ok(read.ok);
  assert.deepEqual([read.statements[0]?.opening, read.statements[0]?.closing], [100_000n, 240_000n]);
});

const BAD_CSV: readonly (readonly [what: string, text: string, says: RegExp])[] = [
  ['no such column', 'day,amount\n2030-01-02,1\n', /line 1: no such column: date; the header has day, amount/],
  ['no amount column', 'date,text\n2030-01-02,1\n', /no such column: amount, or debit and credit/],
  ['a column twice', 'date,date,amount\n2030-01-02,2030-01-02,1\n', /the column "date" stands there twice/],
  ['too few columns', 'date,amount\n2030-01-02\n', /line 2: it has 1 columns, the header 2/],
  ['an open quote', 'date,amount\n"2030-01-02,1\n', /it is no CSV/],
  ['an American day', 'date,amount\n01/02/2030,1\n', /line 2, column 1: "01\/02\/2030" is no day/],
  [
    'grouped digits that nobody announced',
    'date,amount\n2030-01-02,"1,000"\n',
    /line 2, column 2: "1,000" is no amount of USD/,
  ],
  ['an exponent', 'date,amount\n2030-01-02,1.1E+11\n', /"1\.1E\+11" is no amount/],
  ['a signed debit', 'date,debit\n2030-01-02,-5\n', /"-5" is no amount of USD \(2 places, no sign\)/],
  ['debit and credit at once', 'date,debit,credit\n2030-01-02,5,5\n', /line 2: it gives more than one of/],
  ['no amount', 'date,debit,credit\n2030-01-02,,\n', /line 2: it gives no amount/],
  ['another currency', 'date,amount,currency\n2030-01-02,1,EUR\n', /line 2, column 3: this rail has no asset in EUR/],
  [
    'a broken balance',
    'date,amount,balance\n2030-01-02,1,1\n2030-01-02,2,3\n2030-01-02,2,4\n',
    /line 4: its balance is not the one before it and its amount/,
  ],
  [
    'half a balance',
    'date,amount,balance\n2030-01-02,1,1\n2030-01-02,2,\n',
    /line 3: it has no balance, and other lines have/,
  ],
  ['a header alone', 'date,amount\n', /no lines/],
];
describe('a CSV that is not what it says is refused with line and column', () => {
  for (const [what, text, says] of BAD_CSV) {
    test(`CSV with ${what} is refused`, () => assert.match(faultsOf(readCsv(bytes(text), USD)), says));
  }
});

test('amounts are text until they are units: padded zeros go, nothing is rounded', () => {
  assert.equal(readUnits('0012.50', 2), 1_250n);
  assert.equal(readUnits('12500.00', 0), 12_500n);
  assert.equal(readUnits('99999999999999999999999999.99', 2), 9_999_999_999_999_999_999_999_999_999n);
  for (const text of ['', '.5', '5.', '1.005', '+1', '1_0', '１', '0x1']) assert.equal(readUnits(text, 2), null, text);
});

test('two payments that look alike are two lines, and stay the same two in another file', () => {
  const line: StatementLine = {
    place: '',
    ownReference: null,
    direction: 'out',
    amount: 5n,
    bookedOn: '2030-01-02',
    valueOn: null,
    references: [],
    counterpartyName: null,
    counterpartyAccount: '1',
    remittance: null,
    isReversal: false,
    isCharge: false,
    returnReason: null,
  };
  const keys = lineKeys('asset', [line, line, { ...line, counterpartyAccount: '2' }]);
  assert.equal(new Set(keys).size, 3);
  assert.deepEqual(lineKeys('asset', [{ ...line, place: 'elsewhere' }, line]), keys.slice(0, 2));
});

for (const version of [2, 4, 8]) {
  test(`the simulated bank's camt.053.001.0${version} and its CSV say the same`, async () => {
    const bank = await startBank({ profile: 'generic' });
    const of = (id: number, change: Partial<Entry>): Entry => ({
      id: `E${id}`,
      direction: 'out',
      amount: 5n,
      day: '2030-01-02',
      reference: `ref-${id}`,
      transferId: null,
      account: '1',
      name: 'Kim & <Sons>',
      memo: 'a, "b"',
      returnReason: null,
      isCharge: false,
      ...change,
    });
    const script = {
      currency: 'KRW',
      from: '2030-01-01',
      to: '2030-01-03',
      plant: () => [of(1, {}), of(2, { amount: 7n }), of(3, { direction: 'in', day: '2030-01-03' })],
    };
    const [xml, batched, csv] = [
      await writeCamt(bank, { ...script, version }),
      await writeCamt(bank, { ...script, version, batchBooked: true }),
      await writeCsv(bank, { ...script, delimiter: ';', newestFirst: true }),
    ];
    const read = [
      readCamt(bytes(xml.text), KRW),
      readCamt(bytes(batched.text), KRW),
      readCsv(bytes(csv.text), KRW, {
        columns: {
          date: 'Booked',
          id: 'Entry',
          debit: 'Debit',
          credit: 'Credit',
          currency: 'Currency',
          balance: 'Balance',
          reference: 'Reference',
        },
      }),
    ];
    const say = read.map((one) =>
      linesOf(one)
        .map((line) => `${line.bookedOn} ${signed(line)} ${line.references.at(-1) ?? ''}`)
        .sort(),
    );
    assert.deepEqual(say[0], ['2030-01-02 -5 ref-1', '2030-01-02 -7 ref-2', '2030-01-03 5 ref-3']);
    assert.deepEqual(say[1], say[0]);
    assert.deepEqual(say[2], say[0]);
    assert.deepEqual(
      read.map((one) => one.ok && [one.statements[0]?.opening, one.statements[0]?.closing]),
      read.map(() => [xml.opening, xml.closing]),
    );
    await bank.stop();
  });
}

const OPERATOR: Operator = { id: 'op_1', name: 'Ada', role: 'operator' };

async function importing(
  label: string,
): Promise<{ world: World; take: (text: string, name?: string) => Promise<Imported> }> {
  const world = await makeWorld({
    label,
    rails: () => [makeNoopRail('bank:main')],
    chain: 'bank:main',
    contract: 'USD',
    assetCode: 'USD',
    decimals: 2,
  });
  return {
    world,
    take: (text, name = 'may.xml') => importStatement(world, OPERATOR, { rail: 'bank:main', name, bytes: bytes(text) }),
  };
}

async function counts(world: World): Promise<{ files: number; statements: number; lines: number; places: number }> {
  const { rows } = await world.pool.query<{ files: number; statements: number; lines: number; places: number }>(
    `select (select count(*)::int from payonce.statement_files) as files, (select count(*)::int from payonce.statements) as statements,
            (select count(*)::int from payonce.statement_lines) as lines, (select count(*)::int from payonce.statement_places) as places`,
  );
  return rows[0] ?? assert.fail();
}

test('a file is taken in once, a line of two files counts once, and a refused file leaves nothing', async () => {
  const { world, take } = await importing('statements import');
  const [one, two, three] = ['1', '2', '3'].map((id) => entry('10.00', `<AcctSvcrRef>E${id}</AcctSvcrRef>`));
  const first = await take(camt(`${one}${two}`, '980.00'));
  assert.deepEqual([first.outcome, first.outcome === 'imported' && first.fresh], ['imported', 2]);
  const again = await take(camt(`${one}${two}`, '980.00'), 'other-name.xml');
  assert.deepEqual([again.outcome, again.outcome === 'known' && again.fresh], ['known', 0]);
  const overlap = await take(camt(`${two}${three}`, '980.00'));
  assert.deepEqual(
    [overlap.outcome === 'imported' && overlap.lines, overlap.outcome === 'imported' && overlap.fresh],
    [2, 1],
  );
  assert.deepEqual(await counts(world), { files: 2, statements: 2, lines: 3, places: 4 });

  const broken = await take(camt(`${one}${entry('bad')}`));
  assert.equal(broken.outcome, 'refused');
  const elsewhere = await take(camt(entry('100.00')).replace('DE02', 'DE99'));
  assert.match(
    elsewhere.outcome === 'refused' ? (elsewhere.faults[0]?.detail ?? '') : '',
    /of account DE99, and earlier statements of bank:main are of DE02/,
  );
  assert.deepEqual(await counts(world), { files: 2, statements: 2, lines: 3, places: 4 });
  await assert.rejects(
    importStatement(world, OPERATOR, { rail: 'bank:other', name: 'x', bytes: bytes(camt('')) }),
    /no rail bank:other/,
  );
  await assertBooksClean(world.pool);
  await world.end();
});

test('twenty imports of one file at once take it in once', async () => {
  const { world, take } = await importing('statements race');
  const text = camt(entry('50.00', '<AcctSvcrRef>E1</AcctSvcrRef>') + entry('50.00', '<AcctSvcrRef>E2</AcctSvcrRef>'));
  const done = await Promise.all(Array.from({ length: 20 }, () => take(text)));
  assert.equal(done.filter((one) => one.outcome === 'imported').length, 1);
  assert.equal(done.filter((one) => one.outcome === 'known').length, 19);
  assert.deepEqual(await counts(world), { files: 1, statements: 1, lines: 2, places: 2 });
  await world.end();
});

test('what was taken in is never changed or deleted, and a statement that does not add up has no row', async () => {
  const { world, take } = await importing('statements kept');
  await take(camt(entry('100.00')));
  for (const table of ['statement_files', 'statements', 'statement_lines', 'statement_places', 'reconcile_reports']) {
    await assert.rejects(world.pool.query(`truncate payonce.${table} cascade`), { code: 'P0A01' }, table);
    if (table !== 'reconcile_reports')
      await assert.rejects(world.pool.query(`delete from payonce.${table}`), /append.only/, table);
  }
  await assert.rejects(
    world.pool.query(
      `insert into payonce.statements (file_sha256, position, rail, account, asset_id, from_day, to_day, opening, closing, moved)
       select file_sha256, 9, rail, account, asset_id, from_day, to_day, 10, 20, 11 from payonce.statements`,
    ),
    { constraint: 'statements_add_up' },
  );
  await world.end();
});
