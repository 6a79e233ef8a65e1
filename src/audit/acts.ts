/** The audit log as people read it: who did what, the latest first. */
import type { Query } from '../db/pool.ts';

export interface Act {
  readonly seq: bigint;
  readonly at: Date;
  readonly actor: string;
  /** Null: `bootstrap`, or the machine. */
  readonly actor_name: string | null;
  readonly action: string;
  readonly object: string;
  /** Null: erased at a person's request; its digest stays in the chain. */
  readonly detail: unknown;
}

const LIST = `select l.seq, l.at, l.actor, o.name as actor_name, l.action, l.object, l.detail
from payonce.audit_log l
left join payonce.operators o on o.id = l.actor
where ($1::text is null or l.object = $1)
  and ($3::bigint is null or l.seq < $3)
order by l.seq desc
limit $2`;

export interface ActFilter {
  /** What it was done to, as `case_…`, `effect:12`, `evm:1`; null: anything. */
  readonly object: string | null;
  readonly limit: number;
  /** Only acts before this one; absent: from the latest on. */
  readonly before?: bigint | null;
}

export async function listActs(query: Query, { object, limit, before }: ActFilter): Promise<Act[]> {
  return (await query.query<Act & Record<string, unknown>>(LIST, [object, limit, before ?? null])).rows;
}
