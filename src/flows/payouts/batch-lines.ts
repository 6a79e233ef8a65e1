/**
 * A batch's payouts and the truth of each: what a settled batch posts, and what a payout that was unknown then posts when two
 * persons have decided it.
 */
import type { Query, Tx } from '../../db/pool.ts';
import { currentHold } from '../../engine/flow.ts';
import type { LineTruth } from '../../engine/rail.ts';
import type { EffectRow } from '../../engine/store.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import { postingKey } from '../../kernel/ids.ts';
import { accountName, type Chart } from '../../ledger/accounts.ts';
import type { Entry, LedgerItem } from '../../ledger/post.ts';
import { at } from './ends.ts';
import { type BatchedPayout, loadOfBatches } from './reads.ts';

export interface BatchScene {
  readonly effect: EffectRow;
  readonly payouts: readonly BatchedPayout[];
  readonly accounts: { readonly partner: bigint; readonly custody: bigint; readonly suspense: bigint };
}

export interface Fate {
  readonly payout: BatchedPayout;
  readonly fate: 'paid' | 'not_paid' | 'unknown';
  readonly objectId: string | null;
  readonly detail: string;
}

/** One for each effect, in order. */
export async function scenesOf(tx: Tx, chart: Chart, effects: readonly EffectRow[]): Promise<BatchScene[]> {
  const payouts = await loadBatches(tx, effects);
  const ids = await chart.ids(
    tx,
    effects.flatMap(({ partnerId, wallet, asset }) => [
      accountName.partner(partnerId, asset.id),
      accountName.custody(asset.chain, wallet, asset.id),
      accountName.suspense(asset.id),
    ]),
  );
  return effects.map((effect, index) => ({
    effect,
    payouts: at(payouts, index),
    accounts: { partner: at(ids, index * 3), custody: at(ids, index * 3 + 1), suspense: at(ids, index * 3 + 2) },
  }));
}

/** In order. */
export async function loadBatches(query: Query, effects: readonly EffectRow[]): Promise<BatchedPayout[][]> {
  const found = await loadOfBatches(
    query,
    effects.map((effect) => effect.subjectId),
  );
  return effects.map(({ id, subjectId }) => {
    const payouts = found.get(subjectId) ?? [];
    if (payouts.length === 0) throw new InvariantBroken(`effect ${id} names no payouts`);
    return payouts;
  });
}

/** What the rail showed of each payout. What it did not show is unknown, never failed. */
export function fatesOf(scene: BatchScene, truths: readonly LineTruth[] | undefined): Fate[] {
  return scene.payouts.map((payout): Fate => {
    const truth = truths?.find((one) => one.ref === payout.id);
    const isKnown = truth?.outcome === 'paid' || truth?.outcome === 'not_paid';
    return {
      payout,
      fate: isKnown ? truth.outcome : 'unknown',
      objectId: truth?.objectId ?? null,
      detail: truth?.detail ?? 'nobody showed this payout',
    };
  });
}

export function sumOf(payouts: readonly { readonly amount: bigint }[]): bigint {
  return payouts.reduce((sum, one) => sum + one.amount, 0n);
}

export function withFate(fates: readonly Fate[], fate: Fate['fate']): BatchedPayout[] {
  return fates.filter((one) => one.fate === fate).map((one) => one.payout);
}

/** Paid: out of the wallet's custody; unknown: in suspense; the rest of the hold goes back to the partner with this posting. */
export function confirmation({ effect, accounts }: BatchScene, fates: readonly Fate[]): LedgerItem {
  const [paid, unknown] = [sumOf(withFate(fates, 'paid')), sumOf(withFate(fates, 'unknown'))];
  const entries: Entry[] = [
    { accountId: accounts.partner, amount: -(paid + unknown) },
    { accountId: accounts.custody, amount: paid },
    { accountId: accounts.suspense, amount: unknown },
  ];
  return {
    kind: 'post',
    key: postingKey.payoutBatchConfirm(effect.subjectId),
    reference: effect.subjectId,
    effectId: effect.id,
    entries: entries.filter((entry) => entry.amount !== 0n),
    closesHold: currentHold(effect) ?? undefined,
  };
}

/** Out of suspense: to where it went, or back to the partner. */
export function decision({ effect, accounts }: BatchScene, payout: BatchedPayout, isPaid: boolean): LedgerItem {
  return {
    kind: 'post',
    key: postingKey.payoutLine(payout.id),
    reference: effect.subjectId,
    effectId: effect.id,
    entries: [
      { accountId: accounts.suspense, amount: -payout.amount },
      { accountId: isPaid ? accounts.custody : accounts.partner, amount: payout.amount },
    ],
  };
}
