/** What a profile of trades claims that can free money, for `test/rails/escrow-baseline.json` (T5). */
import { type KeyedEvidence, keyedEvidenceOf, keyedWidenings, namesWith } from '../keyed-evidence.ts';
import type { TradeProfile } from './profile.ts';

export interface TradeEvidence extends KeyedEvidence {
  readonly endedStates: readonly string[];
  readonly releasedStates: readonly string[];
}

export function tradeEvidenceOf(profile: TradeProfile): TradeEvidence {
  return {
    ...keyedEvidenceOf(profile),
    endedStates: namesWith(profile.states, 'ended'),
    releasedStates: namesWith(profile.states, 'released'),
  };
}

/** Where `now` claims more than `baseline` allows; empty when it claims as much or less. */
export function tradeWidenings(baseline: TradeEvidence, now: TradeEvidence): readonly string[] {
  return keyedWidenings(baseline, now, ['endedStates', 'releasedStates']);
}
