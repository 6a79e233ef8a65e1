/**
 * Statements of the intake. Lock order: keys (advisory, by hash), day totals, then what `intend` takes.
 * Isolation: READ COMMITTED, set by `tx`.
 */
import { type Query, type Row, toText, toUnits, type Tx } from '../db/pool.ts';

const LOCK_KEYS = `select pg_advisory_xact_lock(h)
from (select distinct hashtextextended(k, 0) as h from unnest($1::text[]) as u (k) order by 1) s`;

/** One at a time per (partner, key): the second waits for the first's commit and then finds its answer (case C4, C11). */
export async function lockKeys(tx: Tx, keys: readonly string[]): Promise<void> {
  await tx.query(LOCK_KEYS, [keys]);
}

export interface KnownKey {
  readonly partnerId: string;
  readonly key: string;
  readonly operation: string;
  readonly fingerprint: string;
  readonly resourceType: string | null;
  readonly resourceId: string | null;
  readonly refusal: Row | null;
}

const KNOWN_KEYS = `select k.partner_id, k.key, k.operation, k.fingerprint, k.resource_type, k.resource_id, k.refusal
from payonce.idempotency_keys k
join unnest($1::text[], $2::text[]) as u (partner_id, key) on u.partner_id = k.partner_id and u.key = k.key`;

export async function loadKnownKeys(
  query: Query,
  list: readonly { partnerId: string; key: string }[],
): Promise<KnownKey[]> {
  const { rows } = await query.query(KNOWN_KEYS, [list.map((one) => one.partnerId), list.map((one) => one.key)]);
  return rows.map((row) => ({
    partnerId: toText(row['partner_id'], 'idempotency_keys.partner_id'),
    key: toText(row['key'], 'idempotency_keys.key'),
    operation: toText(row['operation'], 'idempotency_keys.operation'),
    fingerprint: toText(row['fingerprint'], 'idempotency_keys.fingerprint'),
    resourceType: row['resource_type'] as string | null,
    resourceId: row['resource_id'] as string | null,
    refusal: row['refusal'] as Row | null,
  }));
}

const STORE_KEYS = `insert into payonce.idempotency_keys (partner_id, key, operation, fingerprint, resource_type, resource_id, refusal)
select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::jsonb[])`;

export interface NewKey {
  readonly partnerId: string;
  readonly key: string;
  readonly operation: string;
  readonly fingerprint: string;
  readonly resourceType: string;
  readonly resourceId: string | null;
  readonly refusal: object | null;
}
/** Business refusals are stored under the key and replayed for ever, like resources. */
export async function storeKeys(tx: Tx, list: readonly NewKey[]): Promise<void> {
  if (list.length === 0) return;
  await tx.query(STORE_KEYS, [
    list.map((one) => one.partnerId),
    list.map((one) => one.key),
    list.map((one) => one.operation),
    list.map((one) => one.fingerprint),
    list.map((one) => (one.resourceId === null ? null : one.resourceType)),
    list.map((one) => one.resourceId),
    list.map((one) => (one.refusal === null ? null : JSON.stringify(one.refusal))),
  ]);
}

export interface Policy {
  readonly assetId: string;
  readonly partnerId: string;
  readonly rail: string;
  readonly wallet: string;
  /** Who sign in the wallet's place; empty: it signs itself. */
  readonly relayers: readonly string[];
  readonly chain: string;
  readonly assetCode: string;
  readonly decimals: number;
  readonly min: bigint;
  readonly max: bigint;
  readonly dayMax: bigint;
  readonly feeFlat: bigint;
  readonly feeBasisPoints: bigint;
  readonly ownAddress: 'refuse' | 'allow_deposit_addresses';
  readonly day: string;
}

const POLICIES = `select distinct on (u.partner_id, u.asset_id)
       u.partner_id, u.asset_id, p.rail, p.wallet, p.relayers, a.chain, a.code, a.decimals, p.withdrawal_min, p.withdrawal_max, p.withdrawal_day_max,
       p.withdrawal_fee_flat, p.withdrawal_fee_bp, p.own_address_policy, (payonce.now() at time zone r.time_zone)::date::text as day
from unnest($1::text[], $2::text[]) as u (partner_id, asset_id)
join payonce.partners r on r.id = u.partner_id
join payonce.assets a on a.id = u.asset_id
join payonce.asset_policies p on p.asset_id = u.asset_id and p.partner_id in (u.partner_id, '*')
order by u.partner_id, u.asset_id, (p.partner_id = '*')`;

/** The partner's own policy for an asset, else everybody's; with today's date in the partner's time zone. */
export async function loadPolicies(
  query: Query,
  list: readonly { partnerId: string; assetId: string }[],
): Promise<Policy[]> {
  const { rows } = await query.query(POLICIES, [list.map((one) => one.partnerId), list.map((one) => one.assetId)]);
  return rows.map((row) => ({
    assetId: toText(row['asset_id'], 'asset_id'),
    partnerId: toText(row['partner_id'], 'partner_id'),
    rail: toText(row['rail'], 'rail'),
    wallet: toText(row['wallet'], 'wallet'),
    relayers: row['relayers'] as string[],
    chain: toText(row['chain'], 'chain'),
    assetCode: toText(row['code'], 'code'),
    decimals: row['decimals'] as number,
    min: toUnits(row['withdrawal_min'], 'withdrawal_min'),
    max: toUnits(row['withdrawal_max'], 'withdrawal_max'),
    dayMax: toUnits(row['withdrawal_day_max'], 'withdrawal_day_max'),
    feeFlat: toUnits(row['withdrawal_fee_flat'], 'withdrawal_fee_flat'),
    feeBasisPoints: BigInt(row['withdrawal_fee_bp'] as number),
    ownAddress: row['own_address_policy'] as Policy['ownAddress'],
    day: toText(row['day'], 'day'),
  }));
}

