/**
 * Payouts' statements. Amounts and volumes are units.
 * Lock order: pools by id, accounts by id (in `intend`), inserts, programmes, the subjects' counters. Isolation: READ COMMITTED,
 * set by `tx`. Ids are given as arrays and compared by `any`: on tables that were never analysed a join would scan them.
 */
import { type Query, type Row, toText, toUnits, type Tx } from '../../db/pool.ts';
import { PROGRAMME_COLUMNS, type Programme, toProgramme } from './programme.ts';

const NAMED = `select ${PROGRAMME_COLUMNS}
from payonce.programmes o
join payonce.assets a on a.id = o.asset_id
where o.partner_id = $1
  and (o.id = any ($2::text[]) or o.name = any ($2::text[]))`;

/** A partner's programmes by id or name, under both. */
export async function loadNamed(
  query: Query,
  partnerId: string,
  names: readonly string[],
): Promise<Map<string, Programme>> {
  const { rows } = await query.query(NAMED, [partnerId, names]);
  return new Map(rows.map(toProgramme).flatMap((one) => [[one.name, one] as const, [one.id, one] as const]));
}

const BY_ID = `select ${PROGRAMME_COLUMNS}
from payonce.programmes o
join payonce.assets a on a.id = o.asset_id
where o.id = any ($1::text[])`;

export async function loadProgrammes(query: Query, ids: readonly string[]): Promise<Map<string, Programme>> {
  const { rows } = await query.query(BY_ID, [ids]);
  return new Map(rows.map(toProgramme).map((one) => [one.id, one]));
}

const NOW = `select payonce.now() as now`;

export async function loadNow(query: Query): Promise<Date> {
  const [row] = (await query.query<{ now: Date }>(NOW)).rows;
  if (row === undefined) throw new Error('the database did not tell the time');
  return row.now;
}

const CREATORS = `insert into payonce.creators (id, partner_id, external_id)
select u.id, $1, u.external_id
from unnest($2::text[], $3::text[]) as u (id, external_id)
order by u.external_id
on conflict (partner_id, external_id) do nothing`;
const CREATOR_IDS = `select c.id, c.external_id
from payonce.creators c
where c.partner_id = $1
  and c.external_id = any ($2::text[])`;

/** Ids of a partner's creators by its own names of them; who is new is made. */
export async function ensureCreators(
  tx: Tx,
  partnerId: string,
  list: readonly { readonly id: string; readonly externalId: string }[],
): Promise<Map<string, string>> {
  const names = list.map((one) => one.externalId);
  const find = async (): Promise<Map<string, string>> =>
    new Map(
      (await tx.query<{ id: string; external_id: string }>(CREATOR_IDS, [partnerId, names])).rows.map((row) => [
        row.external_id,
        row.id,
      ]),
    );
  const known = await find();
  const fresh = list.filter((one) => !known.has(one.externalId));
  if (fresh.length === 0) return known;
  await tx.query(CREATORS, [partnerId, fresh.map((one) => one.id), fresh.map((one) => one.externalId)]);
  return find();
}

const POOLS = `insert into payonce.pools (programme_id, creator_id, reward_divisor)
select u.programme_id, u.creator_id, u.divisor
from unnest($1::text[], $2::text[], $3::numeric[]) as u (programme_id, creator_id, divisor)
order by u.programme_id, u.creator_id
on conflict (programme_id, creator_id) do nothing`;
const LOCK_POOLS = `select p.id, p.programme_id, p.creator_id, p.seq
from payonce.pools p
where p.programme_id = any ($1::text[])
  and p.creator_id = any ($2::text[])
order by p.id
for no key update`;

export interface LockedPool {
  readonly id: bigint;
  readonly programmeId: string;
  readonly creatorId: string;
  readonly seq: bigint;
}

/** Locks the pools of these creators in these programmes, made where they are new. */
export async function lockPools(
  tx: Tx,
  list: readonly { readonly programmeId: string; readonly creatorId: string; readonly divisor: bigint }[],
): Promise<LockedPool[]> {
  const lock = async (): Promise<LockedPool[]> =>
    (
      await tx.query(LOCK_POOLS, [
        [...new Set(list.map((one) => one.programmeId))],
        [...new Set(list.map((one) => one.creatorId))],
      ])
    ).rows.map((row) => ({
      id: toUnits(row['id'], 'pools.id'),
      programmeId: toText(row['programme_id'], 'pools.programme_id'),
      creatorId: toText(row['creator_id'], 'pools.creator_id'),
      seq: toUnits(row['seq'], 'pools.seq'),
    }));
  const found = await lock();
  const known = new Set(found.map((one) => `${one.programmeId}\n${one.creatorId}`));
  const fresh = list.filter((one) => !known.has(`${one.programmeId}\n${one.creatorId}`));
  if (fresh.length === 0) return found;
  await tx.query(POOLS, [
    fresh.map((one) => one.programmeId),
    fresh.map((one) => one.creatorId),
    fresh.map((one) => one.divisor),
  ]);
  return lock();
}

