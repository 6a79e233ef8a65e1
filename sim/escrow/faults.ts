/*
 * The faults of a liquidity provider's API, as data. Which call one hits is `../fault-plan.ts`.
 *
 * Promises: a fault that this provider cannot have does not type-check, and `counts` rises only when one really changed what
 * happened.
 * Never does: look at Payonce's code for what would hurt it.
 */
import type { BankFault } from '../bank/faults.ts';
import type { BankRequest } from '../bank/profile.ts';
import { type FaultRule, makeRulePlan, type RulePlan } from '../fault-plan.ts';

export type EscrowCall = 'create' | 'look' | 'cancel';

export type Refusal = 'no_liquidity' | 'amount_out_of_range' | 'market_closed' | 'bad_request' | 'account_disabled';

export type TradeField = 'id' | 'reference' | 'asset' | 'amount' | 'fiat' | 'fiat_amount';

/** On the way, and before anybody behind the counter decides: the same as a bank's. */
type OnTheWay = Extract<
  BankFault,
  { kind: 'lose_request' | 'lose_answer' | 'deliver_later' | 'deliver_twice' | 'slow' | 'garble' | 'http' }
>;

export type EscrowFault =
  | OnTheWay
  /** Nothing is opened. Absent `stored`: it is what the key answers from now on. */
  | { readonly kind: 'refuse'; readonly reason?: Refusal; readonly stored?: boolean }
  /** The same words, after it opened. */
  | { readonly kind: 'lie'; readonly reason?: Refusal; readonly stored?: boolean }
  | { readonly kind: 'unknown_code'; readonly effect?: boolean; readonly stored?: boolean }
  /** 409. Without `effect` it is said whatever is kept under the key, and nothing is done. */
  | {
      readonly kind: 'conflict';
      readonly meaning: 'in_progress' | 'other_body' | 'not_cancellable';
      readonly effect?: boolean;
    }
  | { readonly kind: 'unknown_state'; readonly state?: string }
  /** The answer speaks of another trade in these fields. */
  | { readonly kind: 'other_trade'; readonly fields: readonly TradeField[] }
  /** What this create opens is not in lists for so long; counted when a list really missed it. */
  | { readonly kind: 'lag'; readonly ms: number }
  /** This look is answered by a replica that is so far behind. */
  | { readonly kind: 'stale'; readonly ms: number }
  /** This look finds nothing, though something is there: by ordinals it makes a flapping replica. */
  | { readonly kind: 'blind' }
  /** What is kept under the key of this call is forgotten first, before its time. */
  | { readonly kind: 'forget_key' };

export type EscrowFaultRule = Omit<FaultRule<EscrowCall, EscrowFault, BankRequest>, 'node'>;

/** What the provider's own rules do without a script is counted beside the faults. */
type OwnEvent = 'replayed' | 'key_expired' | 'executed_for_nobody' | 'stale_credential';

export type EscrowFaultName =
  | EscrowFault['kind']
  | `garble_${string}`
  | `http_${number}`
  | `conflict_${string}`
  | OwnEvent;

export type EscrowFaultCounts = Readonly<Partial<Record<EscrowFaultName, number>>>;

export type EscrowPlan = RulePlan<EscrowCall, EscrowFault, BankRequest, EscrowFaultName> & {
  readonly calls: Readonly<Record<EscrowCall, number>>;
};

export function makeEscrowPlan(seed: string, initial: readonly EscrowFaultRule[]): EscrowPlan {
  const calls: Record<EscrowCall, number> = { create: 0, look: 0, cancel: 0 };
  return { ...makeRulePlan<EscrowCall, EscrowFault, BankRequest, EscrowFaultName>(seed, initial, calls), calls };
}

export function nameOf(fault: EscrowFault): EscrowFaultName {
  if (fault.kind === 'garble') return `garble_${fault.how}`;
  if (fault.kind === 'http') return `http_${fault.status}`;
  if (fault.kind === 'conflict') return `conflict_${fault.meaning}`;
  return fault.kind;
}

export function pick<K extends EscrowFault['kind']>(
  faults: readonly EscrowFault[],
  kind: K,
): Extract<EscrowFault, { kind: K }> | null {
  return faults.find((fault): fault is Extract<EscrowFault, { kind: K }> => fault.kind === kind) ?? null;
}
