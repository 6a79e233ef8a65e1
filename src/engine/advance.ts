/**
 * Advancing: the worker's pass over one rail. claim(tx) → plan → seal(tx) → sign → store(tx) → send → record(tx) for what
 * is pending; claim(tx) → look → record(tx) → and, where it helps, bump or the same bytes again → record(tx) for what is
 * sealed. No transaction is open while anything is planned, signed, sent or looked at (W10).
 *
 * Batch-first throughout; sends run concurrently under the rail's limit. `advanceOnce` never overlaps itself in one
 * process (re-entrancy), and that alone is not the defence: the lease holds across any number of processes (R3).
 */
import type { Pool, Tx } from '../db/pool.ts';
import { InvariantBroken } from '../kernel/errors.ts';
import * as limits from '../kernel/limits.ts';
import { apart, planApart } from './alone.ts';
import { claimOne, claimPending, claimSealed, loadSignerLoad } from './claims.ts';
import type { EngineDeps } from './deps.ts';
import { lookWithHints } from './hints.ts';
import { leaseMsOf, sendWindowMs } from './lease.ts';
import type { PlanWait, Rail, SealedEffect, VariantKind } from './rail.ts';
import { record, type Recorded } from './record.ts';
import type { Pass } from './judge.ts';
import { leaveRemoved, relaysAgain } from './relayers.ts';
import { type Planned, sealPlanned } from './seal.ts';
import { readSafely, toSealed } from './sealed.ts';
import { keyWindowMs, sendAll, sendsFit, signAndStore } from './send.ts';
import { type EffectRow, giveBack, loadEffects, loadInFlight, loadOpenOf } from './store.ts';
import { surveySigners } from './survey.ts';
import { giveBackWaiting } from './wait.ts';
import { tellWithheld, withheldReason } from './withheld.ts';
import { loadVariants } from './evidence-store.ts';
import { raiseSends } from './raise.ts';

export interface Advanced {
  readonly pending: number;
  readonly sealed: number;
}

/** One pass over a rail: what was claimed is advanced by one step. Answers how much there was to do. */
export async function advanceOnce(deps: EngineDeps, rail: Rail): Promise<Advanced> {
  const sealed = await watchOnce(deps, rail);
  const pending = await sendOnce(deps, rail);
  return { pending, sealed };
}

/** The watcher's pass: looks at sealed effects that are due, settles, releases, sends again. */
export async function watchOnce(deps: EngineDeps, rail: Rail): Promise<number> {
  const sealed = await deps.pool.tx('claim sealed', async (tx) =>
    loadEffects(tx, await claimSealed(tx, rail.name, limits.CLAIM_BATCH, leaseMsOf(deps, rail))),
  );
  if (sealed.length > 0) await advanceSealed(deps, rail, sealed);
  return sealed.length;
}

/** The sender's pass: plans, seals and sends pending effects, per signer as many as it has room for. */
export async function sendOnce(deps: EngineDeps, rail: Rail): Promise<number> {
  const load = await loadSignerLoad(deps.pool, rail.name, limits.CLAIM_SIGNERS_MAX);
  const { capabilities } = rail;
  // Without keys one at a time: what is sealed and not sent can never be sent again after a doubt.
  const cap = capabilities.sequenced ? capabilities.inFlightPerSignerMax : capabilities.keyed ? limits.CLAIM_BATCH : 1;
  const room = load
    .map((one) => ({ signer: one.signer, room: capabilities.sequenced ? cap - one.open : cap }))
    .filter((one) => one.room > 0);
  if (room.length === 0) return 0;
  const pending = await deps.pool.tx('claim pending', async (tx) =>
    loadEffects(tx, await claimPending(tx, rail.name, room, leaseMsOf(deps, rail))),
  );
  if (pending.length > 0) await advancePending(deps, rail, pending);
  return pending.length;
}

/**
 * One effect at once, for people and webhooks: `busy` where somebody else has its lease, and then nothing was done.
 * `onClaim` runs in the claim's own transaction: what it writes is there with the lease, or not at all.
 */