// The one statement of an accrual: the events, once each, and the sums of their pools, which are locked.
const ACCRUE = `with fresh as (
  insert into payonce.accruals (programme, source_id, pool_id, seq, volume, digest, occurred_at)
  select u.programme, u.source_id, u.pool_id, u.seq, u.volume, u.digest, u.occurred_at
  from unnest($1::int[], $2::text[], $3::bigint[], $4::bigint[], $5::numeric[], $6::bytea[], $7::timestamptz[])
    as u (programme, source_id, pool_id, seq, volume, digest, occurred_at)
  order by u.programme, u.source_id collate "C"
  on conflict (programme, source_id) do nothing
  returning pool_id, seq, volume
),
added as (
  select f.pool_id, max(f.seq) as seq, sum(f.volume) as volume
  from fresh f
  group by f.pool_id
),
grown as (
  update payonce.pools p
  set seq = d.seq,
      volume = p.volume + d.volume,
      reward = greatest(p.reward, least(
        p.reward + o.reward_multiple * (
          payonce.reward_of(p.volume + d.volume, o.tier_from, o.tier_step) - payonce.reward_of(p.volume, o.tier_from, o.tier_step)),
        coalesce(o.cap * o.reward_divisor, 'Infinity')))
  from added d
  cross join payonce.programmes o
  where p.id = any ($8::bigint[])
    and p.id = d.pool_id
    and o.id = p.programme_id
  returning p.id, p.payable > 0 and p.volume - p.volume_taken >= o.threshold
    and (p.wait_reason is null or p.wait_reason <> 'MOVED_NOTHING' or p.next_at <= payonce.now()) as is_due
)
select (select count(*) from fresh) as fresh, array(select g.id from grown g where g.is_due order by g.id) as due`;

export interface NewAccrual {
  readonly programme: number;
  readonly sourceId: string;
  readonly poolId: bigint;
  readonly seq: bigint;
  readonly volume: bigint;
  readonly digest: Uint8Array;
  readonly occurredAt: Date;
}

/** Answers how many were new, and which of the pools have crossed their threshold. Places may have gaps. */
export async function storeAccruals(
  tx: Tx,
  list: readonly NewAccrual[],
): Promise<{ readonly fresh: number; readonly due: bigint[] }> {
  const { rows } = await tx.query<{ fresh: bigint; due: (bigint | string)[] }>(ACCRUE, [
    list.map((one) => one.programme),
    list.map((one) => one.sourceId),
    list.map((one) => one.poolId),
    list.map((one) => one.seq),
    list.map((one) => one.volume),
    list.map((one) => Buffer.from(one.digest)),
    list.map((one) => one.occurredAt),
    [...new Set(list.map((one) => one.poolId))],
  ]);
  return { fresh: Number(rows[0]?.fresh ?? 0n), due: (rows[0]?.due ?? []).map(BigInt) };
}

const KNOWN = `select x.programme, x.source_id, x.digest
from payonce.accruals x
where x.programme = $1
  and x.source_id = any ($2::text[])`;

/** Digests on record, of one programme. */
export async function loadDigests(
  query: Query,
  programme: number,
  sourceIds: readonly string[],
): Promise<Map<string, Uint8Array>> {
  const { rows } = await query.query<{ source_id: string; digest: Uint8Array }>(KNOWN, [programme, sourceIds]);
  return new Map(rows.map((row) => [row.source_id, row.digest]));
}

const LOCK_DUE = `select p.id
from payonce.pools p
where p.id = any ($1::bigint[])
order by p.id
for no key update`;
const DUE_POOLS = `select p.id, p.programme_id, p.creator_id, c.external_id, p.payouts + 1 as ordinal, p.payable, p.volume - p.volume_taken as volume,
       (p.free + int8multirange(int8range(p.cut_seq, p.seq, '(]')))::text as consumed, p.failures,
       (select d.address from payonce.creator_addresses d
        where d.creator_id = p.creator_id and d.chain = a.chain order by d.id desc limit 1) as address
from payonce.pools p
join payonce.programmes o on o.id = p.programme_id
join payonce.assets a on a.id = o.asset_id
join payonce.creators c on c.id = p.creator_id
where p.id = any ($1::bigint[])
order by p.id`;

