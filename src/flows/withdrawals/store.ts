/**
 * Withdrawals' statements.
 * Isolation: READ COMMITTED, set by `tx`.
 */
import { toText, type Tx } from '../../db/pool.ts';
import { makeOrderReader, type StoredOrder, toStoredOrder } from '../../engine/order-store.ts';

export type Purpose = 'customer' | 'settlement' | 'self';

export interface Withdrawal extends StoredOrder {
  readonly purpose: Purpose;
  readonly destination: string;
  readonly reference: string | null;
}

const COLUMNS = `w.id, w.partner_id, w.external_id, w.purpose, w.asset_id, a.code as asset_code, a.decimals, w.amount, w.fee,
  w.destination, w.reference, w.requested_at, w.day::text as day`;

const LOAD = `select ${COLUMNS}
from payonce.withdrawals w
join payonce.assets a on a.id = w.asset_id
where w.id = any ($1::text[])`;

const EXTERNAL = `select w.partner_id, w.external_id, w.id
from payonce.withdrawals w
join unnest($1::text[], $2::text[]) as u (partner_id, external_id) on u.partner_id = w.partner_id and u.external_id = w.external_id`;

const READ = `select ${COLUMNS}, v.status
from payonce.withdrawals w
join payonce.assets a on a.id = w.asset_id
join payonce.withdrawal_states v on v.id = w.id
where w.partner_id = $1
  and w.id = $2`;

const LIST = `select ${COLUMNS}, v.status,
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

const reader = makeOrderReader(
  { load: LOAD, external: EXTERNAL, read: READ, list: LIST },
  (row): Withdrawal => ({
    ...toStoredOrder(row),
    purpose: row['purpose'] as Purpose,
    destination: toText(row['destination'], 'withdrawals.destination'),
    reference: row['reference'] as string | null,
  }),
);
export const loadWithdrawals = reader.load;
export const loadExternalIds = reader.loadExternalIds;
export const readWithdrawal = reader.read;
export const listWithdrawals = reader.list;

const STORE = `insert into payonce.withdrawals
  (id, partner_id, idempotency_key, external_id, purpose, asset_id, amount, fee, destination, reference, day)
select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::numeric[], $8::numeric[], $9::text[], $10::text[], $11::date[])`;

export interface NewWithdrawal extends Omit<Withdrawal, 'assetCode' | 'decimals' | 'requestedAt'> {
  readonly idempotencyKey: string;
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
