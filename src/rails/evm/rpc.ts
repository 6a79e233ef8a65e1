/**
 * The wire client: JSON-RPC over HTTP, one request for one call, no retry, no redirect, and a report of how far it got
 * (`rails/http.ts`).
 *
 * An answer item counts only with the id that was asked; a missing, doubled or foreign id makes that item unreadable and
 * leaves its neighbours alone.
 * Never: decides what an answer is worth, keeps money as a number, tries again.
 */
import { Client, type Dispatcher } from 'undici';
import type { Json, Reach } from '../../engine/rail.ts';
import { ANSWER_BYTES_MAX } from '../../kernel/limits.ts';
import type { Ports } from '../../kernel/ports.ts';
import { type Exchange, exchangeOnce, WIRE_LIMITS, type WireLimits, wireOptions } from '../http.ts';
import { excerpt } from '../json.ts';
import type { Named, RailNode } from '../node-list.ts';
import { field, isArray, isObject, parseJson } from './json.ts';
import { BATCH_CALLS_MAX, READ_BYTES_MAX } from './limits.ts';

export interface NodeConfig extends RailNode {
  /** Where a provider takes fewer calls in one array. */
  readonly batchCallsMax?: number;
}

export type RpcNode = Named<NodeConfig>;

export interface RpcCall {
  readonly method: string;
  readonly params: readonly Json[];
}

export type RpcResult =
  | { readonly kind: 'result'; readonly value: Json }
  | { readonly kind: 'error'; readonly code: number | null; readonly message: string }
  | { readonly kind: 'unreadable'; readonly detail: string; readonly reach: Reach; readonly status: number | null };

/** Posts one text and tells how far it got. Never throws for what the other side did. */
export function exchange(
  wire: Dispatcher,
  node: RpcNode,
  ports: Ports,
  name: string,
  text: string,
  limits: WireLimits & { readonly bytesMax: number },
): Promise<Exchange> {
  return exchangeOnce(
    wire,
    ports,
    name,
    {
      method: 'POST',
      url: new URL(node.url),
      headers: { 'content-type': 'application/json' },
      credential: node.credential,
      body: Buffer.from(text),
    },
    limits,
  );
}

/** One connection to one node, for questions that belong together. */
export interface Line {
  readonly node: RpcNode;
  /** One result per call, in order. Arrays above the node's limit go as several requests, one after the other. */
  ask(calls: readonly RpcCall[]): Promise<RpcResult[]>;
  /** Connections opened so far: unchanged over a look means that one connection answered all of it. */
  connections(): number;
  close(): Promise<void>;
}

export function openLine(node: RpcNode, ports: Ports, limits: WireLimits = WIRE_LIMITS): Line {
  const client = new Client(new URL(node.url).origin, wireOptions(limits));
  let connections = 0;
  client.on('connect', () => {
    connections += 1;
  });
  const batchMax = Math.max(1, node.batchCallsMax ?? BATCH_CALLS_MAX);
  let nextId = 1;
  return {
    node,
    connections: () => connections,
    close: () => client.destroy(),
    async ask(calls) {
      const results: RpcResult[] = [];
      for (let start = 0; start < calls.length; start += batchMax) {
        const part = calls.slice(start, start + batchMax);
        const firstId = nextId;
        nextId += part.length;
        const answer = await exchange(client, node, ports, nameOf(part), requestText(part, firstId), {
          ...limits,
          bytesMax: READ_BYTES_MAX,
        });
        results.push(...readResults(answer, part.length, firstId));
      }
      return results;
    },
  };
}

function nameOf(calls: readonly RpcCall[]): string {
  const first = calls[0]?.method ?? 'nothing';
  return calls.length === 1 ? first : `${first} +${calls.length - 1}`;
}

/** A single call is sent bare: some nodes take no arrays. */
export function requestText(calls: readonly RpcCall[], firstId: number): string {
  const requests = calls.map((call, index) => ({ jsonrpc: '2.0', id: firstId + index, ...call }));
  return JSON.stringify(requests.length === 1 ? requests[0] : requests);
}

/** Matches answer items to calls by id. */
export function readResults(answer: Omit<Exchange, 'headers'>, count: number, firstId: number): RpcResult[] {
  const unreadable = (detail: string): RpcResult => ({
    kind: 'unreadable',
    detail,
    reach: answer.reach,
    status: answer.status,
  });
  const all = (detail: string): RpcResult[] => Array.from({ length: count }, () => unreadable(detail));
  if (answer.reach !== 'answer') return all(answer.cut ? `answer cut: ${excerpt(answer.body)}` : answer.body);
  const parsed = parseJson(answer.body);
  if (parsed === undefined) return all(`not JSON: ${excerpt(answer.body)}`);
  const items = isArray(parsed) ? parsed : [parsed];
  const byId = new Map<number, Json>();
  const doubled = new Set<number>();
  for (const item of items) {
    const id = field(item, 'id');
    if (typeof id !== 'number') continue;
    if (byId.has(id)) doubled.add(id);
    byId.set(id, item);
  }
  return Array.from({ length: count }, (_, index) => {
    const item = byId.get(firstId + index);
    if (item === undefined) return unreadable(`no item with our id: ${excerpt(answer.body)}`);
    if (doubled.has(firstId + index)) return unreadable('two items with one id');
    return readItem(item) ?? unreadable(`neither result nor error: ${excerpt(JSON.stringify(item))}`);
  });
}

/** One JSON-RPC response object; `null` where it is none. */
export function readItem(item: Json): RpcResult | null {
  if (!isObject(item)) return null;
  const error = item['error'];
  if (error !== undefined && error !== null) {
    const message = field(error, 'message');
    const code = field(error, 'code');
    if (typeof message !== 'string') return null;
    return { kind: 'error', code: typeof code === 'number' ? code : null, message };
  }
  const value = item['result'];
  return value === undefined ? null : { kind: 'result', value };
}

/** The size at which a send's answer is cut. */
export const SEND_ANSWER_BYTES_MAX = ANSWER_BYTES_MAX;