export async function advanceEffect(
  deps: EngineDeps,
  effectId: bigint,
  onClaim?: (tx: Tx) => Promise<void>,
): Promise<'advanced' | 'busy' | 'gone'> {
  const [effect] = await loadEffects(deps.pool, [effectId]);
  if (effect === undefined) return 'gone';
  // Released before its seal: nothing of it ever left, so there is nothing to look at.
  if (effect.state === 'RELEASED' && effect.identity === null) return 'gone';
  const rail = deps.rails.get(effect.rail);
  if (rail === undefined) throw new InvariantBroken(`no rail ${effect.rail}`);
  const [claimed] = await deps.pool.tx('claim one', async (tx) => {
    if ((await claimOne(tx, effectId, leaseMsOf(deps, rail))) === 'busy') return [];
    await onClaim?.(tx);
    return loadEffects(tx, [effectId]);
  });
  if (claimed === undefined) {
    deps.counters.busy += 1;
    return 'busy';
  }
  if (claimed.state === 'PENDING') await advancePending(deps, rail, [claimed]);
  else await advanceSealed(deps, rail, [claimed]);
  return 'advanced';
}

/** `effects` as they were read in the claim's own transaction: read later, a stalled worker would take the next one's
 *  token for its own, and the fence would let both through. */
async function advancePending(deps: EngineDeps, rail: Rail, claimed: readonly EffectRow[]): Promise<void> {
  const effects = await leaveRemoved(deps.pool, rail, claimed);
  const usable = await surveySigners(deps, rail, effects);
  const inFlight = await loadInFlight(deps.pool, rail.name);
  const openPerSigner = await loadOpenOf(deps.pool, rail.name, [...new Set(usable.map((effect) => effect.signer))]);
  const minimums = await quotedMinimums(deps, usable);
  const context = { inFlight, openPerSigner, minimums, ...(await deps.supply?.beforeBatch(usable)) };
  const verdicts = await planApart(deps, rail, usable, context);
  const planned: Planned[] = [];
  const waiting: { effect: EffectRow; verdict: PlanWait }[] = [];
  usable.forEach((effect, index) => {
    const verdict = verdicts[index];
    if (verdict?.verdict === 'ready') planned.push({ effect, plan: verdict.plan });
    else if (verdict?.verdict === 'wait') waiting.push({ effect, verdict });
  });
  await giveBackWaiting(deps, rail, waiting);
  const sendsMax = sendsFit(deps, rail);
  await giveBackLater(
    deps,
    planned.slice(sendsMax).map((one) => one.effect),
    'SENDS_SLOW: what is sealed could not be sent in time; it comes with the next pass',
  );
  const permittedMs = deps.ports.clock.monotonicMs();
  const sealed = await apart(deps, planned.slice(0, sendsMax), 'SEAL_FAILED', (part) =>
    sealPlanned(deps.pool, rail, part, leaseMsOf(deps, rail), deps.flows),
  );
  deps.counters.sealed += sealed.length;
  if (sealed.length === 0) return;
  await relaysAgain(deps.pool, rail, sealed);
  const tokens = new Map(effects.map((effect) => [effect.id, effect.leaseToken]));
  const signed = await signAndStore(
    deps,
    rail,
    sealed.map((one) => ({ sealed: one, kind: 'original' })),
  );
  const found = await sendAll(
    deps,
    rail,
    signed.map((one) => ({ ...one, sendNumber: 1 })),
    permittedMs + sendWindowMs(deps, rail),
  );
  await record(
    deps,
    rail,
    sealed.map((one): Pass => {
      const answer = found.get(one.effectId);
      return {
        effectId: one.effectId,
        token: tokens.get(one.effectId) ?? -1n,
        found: answer === undefined ? [] : [answer],
        nextAfterMs: rail.capabilities.lookEveryMs,
        lookedAt: null,
      };
    }),
  );
}

/** Asked here and nowhere later: a quote that comes after the plan is the next seal's. */
async function quotedMinimums(deps: EngineDeps, effects: readonly EffectRow[]): Promise<Map<bigint, bigint>> {
  const minimums = new Map<bigint, bigint>();
  for (const flow of deps.flows.values()) {
    const mine = effects.filter(
      ({ subjectType, call }) => subjectType === flow.subjectType && call?.minimum !== undefined,
    );
    if (flow.minimums === undefined || mine.length === 0) continue;
    for (const [id, minimum] of await flow.minimums(deps.pool, mine)) minimums.set(id, minimum);
  }
  return minimums;
}

