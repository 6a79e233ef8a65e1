/**
 * Confirmation by a monitor's word: it names transactions, we read the truth from the rail at once, beside the watcher.
 *
 * Each delivery is a pass of its own without a lease, so it may bring a yes and nothing else (design §1, 6); the edge's
 * affected rows say who made the transition, and every other delivery logs "already transitioned" with the state that it
 * found, counts it, and is answered as a success (W1, W2). Several effects in one word are judged each alone.
 */
import type { EngineDeps } from './deps.ts';
import { lookAt } from './look.ts';
import { loadEffects } from './store.ts';

const NAMED = `select distinct v.effect_id as id
from payonce.effect_variants v
where v.hash = any ($1::text[])
order by 1`;

/** Looks at every effect that has one of these transactions. Durable on return for what the rail shows as moved. */
export async function confirmNamed(deps: EngineDeps, hashes: readonly string[]): Promise<void> {
  if (hashes.length === 0) return;
  const { rows } = await deps.pool.query<{ id: bigint }>(NAMED, [hashes]);
  const effects = await loadEffects(
    deps.pool,
    rows.map((row) => row.id),
  );
  for (const effect of effects.filter((one) => one.state === 'SETTLED')) {
    // A shortcut, never the defence: the edge would answer the same.
    deps.counters.alreadyTransitioned += 1;
    deps.log.info({ effect_id: effect.id, subject: effect.subjectId, state: effect.state }, 'already transitioned');
  }
  for (const rail of deps.rails.values()) {
    await lookAt(
      deps,
      rail,
      effects.filter((one) => one.rail === rail.name && one.state !== 'SETTLED'),
    );
  }
}
