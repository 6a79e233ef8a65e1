/** The energy rail's own limits, each with its reason and the worse error. */

/** Two looks at an order that is not delegated yet: rentals take seconds, and a payment waits for each. */
export const LOOK_EVERY_MS = 2_000;
/** No answer for so long → the same order again: longer than one request may take, so that the first is rarely still open. */
export const RESEND_AFTER_MS = 15_000;
/** Orders at once at one market; it limits the rate. */
export const SEND_CONCURRENCY_MAX = 8;
/** One answer; a longer one is cut and reads as unreadable. */
export const READ_BYTES_MAX = 65_536;
/** A receiver's stall bounds how late a request may execute (design §2). */
export const LATENESS_MS_MIN = 30 * 60_000;
export const DAY_MS = 24 * 3_600_000;
/** An order refused for stock or balance is asked for again for so long under its own id; too short: a short outage costs the
 *  payment a whole lateness; too long: energy is bought for payments that went without it. */
export const RETRY_FOR_MS = 10 * 60_000;
