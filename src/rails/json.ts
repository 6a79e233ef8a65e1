/**
 * Reading JSON that somebody else sent: nothing is assumed about its shape, and only own properties are seen. Every rail
 * reads through these; none of them throws.
 */
import type { Json } from '../engine/rail.ts';

export type JsonObject = { readonly [key: string]: Json };

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isArray(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

export function field(value: Json | undefined, name: string): Json | undefined {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

/** A text, or `null` for anything else. */
export function textOf(value: Json | undefined): string | null {
  return typeof value === 'string' ? value : null;
}

/** A figure in decimal digits, of at most the 78 that 2^256 has and the database keeps: more is no figure of any chain. */
export function unitsOf(value: Json | undefined): bigint | null {
  return typeof value === 'string' && /^(0|[1-9][0-9]{0,77})$/.test(value) ? BigInt(value) : null;
}

/** Heights, nonces, counts, and all figures of TRON have 64 bits with a sign, as the database's columns for them: more is none. */
const LONG_MAX = 2n ** 63n - 1n;

export function isLong(value: bigint): boolean {
  return value <= LONG_MAX;
}

/** A figure in decimal digits that fits 64 bits with a sign, or `null`. */
export function longOf(value: Json | undefined): bigint | null {
  const units = unitsOf(value);
  return units !== null && isLong(units) ? units : null;
}

/** `undefined` where the text is not JSON. */
export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** Every number comes as the text that stood there; `undefined` where the text is not JSON. */
export function parseLossless(text: string): Json | undefined {
  try {
    return JSON.parse(
      text,
      (_key: string, value: Json, context?: { readonly source?: string }): Json =>
        typeof value === 'number' ? (context?.source ?? String(value)) : value,
    ) as Json;
  } catch {
    return undefined;
  }
}

/** A short word of the other side inside a text for people: no control characters, which the database refuses or a screen obeys. */
export function plainWord(text: string): string {
  return text.slice(0, 64).replace(/[^\x20-\x7e]/g, '?');
}

/** The beginning of a text, for people. */
export function excerpt(text: string): string {
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
