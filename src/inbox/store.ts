/**
 * The inbox's statements. READ COMMITTED. Locks: one inbox row, last in a handler's transaction, so that a redelivery
 * that comes meanwhile waits for nobody; several at a claim, by SKIP LOCKED.
 *
 * The number of attempts is the fence: a claim raises it, and what a claim began may only be marked under its number.
 */
import type { Tx } from '../db/pool.ts';

export interface Arrival {
  readonly source: string;
  readonly externalId: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

const STORE = `insert into payonce.inbox as i (source, external_id, headers, body)
values ($1, $2, $3, $4)
on conflict (source, external_id) do update
set redeliveries = i.redeliveries + 1
returning i.id, i.redeliveries, i.body = $4 as same_body`;

/** Stores an event, or counts it where it is stored already. */
export async function storeArrival(
  tx: Tx,
  arrival: Arrival,
): Promise<{ id: bigint; redeliveries: number; sameBody: boolean }> {
  const { rows } = await tx.query<{ id: bigint; redeliveries: number; same_body: boolean }>(STORE, [
    arrival.source,
    arrival.externalId,
    JSON.stringify(arrival.headers),
    Buffer.from(arrival.body),
  ]);
  const row = rows[0];
  if (row === undefined) throw new Error('an event was neither stored nor found');
  return { id: row.id, redeliveries: row.redeliveries, sameBody: row.same_body };
}

export interface InboxEvent {
  readonly id: bigint;
  readonly source: string;
  readonly externalId: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The bytes as they came. */
  readonly body: Buffer;
  readonly receivedAt: Date;
  /** The attempt now beginning; the first is 1. */
  readonly attempts: number;
  readonly ageMs: number;
}

const CLAIM = `update payonce.inbox i
set attempts = i.attempts + 1,
    next_at = payonce.now() + $1::float8 * interval '1 millisecond'
where i.id = any (array(
    select w.id
    from payonce.inbox w
    where w.state in ('new', 'unmatched')
      and w.next_at <= (select payonce.now())
    order by w.next_at, w.id
    limit $2
    for update skip locked))
returning i.id, i.source, i.external_id, i.headers, i.body, i.received_at, i.attempts,
  (extract(epoch from payonce.now() - i.received_at) * 1000)::float8 as age_ms`;

interface ClaimedRow extends Record<string, unknown> {
  id: bigint;
  source: string;
  external_id: string;
  headers: Record<string, string>;
  body: Buffer;
  received_at: Date;
  attempts: number;
  age_ms: number;
}

/** Takes due events for `leaseMs`, oldest first. */
export async function claimEvents(tx: Tx, leaseMs: number, eventsMax: number): Promise<InboxEvent[]> {
  const { rows } = await tx.query<ClaimedRow>(CLAIM, [leaseMs, eventsMax]);
  return rows
    .map((row) => ({
      id: row.id,
      source: row.source,
      externalId: row.external_id,
      headers: row.headers,
      body: row.body,
      receivedAt: row.received_at,
      attempts: row.attempts,
      ageMs: row.age_ms,
    }))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
}

const MARK = `update payonce.inbox
set state = $3,
    last_error = $4,
    next_at = payonce.now() + $5::float8 * interval '1 millisecond',
    done_at = case when $3 = 'done' then payonce.now() end
where id = $1
  and attempts = $2
  and state in ('new', 'unmatched')`;

export interface Mark {
  readonly state: 'new' | 'done' | 'unmatched' | 'dead';
  readonly error: string | null;
  readonly againInMs: number;
}

/** The one place where an event's state is written; 0 rows: another worker has taken it over. */
export async function markEvent(tx: Tx, event: Pick<InboxEvent, 'id' | 'attempts'>, mark: Mark): Promise<boolean> {
  const { rowCount } = await tx.query(MARK, [event.id, event.attempts, mark.state, mark.error, mark.againInMs]);
  return rowCount === 1;
}

const REVIVE = `update payonce.inbox
set state = 'new',
    attempts = 0,
    next_at = payonce.now()
where id = any (array(
    select w.id from payonce.inbox w where w.id = any ($1::bigint[]) and w.state = 'dead' order by w.id for update))`;

/** A person has mended what was in the way: the events are worked again. Answers how many there were. */
export async function reviveEvents(tx: Tx, ids: readonly bigint[]): Promise<number> {
  return (await tx.query(REVIVE, [ids])).rowCount;
}

/** By way of the few chains, since the tables' keys begin with the chain. */
const KNOWN = `with chains as (
  select distinct chain from payonce.assets
)
select
  exists (select 1 from payonce.effect_variants v where v.hash = any ($1::text[]))
  or exists (select 1 from chains c join payonce.chain_transfers t on t.chain = c.chain and t.tx_hash = any ($1::text[]))
  or exists (select 1 from chains c join payonce.addresses a on a.chain = c.chain and a.address = any ($2::text[])) as known`;

/** Whether one of these transactions or addresses is ours. Canonical spelling (lower case). */
export async function loadKnown(tx: Tx, hashes: readonly string[], addresses: readonly string[]): Promise<boolean> {
  const { rows } = await tx.query<{ known: boolean }>(KNOWN, [hashes, addresses]);
  return rows[0]?.known === true;
}