/** `effects` as they were read in the claim's own transaction (see `advancePending`). */
async function advanceSealed(deps: EngineDeps, rail: Rail, effects: readonly EffectRow[]): Promise<void> {
  const variants = await loadVariants(
    deps.pool,
    effects.map((effect) => effect.id),
  );
  const sealed = effects.map((effect) => toSealed(effect, variants.get(effect.id) ?? []));
  const looked = await lookWithHints(deps, rail, sealed);
  const recorded = await record(
    deps,
    rail,
    effects.map(
      (effect, index): Pass => ({
        effectId: effect.id,
        token: effect.leaseToken,
        found: (looked[index] ?? []).map((answer) => ({
          answer,
          observation: readSafely(deps, rail, answer, sealed[index] ?? toSealed(effect, [])),
          sendNumber: effect.sendCount,
        })),
        nextAfterMs: null,
        lookedAt: effect.now,
      }),
    ),
  );
  const open = effects.flatMap((effect, index) => {
    const result = recorded.get(effect.id);
    const one = sealed[index];
    return result?.leased === true && one !== undefined && effect.state === 'SEALED'
      ? [{ effect, sealed: one, result }]
      : [];
  });
  const resting = effects.filter((effect) => recorded.get(effect.id)?.leased === true && effect.state !== 'SEALED');
  const steps = open.map((one) => ({ ...one, step: nextStep(rail, one.effect, one.sealed, one.result) }));
  const idle = steps.filter((one) => one.step === 'rest');
  const lookedAt = new Map(effects.map((effect, index) => [effect.id, looked[index] ?? []]));
  const held = new Map(
    idle.map(({ effect, sealed: one, result }) => [
      effect.id,
      withheldReason(rail, one, lookedAt.get(effect.id) ?? [], result.named),
    ]),
  );
  await deps.pool.tx('give back', async (tx) => {
    // A look was had; what may not be sent again will not be asked later either: the person is told so now.
    await endWishes(
      tx,
      idle.map((one) => one.effect).filter(({ wanted }) => wanted === 'look' || wanted === 'ask'),
    );
    await giveBack(
      tx,
      [...idle.map((one) => one.effect), ...resting].map((effect) => ({
        id: effect.id,
        token: effect.leaseToken,
        waitMs: restMs(rail, effect),
        reason: held.get(effect.id) ?? null,
        counts: false,
      })),
    );
    await tellWithheld(tx, deps, rail, [...held.values()]);
  });
  await sendAgain(
    deps,
    rail,
    steps.filter((one) => one.step !== 'rest'),
  );
}

/** What a pass cannot send in time gets no permission: it is due at once, and counts as no failure. */
async function giveBackLater(deps: EngineDeps, effects: readonly EffectRow[], reason: string | null): Promise<void> {
  if (effects.length === 0) return;
  await deps.pool.tx('give back', (tx) =>
    giveBack(
      tx,
      effects.map((effect) => ({ id: effect.id, token: effect.leaseToken, waitMs: 0, reason, counts: false })),
    ),
  );
}

type Step = 'rest' | 'resend' | 'bump' | 'cancel';

/** What helps a sealed effect that is not final: nothing, the same bytes again, higher fees, or an operator's cancel. */
function nextStep(rail: Rail, effect: EffectRow, sealed: SealedEffect, recorded: Recorded): Step {
  // A believed no stops all sends; so does a rail that would send it under another identity now.
  if (effect.noSend || effect.believedEvidence !== null || (rail.withholds?.(sealed) ?? null) !== null) return 'rest';
  // Whoever wished for a look was told that nothing is sent.
  if (effect.wanted === 'look') return 'rest';
  const { capabilities } = rail;
  const since =
    effect.lastSentAt === null ? Number.POSITIVE_INFINITY : effect.now.getTime() - effect.lastSentAt.getTime();
  const cancelling = sealed.variants.some((one) => one.kind === 'cancel');
  if (sealed.variants.length === 0 && rail.sign !== undefined) return effect.wanted === 'cancel' ? 'cancel' : 'resend';
  if (effect.wanted === 'cancel' && !cancelling) return 'cancel';
  if (effect.wanted === 'bump' && rail.sign !== undefined) return cancelling ? 'cancel' : 'bump';
  if (effect.wanted === 'ask') return 'resend';
  if (recorded.effect.includedAt !== null && recorded.decision.act === 'wait' && since < capabilities.decideWithinMs)
    return 'rest';
  // It is accepted under a name of its own: looks follow it by that, and no key needs to hold for it.
  if (!capabilities.sequenced && recorded.named) return 'rest';
  if (since < capabilities.resendAfterMs) return 'rest';
  const bumps = sealed.variants.filter((one) => one.kind === 'bump').length;
  const stuck = effect.sealedAt === null ? 0 : effect.now.getTime() - effect.sealedAt.getTime();
  if (
    rail.sign !== undefined &&
    capabilities.bumpAfterMs !== null &&
    !cancelling &&
    bumps < capabilities.bumpsMax &&
    stuck > capabilities.bumpAfterMs * (bumps + 1)
  )
    return 'bump';
  return 'resend';
}

