/** Reading JSON that a node sent: nothing is assumed about its shape, and a figure is a bigint or it is unreadable. */
import type { Json } from '../../engine/rail.ts';

export type JsonObject = { readonly [key: string]: Json };

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isArray(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

export function field(value: Json | undefined, name: string): Json | undefined {
  return isObject(value) ? value[name] : undefined;
}

/** A text, or `null` for anything else. */
export function textOf(value: Json | undefined): string | null {
  return typeof value === 'string' ? value : null;
}

const QUANTITY = /^0x[0-9a-fA-F]{1,64}$/;
const DATA = /^0x(?:[0-9a-fA-F]{2})*$/;

/** A JSON-RPC quantity (`0x1f`), or `null`. */
export function quantityOf(value: Json | undefined): bigint | null {
  return typeof value === 'string' && QUANTITY.test(value) ? BigInt(value) : null;
}

/** Hex data in lower case, or `null`. */
export function hexOf(value: Json | undefined): string | null {
  return typeof value === 'string' && DATA.test(value) ? value.toLowerCase() : null;
}

/** A decimal text that our own side wrote into a plan or seal. */
export function unitsOf(value: Json | undefined): bigint | null {
  return typeof value === 'string' && /^(0|[1-9][0-9]*)$/.test(value) ? BigInt(value) : null;
}

export function toQuantity(value: bigint): string {
  return `0x${value.toString(16)}`;
}

/** `undefined` where the text is not JSON. */
export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}
