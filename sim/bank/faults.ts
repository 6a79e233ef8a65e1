/*
 * The faults of a bank's API, as data. Which call one hits is `../fault-plan.ts`.
 *
 * Promises: `counts` rises only when a fault really changed what happened: a refusal that a stored answer made needless is
 * not counted.
 * Never does: look at Payonce's code for what would hurt it.
 */
import { type FaultRule, makeRulePlan, type RulePlan } from '../fault-plan.ts';
import type { BankRequest, Refusal } from './profile.ts';

export type CallKind = 'create' | 'look' | 'other';

/** How a connection ends without an answer. `hang` never ends by itself. */
export type Break = 'reset' | 'fin' | 'hang';

export type EchoField = 'key' | 'reference' | 'amount' | 'currency' | 'destination';

export type BankFault =
  /** Read in full, never executed, never answered. */
  | { readonly kind: 'lose_request'; readonly how?: Break }
  /** Executed, never answered. */
  | { readonly kind: 'lose_answer'; readonly how?: Break }
  /** The connection breaks now; the request is executed `ms` later on the bank's clock. */
  | { readonly kind: 'deliver_later'; readonly ms: number; readonly how?: Break | 504 }
  /**
   * A proxy on the way sends the same bytes twice; the caller gets the second answer unless told otherwise. With `ms` the
   * copy arrives so much later on the bank's clock, and the caller has had the first answer.
   */
  | { readonly kind: 'deliver_twice'; readonly answer?: 'first' | 'second'; readonly ms?: number }
  /** `execution`: in progress so long on the bank's clock. `answer`: executed, answered so much real time later. */
  | { readonly kind: 'slow'; readonly ms: number; readonly what?: 'execution' | 'answer' }
  | {
      readonly kind: 'garble';
      readonly how: 'html' | 'empty' | 'truncated' | 'huge' | 'drip' | 'not_json' | 'bad_utf8';
      readonly status?: number;
      /** False: nothing is executed. */
      readonly effect?: boolean;
      /** `drip`: how long the body takes. */
      readonly ms?: number;
      /** `truncated`: how the connection ends half way. Absent: `fin`. */
      readonly end?: Break;
    }
  /** A bare HTTP status from the bank or a gateway before it. `stored`: it is what the key answers from now on. */
  | {
      readonly kind: 'http';
      readonly status: number;
      readonly effect?: boolean;
      readonly stored?: boolean;
      readonly html?: boolean;
      readonly retryAfterS?: number;
    }
  /** A refusal in the provider's own words, from its business rules, nothing paid. `stored` overrides the profile. */
  | { readonly kind: 'refuse'; readonly reason: Refusal; readonly stored?: boolean }
  /** The same words, after it paid. */
  | { readonly kind: 'lie'; readonly reason: Refusal; readonly stored?: boolean }
  | { readonly kind: 'unknown_code'; readonly effect?: boolean; readonly stored?: boolean }
  | { readonly kind: 'unknown_state'; readonly state?: string }
  /** The answer speaks of another transfer in these fields. */
  | { readonly kind: 'other_transfer'; readonly fields: readonly EchoField[] }
  /** 409 in all its meanings, whatever this provider's document says. `done` needs the transfer, so it has its effect. */
  | {
      readonly kind: 'conflict';
      readonly meaning: 'in_progress' | 'done' | 'other_body' | 'new_key';
      readonly effect?: boolean;
    }
  /** What this create makes is not in look-ups for so long; counted when a look-up really missed it. */
  | { readonly kind: 'lag'; readonly ms: number }
  /** This look-up finds nothing, though something is there: by ordinals it makes a flapping replica. */
  | { readonly kind: 'blind' }
  /** What is kept under the key of this create is forgotten first, before its time. */
  | { readonly kind: 'forget_key' }
  /** The balance is looked at before the key (T12); counted when it refused a request whose key was taken. */
  | { readonly kind: 'balance_first' }
  | {
      readonly kind: 'return_later';
      readonly ms: number;
      readonly units?: bigint;
      readonly feeUnits?: bigint;
      readonly reports?: number;
    }
  /** Accepted, then failed before it left. */
  | { readonly kind: 'fail_later'; readonly ms: number; readonly reason?: string }
  /** 503 while the bank's wall clock is inside; over midnight too. Absent: 23:30 to 00:30, Korean time. */
  | {
      readonly kind: 'maintenance';
      readonly from?: string;
      readonly to?: string;
      readonly utcOffsetMinutes?: number;
    };

export type BankFaultRule = Omit<FaultRule<CallKind, BankFault, BankRequest>, 'node'>;

/** What the bank's own rules do without a script is counted beside the faults. */
type OwnEvent = 'replayed' | 'key_expired' | 'executed_for_nobody' | 'stale_credential' | 'nonce_reused';

export type FaultName = BankFault['kind'] | `garble_${string}` | `http_${number}` | `conflict_${string}` | OwnEvent;

export type FaultCounts = Readonly<Partial<Record<FaultName, number>>>;

export function nameOf(fault: BankFault): FaultName {
  if (fault.kind === 'garble') return `garble_${fault.how}`;
  if (fault.kind === 'http') return `http_${fault.status}`;
  if (fault.kind === 'conflict') return `conflict_${fault.meaning}`;
  return fault.kind;
}

export type FaultPlan = RulePlan<CallKind, BankFault, BankRequest, FaultName> & {
  readonly calls: Readonly<Record<CallKind, number>>;
};

export function makeFaultPlan(seed: string, initial: readonly BankFaultRule[]): FaultPlan {
  const calls: Record<CallKind, number> = { create: 0, look: 0, other: 0 };
  return { ...makeRulePlan<CallKind, BankFault, BankRequest, FaultName>(seed, initial, calls), calls };
}
