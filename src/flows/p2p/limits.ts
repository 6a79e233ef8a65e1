/** Figures of matching, with the worse error named. */

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
/** Prices are in 10^-12 of the fiat per whole unit of the asset: more places than any market quotes. */
export const PRICE_DECIMALS = 12;
