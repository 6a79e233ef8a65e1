/** How answers are shown: tables and sentences for people, one JSON document for machines. Amounts are decimal text. */
import { stripVTControlCharacters, styleText } from 'node:util';

export interface Report {
  /** Printed with `--json`, whole. */
  readonly json: unknown;
  /** Printed otherwise. */
  readonly text: string;
  /** Absent: 0. */
  readonly exit?: number;
}

/** Exit codes: what a script can tell apart without reading. */
export const EXIT = { ok: 0, failed: 1, usage: 2, notFound: 3, conflict: 4, unknown: 5 } as const;

type Style = Parameters<typeof styleText>[0];
export function paint(style: Style, text: string): string {
  return styleText(style, text, { stream: process.stdout });
}

/** What a stranger's server answered must not move the cursor or colour the terminal of who reads it. */
export function printable(text: string): string {
  return stripVTControlCharacters(text).replaceAll(/[\p{Cc}\p{Cf}]/gu, (one) =>
    one === '\n' || one === '\t' ? ' ' : '\uFFFD',
  );
}

/** Hangul, kana and ideographs take two columns. */
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6]/u;
function widthOf(text: string): number {
  let width = 0;
  for (const one of stripVTControlCharacters(text)) width += WIDE.test(one) ? 2 : 1;
  return width;
}
function padded(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - widthOf(text)));
}

/** Columns by name; a cell that is null shows as a dash. `none` is said where there are no rows. */
export function table(
  columns: readonly string[],
  rows: readonly (readonly (string | null)[])[],
  none = 'Nothing.',
): string {
  if (rows.length === 0) return none;
  const cells = rows.map((row) => row.map((cell) => (cell === null || cell === '' ? '-' : cell)));
  const widths = columns.map((name, at) => Math.max(widthOf(name), ...cells.map((row) => widthOf(row[at] ?? ''))));
  const line = (row: readonly string[]): string =>
    row.map((cell, at) => (at === row.length - 1 ? cell : padded(cell, widths[at] ?? 0))).join('  ');
  return [paint('dim', line(columns)), ...cells.map(line)].join('\n');
}

/** Names with values below each other; what is null is left out. */
export function facts(list: readonly (readonly [string, string | null])[]): string {
  const shown = list.filter((one): one is readonly [string, string] => one[1] !== null && one[1] !== '');
  const width = Math.max(0, ...shown.map(([name]) => name.length));
  return shown.map(([name, value]) => `${paint('dim', name.padEnd(width))}  ${value}`).join('\n');
}

export function heading(text: string): string {
  return `\n${paint('bold', text)}`;
}

/** To the second, in UTC: logs and chains speak it too. */
export function moment(at: Date | null): string | null {
  return at === null
    ? null
    : at
        .toISOString()
        .replace('T', ' ')
        .replace(/\.\d+Z$/, 'Z');
}

/** The two largest units: `3 d 4 h`. */
export function age(seconds: bigint): string {
  const units: readonly (readonly [string, bigint])[] = [
    ['d', 86_400n],
    ['h', 3_600n],
    ['min', 60n],
    ['s', 1n],
  ];
  const first = units.findIndex(([, size]) => seconds >= size);
  if (first === -1) return '0 s';
  let left = seconds;
  return units
    .slice(first, first + 2)
    .map(([name, size]) => {
      const count = left / size;
      left %= size;
      return count === 0n ? '' : `${count} ${name}`;
    })
    .join(' ')
    .trim();
}

export function cut(text: string, charactersMax: number): string {
  return text.length <= charactersMax
    ? text
    : `${text.slice(0, charactersMax)}… (${text.length - charactersMax} more characters; --json shows all)`;
}

/** The exact bytes for people: readable text where they are that, else hex. */
export function bytesText(bytes: Uint8Array): string {
  const text = Buffer.from(bytes).toString('utf8');
  return Buffer.from(text, 'utf8').equals(Buffer.from(bytes)) && !/[\p{Cc}]/u.test(text)
    ? text
    : `0x${Buffer.from(bytes).toString('hex')}`;
}

/** One line on a terminal that is written over: how far a long work is. */
export function makeProgress(isShown: boolean): { show(name: string, done: bigint, total: bigint): void; end(): void } {
  const BAR = 30n;
  let last = '';
  const isLive = isShown && process.stderr.isTTY;
  return {
    show(name, done, total) {
      if (!isLive) return;
      const filled = total === 0n ? BAR : (done * BAR) / total;
      const percent = total === 0n ? 100n : (done * 100n) / total;
      const line = `${name.padEnd(12)} ${'█'.repeat(Number(filled))}${'░'.repeat(Number(BAR - filled))} ${percent} %`;
      if (line !== last) process.stderr.write(`\r\u001b[2K${line}`);
      last = line;
    },
    end() {
      if (isLive && last !== '') process.stderr.write('\r\u001b[2K');
    },
  };
}
