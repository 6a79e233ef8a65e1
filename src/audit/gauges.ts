/**
 * What an operator watches, counted from the tables: queues and their oldest member, doubt, cases, alerts, stops.
 *
 * One statement of its own, and one of P2P's queue, over partial indexes that hold open rows only, so its cost follows what is open and not what ever was.
 * Counts and seconds, never an amount or a partner. A gauge that has nothing to count is there, with zero.
 */
import { type Pool, type Row, toText, toUnits } from '../db/pool.ts';
import { readQueueGauges } from '../flows/p2p/reads.ts';
import { InvariantBroken } from '../kernel/errors.ts';

export interface Gauge {
  readonly name: GaugeName;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Each gauge with what it says. */
export const GAUGES = {
  effects_pending: 'Effects not yet sealed, per rail',
  effects_pending_oldest_seconds: 'Age of the oldest effect not yet sealed, per rail',
  effects_sealed: 'Effects sealed and not ended, per rail',
  effects_sealed_oldest_seconds: 'Time since the oldest open seal, per rail',
  effects_in_doubt:
    'Sealed, without testimony, not included, and the last answer unreadable, the lease run out, or held back by the rail, per rail',
  effects_contradicted: 'Released effects that moved money after all and are not closed, per rail',
  effects_staying: 'Effects that stay in one state for too long, as told, per rail',
  rails_stopped: 'Rails on which nothing new is sealed',
  signers_quarantined: 'Signers that get no new seals, per rail',
  cases_open: 'Open cases, per severity (3: now)',
  alerts_open: 'Open alerts, per kind',
  deliveries_waiting: 'Partner events not yet delivered',
  deliveries_oldest_seconds: 'How long the most overdue delivery has been due',
  inbox_waiting: 'Inbound events not yet worked or matched',
  scans_halted: 'Chains whose deposit scan a person must start again',
  effects_needing: 'Effects not yet sealed that wait for something bought for them, per kind (gas, energy)',
  supplies_open: 'Purchases for waiting effects that have not ended, per kind (topup, energy)',
  wallets_short: 'Wallets that pay for gas or energy and are below their level, or do not last as long as configured',
  wallet_seconds_left: "How long the coin of a wallet lasts at the last day's rate, per wallet that burns any",
  p2p_orders:
    'Buyers’ orders that are not matched, per state (pending; matching: claimed now; waits_lp: a trade is being opened)',
  p2p_orders_oldest_seconds: 'How long the oldest of them has been in that state; waits_lp: how slow providers answer',
} as const;
export type GaugeName = keyof typeof GAUGES;

const LOAD = `with moment as materialized (
  select payonce.now() as now
), open_effects as (
  select e.rail,
         count(*) filter (where e.state = 'PENDING') as pending,
         min(e.created_at) filter (where e.state = 'PENDING') as pending_since,
         count(*) filter (where e.state = 'SEALED') as sealed,
         min(e.sealed_at) filter (where e.state = 'SEALED') as sealed_since,
         count(*) filter (where e.state = 'SEALED' and e.testimonies = 0 and e.included_at is null
           and (e.last_unreadable or e.wait_reason like 'WITHHELD: %' or e.lease_until < m.now)) as in_doubt
  from moment m, (
    select * from payonce.effects where state = 'PENDING'
    union all
    select * from payonce.effects where state = 'SEALED') e
  group by e.rail
)
select 'effects_pending' as name, jsonb_build_object('rail', r.name) as labels, coalesce(e.pending, 0) as value
from payonce.rails r left join open_effects e on e.rail = r.name
union all
select 'effects_pending_oldest_seconds', jsonb_build_object('rail', r.name),
       coalesce(floor(extract(epoch from m.now - e.pending_since))::bigint, 0)
from moment m, payonce.rails r left join open_effects e on e.rail = r.name
union all
select 'effects_sealed', jsonb_build_object('rail', r.name), coalesce(e.sealed, 0)
from payonce.rails r left join open_effects e on e.rail = r.name
union all
select 'effects_sealed_oldest_seconds', jsonb_build_object('rail', r.name),
       coalesce(floor(extract(epoch from m.now - e.sealed_since))::bigint, 0)
from moment m, payonce.rails r left join open_effects e on e.rail = r.name
union all
select 'effects_in_doubt', jsonb_build_object('rail', r.name), coalesce(e.in_doubt, 0)
from payonce.rails r left join open_effects e on e.rail = r.name
union all
select 'effects_contradicted', jsonb_build_object('rail', r.name),
       (select count(*) from payonce.effects x where x.rail = r.name and x.contradicted_at is not null)
from payonce.rails r
union all
select 'effects_staying', jsonb_build_object('rail', r.name),
       (select count(*) from payonce.alerts a
        join payonce.effects x on x.id = case when a.key ~ '^effect:[0-9]{1,18}$' then substr(a.key, 8)::bigint end
        where a.kind = 'long_stay' and a.cleared_at is null and x.ended_at is null and x.rail = r.name)
from payonce.rails r
union all
select 'rails_stopped', '{}', count(*) from payonce.rails where seals_stopped_at is not null
union all
select 'signers_quarantined', jsonb_build_object('rail', r.name),
       (select count(*) from payonce.signers s where s.rail = r.name and s.quarantined_at is not null)
from payonce.rails r
union all
select 'cases_open', jsonb_build_object('severity', s.severity::text),
       (select count(*) from payonce.cases c where c.closed_at is null and c.severity = s.severity)
from generate_series(1, 3) s (severity)
union all
(select 'alerts_open', jsonb_build_object('kind', kind), count(*) from payonce.alerts where cleared_at is null group by kind)
union all
select 'deliveries_waiting', '{}', count(*) from payonce.deliveries where state = 'waiting'
union all
select 'deliveries_oldest_seconds', '{}',
       greatest(0, coalesce(floor(extract(epoch from m.now - min(d.next_at)))::bigint, 0))
from moment m left join payonce.deliveries d on d.state = 'waiting' group by m.now
union all
select 'inbox_waiting', '{}', count(*) from payonce.inbox where state in ('new', 'unmatched')
union all
select 'scans_halted', '{}', count(*) from payonce.scan_cursors where halted_at is not null
union all
select 'effects_needing', jsonb_build_object('kind', k.kind),
       (select count(*) from payonce.effects e join payonce.needs n on n.effect_id = e.id where e.state = 'PENDING' and n.kind = k.kind)
from (values ('gas'), ('energy')) k (kind)
union all
select 'supplies_open', jsonb_build_object('kind', k.kind),
       (select count(*) from payonce.effects e where e.state in ('PENDING', 'SEALED') and e.subject_type = k.kind)
from (values ('topup'), ('energy')) k (kind)
union all
select 'wallets_short', '{}', count(*) from payonce.wallet_levels where is_short
union all
select 'wallet_seconds_left', jsonb_build_object('wallet', chain || ':' || address), seconds_left
from payonce.wallet_levels where seconds_left is not null`;

export async function loadGauges(pool: Pool): Promise<Gauge[]> {
  const [{ rows }, queue] = await Promise.all([pool.query(LOAD), readQueueGauges(pool)]);
  const inState = (state: string, count: number, seconds: number): Gauge[] => [
    { name: 'p2p_orders', labels: { state }, value: count },
    { name: 'p2p_orders_oldest_seconds', labels: { state }, value: Math.max(0, Math.floor(seconds)) },
  ];
  return [
    ...rows.map(toGauge),
    ...inState('pending', queue.pending, queue.oldestPendingSeconds),
    ...inState('matching', queue.matching - queue.waitsLp, queue.oldestMatchingSeconds),
    ...inState('waits_lp', queue.waitsLp, queue.oldestWaitsLpSeconds),
  ];
}

function toGauge(row: Row): Gauge {
  const name = toText(row['name'], 'name');
  if (!isGaugeName(name)) throw new InvariantBroken(`there is no gauge ${name}`);
  return { name, labels: row['labels'] as Record<string, string>, value: Number(toUnits(row['value'], 'value')) };
}

function isGaugeName(name: string): name is GaugeName {
  return Object.hasOwn(GAUGES, name);
}
