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
import type { Judged, Pass } from './judge.ts';
import type { ObservationKind } from './rail.ts';
import type { EffectRow } from './store.ts';

export async function openDoubles(tx: Tx, deps: EngineDeps, judged: readonly Judged[]): Promise<void> {
  for (const { effect, pass } of judged) {
    const why = doubleIn(effect, pass);
    if (why === null) continue;
    const summary = `${effect.subjectType} ${effect.subjectId} may have been paid twice: ${why}. Compare with the statement`;
    // What two persons have closed is not opened anew by seeing the same again.
    const subjectKey = `effect:${effect.id}`;
    if ((await tx.query(DECIDED, [subjectKey, summary])).rowCount > 0) continue;
    await openCase(tx, deps.makeId, {
      kind: 'contradiction',
      severity: 3,
      subjectKey,
      effectId: effect.id,
      partnerId: effect.partnerId,
      assetId: effect.asset.id,
      amount: effect.amount,
      summary,
    });
  }
}

const DECIDED = `select 1
from payonce.cases
where kind = 'contradiction'
  and subject_key = $1
  and summary = $2
  and closed_at is not null
limit 1`;

/** Objects that live: what was accepted, paid, or came back after it was. */
const LIVING: ReadonlySet<ObservationKind> = new Set(['accepted', 'final_success', 'came_back']);

/** What shows a second movement, in words, or `null`. */
function doubleIn(effect: EffectRow, pass: Pass): string | null {
  const doubled = pass.found.find(({ observation }) => observation.doubled === true);
  if (doubled !== undefined) return doubled.observation.detail;
  if (effect.nonce !== null || effect.identity === null) return null;
  const looks = pass.found.filter(({ answer }) => answer.operation === 'look');
  const objects = new Set(
    looks.flatMap(({ observation: { kind, objectId } }) => (LIVING.has(kind) && objectId !== null ? [objectId] : [])),
  );
  if (objects.size > 1) return `look-ups name ${[...objects].sort().join(' and ')}`;
  const other = looks.find(({ observation }) => observation.otherContent === true);
  return effect.state === 'SETTLED' && other !== undefined ? `it settled, and now ${other.observation.detail}` : null;
}