const OWN = `select d.chain, d.address, d.kind, d.partner_id
from payonce.addresses d
join unnest($1::text[], $2::text[]) as u (chain, address) on u.chain = d.chain and u.address = d.address
union all
select a.chain, a.contract, 'TOKEN', null
from payonce.assets a
join unnest($1::text[], $2::text[]) as u (chain, address) on u.chain = a.chain and u.address = a.contract`;

/** What we know of destinations: addresses of ours by their kind, and `TOKEN`, the contract of an asset. A contract that
 *  stands in both is a contract: it is told last. */
export async function loadOwnAddresses(
  query: Query,
  list: readonly { chain: string; address: string }[],
): Promise<Map<string, { kind: string; partnerId: string | null }>> {
  const { rows } = await query.query<{ chain: string; address: string; kind: string; partner_id: string | null }>(OWN, [
    list.map((one) => one.chain),
    list.map((one) => one.address),
  ]);
  return new Map(rows.map((row) => [`${row.chain}:${row.address}`, { kind: row.kind, partnerId: row.partner_id }]));
}

const AVAILABLE = `select a.id, a.balance - a.held as available
from payonce.accounts a
where a.id = any ($1::bigint[])`;

/** What may still be held, in units: for the words of a refusal, never for a decision. */
export async function loadAvailable(query: Query, accountIds: readonly bigint[]): Promise<Map<bigint, bigint>> {
  if (accountIds.length === 0) return new Map();
  const { rows } = await query.query(AVAILABLE, [accountIds]);
  return new Map(rows.map((row) => [toUnits(row['id'], 'accounts.id'), toUnits(row['available'], 'available')]));
}

const OPEN_DAYS = `insert into payonce.day_totals (partner_id, asset_id, day)
select distinct * from unnest($1::text[], $2::text[], $3::date[]) as u (partner_id, asset_id, day) order by 1, 2, 3
on conflict do nothing`;
const LOCK_DAYS = `select t.partner_id, t.asset_id, t.day::text as day, t.amount
from payonce.day_totals t
where (t.partner_id, t.asset_id, t.day) in (select * from unnest($1::text[], $2::text[], $3::date[]))
order by t.partner_id, t.asset_id, t.day
for no key update`;
const ADD_DAYS = `update payonce.day_totals t
set amount = t.amount + u.amount
from unnest($1::text[], $2::text[], $3::date[], $4::numeric[]) as u (partner_id, asset_id, day, amount)
where t.partner_id = u.partner_id
  and t.asset_id = u.asset_id
  and t.day = u.day`;

export interface Day {
  readonly partnerId: string;
  readonly assetId: string;
  readonly day: string;
}
export async function lockDays(tx: Tx, days: readonly Day[]): Promise<(Day & { amount: bigint })[]> {
  if (days.length === 0) return [];
  const values = [days.map((one) => one.partnerId), days.map((one) => one.assetId), days.map((one) => one.day)];
  await tx.query(OPEN_DAYS, values);
  const { rows } = await tx.query<{ partner_id: string; asset_id: string; day: string; amount: bigint }>(
    LOCK_DAYS,
    values,
  );
  return rows.map((row) => ({
    partnerId: row.partner_id,
    assetId: row.asset_id,
    day: row.day,
    amount: toUnits(row.amount, 'day_totals.amount'),
  }));
}
export async function addToDays(tx: Tx, days: readonly (Day & { amount: bigint })[]): Promise<void> {
  if (days.length === 0) return;
  await tx.query(ADD_DAYS, [
    days.map((one) => one.partnerId),
    days.map((one) => one.assetId),
    days.map((one) => one.day),
    days.map((one) => one.amount),
  ]);
}

const GIVE_BACK_DAY = `update payonce.day_totals t
set amount = t.amount - u.amount
from (
  select g.partner_id, g.asset_id, g.day, sum(g.amount) as amount
  from unnest($1::text[], $2::text[], $3::date[], $4::numeric[], $5::text[]) as g (partner_id, asset_id, day, amount, id)
  join payonce.subjects s on s.type = $6 and s.id = g.id and s.closed_at is null
  group by g.partner_id, g.asset_id, g.day
  order by g.partner_id, g.asset_id, g.day) u
where t.partner_id = u.partner_id
  and t.asset_id = u.asset_id
  and t.day = u.day`;

/** What ended without moving no longer counts towards its day's limit; given back once, at its first end. */
export async function giveBackDay(
  tx: Tx,
  subjectType: string,
  counted: readonly (Day & { readonly id: string; readonly amount: bigint })[],
): Promise<void> {
  if (counted.length === 0) return;
  await tx.query(GIVE_BACK_DAY, [
    counted.map((one) => one.partnerId),
    counted.map((one) => one.assetId),
    counted.map((one) => one.day),
    counted.map((one) => one.amount),
    counted.map((one) => one.id),
    subjectType,
  ]);
}
