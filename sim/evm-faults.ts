/*
 * The faults of a JSON-RPC node, as data, and the one place that decides which call they hit.
 *
 * Promises: a rule hits by method and by the ordinal of that method's calls at this node, or by a chance drawn from
 * (seed, rule, method, ordinal). So the same seed hits the same calls whatever other methods ran in between, and whichever
 * process made them. `counts` rises only when a fault really changed what happened: it is the evidence of a run.
 * Never does: look at Payonce's code for what would hurt it.
 */
import { createHash } from 'node:crypto';
import type { Json } from './json-rpc.ts';

/** Faults of the whole HTTP call: they hit every item of a batch. */
export type CallFault =
  /** Never forwarded. `close`: the connection breaks. `hang`: it stays silent for ever. */
  | { readonly kind: 'lose_request'; readonly how?: 'close' | 'hang' }
  /** Forwarded, the effect happens, no answer. */
  | { readonly kind: 'lose_answer'; readonly how?: 'close' | 'hang' }
  /** Forwarded; the answer breaks off in the middle. */
  | { readonly kind: 'half_answer' }
  /** `request`: forwarded late, even if the caller has gone by then. `answer`: forwarded at once, answered late. */
  | { readonly kind: 'delay'; readonly ms: number; readonly what?: 'request' | 'answer' }
  /** A batch's answers come in reverse: allowed by JSON-RPC, and a trap for whoever counts on the order. */
  | { readonly kind: 'reorder' }
  | {
      readonly kind: 'garble';
      readonly how: 'truncated' | 'html' | 'empty' | 'bad_utf8' | 'wrong_id' | 'not_an_answer';
    }
  | { readonly kind: 'http'; readonly status: 403 | 429 | 500 | 502 | 503 | 504; readonly forwarded?: boolean };

/** Faults of one request, alone or inside a batch. */
export type ItemFault =
  /** Inside a batch: not forwarded, and no answer to it in the batch's answer. */
  | { readonly kind: 'drop_item' }
  /** Inside a batch: forwarded, and no answer to it in the batch's answer. */
  | { readonly kind: 'drop_item_answer' }
  /** Forwarded twice, one after the other; the caller gets the second answer unless told otherwise. */
  | { readonly kind: 'duplicate'; readonly answer?: 'first' | 'second' }
  | {
      readonly kind: 'rpc_error';
      readonly code: number;
      readonly message: string;
      readonly data?: Json;
      /** The node does the work and then answers the error all the same. */
      readonly forwarded?: boolean;
    }
  /** Forwarded, but the result is replaced: a node that invents. */
  | { readonly kind: 'invent'; readonly result: Json }
  /** This one item is answered under a foreign id. */
  | { readonly kind: 'wrong_item_id' }
  /** This one request is answered as of `blocks` behind the head. */
  | { readonly kind: 'stale'; readonly blocks: number }
  /** A transaction or receipt that the node knows is answered with null. */
  | { readonly kind: 'forget' }
  /** eth_getLogs and eth_getBlockReceipts leave out the newest `blocks`, as an index that is behind does. */
  | { readonly kind: 'empty_at_head'; readonly blocks: number };

export type EvmFault = CallFault | ItemFault;

export type FaultRule = {
  /** Absent: every method. */
  readonly method?: string | readonly string[];
  /** Which calls of that method at this node, from 1. Absent: all. */
  readonly calls?: readonly number[];
  /** Of those, how likely: 0 to 1. Absent: always. */
  readonly chance?: number;
  /** After so many hits the rule is spent. */
  readonly hitsMax?: number;
  readonly when?: (params: Json) => boolean;
  readonly fault: EvmFault;
};

export type FaultName = EvmFault['kind'] | `garble_${string}` | `http_${number}` | 'wrong_chain' | 'hide';

export type FaultRecord = {
  readonly fault: FaultName;
  readonly method: string;
  readonly ordinal: number;
};

/** The log is for people who read a failed run; the counters are complete. */
const LOG_RECORDS_MAX = 10_000;

const CALL_KINDS: ReadonlySet<string> = new Set([
  'lose_request',
  'lose_answer',
  'half_answer',
  'delay',
  'reorder',
  'garble',
  'http',
] satisfies CallFault['kind'][]);

export function isCallFault(fault: EvmFault): fault is CallFault {
  return CALL_KINDS.has(fault.kind);
}

export function isItemFault(fault: EvmFault): fault is ItemFault {
  return !isCallFault(fault);
}

export function nameOf(fault: EvmFault): FaultName {
  if (fault.kind === 'garble') return `garble_${fault.how}`;
  if (fault.kind === 'http') return `http_${fault.status}`;
  return fault.kind;
}

export type FaultPlan = {
  /** Counts the call and says what hits it. */
  next(method: string, params: Json): { ordinal: number; faults: EvmFault[] };
  add(rule: FaultRule): () => void;
  fired(name: FaultName, method: string, ordinal: number): void;
  clear(): void;
  readonly counts: Readonly<Partial<Record<FaultName, number>>>;
  readonly calls: Readonly<Record<string, number>>;
  readonly log: readonly FaultRecord[];
};

export function makeFaultPlan(seed: string, initial: readonly FaultRule[]): FaultPlan {
  const rules: { rule: FaultRule; number: number; hits: number }[] = [];
  const calls: Record<string, number> = {};
  const counts: Partial<Record<FaultName, number>> = {};
  const log: FaultRecord[] = [];
  let rulesEver = 0;

  const add = (rule: FaultRule): (() => void) => {
    const entry = { rule, number: ++rulesEver, hits: 0 };
    rules.push(entry);
    return () => {
      const at = rules.indexOf(entry);
      if (at >= 0) rules.splice(at, 1);
    };
  };
  for (const rule of initial) add(rule);

  return {
    next(method, params) {
      const ordinal = (calls[method] ?? 0) + 1;
      calls[method] = ordinal;
      const hit = rules.filter(
        ({ rule, number, hits }) =>
          hits < (rule.hitsMax ?? Infinity) &&
          concerns(rule, method) &&
          (rule.calls === undefined || rule.calls.includes(ordinal)) &&
          (rule.when === undefined || rule.when(params)) &&
          (rule.chance === undefined || draw(seed, number, method, ordinal) < rule.chance),
      );
      for (const entry of hit) entry.hits += 1;
      return { ordinal, faults: hit.map((entry) => entry.rule.fault) };
    },
    add,
    fired(fault, method, ordinal) {
      counts[fault] = (counts[fault] ?? 0) + 1;
      if (log.length < LOG_RECORDS_MAX) log.push({ fault, method, ordinal });
    },
    clear() {
      rules.length = 0;
    },
    counts,
    calls,
    log,
  };
}

function concerns(rule: FaultRule, method: string): boolean {
  if (rule.method === undefined) return true;
  return typeof rule.method === 'string' ? rule.method === method : rule.method.includes(method);
}

/** No generator with a state: an answer that comes earlier or later must not move the next draw. */
function draw(seed: string, rule: number, method: string, ordinal: number): number {
  const digest = createHash('sha256').update(`${seed}\n${rule}\n${method}\n${ordinal}`).digest();
  return digest.readUInt32BE(0) / 2 ** 32;
}
