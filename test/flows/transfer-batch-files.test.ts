/*
 * Goal: a file as people make them is read to the letter or refused at a named place: nothing in it is guessed, cut, rounded or
 * left out. Method: bytes in, lines and faults out, by the rules of a Korean bank; no database.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readCsv } from '../../src/flows/transfers/batch.ts';
import { BATCH_LINES_MAX } from '../../src/flows/transfers/batch-limits.ts';
import { judgeLines, linesFromJson } from '../../src/flows/transfers/batch-lines.ts';
import { PROFILES } from '../../src/rails/bank/index.ts';
import { readPayee } from '../../src/rails/bank/destination.ts';

const generic = PROFILES.find((one) => one.name === 'generic') ?? assert.fail();
const RULES = {
  readPayee: (input: Parameters<typeof readPayee>[0]) => readPayee(input, generic.payee),
  decimals: 0,
  assetNames: ['KRW', 'bank:generic/iso4217:KRW'],
  limit: (amount: bigint) => (amount > 1_000_000n ? 'from 1 to 1000000' : null),
};
const HEADER = 'external_id,amount,bank_code,account_number,holder_name,memo';

function judge(text: string | Uint8Array): ReturnType<typeof judgeLines> {
  const read = readCsv(typeof text === 'string' ? Buffer.from(text) : text);
  return judgeLines(read.ok ? read.lines : assert.fail(`${read.fault.pointer} ${read.fault.detail}`), RULES);
}
function refusal(bytes: string | Uint8Array): string {
  const read = readCsv(typeof bytes === 'string' ? Buffer.from(bytes) : bytes);
  return read.ok ? 'read' : `${read.fault.pointer}: ${read.fault.detail}: ${read.fault.got}`;
}
/** Line, column name and number, what was got. */
function places(text: string): unknown[] {
  return judge(text).faults.map(({ line, column, columnNumber, got }) => [line, column, columnNumber, got]);
}

test('a mark at the start, semicolons, tabs, CRLF and quotes are read as they stand (case M5)', () => {
  const plain = judge(`${HEADER}\nr1,1000,004,0012345678,홍길동,급여\n`).good;
  for (const [mark, separator, end] of [
    ['\uFEFF', ';', '\r\n'],
    ['', '\t', '\n'],
    ['\uFEFF', ',', '\r\n'],
  ] as const) {
    const rows = [
      HEADER.split(',').join(separator),
      ['r1', '1000', '004', '"0012345678"', '홍길동', '급여'].join(separator),
    ];
    assert.deepEqual(judge(mark + rows.join(end) + end).good, plain);
  }
  assert.equal(plain[0]?.payee.accountNumber, '0012345678');
  const [quoted] = judge(`${HEADER}\nr1,1000,004,0012345678,"홍, ""길"" 동",=1+1\n`).good;
  assert.deepEqual([quoted?.payee.holderName, quoted?.payee.memo], ['홍, "길" 동', '=1+1'], 'a formula is just text');
});

test('columns are found by English and Korean names, in any order and spelling', () => {
  const [korean] = judge('메모,참조,예금주,계좌번호,은행코드,금액\n급여,r1,홍길동,0012345678,004,1000\n').good;
  const [english] = judge(
    'Bank Code,ACCOUNT_NUMBER,holder-name, amount ,Reference,Memo\n004,0012345678,홍길동,1000,r1,급여\n',
  ).good;
  assert.deepEqual({ ...korean, place: null }, { ...english, place: null });
  const parts = '금액'.normalize('NFD');
  assert.equal(judge(`은행코드,계좌번호,예금주,${parts}\n004,0012345678,홍길동,1000\n`).good.length, 1);
});

test('a column that is unknown, twice or missing refuses the file, and so does a file without any', () => {
  assert.equal(refusal(`${HEADER},purpose\n`), '/line 1: Column 7 is not known: purpose');
  assert.equal(refusal(`${HEADER},\n`), '/line 1: Column 7 is not known: no name');
  assert.equal(refusal(`${HEADER},금액\n`), '/line 1: Columns 2 and 7 are the same: 금액');
  assert.equal(
    refusal('amount,bank_code,holder_name\n1,2,3\n'),
    '/line 1: A column is missing: amount,bank_code,holder_name',
  );
  assert.equal(
    refusal('r1,1000,004,0012345678,A,\n'),
    '/line 1: The first line names no column of ours: r1,1000,004,0012345678,A,',
  );
  assert.match(refusal(''), /The file is empty/);
  assert.match(refusal(`${HEADER}\n\n`), /The file has no lines/);
  assert.match(refusal(`${HEADER}\nr1,"10"00,004,1,A,\n`), /^\/line 2: A quote is out of place/);
  assert.match(refusal(`${HEADER}\n${'r,1,004,0012345678,A,\n'.repeat(BATCH_LINES_MAX + 1)}`), /too many lines/);
  const many = judge(
    `${HEADER}\n${Array.from({ length: BATCH_LINES_MAX }, (_, n) => `r${n},1,004,0012345678,A,\n`).join('')}`,
  );
  assert.equal(many.good.length, BATCH_LINES_MAX);
});

