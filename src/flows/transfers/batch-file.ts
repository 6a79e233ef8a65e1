/**
 * A CSV file of transfers, read into cells with the place of each. Pure; the grammar is a library's, nothing is guessed.
 *
 * UTF-8 only: bytes of another encoding would be other letters of a name. The separator (comma, semicolon or tab) is the one
 * under which the header names our columns, for the whole file. Columns are found by name, in English or Korean, in any
 * order; an unknown one refuses the file, since a misspelt column would be left out of every payment. Cells are texts as
 * they stand: not trimmed, not turned into numbers, a formula is just text.
 */
import { isUtf8 } from 'node:buffer';
import { CsvError, parse } from 'csv-parse/sync';
import { BATCH_LINES_MAX, GOT_CHARACTERS_MAX, HEADER_CHARACTERS_MAX } from './batch-limits.ts';

export const LINE_FIELDS = ['external_id', 'amount', 'bank_code', 'account_number', 'holder_name', 'memo'] as const;
export type LineField = (typeof LINE_FIELDS)[number];

export interface Cell {
  readonly value: unknown;
  /** The column's name as the file has it. */
  readonly column: string;
  /** Counted from 1; `null` in JSON. */
  readonly columnNumber: number | null;
}

/** One line as uploaded. `line` is counted as an editor does, from 1; in JSON it is the place in `lines`, from 1. */
export interface RawLine {
  readonly line: number;
  readonly cells: Readonly<Partial<Record<LineField | 'asset', Cell>>>;
  /** What is wrong with the line as a whole. */
  readonly fault: Omit<LineFault, 'line'> | null;
}

/** Something wrong with a line: where, what was got, what is expected. */
export interface LineFault {
  readonly line: number;
  readonly column: string;
  readonly columnNumber: number | null;
  readonly got: string;
  readonly expected: string;
}

/** Why a file cannot be read at all, with the place. */
export interface FileFault {
  readonly detail: string;
  readonly pointer: string;
  readonly got: string;
  readonly expected: string;
}

export type ReadFile =
  | { readonly ok: true; readonly lines: readonly RawLine[] }
  | { readonly ok: false; readonly fault: FileFault };

const COLUMNS: Readonly<Record<LineField | 'asset', readonly string[]>> = {
  external_id: ['external_id', 'reference', '참조'],
  amount: ['amount', '금액'],
  bank_code: ['bank_code', '은행코드'],
  account_number: ['account_number', '계좌번호'],
  holder_name: ['holder_name', '예금주'],
  memo: ['memo', '메모'],
  asset: ['asset', '자산'],
};
const BY_NAME = new Map(
  Object.entries(COLUMNS).flatMap(([field, names]) => names.map((name) => [name, field as LineField | 'asset'])),
);
const REQUIRED = ['amount', 'bank_code', 'account_number', 'holder_name'] as const;
const KNOWN_NAMES = Object.values(COLUMNS)
  .map((names) => names.join(' or '))
  .join(', ');
const SEPARATORS = [',', ';', '\t'] as const;

export function readCsv(bytes: Uint8Array): ReadFile {
  const at = brokenUtf8At(bytes);
  if (at !== null) {
    return refused(
      'The file is not UTF-8',
      '/file',
      `byte ${at + 1} is ${hex(bytes[at])}`,
      'a file saved as "CSV UTF-8"',
    );
  }
  const text = Buffer.from(bytes).toString('utf8');
  const header = readHeader(text);
  if ('fault' in header) return { ok: false, fault: header.fault };
  return readRecords(text, header);
}

interface Header {
  readonly separator: string;
  readonly columns: readonly { readonly name: string; readonly field: LineField | 'asset' }[];
}

/** The separator is decided here, by the header alone, and never again. */
function readHeader(text: string): Header | { readonly fault: FileFault } {
  const fault = (detail: string, got: string, expected: string) => ({
    fault: { detail, pointer: '/line 1', got: shown(got), expected },
  });
  const start = text.slice(0, HEADER_CHARACTERS_MAX);
  if (start.length < text.length && !/\S[\r\n]/.test(start))
    return fault('The first line is too long', start, `a header of ${KNOWN_NAMES}`);
  const tries = SEPARATORS.map((separator) => ({ separator, names: firstRecord(start, separator) }));
  const best = tries.reduce((one, other) => (known(other.names) > known(one.names) ? other : one));
  if (best.names.length === 0) return fault('The file is empty', 'nothing', `a header with ${REQUIRED.join(', ')}`);
  if (known(best.names) === 0)
    return fault(
      'The first line names no column of ours',
      best.names.join(best.separator),
      `a header of ${KNOWN_NAMES}`,
    );
  const columns: { name: string; field: LineField | 'asset' }[] = [];
  for (const [index, name] of best.names.entries()) {
    const field = BY_NAME.get(plain(name));
    if (field === undefined)
      return fault(`Column ${index + 1} is not known`, name === '' ? 'no name' : name, `only ${KNOWN_NAMES}`);
    const twin = columns.findIndex((column) => column.field === field);
    if (twin >= 0) return fault(`Columns ${twin + 1} and ${index + 1} are the same`, name, `${field} once`);
    columns.push({ name: name.trim(), field });
  }
  const missing = REQUIRED.filter((field) => !columns.some((column) => column.field === field));
  if (missing.length > 0)
    return fault(
      'A column is missing',
      best.names.join(best.separator),
      missing.map((field) => COLUMNS[field].join(' or ')).join(', '),
    );
  return { separator: best.separator, columns };
}

