/*
 * Amounts as banks write them: in whole smallest units, or as decimal text with the currency's own number of digits. Written
 * apart from the product's reader on purpose: a simulator that shared it would share its misreading.
 */

/** ISO 4217 minor units of the currencies that the profiles speak. */
const DECIMALS: Readonly<Record<string, number>> = { KRW: 0, JPY: 0, USD: 2, EUR: 2, GBP: 2 };

export function decimalsOf(currency: string): number | null {
  return DECIMALS[currency] ?? null;
}

/** `12.50`, `12.5` and `12` of USD; `null` for more digits than the currency has, a sign, an exponent or blanks. */
export function readDecimal(text: string, currency: string): bigint | null {
  const decimals = decimalsOf(currency);
  const match = /^([0-9]{1,30})(?:\.([0-9]{1,30}))?$/.exec(text);
  if (decimals === null || match === null) return null;
  const fraction = match[2] ?? '';
  if (fraction.length > decimals) return null;
  return BigInt((match[1] ?? '') + fraction.padEnd(decimals, '0'));
}

/** Always with all digits of the currency, as banks print it: `12.50`. */
export function fixedDecimal(units: bigint, currency: string): string {
  const decimals = decimalsOf(currency) ?? 0;
  if (decimals === 0) return units.toString();
  const digits = units.toString().padStart(decimals + 1, '0');
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}
