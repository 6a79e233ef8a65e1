/**
 * The outbox: partner events, written in the transition's own transaction (D7) and sent after its commit by the courier.
 *
 * Promises: one event per transition, numbered without gaps per subject (inv N2), whose body is built here once and never
 * changes again; a delivery row for each endpoint of the partner comes into being in the same statement (a trigger).
 * Never: a send inside a transaction; an event that was not committed.
 *
 * Lock order: the subjects' rows, by (type, id), last of all locks in a settling transaction.
 */
import type { Tx } from '../db/pool.ts';
import type { MakeId } from '../kernel/ids.ts';

/** The version of the events' shape; raised when a field changes meaning or goes. */
export const EVENT_API_VERSION = '2026-11-30';

export interface NewEvent {
  readonly subjectType: string;
  readonly subjectId: string;
  /** `noun.past`, e.g. `withdrawal.confirmed`. */
  readonly type: string;
  /** What the partner sees; amounts as decimal text. */
  readonly data: { readonly [key: string]: unknown };
}

const EMIT = `with wanted as (
  select n, event_id, subject_type, subject_id, type, data,
         row_number() over (partition by subject_type, subject_id order by n) as nth
  from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) with ordinality as u (event_id, subject_type, subject_id, type, data, n)
),
locked as (
  select s.type, s.id from payonce.subjects s
  where (s.type, s.id) in (select subject_type, subject_id from wanted)
  order by s.type, s.id
  for no key update
),
raised as (
  update payonce.subjects s
  set event_seq = s.event_seq + c.how_many
  from (select subject_type, subject_id, count(*) as how_many from wanted group by 1, 2) c
  join locked l on l.type = c.subject_type and l.id = c.subject_id
  where s.type = c.subject_type and s.id = c.subject_id
  returning s.type, s.id, s.partner_id, s.event_seq - c.how_many as before
)
insert into payonce.events (event_id, partner_id, subject_type, subject_id, sequence, type, api_version, body)
select w.event_id, r.partner_id, w.subject_type, w.subject_id, r.before + w.nth, w.type, $6,
       json_build_object(
         'id', w.event_id, 'type', w.type, 'api_version', $6::text, 'timestamp', to_char(payonce.now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
         'subject', json_build_object('type', w.subject_type, 'id', w.subject_id), 'sequence', (r.before + w.nth)::text, 'data', w.data::json)::text
from wanted w
join raised r on r.type = w.subject_type and r.id = w.subject_id
order by w.n`;

/** Writes events in order. Durable with the caller's commit; the subjects must exist. */
export async function emit(tx: Tx, makeId: MakeId, events: readonly NewEvent[]): Promise<void> {
  if (events.length === 0) return;
  const { rowCount } = await tx.query(EMIT, [
    events.map(() => makeId('evt')),
    events.map((event) => event.subjectType),
    events.map((event) => event.subjectId),
    events.map((event) => event.type),
    events.map((event) => JSON.stringify(event.data)),
    EVENT_API_VERSION,
  ]);
  if (rowCount !== events.length)
    throw new Error(`emitted ${rowCount} of ${events.length} events: a subject is missing`);
}
