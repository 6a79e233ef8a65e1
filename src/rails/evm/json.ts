/** Reading what a node sent: the shared readers, and a chain's hex. A figure is a bigint or it is unreadable. */
import type { Json } from '../../engine/rail.ts';
import { isLong } from '../json.ts';

export { field, isArray, isObject, parseJson, textOf, unitsOf } from '../json.ts';

const QUANTITY = /^0x[0-9a-fA-F]{1,64}$/;
const DATA = /^0x(?:[0-9a-fA-F]{2})*$/;

/** A JSON-RPC quantity (`0x1f`), or `null`. */
export function quantityOf(value: Json | undefined): bigint | null {
  return typeof value === 'string' && QUANTITY.test(value) ? BigInt(value) : null;
}

/** A quantity that is a height, a nonce or a count, or `null`: clients keep them in 64 bits (EIP-1985, EIP-2681). */
export function countOf(value: Json | undefined): bigint | null {
  const count = quantityOf(value);
  return count !== null && isLong(count) ? count : null;
}

/** Hex data in lower case, or `null`. */
export function hexOf(value: Json | undefined): string | null {
  return typeof value === 'string' && DATA.test(value) ? value.toLowerCase() : null;
}

export function toQuantity(value: bigint): string {
  return `0x${value.toString(16)}`;
}
