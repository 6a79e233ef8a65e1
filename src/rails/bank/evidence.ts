/** What a bank's profile claims that can free money, for `test/rails/bank-baseline.json` (T5). */
import { type KeyedEvidence, keyedEvidenceOf, keyedWidenings, namesWith } from '../keyed-evidence.ts';
import type { Profile } from './profile.ts';

export interface ProfileEvidence extends KeyedEvidence {
  readonly failedStates: readonly string[];
  readonly paidStates: readonly string[];
  readonly notPaidLines: readonly string[];
}

export function evidenceOf(profile: Profile): ProfileEvidence {
  return {
    ...keyedEvidenceOf(profile),
    failedStates: namesWith(profile.states, 'failed'),
    paidStates: namesWith(profile.states, 'paid'),
    notPaidLines: namesWith(profile.lineStates, 'not_paid'),
  };
}

/** Where `now` claims more than `baseline` allows; empty when it claims as much or less. */
export function widenings(baseline: ProfileEvidence, now: ProfileEvidence): readonly string[] {
  return keyedWidenings(baseline, now, ['failedStates', 'paidStates', 'notPaidLines']);
}
