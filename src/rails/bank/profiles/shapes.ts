/** What the mappers have in common: reading fields of an answer whose numbers are texts, and an empty object to fill. */
import type { Json } from '../../../engine/rail.ts';
import { field, textOf } from '../../json.ts';
import type { AmountText, ProviderObject } from '../profile.ts';

export const NOTHING_SHOWN: ProviderObject = {
  id: null,
  key: null,
  reference: null,
  amount: null,
  currency: null,
  bankCode: null,
  accountNumber: null,
  holderName: null,
  state: null,
  reason: null,
  returns: [],
  lines: null,
};

export function text(value: Json | undefined, ...path: readonly string[]): string | null {
  return textOf(at(value, ...path));
}

export function at(value: Json | undefined, ...path: readonly string[]): Json | undefined {
  return path.reduce<Json | undefined>((here, name) => field(here, name), value);
}

export function amountOf(value: Json | undefined, unit: AmountText['unit']): AmountText | null {
  return typeof value === 'string' ? { text: value, unit } : null;
}

/** An account number without the dashes that people write in it. */
export function bareDigits(account: string): string {
  return account.replaceAll('-', '');
}

/** An id in a path: what a provider called it, never more of the path than that. */
export function segment(id: string): string {
  // Half a character has no bytes: it is asked for as the sign for one, and nothing of the look fails by it.
  return encodeURIComponent(id.toWellFormed());
}
