/**
 * What a rail shows that people must see at once, whatever the effect's state.
 *
 * Doubles: a rail shows two living objects under one identity of ours. It broke the one promise on which asking again rests
 * (a key forgotten before its time, or none, and bytes delivered twice), so the money may have gone twice.
 *
 * A contradiction, the highest case: nothing new is sealed for the partner until two persons close it. Nothing is booked:
 * which of the two left, and whether one comes back, is in the bank's statement. Told whatever the effect's state, since a
 * second object is found by the watch long after the first one settled.
 * Asks: a rail that stopped and waits for people itself (a dispute, an end after a payment was claimed): no timer ends it.
 */
import type { Tx } from '../db/pool.ts';
import { openCase } from './cases.ts';
import type { EngineDeps } from './deps.ts';
import type { Judged, Pass } from './judge.ts';
import type { ObservationKind } from './rail.ts';
import type { EffectRow } from './store.ts';

export async function openDoubles(tx: Tx, deps: EngineDeps, judged: readonly Judged[]): Promise<void> {
  for (const { effect, pass } of judged) {
    const double = doubleIn(effect, pass);
    if (double !== null)
      await openOnce(
        tx,
        deps,
        effect,
        'contradiction',
        `${effect.subjectType} ${effect.subjectId} may have been paid twice: ${double}. Compare with the statement`,
      );
    const asks = pass.found.find(({ observation }) => observation.asksPeople !== undefined)?.observation.asksPeople;
    if (asks !== undefined)
      await openOnce(tx, deps, effect, 'rail_asks', `${effect.subjectType} ${effect.subjectId}: ${asks}`);
  }
}

/** What two persons have closed is not opened anew by seeing the same again. */
async function openOnce(
  tx: Tx,
  deps: EngineDeps,
  effect: EffectRow,
  kind: 'contradiction' | 'rail_asks',
  summary: string,
): Promise<void> {
  const subjectKey = `effect:${effect.id}`;
  if ((await tx.query(DECIDED, [kind, subjectKey, summary])).rowCount > 0) return;
  await openCase(tx, deps.makeId, {
    kind,
    severity: 3,
    subjectKey,
    effectId: effect.id,
    partnerId: effect.partnerId,
    assetId: effect.asset.id,
    amount: effect.amount,
    summary,
  });
}

const DECIDED = `select 1
from payonce.cases
where kind = $1
  and subject_key = $2
  and summary = $3
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