/** An effect at rest is looked at again soon while it is young and less often as it ages; a bumped nonce stays hot. */
function restMs(rail: Rail, effect: EffectRow): number {
  const age = effect.sealedAt === null ? 0 : effect.now.getTime() - effect.sealedAt.getTime();
  const untilFresh = effect.latenessUntil === null ? 0 : effect.latenessUntil.getTime() - effect.now.getTime();
  if (untilFresh > 0) return Math.min(untilFresh, limits.BACKOFF_MS_MAX);
  return Math.min(
    Math.max(rail.capabilities.lookEveryMs, Math.round(age * limits.LOOK_AGE_PART)),
    limits.BACKOFF_MS_MAX,
  );
}

async function sendAgain(
  deps: EngineDeps,
  rail: Rail,
  wanted: readonly { effect: EffectRow; sealed: SealedEffect; step: Step }[],
): Promise<void> {
  if (wanted.length === 0) return;
  const sendsMax = sendsFit(deps, rail);
  const steps = wanted.slice(0, sendsMax);
  await giveBackLater(
    deps,
    wanted.slice(sendsMax).map((one) => one.effect),
    null,
  );
  const toSign = steps.filter(
    (one) => one.step === 'bump' || one.step === 'cancel' || one.sealed.variants.length === 0,
  );
  const signed = new Map(
    (
      await signAndStore(
        deps,
        rail,
        toSign.map((one) => ({ sealed: one.sealed, kind: variantKind(one) })),
      )
    ).map((one) => [one.sealed.effectId, one.signed]),
  );
  const window = keyWindowMs(rail);
  const permittedMs = deps.ports.clock.monotonicMs();
  const raised = await raise(
    deps.pool,
    steps.filter((one) => rail.sign === undefined || signed.has(one.effect.id) || one.sealed.variants.length > 0),
    leaseMsOf(deps, rail),
    window,
  );
  const sends = steps.flatMap((one) => {
    const sendNumber = raised.get(one.effect.id);
    if (sendNumber === undefined) return [];
    return [
      { sealed: one.sealed, signed: signed.get(one.effect.id) ?? one.sealed.variants.at(-1) ?? null, sendNumber },
    ];
  });
  const found = await sendAll(deps, rail, sends, permittedMs + sendWindowMs(deps, rail));
  await deps.pool.tx('wishes done', (tx) =>
    endWishes(
      tx,
      steps
        .map((one) => one.effect)
        // Without permission to send (`raise`) an ask is over too; a send that was too late to begin comes next time.
        .filter((effect) => found.has(effect.id) || (effect.wanted === 'ask' && !raised.has(effect.id))),
    ),
  );
  await record(
    deps,
    rail,
    steps.map((one): Pass => {
      const answer = found.get(one.effect.id);
      return {
        effectId: one.effect.id,
        token: one.effect.leaseToken,
        found: answer === undefined ? [] : [answer],
        nextAfterMs: restMs(rail, one.effect),
        lookedAt: null,
      };
    }),
  );
}

const WISHES_DONE = `update payonce.effects e
set wanted = null
from unnest($1::bigint[], $2::text[]) as u (id, wanted)
where e.id = u.id
  and e.wanted = u.wanted`;

/** Ends the wishes that the claim read, and only those: one that came meanwhile is the next advance's. */
async function endWishes(tx: Tx, effects: readonly EffectRow[]): Promise<void> {
  const wished = effects.filter((effect) => effect.wanted !== null);
  if (wished.length === 0) return;
  await tx.query(WISHES_DONE, [wished.map((effect) => effect.id), wished.map((effect) => effect.wanted)]);
}

function variantKind(one: { sealed: SealedEffect; step: Step }): VariantKind {
  if (one.step === 'cancel') return 'cancel';
  return one.step === 'bump' ? 'bump' : 'original';
}

async function raise(
  pool: Pool,
  steps: readonly { effect: EffectRow; step: Step }[],
  sendForMs: number,
  window: number | null,
): Promise<Map<bigint, number>> {
  return pool.tx('raise', async (tx) => {
    const toItem = ({ effect }: { effect: EffectRow }): { id: bigint; token: bigint; asked: boolean } => ({
      id: effect.id,
      token: effect.leaseToken,
      asked: effect.wanted !== null,
    });
    const plain = await raiseSends(
      tx,
      steps.filter((one) => one.step !== 'cancel').map(toItem),
      sendForMs,
      window,
      true,
    );
    const cancels = await raiseSends(
      tx,
      steps.filter((one) => one.step === 'cancel').map(toItem),
      sendForMs,
      window,
      false,
    );
    return new Map([...plain, ...cancels]);
  });
}
