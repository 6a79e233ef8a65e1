/** Amounts as others write them, as our own integers: what cannot be read without rounding is no amount. Pure. */
import type { Json } from '../engine/rail.ts';
import { parseAmount } from '../kernel/money.ts';

/** How an amount stands in an answer. */
export interface AmountText {
  readonly text: string;
  readonly unit: 'minor' | 'major';
}

export function amountOf(value: Json | undefined, unit: AmountText['unit']): AmountText | null {
  return typeof value === 'string' ? { text: value, unit } : null;
}

/** 78 digits, a point, and as many idle zeros. Somebody else's text of any length is not looked through for an amount. */
const AMOUNT_CHARACTERS_MAX = 160;

/** The amount in the asset's smallest unit; `null` where the text is none (an exponent, too many digits, a sign). */
export function unitsIn(amount: AmountText | null, decimals: number): bigint | null {
  if (amount === null || amount.text.length > AMOUNT_CHARACTERS_MAX) return null;
  if (amount.unit === 'minor') return /^(0|[1-9][0-9]{0,77})$/.test(amount.text) ? BigInt(amount.text) : null;
  const parsed = parseAmount(withoutIdleZeros(amount.text), decimals);
  return parsed.ok ? parsed.units : null;
}

/** `10.000` of a currency with two places: zeros that nobody counts. */
function withoutIdleZeros(text: string): string {
  if (!text.includes('.')) return text;
  let end = text.length;
  while (text[end - 1] === '0') end -= 1;
  return text.slice(0, text[end - 1] === '.' ? end - 1 : end);
}
