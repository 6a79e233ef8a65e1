/** The bank rail's own limits, each with its reason and the worse error. Those that all rails share are `kernel/limits.ts`. */
import { ANSWER_BYTES_MAX } from '../../kernel/limits.ts';

/** One answer of a provider. It is kept inside one JSON text, where quotes double: half of what the engine keeps leaves
 *  room. A longer answer is cut and reads as unreadable; too low: a long list can never show its absence. */
export const READ_BYTES_MAX = ANSWER_BYTES_MAX / 2;
/** Pages of one list in one look; what lies beyond is not absent but unread. */
export const PAGES_MAX = 5;
/** A receiver's stall bounds how late a request may execute (design §2); less than this no profile may declare. */
export const LATENESS_MS_MIN = 30 * 60_000;
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
export const RETURNS_WITHIN_MS = 30 * 24 * 3_600_000;

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
