/**
 * Which lines of a file can be paid, and what is wrong with the others. Pure.
 *
 * A line is judged by itself and by the lines before it: two with one reference, or two without any that pay the same payee
 * the same amount, are one line written twice until somebody says otherwise, so the later one is not paid.
 */
import type { BankPayee } from '../../engine/rail.ts';
import { formatUnits, parseAmount } from '../../kernel/money.ts';
import { type Cell, LINE_FIELDS, type LineFault, type RawLine, shown } from './batch-file.ts';
import type { PayeeCheck } from './intake.ts';
import { payeeKey } from './payee-key.ts';

/** A line that can be paid. */
export interface GoodLine {
  readonly line: number;
  readonly externalId: string | null;
  readonly amount: bigint;
  readonly payee: BankPayee;
  /** As the file has it. */
  readonly holderName: string;
  /** Where its reference stands, or would. */
  readonly place: Pick<LineFault, 'column' | 'columnNumber'>;
  /** Odd, but taken. */
  readonly warnings: readonly LineFault[];
}

export interface LineRules {
  readonly readPayee: PayeeCheck;
  readonly decimals: number;
  /** The asset, as a line may name it. */
  readonly assetNames: readonly string[];
  /** Says what is expected where an amount is outside the partner's limits. */
  limit(amount: bigint): string | null;
}

const EXTERNAL_ID = /^[\x21-\x7e]{1,128}$/;
const NO_CELL = 'nothing';

export function judgeLines(
  lines: readonly RawLine[],
  rules: LineRules,
): { readonly good: readonly GoodLine[]; readonly faults: readonly LineFault[] } {
  const good: GoodLine[] = [];
  const faults: LineFault[] = [];
  const firstOf = new Map<string, number>();
  for (const raw of lines) {
    const judged = raw.fault === null ? judgeLine(raw, rules) : [{ line: raw.line, ...raw.fault }];
    if (Array.isArray(judged)) {
      faults.push(...judged);
      continue;
    }
    const key = sameness(judged);
    const first = firstOf.get(key);
    if (first === undefined) {
      firstOf.set(key, judged.line);
      good.push(judged);
    } else faults.push(twice(judged, `line ${first}`, rules.decimals));
  }
  return { good, faults };
}

/** Two lines with the same text here are one line written twice. */
export function sameness({ externalId, payee, amount }: Pick<GoodLine, 'externalId' | 'payee' | 'amount'>): string {
  if (externalId !== null) return `reference\n${externalId}`;
  return `payee\n${payeeKey(payee)}\n${amount}`;
}

/** `where` names the first one. */
export function twice(line: GoodLine, where: string, decimals: number): LineFault {
  const { bankCode, accountNumber } = line.payee;
  return {
    line: line.line,
    ...line.place,
    got: line.externalId ?? `${bankCode} ${accountNumber} ${formatUnits(line.amount, decimals)} without a reference`,
    expected:
      line.externalId === null
        ? `each payment once: ${where} pays it already; if both are meant, give this one a reference of its own`
        : `a reference of its own: ${where} has this one`,
  };
}

function judgeLine(raw: RawLine, rules: LineRules): GoodLine | LineFault[] {
  const faults: LineFault[] = [];
  const value = (field: (typeof LINE_FIELDS)[number]): unknown => raw.cells[field]?.value;
  const place = (field: keyof RawLine['cells']): Pick<LineFault, 'column' | 'columnNumber'> => {
    const cell = raw.cells[field];
    return { column: cell?.column ?? field, columnNumber: cell?.columnNumber ?? null };
  };
  const fault = (field: keyof RawLine['cells'], got: unknown, expected: string): void =>
    void faults.push({ line: raw.line, ...place(field), got: toGot(got), expected });

  const externalId = value('external_id') === '' ? null : (value('external_id') ?? null);
  if (externalId !== null && (typeof externalId !== 'string' || !EXTERNAL_ID.test(externalId)))
    fault('external_id', externalId, '1 to 128 visible ASCII characters, or nothing');
  const named = raw.cells.asset?.value;
  if (named !== undefined && named !== '' && !rules.assetNames.some((name) => name === named))
    fault('asset', named, `${rules.assetNames[0] ?? ''}: one file pays one asset`);
  const amount = readAmount(value('amount'), rules);
  if (typeof amount === 'string') fault('amount', value('amount'), amount);
  const read = rules.readPayee({
    bankCode: value('bank_code'),
    accountNumber: value('account_number'),
    holderName: value('holder_name'),
    memo: value('memo') ?? '',
  });
  if (!read.ok) for (const one of read.faults) fault(one.field, value(one.field) ?? NO_CELL, one.expected);
  if (!read.ok || typeof amount === 'string' || faults.length > 0) return faults;
  return {
    line: raw.line,
    externalId: externalId as string | null,
    amount,
    payee: read.payee,
    holderName: read.originalName,
    place: place('external_id'),
    warnings: read.warnings.map(({ field, got, expected }) => ({
      line: raw.line,
      ...place(field),
      got: toGot(got),
      expected,
    })),
  };
}

/** The amount in units, or what is expected instead. */
function readAmount(value: unknown, rules: LineRules): bigint | string {
  const parsed = parseAmount(value, rules.decimals);
  if (!parsed.ok)
    return typeof value === 'string' && /^[0-9]{1,3}(?:[,' .][0-9]{3})+/.test(value)
      ? `${parsed.expected}; no thousands separators, which are another country’s point`
      : parsed.expected;
  if (parsed.units === 0n) return 'more than zero';
  return rules.limit(parsed.units) ?? parsed.units;
}

function toGot(value: unknown): string {
  if (value === undefined || value === null || value === '') return NO_CELL;
  return shown(typeof value === 'string' ? value : `the ${typeof value} ${JSON.stringify(value)}`);
}

const KNOWN = new Set<string>(LINE_FIELDS);

/** The lines of a JSON upload. Their fields are judged one by one, like cells: one bad line never fails the others. */
export function linesFromJson(lines: readonly unknown[]): RawLine[] {
  return lines.map((one, index): RawLine => {
    const line = index + 1;
    const wrong = (column: string, got: string, expected: string): RawLine => ({
      line,
      cells: {},
      fault: { column: shown(column), columnNumber: null, got: shown(got), expected },
    });
    if (one === null || typeof one !== 'object' || Array.isArray(one))
      return wrong('', toGot(one), 'an object with amount, bank_code, account_number, holder_name');
    const unknown = Object.keys(one).find((name) => !KNOWN.has(name));
    if (unknown !== undefined) return wrong(unknown, unknown, `only ${LINE_FIELDS.join(', ')}`);
    const cells = Object.fromEntries(
      Object.entries(one).map(([name, value]): [string, Cell] => [name, { value, column: name, columnNumber: null }]),
    );
    return { line, cells, fault: null };
  });
}
