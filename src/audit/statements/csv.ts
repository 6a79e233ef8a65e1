/**
 * A statement as CSV. Every bank has its own columns, so each is found by the name in the header, as given.
 *
 * The delimiter is the one (comma, semicolon, tab) under which all named columns are there. With a running balance each line
 * must continue the one before, in whichever direction the file runs; without one nothing about balances is known.
 */
import { type CsvError, parse } from 'csv-parse/sync';
import {
  type Currencies,
  decodeUtf8,
  type Faults,
  makeFaults,
  readDay,
  type ReadStatements,
  readUnits,
  signed,
  type StatementFault,
  type StatementLine,
} from './statement.ts';

export const CSV_COLUMNS = {
  date: 'the day it was booked',
  value_date: 'the value day',
  amount: 'the amount with its sign; below 0 went out',
  debit: 'what went out, without a sign',
  credit: 'what came in, without a sign',
  currency: 'ISO 4217',
  reference: 'our reference, or whatever the bank shows of it',
  counterparty_account: 'whom it went to or came from',
  counterparty_name: 'and their name',
  text: 'what else the bank writes',
  id: "the bank's own reference of the line",
  balance: 'the balance after the line',
  return_reason: 'why it came back',
} as const;
export type CsvColumn = keyof typeof CSV_COLUMNS;

export interface CsvOptions {
  /** Header names by our name; absent columns are looked for under our name. */
  readonly columns?: Partial<Readonly<Record<CsvColumn, string>>>;
  /** Where no column says it. */
  readonly currency?: string;
  /** Between groups of three digits; absent: none. */
  readonly grouping?: string;
  /** Absent: a point. */
  readonly decimalMark?: string;
  /** The period that the file covers, where it is more than its lines' days. */
  readonly from?: string;
  readonly to?: string;
}

const DELIMITERS = [',', ';', '\t'] as const;
/** One line of a statement is a few hundred characters; an unclosed quote would swallow the file. */
const RECORD_CHARACTERS_MAX = 65_536;

interface Table {
  readonly places: ReadonlyMap<CsvColumn, number>;
  readonly rows: readonly { readonly line: number; readonly cells: readonly string[] }[];
}

interface Row {
  readonly line: StatementLine;
  readonly currency: string;
  readonly balance: bigint | null;
}

export function readCsv(bytes: Uint8Array, currencies: Currencies, options: CsvOptions = {}): ReadStatements {
  const faults = makeFaults();
  const text = decodeUtf8(bytes);
  if (text === null) faults.add('the file', 'it is no UTF-8; save it as that');
  const table = text === null ? null : readTable(text, options, faults);
  const rows = table?.rows.map((row) => readRow(row, table.places, currencies, options, faults)) ?? [];
  if (table !== null && rows.length === 0) faults.add('the file', 'it has a header and no lines');
  if (faults.list.length > 0) return { ok: false, faults: faults.list };
  const read = rows.filter((row) => row !== null);
  const statements = [...Map.groupBy(read, (row) => row.currency)]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([currency, list]) => {
      const lines = list.map((row) => row.line);
      const days = [
        ...lines.map((line) => line.bookedOn),
        ...[options.from, options.to].filter((day) => day !== undefined),
      ].sort();
      const ends = balancesOf(list, faults);
      return {
        account: null,
        name: null,
        sequence: null,
        currency,
        from: days[0] ?? '',
        to: days.at(-1) ?? '',
        opening: ends?.opening ?? null,
        closing: ends?.closing ?? null,
        lines: lines.filter((line) => line.amount > 0n),
      };
    });
  if (faults.list.length > 0) return { ok: false, faults: faults.list };
  const skipped = read.filter((row) => row.line.amount === 0n).length;
  return { ok: true, format: 'csv', statements, skipped };
}