export interface DuePool {
  readonly id: bigint;
  readonly programmeId: string;
  readonly creatorId: string;
  readonly creator: string;
  readonly ordinal: number;
  readonly payable: bigint;
  readonly volume: bigint;
  readonly consumed: string;
  readonly failures: number;
  readonly address: string | null;
}

/** Locked before it is read: what a statement that waited for the lock joins to a pool is as old as the statement. */
export async function lockDuePools(tx: Tx, ids: readonly bigint[]): Promise<DuePool[]> {
  await tx.query(LOCK_DUE, [ids]);
  return (await tx.query(DUE_POOLS, [ids])).rows.map((row: Row) => ({
    id: toUnits(row['id'], 'pools.id'),
    programmeId: toText(row['programme_id'], 'pools.programme_id'),
    creatorId: toText(row['creator_id'], 'pools.creator_id'),
    creator: toText(row['external_id'], 'creators.external_id'),
    ordinal: row['ordinal'] as number,
    payable: toUnits(row['payable'], 'pools.payable'),
    volume: toUnits(row['volume'], 'pools.volume'),
    consumed: toText(row['consumed'], 'consumed'),
    failures: row['failures'] as number,
    address: row['address'] as string | null,
  }));
}

const STORE = `insert into payonce.payouts
  (id, partner_id, programme_id, creator_id, pool_id, ordinal, asset_id, amount, volume, consumed, destination, origin, cut_date, quote, min_output, batch_id)
select u.id, u.partner_id, u.programme_id, u.creator_id, u.pool_id, u.ordinal, u.asset_id, u.amount, u.volume, u.consumed::int8multirange, u.destination,
       u.origin, u.cut_date, u.quote, u.min_output, u.batch_id
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::int[], $7::text[], $8::numeric[], $9::numeric[], $10::text[], $11::text[],
            $12::text[], $13::date[], $14::numeric[], $15::numeric[], $16::text[])
  as u (id, partner_id, programme_id, creator_id, pool_id, ordinal, asset_id, amount, volume, consumed, destination, origin, cut_date, quote, min_output, batch_id)`;

export type Origin = 'threshold' | 'cut' | 'again';

export interface NewPayout {
  readonly id: string;
  readonly programme: Programme;
  readonly pool: DuePool;
  readonly destination: string;
  readonly origin: Origin;
  readonly cutDate: string | null;
  readonly quote: bigint | null;
  readonly minOutput: bigint | null;
  readonly batchId: string | null;
}

const STORE_BATCHES = `insert into payonce.payout_batches (id, partner_id, programme_id, asset_id, amount)
select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::numeric[])`;

export interface NewBatch {
  readonly id: string;
  readonly payouts: readonly NewPayout[];
  readonly amount: bigint;
}

/** Before their payouts. */
export async function storeBatches(tx: Tx, list: readonly NewBatch[]): Promise<void> {
  const of = list.flatMap((one) => one.payouts[0]?.programme ?? []);
  if (of.length === 0) return;
  await tx.query(STORE_BATCHES, [
    list.map((one) => one.id),
    of.map((one) => one.partnerId),
    of.map((one) => one.id),
    of.map((one) => one.assetId),
    list.map((one) => one.amount),
  ]);
}

/** Takes what is free of each pool with it. */
export async function storePayouts(tx: Tx, list: readonly NewPayout[]): Promise<void> {
  if (list.length === 0) return;
  await tx.query(STORE, [
    list.map((one) => one.id),
    list.map((one) => one.programme.partnerId),
    list.map((one) => one.programme.id),
    list.map((one) => one.pool.creatorId),
    list.map((one) => one.pool.id),
    list.map((one) => one.pool.ordinal),
    list.map((one) => one.programme.assetId),
    list.map((one) => one.pool.payable),
    list.map((one) => one.pool.volume),
    list.map((one) => one.pool.consumed),
    list.map((one) => one.destination),
    list.map((one) => one.origin),
    list.map((one) => one.cutDate),
    list.map((one) => one.quote),
    list.map((one) => one.minOutput),
    list.map((one) => one.batchId),
  ]);
}