test('a file in another encoding is refused with the place of its first byte', () => {
  const eucKr = Buffer.concat([
    Buffer.from(`${HEADER}\nr1,1000,004,12345678,`),
    Buffer.from('c8abb1e6b5bf', 'hex'),
    Buffer.from(',\n'),
  ]);
  assert.equal(refusal(eucKr), `/file: The file is not UTF-8: byte ${HEADER.length + 25} is 0xB1`);
  assert.match(refusal(Buffer.from(`\uFEFF${HEADER}\n`, 'utf16le')), /not UTF-8: byte 1 is 0xFF/);
  const characters = fc.string({ unit: fc.constantFrom('a', 'é', '가', '😀'), maxLength: 12 });
  fc.assert(
    fc.property(characters, fc.constantFrom(0x80, 0xff, 0xc3, 0xe0, 0xf5, 0xb0), characters, (before, byte, after) => {
      const start = Buffer.from(before);
      const bytes = Buffer.concat([start, Buffer.from([byte]), Buffer.from(`a${after}`)]);
      assert.match(refusal(bytes), new RegExp(`byte ${start.length + 1} is 0x`));
    }),
  );
});

test('what a spreadsheet destroyed is a bad line, with line and column, and the others stay good (case M5)', () => {
  const text = [
    HEADER,
    'a,1000,004,1.1E+11,A,',
    'b,1000,4,0012345678,B,',
    'c,"1,000",004,0012345678,C,',
    'd,1.0E+3,004,0012345678,D,',
    'e,0,004,0012345678,E,',
    'f,2000000,004,0012345678,F,',
    'g,1000,004, 0012345678,G,',
    'h,1000,004,0012345678,,',
    'i i,1000,004,0012345678,I,',
    'j,1000,004,0012345678,J',
    'k,1000,004,0012345678,K,',
  ].join('\n');
  assert.deepEqual(places(text), [
    [2, 'account_number', 4, '1.1E+11'],
    [3, 'bank_code', 3, '4'],
    [4, 'amount', 2, '1,000'],
    [5, 'amount', 2, '1.0E+3'],
    [6, 'amount', 2, '0'],
    [7, 'amount', 2, '2000000'],
    [8, 'account_number', 4, ' 0012345678'],
    [9, 'holder_name', 5, 'nothing'],
    [10, 'external_id', 1, 'i i'],
    [11, 'memo', 6, '5 cells'],
  ]);
  const { good, faults } = judge(text);
  assert.deepEqual(
    good.map((line) => line.line),
    [12],
  );
  assert.match(faults[2]?.expected ?? '', /no thousands separators/);
});

test('a line is told by its first line in the file, whatever breaks stand in cells before it', () => {
  const rows = (end: string): string =>
    [HEADER, `a,1,004,0012345678,"A${end}B",`, '', `b,1,004,1.1E+11,"C${end}${end}D",`, 'c,x,004,0012345678,E,'].join(
      end,
    );
  for (const end of ['\n', '\r\n'])
    assert.deepEqual(
      judge(rows(end)).faults.map(({ line, column }) => [line, column]),
      [
        [2, 'holder_name'],
        [5, 'account_number'],
        [5, 'holder_name'],
        [8, 'amount'],
      ],
    );
});

test('a name in parts (NFD) is compared and sent whole, and kept as it came', () => {
  const [line] = judge(`${HEADER}\nr1,1000,004,0012345678,${'홍길동'.normalize('NFD')},\n`).good;
  assert.equal(line?.payee.holderName, '홍길동'.normalize('NFC'));
  assert.equal(line?.holderName, '홍길동'.normalize('NFD'));
});

test('a line that stands twice is paid once, and the second one names the first', () => {
  const text = [
    HEADER,
    'r1,1000,004,0012345678,A,',
    'r1,2000,004,0012345679,B,',
    ',3000,004,00-1234-5678,A,',
    ',3000,004,0012345678,A,other memo',
    ',3001,004,0012345678,A,',
    'r2,3000,004,0012345678,A,',
  ].join('\n');
  const { good, faults } = judge(text);
  assert.deepEqual(
    good.map((line) => line.line),
    [2, 4, 6, 7],
  );
  assert.deepEqual(
    faults.map(({ line, got, expected }) => [line, got, expected]),
    [
      [3, 'r1', 'a reference of its own: line 2 has this one'],
      [
        5,
        '004 0012345678 3000 without a reference',
        'each payment once: line 4 pays it already; if both are meant, give this one a reference of its own',
      ],
    ],
  );
});

test('a column of assets must name the one that is paid', () => {
  const text = 'asset,amount,bank_code,account_number,holder_name\nKRW,1,004,0012345678,A\nUSD,2,004,0012345678,A\n';
  assert.deepEqual(places(text), [[3, 'asset', 1, 'USD']]);
});

test('lines in JSON are judged one by one like cells: a number is no text, an unknown field is no field', () => {
  const good = { amount: '1000', bank_code: '004', account_number: '0012345678', holder_name: 'A' };
  const lines = linesFromJson([
    good,
    { ...good, amount: 1000 },
    { ...good, account_number: 12345678 },
    { ...good, iban: 'x' },
    'x',
    { ...good, external_id: null, memo: 7 },
  ]);
  const judged = judgeLines(lines, RULES);
  assert.deepEqual(
    judged.good.map((line) => line.line),
    [1],
  );
  assert.deepEqual(
    judged.faults.map(({ line, column, columnNumber, got }) => [line, column, columnNumber, got]),
    [
      [2, 'amount', null, 'the number 1000'],
      [3, 'account_number', null, 'the number 12345678'],
      [4, 'iban', null, 'iban'],
      [5, '', null, 'x'],
      [6, 'memo', null, 'the number 7'],
    ],
  );
});
