/**
 * JSON without JavaScript numbers: an amount is written as a bigint's digits and read as the digits that stood there.
 *
 * The writer is RFC 8785 for what a request here can hold (objects, arrays, texts, integers, booleans, null): keys sorted
 * by UTF-16 units, no blanks, so that one request has one text, and it is built once (C1).
 */
import { assert } from '../kernel/errors.ts';

export type WireJson =
  | null
  | boolean
  | string
  | bigint
  | readonly WireJson[]
  | { readonly [key: string]: WireJson | undefined };

export function canonicalText(value: WireJson): string {
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'string') {
    assert(value.isWellFormed(), 'a text with half a surrogate pair has no UTF-8 bytes');
    return JSON.stringify(value);
  }
  if (isList(value)) return `[${value.map(canonicalText).join(',')}]`;
  const members = Object.keys(value)
    .sort()
    .flatMap((key) => {
      const member = value[key];
      return member === undefined ? [] : [`${JSON.stringify(key)}:${canonicalText(member)}`];
    });
  return `{${members.join(',')}}`;
}

function isList(value: WireJson): value is readonly WireJson[] {
  return Array.isArray(value);
}

/** A form body with its names in order. */
export function formText(fields: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1));
  return new URLSearchParams(pairs).toString();
}
