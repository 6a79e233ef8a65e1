/**
 * Sending: signed variants are stored before they leave, sends run concurrently under the rail's limit, and what is too
 * late on our own clock is not begun. No transaction is open while anything is signed or sent (W10).
 */
import { InvariantBroken } from '../kernel/errors.ts';
import { raiseAlert } from './alerts.ts';
import type { EngineDeps } from './deps.ts';
import { storeVariants } from './evidence-store.ts';
import type { Found } from './judge.ts';
import { sendWindowMs } from './lease.ts';
import type { Rail, SealedEffect, Signed, VariantKind } from './rail.ts';
import { readSafely } from './sealed.ts';

export interface ToSign {
  readonly sealed: SealedEffect;
  readonly kind: VariantKind;
}
export interface ToSend {
  readonly sealed: SealedEffect;
  readonly signed: Signed | null;
}

/** DURABLE: every signed variant, before it is sent. A signature that fails leaves its effect to the next pass. */
export async function signAndStore(deps: EngineDeps, rail: Rail, list: readonly ToSign[]): Promise<ToSend[]> {
  if (rail.sign === undefined || rail.specify === undefined)
    return list.map((one) => ({ sealed: one.sealed, signed: null }));
  const signed = await Promise.all(
    list.map(async ({ sealed, kind }) => {
      try {
        return { sealed, signed: await signOne(rail, sealed, kind) };
      } catch (error) {
        deps.log.warn({ err: error, effect_id: sealed.effectId, kind }, 'a variant could not be signed');
        const why = error instanceof Error ? error.message : 'unknown fault';
        // The fee cap, or a signer that does not answer: people must know, since nothing moves by itself.
        await raiseAlert(
          deps.pool,
          'variant_unsigned',
          `effect:${sealed.effectId}:${kind}`,
          `${kind} of ${sealed.subjectType} ${sealed.subjectId}: ${why}`,
          deps.log,
        );
        return null;
      }
    }),
  );
  const good = signed.filter((one) => one !== null);
  await deps.pool.tx('store variants', (tx) =>
    storeVariants(
      tx,
      good.map((one) => ({ effectId: one.sealed.effectId, signed: one.signed })),
    ),
  );
  return good;
}

async function signOne(rail: Rail, sealed: SealedEffect, kind: VariantKind): Promise<Signed> {
  if (rail.sign === undefined || rail.specify === undefined)
    throw new InvariantBroken(`rail ${rail.name} does not sign`);
  return rail.sign(sealed, await rail.specify(sealed, kind));
}

/** By rail: how long one send of the last pass took, in ms. */
const lastTook = new WeakMap<Rail, number>();

/**
 * So many a pass may begin before its permission has grown old, at the pace of the last one (design §2: seal no more than can be
 * sent). What was never measured is not bounded, and what may go at once always goes, so that a pace is measured anew.
 */
export function sendsFit(deps: EngineDeps, rail: Rail): number {
  const tookMs = lastTook.get(rail);
  if (tookMs === undefined) return Number.POSITIVE_INFINITY;
  const rounds = Math.max(1, Math.floor(sendWindowMs(deps, rail) / Math.max(tookMs, 1)));
  return rounds * rail.capabilities.sendConcurrencyMax;
}

/** Sends concurrently under the rail's limit; what is too late on our own clock is not sent. */
export async function sendAll(
  deps: EngineDeps,
  rail: Rail,
  list: readonly (ToSend & { sendNumber: number })[],
  sendUntilMs: number,
): Promise<Map<bigint, Found>> {
  const found = new Map<bigint, Found>();
  const queue = [...list];
  let tookMs = 0;
  async function sendNext(): Promise<void> {
    for (let one = queue.shift(); one !== undefined; one = queue.shift()) {
      if (deps.ports.clock.monotonicMs() >= sendUntilMs) continue;
      deps.counters.sends += 1;
      const beganMs = deps.ports.clock.monotonicMs();
      const answer = await rail.send(one.sealed, one.signed);
      tookMs += deps.ports.clock.monotonicMs() - beganMs;
      found.set(one.sealed.effectId, {
        answer,
        observation: readSafely(deps, rail, answer, one.sealed),
        sendNumber: one.sendNumber,
      });
    }
  }
  await Promise.all(Array.from({ length: Math.min(rail.capabilities.sendConcurrencyMax, list.length) }, sendNext));
  if (found.size > 0) lastTook.set(rail, tookMs / found.size);
  return found;
}

/** `first_sent_at + least(keyRetention/2, keyRetention − lateness)`; afterwards the same key may be a new payment. */
export function keyWindowMs(rail: Rail): number | null {
  const { keyRetentionMs, latenessMs, keyed } = rail.capabilities;
  if (!keyed) return 0;
  if (keyRetentionMs === null) return null;
  return Math.min(keyRetentionMs / 2, keyRetentionMs - (latenessMs ?? 0));
}
