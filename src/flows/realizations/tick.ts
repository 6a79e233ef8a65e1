/**
 * The tick: comes for each realization that is open, one after another, and takes it where nobody else has it (R1).
 *
 * What it adds to the worker's own passes: whoever finds one claimed walks away, and that is written down. Only where it
 * happened has a night shown that two cannot do the same (R17). A loop over it sleeps after its work (R3); where two ticks
 * run at once all the same, in one process or in many, the claim keeps them apart.
 */
import { advanceEffect } from '../../engine/advance.ts';
import type { EngineDeps } from '../../engine/deps.ts';
import { countLost, loadOpen } from './store.ts';

export interface Ticked {
  readonly advanced: number;
  /** Claimed by somebody else when we came. Durable on return. */
  readonly lost: number;
}

export async function tickOnce(engine: EngineDeps): Promise<Ticked> {
  let [advanced, lost] = [0, 0];
  for (const { effectId, realizationId } of await loadOpen(engine.pool, [...engine.rails.keys()])) {
    const outcome = await advanceEffect(engine, effectId);
    if (outcome === 'advanced') advanced += 1;
    if (outcome !== 'busy') continue;
    lost += 1;
    await countLost(engine.pool, realizationId);
    engine.log.info({ realization: realizationId }, 'a claim was lost to overlap: somebody else has it');
  }
  return { advanced, lost };
}
