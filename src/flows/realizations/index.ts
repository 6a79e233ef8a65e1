/**
 * Realizations (R8): each night at 01:00, in the time zone of the house, the fees that a partner paid move on chain from the
 * wallet that the partner is paid out of (MASTER) to the settlement wallet. One per partner, asset and business date.
 *
 * What counts. A business date is a piece of the `fees` account's own chain of entries: those stamped before its midnight
 * that no earlier date has. Stamps follow the chain, so the pieces lie end to end: nothing is counted twice and nothing
 * falls between, however late a posting is committed (it is then in the next date). An entry is its partner's where its
 * posting has the accounts of one partner; with none, or of several, it is nobody's and moves nowhere. Whatever its key:
 * what gives fees back counts against. A date's realization moves all fees of its partner up to and with that date, less
 * what was realized before and did not turn out to have moved nothing; where that is nothing or less, none is made and the
 * rest carries over. So a failed one, and what came of a night in which nobody was up, comes with the next.
 *
 * Promises: two processes at once make one set; missed nights are made one by one, oldest first; a partner's asset has one
 * open at a time (lane), and a date that had to wait for it is made later; a correction is another subject, with the next
 * ordinal, asked for by a person. Who comes for one that another has claimed walks away, and that is counted: the nightly
 * verdict (R17, `verdict.ts`) is inconclusive where nobody ever did.
 * Never: a debit or credit of anybody, an event: the fee was taken when it was due, the money was ours before and after.
 *
 * Files: kind, night (what is due becomes effects), tick (comes for what is open), verdict, store.
 */
import { makeOwnMoveFlow } from '../../engine/own-move.ts';
import type { Flow } from '../../engine/flow.ts';
import type { Chart } from '../../ledger/accounts.ts';
import { REALIZATION } from './kind.ts';

export { type NightDeps, realizeDate, runNightly } from './night.ts';
export { loadLastNight } from './store.ts';
export { type Ticked, tickOnce } from './tick.ts';
export { judgeNight, judgeNights, keepVerdict, type NightVerdict } from './verdict.ts';

export function makeRealizations(chart: Chart): Flow {
  return makeOwnMoveFlow(chart, REALIZATION);
}
