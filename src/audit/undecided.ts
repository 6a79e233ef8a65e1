/**
 * The undecided: what may have left and is neither settled nor released, by rail, partner and asset, with its age and how
 * much it is; of it, what is in doubt, and what has a case (T13: count and age are always in view). Reads only; amounts are
 * decimal text of the asset, ages whole seconds since the seal.
 */
import type { Query } from '../db/pool.ts';
import { formatUnits } from '../kernel/money.ts';

export interface Undecided {
  readonly rail: string;
  readonly partner_id: string;
  readonly asset: string;
  readonly asset_id: string;
  readonly count: number;
  readonly amount: string;
  readonly oldest_seconds: bigint;
  /** Without testimony, not seen included, and the last answer unreadable, the lease run out, or held back by the rail. */
  readonly in_doubt: { readonly count: number; readonly amount: string; readonly oldest_seconds: bigint | null };
  /** A person has been asked. */
  readonly with_case: number;
}

// The measure of doubt is that of `gauges.ts`. One index look-up per open effect: it follows what is open.
const LOAD = `with open as (
  select e.*,
         e.testimonies = 0 and e.included_at is null and (e.last_unreadable or e.wait_reason like 'WITHHELD: %' or e.lease_until < payonce.now()) as doubtful,
         exists (select 1 from payonce.cases k where k.effect_id = e.id and k.closed_at is null) as has_case
  from payonce.effects e
  where e.state = 'SEALED'
)
select o.rail, o.partner_id, o.asset_id, a.code as asset, a.decimals,
       count(*)::int as count,
       sum(o.amount) as units,
       floor(extract(epoch from payonce.now() - min(o.sealed_at)))::bigint as oldest_seconds,
       (count(*) filter (where o.doubtful))::int as doubt_count,
       coalesce(sum(o.amount) filter (where o.doubtful), 0) as doubt_units,
       floor(extract(epoch from payonce.now() - min(o.sealed_at) filter (where o.doubtful)))::bigint as doubt_oldest_seconds,
       (count(*) filter (where o.has_case))::int as with_case
from open o
join payonce.assets a on a.id = o.asset_id
group by o.rail, o.partner_id, o.asset_id, a.code, a.decimals
order by min(o.sealed_at), o.rail, o.partner_id, o.asset_id`;

interface Row {
  readonly rail: string;
  readonly partner_id: string;
  readonly asset_id: string;
  readonly asset: string;
  readonly decimals: number;
  readonly count: number;
  readonly units: bigint;
  readonly oldest_seconds: bigint;
  readonly doubt_count: number;
  readonly doubt_units: bigint;
  readonly doubt_oldest_seconds: bigint | null;
  readonly with_case: number;
}

/** The oldest first. */
export async function loadUndecided(query: Query): Promise<Undecided[]> {
  const { rows } = await query.query<Row & Record<string, unknown>>(LOAD);
  return rows.map((row) => ({
    rail: row.rail,
    partner_id: row.partner_id,
    asset: row.asset,
    asset_id: row.asset_id,
    count: row.count,
    amount: formatUnits(row.units, row.decimals),
    oldest_seconds: row.oldest_seconds,
    in_doubt: {
      count: row.doubt_count,
      amount: formatUnits(row.doubt_units, row.decimals),
      oldest_seconds: row.doubt_oldest_seconds,
    },
    with_case: row.with_case,
  }));
}
