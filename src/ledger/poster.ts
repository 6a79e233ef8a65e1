/**
 * Posting for many callers at once: each gives one item and gets its verdict once it is durable; those that come together
 * share one transaction (design §11). For work that has rows of its own to write beside the posting, use `post` in its
 * transaction.
 */
import { type BatcherCounts, makeBatcher } from '../db/batcher.ts';
import { type Pool, sqlState } from '../db/pool.ts';
import { InvariantBroken } from '../kernel/errors.ts';
import * as limits from '../kernel/limits.ts';
import { type LedgerItem, postAlone, type Verdict } from './post.ts';

export interface Poster {
  /** Durable when it resolves. Rejects with what is wrong with this item, or with the database for all. */
  post(item: LedgerItem): Promise<Verdict>;
  drain(): Promise<void>;
  readonly counts: BatcherCounts;
}

/**
 * One lane unless the deployment knows better: nearly every posting has the house's custody or fee account as its other
 * side, so lanes by account would meet there, and two batches that wait for each other's locks cost a tenth.
 */
const LANES = 1;

export function makePoster(pool: Pool, options: { lanes?: number; itemsMax?: number } = {}): Poster {
  const lanes = options.lanes ?? LANES;
  const batcher = makeBatcher<LedgerItem, Verdict>({
    run: (items) => postAlone(pool, items),
    isItemsFault,
    lanes,
    laneOf: (item) => (lanes === 1 ? 0 : Number(groupOf(item) % BigInt(lanes))),
    itemsMax: options.itemsMax ?? limits.GROUP_COMMIT_ITEMS_MAX,
  });
  return { post: (item) => batcher.submit(item), drain: () => batcher.drain(), counts: batcher.counts };
}

/** SQLSTATE classes 22 (data), 23 (constraint) and P0 (our guards): what an item can cause. */
function isItemsFault(error: unknown): boolean {
  return error instanceof InvariantBroken || /^(22|23|P0)/.test(sqlState(error) ?? '');
}

/** A hold is given back in lane 0: its account is known to the database alone. */
function groupOf(item: LedgerItem): bigint {
  if (item.kind === 'hold') return item.accountId;
  return item.kind === 'post' ? (item.entries[0]?.accountId ?? 0n) : 0n;
}
