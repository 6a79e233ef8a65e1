/** What chains plan and seal alike of a contract call: the quote that binds it, its lines, and who takes the wallet's tokens. Pure. */
import type { EffectIntent, Plan, PlanContext } from '../engine/rail.ts';
import { assert } from '../kernel/errors.ts';
import { unitsOf } from './json.ts';
import { chainLines } from './multi-send.ts';

/** The intent as it is planned and sealed: with the minimum that was quoted, where its call is bound by one. */
export function quotedIntent(intent: EffectIntent, minimum: bigint | undefined): EffectIntent {
  const { call } = intent;
  if (call?.minimum === undefined || minimum === undefined) return intent;
  const { word, log } = call.minimum;
  const start = 2 + 8 + 64 * word;
  assert(call.data.length >= start + 64 && log < call.logs.length, 'the call has no such word or log for its minimum');
  const data = call.data.slice(0, start) + minimum.toString(16).padStart(64, '0') + call.data.slice(start + 64);
  const logs = call.logs.map((one, index) => (index === log ? { ...one, minimum } : one));
  return { ...intent, call: { ...call, data, logs } };
}

/** The quote as the plan keeps it: what is sealed by it never gets a newer one. */
export function planOfQuote(intent: EffectIntent, { minimums }: PlanContext): Plan {
  const minimum = minimums?.get(intent.effectId);
  return intent.call?.minimum === undefined || minimum === undefined ? {} : { minimum: minimum.toString() };
}

export function quoteInPlan(plan: Plan): bigint | undefined {
  return unitsOf(plan['minimum']) ?? undefined;
}

/** What no node has to be asked for. */
export function termsFault(
  effect: EffectIntent,
  { minimums }: PlanContext,
): { readonly reason: 'BATCH_REFUSED' | 'QUOTE_TOO_LOW'; readonly detail: string } | null {
  const lines = chainLines(effect);
  if (lines !== null && 'fault' in lines) return { reason: 'BATCH_REFUSED', detail: lines.fault };
  const [quoted, least] = [minimums?.get(effect.effectId), effect.call?.minimum?.least];
  if (quoted === undefined || least === undefined || quoted >= least) return null;
  return {
    reason: 'QUOTE_TOO_LOW',
    detail: `by today’s quote at least ${quoted} units come out, and ${least} are the least that is accepted`,
  };
}

/** Whom the wallet must allow to take its tokens, and how people know it; `null`: nobody, or a call that says so itself. */
export function spenderOf(
  effect: EffectIntent,
  canonical: (address: string) => string,
): { readonly address: string; readonly name: string } | null {
  if (effect.lines !== undefined) {
    const address = canonical(effect.destination);
    return { address, name: `the multi-send contract ${address}` };
  }
  const address = canonical(effect.signer);
  if (effect.call !== null || address === canonical(effect.wallet)) return null;
  return { address, name: `the relayer ${address}` };
}
