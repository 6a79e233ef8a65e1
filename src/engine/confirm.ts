/**
 * Confirmation by a monitor's word: it names transactions, we read the truth from the rail at once, beside the watcher.
 *
 * Each delivery is a pass of its own without a lease, so it may bring a yes and nothing else (design §1, 6); the edge's
 * affected rows say who made the transition, and every other delivery logs "already transitioned" with the state that it
 * found, counts it, and is answered as a success (W1, W2). Several effects in one word are judged each alone.
 */
import type { EngineDeps } from './deps.ts';
import { record } from './record.ts';
import { readSafely, toSealed } from './advance.ts';
import { loadEffects, loadVariants } from './store.ts';

const NAMED = `select distinct v.effect_id as id
from payonce.effect_variants v
where v.hash = any ($1::text[])
order by 1`;

/** A token that no lease ever has. */
const NO_LEASE = -1n;

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
  const variants = await loadVariants(
    deps.pool,
    effects.map((effect) => effect.id),
  );
  for (const rail of deps.rails.values()) {
    const mine = effects.filter((one) => one.rail === rail.name && one.state !== 'SETTLED' && one.identity !== null);
    if (mine.length === 0) continue;
    const sealed = mine.map((effect) => toSealed(effect, variants.get(effect.id) ?? []));
    const looked = await rail.look(sealed);
    await record(
      deps,
      rail,
      sealed.map((one, index) => ({
        effectId: one.effectId,
        token: NO_LEASE,
        found: (looked[index] ?? []).map((answer) => ({
          answer,
          observation: readSafely(deps, rail, answer, one),
          sendNumber: 0,
        })),
        nextAfterMs: null,
      })),
    );
  }
}
