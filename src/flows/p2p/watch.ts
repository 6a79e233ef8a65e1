/**
 * What waits too long, and of which nobody else would tell (M22, R5): buyers' orders per market and state, legs that are said to be paid,
 * and parts of payments whose rest does not come.
 *
 * Promises: told once per stay, also after a restart, and cleared by itself when the stay is over; one alert for a market, however many
 * orders wait in it. Never: a change of an order or a leg. What a timer may end is ended by `timers.ts`; this is only told.
 */
import { type Row, toText } from '../../db/pool.ts';
import { clearAlert, raiseAlert } from '../../engine/alerts.ts';
import type { EngineDeps } from '../../engine/deps.ts';
import {
  CLAIMED_STAY_MS,
  MARKED_STAY_MS,
  PART_STAY_MS,
  PARTS_TOLD_MAX,
  PENDING_STAY_MS,
  STAYS_COUNTED_MAX,
  UNCLAIMED_MS,
  WAITS_LP_STAY_MS,
} from './limits.ts';
import { openUnclear } from './payments.ts';

const KIND = 'p2p_orders_stay';

// Over indexes that hold open orders only. Whose partner was switched off waits because a person said so.
const STAYING = `select o.state, o.group_name, o.asset_id, o.fiat, count(*)::int as count, min(o.since) as since,
       (array_agg(o.id order by o.since, o.id))[1] as oldest
from (
  (select 'unclaimed' as state, group_name, asset_id, fiat, id, next_at as since
   from payonce.p2p_deposit_orders
   where status = 'PENDING'
     and next_at < (select payonce.now()) - make_interval(secs => $1::float8 / 1000)
   order by next_at, id
   limit $6)
  union all
  (select 'pending', d.group_name, d.asset_id, d.fiat, d.id, d.created_at
   from payonce.p2p_deposit_orders d
   where d.status = 'PENDING'
     and d.created_at < (select payonce.now()) - make_interval(secs => $2::float8 / 1000)
     and not exists (select 1 from payonce.p2p_members e where e.partner_id = d.partner_id and e.matching_off_at is not null)
   order by d.created_at
   limit $6)
  union all
  (select case when waits_lp then 'waits_lp' else 'matching' end, group_name, asset_id, fiat, id, claimed_at
   from payonce.p2p_deposit_orders
   where status = 'MATCHING'
     and claimed_at < (select payonce.now()) - make_interval(secs => case when waits_lp then $4::float8 else $3::float8 end / 1000)
   order by claimed_at, id
   limit $6)
  union all
  (select 'marked', d.group_name, d.asset_id, d.fiat, d.id, g.paid_marked_at
   from payonce.p2p_deposit_orders d
   join payonce.p2p_legs g on g.deposit_order_id = d.id and g.state = 'OPEN'
   where d.status = 'MATCHED'
     and g.paid_marked_at < (select payonce.now()) - make_interval(secs => $5::float8 / 1000)
   order by g.paid_marked_at
   limit $6)) o
group by o.state, o.group_name, o.asset_id, o.fiat
order by since, oldest, o.state`;

const TOLD = `select key
from payonce.alerts
where kind = $1
  and cleared_at is null`;

type State = 'unclaimed' | 'pending' | 'matching' | 'waits_lp' | 'marked';

/** What is the matter, and what to do about it. */
const WORDS: Readonly<Record<State, readonly [string, string]>> = {
  unclaimed: ['are due and no matcher takes them', 'see that a worker with the role matcher runs'],
  pending: ['have found nobody to be matched with', 'get sellers or a provider’s liquidity, or let them expire'],
  matching: ['were claimed and left', 'their matcher died; see that another one runs and takes them back'],
  waits_lp: ['wait for a provider to open their trades', 'see its rail, and what it answers (payonce p2p order)'],
  marked: ['have legs that are said to be paid and are not confirmed', 'ask the sellers’ partners (payonce p2p order)'],
};

/** One pass. Answers how many stays there are now, told before or not. */
export async function watchOrders(engine: Pick<EngineDeps, 'pool' | 'log' | 'makeId'>): Promise<number> {
  const { rows } = await engine.pool.query(STAYING, [
    UNCLAIMED_MS,
    PENDING_STAY_MS,
    CLAIMED_STAY_MS,
    WAITS_LP_STAY_MS,
    MARKED_STAY_MS,
    STAYS_COUNTED_MAX,
  ]);
  const stays = new Map(rows.map((row) => [keyOf(row), row]));
  const told = new Set((await engine.pool.query<{ key: string }>(TOLD, [KIND])).rows.map((row) => row.key));
  for (const [key, row] of stays)
    if (!told.has(key)) await raiseAlert(engine.pool, KIND, key, messageOf(row), engine.log);
  for (const key of told) if (!stays.has(key)) await clearAlert(engine.pool, KIND, key);
  return stays.size;
}

const marketOf = (row: Row): string =>
  `${toText(row['group_name'], 'group_name')} ${toText(row['asset_id'], 'asset_id')} ${toText(row['fiat'], 'fiat')}`;

const keyOf = (row: Row): string => `${toText(row['state'], 'state')} ${marketOf(row)}`;

function messageOf(row: Row): string {
  const [what, then] = WORDS[toText(row['state'], 'state') as State];
  const count = row['count'] as number;
  const since = (row['since'] as Date).toISOString();
  return `${count >= STAYS_COUNTED_MAX ? 'at least ' : ''}${count} buyers’ orders of ${marketOf(row)} ${what}, the oldest (${toText(row['oldest'], 'oldest')}) since ${since}: ${then}`;
}

// From orders whose legs are open, never over all payments that ever came. A person who has closed the case is not asked again.
const PARTS = `select g.id as leg_id, o.partner_id, o.fiat, p.source, p.external_id, p.fiat_amount
from payonce.p2p_deposit_orders o
join payonce.p2p_legs g on g.deposit_order_id = o.id and g.state = 'OPEN' and g.disputed_at is null
join lateral (
  select p.source, p.external_id, p.fiat_amount, p.received_at
  from payonce.p2p_payments p
  where p.leg_id = g.id
    and p.fate = 'part'
  order by p.received_at desc, p.id desc
  limit 1) p on p.received_at < payonce.now() - make_interval(secs => $1::float8 / 1000)
where o.status = 'MATCHED'
  and g.paid_marked_at is not null
  and not exists (
    select 1 from payonce.cases k
    where k.kind = 'payment_unclear' and k.subject_key = 'payment:' || p.source || ':' || p.external_id)
order by p.received_at
limit $2`;

/** A part stops the leg's timer; when its rest does not come, people are asked (the inbox's own rule for what belongs to nothing). */
export async function watchParts(engine: Pick<EngineDeps, 'pool' | 'makeId'>, afterMs = PART_STAY_MS): Promise<number> {
  const { rows } = await engine.pool.query(PARTS, [afterMs, PARTS_TOLD_MAX]);
  for (const row of rows) {
    const legId = toText(row['leg_id'], 'leg_id');
    await openUnclear(
      engine.pool,
      engine.makeId,
      { source: toText(row['source'], 'source'), externalId: toText(row['external_id'], 'external_id') },
      toText(row['partner_id'], 'partner_id'),
      `is a part of leg ${legId}, and the rest has not come for ${Math.round(afterMs / 60_000)} minutes; no timer ends the leg: ask the buyer’s partner, or have the part paid back and void the leg`,
    );
  }
  return rows.length;
}
