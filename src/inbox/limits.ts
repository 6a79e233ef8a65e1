/** The inbox's own limits; the body's size and the age of an unmatched event stand in `kernel/limits.ts`. */

/** How old a signed timestamp may be at receipt. Events that wait in our own queue were judged when they came. */
export const SIGNATURE_AGE_MS_MAX = 5 * 60_000;
/** How far ahead the sender's clock may be. Not as long as the age: a symmetric window doubles the time for a replay. */
export const SIGNATURE_AHEAD_MS_MAX = 60_000;
/** Worked at once, each in a transaction of its own; more would take the pool from those who answer people. */
export const EVENTS_AT_ONCE = 4;
export const EVENTS_CLAIM_BATCH = 50;
/** A handler that failed so often is told to people; the event is tried on. */
export const FAILURES_BEFORE_ALERT = 5;
/** Longest pause of an event that cannot be worked. */
export const EVENT_BACKOFF_MS_MAX = 15 * 60_000;
/** An unmatched event is looked at again after this, doubled each time: its record usually commits within seconds. */
export const EVENT_BACKOFF_MS = 1_000;
