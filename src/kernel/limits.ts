/** Every limit, lease, time-out and batch size, with its reason and the worse error. Units stand last in the name. */

/** A lease outlasts the sends it permits; too short: two workers look at one effect (harmless, fenced); too long: a dead
 *  worker's effects wait that long. */
export const LEASE_MS = 30_000;
/** Claimed at once: what one worker can plan, seal and send in a quarter of a lease at 50 ms a send and 16 at a time. */
export const CLAIM_BATCH = 100;
/** Signers whose pending effects one claim takes: each deposit address is one, with a sweep or two. More: one pass plans and
 *  seals more than it can send in its part of a lease. */
export const CLAIM_SIGNERS_MAX = 100;
/** Open effects sit between two looks; a worker that finds nothing sleeps so long. */
export const WORKER_IDLE_MS = 500;
/** Back-off of an effect that waits (no funds, node down), doubled up to the maximum. */
export const BACKOFF_MS = 1_000;
export const BACKOFF_MS_MAX = 60_000;
/** An effect rests for this part of its age between two looks: what is final after 13 minutes is looked at some thirty times,
 *  not two hundred, and seen an eighth later at most. More: ends are told late; less: ten thousand sweeps ask all day. */
export const LOOK_AGE_PART = 1 / 8;
/** A stay longer than this is alerted once (R5), whatever the rail says. */
export const LONG_STAY_MS = 30 * 60_000;
/** Verdicts that fail alone so often are a case (design §2, poison). */
export const SETTLE_FAILURES_MAX = 5;
/** Plans that fail in a row with the same answer become a case; too few: a lagging node makes work for people. */
export const PLAN_FAILURES_MAX = 5;
/** One statement that takes longer is a fault; a transaction holds account rows. */
export const STATEMENT_TIMEOUT_MS = 15_000;
/** A server that is gone without a word (half-open) answers no statement of a transaction and sends no error either; longer than
 *  the limit that the server itself keeps, so that one that lives always tells first. Shorter: a slow COMMIT is asked for its fate. */
export const DATABASE_ANSWER_MS = 20_000;
/** Idle connections are tried after this, so that one to a server that is gone is known; a firewall forgets after minutes. */
export const KEEP_ALIVE_AFTER_MS = 30_000;
/** A waiter for a row lock gives up and is run again; shorter than the statement's limit so that the reason is told. */
export const LOCK_TIMEOUT_MS = 10_000;
/** A process stopped inside a transaction lets go of its locks after this. */
export const IDLE_IN_TRANSACTION_MS = 15_000;
/** Longer without a free connection is an error, not a dead-lock (case L10). */
export const POOL_ACQUIRE_MS = 10_000;
export const POOL_CONNECTIONS = 8;
/** Serialization failures and dead-locks re-run whole so often before the caller is told. */
export const TRANSACTION_RUNS_MAX = 8;
/** Items in one group commit: above it the verdict of the first waits on the last. */
export const GROUP_COMMIT_ITEMS_MAX = 1_024;
/** A raw answer is kept up to this size; the rest is cut and marked. */
export const ANSWER_BYTES_MAX = 262_144;
/** One HTTP request to a rail: longer than any node's own limit, shorter than half a lease. */
export const RAIL_TIMEOUT_MS = 10_000;
/** An unmatched inbound event is a case after this (design §3). */
export const INBOX_UNMATCHED_MS = 10 * 60_000;
export const BODY_BYTES_MAX = 262_144;
/** Webhook deliveries: Standard Webhooks' example, about 75 hours in all; then the dead-letter list. */
export const DELIVERY_BACKOFF_MS: readonly number[] = [
  0, 5_000, 300_000, 1_800_000, 7_200_000, 18_000_000, 36_000_000, 50_400_000, 72_000_000, 86_400_000,
];
export const DELIVERY_TIMEOUT_MS = 15_000;
/** Page sizes of lists. */
export const PAGE_ITEMS = 50;
export const PAGE_ITEMS_MAX = 200;

/** The sender must not begin after this part of its permission has passed (design §2: `send_by` at most one lease later). */
export const SEND_BY_PART = 0.25;

/** A case about something undecided is as urgent as can be after twice the rail's time to decide, and not before this. */
export const OVERDUE_MS_MIN = 24 * 3_600_000;

/** A chain's head so far ahead of our clock is not believed: what is sealed by its time could be neither freed nor ended until
 *  then. No chain's rules let a block be minutes ahead; more than an hour is a node, or a clock of ours, that is wrong. */
export const HEAD_AHEAD_MS_MAX = 3_600_000;
