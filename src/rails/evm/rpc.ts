/**
 * The wire client: JSON-RPC over HTTP, one request for one call, no retry, no redirect, and a report of how far it got.
 *
 * `never_connected` is said only where undici never handed the request to a connected socket: names that do not
 * resolve, refused connections, failed TLS. From the moment a socket has the request, silence is unknown. An answer
 * item counts only with the id that was asked; a missing, doubled or foreign id makes that item unreadable and leaves
 * its neighbours alone.
 * Never: decides what an answer is worth, keeps money as a number, tries again.
 */
import { Readable } from 'node:stream';
import { Agent, Client, type Dispatcher } from 'undici';
import type { Json, Reach } from '../../engine/rail.ts';
import { ANSWER_BYTES_MAX, RAIL_TIMEOUT_MS } from '../../kernel/limits.ts';
import type { HalfCut, Ports } from '../../kernel/ports.ts';
import { field, isArray, isObject, parseJson } from './json.ts';
import { BATCH_CALLS_MAX, CONNECT_MS, HALF_FLUSH_MS, KEEP_ALIVE_MS, READ_BYTES_MAX } from './limits.ts';

export interface NodeConfig {
  readonly url: string;
  /** Who runs it: witnesses are counted by operator, so two nodes of one provider are one. */
  readonly operator: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Where a provider takes fewer calls in one array. */
  readonly batchCallsMax?: number;
}

export interface RpcNode extends NodeConfig {
  /** Names the node in evidence; never its URL's path, which often is a secret. */
  readonly source: string;
}

export interface RpcCall {
  readonly method: string;
  readonly params: readonly Json[];
}

export interface Exchange {
  readonly reach: Reach;
  readonly status: number | null;
  readonly body: string;
  readonly cut: boolean;
}

export type RpcResult =
  | { readonly kind: 'result'; readonly value: Json }
  | { readonly kind: 'error'; readonly code: number | null; readonly message: string }
  | { readonly kind: 'unreadable'; readonly detail: string; readonly reach: Reach; readonly status: number | null };

export interface WireLimits {
  readonly timeoutMs: number;
  readonly connectMs: number;
}

export const WIRE_LIMITS: WireLimits = { timeoutMs: RAIL_TIMEOUT_MS, connectMs: CONNECT_MS };

/** The dispatcher of a rail's sends: many at once, each a request of its own. */
export function makeSendAgent(connections: number, limits: WireLimits): Agent {
  return new Agent({ ...wireOptions(limits), connections });
}

function wireOptions(limits: WireLimits) {
  return {
    pipelining: 1,
    connect: { timeout: limits.connectMs },
    headersTimeout: limits.timeoutMs,
    bodyTimeout: limits.timeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
  };
}

/** Posts one text and tells how far it got. Never throws for what the other side did. */
export function exchange(
  wire: Dispatcher,
  node: RpcNode,
  ports: Ports,
  name: string,
  text: string,
  limits: WireLimits & { readonly bytesMax: number },
): Promise<Exchange> {
  const bytes = Buffer.from(text);
  return ports.gate.pass('http', name, (half) => post(wire, node, bytes, limits, half));
}

function post(
  wire: Dispatcher,
  node: RpcNode,
  bytes: Buffer,
  limits: WireLimits & { readonly bytesMax: number },
  half: HalfCut | null,
): Promise<Exchange> {
  return new Promise((resolve, reject) => {
    const url = new URL(node.url);
    const chunks: Buffer[] = [];
    let size = 0;
    let reach: Reach = 'never_connected';
    let status: number | null = null;
    let ended = false;
    let request: Dispatcher.DispatchController | null = null;

    const finish = (final: Reach, body: string, cut: boolean): void => {
      if (ended) return;
      ended = true;
      clearTimeout(timer);
      resolve({ reach: final, status, body, cut });
    };
    const giveUp = (reason: string): void => {
      // Before `onRequestStart` nothing was written, and the abort in it keeps it so.
      finish(reach, reason, false);
      request?.abort(new Error(reason));
    };
    const timer = setTimeout(() => giveUp(`no whole answer within ${limits.timeoutMs} ms`), limits.timeoutMs);

    const handler: Dispatcher.DispatchHandler = {
      onRequestStart(controller) {
        // Started twice would be a retry below us; started after our time-out would be a send nobody waits for.
        if (ended || request !== null) {
          controller.abort(new Error('abandoned before it was written'));
          return;
        }
        request = controller;
        // LEAVES: undici writes the request to its socket right after this returns.
        reach = 'request_written';
      },
      onResponseStart(_controller, code) {
        reach = 'partial_answer';
        status = code;
      },
      onResponseData(_controller, chunk) {
        if (half?.mode === 'half_read') dieIn(half, reject);
        size += chunk.length;
        if (size <= limits.bytesMax) {
          chunks.push(chunk);
          return;
        }
        chunks.push(chunk.subarray(0, chunk.length - (size - limits.bytesMax)));
        finish('partial_answer', Buffer.concat(chunks).toString('utf8'), true);
        request?.abort(new Error('answer too large'));
      },
      onResponseEnd() {
        finish('answer', Buffer.concat(chunks).toString('utf8'), false);
      },
      onResponseError(_controller, error) {
        finish(reach, reach === 'partial_answer' ? Buffer.concat(chunks).toString('utf8') : describe(error), true);
      },
    };
    try {
      wire.dispatch(
        {
          origin: url.origin,
          path: url.pathname + url.search,
          method: 'POST',
          headers: {
            ...node.headers,
            ...credentialsOf(url),
            'content-type': 'application/json',
            'content-length': String(bytes.length),
          },
          body: half?.mode === 'half_written' ? Readable.from(halfOf(bytes, half, reject)) : bytes,
        },
        handler,
      );
    } catch (error) {
      finish(reach, describe(error), false);
    }
  });
}

/** Gives undici the first half, waits until the kernel has it, and dies. */
async function* halfOf(bytes: Buffer, half: HalfCut, reject: (error: unknown) => void): AsyncGenerator<Buffer> {
  yield bytes.subarray(0, Math.ceil(bytes.length / 2));
  await new Promise((resolve) => setTimeout(resolve, HALF_FLUSH_MS));
  dieIn(half, reject);
}

/** In production `die` does not return; a test's may throw, which must reach the caller and not undici. */
function dieIn(half: HalfCut, reject: (error: unknown) => void): void {
  try {
    half.die();
  } catch (error) {
    reject(error);
    throw error;
  }
}

function credentialsOf(url: URL): Record<string, string> {
  if (url.username === '') return {};
  const pair = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` };
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error && typeof error.code === 'string' ? `${error.code}: ` : '';
  return code + error.message;
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
export function readResults(answer: Exchange, count: number, firstId: number): RpcResult[] {
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

export function excerpt(text: string): string {
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}

/** The size at which a send's answer is cut. */
export const SEND_ANSWER_BYTES_MAX = ANSWER_BYTES_MAX;
