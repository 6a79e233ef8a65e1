/**
 * What a profile claims that can free money, or let it be sent again: taken out of the profile for the rail's committed baseline.
 * Each list may shrink; a longer one, a longer retention, a shorter lateness or a smaller scope is a widening (T5).
 */
import type { Item, KeyedProfile } from './keyed-profile.ts';

export interface KeyedEvidence {
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
  readonly absentAnswers: readonly string[];
}

export function keyedEvidenceOf(profile: KeyedProfile<Item, never>): KeyedEvidence {
  const refusals = profile.codes.flatMap((row) => {
    const { means } = row;
    return means.reads === 'refused' ? row.statuses.map((status) => ({ name: `${status} ${row.code}`, means })) : [];
  });
  const named = (test: (means: (typeof refusals)[number]['means']) => boolean): string[] =>
    [...new Set(refusals.filter((one) => test(one.means)).map((one) => one.name))].sort();
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
    absentAnswers: profile.lookUps
      .flatMap((one) => one.absent.map((row) => `${one.name} ${row.status} ${row.code}`))
      .sort(),
  };
}

/** The names of `table` that have this meaning. */
export function namesWith<Meaning>(table: Readonly<Record<string, Meaning>>, meaning: Meaning): string[] {
  return Object.entries(table)
    .filter(([, one]) => one === meaning)
    .map(([name]) => name)
    .sort();
}

const LISTS = ['afterKeyCheck', 'storedUnderKey', 'refusedAtOnce', 'finalRefusals', 'absentAnswers'] as const;

/** Where `now` claims more than `baseline` allows; empty when it claims as much or less. `lists` are the rail's own. */
export function keyedWidenings<Own extends string>(
  baseline: KeyedEvidence & Readonly<Record<Own, readonly string[]>>,
  now: KeyedEvidence & Readonly<Record<Own, readonly string[]>>,
  lists: readonly Own[],
): readonly string[] {
  const found: string[] = [];
  if (now.keyed && !baseline.keyed) found.push('keyed');
  if (now.keyed && longer(now.retentionMs, baseline.retentionMs)) found.push('retentionMs');
  if (now.latenessMs < baseline.latenessMs) found.push('latenessMs');
  if (now.replayMark !== null && now.replayMark !== baseline.replayMark) found.push('replayMark');
  if (now.failedKeepsKey && !baseline.failedKeepsKey) found.push('failedKeepsKey');
  for (const name of baseline.scope) if (!now.scope.includes(name)) found.push(`scope without ${name}`);
  for (const list of [...LISTS, ...lists]) {
    for (const one of now[list]) if (!baseline[list].includes(one)) found.push(`${list}: ${one}`);
  }
  return found;
}

/** `null` is for ever. */
function longer(a: number | null, b: number | null): boolean {
  if (a === null) return b !== null;
  return b !== null && a > b;
}
