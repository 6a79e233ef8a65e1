/**
 * The courier's statements. READ COMMITTED. Locks: deliveries by SKIP LOCKED at the claim, by the lease's token at the
 * record; endpoints only where one is disabled, after the deliveries.
 *
 * A delivery's lease is its token: the claim raises it, the record names it, so a courier whose lease ran out and was
 * taken over records nothing. The order of a subject is kept by the claim: a delivery with a waiting predecessor at the
 * same endpoint is not offered. Blocked ones are moved behind their predecessor's next attempt, else an endpoint that is
 * down for days would have the claim walk over all of them again and again.
 */
import type { Tx } from '../db/pool.ts';

export interface Claimed {
  readonly id: bigint;
  readonly token: bigint;
  readonly endpointId: string;
  /** The attempt now beginning; the first is 1. */
  readonly attempts: number;
  readonly eventId: string;
  readonly type: string;
  readonly body: string;
  readonly timestampSeconds: string;
  readonly url: string;
  readonly secretVersion: number;
  readonly disabled: boolean;
}

/** Endpoints take turns, beginning after the one served last, so that one with a long queue cannot keep the others out. */
const CLAIM = `update payonce.deliveries d
set lease_token = d.lease_token + 1,
    lease_until = payonce.now() + $1::float8 * interval '1 millisecond',
    attempts = d.attempts + 1
from payonce.endpoints p, payonce.events e
where d.id = any (array(
    select c.id
    from (select id from payonce.endpoints order by id collate "C" <= $3, id collate "C") turn
    cross join lateral (
      select w.id
      from payonce.deliveries w
      where w.endpoint_id = turn.id
        and w.state = 'waiting'
        and w.next_at <= (select payonce.now())
        and (w.lease_until is null or w.lease_until <= (select payonce.now()))
        and not exists (
          select 1 from payonce.deliveries b
          where b.endpoint_id = w.endpoint_id
            and b.subject_type = w.subject_type
            and b.subject_id = w.subject_id
            and b.sequence < w.sequence
            and b.state = 'waiting')
      order by w.next_at, w.id
      limit greatest(0, $4::int - coalesce((select u.flying from unnest($5::text[], $6::int[]) u (id, flying) where u.id = turn.id), 0))
      for update skip locked) c
    limit $2))
  and p.id = d.endpoint_id
  and e.id = d.event_id
returning d.id, d.lease_token, d.endpoint_id, d.attempts, e.event_id, e.type, e.body,
  floor(extract(epoch from payonce.now()))::bigint::text as timestamp, p.url, p.secret_version, p.disabled_at is not null as disabled`;

interface ClaimedRow extends Record<string, unknown> {
  id: bigint;
  lease_token: bigint;
  endpoint_id: string;
  attempts: number;
  event_id: string;
  type: string;
  body: string;
  timestamp: string;
  url: string;
  secret_version: number;
  disabled: boolean;
}

export interface ClaimWish {
  readonly leaseMs: number;
  readonly deliveriesMax: number;
  /** The endpoint served last; '' for none. */
  readonly afterEndpoint: string;
  readonly perEndpointMax: number;
  /** Sends of this process that are still in the air, per endpoint. */
  readonly flying: ReadonlyMap<string, number>;
}

/** Leases due deliveries, the lowest waiting one of each (endpoint, subject). */
export async function claimDeliveries(tx: Tx, wish: ClaimWish): Promise<Claimed[]> {
  const { rows } = await tx.query<ClaimedRow>(CLAIM, [
    wish.leaseMs,
    wish.deliveriesMax,
    wish.afterEndpoint,
    wish.perEndpointMax,
    [...wish.flying.keys()],
    [...wish.flying.values()],
  ]);
  return rows.map((row) => ({
    id: row.id,
    token: row.lease_token,
    endpointId: row.endpoint_id,
    attempts: row.attempts,
    eventId: row.event_id,
    type: row.type,
    body: row.body,
    timestampSeconds: row.timestamp,
    url: row.url,
    secretVersion: row.secret_version,
    disabled: row.disabled,
  }));
}

