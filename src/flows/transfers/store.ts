/**
 * Transfers' statements. Lock order: repaid subjects by id, before what the engine's intake takes.
 * Isolation: READ COMMITTED, set by `tx`.
 */
import { type Query, type Row, toText, toUnits, type Tx } from '../../db/pool.ts';

export interface Transfer {
  readonly id: string;
  readonly partnerId: string;
  readonly externalId: string | null;
  readonly assetId: string;
  readonly assetCode: string;
  readonly decimals: number;
  readonly amount: bigint;
  readonly fee: bigint;
  readonly bankCode: string;
  readonly accountNumber: string;
  /** As the caller wrote it. */
  readonly holderName: string;
  readonly memo: string;
  readonly repays: string | null;
  /** Money of this partner came back from this account before. */
  readonly payeeFlagged: boolean;
  readonly requestedAt: Date;
  readonly day: string;
}

const COLUMNS = `t.id, t.partner_id, t.external_id, t.asset_id, a.code as asset_code, a.decimals, t.amount, t.fee, t.bank_code,
  t.account_number, t.holder_name, t.memo, t.repays, t.requested_at, t.day::text as day,
  exists (
    select 1 from payonce.payees_flagged f
    where f.partner_id = t.partner_id and f.bank_code = t.bank_code and f.account_number = t.account_number) as payee_flagged`;

function toTransfer(row: Row): Transfer {
  return {
    id: toText(row['id'], 'transfers.id'),
    partnerId: toText(row['partner_id'], 'transfers.partner_id'),
    externalId: row['external_id'] as string | null,
    assetId: toText(row['asset_id'], 'transfers.asset_id'),
    assetCode: toText(row['asset_code'], 'assets.code'),
    decimals: row['decimals'] as number,
    amount: toUnits(row['amount'], 'transfers.amount'),
    fee: toUnits(row['fee'], 'transfers.fee'),
    bankCode: toText(row['bank_code'], 'transfers.bank_code'),
    accountNumber: toText(row['account_number'], 'transfers.account_number'),
    holderName: toText(row['holder_name'], 'transfers.holder_name'),
    memo: toText(row['memo'], 'transfers.memo'),
    repays: row['repays'] as string | null,
    payeeFlagged: row['payee_flagged'] as boolean,
    requestedAt: row['requested_at'] as Date,
    day: toText(row['day'], 'transfers.day'),
  };
}

const LOAD = `select ${COLUMNS}
from payonce.transfers t
join payonce.assets a on a.id = t.asset_id
where t.id = any ($1::text[])`;

export async function loadTransfers(query: Query, ids: readonly string[]): Promise<Map<string, Transfer>> {
  const { rows } = await query.query(LOAD, [ids]);
  return new Map(rows.map((row) => [toText(row['id'], 'transfers.id'), toTransfer(row)]));
}

const EXTERNAL = `select t.partner_id, t.external_id, t.id
from payonce.transfers t
join unnest($1::text[], $2::text[]) as u (partner_id, external_id) on u.partner_id = t.partner_id and u.external_id = t.external_id`;

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

const STORE = `insert into payonce.transfers
  (id, partner_id, idempotency_key, external_id, asset_id, amount, fee, bank_code, account_number, holder_name, holder_name_nfc, memo, repays, day)
select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::numeric[], $7::numeric[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::date[])`;

export interface NewTransfer extends Omit<Transfer, 'assetCode' | 'decimals' | 'payeeFlagged' | 'requestedAt'> {
  readonly idempotencyKey: string;
  /** What is compared and sent. */
  readonly holderNameNfc: string;
}

export async function storeTransfers(tx: Tx, list: readonly NewTransfer[]): Promise<void> {
  await tx.query(STORE, [
    list.map((one) => one.id),
    list.map((one) => one.partnerId),
    list.map((one) => one.idempotencyKey),
    list.map((one) => one.externalId),
    list.map((one) => one.assetId),
    list.map((one) => one.amount),
    list.map((one) => one.fee),
    list.map((one) => one.bankCode),
    list.map((one) => one.accountNumber),
    list.map((one) => one.holderName),
    list.map((one) => one.holderNameNfc),
    list.map((one) => one.memo),
    list.map((one) => one.repays),
    list.map((one) => one.day),
  ]);
}

export interface Repaid {
  readonly partnerId: string;
  readonly status: string;
  readonly repaidBy: string | null;
}

// Two transfers that pay one again wait for each other here; what the second reads is in a statement of its own.
const LOCK_REPAID = `select s.id
from payonce.subjects s
where s.type = 'transfer'
  and s.id = any ($1::text[])
order by s.id
for no key update`;

const REPAID = `select t.id, t.partner_id, v.status, r.id as repaid_by
from payonce.transfers t
join payonce.transfer_states v on v.id = t.id
left join payonce.transfers r on r.repays = t.id
where t.id = any ($1::text[])`;

export async function lockRepaid(tx: Tx, ids: readonly string[]): Promise<Map<string, Repaid>> {
  if (ids.length === 0) return new Map();
  await tx.query(LOCK_REPAID, [ids]);
  const { rows } = await tx.query<{ id: string; partner_id: string; status: string; repaid_by: string | null }>(
    REPAID,
    [ids],
  );
  return new Map(
    rows.map((row) => [row.id, { partnerId: row.partner_id, status: row.status, repaidBy: row.repaid_by }]),
  );
}

const FLAG = `insert into payonce.payees_flagged (return_id, partner_id, bank_code, account_number, transfer_id, reason)
select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])`;

export async function flagPayees(
  tx: Tx,
  list: readonly { readonly id: string; readonly reason: string | null; readonly transfer: Transfer }[],
): Promise<void> {
  await tx.query(FLAG, [
    list.map((one) => one.id),
    list.map((one) => one.transfer.partnerId),
    list.map((one) => one.transfer.bankCode),
    list.map((one) => one.transfer.accountNumber),
    list.map((one) => one.transfer.id),
    list.map((one) => one.reason),
  ]);
}

const READ = `select ${COLUMNS}, v.status
from payonce.transfers t
join payonce.assets a on a.id = t.asset_id
join payonce.transfer_states v on v.id = t.id
where t.partner_id = $1
  and t.id = $2`;

export async function readTransferById(
  query: Query,
  partnerId: string,
  id: string,
): Promise<(Transfer & { readonly status: string }) | null> {
  const { rows } = await query.query(READ, [partnerId, id]);
  const row = rows[0];
  return row === undefined ? null : { ...toTransfer(row), status: toText(row['status'], 'status') };
}
