/*
 * How a node sees the chain that lags behind its head: what it is asked is turned into a question about an older block, and
 * what it cannot know yet is taken out of the answer. Pure functions over requests and answers.
 *
 * A lagging node is honest about its past. It does not know newer blocks, transactions or receipts; it takes new
 * transactions; and, like nodes behind a load balancer, it says nothing about the part of a range that it lacks.
 */
import { isObject, type Json, type JsonObject } from './json-rpc.ts';

/** Heights at the real node, and the height that the lagging node believes to be the head. */
export type View = { readonly head: number; readonly final: number; readonly seen: number };

/** Where each method takes its block, or that the block is part of a filter. */
const BLOCK_PARAM: Readonly<Record<string, number>> = {
  eth_getBlockByNumber: 0,
  eth_getBlockReceipts: 0,
  eth_getBlockTransactionCountByNumber: 0,
  eth_getTransactionByBlockNumberAndIndex: 0,
  debug_traceBlockByNumber: 0,
  trace_block: 0,
  eth_getBalance: 1,
  eth_getCode: 1,
  eth_getTransactionCount: 1,
  eth_call: 1,
  eth_estimateGas: 1,
  eth_feeHistory: 1,
  eth_getStorageAt: 2,
  eth_getProof: 2,
};
/** These answer null about a block that they do not have; the others answer an error. */
const NULL_WHEN_UNKNOWN: ReadonlySet<string> = new Set([
  'eth_getBlockByNumber',
  'eth_getBlockReceipts',
  'eth_getBlockTransactionCountByNumber',
  'eth_getTransactionByBlockNumberAndIndex',
]);
const BY_HASH: ReadonlySet<string> = new Set([
  'eth_getBlockByHash',
  'eth_getTransactionByHash',
  'eth_getTransactionReceipt',
]);

export type Viewed =
  | { readonly kind: 'ask'; readonly params: Json[] }
  | { readonly kind: 'result'; readonly result: Json }
  | { readonly kind: 'error'; readonly code: number; readonly message: string };

/** What the lagging node answers at once, or what to ask the real one in its place. */
export function askThrough(view: View, method: string, params: Json[]): Viewed {
  if (method === 'eth_blockNumber') return { kind: 'result', result: toHex(view.seen) };
  if (method === 'eth_getLogs') return askLogs(view, params);
  const at = BLOCK_PARAM[method];
  if (at === undefined) return { kind: 'ask', params };
  const block = params[at] ?? 'latest';
  const height = toHeight(view, block);
  if (height === undefined) return { kind: 'ask', params };
  if (height <= view.seen)
    return { kind: 'ask', params: params.slice(0, at).concat(toHex(height), params.slice(at + 1)) };
  if (NULL_WHEN_UNKNOWN.has(method)) return { kind: 'result', result: null };
  return { kind: 'error', code: -32_000, message: 'header not found' };
}

function askLogs(view: View, params: Json[]): Viewed {
  const filter = params[0];
  if (!isObject(filter) || filter.blockHash !== undefined) return { kind: 'ask', params };
  const from = toHeight(view, filter.fromBlock ?? 'latest') ?? 0;
  const to = Math.min(toHeight(view, filter.toBlock ?? 'latest') ?? view.seen, view.seen);
  if (from > to) return { kind: 'result', result: [] };
  return { kind: 'ask', params: [{ ...filter, fromBlock: toHex(from), toBlock: toHex(to) }] };
}

/** Takes out of an answer what lies above the view: questions by hash cannot be turned into older ones. */
export function answerThrough(view: View, method: string, result: Json): Json {
  if (BY_HASH.has(method)) {
    if (!isObject(result)) return result;
    const block = method === 'eth_getBlockByHash' ? result.number : result.blockNumber;
    // A transaction without a block is in the real node's pool; the lagging one has not heard of it.
    return typeof block === 'string' && Number(block) <= view.seen ? result : null;
  }
  if (method === 'eth_getLogs' || method === 'eth_getBlockReceipts') return withoutBlocksAbove(view.seen, result);
  return result;
}

/** The entries of a list of logs or receipts up to a height. */
export function withoutBlocksAbove(height: number, result: Json): Json {
  if (!Array.isArray(result)) return result;
  return result.filter((entry) => !isObject(entry) || Number(entry.blockNumber) <= height);
}

/** Tags as the lagging node understands them: its finalized block trails its head by what the real one's does. */
function toHeight(view: View, block: Json): number | undefined {
  switch (block) {
    case 'latest':
    case 'pending':
      return view.seen;
    case 'finalized':
      return Math.max(0, view.seen - (view.head - view.final));
    case 'safe':
      return Math.max(0, view.seen - Math.ceil((view.head - view.final) / 2));
    case 'earliest':
      return 0;
    default:
      return typeof block === 'string' && /^0x[0-9a-f]{1,13}$/i.test(block) ? Number(block) : undefined;
  }
}

function toHex(height: number): string {
  return `0x${height.toString(16)}`;
}

/** The hash that a question is about, for a node that forgets single transactions. */
export function hashAsked(method: string, params: Json[]): string | undefined {
  if (method !== 'eth_getTransactionByHash' && method !== 'eth_getTransactionReceipt') return undefined;
  return typeof params[0] === 'string' ? params[0].toLowerCase() : undefined;
}

export function toView(head: Json, final: Json, seen: (head: number) => number): View {
  const headHeight = Number((head as JsonObject).number);
  const finalHeight = isObject(final) ? Number(final.number) : 0;
  return { head: headHeight, final: finalHeight, seen: Math.max(0, Math.min(headHeight, seen(headHeight))) };
}
