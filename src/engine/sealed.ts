/** A sealed effect as its rail sees it, and its answers read so that nothing they hold can stop a worker. */
import { InvariantBroken } from '../kernel/errors.ts';
import { storable } from '../kernel/foreign-text.ts';
import type { EngineDeps } from './deps.ts';
import type { Answer, Observation, Rail, SealedEffect, Signed } from './rail.ts';
import { toIntent } from './seal.ts';
import type { EffectRow } from './store.ts';

export function toSealed(effect: EffectRow, variants: readonly Signed[]): SealedEffect {
  if (effect.identity === null || effect.payload === null || effect.sealedAt === null)
    throw new InvariantBroken(`effect ${effect.id} is not sealed`);
  return {
    ...toIntent(effect),
    seal: {
      identity: effect.identity,
      payload: effect.payload,
      expect: effect.expect,
      signer: effect.signer,
      nonce: effect.nonce,
    },
    plan: effect.plan ?? {},
    variants,
    sealedAt: effect.sealedAt,
    acceptedObject: effect.acceptedObject,
  };
}

/** A reader that throws on an odd answer has read nothing: unreadable, never "no". */
export function readSafely(deps: EngineDeps, rail: Rail, answer: Answer, sealed: SealedEffect): Observation {
  try {
    return storable(rail.read(answer, sealed));
  } catch (error) {
    deps.log.warn({ err: error, effect_id: sealed.effectId }, 'an answer could not be read');
    return {
      kind: 'unreadable',
      source: answer.source,
      operator: answer.operator,
      witness: false,
      objectId: null,
      detail: 'the reader failed on it',
      cost: null,
    };
  }
}
