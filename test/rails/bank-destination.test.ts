/*
 * Goal: what a bank would cut, round or replace is refused at the edge, with the place and the reason, and nothing is changed
 * but a name's normal form. Method: the bad inputs of the field (cases M2, M5) against the rules of each profile.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PROFILES } from '../../src/rails/bank/index.ts';
import { type PayeeInput, type PayeeRules, readPayee } from '../../src/rails/bank/destination.ts';

function rulesOf(name: string): PayeeRules {
  return (PROFILES.find((one) => one.name === name) ?? assert.fail(name)).payee;
}

const GOOD = { bankCode: '004', accountNumber: '110-123-0456', holderName: '홍길동', memo: '급여' };

function fault(change: Partial<PayeeInput>, name = 'generic', base: PayeeInput = GOOD): string {
  const read = readPayee({ ...base, ...change }, rulesOf(name));
  return read.ok ? 'ok' : read.faults.map((one) => one.field).join(',');
}

describe('an account number is text of digits (case M5)', () => {
  test('leading zeros and dashes stay as they were written', () => {
    for (const accountNumber of ['0012345678', '110-123-456789', '000']) {
      const read = readPayee({ ...GOOD, accountNumber }, rulesOf('generic'));
      assert.ok(read.ok);
      assert.equal(read.payee.accountNumber, accountNumber);
      assert.equal(read.destination, `004:${accountNumber}`);
    }
  });

  test('a number, an exponent, letters, blanks, full-width digits and signs are refused', () => {
    for (const accountNumber of [
      12345678,
      null,
      undefined,
      '',
      '1.1E+11',
      '1E11',
      '1,1E+11',
      '12 34',
      ' 1234',
      '1234\n',
      '12a4',
      '-1234',
      '1234-',
      '１２３４',
      '+1234',
      '0'.repeat(60),
    ]) {
      assert.equal(fault({ accountNumber }), 'account_number', JSON.stringify(accountNumber));
    }
    // A registered receiver's id may have letters; a spreadsheet's ruin of a number is refused there too.
    const seller = { bankCode: 'seller', accountNumber: 'sel_a1', holderName: '김토스', memo: '정산금' };
    assert.equal(fault({}, 'toss', seller), 'ok');
    assert.equal(fault({ accountNumber: '1E11' }, 'toss', seller), 'account_number');
    assert.equal(fault({ accountNumber: '1.1E+11' }, 'paypal-payouts', seller), 'account_number');
  });
});

test('a malformed bank code is refused, an unknown one is a warning', () => {
  assert.equal(fault({ bankCode: 4 }), 'bank_code');
  assert.equal(fault({ bankCode: '4' }), 'bank_code');
  assert.equal(fault({ bankCode: '00 4' }), 'bank_code');
  const read = readPayee({ ...GOOD, bankCode: '999' }, rulesOf('generic'));
  assert.ok(read.ok);
  assert.deepEqual(
    read.warnings.map((one) => one.field),
    ['bank_code'],
  );
  const known = readPayee(GOOD, rulesOf('generic'));
  assert.deepEqual(known.ok && known.warnings, []);
});

test('a name is compared and sent as NFC, and its original is kept', () => {
  const nfd = '홍길동'.normalize('NFD');
  assert.notEqual(nfd, '홍길동');
  const read = readPayee({ ...GOOD, holderName: nfd }, rulesOf('generic'));
  assert.ok(read.ok);
  assert.equal(read.payee.holderName, '홍길동');
  assert.equal(read.originalName, nfd);
});

test('a name of 72 characters, emoji, full-width, invisible and half characters are refused, never replaced', () => {
  for (const holderName of [
    '가'.repeat(72),
    '홍길동😀',
    '홍길동❤️',
    '🇰🇷',
    'ＨＯＮＧ',
    '홍　길동',
    '홍\u200B길동',
    '홍\u202E길동',
    '홍\u3164길동',
    '홍\u00A0길동',
    '홍\u2003길동',
    '홍\t길동',
    '\ud800',
    '',
    '   ',
    ' 홍길동',
  ]) {
    assert.equal(fault({ holderName }), 'holder_name', JSON.stringify(holderName));
  }
  assert.equal(fault({ holderName: '가'.repeat(70) }), 'ok');
  assert.equal(fault({ holderName: 'O’Neill & 3 #1' }), 'ok');
});

test('a memo over the limit is refused with its size, never cut (case M2)', () => {
  const seller = { bankCode: 'seller', accountNumber: 'sel_a1', holderName: '김토스' };
  assert.equal(fault({ memo: '일이삼사오육칠' }, 'toss', seller), 'ok');
  assert.equal(fault({ memo: '일이삼사오육칠팔' }, 'toss', seller), 'memo');
  assert.equal(fault({ memo: '' }, 'toss', seller), 'memo');
  assert.equal(fault({ memo: '가'.repeat(46) }), 'ok', '138 bytes');
  assert.equal(fault({ memo: '가'.repeat(47) }), 'memo', '141 bytes');
  const korean: PayeeRules = {
    ...rulesOf('generic'),
    memo: { unitsMax: 7, unit: 'euc_kr', charset: 'hangul_latin', required: false },
  };
  const of = (memo: string) => readPayee({ ...GOOD, memo }, korean);
  assert.ok(of('가나다a').ok, 'seven bytes');
  const over = of('가나다라');
  assert.ok(!over.ok);
  assert.match(over.faults[0]?.expected ?? '', /at most 7 bytes.*this has 8/);
  assert.ok(!of('漢').ok);
});

test('all faults of a line are told at once', () => {
  assert.equal(
    fault({ bankCode: '!', accountNumber: '1E5', holderName: '😀', memo: 'x'.repeat(141) }),
    'bank_code,account_number,holder_name,memo',
  );
});
