/** Figures of matching, with the worse error named. */
import { INBOX_UNMATCHED_MS } from '../../kernel/limits.ts';

/** M8: more payments than this are too many for a buyer to make. The schema's slots say the same. */
export const LEGS_MAX = 3;
/** M8: sellers' orders looked at for one buyer's order. */
export const CANDIDATES_MAX = 10;
/** Looks at sellers in one transaction, after waiting for whom others held; a busy market is left to its next turn rather than to one order. */
export const LOOKS_MAX = 4;
/** Transactions of one claim that lost every race, before the order goes back to the queue; and how soon it is looked at again. */
export const RACES_MAX = 4;
export const RACED_MS = 250;
/** Orders claimed at once: one that waits behind its neighbours waits for this many short transactions. */
export const MATCH_CLAIM = 50;
/** Orders of one claim that are matched at the same time in a process; its pool has more connections than this. */
export const MATCH_LANES = 4;
/** M7: a matcher is not that slow; one that is has lost its token and writes nothing. */
export const RECLAIM_AFTER_MS = 5 * 60_000;
/** M6: then the order is closed as MATCH_FAILED. */
export const ATTEMPTS_MAX = 5;
/** M12: between two looks at the queue when nothing wakes the matcher. */
export const MATCH_IDLE_MS = 1_000;
/** M19: no liquidity is looked for again after this, twice as long each time, at most the second. */
export const NO_LIQUIDITY_MS = 2_000;
export const NO_LIQUIDITY_MS_MAX = 60_000;
/** M6: after a failed attempt, twice as long each time. */
export const FAILED_MS = 1_000;
export const FAILED_MS_MAX = 60_000;
/** Ends that a pass of the timers takes at once. */
export const EXPIRE_BATCH = 200;
/** Orders whose trades stand that are written at once: their rows, and their sellers', are held no longer than a few short ones take. */
export const STAND_BATCH = 25;
/** Prices are in 10^-12 of the fiat per whole unit of the asset: more places than any market quotes. */
export const PRICE_DECIMALS = 12;

/** Told when an order is due for so long and nobody claims it: a matcher looks each second. */
export const UNCLAIMED_MS = 60_000;
/** Told when a buyer's order has waited so long for somebody to be matched with; markets give it an hour or so in all. */
export const PENDING_STAY_MS = 10 * 60_000;
/** Told when a claim is older than its taking back (M7): there is no matcher to do it. */
export const CLAIMED_STAY_MS = RECLAIM_AFTER_MS + 60_000;
/** Told when a trade is not open after so long; slow providers take half a minute. */
export const WAITS_LP_STAY_MS = 5 * 60_000;
/** Told when a leg is said to be paid and is not confirmed; no timer ends it. Sellers look at their accounts within the hour. */
export const MARKED_STAY_MS = 60 * 60_000;
/** A part of a payment whose rest has not come is a person's after this, as an inbound event is that belongs to nothing. */
export const PART_STAY_MS = INBOX_UNMATCHED_MS;
/** Counted per state; more than that is told as "at least". */
export const STAYS_COUNTED_MAX = 10_000;
/** Parts that become cases in one pass. */
export const PARTS_TOLD_MAX = 200;
