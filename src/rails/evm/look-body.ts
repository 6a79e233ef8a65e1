/** The one JSON text in which a look keeps all raw results of one node for one effect. */
import type { Json } from '../../engine/rail.ts';
import { ANSWER_BYTES_MAX } from '../../kernel/limits.ts';
import { field, isArray, isObject, textOf } from './json.ts';
import type { RpcResult } from './rpc.ts';

export const LOOK_FORM = 'evm-look-1';

/** `{result}`, `{error: {code, message}}` or `{fault}`: what the node said to one call, or why nothing can be read. */
export type Item = { readonly [key: string]: Json };

export function toItem(result: RpcResult | undefined): Item {
  if (result === undefined) return { fault: 'not asked' };
  if (result.kind === 'result') return { result: result.value };
  if (result.kind === 'error') return { error: { code: result.code, message: result.message } };
  return { fault: result.detail, status: result.status };
}

export function fromItem(item: Json | undefined): RpcResult {
  if (isObject(item)) {
    const value = item['result'];
    if (value !== undefined) return { kind: 'result', value };
    const message = field(item['error'], 'message');
    const code = field(item['error'], 'code');
    if (typeof message === 'string') return { kind: 'error', code: typeof code === 'number' ? code : null, message };
  }
  return { kind: 'unreadable', detail: textOf(field(item, 'fault')) ?? 'not asked', reach: 'answer', status: null };
}

/** A block without its body and bloom: what a look compares is number, hash and parent. */
export function headerItem(result: RpcResult | undefined): Item {
  if (result?.kind !== 'result' || !isObject(result.value)) return toItem(result);
  return { result: pick(result.value, ['number', 'hash', 'parentHash', 'timestamp', 'baseFeePerGas']) };
}

export function transactionItem(value: Json): Item {
  if (!isObject(value)) return { result: value };
  return { result: pick(value, ['hash', 'from', 'nonce', 'to', 'value', 'input', 'type', 'blockNumber', 'blockHash']) };
}

/** A receipt without its bloom. */
export function receiptItem(result: RpcResult | undefined): Item {
  if (result?.kind !== 'result' || !isObject(result.value)) return toItem(result);
  const { logsBloom: _bloom, ...rest } = result.value;
  return { result: rest };
}

function pick(value: { readonly [key: string]: Json }, names: readonly string[]): Item {
  return Object.fromEntries(names.flatMap((name) => (value[name] === undefined ? [] : [[name, value[name]]])));
}

/**
 * Writes the body. A receipt of a large multi-send can exceed what is stored; then logs of contracts that the seal does
 * not name are left out, and their number is kept.
 */
export function writeLook(body: Item, expected: ReadonlySet<string>): string {
  const whole = JSON.stringify(body);
  if (whole.length <= ANSWER_BYTES_MAX) return whole;
  return JSON.stringify(body, (name: string, value: Json): Json => {
    if (name !== 'logs' || !isArray(value)) return value;
    return value.filter((log) => expected.has((textOf(field(log, 'address')) ?? '').toLowerCase()));
  });
}
