/*
 * The faults of a TRON node and of its chain, as data. Which call one hits is `../fault-plan.ts`.
 *
 * Promises: `counts` rises only when a fault really changed what happened.
 */
import type { BankFault, Break } from '../bank/faults.ts';
import { type FaultRule, makeRulePlan, type RulePlan } from '../fault-plan.ts';
import type { ResponseCode } from './node.ts';
import type { VmResult } from './programs.ts';

export type { FaultRule } from '../fault-plan.ts';

/** `head`: reads of /wallet; `solid`: of /walletsolidity; `build`: what makes or tries a transaction; `events`: /v1. */
export type CallKind = 'broadcast' | 'head' | 'solid' | 'build' | 'events';

export type TronFault =
  /** Read in full, not executed, never answered. */
  | { readonly kind: 'lose_request'; readonly how?: Break }
  | { readonly kind: 'lose_answer'; readonly how?: Break }
  /** The connection breaks now; the request is executed `ms` later on the chain's clock. */
  | { readonly kind: 'deliver_later'; readonly ms: number; readonly how?: Break }
  /** A proxy sends the same bytes twice; the caller gets the second answer. */
  | { readonly kind: 'deliver_twice' }
  /** Executed, answered so much real time later. */
  | { readonly kind: 'slow'; readonly ms: number }
  | (Extract<BankFault, { kind: 'garble' }> & { readonly effect?: boolean })
  | {
      readonly kind: 'http';
      readonly status: number;
      readonly effect?: boolean;
      readonly html?: boolean;
      readonly retryAfterS?: number;
    }
  /** HTTP 200 and an Error, before the servlet. */
  | { readonly kind: 'rate_limited' }
  /** This code, and nothing was taken. A text that java-tron does not know makes it a code of a newer node. */
  | { readonly kind: 'refuse'; readonly code: ResponseCode | (string & {}); readonly message?: string }
  /** This code, and it was taken all the same. */
  | { readonly kind: 'lie'; readonly code: ResponseCode | (string & {}); readonly message?: string }
  /** SUCCESS, and no node has it. With `afterMs`: it is gone so much later, unless it was included before. */
  | { readonly kind: 'drop'; readonly afterMs?: number }
  /** Pending at this node only. */
  | { readonly kind: 'not_spread' }
  /** Pending, spread, and no witness takes it. */
  | { readonly kind: 'never_include' }
  /** In the last block that may hold it. */
  | { readonly kind: 'include_at_last' }
  | { readonly kind: 'include_later'; readonly blocks: number }
  /** Included, and so many blocks later the branch with it is left; it comes back from the pool unless told otherwise. */
  | { readonly kind: 'fork_out'; readonly afterBlocks: number; readonly comesBack?: boolean }
  /** The virtual machine ends like this in the block. */
  | { readonly kind: 'end_as'; readonly result: VmResult }
  /** What is looked for is not found, though it is there. */
  | { readonly kind: 'blind' }
  /** This read is answered by a machine that is so far behind. */
  | { readonly kind: 'lag'; readonly blocks: number }
  /** Blocks are shown under other ids: this node follows another chain from the first block on. */
  | { readonly kind: 'other_branch' }
  /** A full page of events without the cursor to the next (case G4). */
  | { readonly kind: 'no_fingerprint' }
  /** A page without rows, and a cursor (case H13). */
  | { readonly kind: 'empty_page' };

export type TronRequest = { readonly node: string; readonly path: string; readonly body: string };

export type TronFaultRule = FaultRule<CallKind, TronFault, TronRequest>;

export type FaultName = TronFault['kind'] | `garble_${string}` | `http_${number}` | 'executed_for_nobody';
export type FaultCounts = Readonly<Partial<Record<FaultName, number>>>;

export type FaultPlan = RulePlan<CallKind, TronFault, TronRequest, FaultName>;

export function faultNameOf(fault: TronFault): FaultName {
  if (fault.kind === 'garble') return `garble_${fault.how}`;
  if (fault.kind === 'http') return `http_${fault.status}`;
  return fault.kind;
}

export function pick<K extends TronFault['kind']>(
  faults: readonly TronFault[],
  kind: K,
): Extract<TronFault, { kind: K }> | null {
  return faults.find((fault): fault is Extract<TronFault, { kind: K }> => fault.kind === kind) ?? null;
}

export function makeFaultPlan<
  Kind extends string,
  Fault,
  Request extends { readonly node: string },
  Name extends string,
>(seed: string, initial: readonly FaultRule<Kind, Fault, Request>[]): RulePlan<Kind, Fault, Request, Name> {
  return makeRulePlan<Kind, Fault, Request, Name>(seed, initial, {}, ({ node }) => node);
}
