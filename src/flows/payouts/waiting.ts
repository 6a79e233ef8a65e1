/** What was due and could not be made: tried again as soon as it can be (money came, an address was set, the time is over). */
import { clearAlert } from '../../engine/alerts.ts';
import { emit } from '../../outbox/emit.ts';
import { makePayouts, type Made, type PayoutDeps } from './enqueue.ts';
import { WAITING_POOLS } from './limits.ts';
import { toProgrammeView } from './programme.ts';
import { loadProgrammes, lockWaiting, markFunded } from './store.ts';

/** One pass; any number of processes at once. Durable on return. */
export async function payWaitingOnce(deps: PayoutDeps): Promise<Made> {
  return deps.pool.tx('pay waiting', async (tx) => {
    const made = await makePayouts(tx, deps, await lockWaiting(tx, WAITING_POOLS), { origin: 'again' });
    const funded = await markFunded(tx);
    if (funded.length > 0) {
      const programmes = await loadProgrammes(tx, funded);
      for (const id of funded) await clearAlert(tx, 'payouts_unfunded', id);
      await emit(
        tx,
        deps.makeId,
        [...programmes.values()].map((one) => ({
          subjectType: 'programme',
          subjectId: one.id,
          type: 'programme.funded',
          data: { ...toProgrammeView(one) },
        })),
      );
    }
    return made;
  });
}
