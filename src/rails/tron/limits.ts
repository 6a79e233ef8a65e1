/** The TRON rail's own limits, each with its reason and the worse error. Those that all rails share are `kernel/limits.ts`. */
import type { Capabilities } from '../../engine/rail.ts';

/**
 * A transaction may be included until so long after the head that its plan saw. The chain's own default of 60 s is one
 * node's pause; a lease (30 s) and a few re-sends fit into two minutes. Too short: payments expire and are made anew, each
 * minutes later. Too long: what was not included holds its money so long before absence can be proved.
 */
export const EXPIRES_AFTER_MS = 120_000;
/** Absence counts only where solid time is this far past the expiration: end-points behind a balancer may be several nodes. */
export const EXPIRY_MARGIN_MS = 120_000;
/** `timestamp` differs by effect within so many milliseconds before the reference block's time (see `payload.ts`). */
export const TIMESTAMP_SPREAD_MS = 10_000_000n;
/** Nodes refuse every broadcast while the head is so far ahead of the solid block (rails.md §3.2). */
export const UNSOLID_BLOCKS_MAX = 54n;
/** Blocks that a look reads backwards for one with a transaction; the main chain has some in every block. */
export const KNOWN_BLOCKS_MAX = 60;
/**
 * Connections to one node for looks and plans. One alone asks a batch of 100 for ten seconds at 50 ms an answer, a third of
 * a lease; more than eight is what doors of shared end-points count as an attack.
 */
export const CONNECTIONS_PER_NODE = 8;
/** A further connection costs three questions of its own (chain, solid head twice): fewer effects are not worth it. */
export const ITEMS_PER_LANE = 4;
/** Addresses looked for in one transaction that does not read. Above it the transaction is a case whoever it names: a fill of
 *  500 KB of calldata must not become a query of that size. */
export const NAMED_ADDRESSES_MAX = 2_000;
/** One answer to a reading call: a busy block with its receipts is below 5 MB; above this the node is misbehaving. */
export const READ_BYTES_MAX = 67_108_864;
/** `sun` amounts and limits are written by tronweb from JavaScript numbers: nine billion TRX, and exact. */
export const SUN_MAX = 9_007_199_254_740_991n;
/** The year 2200, ms. A node that shows a later time shows nothing: beyond the calendar dates themselves fail. */
export const TIME_MS_MAX = 7_258_118_400_000n;
/** More than this the chain refuses as a transaction's `fee_limit` (15,000 TRX). */
export const FEE_LIMIT_SUN_MAX = 15_000_000_000n;
/** The simulation's energy plus a quarter: the receiver's slot may turn cold, and the contract's factor may rise before
 *  the block. Too little burns the whole limit for a failed payment, too much only reserves coin. */
export const ENERGY_MARGIN_NUMERATOR = 5n;
export const ENERGY_MARGIN_DENOMINATOR = 4n;
/** Bandwidth is charged for the signed bytes and so many for the result (`MAX_RESULT_SIZE_IN_TX`). */
export const RESULT_BYTES = 64n;

export const CAPABILITIES: Capabilities = {
  keyed: true,
  // The same bytes take effect at most once and only until they expire, so no key is ever forgotten and then new.
  keyRetentionMs: null,
  // Solid time proves absence; nobody has to guess how late a request may execute.
  latenessMs: null,
  // Two minutes to expire, two of margin, one to solidify, and as much again for a chain that stutters.
  decideWithinMs: 15 * 60_000,
  sequenced: false,
  inFlightPerSignerMax: 100,
  lookUp: true,
  absenceWitnesses: 2,
  sendConcurrencyMax: 16,
  // One block.
  lookEveryMs: 3_000,
  // A node forgets a pending transaction after 60 s, or never spread it; the same bytes again cost nothing.
  resendAfterMs: 15_000,
  // There is no second variant: another fee limit would be another transaction, and both could be included.
  bumpAfterMs: null,
  bumpsMax: 0,
};

/** A node that has not shown all of a look by then is left out of it: a third of the usual lease, so that what others showed is
 *  recorded in time. */
export const ASK_WITHIN_MS = 10_000;
