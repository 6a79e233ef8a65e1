/**
 * Looks beside every lease: what the rail shows as moved is recorded at once, whatever the effect's state; a no is not.
 * By a monitor's or a provider's word (`confirm.ts`), and for the watch list: believed releases, which may have moved after
 * all, and settled effects of rails whose money may come back. What a chain settled is another question: `vanished.ts`.
 */
import type { Query } from '../db/pool.ts';
import type { EngineDeps } from './deps.ts';
import { lookWithHints } from './hints.ts';
import type { Rail } from './rail.ts';
import { record } from './record.ts';
import { readSafely, toSealed } from './sealed.ts';
import { type EffectRow, loadEffects } from './store.ts';
import { loadVariants } from './evidence-store.ts';

const DUE = `select q.id
from payonce.effects q
where q.rail = $1
  and q.watch_at <= (select payonce.now())
  and (q.state = 'RELEASED' or not $2)
order by q.watch_at, q.id
limit 100`;

const WATCH_NEXT = `update payonce.effects e
set watch_at = case
  when e.state = 'SETTLED' then
    case when payonce.now() < e.ended_at + make_interval(secs => $3::float8 / 1000) then payonce.now() + interval '1 day' end
  when payonce.now() < e.ended_at + interval '1 day' then e.ended_at + interval '1 day'
  when payonce.now() < e.ended_at + make_interval(secs => $2::float8 / 1000) then e.ended_at + make_interval(secs => $2::float8 / 1000)
  when payonce.now() < e.ended_at + make_interval(secs => $2::float8 / 1000) + interval '7 days'
    then e.ended_at + make_interval(secs => $2::float8 / 1000) + interval '7 days'
  end
where e.id = any ($1::bigint[])
  and e.watch_at <= payonce.now()`;

/** Without a declared retention the watch goes on as if it were the longest in the field (30 days). */
const RETENTION_MS = 30 * 24 * 3_600_000;
/** No lease: a look at what is released may bring a yes and nothing else. */
const NO_LEASE = -1n;

const WATCH_NOW = `update payonce.effects e
set watch_at = payonce.now()
where e.id = any (
    select l.id from payonce.effects l where l.id = any ($1::bigint[]) order by l.id for no key update)
  and e.state in ('SETTLED', 'RELEASED')`;

/** Somebody outside says that it moved, or came back: the next pass of the watch list asks the rail. */
export async function watchNow(query: Query, ids: readonly bigint[]): Promise<void> {
  if (ids.length > 0) await query.query(WATCH_NOW, [ids]);
}

/** Looks again at what ended and is watched, where it is due. Answers how many there were. */
export async function watchReleasedOnce(deps: EngineDeps, rail: Rail): Promise<number> {
  const ids = (await deps.pool.query<{ id: bigint }>(DUE, [rail.name, rail.sign !== undefined])).rows.map(
    (row) => row.id,
  );
  if (ids.length === 0) return 0;
  await lookAt(deps, rail, await loadEffects(deps.pool, ids));
  await deps.pool.query(WATCH_NEXT, [
    ids,
    rail.capabilities.keyRetentionMs ?? RETENTION_MS,
    rail.capabilities.returnsWithinMs ?? 0,
  ]);
  return ids.length;
}

/** A look beside every lease: what it shows as moved is recorded, whatever the effect's state; its noes are not. */
export async function lookAt(deps: EngineDeps, rail: Rail, effects: readonly EffectRow[]): Promise<void> {
  const looked = effects.filter((effect) => effect.identity !== null);
  if (looked.length === 0) return;
  const variants = await loadVariants(
    deps.pool,
    looked.map((effect) => effect.id),
  );
  const sealed = looked.map((effect) => toSealed(effect, variants.get(effect.id) ?? []));
  const answers = await lookWithHints(deps, rail, sealed);
  await record(
    deps,
    rail,
    sealed.map((one, index) => ({
      effectId: one.effectId,
      token: NO_LEASE,
      found: (answers[index] ?? []).map((answer) => ({
        answer,
        observation: readSafely(deps, rail, answer, one),
        sendNumber: 0,
      })),
      nextAfterMs: null,
      lookedAt: null,
    })),
  );
}
