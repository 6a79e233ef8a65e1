/**
 * The wire client: a node's HTTP API, one POST for one question, no retry, no redirect, and a report of how far it got
 * (`rails/http.ts`).
 *
 * A node answers HTTP 200 for nearly everything: `{}` for "not here", `{"Error": …}` for an exception or a brake, a bare
 * sentence where a lite node has no history. Only JSON without `Error` is a value. Figures stay the digits that stood
 * there: no amount ever is a JavaScript number.
 * Never: decides what an answer is worth, tries again.
 */
import { Client, type Dispatcher } from 'undici';
import type { Json, Reach } from '../../engine/rail.ts';
import type { Ports } from '../../kernel/ports.ts';
import { type Exchange, exchangeOnce, WIRE_LIMITS, type WireLimits, wireOptions } from '../http.ts';
import { excerpt, field, isObject, parseLossless } from '../json.ts';
import type { Named, RailNode } from '../node-list.ts';
import type { Pace } from './lanes.ts';
import { READ_BYTES_MAX } from './limits.ts';

export interface NodeConfig extends RailNode {
  /** Blocks of which this node is known to have lost its history: it is no witness over them. */
  readonly gaps?: readonly { readonly fromBlock: bigint; readonly toBlock: bigint }[];
  /** Connections for looks and plans, beside each other. Absent: `CONNECTIONS_PER_NODE`. */
  readonly connections?: number;
  /** What its operator takes of us. Absent: no limit of ours. */
  readonly requestsPerSecond?: number;
}

export type TronNodeName = Named<NodeConfig>;

export type TronResult =
  | { readonly kind: 'value'; readonly value: Json }
  | { readonly kind: 'unreadable'; readonly detail: string; readonly reach: Reach; readonly status: number | null };

export interface Line {
  readonly node: TronNodeName;
  /** `path` as in `walletsolidity/getnowblock`. */
  ask(path: string, body?: Json): Promise<TronResult>;
  /** Connections opened so far: unchanged over a look means that one connection answered all of it. */
  connections(): number;
  close(): Promise<void>;
}

export function openLine(
  node: TronNodeName,
  ports: Ports,
  limits: WireLimits = WIRE_LIMITS,
  pace: Pick<Pace, 'turn'> | null = null,
): Line {
  const client = new Client(new URL(node.url).origin, wireOptions(limits));
  let connections = 0;
  client.on('connect', () => {
    connections += 1;
  });
  return {
    node,
    connections: () => connections,
    close: () => client.destroy(),
    async ask(path, body = {}) {
      await pace?.turn();
      return readResult(await post(client, node, ports, path, body, { ...limits, bytesMax: READ_BYTES_MAX }));
    },
  };
}

export function post(
  wire: Dispatcher,
  node: TronNodeName,
  ports: Ports,
  path: string,
  body: Json,
  limits: WireLimits & { readonly bytesMax: number },
): Promise<Exchange> {
  return exchangeOnce(
    wire,
    ports,
    path,
    {
      method: 'POST',
      url: new URL(path, node.url.endsWith('/') ? node.url : `${node.url}/`),
      headers: { 'content-type': 'application/json' },
      credential: node.credential,
      body: Buffer.from(JSON.stringify(body)),
    },
    limits,
  );
}

export function readResult(answer: Omit<Exchange, 'headers'>): TronResult {
  const unreadable = (detail: string): TronResult => ({
    kind: 'unreadable',
    detail,
    reach: answer.reach,
    status: answer.status,
  });
  if (answer.reach !== 'answer') return unreadable(answer.cut ? `answer cut: ${excerpt(answer.body)}` : answer.body);
  if (answer.status !== 200) return unreadable(`HTTP ${answer.status}: ${excerpt(answer.body)}`);
  const value = parseLossless(answer.body);
  if (value === undefined) return unreadable(`not JSON: ${excerpt(answer.body)}`);
  const error = field(value, 'Error');
  if (error !== undefined) return unreadable(`Error: ${excerpt(JSON.stringify(error))}`);
  return { kind: 'value', value };
}

/** `{}`: the node's way to say that it shows no such thing, which says nothing about the chain. */
export function isNothing(result: TronResult | undefined): boolean {
  return result?.kind === 'value' && isObject(result.value) && Object.keys(result.value).length === 0;
}

/** What went wrong, in words. */
export function faultOf(result: TronResult | undefined): string {
  if (result === undefined) return 'not asked';
  if (result.kind === 'unreadable') return result.detail;
  return isNothing(result) ? 'the node has no such thing' : 'not in the expected form';
}
