/** The deposit scanner's own limits, each with its reason and the worse error. Those that all share are `kernel/limits.ts`. */

/** Final blocks read again each time: finds what a node had left out, and a final block that changed. Fewer: a late log
 *  waits for a rescan by a person; more: the same blocks are paid for again and again. */
export const OVERLAP_BLOCKS = 4n;
/** Blocks in one read and one transaction. More: a transaction that holds account rows for seconds on a busy chain. */
export const BATCH_BLOCKS = 20;
/** Blocks of one run at most, so that a long way behind does not keep the head unseen and the process undrained. */
export const RUN_BLOCKS_MAX = 1_000;
/** Blocks above finality that are shown as detected. A chain whose finality trails further shows the rest later. */
export const HEAD_BLOCKS_MAX = 256;
/** Hashes kept below the cursor: deeper than any overlap and than a person's rescan after broken finality. */
export const BLOCKS_KEPT = 10_000n;
/** Runs in a row that could not go on before people hear of it: one slow node is no news. */
export const WAITS_ALERTED = 3;
