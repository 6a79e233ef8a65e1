/**
 * Cancelling what a subject wants before its seal. One conditional edge decides (case A3): PENDING → RELEASED by us, or
 * SEALED by a worker; afterwards it is too late, and only what the rail itself offers to a person can stop it.
 */
import type { Query } from '../db/pool.ts';
import { InvariantBroken } from '../kernel/errors.ts';
import type { EngineDeps } from './engine.ts';
import { storeEvidence } from './evidence-store.ts';
import { settleBatch } from './settle.ts';
import { lockEffectsOfSubject } from './store.ts';

export type CancelOutcome = 'cancelled' | 'too_late' | 'not_found';

const WAS_CANCELLED = `select 1
from payonce.subjects
where type = $1
  and id = $2
  and closed_as = 'cancelled'`;

async function wasCancelled(query: Query, subjectType: string, id: string): Promise<boolean> {
  return (await query.query(WAS_CANCELLED, [subjectType, id])).rowCount === 1;
}

/** Durable on return. A second cancel answers `cancelled` too and does nothing; another partner's subject is `not_found`. */
export async function cancelSubject(
  engine: EngineDeps,
  subjectType: string,
  partnerId: string,
  id: string,
  by: string,
): Promise<CancelOutcome> {
  return engine.pool.tx(`cancel ${subjectType}`, async (tx) => {
    const effects = (await lockEffectsOfSubject(tx, subjectType, id)).filter((one) => one.partnerId === partnerId);
    const effect = effects.at(-1);
    if (effect === undefined) return 'not_found';
    if (effect.state === 'RELEASED') return (await wasCancelled(tx, subjectType, id)) ? 'cancelled' : 'too_late';
    // A successor of a released try was never sent either, but the partner was told `processing` after bytes had left.
    if (effect.state !== 'PENDING') return 'too_late';
    const why = { kind: 'NEVER_SEALED', rank: 'dead', objectId: null, detail: 'cancelled before the seal' } as const;
    const [evidenceId] = await storeEvidence(tx, [
      { ...why, effectId: effect.id, source: by, operator: 'payonce', sendNumber: 0, token: effect.leaseToken },
    ]);
    if (evidenceId === undefined) throw new InvariantBroken('evidence without an id');
    const won = await settleBatch(tx, engine, null, [
      { ...why, act: 'release', effect, token: effect.leaseToken, evidenceId, cost: null, lookedAt: null },
    ]);
    return won.has(effect.id) ? 'cancelled' : 'too_late';
  });
}
