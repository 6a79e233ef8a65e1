/** The escrow rail's own limits, each with its reason and the worse error. */
import { DAY_MS } from '../keyed-limits.ts';

/** Sends at once to one provider. Too few: buyers wait for each other's trades while a slow one is opened. */
export const SEND_CONCURRENCY_MAX = 16;
/** Between two looks at a trade: people pay within minutes, and the buyer waits for the release. */
export const LOOK_EVERY_MS = 15_000;
/** No answer for so long → the same bytes under the same key. */
export const RESEND_AFTER_MS = 60_000;
/** A released trade may be appealed; after a day of looking it is left to the provider's statement. Too short: an appeal is
 *  seen by the partner first. */
export const APPEALS_WITHIN_MS = DAY_MS;
