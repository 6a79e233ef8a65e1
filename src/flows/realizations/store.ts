/**
 * Realizations' statements. Dates are `YYYY-MM-DD`, amounts units.
 * Lock order: the night's row, then what `takeOwnMoves` takes. Isolation: READ COMMITTED, set by `tx`.
 */
import { type Query, toText, toUnits, type Tx } from '../../db/pool.ts';

const DUE_DATE = `select d.date::text as date,
       (select max(business_date)::text from payonce.realization_nights where business_date <= d.date) as last,
       (select min(business_date)::text from payonce.realization_nights where business_date <= d.date and made_at is null) as unmade,
       (select max(business_date)::text from payonce.realization_nights where business_date > d.date) as ahead
from (select ((payonce.now() at time zone $1) - make_interval(hours => $2))::date - 1 as date) d`;

export interface DueDates {
  /** The latest whose hour has come. */
  readonly date: string;
  /** Of those up to it: the last that was begun, and the first that is not made whole. */
  readonly last: string | null;
  readonly unmade: string | null;
  /** The last one made before its time: the clock was ahead then. */
  readonly ahead: string | null;
}

export async function loadDue(query: Query, timeZone: string, hour: number): Promise<DueDates> {
  const [row] = (await query.query<DueDates & Record<string, unknown>>(DUE_DATE, [timeZone, hour])).rows;
  if (row === undefined) throw new Error('the database did not tell the date');
  return row;
}

const BEGIN_NIGHT = `insert into payonce.realization_nights (business_date, time_zone)
values ($1, $2)
on conflict (business_date) do nothing`;
const LOCK_NIGHT = `select made_at
from payonce.realization_nights
where business_date = $1
for no key update`;

/** The night's row, made where it is new; whoever comes second waits for the first and then reads what it made. */
export async function lockNight(tx: Tx, date: string, timeZone: string): Promise<{ made: boolean }> {
  await tx.query(BEGIN_NIGHT, [date, timeZone]);
  const [row] = (await tx.query<{ made_at: Date | null }>(LOCK_NIGHT, [date])).rows;
  return { made: row?.made_at !== null };
}

const NIGHT_MADE = `update payonce.realization_nights
set made_at = payonce.now()
where business_date = $1
  and made_at is null`;

export async function markMade(tx: Tx, date: string): Promise<void> {
  await tx.query(NIGHT_MADE, [date]);
}

// In the order of the ledger, which is the order of dates unless a clock was ahead: then the days between come after that one.
const CUT_DAYS = `insert into payonce.realization_days (asset_id, business_date, after_seq, to_seq)
select a.asset_id, $1, coalesce(d.to_seq, 0),
       greatest(coalesce(d.to_seq, 0), coalesce((
         select e.seq
         from payonce.ledger_entries e
         where e.account_id = a.id
           and e.seq > coalesce(d.to_seq, 0)
           and e.created_at < (($1::date + 1)::timestamp at time zone $2)
         order by e.seq desc
         limit 1), 0))
from payonce.accounts a
left join lateral (
  select x.to_seq from payonce.realization_days x where x.asset_id = a.asset_id order by x.to_seq desc, x.business_date desc limit 1) d on true
where a.code = 'fees'
  and not exists (select 1 from payonce.realization_days y where y.asset_id = a.asset_id and y.business_date between $1 and $3)`;

const SHARE_DAYS = `insert into payonce.realization_shares (asset_id, business_date, partner_id, fees)
select d.asset_id, d.business_date, coalesce(p.partner_id, $2), sum(e.amount)
from payonce.realization_days d
join payonce.accounts a on a.code = 'fees' and a.asset_id = d.asset_id
join payonce.ledger_entries e on e.account_id = a.id and e.seq > d.after_seq and e.seq <= d.to_seq
cross join lateral (
  select case when count(distinct b.partner_id) = 1 then min(b.partner_id) end as partner_id
  from payonce.ledger_entries l
  join payonce.accounts b on b.id = l.account_id
  where l.posting_id = e.posting_id) p
where d.business_date = $1
group by d.asset_id, d.business_date, coalesce(p.partner_id, $2)
on conflict (partner_id, asset_id, business_date) do nothing`;

/** Cuts the date off the fees accounts and says what of it is whose. A second time, or after a later one up to `dueDate`, it does
 *  nothing. */
export async function cutDay(tx: Tx, date: string, dueDate: string, timeZone: string, nobody: string): Promise<void> {
  if ((await tx.query(CUT_DAYS, [date, timeZone, dueDate])).rowCount !== 0) await tx.query(SHARE_DAYS, [date, nobody]);
}

