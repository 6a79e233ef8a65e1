/**
 * Doubles: a rail shows two living objects under one identity of ours. It broke the one promise on which asking again rests
 * (a key forgotten before its time, or none, and bytes delivered twice), so the money may have gone twice.
 *
 * A contradiction, the highest case: nothing new is sealed for the partner until two persons close it. Nothing is booked:
 * which of the two left, and whether one comes back, is in the bank's statement. Told whatever the effect's state, since a
 * second object is found by the watch long after the first one settled.
 */
import type { Tx } from '../db/pool.ts';
import { openCase } from './cases.ts';
import type { EngineDeps } from './deps.ts';
import type { Judged } from './judge.ts';

export async function openDoubles(tx: Tx, deps: EngineDeps, judged: readonly Judged[]): Promise<void> {
  for (const { effect, pass } of judged) {
    const seen = pass.found.find(({ observation }) => observation.doubled === true);
    if (seen === undefined) continue;
    await openCase(tx, deps.makeId, {
      kind: 'contradiction',
      severity: 3,
      subjectKey: `effect:${effect.id}`,
      effectId: effect.id,
      partnerId: effect.partnerId,
      assetId: effect.asset.id,
      amount: effect.amount,
      summary: `${effect.subjectType} ${effect.subjectId} may have been paid twice: ${seen.observation.detail}. Compare with the statement`,
    });
  }
}
