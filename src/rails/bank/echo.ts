/**
 * Is this answer about our transfer? Asked before outcome or code, of refusals too (T4). Pure.
 *
 * Another key or reference, or none where one is due: the answer is somebody else's, and says nothing. Ours, but another
 * amount, currency or receiver: something stands under our key that is not what we sealed.
 */
import { unitsIn } from '../amount-text.ts';
import type { Profile, ProviderObject } from './profile.ts';
import type { Expect } from './seal.ts';

export type Match = { readonly match: 'ours' } | { readonly match: 'not_ours' | 'other_content'; readonly why: string };

export function matchObject(profile: Profile, expect: Expect, object: ProviderObject): Match {
  for (const name of ['key', 'reference'] as const) {
    const shown = object[name];
    if (shown !== null && shown !== expect.key) return { match: 'not_ours', why: `its ${name} is ${shown}, not ours` };
    if (shown === null && profile.echoes.includes(name)) {
      return { match: 'not_ours', why: `it shows no ${name}, where one is due` };
    }
  }
  const differs = profile.echoes.find((name) => !echoed(name, expect, object));
  return differs === undefined
    ? { match: 'ours' }
    : { match: 'other_content', why: `under our key, but its ${differs} is ${shownAs(differs, object)}` };
}

function echoed(name: Profile['echoes'][number], expect: Expect, object: ProviderObject): boolean {
  switch (name) {
    case 'key':
    case 'reference':
      return true;
    case 'amount':
      return unitsIn(object.amount, expect.decimals) === expect.amount;
    case 'currency':
      return object.currency?.toUpperCase() === expect.currency;
    case 'bankCode':
      return object.bankCode === expect.bankCode;
    case 'accountNumber':
      return object.accountNumber !== null && plain(object.accountNumber) === plain(expect.accountNumber);
    case 'holderName':
      return object.holderName?.normalize('NFC') === expect.holderName;
    case 'lines':
      return object.lines === null || object.lines.length === expect.lines.length;
  }
}

function shownAs(name: Profile['echoes'][number], object: ProviderObject): string {
  if (name === 'amount') return object.amount === null ? 'missing' : object.amount.text;
  if (name === 'lines') return `${object.lines?.length ?? 0} lines`;
  return object[name] ?? 'missing';
}

/** Dashes are the caller's way of writing; banks drop them. */
function plain(account: string): string {
  return account.replaceAll(/[- ]/g, '');
}
