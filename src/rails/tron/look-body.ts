/** The one JSON text in which a look keeps what one node showed for one effect. */
import type { Json } from '../../engine/rail.ts';
import { ANSWER_BYTES_MAX } from '../../kernel/limits.ts';
import { field, isArray, isObject, textOf } from '../json.ts';
import { fromNode } from './address.ts';
import type { TronResult } from './wire.ts';

export const LOOK_FORM = 'tron-look-1';

/** `{value}` or `{fault, status}`: what the node said to one question, or why nothing can be read. */
export type Item = { readonly [key: string]: Json };

export function toItem(result: TronResult | undefined): Item {
  if (result === undefined) return { fault: 'not asked', status: null };
  if (result.kind === 'value') return { value: result.value };
  return { fault: result.detail, status: result.status };
}

export function fromItem(item: Json | undefined): TronResult {
  const value = field(item, 'value');
  if (value !== undefined) return { kind: 'value', value };
  const fault = textOf(field(item, 'fault')) ?? 'not asked';
  const status = field(item, 'status');
  return { kind: 'unreadable', detail: fault, reach: 'answer', status: typeof status === 'number' ? status : null };
}

/** A block without its transactions: what a look compares is number, id, parent and time. */
export function headerItem(result: TronResult | undefined): Item {
  if (result?.kind !== 'value' || !isObject(result.value)) return toItem(result);
  const { transactions: _transactions, ...rest } = result.value;
  return { value: rest };
}

/**
 * Writes the body. A receipt of a large multi-send can exceed what is stored; then logs of contracts that the seal does
 * not name, and what contracts called inside, are left out.
 */
export function writeLook(body: Item, expected: ReadonlySet<string>): string {
  const whole = JSON.stringify(body);
  if (whole.length <= ANSWER_BYTES_MAX) return whole;
  return JSON.stringify(body, (name: string, value: Json): Json => {
    if (name === 'internal_transactions') return [];
    if (name !== 'log' || !isArray(value)) return value;
    return value.filter((log) => expected.has(fromNode(field(log, 'address')) ?? ''));
  });
}
