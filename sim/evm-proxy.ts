/*
 * A JSON-RPC node with faults: a real HTTP server before a real chain. Several of them over one chain are several nodes,
 * each with its own lag, memory and temper.
 *
 * Promises: without rules it is transparent, batches included. Faults come from rules (`script`, or at start) and from the
 * node's condition (`lagBy`, `freezeAt`, `hide`, `claimChain`, `down`); each that really changed something is counted in
 * `counts`. What a fault does to the wire is what the name says: a lost answer's transaction is in the chain's pool.
 * Never does: decide at random without a seed, keep books (see `oracle.ts`, which asks the chain itself), or know Payonce.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { respond } from './evm-answer.ts';
import {
  type CallFault,
  type EvmFault,
  type FaultName,
  type FaultRecord,
  type FaultRule,
  isCallFault,
  isItemFault,
  makeFaultPlan,
  nameOf,
} from './evm-faults.ts';
import { answerAll, type Condition, type EvmNode, type Item } from './evm-items.ts';
import { isObject, type Json, type JsonObject } from './json-rpc.ts';

export type EvmProxyOptions = {
  /** The chain's own URL. */
  readonly upstream: string;
  /** Absent: 0. Rules with a chance draw from it. */
  readonly seed?: number | string;
  readonly faults?: readonly FaultRule[];
  readonly port?: number;
};

export type EvmProxy = {
  readonly url: string;
  readonly port: number;
  readonly counts: Readonly<Partial<Record<FaultName, number>>>;
  /** Requests seen, by method, whether they were forwarded or not. */
  readonly calls: Readonly<Record<string, number>>;
  readonly log: readonly FaultRecord[];
  /** Adds a rule; the returned function withdraws it. */
  script(rule: FaultRule): () => void;
  /** Withdraws all rules and conditions; the counters stay. */
  heal(): void;
  /** From now on this node is so many blocks behind the chain; 0 ends it. */
  lagBy(blocks: number): void;
  /** From now on this node has seen no block above this height. */
  freezeAt(height: number): void;
  /** This node answers null about this transaction and its receipt. */
  hide(hash: string): void;
  /** This node says that it belongs to another chain; null ends it. */
  claimChain(chainId: number | null): void;
  /** Connections are refused, as with a node that is not running. `up` listens on the same port again. */
  down(): Promise<void>;
  up(): Promise<void>;
  stop(): Promise<void>;
};

export async function startEvmProxy(options: EvmProxyOptions): Promise<EvmProxy> {
  const plan = makeFaultPlan(String(options.seed ?? 0), options.faults ?? []);
  const condition: Condition = { seen: undefined, chainId: null, hidden: new Set() };
  const node: EvmNode = { upstream: options.upstream, plan, condition };
  let server = await listen(node, options.port ?? 0);
  const { port } = server.address() as AddressInfo;

  return {
    url: `http://127.0.0.1:${port}`,
    port,
    counts: plan.counts,
    calls: plan.calls,
    log: plan.log,
    script: (rule) => plan.add(rule),
    heal() {
      plan.clear();
      condition.seen = undefined;
      condition.chainId = null;
      condition.hidden.clear();
    },
    lagBy(blocks) {
      condition.seen = blocks === 0 ? undefined : (head) => head - blocks;
    },
    freezeAt(height) {
      condition.seen = () => height;
    },
    hide: (hash) => void condition.hidden.add(hash.toLowerCase()),
    claimChain(chainId) {
      condition.chainId = chainId;
    },
    down: async () => close(server),
    async up() {
      server = await listen(node, port);
    },
    stop: async () => close(server),
  };
}

type Strike = { readonly fault: CallFault; readonly note: () => void };

async function listen(node: EvmNode, port: number): Promise<Server> {
  const server = createServer((request, response) => {
    // Whatever breaks in here (the chain is gone, the caller left) looks to the caller like a connection that broke.
    serve(node, request, response).catch(() => request.socket.destroy());
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

async function close(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await closed;
}

async function serve(node: EvmNode, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await readBody(request);
  const asked = parse(body);
  const batch = Array.isArray(asked);
  const requests = Array.isArray(asked) ? asked : [asked ?? null];
  if (requests.length === 0 || !requests.every(isRequest)) return passOn(node, body, response);

  // A rule that hits several items of a batch with a fault of the whole call strikes that call once.
  const strikes = new Map<EvmFault, Strike>();
  const items = requests.map((request): Item => {
    const { method } = request;
    const params = Array.isArray(request.params) ? request.params : [];
    const { ordinal, faults } = node.plan.next(method, params);
    for (const given of faults) {
      const fault = asCallFault(given, batch);
      if (!isCallFault(fault) || strikes.has(given)) continue;
      strikes.set(given, { fault, note: () => node.plan.fired(nameOf(fault), method, ordinal) });
    }
    return { request, method, params, ordinal, faults: faults.filter(isItemFault) };
  });
  const all = [...strikes.values()];
  for (const { fault, note } of all) {
    if (fault.kind !== 'delay' || fault.what === 'answer') continue;
    note();
    await sleep(fault.ms, undefined, { ref: false });
  }
  const stop = all.find(({ fault }) => stopsBeforeTheChain(fault));
  if (stop !== undefined) {
    stop.note();
    return respond(response, stop.fault, [], batch);
  }

  const answers = (await answerAll(node, items)).filter((answer) => answer !== undefined);
  for (const { fault, note } of all) {
    if (fault.kind === 'delay' && fault.what === 'answer') {
      note();
      await sleep(fault.ms, undefined, { ref: false });
    }
    if (fault.kind === 'reorder' && answers.length > 1) {
      note();
      answers.reverse();
    }
  }
  // Of several ways to spoil one answer the first one wins; the wire can break only once.
  const spoil = all.find(({ fault }) => fault.kind !== 'delay' && fault.kind !== 'reorder');
  spoil?.note();
  return respond(response, spoil?.fault, answers, batch);
}

function stopsBeforeTheChain(fault: CallFault): boolean {
  return fault.kind === 'lose_request' || (fault.kind === 'http' && fault.forwarded !== true);
}

/** An item lost from a request that is no batch is the whole call lost. */
function asCallFault(fault: EvmFault, batch: boolean): EvmFault {
  if (batch) return fault;
  if (fault.kind === 'drop_item') return { kind: 'lose_request' };
  return fault.kind === 'drop_item_answer' ? { kind: 'lose_answer' } : fault;
}

/** What is no JSON-RPC goes through untouched: how a node takes nonsense is the node's business. */
async function passOn(node: EvmNode, body: string, response: ServerResponse): Promise<void> {
  const answer = await fetch(node.upstream, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  const text = await answer.text();
  response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'text/plain' }).end(text);
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

function parse(body: string): Json | undefined {
  try {
    return JSON.parse(body) as Json;
  } catch {
    return undefined;
  }
}

function isRequest(value: Json): value is JsonObject & { method: string } {
  return isObject(value) && typeof value.method === 'string';
}
