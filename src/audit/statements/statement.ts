/**
 * A bank's statement, read: what the bank says moved on our account, line by line.
 *
 * Promises: a file is taken whole or refused whole, with each fault's line or element named; amounts are decimal text turned
 * into units of the asset, never a number; opening balance, entries and closing balance add up to the unit wherever the file
 * gives them; only booked entries count. A line is one movement: a batch-booked entry becomes its parts.
 * Never: a guess (an ambiguous date, a currency without an asset, parts that do not add up are faults), an entity or a DTD, a
 * booking. What the lines mean for us is `audit/reconcile/`.
 * Files: camt (ISO 20022), xml (its ground), csv, line-key (what makes a line the same one), import and store.
 */
import { parseAmount } from '../../kernel/money.ts';

export interface StatementLine {
  /** Where it stands in the file, for people. */
  readonly place: string;
  /** The bank's own reference of this line. */
  readonly ownReference: string | null;
  readonly direction: 'out' | 'in';
  /** In the asset's smallest unit, above 0. */
  readonly amount: bigint;
  /** ISO 8601 days, as the bank wrote them: its own days. */
  readonly bookedOn: string;
  readonly valueOn: string | null;
  /** All that could be our key or the provider's id, the own one included. */
  readonly references: readonly string[];
  readonly counterpartyName: string | null;
  readonly counterpartyAccount: string | null;
  readonly remittance: string | null;
  /** It takes back an earlier entry. */
  readonly isReversal: boolean;
  /** The bank calls it a fee of its own. */
  readonly isCharge: boolean;
  readonly returnReason: string | null;
}

export interface Statement {
  /** As the file names it; `null`: it does not. */
  readonly account: string | null;
  readonly name: string | null;
  readonly sequence: bigint | null;
  /** ISO 4217. */
  readonly currency: string;
  readonly from: string;
  readonly to: string;
  /** Both or none. Below 0: overdrawn. */
  readonly opening: bigint | null;
  readonly closing: bigint | null;
  readonly lines: readonly StatementLine[];
}

export interface StatementFault {
  readonly place: string;
  readonly detail: string;
}

export type ReadStatements =
  | { readonly ok: true; readonly format: string; readonly statements: readonly Statement[]; readonly skipped: number }
  | { readonly ok: false; readonly faults: readonly StatementFault[] };

/** Decimals of the currencies that the rail pays in. */
export type Currencies = ReadonlyMap<string, number>;

/** The first faults say which kind they are. */
const FAULTS_MAX = 20;

export interface Faults {
  readonly list: readonly StatementFault[];
  /** Answers `null`, so that a reader can return it. */
  add(place: string, detail: string): null;
}

export function makeFaults(): Faults {
  const list: StatementFault[] = [];
  return {
    list,
    add(place, detail) {
      if (list.length < FAULTS_MAX) list.push({ place, detail });
      return null;
    },
  };
}

/** What went out is below 0. */
export function signed(line: { readonly direction: 'out' | 'in'; readonly amount: bigint }): bigint {
  return line.direction === 'out' ? -line.amount : line.amount;
}

/** Banks pad: `0012.50`, `12500.00` of a currency without places. Zeros that nobody counts go; nothing is rounded. */
export function readUnits(text: string, decimals: number): bigint | null {
  const match = /^(\d{1,40})(?:\.(\d{1,40}))?$/.exec(text);
  if (match === null) return null;
  const whole = (match[1] ?? '').replace(/^0+(?=\d)/, '');
  const fraction = (match[2] ?? '').replace(/0+$/, '');
  const parsed = parseAmount(fraction === '' ? whole : `${whole}.${fraction}`, decimals);
  return parsed.ok ? parsed.units : null;
}

/** Derived keys are 32 characters that nobody writes by chance; banks carry them in free text, and with a name behind them. */
export function keysIn(text: string | null): string[] {
  return text?.match(/(?<![0-9a-z])[0-9a-z]{32}(?![0-9a-z])/g) ?? [];
}

/** Whatever on a line could name a payment: its references as they stand, and our keys inside of them and of its text. */
export function namesOn(line: Pick<StatementLine, 'references' | 'remittance'>): string[] {
  return [...new Set([...line.references, ...[...line.references, line.remittance].flatMap(keysIn)])];
}

/** Of other centuries are typing errors, and year 0 is none in a database. */
const YEARS = /^(?:19|2[0-9])/;

/** `2030-01-02`, also where a time follows, or where it is written 20300102, 2030/01/02, 2030.01.02; else `null`. */
export function readDay(text: string): string | null {
  const match =
    /^(\d{4})([-/.])(\d{2})\2(\d{2})(?:$|[T ])/.exec(text) ?? /^(\d{4})()(\d{2})(\d{2})(?:$|[T ])/.exec(text);
  if (match === null) return null;
  const day = `${match[1] ?? ''}-${match[3] ?? ''}-${match[4] ?? ''}`;
  const read = new Date(`${day}T00:00:00Z`);
  return YEARS.test(day) && !Number.isNaN(read.getTime()) && read.toISOString().startsWith(day) ? day : null;
}

export function daysAfter(day: string, days: number): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10);
}

/** UTF-8 and nothing else; a byte order mark is dropped. */
export function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}
