/**
 * Cursors: opaque to the caller, bound to one list and one partner. A text that we did not make for this list is refused;
 * nothing in it is believed, since it only says where to go on in rows that the partner may see anyway.
 */
import { createHash } from 'node:crypto';
import { PayonceError } from '../kernel/errors.ts';
import { PAGE_ITEMS } from '../kernel/limits.ts';

export interface ListName {
  readonly list: string;
  readonly partnerId: string;
}

export function toCursor(name: ListName, place: readonly string[]): string {
  return Buffer.from(JSON.stringify([name.list, ownerOf(name), ...place])).toString('base64url');
}

/** The place after which the next page begins; null for the first page. */
export function fromCursor(
  name: ListName,
  cursor: string | undefined,
  shape: readonly Place[],
): readonly string[] | null {
  if (cursor === undefined) return null;
  const parts = partsOf(cursor);
  const [list, owner, ...place] = parts ?? [];
  const fits =
    list === name.list &&
    owner === ownerOf(name) &&
    place.length === shape.length &&
    shape.every((one, index) => one.test(place[index] ?? '')) &&
    toCursor(name, place) === cursor;
  if (!fits) throw cursorInvalid();
  return place;
}

export function cursorInvalid(): PayonceError {
  return new PayonceError('PO_REQUEST_INVALID', {
    detail: 'The cursor does not belong to this list',
    pointer: '/query/cursor',
    expected: 'the "next" of the page before, unchanged',
  });
}

/** Part of a place: of a shape and within the range of its column, since it goes into a statement. */
interface Place {
  test(text: string): boolean;
}

const INT8_MAX = 9_223_372_036_854_775_807n;
const INT4_MAX = 2_147_483_647n;
const NUMBER = /^[1-9][0-9]{0,18}$/;
const TIME = /^(?!0000)(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3})\d{3}Z$/;

export const PLACE = {
  id: /^[a-z]+_[0-9A-Za-z_]{1,60}$/,
  number: { test: (text) => NUMBER.test(text) && BigInt(text) <= INT8_MAX },
  line: { test: (text) => NUMBER.test(text) && BigInt(text) <= INT4_MAX },
  time: { test: isTime },
  text: /^[\x21-\x7e]{1,300}$/,
} as const satisfies Record<string, Place>;

/** A moment that is one: no thirtieth of February, no hour 99. */
function isTime(text: string): boolean {
  const toMilliseconds = TIME.exec(text)?.[1];
  if (toMilliseconds === undefined) return false;
  const read = new Date(`${toMilliseconds}Z`);
  return !Number.isNaN(read.getTime()) && read.toISOString() === `${toMilliseconds}Z`;
}

export function pageItems(limit: string | undefined): number {
  return limit === undefined ? PAGE_ITEMS : Number(limit);
}

/** One row more than asked was read: it says whether there is a next page. */
export function toPage<Row, Item>(
  rows: readonly Row[],
  limit: number,
  toItem: (row: Row) => Item,
  cursorOf: (row: Row) => string,
): { items: Item[]; next: string | null } {
  const shown = rows.slice(0, limit);
  const last = rows.length > limit ? shown.at(-1) : undefined;
  return { items: shown.map(toItem), next: last === undefined ? null : cursorOf(last) };
}

function ownerOf(name: ListName): string {
  return createHash('sha256').update(name.partnerId).digest('base64url').slice(0, 8);
}

function partsOf(cursor: string): string[] | null {
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    if (!Array.isArray(value)) return null;
    return value.every((part): part is string => typeof part === 'string') ? value : null;
  } catch {
    return null;
  }
}
