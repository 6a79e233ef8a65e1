/*
 * The faults of a bank's API, as data, and the one place that decides which call they hit.
 *
 * Promises: a rule hits by the kind of call (create, look, other) and by the ordinal of that kind at this bank, or by a
 * chance drawn from (seed, rule, kind, ordinal): the same seed hits the same calls whatever ran in between. `counts` rises
 * only when a fault really changed what happened: a refusal that a stored answer made needless is not counted.
 * Never does: look at Payonce's code for what would hurt it.
 */
import { createHash } from 'node:crypto';
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

export type BankFaultRule = {
  /** Absent: every kind of call. */
  readonly on?: CallKind;
  /** Which calls of that kind at this bank, from 1. Absent: all. */
  readonly calls?: readonly number[];
  /** Of those, how likely: 0 to 1. Absent: always. */
  readonly chance?: number;
  /** After so many hits the rule is spent. */
  readonly hitsMax?: number;
  readonly when?: (request: BankRequest) => boolean;
  readonly fault: BankFault;
};

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

export type FaultPlan = {
  /** Counts the call and says what hits it. */
  next(kind: CallKind, request: BankRequest): { ordinal: number; faults: BankFault[] };
  readonly add: (rule: BankFaultRule) => () => void;
  readonly note: (name: FaultName) => void;
  readonly clear: () => void;
  readonly counts: FaultCounts;
  readonly calls: Readonly<Record<CallKind, number>>;
};

export function makeFaultPlan(seed: string, initial: readonly BankFaultRule[]): FaultPlan {
  const rules: { rule: BankFaultRule; number: number; hits: number }[] = [];
  const calls: Record<CallKind, number> = { create: 0, look: 0, other: 0 };
  const counts: Partial<Record<FaultName, number>> = {};
  let rulesEver = 0;

  const add = (rule: BankFaultRule): (() => void) => {
    const entry = { rule, number: ++rulesEver, hits: 0 };
    rules.push(entry);
    return () => {
      const place = rules.indexOf(entry);
      if (place >= 0) rules.splice(place, 1);
    };
  };
  for (const rule of initial) add(rule);

  return {
    next(kind, request) {
      calls[kind] += 1;
      const ordinal = calls[kind];
      const hit = rules.filter(
        ({ rule, number, hits }) =>
          hits < (rule.hitsMax ?? Infinity) &&
          (rule.on === undefined || rule.on === kind) &&
          (rule.calls === undefined || rule.calls.includes(ordinal)) &&
          (rule.when === undefined || rule.when(request)) &&
          (rule.chance === undefined || draw(seed, number, kind, ordinal) < rule.chance),
      );
      for (const entry of hit) entry.hits += 1;
      return { ordinal, faults: hit.map((entry) => entry.rule.fault) };
    },
    add,
    note(name) {
      counts[name] = (counts[name] ?? 0) + 1;
    },
    clear() {
      rules.length = 0;
    },
    counts,
    calls,
  };
}

/** No generator with a state: an answer that comes earlier or later must not move the next draw. */
function draw(seed: string, rule: number, kind: CallKind, ordinal: number): number {
  const digest = createHash('sha256').update(`${seed}\n${rule}\n${kind}\n${ordinal}`).digest();
  return digest.readUInt32BE(0) / 2 ** 32;
}
