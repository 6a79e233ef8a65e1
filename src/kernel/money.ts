/**
 * Money: strict decimal text at the edges, `bigint` in the asset's smallest unit inside, nothing else anywhere.
 *
 * Promises: a text that is accepted has exactly one meaning and comes back as the same canonical text; more fraction
 * digits than the asset has are refused, never rounded (case K6); exponents, signs, blanks, leading zeros and non-ASCII
 * digits are refused (case K3). The one rounding rule: a share of an amount is rounded down and the remainder is
 * returned to the caller, who posts it.
 * Never: a JavaScript number, not even in between.
 */

/** 2^256 − 1 has 78 digits: `numeric(78,0)` holds every amount that an EVM or TRON token can name (case K1). */
export const UNITS_MAX = 2n ** 256n - 1n;
/** ERC-20 allows uint8, but nothing in the field goes beyond 36; a larger figure is a typing error. */
export const DECIMALS_MAX = 36;

export type AmountFault = 'not_text' | 'not_decimal' | 'too_many_decimals' | 'too_large';
export type ParsedAmount = { ok: true; units: bigint } | { ok: false; fault: AmountFault; expected: string };

const DECIMAL_TEXT = /^(0|[1-9][0-9]{0,77})(?:\.([0-9]{1,78}))?$/;

/** Reads a decimal text such as `12.5` into units of an asset with `decimals` places. Zero is a valid amount here. */
export function parseAmount(text: unknown, decimals: number): ParsedAmount {
  if (typeof text !== 'string') {
    return {
      ok: false,
      fault: 'not_text',
      expected: 'a decimal string, text in quotes such as "12.50" (JSON numbers lose digits)',
    };
  }
  const match = DECIMAL_TEXT.exec(text);
  if (match === null) {
    return {
      ok: false,
      fault: 'not_decimal',
      expected: 'digits, then optionally a point and digits; no sign, exponent, blank or leading zero',
    };
  }
  const whole = match[1] ?? '0';
  const fraction = match[2] ?? '';
  if (fraction.length > decimals) {
    return { ok: false, fault: 'too_many_decimals', expected: `at most ${decimals} digits after the point` };
  }
  const units = BigInt(whole + fraction.padEnd(decimals, '0'));
  if (units > UNITS_MAX) return { ok: false, fault: 'too_large', expected: `at most 2^256 − 1 smallest units` };
  return { ok: true, units };
}

/** Writes units as canonical decimal text: no trailing zeros, no point without digits; negative with a leading `-`. */
export function formatUnits(units: bigint, decimals: number): string {
  const sign = units < 0n ? '-' : '';
  const digits = (units < 0n ? -units : units).toString().padStart(decimals + 1, '0');
  if (decimals === 0) return sign + digits;
  const whole = digits.slice(0, -decimals);
  const fraction = digits.slice(-decimals).replace(/0+$/, '');
  return fraction === '' ? sign + whole : `${sign}${whole}.${fraction}`;
}

/** One share `numerator/denominator` of an amount, rounded down; `remainder` is what the rounding left out. */
export function share(units: bigint, numerator: bigint, denominator: bigint): { part: bigint; remainder: bigint } {
  if (denominator <= 0n || numerator < 0n || units < 0n) throw new RangeError('share needs non-negative amounts');
  return { part: (units * numerator) / denominator, remainder: (units * numerator) % denominator };
}

/** Splits an amount by weights so that the parts add up exactly; what rounding leaves goes one unit each, in order. */
export function split(units: bigint, weights: readonly bigint[]): bigint[] {
  const total = weights.reduce((sum, weight) => sum + weight, 0n);
  if (total <= 0n || weights.some((weight) => weight < 0n)) throw new RangeError('split needs positive weights');
  const parts = weights.map((weight) => share(units, weight, total).part);
  let left = units - parts.reduce((sum, part) => sum + part, 0n);
  return parts.map((part, index) => {
    if (left === 0n || (weights[index] ?? 0n) === 0n) return part;
    left -= 1n;
    return part + 1n;
  });
}

/** A fee: a flat part plus basis points, the latter rounded down in favour of the payer. All in units. */
export function feeOf(units: bigint, flatUnits: bigint, basisPoints: bigint): bigint {
  return flatUnits + share(units, basisPoints, 10_000n).part;
}
