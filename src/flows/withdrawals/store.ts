/**
 * Withdrawals' statements.
 * Isolation: READ COMMITTED, set by `tx`.
 */
import { type Query, type Row, toText, toUnits, type Tx } from '../../db/pool.ts';

export type Purpose = 'customer' | 'settlement' | 'self';

export interface Withdrawal {
  readonly id: string;
  readonly partnerId: string;
  readonly externalId: string | null;
  readonly purpose: Purpose;
  readonly assetId: string;
  readonly assetCode: string;
  readonly decimals: number;
  readonly amount: bigint;
  readonly fee: bigint;
  readonly destination: string;
  readonly reference: string | null;
  readonly requestedAt: Date;
  readonly day: string;
}

const COLUMNS = `w.id, w.partner_id, w.external_id, w.purpose, w.asset_id, a.code as asset_code, a.decimals, w.amount, w.fee,
  w.destination, w.reference, w.requested_at, w.day::text as day`;

export function toWithdrawal(row: Row): Withdrawal {
  return {
    id: toText(row['id'], 'withdrawals.id'),
    partnerId: toText(row['partner_id'], 'withdrawals.partner_id'),
    externalId: row['external_id'] as string | null,
    purpose: row['purpose'] as Purpose,
    assetId: toText(row['asset_id'], 'withdrawals.asset_id'),
    assetCode: toText(row['asset_code'], 'assets.code'),
    decimals: row['decimals'] as number,
    amount: toUnits(row['amount'], 'withdrawals.amount'),
    fee: toUnits(row['fee'], 'withdrawals.fee'),
    destination: toText(row['destination'], 'withdrawals.destination'),
    reference: row['reference'] as string | null,
    requestedAt: row['requested_at'] as Date,
    day: toText(row['day'], 'withdrawals.day'),
  };
}

const LOAD = `select ${COLUMNS}
from payonce.withdrawals w
join payonce.assets a on a.id = w.asset_id
where w.id = any ($1::text[])`;

export async function loadWithdrawals(query: Query, ids: readonly string[]): Promise<Map<string, Withdrawal>> {
  const { rows } = await query.query(LOAD, [ids]);
  return new Map(rows.map((row) => [toText(row['id'], 'withdrawals.id'), toWithdrawal(row)]));
}

const EXTERNAL = `select w.partner_id, w.external_id, w.id
from payonce.withdrawals w
join unnest($1::text[], $2::text[]) as u (partner_id, external_id) on u.partner_id = w.partner_id and u.external_id = w.external_id`;

export async function loadExternalIds(
  query: Query,
  list: readonly { partnerId: string; externalId: string }[],
): Promise<Map<string, string>> {
  if (list.length === 0) return new Map();
  const { rows } = await query.query<{ partner_id: string; external_id: string; id: string }>(EXTERNAL, [
    list.map((one) => one.partnerId),
    list.map((one) => one.externalId),
  ]);
  return new Map(rows.map((row) => [`${row.partner_id}\n${row.external_id}`, row.id]));
}

const STORE = `insert into payonce.withdrawals
  (id, partner_id, idempotency_key, external_id, purpose, asset_id, amount, fee, destination, reference, day)
select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::numeric[], $8::numeric[], $9::text[], $10::text[], $11::date[])`;

export interface NewWithdrawal {
  readonly id: string;
  readonly partnerId: string;
  readonly idempotencyKey: string;
  readonly externalId: string | null;
  readonly purpose: Purpose;
  readonly assetId: string;
  readonly amount: bigint;
  readonly fee: bigint;
  readonly destination: string;
  readonly reference: string | null;
  readonly day: string;
}
export async function storeWithdrawals(tx: Tx, list: readonly NewWithdrawal[]): Promise<void> {
  await tx.query(STORE, [
    list.map((one) => one.id),
    list.map((one) => one.partnerId),
    list.map((one) => one.idempotencyKey),
    list.map((one) => one.externalId),
    list.map((one) => one.purpose),
    list.map((one) => one.assetId),
    list.map((one) => one.amount),
    list.map((one) => one.fee),
    list.map((one) => one.destination),
    list.map((one) => one.reference),
    list.map((one) => one.day),
  ]);
}

const READ = `select ${COLUMNS}, v.status, v.effect_id
from payonce.withdrawals w
join payonce.assets a on a.id = w.asset_id
join payonce.withdrawal_states v on v.id = w.id
where w.partner_id = $1
  and w.id = $2`;

// The place in the list is told at the database's own precision: a Date would cut the microseconds and skip rows.
const LIST = `select ${COLUMNS}, v.status, v.effect_id,
       to_char(w.requested_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as place
from payonce.withdrawals w
join payonce.assets a on a.id = w.asset_id
join payonce.withdrawal_states v on v.id = w.id
where w.partner_id = $1
  and ($2::timestamptz is null or (w.requested_at, w.id) < ($2::timestamptz, $3::text))
  and ($4::text is null or v.status = $4::text)
  and ($5::text is null or w.external_id = $5::text)
order by w.requested_at desc, w.id desc
limit $6`;

export type WithStatus = Withdrawal & { readonly status: string; readonly effectId: bigint };

export async function readWithdrawal(query: Query, partnerId: string, id: string): Promise<WithStatus | null> {
  const { rows } = await query.query(READ, [partnerId, id]);
  const row = rows[0];
  return row === undefined
    ? null
    : {
        ...toWithdrawal(row),
        status: toText(row['status'], 'status'),
        effectId: toUnits(row['effect_id'], 'effect_id'),
      };
}

export async function listWithdrawals(
  query: Query,
  partnerId: string,
  page: { before: { at: string; id: string } | null; status: string | null; externalId: string | null; limit: number },
): Promise<(WithStatus & { readonly place: string })[]> {
  const { rows } = await query.query(LIST, [
    partnerId,
    page.before?.at ?? null,
    page.before?.id ?? null,
    page.status,
    page.externalId,
    page.limit,
  ]);
  return rows.map((row) => ({
    ...toWithdrawal(row),
    status: toText(row['status'], 'status'),
    effectId: toUnits(row['effect_id'], 'effect_id'),
    place: toText(row['place'], 'place'),
  }));
}

const HISTORY = `select h.to_state, h.reason, h.at, e.seq,
       (select v.object_id from payonce.effect_evidence v where v.id = coalesce(e.settled_by, e.released_by)) as object_id,
       (select array_agg(x.hash order by x.id) from payonce.effect_variants x where x.effect_id = e.id) as hashes
from payonce.effects e
join payonce.effect_history h on h.effect_id = e.id
where e.subject_type = 'withdrawal'
  and e.subject_id = $1
order by e.seq, h.seq`;

export interface HistoryLine {
  readonly attempt: number;
  readonly state: string;
  readonly reason: string | null;
  readonly at: Date;
  readonly objectId: string | null;
  readonly hashes: readonly string[];
}
export async function loadHistory(query: Query, id: string): Promise<HistoryLine[]> {
  const { rows } = await query.query<{
    to_state: string;
    reason: string | null;
    at: Date;
    seq: number;
    object_id: string | null;
    hashes: string[] | null;
  }>(HISTORY, [id]);
  return rows.map((row) => ({
    attempt: row.seq,
    state: row.to_state,
    reason: row.reason,
    at: row.at,
    objectId: row.object_id,
    hashes: row.hashes ?? [],
  }));
}
