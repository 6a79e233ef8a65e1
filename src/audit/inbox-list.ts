/** Inbound events as people read them: what came, what became of it, and the bytes as they came. Reads only. */
import type { Query } from '../db/pool.ts';
import { PayonceError } from '../kernel/errors.ts';

export const INBOX_STATES = ['new', 'done', 'unmatched', 'dead'] as const;
export type InboxState = (typeof INBOX_STATES)[number];

export interface ListedEvent {
  readonly id: string;
  readonly source: string;
  readonly external_id: string;
  readonly state: InboxState;
  readonly received_at: Date;
  readonly redeliveries: number;
  readonly attempts: number;
  readonly next_at: Date;
  readonly last_error: string | null;
  readonly done_at: Date | null;
}
export interface ShownEvent extends ListedEvent {
  readonly headers: unknown;
  /** As it came; what is no UTF-8 is shown as U+FFFD. */
  readonly body: string;
}

const COLUMNS = `id::text as id, source, external_id, state, received_at, redeliveries, attempts, next_at, last_error, done_at`;

const LIST = `select ${COLUMNS}
from payonce.inbox i
where ($1::text is null or i.state = $1)
  and ($2::text is null or i.source = $2)
order by i.id desc
limit $3`;

/** The latest first. */
export async function listEvents(
  query: Query,
  filter: { readonly state: InboxState | null; readonly source: string | null; readonly limit: number },
): Promise<ListedEvent[]> {
  return (await query.query<ListedEvent & Record<string, unknown>>(LIST, [filter.state, filter.source, filter.limit]))
    .rows;
}

const READ = `select ${COLUMNS}, headers, body
from payonce.inbox
where id::text = $1
   or external_id = $1
   or source || ':' || external_id = $1
order by id
limit 1`;

/** By its number, the source's own id of it, or `source:id` as in a case's subject. */
export async function readEvent(query: Query, asked: string): Promise<ShownEvent> {
  const { rows } = await query.query<Omit<ShownEvent, 'body'> & { body: Uint8Array } & Record<string, unknown>>(READ, [
    asked.replace(/^inbox:/, ''),
  ]);
  const [row] = rows;
  if (row === undefined)
    throw new PayonceError('PO_NOT_FOUND', { detail: `There is no inbound event ${asked} (payonce inbox list)` });
  return { ...row, body: Buffer.from(row.body).toString('utf8') };
}
