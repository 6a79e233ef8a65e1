/**
 * What a movement at our addresses is (R10): a pure table, read from the top, whose first fitting row decides. The row's
 * reason is stored beside the class, so that people see why.
 *
 * A class is given per movement and side. The sides differ in one row: when partner A withdraws to partner B's deposit
 * address, A's side is the withdrawal (its hash or payload is on record) and B's is a deposit. A side that is not ours has
 * no class.
 */
export type AddressKind = 'MASTER' | 'DEPOSIT' | 'SETTLEMENT' | 'GAS' | 'RELAYER' | 'ADMIN';
/** `PARTNER_MASTER`: a master wallet that belongs to one partner. */
export type Side = 'OUTSIDE' | AddressKind | 'PARTNER_MASTER';

export type TransferClass =
  /** Credits the address's partner. */
  | 'DEPOSIT'
  /** Belongs to an effect of ours, whose flow books both sides. */
  | 'OWN_EFFECT'
  /** From our infrastructure to ourselves; a return of fees too (R13). Credits nobody. */
  | 'FUNDING'
  /** Between two of our own, without a record: an alarm, no credit (an orphan sweep would be one). */
  | 'UNKNOWN_INTERNAL'
  | 'UNKNOWN_INBOUND'
  /** Out of our wallet without a record: an alarm, and the wallet is quarantined, as with UNKNOWN_INTERNAL. */
  | 'UNKNOWN_OUTBOUND';

/** Whose movement it is: `partner_pays`: of an effect that takes a partner's held money; `own`: of every other effect of ours
 *  (sweep, top-up, …). An effect owns what leaves its wallet, not everything that moves in its transaction. */
export type OwnEffect = 'none' | 'partner_pays' | 'own';

export interface TransferFacts {
  readonly from: Side;
  readonly to: Side;
  readonly effect: OwnEffect;
}

export interface Classed {
  readonly class: TransferClass;
  readonly reason: string;
}

/** Where money is missing from a wallet and nothing of ours says why, that wallet seals nothing new. */
export const QUARANTINED: readonly TransferClass[] = ['UNKNOWN_OUTBOUND', 'UNKNOWN_INTERNAL'];

/** `null`: that side is not ours. */
export interface Sides {
  readonly sender: Classed | null;
  readonly receiver: Classed | null;
}

type Wanted = Side | 'ANY' | 'OURS' | 'INFRASTRUCTURE';
interface Rule extends Classed {
  readonly effect: readonly OwnEffect[];
  readonly from: Wanted;
  readonly to: Wanted;
}

const EVERY: readonly OwnEffect[] = ['none', 'partner_pays', 'own'];

export const TRANSFER_RULES: readonly Rule[] = [
  {
    effect: ['partner_pays'],
    from: 'OURS',
    to: 'DEPOSIT',
    class: 'DEPOSIT',
    reason: 'a_partner_paid_to_a_deposit_address',
  },
  { effect: ['partner_pays', 'own'], from: 'ANY', to: 'ANY', class: 'OWN_EFFECT', reason: 'transaction_is_ours' },
  {
    effect: ['none'],
    from: 'INFRASTRUCTURE',
    to: 'OURS',
    class: 'FUNDING',
    reason: 'infrastructure_sends_to_ourselves',
  },
  { effect: ['none'], from: 'OURS', to: 'OURS', class: 'UNKNOWN_INTERNAL', reason: 'both_ours_without_a_record' },
  { effect: ['none'], from: 'OUTSIDE', to: 'DEPOSIT', class: 'DEPOSIT', reason: 'outside_to_a_deposit_address' },
  {
    effect: ['none'],
    from: 'OUTSIDE',
    to: 'PARTNER_MASTER',
    class: 'DEPOSIT',
    reason: 'outside_to_a_master_wallet_of_a_partner',
  },
  // A master wallet that several partners share has nobody to credit: two persons say whose the money is.
  { effect: ['none'], from: 'OUTSIDE', to: 'MASTER', class: 'UNKNOWN_INBOUND', reason: 'outside_to_a_master_wallet' },
  { effect: ['none'], from: 'OUTSIDE', to: 'OURS', class: 'UNKNOWN_INBOUND', reason: 'outside_to_infrastructure' },
  { effect: EVERY, from: 'OURS', to: 'OUTSIDE', class: 'UNKNOWN_OUTBOUND', reason: 'ours_to_outside_without_a_record' },
];

/** Only an effect of ours sends to a deposit address of ours so that it is a deposit. */
const SENDER_OF_A_DEPOSIT: Classed = { class: 'OWN_EFFECT', reason: 'transaction_is_ours' };

/** A transaction that moved other money when it was mined again: its detected deposit is not simply given to another. */
export const REMINED_OTHERWISE: Classed = { class: 'UNKNOWN_INBOUND', reason: 'mined_again_with_another_receiver' };

/** Both sides `null`: nothing to do with us. */
export function classifySides(facts: TransferFacts): Sides {
  if (facts.from === 'OUTSIDE' && facts.to === 'OUTSIDE') return { sender: null, receiver: null };
  const rule = TRANSFER_RULES.find(
    (row) => row.effect.includes(facts.effect) && fits(row.from, facts.from) && fits(row.to, facts.to),
  );
  if (rule === undefined) throw new Error(`no rule for a movement from ${facts.from} to ${facts.to}`);
  const classed: Classed = { class: rule.class, reason: rule.reason };
  return {
    sender: facts.from === 'OUTSIDE' ? null : rule.class === 'DEPOSIT' ? SENDER_OF_A_DEPOSIT : classed,
    receiver: facts.to === 'OUTSIDE' ? null : classed,
  };
}

/** What is booked: the receiver's side, or the sender's where the receiver is outside. `null`: neither is ours. */
export function classifyTransfer(facts: TransferFacts): Classed | null {
  const { sender, receiver } = classifySides(facts);
  return receiver ?? sender;
}

function fits(wanted: Wanted, side: Side): boolean {
  switch (wanted) {
    case 'ANY':
      return true;
    case 'OURS':
      return side !== 'OUTSIDE';
    case 'INFRASTRUCTURE':
      return side === 'GAS' || side === 'ADMIN' || side === 'RELAYER' || side === 'SETTLEMENT';
    default:
      return side === wanted;
  }
}
