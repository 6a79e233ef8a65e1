/** Reads the fields of one old row; the first that is wrong is the row's doubt. Nothing is completed or corrected. */
import { parseAmount } from '../../../kernel/money.ts';
import type { Content } from './lines.ts';

const TIME = /^(\d{4})-(\d\d)-(\d\d)[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/;
const EPOCH = new Date(0);

export class Fields {
  doubt: string | null = null;
  private readonly content: Content;

  constructor(content: Content) {
    this.content = content;
  }

  /** What follows a doubt is not looked at. */
  doubtIf(is: boolean, why: string): void {
    if (is) this.doubt ??= why;
  }

  text(name: string, charactersMax = 200): string {
    const value = this.textOrNull(name, charactersMax);
    this.doubtIf(value === null, `"${name}" is missing`);
    return value ?? '';
  }

  textOrNull(name: string, charactersMax = 200): string | null {
    const value = this.content[name] ?? null;
    if (value === null) return null;
    const isText = typeof value === 'string' && /^[^\p{Cc}\p{Cs}]+$/u.test(value) && value.length <= charactersMax;
    this.doubtIf(!isText, `"${name}" is no text of 1 to ${charactersMax} printable characters`);
    return isText ? value : null;
  }

  /** Above zero. */
  units(name: string, decimals: number): bigint {
    const value = this.content[name] ?? null;
    this.doubtIf(value === null, `"${name}" is missing`);
    const units = this.parse(name, value, decimals);
    this.doubtIf(units <= 0n, `"${name}" is not above zero`);
    return units;
  }

  unitsOrNull(name: string, decimals: number): bigint | null {
    const value = this.content[name] ?? null;
    return value === null ? null : this.parse(name, value, decimals);
  }

  signedUnits(name: string, decimals: number): bigint {
    const value = this.content[name] ?? null;
    this.doubtIf(value === null, `"${name}" is missing`);
    return typeof value === 'string' && value.startsWith('-')
      ? -this.parse(name, value.slice(1), decimals)
      : this.parse(name, value, decimals);
  }

  time(name: string): Date {
    const value = this.timeOrNull(name);
    this.doubtIf(value === null, `"${name}" is missing`);
    return value ?? EPOCH;
  }

  timeOrNull(name: string): Date | null {
    const value = this.content[name] ?? null;
    if (value === null) return null;
    const at = toTime(value);
    this.doubtIf(at === null, `"${name}" is no time with its zone, such as 2026-01-31T09:00:00Z`);
    return at;
  }

  private parse(name: string, value: unknown, decimals: number): bigint {
    if (typeof value === 'number') {
      this.doubtIf(true, `"${name}" is a number, which loses digits: write it as text`);
      return 0n;
    }
    const read = parseAmount(value, decimals);
    if (read.ok) return read.units;
    this.doubtIf(true, `"${name}" is not ${read.expected}`);
    return 0n;
  }
}

function toTime(value: unknown): Date | null {
  const match = typeof value === 'string' ? TIME.exec(value) : null;
  if (match === null) return null;
  const [year, month, day] = match.slice(1).map(Number);
  // 30 February is the 2nd of March to a Date.
  if (new Date(Date.UTC(year ?? 0, (month ?? 0) - 1, day)).getUTCDate() !== day) return null;
  const at = new Date(match[0].replace(' ', 'T'));
  return Number.isNaN(at.getTime()) ? null : at;
}