function readTable(text: string, options: CsvOptions, faults: Faults): Table | null {
  const named = options.columns ?? {};
  const nameOf = (column: CsvColumn): string => named[column] ?? column;
  const wanted = [...new Set<CsvColumn>(['date', ...(Object.keys(named) as CsvColumn[])])];
  let nearest: { lacks: readonly string[]; header: readonly string[] } | null = null;
  for (const delimiter of DELIMITERS) {
    // The header alone: under another delimiter the rest may be no CSV at all.
    const header = readRecords(text, delimiter, 1).records[0]?.cells.map((name) => name.trim()) ?? [];
    const hasAmount = (['amount', 'debit', 'credit'] as const).some((column) => header.includes(nameOf(column)));
    const missing = wanted.map(nameOf).filter((name) => !header.includes(name));
    const lacks = missing.length === 0 && !hasAmount ? ['amount, or debit and credit'] : missing;
    if (lacks.length > 0) {
      if (nearest === null || header.length > nearest.header.length) nearest = { lacks, header };
      continue;
    }
    const columns = (Object.keys(CSV_COLUMNS) as CsvColumn[]).filter((column) => header.includes(nameOf(column)));
    const twice = columns.map(nameOf).find((name) => header.indexOf(name) !== header.lastIndexOf(name));
    if (twice !== undefined) return faults.add('line 1', `the column "${twice}" stands there twice`);
    const { records, fault } = readRecords(text, delimiter, null);
    if (fault !== null) return faults.add(fault.place, fault.detail);
    const rows = records.slice(1);
    const odd = rows.find(({ cells }) => cells.length !== header.length);
    if (odd !== undefined)
      return faults.add(`line ${odd.line}`, `it has ${odd.cells.length} columns, the header ${header.length}`);
    return { places: new Map(columns.map((column) => [column, header.indexOf(nameOf(column))])), rows };
  }
  return faults.add(
    'line 1',
    `no such column: ${nearest?.lacks.join(', ') ?? 'date'}; the header has ${nearest?.header.join(', ') || 'nothing'}. Name them: --column date=…`,
  );
}

function readRecords(
  text: string,
  delimiter: string,
  recordsMax: number | null,
): { records: Table['rows']; fault: StatementFault | null } {
  try {
    const read = parse(text, {
      bom: true,
      delimiter,
      info: true,
      skip_empty_lines: true,
      max_record_size: RECORD_CHARACTERS_MAX,
      relax_column_count: true,
      ...(recordsMax === null ? {} : { to: recordsMax }),
    }) as unknown as readonly { readonly record: readonly string[]; readonly info: { readonly lines: number } }[];
    return { records: read.map(({ record, info }) => ({ line: info.lines, cells: record })), fault: null };
  } catch (error) {
    const { code, lines } = error as CsvError;
    return { records: [], fault: { place: `line ${String(lines)}`, detail: `it is no CSV: ${code}` } };
  }
}

