/** Limits that rails with keys over HTTP share, each with its reason and the worse error. */
import { ANSWER_BYTES_MAX } from '../kernel/limits.ts';

/** One answer of a provider. It is kept inside one JSON text, where quotes double: half of what the engine keeps leaves
 *  room. A longer answer is cut and reads as unreadable; too low: a long list can never show its absence. */
export const READ_BYTES_MAX = ANSWER_BYTES_MAX / 2;
/** Pages of one list in one look; what lies beyond is not absent but unread. */
export const PAGES_MAX = 5;
/** A receiver's stall bounds how late a request may execute (design §2); less than this no profile may declare. */
export const LATENESS_MS_MIN = 30 * 60_000;

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
