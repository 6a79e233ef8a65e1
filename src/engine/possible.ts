/**
 * What a person can do with a case or an effect as it stands now, and why not the rest: the engine's own objections, asked
 * without a lock and without a change. What is possible here may be refused a moment later; then that answer counts.
 */
import { objectionToAct } from './act-now.ts';
import { WISHES, type Wish } from './adjudicate.ts';
import type { EngineDeps } from './deps.ts';
import { type CaseRow, type Detail, flowObjection, objectionTo, type Verb, VERBS } from './proposals.ts';
import { type EffectRow, loadEffects } from './store.ts';

/** What a proposal names beside its reason, in its `Detail`. */
type Needed =
  | 'evidenceId'
  | 'deposit_id'
  | 'chain'
  | 'from_block'
  | 'line'
  | 'fate'
  | 'finding'
  | 'as'
  | 'reference'
  | 'relayer'
  | 'amount'
  | 'direction';

const NEEDS: Partial<Readonly<Record<Verb, readonly Needed[]>>> = {
  strike: ['evidenceId'],
  reverse_deposit: ['deposit_id'],
  resume_scan: ['chain', 'from_block'],
  decide_line: ['line', 'fate'],
  repair: ['finding', 'as'],
  fund: ['reference'],
  allowance: ['relayer'],
  p2p_correct: ['amount', 'direction'],
  p2p_surplus: ['as'],
};

const needsOf = (verb: Verb): readonly Needed[] => NEEDS[verb] ?? [];

/** What a proposal of this verb lacks; a second person must not find out what the first one forgot. */
export function missingIn(verb: Verb, detail: Detail): Needed | null {
  return needsOf(verb).find((name) => (detail[name] ?? '') === '') ?? null;
}

export interface PossibleVerb {
  readonly verb: Verb;
  readonly possible: boolean;
  readonly why_not: string | null;
  readonly needs: readonly Needed[];
}

/** For each verb of two persons. Those that need more than a reason are judged in full when they are proposed. */
export async function verbsNow(deps: EngineDeps, about: CaseRow): Promise<PossibleVerb[]> {
  const [effect] = about.effectId === null ? [] : await loadEffects(deps.pool, [about.effectId]);
  const reason = { reason: '' };
  return Promise.all(
    VERBS.map(async (verb) => {
      const needs = needsOf(verb);
      const why =
        (about.closed ? 'the case is closed' : objectionTo(deps, verb, about, effect)) ??
        (needs.length === 0 ? await flowObjection(deps, about.id, verb, reason) : null);
      return { verb, possible: why === null, why_not: why, needs };
    }),
  );
}

export interface PossibleAct {
  readonly act: Wish;
  readonly possible: boolean;
  readonly why_not: string | null;
}

/** For each act of one person on an effect. */
export function actsNow(effect: EffectRow): PossibleAct[] {
  return WISHES.map((act) => {
    const why = objectionToAct(effect, act);
    return { act, possible: why === null, why_not: why };
  });
}
