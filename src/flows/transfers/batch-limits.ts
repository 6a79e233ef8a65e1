/** Limits of uploaded files, each with its reason and the worse error. */

/** Lines of one file. They are stored in one transaction and taken in a few, while the uploader waits; a payroll of more is
 *  uploaded in parts. Too low: work for people; too high: account rows are held for longer than others wait. */
export const BATCH_LINES_MAX = 5_000;
/** Bytes of one file: 5,000 lines of 400 bytes, twice what a line of a payroll has. */
export const BATCH_BYTES_MAX = 2_097_152;
/** A file that was corrected is uploaded anew within days: within these hours a line without a reference that is in another
 *  file already is not paid again. Too short: paid twice; too long: a weekly payment needs a reference. */
export const REPEATED_WITHIN_HOURS = 72;
/** Characters of a file's header: a few times all our names in two languages; a longer one is another file. */
export const HEADER_CHARACTERS_MAX = 4_096;
/** Lines that an event carries; of more it tells the counts and where to read them. */
export const EVENT_LINES_MAX = 50;
/** What is shown of a wrong cell. */
export const GOT_CHARACTERS_MAX = 200;
