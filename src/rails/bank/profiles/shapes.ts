/** What the mappers have in common: reading fields of an answer whose numbers are texts, and an empty object to fill. */
import type { Json } from '../../../engine/rail.ts';
import { field, textOf } from '../../json.ts';
import type { ProviderObject } from '../profile.ts';

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

/** An account number without the dashes that people write in it. */
export function bareDigits(account: string): string {
  return account.replaceAll('-', '');
}
