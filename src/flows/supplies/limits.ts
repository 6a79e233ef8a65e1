/** The flow's own limits, each with its reason and the worse error. */

/** R16: a rental takes seconds; one that has not come in a minute will not come in time. */
export const ENERGY_GIVE_UP_MS = 60_000;
/** An effect that waits for a supply is woken when it comes; this bounds a wake that was lost. */
export const ASK_AGAIN_MS = 15_000;
/** After a refusal the market is asked anew: sooner only repeats the refusal. */
export const RETRY_MS = 15_000;
/** What has just arrived may not show at every node yet: buying again in this time would buy twice. */
export const SETTLES_IN_MS = 30_000;
/** A rental is used no later than this before its end: a payment may take that long to be included. */
export const RENTAL_MARGIN_MS = 120_000;
/** Entries of one account that the burn rate is read from, at most; more than this a day, and the last of them are enough. */
export const BURN_ENTRIES_MAX = 5_000;
/** A rate over less than this is a guess. */
export const BURN_WINDOW_MS_MIN = 3_600_000;
export const DAY_MS = 24 * 3_600_000;
/**
 * Top-ups of one address in 24 hours. A wallet that pays for others is filled far above one payment's gas, so one an hour is
 * a node that does not show what is there, or a level that is too low: a person looks. More: a node that shows an address as
 * empty moves all of the gas wallet there, one top-up each half minute.
 */
export const TOPUPS_A_DAY_MAX = 24;
/** Tries of one top-up, each proved not to have moved, before a person is asked. */
export const TOPUP_TRIES_MAX = 3;
