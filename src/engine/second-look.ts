/**
 * The second look at what a chain's nodes called paid, as pure rules. A yes takes one source alone (design §2), so that nobody
 * waits for a slow node; what one source alone invents is found out afterwards, while the money can still be asked for.
 *
 * It stands when as many operators as there are, two at most, show it final. It is gone when as many prove that it never
 * happened as show it. Silence, a lagging node and one that does not cover the time say nothing: then it is looked at again.
 */
import type { Observation, ObservationKind, Rail } from './rail.ts';

/** Later than a chain takes to prove absence (`rails/tron/limits.ts`), and soon enough to stop what follows on a node's lie. */
export const SECOND_LOOK_MS = 10 * 60_000;
/** Money that comes back takes hours at least. */
const RETURNS_LOOK_MS = 3_600_000;
/** A block's time may be ahead of the database's by so much; a node whose final block is not later may lack the payment's. */
const CLOCKS_APART_MS = 120_000;

/** When a settled effect of this rail is looked at again; `null`: never. */
export function looksAgainAfterMs(rail: Rail | undefined): number | null {
  if (rail?.sign !== undefined) return SECOND_LOOK_MS;
  return rail?.capabilities.returnsWithinMs === undefined ? null : RETURNS_LOOK_MS;
}

/** Proofs that what was settled is not what stands on the chain now; sending it again would change nothing. */
export const PROVED_GONE: readonly ObservationKind[] = [
  'expired_unincluded',
  'reverted_final',
  'cancel_mined',
  'spent_by_other',
];

export interface SecondLook {
  readonly says: 'stands' | 'gone' | 'unclear';
  /** Who shows what, where sources deny each other. */
  readonly contradiction: string | null;
}

/** `doubted`: something else says already that the chain took blocks back; then a plain "not there" that nobody denies counts. */
export function judgeAgain(seen: readonly Observation[], endedAt: Date, doubted: boolean): SecondLook {
  const denies = (one: Observation): boolean =>
    PROVED_GONE.includes(one.kind) ||
    (one.kind === 'not_found' && one.witness && (one.finalMs ?? 0) > endedAt.getTime() + CLOCKS_APART_MS);
  const paid = operatorsOf(seen, (one) => one.kind === 'final_success');
  const denied = operatorsOf(seen, denies);
  if (seen.some((one) => one.kind === 'included')) return { says: 'unclear', contradiction: null };
  if (denied.size > 0 && denied.size >= paid.size) {
    const told = seen.filter((one) => one.kind === 'final_success' || denies(one));
    const words = told.map((one) => `${one.source} says ${one.kind}`).join(', ');
    return { says: 'gone', contradiction: paid.size === 0 ? null : `nodes contradict each other: ${words}` };
  }
  const asked = operatorsOf(seen, () => true).size;
  if (paid.size > 0) return { says: paid.size >= Math.min(2, asked) ? 'stands' : 'unclear', contradiction: null };
  const missed = doubted && seen.some((one) => one.kind === 'not_found');
  return { says: missed ? 'gone' : 'unclear', contradiction: null };
}

function operatorsOf(seen: readonly Observation[], which: (one: Observation) => boolean): Set<string> {
  return new Set(seen.filter(which).map((one) => one.operator));
}
