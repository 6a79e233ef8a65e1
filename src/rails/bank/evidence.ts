/**
 * What a profile claims that can free money, or let it be sent again: taken out of the profile for the committed baseline.
 * Each list may shrink; a longer one, a longer retention, a shorter lateness or a smaller scope is a widening (T5).
 */
import type { Profile } from './profile.ts';

export interface ProfileEvidence {
  readonly keyed: boolean;
  readonly retentionMs: number | null;
  readonly latenessMs: number;
  readonly scope: readonly string[];
  readonly replayMark: string | null;
  readonly failedKeepsKey: boolean;
  /** `{status} {code}` each. */
  readonly afterKeyCheck: readonly string[];
  readonly storedUnderKey: readonly string[];
  readonly refusedAtOnce: readonly string[];
  readonly finalRefusals: readonly string[];
  readonly failedStates: readonly string[];
  readonly paidStates: readonly string[];
  readonly notPaidLines: readonly string[];
  readonly absentAnswers: readonly string[];
}

export function evidenceOf(profile: Profile): ProfileEvidence {
  const refusals = profile.codes.flatMap((row) => {
    const { means } = row;
    return means.reads === 'refused' ? row.statuses.map((status) => ({ name: `${status} ${row.code}`, means })) : [];
  });
  const named = (test: (means: (typeof refusals)[number]['means']) => boolean): string[] =>
    [...new Set(refusals.filter((one) => test(one.means)).map((one) => one.name))].sort();
  const states = (meaning: string): string[] =>
    Object.entries(profile.states)
      .filter(([, one]) => one === meaning)
      .map(([name]) => name)
      .sort();
  return {
    keyed: profile.key !== null,
    retentionMs: profile.retentionMs,
    latenessMs: profile.latenessMs,
    scope: [...profile.scope].sort(),
    replayMark: profile.replayMark === null ? null : `${profile.replayMark.header}: ${profile.replayMark.value}`,
    failedKeepsKey: profile.failedKeepsKey !== null,
    afterKeyCheck: named((means) => means.afterKeyCheck !== undefined),
    storedUnderKey: named((means) => means.storedUnderKey !== undefined),
    refusedAtOnce: named((means) => means.atOnce !== undefined),
    finalRefusals: named((means) => means.final),
    failedStates: states('failed'),
    paidStates: states('paid'),
    notPaidLines: Object.entries(profile.lineStates)
      .filter(([, one]) => one === 'not_paid')
      .map(([name]) => name)
      .sort(),
    absentAnswers: profile.lookUps
      .flatMap((one) => one.absent.map((row) => `${one.name} ${row.status} ${row.code}`))
      .sort(),
  };
}

/** Where `now` claims more than `baseline` allows; empty when it claims as much or less. */
export function widenings(baseline: ProfileEvidence, now: ProfileEvidence): readonly string[] {
  const found: string[] = [];
  if (now.keyed && !baseline.keyed) found.push('keyed');
  if (now.keyed && longer(now.retentionMs, baseline.retentionMs)) found.push('retentionMs');
  if (now.latenessMs < baseline.latenessMs) found.push('latenessMs');
  if (now.replayMark !== null && now.replayMark !== baseline.replayMark) found.push('replayMark');
  if (now.failedKeepsKey && !baseline.failedKeepsKey) found.push('failedKeepsKey');
  for (const name of baseline.scope) if (!now.scope.includes(name)) found.push(`scope without ${name}`);
  for (const list of LISTS) {
    for (const one of now[list]) if (!baseline[list].includes(one)) found.push(`${list}: ${one}`);
  }
  return found;
}

const LISTS = [
  'afterKeyCheck',
  'storedUnderKey',
  'refusedAtOnce',
  'finalRefusals',
  'failedStates',
  'paidStates',
  'notPaidLines',
  'absentAnswers',
] as const;

/** `null` is for ever. */
function longer(a: number | null, b: number | null): boolean {
  if (a === null) return b !== null;
  return b !== null && a > b;
}
