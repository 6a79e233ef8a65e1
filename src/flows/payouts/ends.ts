/** How payouts end, one by one and in batches: what goes back to the pools, and what follows a release. */
import type { Tx } from '../../db/pool.ts';
import type { EndedEffect, Then } from '../../engine/flow.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import { AGAIN_AFTER_MS, FAILURES_MAX, TRIES_MAX } from './limits.ts';
import { loadFailures, markTaken, markWaiting } from './store.ts';
import type { StoredPayout } from './view.ts';

/** What an ended payout consumed is free again, and due: at once by another address or quote, or after a while. */
export async function giveBack(
  tx: Tx,
  ended: readonly { readonly payout: StoredPayout; readonly next: Then; readonly detail: string }[],
): Promise<void> {
  const closing = ended.filter(({ next }) => next.step === 'fail' || next.step === 'cancelled');
  if (closing.length === 0) return;
  await markTaken(
    tx,
    closing.map(({ payout, detail }) => ({ id: payout.id, taken: 'returned', detail })),
  );
  const failures = await loadFailures(
    tx,
    closing.map(({ payout }) => payout.poolId),
  );
  await markWaiting(
    tx,
    closing.map(({ payout, next }) => {
      const before = failures.get(payout.poolId) ?? 0;
      if (next.step === 'cancelled') return { poolId: payout.poolId, reason: 'CANCELLED', waitMs: null };
      return {
        poolId: payout.poolId,
        reason: 'MOVED_NOTHING',
        waitMs: before + 1 >= FAILURES_MAX ? null : before === 0 ? 0 : AGAIN_AFTER_MS * 2 ** (before - 1),
        failed: true,
      };
    }),
  );
}

export function afterRelease({ kind, effect }: EndedEffect): Then {
  switch (kind) {
    case 'NEVER_SEALED':
      return { step: 'cancelled', reason: 'cancelled before anything was sent' };
    case 'CANCEL_MINED':
      return { step: 'fail', reason: 'cancelled on chain by an operator; its volume is payable again' };
    case 'REVERTED_FINAL':
      return { step: 'fail', reason: 'it reverted and moved nothing; its volume is payable again' };
    case 'REFUSED_AT_ONCE':
      return { step: 'fail', reason: 'the rail refused it; its volume is payable again' };
    case 'NONCE_SPENT_BY_OTHER':
    case 'EXPIRED_UNINCLUDED':
      return effect.seq < TRIES_MAX
        ? { step: 'again' }
        : { step: 'review', why: `${effect.seq} tries did not go through` };
    default:
      return { step: 'review', why: `released by ${kind}` };
  }
}

export function at<One>(list: readonly One[], index: number): One {
  const one = list[index];
  if (one === undefined) throw new InvariantBroken(`nothing at ${index}`);
  return one;
}
