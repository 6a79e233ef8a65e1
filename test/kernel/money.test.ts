/*
 * Goal: an amount has one spelling and one meaning. Method: the spellings that were seen in the field, and random amounts
 * there and back, through text and through the database.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { DECIMALS_MAX, feeOf, formatUnits, parseAmount, share, split, UNITS_MAX } from '../../src/kernel/money.ts';
import { makeLedgerWorld, posting, words } from '../support/ledger-world.ts';

const arbitraryUnits = fc.bigInt(0n, UNITS_MAX);
const arbitraryDecimals = fc.nat(DECIMALS_MAX);

test('case K1: 9.3 ether, 2^63 and 2^256 - 1 come back exactly, through text and through the ledger', async () => {
  const world = await makeLedgerWorld('money');
  for (const [nth, units] of [9_300_000_000_000_000_000n, 2n ** 63n, UNITS_MAX].entries()) {
    assert.deepEqual(parseAmount(formatUnits(units, 18), 18), { ok: true, units });
    const account = await world.account();
    const verdicts = await world.post(
      posting(`K1:${nth}`, [world.house, -units], [account, units]),
      posting(`K1:${nth}:back`, [account, -units], [world.house, units]),
      posting(`K1:${nth}:again`, [world.house, -units], [account, units]),
    );
    assert.deepEqual(words(verdicts), ['posted', 'posted', 'posted']);
    assert.equal((await world.balance(account)).balance, units);
    await world.post(posting(`K1:${nth}:end`, [account, -units], [world.house, units]));
  }
  await world.end();
});

const REFUSED: readonly (readonly [unknown, string])[] = [
  ['1e-7', 'not_decimal'],
  ['1E18', 'not_decimal'],
  ['1e+21', 'not_decimal'],
  ['+1', 'not_decimal'],
  ['-1', 'not_decimal'],
  ['-0', 'not_decimal'],
  [' 1', 'not_decimal'],
  ['1 ', 'not_decimal'],
  ['1\n', 'not_decimal'],
  ['\t1', 'not_decimal'],
  ['01', 'not_decimal'],
  ['00', 'not_decimal'],
  ['1.', 'not_decimal'],
  ['.5', 'not_decimal'],
  ['.', 'not_decimal'],
  ['', 'not_decimal'],
  ['NaN', 'not_decimal'],
  ['Infinity', 'not_decimal'],
  ['１００', 'not_decimal'],
  ['١٢٣', 'not_decimal'],
  ['1,000', 'not_decimal'],
  ['1_000', 'not_decimal'],
  ['1.0.0', 'not_decimal'],
  ['0x10', 'not_decimal'],
  ['1n', 'not_decimal'],
  ['1'.repeat(79), 'not_decimal'],
  [1, 'not_text'],
  [1e-7, 'not_text'],
  [10n, 'not_text'],
  [null, 'not_text'],
  [undefined, 'not_text'],
  [['1'], 'not_text'],
];

for (const [given, fault] of REFUSED) {
  test(`case K3: the amount ${typeof given === 'bigint' ? `${given}n` : JSON.stringify(given)} is refused as ${fault}`, () => {
    const parsed = parseAmount(given, 18);
    assert.equal(parsed.ok ? 'accepted' : parsed.fault, fault);
  });
}

test('case K3: 0.0000001 is a decimal text like any other, where the asset has the digits', () => {
  assert.deepEqual(parseAmount('0.0000001', 18), { ok: true, units: 100_000_000_000n });
  assert.deepEqual(parseAmount('0.0000001', 7), { ok: true, units: 1n });
});

test('case K6: more fraction digits than the asset has are refused, never rounded', () => {
  for (const [text, decimals] of [
    ['1.0000001', 6],
    ['0.5', 0],
    ['1.0000000', 6],
    ['0.0000000000000000001', 18],
  ] as const) {
    const parsed = parseAmount(text, decimals);
    assert.equal(parsed.ok ? 'accepted' : parsed.fault, 'too_many_decimals');
  }
});

test('one unit more than 2^256 - 1 is too large', () => {
  const parsed = parseAmount((UNITS_MAX + 1n).toString(), 0);
  assert.equal(parsed.ok ? 'accepted' : parsed.fault, 'too_large');
});

test('every amount is written and read back as the same amount, and its text is canonical', () => {
  fc.assert(
    fc.property(arbitraryUnits, arbitraryDecimals, (units, decimals) => {
      const text = formatUnits(units, decimals);
      assert.deepEqual(parseAmount(text, decimals), { ok: true, units });
      assert.doesNotMatch(text, /\.\d*0$|\.$/);
      assert.equal(formatUnits(-units, decimals), units === 0n ? '0' : `-${text}`);
    }),
  );
});

test('whatever text is accepted means exactly the digits that it shows', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[0-9]{1,30}(\.[0-9]{1,40})?$/), arbitraryDecimals, (text, decimals) => {
      const parsed = parseAmount(text, decimals);
      if (!parsed.ok) return;
      const [whole = '', fraction = ''] = text.split('.');
      assert.equal(
        parsed.units,
        BigInt(whole) * 10n ** BigInt(decimals) + BigInt(fraction.padEnd(decimals, '0') || '0'),
      );
    }),
  );
});

test('case K6: a share is rounded down and its remainder is given back, so that nothing is lost', () => {
  fc.assert(
    fc.property(arbitraryUnits, fc.bigInt(0n, 10n ** 9n), fc.bigInt(1n, 10n ** 9n), (units, numerator, denominator) => {
      const { part, remainder } = share(units, numerator, denominator);
      assert.equal(part * denominator + remainder, units * numerator);
      assert.ok(remainder >= 0n && remainder < denominator);
    }),
  );
});

test('case K6: the parts of a split add up to the unit, and none is off by more than one', () => {
  fc.assert(
    fc.property(
      arbitraryUnits,
      fc.array(fc.bigInt(0n, 10n ** 6n), { minLength: 1, maxLength: 12 }),
      (units, weights) => {
        const total = weights.reduce((sum, weight) => sum + weight, 0n);
        fc.pre(total > 0n);
        const parts = split(units, weights);
        assert.equal(
          parts.reduce((sum, part) => sum + part, 0n),
          units,
        );
        parts.forEach((part, nth) => {
          const exact = (units * (weights[nth] ?? 0n)) / total;
          assert.ok(part === exact || part === exact + 1n);
          if (weights[nth] === 0n) assert.equal(part, 0n);
        });
      },
    ),
  );
});

test('case K6: a fee is its flat part and basis points rounded down, in favour of the payer', () => {
  assert.equal(feeOf(999n, 0n, 1n), 0n);
  assert.equal(feeOf(10_000n, 5n, 1n), 6n);
  assert.equal(feeOf(19_999n, 0n, 1n), 1n);
});