const RECORD = `with outcome as (
  select *
  from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::int[], $6::text[], $7::boolean[])
    as o (id, token, state, delay_ms, status, error, gone)
),
recorded as (
  update payonce.deliveries d
  set state = o.state,
      next_at = payonce.now() + o.delay_ms::float8 * interval '1 millisecond',
      lease_until = null,
      last_status = o.status,
      last_error = o.error,
      ended_at = case when o.state = 'waiting' then null else payonce.now() end
  from outcome o
  where d.id = o.id
    and d.lease_token = o.token
    and d.state = 'waiting'
  returning d.id, d.endpoint_id, d.subject_type, d.subject_id, d.sequence, d.next_at, o.gone, o.error
),
followed as (
  update payonce.deliveries f
  set next_at = r.next_at
  from recorded r
  where f.endpoint_id = r.endpoint_id
    and f.subject_type = r.subject_type
    and f.subject_id = r.subject_id
    and f.sequence > r.sequence
    and f.state = 'waiting'
    and f.id <> all ($1::bigint[])
    and (f.lease_until is null or f.lease_until <= payonce.now())
),
disabled as (
  update payonce.endpoints p
  set disabled_at = payonce.now(),
      disabled_reason = r.error
  from (select distinct endpoint_id, error from recorded where gone) r
  where p.id = r.endpoint_id
    and p.disabled_at is null
)
select id from recorded`;

export interface Recorded {
  readonly id: bigint;
  readonly token: bigint;
  readonly state: 'waiting' | 'delivered' | 'dead';
  readonly delayMs: number;
  readonly status: number | null;
  readonly error: string | null;
  /** The endpoint is disabled with it. */
  readonly gone: boolean;
}

/** Writes the outcomes of attempts; answers the ids whose lease still stood. */
export async function recordAttempts(tx: Tx, attempts: readonly Recorded[]): Promise<Set<bigint>> {
  const { rows } = await tx.query<{ id: bigint }>(RECORD, [
    attempts.map((one) => one.id),
    attempts.map((one) => one.token),
    attempts.map((one) => one.state),
    attempts.map((one) => one.delayMs),
    attempts.map((one) => one.status),
    attempts.map((one) => one.error),
    attempts.map((one) => one.gone),
  ]);
  return new Set(rows.map((row) => row.id));
}

const REPLAY = `update payonce.deliveries d
set state = 'waiting',
    attempts = 0,
    next_at = payonce.now(),
    ended_at = null
where d.id = any (array(
    select w.id from payonce.deliveries w where w.id = any ($1::bigint[]) and w.state <> 'waiting' order by w.id for update))
returning d.id`;

/** Sends ended deliveries again, from the first attempt: same row, same id, same bytes. Answers how many there were. */
export async function replayDeliveries(tx: Tx, ids: readonly bigint[]): Promise<number> {
  return (await tx.query(REPLAY, [ids])).rowCount;
}

const REPLAY_EVENTS = `insert into payonce.deliveries as d (event_id, endpoint_id, subject_type, subject_id, sequence)
select e.id, p.id, e.subject_type, e.subject_id, e.sequence
from payonce.events e
join payonce.endpoints p on p.partner_id = e.partner_id and p.disabled_at is null
where e.partner_id = $1
  and e.event_id = any ($2::text[])
order by e.id, p.id
on conflict (event_id, endpoint_id) do update
set state = 'waiting',
    attempts = 0,
    next_at = payonce.now(),
    ended_at = null
where d.state <> 'waiting'
returning d.id`;

/** Sends a partner's events to all endpoints that it has now, those made after the event included. */
export async function replayEvents(tx: Tx, partnerId: string, eventIds: readonly string[]): Promise<number> {
  return (await tx.query(REPLAY_EVENTS, [partnerId, eventIds])).rowCount;
}
