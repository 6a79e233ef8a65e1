/**
 * What the chain counts of our signers, compared with our own counter before anything new is sealed: more than we gave out
 * is a use that we did not sign (quarantine); less than what is open is a chain that took something back.
 */
import * as limits from '../kernel/limits.ts';
import { clearAlert, raiseAlert } from './alerts.ts';
import type { EngineDeps } from './deps.ts';
import { quarantineSigners } from './quarantine.ts';
import type { Rail, SignerSurvey } from './rail.ts';
import { type EffectRow, giveBack } from './store.ts';

/** A chain that shows more of a signer's sequence than we gave out: quarantine, before anything new is sealed. */
export async function surveySigners(deps: EngineDeps, rail: Rail, effects: readonly EffectRow[]): Promise<EffectRow[]> {
  if (rail.survey === undefined || effects.length === 0) return [...effects];
  const signers = [...new Set(effects.map((effect) => effect.signer))].sort();
  // Read before the chain is asked: our own seals in between only raise our counter.
  const surveys = await rail.survey(signers);
  const { rows } = await deps.pool.query<{ address: string; next_nonce: bigint }>(
    'select address, next_nonce from payonce.signers where rail = $1 and address = any ($2::text[])',
    [rail.name, signers],
  );
  const ours = new Map(rows.map((row) => [row.address, row.next_nonce]));
  await waitWhereChainWentBack(deps, rail, effects, surveys);
  const strange = surveys.filter((one) => one.nonceHead !== null && one.nonceHead > (ours.get(one.signer) ?? 0n));
  if (strange.length === 0) return [...effects];
  const bad = new Set(strange.map((one) => one.signer));
  await deps.pool.tx('quarantine', async (tx) => {
    await giveBack(
      tx,
      effects
        .filter((effect) => bad.has(effect.signer))
        .map((effect) => ({
          id: effect.id,
          token: effect.leaseToken,
          waitMs: limits.BACKOFF_MS_MAX,
          reason: 'SIGNER_QUARANTINED',
          counts: false,
        })),
    );
    await quarantineSigners(
      tx,
      deps,
      strange.map((one) => ({
        rail: rail.name,
        signer: one.signer,
        reason: `the chain counts ${one.nonceHead}, we gave out ${ours.get(one.signer) ?? 0n}`,
      })),
    );
  });
  return effects.filter((effect) => !bad.has(effect.signer));
}

const LOWEST_OPEN = `select signer, min(nonce) as nonce
from payonce.effects
where rail = $1
  and signer = any ($2::text[])
  and state = 'SEALED'
  and included_at is null
group by signer`;

/**
 * A chain that counts less than the lowest nonce that is open has taken back what we saw mined, or only nodes that lag have
 * answered. Nothing here stops for good: people are told, and what was settled lately is looked at again (`vanished.ts`).
 */
async function waitWhereChainWentBack(
  deps: EngineDeps,
  rail: Rail,
  effects: readonly EffectRow[],
  surveys: readonly SignerSurvey[],
): Promise<void> {
  const { rows } = await deps.pool.query<{ signer: string; nonce: bigint }>(LOWEST_OPEN, [
    rail.name,
    [...new Set(effects.map((effect) => effect.signer))],
  ]);
  const back = surveys.filter((one) => {
    const lowest = rows.find((row) => row.signer === one.signer)?.nonce;
    return one.nonceHead !== null && lowest !== undefined && one.nonceHead < lowest;
  });
  if (back.length === 0) {
    await clearAlert(deps.pool, 'chain_went_back', rail.name);
    return;
  }
  const what = back.map((one) => `${one.signer} at ${one.nonceHead}`).join(', ');
  await raiseAlert(
    deps.pool,
    'chain_went_back',
    rail.name,
    `The chain counts less than was mined before (${what}): a reorganisation, or only lagging nodes answer`,
    deps.log,
  );
}
