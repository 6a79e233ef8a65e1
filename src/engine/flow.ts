/**
 * What the engine asks of a flow. A flow knows no rail and no other flow; it says what an end means for its own subject:
 * which postings, which events, and, after a release, what comes next. It is asked in batches, inside the settling
 * transaction, and must not touch the effects itself.
 */
import type { Query, Tx } from '../db/pool.ts';
import type { AccountName } from '../ledger/accounts.ts';
import type { LedgerItem } from '../ledger/post.ts';
import type { NewEvent } from '../outbox/emit.ts';
import type { EvidenceKind } from './effect.ts';
import type { LineTruth, RailCost } from './rail.ts';
import type { EffectRow } from './store.ts';

export interface EndedEffect {
  readonly effect: EffectRow;
  readonly kind: EvidenceKind;
  /** The rail's object that ended it (a transaction hash), for display. */
  readonly objectId: string | null;
  readonly detail: string;
  /** Released by a refusal that says that request or account are wrong and stay so (never balance, limit or hours). */
  readonly final?: boolean;
  /** What the rail itself took, where it showed it. */
  readonly cost?: RailCost | null;
  /** Batches: what the rail showed of each line; absent where persons said that the batch went, and nobody showed its lines. */
  readonly lines?: readonly LineTruth[];
}

/** Money of a settled effect that came back, on record for the first time here. */
export interface BookedReturn {
  readonly id: string;
  readonly effect: EffectRow;
  readonly amount: bigint;
  /** Kept of it on the way: `amount` less `fee` is with us again. */
  readonly fee: bigint;
  readonly reason: string | null;
  /** Batches: the line that it is of. */
  readonly line: string | null;
}

export interface Outcome {
  readonly items: readonly LedgerItem[];
  readonly events: readonly NewEvent[];
}

/** After a dead release: try again (a successor, with a hold of its own), tell the partner its end, or ask a person. */
export type Then =
  | { readonly step: 'again' }
  | { readonly step: 'fail' | 'cancelled'; readonly reason: string }
  | { readonly step: 'review'; readonly why: string };

export interface Flow {
  readonly subjectType: string;
  /** What settling posts and emits. Each posting carries the effect's id and closes its hold (`currentHold`). */
  settled(tx: Tx, ended: readonly EndedEffect[]): Promise<Outcome>;
  /** A cost that the rail shows is the price of what was bought, and `settled` books it. Absent: the engine books it as gas. */
  readonly booksCost?: true;
  /** The policy after a release, one per effect, in order. Pure. */
  afterRelease(ended: EndedEffect): Then;
  /** Events of the end or of the wait that `afterRelease` chose. */
  released(tx: Tx, ended: readonly (EndedEffect & { readonly next: Then })[]): Promise<readonly NewEvent[]>;
  /** Events when an effect is first seen included, or no longer. */
  shown(
    tx: Tx,
    effects: readonly { readonly effect: EffectRow; readonly included: boolean; readonly objectId: string | null }[],
  ): Promise<readonly NewEvent[]>;
  /** Events when a believed no begins to wait: the partner sees `processing` with the reason and when it will be final. */
  believed(
    tx: Tx,
    effects: readonly { readonly effect: EffectRow; readonly reason: string; readonly finalAt: Date }[],
  ): Promise<readonly NewEvent[]>;
  /** Events when a released effect turned out to have moved after all. */
  reopened(tx: Tx, effects: readonly EffectRow[]): Promise<readonly NewEvent[]>;
  /** What posts and tells money that came back. Each posting carries the effect's id. Absent: nothing comes back here, and
   *  what does is a case. */
  returned?(tx: Tx, returns: readonly BookedReturn[]): Promise<Outcome>;
  /** Batches: lines of settled effects, as a look shows them now; what was unknown then may be clear. Posts what follows. */
  linesSeen?(
    tx: Tx,
    seen: readonly { readonly effect: EffectRow; readonly lines: readonly LineTruth[] }[],
  ): Promise<Outcome>;
  /** Batches: the lines, by name, that were paid: of others nothing comes back. */
  paidLines?(tx: Tx, effects: readonly EffectRow[]): Promise<ReadonlyMap<bigint, ReadonlySet<string>>>;
  /** What must not be sealed now, and why: asked in the sealing transaction, under the effects' locks. Absent: nothing. */
  barred?(tx: Tx, effects: readonly EffectRow[]): Promise<ReadonlyMap<bigint, string>>;
  /** Calls that are bound by a quote: the least output by today's, asked before each plan. What is sealed keeps its own; a
   *  successor gets a new one. Absent, or no entry: what the call itself says. */
  minimums?(query: Query, effects: readonly EffectRow[]): Promise<ReadonlyMap<bigint, bigint>>;
  /** The account and amount that a hold for this effect stands on, or `null` where nothing is held. */
  holdOf(tx: Tx, effect: EffectRow): Promise<{ readonly accountId: bigint; readonly amount: bigint } | null>;
  /** Where what it moves arrives, if that is with us or for us: moved twice, it is not lost. Absent: it leaves. Pure. */
  arrivesAt?(effect: EffectRow): AccountName;
}

/** The hold that stands for this effect now: a re-opened effect has one of its own. */
export function currentHold(effect: Pick<EffectRow, 'holdKey' | 'reopens'>): string | null {
  if (effect.holdKey === null) return null;
  return effect.reopens === 0 ? effect.holdKey : `${effect.holdKey}:reopened:${effect.reopens}`;
}