function readRow(
  row: Table['rows'][number],
  places: Table['places'],
  currencies: Currencies,
  options: CsvOptions,
  faults: Faults,
): Row | null {
  const cell = (column: CsvColumn): string | null => {
    const text = row.cells[places.get(column) ?? -1]?.trim();
    return text === undefined || text === '' ? null : text;
  };
  const at = (column: CsvColumn): string => `line ${row.line}, column ${(places.get(column) ?? 0) + 1}`;
  const currency = (
    cell('currency') ??
    options.currency ??
    (currencies.size === 1 ? [...currencies.keys()][0] : '') ??
    ''
  ).toUpperCase();
  const decimals = currencies.get(currency);
  if (decimals === undefined)
    return faults.add(
      at('currency'),
      `this rail has no asset in ${currency || 'no currency'}; it pays in ${[...currencies.keys()].join(', ')}`,
    );
  const units = (column: CsvColumn, isSigned: boolean): bigint | null => {
    const text = cell(column);
    if (text === null) return 0n;
    const read = readSigned(text, decimals, options, isSigned);
    return (
      read ??
      faults.add(
        at(column),
        `"${text}" is no amount of ${currency} (${decimals} places${isSigned ? '' : ', no sign'}); see --grouping and --decimal-mark`,
      )
    );
  };
  const date = cell('date');
  const bookedOn = date === null ? null : readDay(date);
  if (bookedOn === null) return faults.add(at('date'), `"${date ?? ''}" is no day such as 2030-01-02`);
  const value = cell('value_date');
  const valueOn =
    value === null ? null : (readDay(value) ?? faults.add(at('value_date'), `"${value}" is no day such as 2030-01-02`));
  const [amount, debit, credit] = [units('amount', true), units('debit', false), units('credit', false)];
  if (amount === null || debit === null || credit === null) return null;
  const given = [amount, debit, credit].filter((one) => one !== 0n).length;
  if (given > 1) return faults.add(`line ${row.line}`, 'it gives more than one of amount, debit and credit');
  if (cell('amount') === null && cell('debit') === null && cell('credit') === null)
    return faults.add(`line ${row.line}`, 'it gives no amount');
  const net = amount + credit - debit;
  const own = cell('id');
  const references = [own, cell('reference')].filter((one) => one !== null);
  const balance = cell('balance') === null ? null : units('balance', true);
  return {
    currency,
    balance,
    line: {
      place: `line ${row.line}`,
      ownReference: own,
      direction: net < 0n ? 'out' : 'in',
      amount: net < 0n ? -net : net,
      bookedOn,
      valueOn,
      references: [...new Set(references)],
      counterpartyName: cell('counterparty_name'),
      counterpartyAccount: cell('counterparty_account'),
      remittance: cell('text'),
      isReversal: false,
      isCharge: false,
      returnReason: cell('return_reason'),
    },
  };
}

function readSigned(text: string, decimals: number, options: CsvOptions, isSigned: boolean): bigint | null {
  const sign = isSigned && /^[-+−]/.test(text) ? text[0] : '';
  let digits = text.slice(sign?.length ?? 0).trim();
  const mark = options.decimalMark ?? '.';
  if (options.grouping !== undefined) {
    const [whole = '', ...fraction] = digits.split(mark);
    const groups = whole.split(options.grouping);
    // Groups that are not of three are another number, or another mark.
    if (groups.length > 1 && !groups.every((group, index) => (index === 0 ? /^\d{1,3}$/ : /^\d{3}$/).test(group)))
      return null;
    digits = [groups.join(''), ...fraction].join(mark);
  }
  if (mark !== '.' && digits.includes('.')) return null;
  const units = readUnits(mark === '.' ? digits : digits.replace(mark, '.'), decimals);
  return units === null || sign === '' || sign === '+' ? units : -units;
}

/** Oldest first or newest first: one of both must hold for every line. */
function balancesOf(rows: readonly Row[], faults: Faults): { opening: bigint; closing: bigint } | null {
  if (rows.some((row) => row.balance === null)) {
    const some = rows.find((row) => row.balance !== null);
    if (some !== undefined) {
      const without = rows.find((row) => row.balance === null);
      faults.add(without?.line.place ?? 'the file', 'it has no balance, and other lines have');
    }
    return null;
  }
  const broken = (list: readonly Row[]): Row | undefined =>
    list.find((row, index) => {
      const before = list[index - 1]?.balance;
      return before !== undefined && before !== null && before + signed(row.line) !== row.balance;
    });
  const newestLast = broken(rows) === undefined ? rows : null;
  const reversed = rows.toReversed();
  const ordered = newestLast ?? (broken(reversed) === undefined ? reversed : null);
  if (ordered === null) {
    const at = broken(rows);
    return faults.add(at?.line.place ?? 'the file', 'its balance is not the one before it and its amount');
  }
  const [first, last] = [ordered[0], ordered.at(-1)];
  if (first === undefined || last === undefined) return null;
  return { opening: (first.balance ?? 0n) - signed(first.line), closing: last.balance ?? 0n };
}