const WAIT = `update payonce.pools p
set due_since = coalesce(p.due_since, payonce.now()),
    wait_reason = u.reason,
    next_at = case when u.wait_ms is null then 'infinity' else payonce.now() + make_interval(secs => u.wait_ms::float8 / 1000) end,
    failures = p.failures + u.failed
from unnest($1::bigint[], $2::text[], $3::int[], $4::int[]) as u (id, reason, wait_ms, failed)
where p.id = any ($1::bigint[])
  and p.id = u.id
  and p.payable > 0`;

export const WAIT_REASONS = [
  'NO_ADDRESS',
  'ADDRESS_OURS',
  'NO_POLICY',
  'NO_QUOTE',
  'PAUSED',
  'INSUFFICIENT_FUNDS',
  'MOVED_NOTHING',
  'CANCELLED',
] as const;
export type WaitReason = (typeof WAIT_REASONS)[number];

export interface Waiting {
  readonly poolId: bigint;
  readonly reason: WaitReason;
  /** `null`: not by time; something must change. */
  readonly waitMs: number | null;
  readonly failed?: boolean;
}

/** They stay due, and are listed with their reason. The pools are locked. */
export async function markWaiting(tx: Tx, list: readonly Waiting[]): Promise<void> {
  if (list.length === 0) return;
  await tx.query(WAIT, [
    list.map((one) => one.poolId),
    list.map((one) => one.reason),
    list.map((one) => one.waitMs),
    list.map((one) => (one.failed === true ? 1 : 0)),
  ]);
}

const WAITING = `select p.id
from payonce.pools p
join payonce.programmes o on o.id = p.programme_id and o.paused_at is null
left join payonce.accounts a on a.code = 'partner:' || o.partner_id and a.asset_id = o.asset_id
where p.due_since is not null
  and p.next_at <= (select payonce.now())
  and (p.wait_reason <> 'INSUFFICIENT_FUNDS' or a.balance - a.held >= p.payable)
order by p.next_at, p.id
limit $1
for no key update of p skip locked`;

/** Locks pools that are due and may be made now: their time has come, and the partner has the money. */
export async function lockWaiting(tx: Tx, limit: number): Promise<bigint[]> {
  return (await tx.query<{ id: bigint }>(WAITING, [limit])).rows.map((row) => row.id);
}

const UNFUNDED = `update payonce.programmes o
set unfunded_at = payonce.now()
where o.id = any ($1::text[])
  and o.unfunded_at is null
returning o.id`;
const FUNDED = `update payonce.programmes o
set unfunded_at = null
where o.unfunded_at is not null
  and not exists (
    select 1 from payonce.pools p where p.programme_id = o.id and p.due_since is not null and p.wait_reason = 'INSUFFICIENT_FUNDS')
returning o.id`;

/** Programmes for which this is new. */
export async function markUnfunded(tx: Tx, ids: readonly string[]): Promise<string[]> {
  return (await tx.query<{ id: string }>(UNFUNDED, [ids])).rows.map((row) => row.id);
}
/** Programmes whose payouts wait for money no more. */
export async function markFunded(tx: Tx): Promise<string[]> {
  return (await tx.query<{ id: string }>(FUNDED)).rows.map((row) => row.id);
}

const TAKEN = `update payonce.payouts y
set taken = u.taken,
    ended_at = case when u.taken in ('paid', 'returned') then payonce.now() end,
    end_detail = u.detail
from unnest($1::text[], $2::text[], $3::text[]) as u (id, taken, detail)
where y.id = any ($1::text[])
  and y.id = u.id
  and y.taken <> u.taken`;

export interface Taken {
  readonly id: string;
  readonly taken: 'in_flight' | 'unknown' | 'paid' | 'returned';
  readonly detail: string | null;
}

/** The pool's side of a payout's end; the database moves the sums, and refuses what its effect does not bear out. */
export async function markTaken(tx: Tx, list: readonly Taken[]): Promise<void> {
  await tx.query(TAKEN, [list.map((one) => one.id), list.map((one) => one.taken), list.map((one) => one.detail)]);
}

const FAILURES = `select p.id, p.failures
from payonce.pools p
where p.id = any ($1::bigint[])`;

/** How often in a row a payout of these moved nothing. */
export async function loadFailures(query: Query, poolIds: readonly bigint[]): Promise<Map<bigint, number>> {
  const { rows } = await query.query<{ id: bigint; failures: number }>(FAILURES, [poolIds]);
  return new Map(rows.map((row) => [row.id, row.failures]));
}
