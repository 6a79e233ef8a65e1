/**
 * Cancelling a withdrawal before its seal. One conditional edge decides (case A3): PENDING → RELEASED by us, or SEALED by
 * a worker; afterwards it is too late, and only an operator's cancel on chain can stop it.
 */
import type { EngineDeps } from '../../engine/engine.ts';
import { settleBatch } from '../../engine/settle.ts';
import { lockEffectsOfSubject } from '../../engine/store.ts';
import { storeEvidence } from '../../engine/evidence-store.ts';
import { InvariantBroken } from '../../kernel/errors.ts';

export type CancelOutcome = 'cancelled' | 'too_late' | 'not_found';

/** Durable on return. A second cancel answers `cancelled` too and does nothing. */
export async function cancelWithdrawal(
  engine: EngineDeps,
  partnerId: string,
  id: string,
  by: string,
): Promise<CancelOutcome> {
  return engine.pool.tx('cancel withdrawal', async (tx) => {
    const effects = (await lockEffectsOfSubject(tx, 'withdrawal', id)).filter((one) => one.partnerId === partnerId);
    const effect = effects.at(-1);
    if (effect === undefined) return 'not_found';
    if (effect.state === 'RELEASED') {
      const closed = await tx.query(
        "select 1 from payonce.subjects where type = 'withdrawal' and id = $1 and closed_as = 'cancelled'",
        [id],
      );
      return closed.rowCount === 1 ? 'cancelled' : 'too_late';
    }
    // A successor of a released try was never sent either, but the partner was told `processing` after bytes had left.
    if (effect.state !== 'PENDING') return 'too_late';
    const [evidenceId] = await storeEvidence(tx, [
      {
        effectId: effect.id,
        kind: 'NEVER_SEALED',
        rank: 'dead',
        source: by,
        operator: 'payonce',
        objectId: null,
        detail: 'cancelled before the seal',
        sendNumber: 0,
        token: effect.leaseToken,
      },
    ]);
    if (evidenceId === undefined) throw new InvariantBroken('evidence without an id');
    const won = await settleBatch(tx, engine, null, [
      {
        act: 'release',
        effect,
        token: effect.leaseToken,
        evidenceId,
        kind: 'NEVER_SEALED',
        rank: 'dead',
        objectId: null,
        detail: 'cancelled before the seal',
        cost: null,
        lookedAt: null,
      },
    ]);
    return won.has(effect.id) ? 'cancelled' : 'too_late';
  });
}
