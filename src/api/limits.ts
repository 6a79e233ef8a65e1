/** The API's own limits, each with its reason; the body's size and the page sizes stand in `kernel/limits.ts`. */

/** Requests of one key in a minute. More than any honest client needs beside webhooks; a loop gone wild is stopped. */
export const REQUESTS_PER_MINUTE_MAX = 600;
/** Webhook endpoints of one partner: each event is sent to every one of them. */
export const ENDPOINTS_MAX = 10;
/** What is shown of a wrong value: enough to find it, not enough to fill a log. */
export const GOT_CHARACTERS_MAX = 200;
/** Intakes run in so many transactions at once; those of one partner share a lane, since they meet at its account. */
export const INTAKE_LANES = 2;
/** Look-ups of keys and assets that came together share one statement. */
export const LOOK_UP_LANES = 2;
export const LOOK_UP_ITEMS_MAX = 1_000;
/** A body must be here by then; a client that drips bytes holds a socket, nothing else. */
export const REQUEST_TIMEOUT_MS = 30_000;
/** Two scrapes within this time share one count of the tables. */
export const GAUGES_AGE_MS_MAX = 1_000;
/** Levels of objects and lists in a body. The API's own have one; whatever walks a body by recursion is safe at this. */
export const JSON_DEPTH_MAX = 32;
/** Of a raw answer in a story: enough to read what a provider said; 200 of them stay well under what a browser takes. */
export const STORY_ANSWER_CHARACTERS_MAX = 16_384;
/** A log that was rewritten is broken throughout; the first lines say where it begins. */
export const AUDIT_FAULTS_MAX = 100;
