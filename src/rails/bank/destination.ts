/**
 * The edge for a bank's receiver: what a provider would cut, round or refuse is refused here, with the place and the reason.
 *
 * Everything is text (M5): leading zeros count, `1.1E+11` is a spreadsheet's ruin of a number and never an account. Names
 * are brought to NFC and otherwise kept; the original is handed back for the record. Nothing is ever cut (M2): a memo over
 * the limit is the caller's to shorten, before the seal.
 */
import type { BankPayee } from '../../engine/rail.ts';

export interface TextRule {
  readonly unitsMax: number;
  /** What a provider counts: characters, UTF-8 bytes, or bytes of a Korean bank's EUC-KR (two for each Hangul syllable). */
  readonly unit: 'characters' | 'utf8' | 'euc_kr';
  readonly charset: 'hangul_latin' | 'latin' | 'any';
  readonly required: boolean;
}

export interface PayeeRules {
  /** For people: what `account_number` is here. */
  readonly account: { readonly pattern: RegExp; readonly what: string };
  readonly bank: {
    readonly pattern: RegExp;
    readonly what: string;
    /** Others are a warning, never a refusal: banks are founded. */
    readonly known: ReadonlySet<string> | null;
  };
  readonly holderName: TextRule;
  readonly memo: TextRule;
}

export type PayeeField = 'bank_code' | 'account_number' | 'holder_name' | 'memo';

export interface PayeeFault {
  readonly field: PayeeField;
  readonly got: string;
  readonly expected: string;
}

export type ReadPayee =
  | {
      readonly ok: true;
      readonly payee: BankPayee;
      /** `{bankCode}:{accountNumber}`, as an effect's `destination`. */
      readonly destination: string;
      readonly originalName: string;
      readonly warnings: readonly PayeeFault[];
    }
  | { readonly ok: false; readonly faults: readonly PayeeFault[] };

export interface PayeeInput {
  readonly bankCode: unknown;
  readonly accountNumber: unknown;
  readonly holderName: unknown;
  readonly memo?: unknown;
}

/** Digits, with dashes between them if the caller likes: an account number as a bank prints it. */
export const DIGITS_AND_DASHES = /^[0-9](?:[0-9-]{0,32}[0-9])?$/;
const E_NOTATION = /^[+-]?[0-9]+(?:[.,][0-9]+)?[eE][+-]?[0-9]+$/;

export function readPayee(input: PayeeInput, rules: PayeeRules): ReadPayee {
  const faults: PayeeFault[] = [];
  const bankCode = textOf('bank_code', input.bankCode, faults);
  const accountNumber = textOf('account_number', input.accountNumber, faults);
  const originalName = textOf('holder_name', input.holderName, faults);
  const memo = textOf('memo', input.memo ?? '', faults).normalize('NFC');
  const holderName = originalName.normalize('NFC');
  if (faults.length > 0) return { ok: false, faults };

  if (!rules.bank.pattern.test(bankCode)) faults.push({ field: 'bank_code', got: bankCode, expected: rules.bank.what });
  const account = accountFault(accountNumber, rules);
  if (account !== null) faults.push({ field: 'account_number', got: accountNumber, expected: account });
  const name = textFault(holderName, rules.holderName);
  if (name !== null) faults.push({ field: 'holder_name', got: holderName, expected: name });
  const memoFault = textFault(memo, rules.memo);
  if (memoFault !== null) faults.push({ field: 'memo', got: memo, expected: memoFault });
  if (faults.length > 0) return { ok: false, faults };

  const unknownBank = rules.bank.known !== null && !rules.bank.known.has(bankCode);
  return {
    ok: true,
    payee: { bankCode, accountNumber, holderName, memo },
    destination: `${bankCode}:${accountNumber}`,
    originalName,
    warnings: unknownBank
      ? [{ field: 'bank_code', got: bankCode, expected: 'a bank code that is known here; check it before paying' }]
      : [],
  };
}

/** The same rules for a payee that was frozen at intake: a transfer under older rules is not sealed under newer ones. */
export function payeeFaults(payee: BankPayee, rules: PayeeRules): readonly PayeeFault[] {
  const read = readPayee(payee, rules);
  if (!read.ok) return read.faults;
  return read.payee.holderName === payee.holderName && read.payee.memo === payee.memo
    ? []
    : [{ field: 'holder_name', got: payee.holderName, expected: 'name and memo in NFC' }];
}

function textOf(field: PayeeField, value: unknown, faults: PayeeFault[]): string {
  if (typeof value === 'string' && value.isWellFormed()) return value;
  faults.push({
    field,
    got: typeof value === 'string' ? 'a text with half a character' : `a ${typeof value}`,
    expected: 'a text, in quotes: a JSON number loses leading zeros',
  });
  return '';
}

function accountFault(account: string, rules: PayeeRules): string | null {
  if (E_NOTATION.test(account))
    return 'the account number as text; a spreadsheet has turned this one into a rounded number';
  return rules.account.pattern.test(account) ? null : rules.account.what;
}

// The last four are Hangul fillers: letters that show nothing.
const CONTROL = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u{115F}\u{1160}\u{3164}\u{FFA0}]/u;
const OTHER_BLANK = /[^\S\u{20}]/u;
// Digits, # and * are emoji components, too; they are ordinary here.
const EMOJI = /[\p{Extended_Pictographic}\p{Regional_Indicator}\p{Emoji_Modifier}\u{20E3}\u{FE0F}]/u;
const FULL_WIDTH = /[\u{3000}\u{FF01}-\u{FF60}\u{FFE0}-\u{FFE6}]/u;
const CHARSETS = {
  hangul_latin: { pattern: /^[\u{20}-\u{7E}\u{AC00}-\u{D7A3}]*$/u, what: 'Hangul syllables and ASCII only' },
  latin: { pattern: /^[\u{20}-\u{7E}]*$/u, what: 'ASCII only' },
  any: { pattern: /^.*$/u, what: 'text' },
} as const;

function textFault(text: string, rule: TextRule): string | null {
  if (rule.required && text.trim() === '') return 'not empty';
  if (text !== text.trim()) return 'no blanks at the ends';
  if (EMOJI.test(text)) return 'no emoji: banks replace or refuse them';
  if (CONTROL.test(text)) return 'no control or invisible characters';
  if (FULL_WIDTH.test(text))
    return 'half-width letters, digits and signs: full-width ones count and compare differently';
  if (OTHER_BLANK.test(text)) return 'no blanks but the ordinary one: others look alike and compare differently';
  const charset = CHARSETS[rule.charset];
  if (!charset.pattern.test(text)) return charset.what;
  const units = unitsOf(text, rule.unit);
  return units > rule.unitsMax ? `at most ${rule.unitsMax} ${UNIT_NAMES[rule.unit]}; this has ${units}` : null;
}

const UNIT_NAMES = { characters: 'characters', utf8: 'bytes (UTF-8)', euc_kr: 'bytes (Hangul counts two)' } as const;

function unitsOf(text: string, unit: TextRule['unit']): number {
  if (unit === 'utf8') return Buffer.byteLength(text);
  const characters = Array.from(text);
  if (unit === 'characters') return characters.length;
  return characters.reduce((sum, one) => sum + ((one.codePointAt(0) ?? 0) < 0x80 ? 1 : 2), 0);
}
