/**
 * Claims: who takes which effects, and in what order. A claim is a lease, never a state; whoever does not get one is told so at once.
 *
 * Sealed effects in the order of their time. Pending ones per signer, fairly between partners: a backlog of one holds up no other.
 * Lock order: effects, in the queue's order, those that somebody else has left out. Isolation: READ COMMITTED, set by `tx`.
 * `(select payonce.now())` and not the bare call: a volatile function would keep the planner from the queue's index.
 */
import type { Query, Tx } from '../db/pool.ts';

const SIGNER_LOAD = `with recursive waiting (signer) as (
  (select e.signer
   from payonce.effects e
   where e.rail = $1
     and e.state = 'PENDING'
   order by e.signer
   limit 1)
  union all
  select (
    select e.signer
    from payonce.effects e
    where e.rail = $1
      and e.state = 'PENDING'
      and e.signer > w.signer
    order by e.signer
    limit 1)
  from waiting w
  where w.signer is not null
)
select s.signer,
       (select count(*) from payonce.effects e
        where e.rail = $1 and e.signer = s.signer and e.state = 'SEALED' and e.included_at is null)::int as open
from (
  select w.signer
  from waiting w
  join payonce.signers g on g.rail = $1 and g.address = w.signer and g.quarantined_at is null
  cross join lateral (
    select q.lane, q.next_at, q.id
    from payonce.effects q
    where q.rail = $1
      and q.signer = w.signer
      and q.state = 'PENDING'
      and q.next_at <= (select payonce.now())
    order by q.next_at, q.id
    limit 1) f
  order by (f.lane is not null), f.next_at, f.id
  limit $2) s`;

/**
 * Signers that may seal and have something due, with what they have sealed and unmined: what partners wait for first (N4),
 * then who has waited longest. Only signers with something pending are touched: each deposit address is a signer.
 */
export async function loadSignerLoad(
  query: Query,
  rail: string,
  signersMax: number,
): Promise<{ signer: string; open: number }[]> {
  return (await query.query<{ signer: string; open: number }>(SIGNER_LOAD, [rail, signersMax])).rows;
}

const CLAIM_SEALED = `update payonce.effects e
set lease_token = e.lease_token + 1,
    lease_until = payonce.now() + make_interval(secs => $3::float8 / 1000),
    next_at = payonce.now() + make_interval(secs => $3::float8 / 1000)
where e.id = any (array(
  select q.id
  from payonce.effects q
  where q.rail = $1
    and q.state = 'SEALED'
    and q.next_at <= (select payonce.now())
  order by q.next_at, q.id
  limit $2
  for update skip locked))
returning e.id`;

/** Takes a lease on due sealed effects; answers their ids. */
export async function claimSealed(tx: Tx, rail: string, limit: number, leaseMs: number): Promise<bigint[]> {
  return (await tx.query<{ id: bigint }>(CLAIM_SEALED, [rail, limit, leaseMs])).rows.map((row) => row.id);
}

// Partners take turns: each partner's first ones come before the rest, which come in the order of their time. Where one partner
// alone waits, that order is all. A row that is taken both ways is locked by this statement once and claimed once.
const CLAIM_PENDING = `update payonce.effects e
set lease_token = e.lease_token + 1,
    lease_until = payonce.now() + make_interval(secs => $4::float8 / 1000),
    next_at = payonce.now() + make_interval(secs => $4::float8 / 1000)
where e.id = any (array(
  select c.id
  from unnest($2::text[], $3::int[]) as w (signer, room)
  cross join lateral (
    with recursive waiting (partner_id) as (
      (select q.partner_id
       from payonce.effects q
       where q.rail = $1
         and q.signer = w.signer
         and q.state = 'PENDING'
       order by q.partner_id
       limit 1)
      union all
      select (
        select q.partner_id
        from payonce.effects q
        where q.rail = $1
          and q.signer = w.signer
          and q.state = 'PENDING'
          and q.partner_id > t.partner_id
        order by q.partner_id
        limit 1)
      from waiting t
      where t.partner_id is not null
    ),
    chosen as (
      select t.partner_id, ceil(w.room::numeric / count(*) over ())::int as share, count(*) over () as partners
      from waiting t
      where t.partner_id is not null
      order by random()
      limit w.room
    )
    select u.id
    from (
      select f.id, f.next_at, 0 as turn, f.place
      from chosen t
      cross join lateral (
        select l.id, l.next_at, row_number() over (order by l.next_at, l.id) as place
        from (
          select q.id, q.next_at
          from payonce.effects q
          where q.rail = $1
            and q.signer = w.signer
            and q.partner_id = t.partner_id
            and q.state = 'PENDING'
            and q.next_at <= (select payonce.now())
          order by q.next_at, q.id
          limit t.share
          for update skip locked) l) f
      where t.partners > 1
      union all
      select r.id, r.next_at, 1 as turn, 2147483647 as place
      from (
        select q.id, q.next_at
        from payonce.effects q
        where q.rail = $1
          and q.signer = w.signer
          and q.state = 'PENDING'
          and q.next_at <= (select payonce.now())
        order by q.next_at, q.id
        limit w.room
        for update skip locked) r) u
    group by u.id
    order by min(u.turn), min(u.place), min(u.next_at), u.id
    limit w.room) c))
returning e.id`;

/** Takes a lease on due pending effects, per signer no more than there is room for, fairly between partners. */
export async function claimPending(
  tx: Tx,
  rail: string,
  room: readonly { signer: string; room: number }[],
  leaseMs: number,
): Promise<bigint[]> {
  if (room.length === 0) return [];
  const { rows } = await tx.query<{ id: bigint }>(CLAIM_PENDING, [
    rail,
    room.map((one) => one.signer),
    room.map((one) => one.room),
    leaseMs,
  ]);
  return rows.map((row) => row.id);
}

const CLAIM_ONE = `update payonce.effects e
set lease_token = e.lease_token + 1,
    lease_until = payonce.now() + make_interval(secs => $2::float8 / 1000),
    next_at = payonce.now() + make_interval(secs => $2::float8 / 1000)
where e.id = any (array(
  select q.id
  from payonce.effects q
  where q.id = $1
    and (q.lease_until is null or q.lease_until <= (select payonce.now()))
  for update skip locked))
returning e.id`;

/** A lease on one effect in whatever state; 0 rows: somebody else has it (`busy`). */
export async function claimOne(tx: Tx, id: bigint, leaseMs: number): Promise<'claimed' | 'busy'> {
  return (await tx.query(CLAIM_ONE, [id, leaseMs])).rowCount === 1 ? 'claimed' : 'busy';
}
