/** The courier's own limits; the schedule and the time-out of an attempt stand in `kernel/limits.ts`. */

/** Sends to one endpoint at once, per process: an endpoint that hangs ties up so many and no more. Too many: we are the
 *  flood that our partner must fend off. */
export const SENDS_PER_ENDPOINT_MAX = 8;
/** A round waits so long for the slow ones, then records what has come and looks for new work; the rest goes on beside. */
export const ROUND_MS = 500;
/** Part of the whole attempt's time-out: a host that takes no connection is given up sooner. */
export const CONNECT_MS = 5_000;
/** Between two deliveries to one host a connection is kept; longer than most servers keep it only wins a lost attempt. */
export const KEEP_ALIVE_MS = 4_000;
/** Only the status counts; a longer answer is cut off with its connection. */
export const READ_BYTES_MAX = 65_536;
/** A back-off is stretched by up to this share, so that what failed together does not come back together. */
export const JITTER_SHARE = 0.1;
/** A longer Retry-After is not believed: the event would outlast everybody's patience unseen. */
export const RETRY_AFTER_MS_MAX = 86_400_000;
/** Half of a request lies in the kernel's buffer after this: the crash proofs die then. */
export const HALF_FLUSH_MS = 20;
