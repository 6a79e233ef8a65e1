/** The whole story of a case: what people proposed and noted, and the story of the effect that it is about. */
import type { Query } from '../db/pool.ts';
import { type ListedCase, readListedCase } from './case-list.ts';
import { type EffectStory, readEffects, readEvents, type StoryEvent } from './story.ts';

type Rows<T> = T & Record<string, unknown>;

export interface StoryProposal {
  readonly id: string;
  readonly verb: string;
  readonly detail: unknown;
  readonly evidence_version: number;
  readonly proposed_by: string;
  readonly proposed_at: Date;
  readonly approved_by: string | null;
  readonly decided_at: Date | null;
  readonly state: string;
  /** An open one whose evidence has changed since: approving it makes it void. */
  readonly is_stale: boolean;
}
export interface StoryNote {
  readonly by: string;
  readonly note: string;
  readonly at: Date;
}
export interface CaseStory extends ListedCase {
  readonly proposals: readonly StoryProposal[];
  readonly notes: readonly StoryNote[];
  readonly effect: EffectStory | null;
  readonly events: readonly StoryEvent[];
}

const PROPOSALS = `select p.id, p.verb, p.detail, p.evidence_version, o.name as proposed_by, p.proposed_at, q.name as approved_by,
       p.decided_at, p.state, p.state = 'open' and p.evidence_version <> coalesce(e.evidence_version, 0) as is_stale
from payonce.proposals p
join payonce.cases k on k.id = p.case_id
join payonce.operators o on o.id = p.proposed_by
left join payonce.operators q on q.id = p.approved_by
left join payonce.effects e on e.id = k.effect_id
where p.case_id = $1
order by p.proposed_at, p.id`;

const NOTES = `select o.name as by, n.note, n.at
from payonce.case_notes n
join payonce.operators o on o.id = n.operator_id
where n.case_id = $1
order by n.id`;

/** `bodyCharactersMax`: raw answers are cut there. */
export async function readCase(query: Query, id: string, bodyCharactersMax?: number): Promise<CaseStory> {
  const one = await readListedCase(query, id);
  const proposals = (await query.query<Rows<StoryProposal>>(PROPOSALS, [id])).rows;
  const notes = (await query.query<Rows<StoryNote>>(NOTES, [id])).rows;
  const ids = one.effect_id === null ? [] : [BigInt(one.effect_id)];
  const effect = (await readEffects(query, ids, bodyCharactersMax))[0] ?? null;
  const events = effect === null ? [] : await readEvents(query, effect.subject_type, effect.subject_id);
  return { ...one, proposals, notes, effect, events };
}
