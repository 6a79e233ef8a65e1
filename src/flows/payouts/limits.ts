/** Limits of payouts, each with its reason; the unit stands last. */

/** Events of volume in one request: a statement over so many takes half a second, under all time-outs. */
export const ACCRUALS_MAX = 10_000;
/** A body of so many: 300 characters each. */
export const ACCRUALS_BYTES_MAX = 4_194_304;
/** A clock that runs ahead by this is believed; what is further off would be counted before it happened. */
export const AHEAD_MS_MAX = 5 * 60_000;
/** Rates and quotes have so many places. */
export const RATE_DECIMALS = 12;
/** With these no creator's sum outgrows its column, for a million of the largest events; a larger figure is a typing error. */
export const VOLUME_UNITS_MAX = 10n ** 30n;
export const RATE_MAX = 10n ** 18n;
/** The least output of any amount that there is fits in a word with it. */
export const QUOTE_MAX = 10n ** 36n;
/** A swap that may give less than half of what was quoted is bound by no quote; the rest is for whoever mines it. */
export const SLIPPAGE_BASIS_POINTS_MAX = 5_000;
export const TIERS_MAX = 20;
/** The hour of the daily cut in the programme's time zone: no zone's clock skips it, and the day before is over everywhere in it. */
export const CUT_HOUR = 5;
/** Cuts that nobody was up for, made one by one; what lies before comes with the first of them. */
export const CUTS_CAUGHT_UP_MAX = 31;
/** Pools in one transaction of a cut: it holds the partner's account, and a request waits no longer than that takes. */
export const PAGE_POOLS = 500;
/** Payouts in one call: some 4 million gas, which finds its place in any block; a call that reverts has tried so many in vain. */
export const BATCH_PAYOUTS_MAX = 50;
/** Pools that one pass over the waiting ones takes. */
export const WAITING_POOLS = 500;
/** A payout that moved nothing comes again after this, doubled each time; each try burns gas (case E8). */
export const AGAIN_AFTER_MS = 60_000;
/** What wakes a waiting pool (an address, a quote) may commit beside the pool's own reason and miss it: looked at after this at the latest. */
export const LOOKED_AGAIN_MS = 3_600_000;
/** In a row; after them the next daily cut tries once more a day, and people are told. */
export const FAILURES_MAX = 3;
/** A nonce spent by another quarantines the signer, so this many in a row means that something is very wrong. */
export const TRIES_MAX = 5;
