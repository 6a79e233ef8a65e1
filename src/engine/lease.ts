/** How long a pass holds a rail's effects, and for how long after its permission it may begin a send. */
import { SEND_BY_PART } from '../kernel/limits.ts';
import type { EngineDeps } from './deps.ts';
import type { Rail } from './rail.ts';

/** A pass is a look, and one request begun as late as a quarter of the lease; a second pass may follow on the same bytes.
 *  Four answers outlast two submissions and an inquiry (case T8). Too short: each slow success is an unknown, and another
 *  worker looks meanwhile. Too long: a dead worker's effects wait that long. */
const ANSWERS_PER_LEASE = 4;

/** The configured lease, or longer where the rail's answers take their time. Milliseconds. */
export function leaseMsOf(deps: Pick<EngineDeps, 'leaseMs'>, rail: Pick<Rail, 'capabilities'>): number {
  return Math.max(deps.leaseMs, (rail.capabilities.answerWithinMs ?? 0) * ANSWERS_PER_LEASE);
}

/** From its permission on (the seal, the raise), a pass begins sends for so long: counted from the claim, a slow plan or look would
 *  use it up, and what is sealed would never leave. */
export function sendWindowMs(deps: Pick<EngineDeps, 'leaseMs'>, rail: Pick<Rail, 'capabilities'>): number {
  return leaseMsOf(deps, rail) * SEND_BY_PART;
}
