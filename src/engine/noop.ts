/**
 * A rail on which nothing moves and everything succeeds at once: for measuring the engine itself and for its tests.
 * `behave` lets a test answer as it likes.
 */
import { deriveRailKey } from '../kernel/ids.ts';
import type { Answer, Capabilities, EffectIntent, Observation, Rail, SealedEffect } from './rail.ts';

export const NOOP_CAPABILITIES: Capabilities = {
  keyed: true,
  keyRetentionMs: null,
  latenessMs: 30 * 60_000,
  decideWithinMs: 60 * 60_000,
  sequenced: false,
  inFlightPerSignerMax: 1_000,
  lookUp: true,
  absenceWitnesses: 1,
  sendConcurrencyMax: 100,
  lookEveryMs: 1_000,
  resendAfterMs: 5_000,
  bumpAfterMs: null,
  bumpsMax: 0,
};

export interface NoopBehaviour {
  send?(sealed: SealedEffect): Promise<Partial<Observation>>;
  look?(sealed: SealedEffect): Promise<readonly Partial<Observation>[]>;
}

export function makeNoopRail(name: string, behave: NoopBehaviour = {}, capabilities: Partial<Capabilities> = {}): Rail {
  const toAnswer = (operation: 'send' | 'look', seen: Partial<Observation>): Answer => ({
    operation,
    source: seen.source ?? 'noop',
    operator: seen.operator ?? 'noop',
    reach: seen.kind === 'never_left' ? 'never_connected' : 'answer',
    status: 200,
    body: JSON.stringify({ kind: 'final_success', ...seen }),
    variantHash: null,
  });
  return {
    name,
    capabilities: { ...NOOP_CAPABILITIES, ...capabilities },
    plan: (effects) => Promise.resolve(effects.map(() => ({ verdict: 'ready', plan: {} }))),
    seal: (effect: EffectIntent) => ({
      identity: `${name}:${deriveRailKey('noop', effect.signer, `${effect.subjectType}${effect.naturalKey}`, effect.seq)}`,
      payload: Buffer.from(`{"to":"${effect.destination}","amount":"${effect.amount}"}`),
      expect: { amount: effect.amount.toString() },
      signer: null,
      nonce: null,
    }),
    send: async (sealed) => toAnswer('send', (await behave.send?.(sealed)) ?? {}),
    look: async (sealed) =>
      Promise.all(
        sealed.map(async (one) => ((await behave.look?.(one)) ?? [{}]).map((seen) => toAnswer('look', seen))),
      ),
    read: (answer) => {
      const seen = JSON.parse(answer.body) as Partial<Observation> & Pick<Observation, 'kind'>;
      return {
        source: answer.source,
        operator: answer.operator,
        witness: true,
        objectId: null,
        detail: 'noop',
        cost: null,
        ...seen,
      };
    },
  };
}