function known(names: readonly string[]): number {
  return names.filter((name) => BY_NAME.has(plain(name))).length;
}

/** Spreadsheets and people write `Bank Code`, `BANK_CODE`, or Hangul in parts (NFD). */
function plain(name: string): string {
  return name.normalize('NFC').trim().toLowerCase().replaceAll(/[ -]+/g, '_');
}

function firstRecord(text: string, separator: string): string[] {
  try {
    return (
      parse(text, { bom: true, delimiter: separator, to: 1, relax_column_count: true, skip_empty_lines: true })[0] ?? []
    );
  } catch (error) {
    if (error instanceof CsvError) return [];
    throw error;
  }
}

interface ParsedRecord {
  readonly record: string[];
  readonly info: { readonly lines: number };
}

function readRecords(text: string, { separator, columns }: Header): ReadFile {
  let parsed: ParsedRecord[];
  try {
    // One more than may be: enough to know that there are too many.
    parsed = parse(text, {
      bom: true,
      delimiter: separator,
      info: true,
      relax_column_count: true,
      skip_empty_lines: true,
      to: BATCH_LINES_MAX + 2,
    }) as unknown as ParsedRecord[];
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    const line = typeof error['lines'] === 'number' ? error['lines'] : 1;
    return refused(
      'A quote is out of place',
      `/line ${line}`,
      shown(error.message),
      'quotes around a whole cell, and doubled inside it',
    );
  }
  const records = parsed.slice(1);
  if (records.length === 0)
    return refused('The file has no lines', '/file', 'a header alone', 'one line for each transfer');
  if (records.length > BATCH_LINES_MAX)
    return refused(
      'The file has too many lines',
      '/file',
      `more than ${BATCH_LINES_MAX}`,
      `at most ${BATCH_LINES_MAX}: split it`,
    );
  const firstLines = linesOf(parsed);
  return {
    ok: true,
    lines: records.map(({ record }, index) => toRawLine(record, firstLines[index + 1] ?? 0, columns)),
  };
}

/** Where each record begins. The library counts to its end, and a CRLF within a cell as two. */
function linesOf(parsed: readonly ParsedRecord[]): number[] {
  let countedTwice = 0;
  return parsed.map(({ record, info }) => {
    const breaks = record.reduce((sum, cell) => sum + (cell.match(/[\r\n]/g)?.length ?? 0), 0);
    const line = info.lines - breaks - countedTwice;
    countedTwice += record.reduce((sum, cell) => sum + (cell.match(/\r\n/g)?.length ?? 0), 0);
    return line;
  });
}

function toRawLine(record: readonly string[], line: number, columns: Header['columns']): RawLine {
  const cells = Object.fromEntries(
    columns.map(({ name, field }, index) => [
      field,
      { value: record[index] ?? '', column: name, columnNumber: index + 1 },
    ]),
  );
  const last = columns.at(-1);
  const fault =
    record.length === columns.length
      ? null
      : {
          column: last?.name ?? '',
          columnNumber: Math.min(record.length + 1, columns.length),
          got: `${record.length} cells`,
          expected: `${columns.length} cells, as in the header; a cell with the separator in it stands in quotes`,
        };
  return { line, cells, fault };
}

/** Where the first byte stands that belongs to no character, counted from 0. */
function brokenUtf8At(bytes: Uint8Array): number | null {
  if (isUtf8(bytes)) return null;
  // The longest beginning that is whole: a character has four bytes at most, so the search ends within them.
  let whole = 0;
  let broken = bytes.length;
  while (broken - whole > 1) {
    const middle = Math.floor((whole + broken) / 2);
    if (isUtf8(bytes.subarray(0, cutBefore(bytes, middle)))) whole = middle;
    else broken = middle;
  }
  return cutBefore(bytes, whole);
}

/** The end of the last character that ends at or before this place. */
function cutBefore(bytes: Uint8Array, end: number): number {
  let start = end;
  while (start > 0 && end - start < 4 && ((bytes[start - 1] ?? 0) & 0xc0) === 0x80) start -= 1;
  const lead = start > 0 ? (bytes[start - 1] ?? 0) : 0;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  return lead >= 0xc0 && end - (start - 1) < length ? start - 1 : end;
}

function hex(byte: number | undefined): string {
  return `0x${(byte ?? 0).toString(16).toUpperCase().padStart(2, '0')}`;
}

function refused(detail: string, pointer: string, got: string, expected: string): ReadFile {
  return { ok: false, fault: { detail, pointer, got, expected } };
}

/** As much of it as is told. What no database keeps (NUL, half a character, also by our cut) is told by a sign for it. */
export function shown(text: string): string {
  const cut = text.length <= GOT_CHARACTERS_MAX ? text : `${text.slice(0, GOT_CHARACTERS_MAX)}…`;
  return cut.toWellFormed().replaceAll('\u0000', '\u2400');
}
