/** The EVM rail's own limits, each with its reason and the worse error. Those that all rails share are `kernel/limits.ts`. */
import type { Capabilities } from '../../engine/rail.ts';

/** Calls in one JSON-RPC array: public nodes refuse above 100 to 1,000, and one slow call delays all of its array. */
export const BATCH_CALLS_MAX = 100;
/** One answer to a reading call. A full block with receipts of a busy chain is 5 to 20 MB; above this the node is
 *  misbehaving and the batch is halved. */
export const READ_BYTES_MAX = 67_108_864;
/** geth keeps 16 pending transactions per account for sure (rails.md §2.7); more may be dropped in silence. */
export const IN_FLIGHT_PER_SIGNER = 16;
/** Plain value transfers cost exactly this, and so does every cancel. */
export const TRANSFER_GAS = 21_000n;
/** A contract's estimate plus a quarter: storage may turn cold between estimate and block; too little burns the fee of
 *  a failed payment, too much only reserves coin. */
export const GAS_MARGIN_NUMERATOR = 5n;
export const GAS_MARGIN_DENOMINATOR = 4n;
/** geth asks for 10 % on both fees (rails.md §2.3); 12.5 % rounded up satisfies every client known. */
export const BUMP_NUMERATOR = 9n;
export const BUMP_DENOMINATOR = 8n;
/** Twice the base fee outlasts six full blocks in a row (each raises it by an eighth). */
export const BASE_FEE_FACTOR = 2n;
/** Wei. No chain has so much coin; what a receipt shows above it is no cost, and no account could hold it. */
export const COST_WEI_MAX = 2n ** 128n;
/** Seconds. Past the calendar of clocks and databases a block has no time. */
export const TIME_S_MAX = 8_640_000_000_000n;
/** Blocks of fee history whose median tip is the market. */
export const FEE_HISTORY_BLOCKS = 10;
/** Below this no node relays a tip; 0 is what an empty chain's history shows. */
export const TIP_WEI_MIN = 1n;
export const CAPABILITIES: Capabilities = {
  keyed: true,
  keyRetentionMs: null,
  latenessMs: null,
  // Ethereum's finality is 13 to 19 minutes; bumps and a cancel fit in, a stuck chain reaches a person the same hour.
  decideWithinMs: 60 * 60_000,
  sequenced: true,
  inFlightPerSignerMax: IN_FLIGHT_PER_SIGNER,
  lookUp: true,
  absenceWitnesses: 2,
  sendConcurrencyMax: 16,
  // A third of a mainnet block: display follows the head without asking each node for every block twice.
  lookEveryMs: 4_000,
  // Pools forget in silence; the same bytes again cost nothing.
  resendAfterMs: 60_000,
  // Fifteen mainnet blocks: a market that moved away rarely comes back by itself.
  bumpAfterMs: 180_000,
  bumpsMax: 5,
};

/** A node that has not shown all of a look or a plan by then is left out of it: a third of the usual lease, so that what others
 *  showed is recorded in time. */
export const ASK_WITHIN_MS = 10_000;
