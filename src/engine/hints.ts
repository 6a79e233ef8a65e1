/**
 * Looks that know where refusals pointed. A used key is refused with the name of what stands under it, and that name may be
 * another's (a wrong link, a stranger's answer): it is never the accepted object by itself, or one wrong link would hide
 * the true one for ever. It is asked for, and what is shown there under our own identity counts.
 *
 * Nothing is stored for it: the refusals are on record as they came, and are read again here.
 */
import type { Query } from '../db/pool.ts';
import type { EngineDeps } from './deps.ts';
import type { Answer, Rail, Reach, SealedEffect } from './rail.ts';
import { readSafely } from './sealed.ts';

/** Refusals that are read again: the latest say the same, or correct an earlier one. */
const REFUSALS_MAX = 5;

const REFUSALS = `select e.id as effect_id, a.source, a.operator, a.reach, a.status, a.body
from unnest($1::bigint[]) as e (id)
cross join lateral (
  select r.id, r.source, r.operator, r.reach, r.status, r.body
  from payonce.effect_answers r
  where r.effect_id = e.id
    and r.operation = 'send'
    and r.observed = 'key_taken'
  order by r.id desc
  limit $2) a
order by e.id, a.id desc`;

interface RefusalRow {
  readonly effect_id: bigint;
  readonly source: string;
  readonly operator: string;
  readonly reach: Reach;
  readonly status: number | null;
  readonly body: string;
}

/** `rail.look`, with the places where refusals pointed for what has no accepted object yet. */
export async function lookWithHints(
  deps: EngineDeps,
  rail: Rail,
  sealed: readonly SealedEffect[],
): Promise<readonly (readonly Answer[])[]> {
  // A chain knows its objects by our own signatures.
  if (rail.capabilities.sequenced) return rail.look(sealed);
  const nameless = sealed.filter((one) => (one.acceptedObject ?? null) === null);
  if (nameless.length === 0) return rail.look(sealed);
  const refusals = await loadRefusals(
    deps.pool,
    nameless.map((one) => one.effectId),
  );
  return rail.look(
    sealed.map((one) => {
      const hints = (refusals.get(one.effectId) ?? []).flatMap(
        (answer) => readSafely(deps, rail, answer, one).objectHint ?? [],
      );
      return hints.length === 0 ? one : { ...one, objectHints: [...new Set(hints)] };
    }),
  );
}

async function loadRefusals(query: Query, ids: readonly bigint[]): Promise<ReadonlyMap<bigint, readonly Answer[]>> {
  const found = new Map<bigint, Answer[]>();
  const { rows } = await query.query<RefusalRow & Record<string, unknown>>(REFUSALS, [ids, REFUSALS_MAX]);
  for (const { effect_id: id, ...row } of rows) {
    const of = found.get(id) ?? [];
    of.push({ ...row, operation: 'send', variantHash: null });
    found.set(id, of);
  }
  return found;
}
