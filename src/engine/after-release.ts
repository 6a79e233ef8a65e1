/**
 * After a release that the flow left to people: the partner is told `failed`, or there is a next try with a hold of its own
 * (design §2). Two persons choose; the released effect itself is not touched, and its subject must have nothing live.
 */
import type { Tx } from '../db/pool.ts';
import { InvariantBroken } from '../kernel/errors.ts';
import type { EngineDeps } from './deps.ts';
import { loadEvidence } from './evidence-store.ts';
import type { Then } from './flow.ts';
import { followRelease } from './settle.ts';
import { type EffectRow, lockEffectsOfSubject } from './store.ts';

/** Durable with the caller's commit; answers what it did, or why nothing was done, in words. */
export async function chooseAfterRelease(
  tx: Tx,
  deps: EngineDeps,
  effect: EffectRow,
  choice: 'fail' | 'next_try',
  reason: string,
): Promise<{ readonly did: string } | { readonly refused: string }> {
  const last = (await lockEffectsOfSubject(tx, effect.subjectType, effect.subjectId)).at(-1);
  const flow = deps.flows.get(effect.subjectType);
  if (flow === undefined || last === undefined) throw new InvariantBroken(`no flow for ${effect.subjectType}`);
  if (last.id !== effect.id || last.state !== 'RELEASED') return { refused: 'it goes on by itself already' };
  const by = (await loadEvidence(tx, [effect.id])).get(effect.id)?.find((one) => one.id === effect.releasedBy);
  if (by === undefined) throw new InvariantBroken(`effect ${effect.id} was released by nothing`);
  // Periodic work begins anew by itself: another subject may have the lane by now, and one at a time is its whole point.
  const lane = choice === 'next_try' ? await holderOfLane(tx, effect.lane) : null;
  if (lane !== null) return { refused: `${lane} does the same work now; decide again when it has ended` };
  // What people wrote for each other stays with them.
  const next: Then =
    choice === 'fail' ? { step: 'fail', reason: 'it did not move; decided by people' } : { step: 'again' };
  const { kind, objectId } = by;
  await followRelease(tx, deps, flow, { effect, kind, objectId, detail: reason, next });
  return { did: choice === 'fail' ? 'told the partner that it failed' : 'began the next try' };
}

const HOLDER = `select subject_type, subject_id
from payonce.effects
where lane = $1
  and state in ('PENDING', 'SEALED')`;

async function holderOfLane(tx: Tx, lane: string | null): Promise<string | null> {
  const [row] = (await tx.query<{ subject_type: string; subject_id: string }>(HOLDER, [lane])).rows;
  return row === undefined ? null : `${row.subject_type} ${row.subject_id}`;
}
