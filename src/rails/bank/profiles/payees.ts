/** Rules for receivers that several providers share. */
import { DIGITS_AND_DASHES, type PayeeRules, type TextRule } from '../destination.ts';

/** Codes of the Korean clearing house, as texts: `4` and `004` are not one. Securities houses are left out: a warning. */
export const KOREAN_BANKS: ReadonlySet<string> = new Set(
  (
    '001 002 003 004 005 007 008 011 012 020 023 027 031 032 034 035 037 039 045 048 050 054 055 057 060 062 064 071 ' +
    '081 088 089 090 092'
  ).split(' '),
);

export const ACCOUNT_DIGITS = {
  pattern: DIGITS_AND_DASHES,
  what: 'the account number as text: digits, with dashes between them if you like, at most 34',
} as const;

/** SEPA and most cores keep 70 characters of a name; one that is longer would be cut on the way. */
export const NAME_70: TextRule = { unitsMax: 70, unit: 'characters', charset: 'any', required: true };

export const KOREAN_PAYEE: PayeeRules = {
  account: ACCOUNT_DIGITS,
  bank: { pattern: /^[0-9A-Za-z]{3,11}$/, what: 'a bank code as text, such as "004"', known: KOREAN_BANKS },
  holderName: NAME_70,
  memo: { unitsMax: 140, unit: 'utf8', charset: 'any', required: false },
};

/** A receiver that was registered at the provider: its id there stands in the account's place. */
export function registered(what: string, pattern: RegExp, memo: TextRule): PayeeRules {
  return {
    account: { pattern, what },
    bank: {
      pattern: /^[0-9A-Za-z_-]{2,20}$/,
      what: 'a bank code, or the kind of the registered receiver',
      known: null,
    },
    holderName: NAME_70,
    memo,
  };
}

export const ROUTING_NUMBER = {
  pattern: /^[0-9]{9}$/,
  what: 'a routing number of nine digits, as text',
  known: null,
} as const;