// What was cut for a date after the due one was realized then, so it counts on both sides.
// Given back is what ended without having moved: its subject is closed and no effect of it is or was anything but released.
const DUE = `select f.partner_id, f.asset_id, f.fees, coalesce(r.amount, 0) as realized, coalesce(r.ordinals, 0)::int as ordinals,
       a.chain, p.rail, p.wallet, s.address as destination
from (
  select partner_id, asset_id, sum(fees) as fees
  from payonce.realization_shares
  where (business_date <= $1 or business_date > $3)
    and partner_id <> $2
  group by partner_id, asset_id) f
join payonce.assets a on a.id = f.asset_id
left join lateral (
  select sum(z.amount) filter (where c.closed_at is null or exists (
           select 1 from payonce.effects e
           where e.subject_type = 'realization' and e.subject_id = z.id and e.state <> 'RELEASED')) as amount,
         max(z.ordinal + 1) filter (where z.business_date = $1) as ordinals
  from payonce.realizations z
  join payonce.subjects c on c.type = 'realization' and c.id = z.id
  where z.partner_id = f.partner_id
    and z.asset_id = f.asset_id) r on true
left join lateral (
  select q.rail, q.wallet from payonce.asset_policies q
  where q.asset_id = f.asset_id and q.partner_id in (f.partner_id, '*')
  order by q.partner_id = '*' limit 1) p on true
left join lateral (
  select w.address from payonce.addresses w
  where w.chain = a.chain and w.kind = 'SETTLEMENT' and (w.partner_id = f.partner_id or w.partner_id is null)
  order by w.partner_id nulls last, w.id limit 1) s on true
where f.fees > coalesce(r.amount, 0)
order by f.partner_id, f.asset_id`;

export interface DueShare {
  readonly partnerId: string;
  readonly assetId: string;
  /** Fees up to and with the date, and what of them was realized before. */
  readonly fees: bigint;
  readonly realized: bigint;
  /** Realizations of this very date. */
  readonly ordinals: number;
  readonly rail: string | null;
  readonly wallet: string | null;
  readonly destination: string | null;
}

export async function loadShares(query: Query, date: string, dueDate: string, nobody: string): Promise<DueShare[]> {
  const { rows } = await query.query(DUE, [date, nobody, dueDate]);
  return rows.map((row) => ({
    partnerId: toText(row['partner_id'], 'realization_shares.partner_id'),
    assetId: toText(row['asset_id'], 'realization_shares.asset_id'),
    fees: toUnits(row['fees'], 'sum(fees)'),
    realized: toUnits(row['realized'], 'sum(amount)'),
    ordinals: row['ordinals'] as number,
    rail: row['rail'] as string | null,
    wallet: row['wallet'] as string | null,
    destination: row['destination'] as string | null,
  }));
}

const STORE = `insert into payonce.realizations
  (id, partner_id, asset_id, business_date, ordinal, fees_through, realized_before, amount, wallet, destination)
select * from unnest($1::text[], $2::text[], $3::text[], $4::date[], $5::int[], $6::numeric[], $7::numeric[], $8::numeric[], $9::text[], $10::text[])`;

export interface NewRealization {
  readonly id: string;
  readonly partnerId: string;
  readonly assetId: string;
  readonly date: string;
  readonly ordinal: number;
  readonly fees: bigint;
  readonly realized: bigint;
  readonly amount: bigint;
  readonly wallet: string;
  readonly destination: string;
}

export async function storeRealizations(tx: Tx, list: readonly NewRealization[]): Promise<void> {
  await tx.query(STORE, [
    list.map((one) => one.id),
    list.map((one) => one.partnerId),
    list.map((one) => one.assetId),
    list.map((one) => one.date),
    list.map((one) => one.ordinal),
    list.map((one) => one.fees),
    list.map((one) => one.realized),
    list.map((one) => one.amount),
    list.map((one) => one.wallet),
    list.map((one) => one.destination),
  ]);
}

// By the lanes' index, which holds what is open and nothing else. Who backs off is not come for; who is claimed is.
const OPEN = `select e.id, e.subject_id
from payonce.effects e
where e.lane is not null
  and e.state in ('PENDING', 'SEALED')
  and e.subject_type = 'realization'
  and e.rail = any ($1::text[])
  and (e.next_at <= payonce.now() or e.lease_until > payonce.now())
order by e.id`;

export async function loadOpen(
  query: Query,
  rails: readonly string[],
): Promise<{ effectId: bigint; realizationId: string }[]> {
  const { rows } = await query.query<{ id: bigint; subject_id: string }>(OPEN, [rails]);
  return rows.map((row) => ({ effectId: row.id, realizationId: row.subject_id }));
}

const LOST = `insert into payonce.realization_claims_lost (realization_id, lost)
values ($1, 1)
on conflict (realization_id) do update
set lost = realization_claims_lost.lost + 1`;

export async function countLost(query: Query, realizationId: string): Promise<void> {
  await query.query(LOST, [realizationId]);
}

const LAST_NIGHT = `select max(business_date)::text as date
from payonce.realization_nights`;

export async function loadLastNight(query: Query): Promise<string | null> {
  return (await query.query<{ date: string | null }>(LAST_NIGHT)).rows[0]?.date ?? null;
}
