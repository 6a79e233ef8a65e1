/** `sent` is for display: an effect is shown as included while the rail shows our transaction in a block, and no longer. */
import type { Tx } from '../db/pool.ts';
import { emit } from '../outbox/emit.ts';
import type { EngineDeps } from './deps.ts';
import type { Judged } from './judge.ts';

const SHOW = `update payonce.effects e
set included_at = case when u.included then coalesce(e.included_at, payonce.now()) end,
    last_unreadable = u.unreadable
from unnest($1::bigint[], $2::bool[], $3::bool[]) as u (id, included, unreadable)
where e.id = u.id
  and ((e.included_at is not null) <> u.included or e.last_unreadable <> u.unreadable)`;

/** `sent` is for display: set when our transaction is seen in a block, withdrawn when its receipt has vanished. */
export async function showInclusion(
  tx: Tx,
  deps: EngineDeps,
  judged: readonly Judged[],
  ended: ReadonlySet<bigint>,
): Promise<void> {
  const rows: { one: Judged; included: boolean; unreadable: boolean; objectId: string | null; changed: boolean }[] = [];
  for (const one of judged) {
    if (one.effect.state !== 'SEALED' || ended.has(one.effect.id) || one.pass.found.length === 0) continue;
    const looks = one.pass.found.filter((found) => found.answer.operation === 'look');
    const seen = one.pass.found.find((found) => found.observation.kind === 'included');
    const readable = looks.some(
      (found) => found.observation.kind === 'not_found' || found.observation.kind === 'in_progress',
    );
    const was = one.effect.includedAt !== null;
    const included = seen !== undefined || (was && !readable);
    const unreadable = one.pass.found.every(
      (found) => found.observation.kind === 'unreadable' || found.observation.kind === 'blocked',
    );
    rows.push({ one, included, unreadable, objectId: seen?.observation.objectId ?? null, changed: included !== was });
  }
  if (rows.length === 0) return;
  await tx.query(SHOW, [
    rows.map((row) => row.one.effect.id),
    rows.map((row) => row.included),
    rows.map((row) => row.unreadable),
  ]);
  const changed = rows.filter((row) => row.changed);
  for (const flow of deps.flows.values()) {
    const mine = changed.filter((row) => row.one.effect.subjectType === flow.subjectType);
    if (mine.length === 0) continue;
    const shown = mine.map((row) => ({ effect: row.one.effect, included: row.included, objectId: row.objectId }));
    await emit(tx, deps.makeId, await flow.shown(tx, shown));
  }
}
