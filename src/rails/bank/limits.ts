/** The bank rail's own limits, each with its reason and the worse error. */
import { DAY_MS } from '../keyed-limits.ts';
export { DAY_MS, LATENESS_MS_MIN, MINUTE_MS } from '../keyed-limits.ts';

/** A JSON integer above this is rounded by many receivers: such an amount is refused before the seal. */
export const JSON_INTEGER_MAX = 9_007_199_254_740_991n;
/** Sends at once to one provider; most limit the rate, and a transfer takes seconds. */
export const SEND_CONCURRENCY_MAX = 8;
/** Between two looks at a transfer that is not final: states change in minutes, and providers limit the rate. */
export const LOOK_EVERY_MS = 30_000;
/** No answer for so long → the same bytes under the same key. Longer than the slowest provider's own time-out, so that the
 *  first request is rarely still being worked on. */
export const RESEND_AFTER_MS = 90_000;
/** Returns come within days on most schemes, within weeks where a receiver disputes; what comes later shows in the
 *  statement. Too short: money that came back is booked late, by hand. */
export const RETURNS_WITHIN_MS = 30 * DAY_MS;
