/**
 * One bad item never fails its neighbours: a batch that cannot be done in one go is done one by one, and what fails alone
 * goes back with a growing wait and becomes a case. Nothing of it was sealed, so it may be cancelled.
 *
 * Never: takes an outage of the database for an item's fault; then the pass is made again.
 */
import { InvariantBroken, PayonceError } from '../kernel/errors.ts';
import { storable } from '../kernel/foreign-text.ts';
import * as limits from '../kernel/limits.ts';
import { openCase } from './cases.ts';
import type { EngineDeps } from './deps.ts';
import type { EffectIntent, PlanContext, PlanVerdict, Rail } from './rail.ts';
import { toIntent } from './seal.ts';
import { type EffectRow, giveBack } from './store.ts';

/** The database is gone or its answer is: the pass is made again, and nobody is to blame. */
export function isOutage(error: unknown): boolean {
  return error instanceof PayonceError && (error.code === 'PO_DB_COMMIT_UNKNOWN' || error.code === 'PO_DB_UNAVAILABLE');
}

export function messageOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, 300);
}

type Item = { readonly effect: EffectRow };

/** All results of `work`, of the whole or of each alone; of what fails alone there is none. `reason`: in its row. */
export async function apart<One extends Item, Result>(
  deps: EngineDeps,
  items: readonly One[],
  reason: 'SEAL_FAILED' | 'WAIT_FAILED',
  work: (part: readonly One[]) => Promise<readonly Result[]>,
): Promise<Result[]> {
  try {
    return [...(await work(items))];
  } catch (error) {
    if (isOutage(error)) throw error;
    const [item] = items;
    if (item === undefined) return [];
    if (items.length === 1) {
      await standAside(deps, item.effect, reason, error);
      return [];
    }
    deps.log.warn({ err: error, effects: items.length, reason }, 'a batch failed; trying one by one');
    const results: Result[] = [];
    for (const one of items) results.push(...(await apart(deps, [one], reason, work)));
    return results;
  }
}

async function standAside(deps: EngineDeps, effect: EffectRow, reason: string, error: unknown): Promise<void> {
  deps.log.error({ err: error, effect_id: effect.id, reason }, 'an effect failed alone; nothing of it was sealed');
  await deps.pool.tx('stand aside', async (tx) => {
    const waitMs = Math.min(limits.BACKOFF_MS * 2 ** Math.min(effect.failures, 10), limits.BACKOFF_MS_MAX);
    const why = messageOf(error);
    await giveBack(tx, [
      { id: effect.id, token: effect.leaseToken, waitMs, reason: `${reason}: ${why}`, counts: true },
    ]);
    await openCase(tx, deps.makeId, {
      kind: 'plan_fails',
      severity: 2,
      subjectKey: `effect:${effect.id}`,
      effectId: effect.id,
      partnerId: effect.partnerId,
      assetId: effect.asset.id,
      amount: effect.amount,
      summary: `${effect.subjectType} ${effect.subjectId} cannot go on (${reason}): ${why}. Nothing was sealed; it may be cancelled.`,
    });
  });
}

/** The rail's verdicts, one per effect; a plan that throws is a wait of the effect that it throws for. */
export async function planApart(
  deps: EngineDeps,
  rail: Rail,
  effects: readonly EffectRow[],
  context: PlanContext,
): Promise<readonly PlanVerdict[]> {
  const intents = effects.map(toIntent);
  try {
    return await planned(rail, intents, context);
  } catch (error) {
    if (isOutage(error)) throw error;
    deps.log.warn({ err: error, effects: effects.length }, 'a plan failed; planning one by one');
  }
  const verdicts: PlanVerdict[] = [];
  // What was planned before in this batch counts as on its way, as it does where one plan sees them all.
  let so = context;
  for (const intent of intents) {
    const verdict = await planAlone(deps, rail, intent, so);
    verdicts.push(verdict);
    if (verdict.verdict === 'ready') so = withPlanned(so, intent);
  }
  return verdicts;
}

async function planned(
  rail: Rail,
  intents: readonly EffectIntent[],
  context: PlanContext,
): Promise<readonly PlanVerdict[]> {
  const verdicts = await rail.plan(intents, context);
  if (verdicts.length !== intents.length)
    throw new InvariantBroken(`rail ${rail.name} planned ${verdicts.length} of ${intents.length}`);
  return storable(verdicts);
}

async function planAlone(
  deps: EngineDeps,
  rail: Rail,
  intent: EffectIntent,
  context: PlanContext,
): Promise<PlanVerdict> {
  try {
    const [verdict] = await planned(rail, [intent], context);
    if (verdict !== undefined) return verdict;
    throw new InvariantBroken(`rail ${rail.name} gave no plan`);
  } catch (error) {
    if (isOutage(error)) throw error;
    deps.log.error({ err: error, effect_id: intent.effectId }, 'an effect cannot be planned');
    const detail = storable(messageOf(error));
    return { verdict: 'wait', reason: 'PLAN_FAILED', detail, alert: true, lasts: 'for_good' };
  }
}

function withPlanned(context: PlanContext, { wallet, signer, asset, amount }: EffectIntent): PlanContext {
  const open = new Map(context.openPerSigner);
  open.set(signer, (open.get(signer) ?? 0) + 1);
  return {
    ...context,
    inFlight: [...context.inFlight, { wallet, assetId: asset.id, amount }],
    openPerSigner: open,
  };
}
