/**
 * Transfers' statements. Lock order: repaid subjects by id, before what the engine's intake takes.
 * Isolation: READ COMMITTED, set by `tx`.
 */
import { type Query, toText, toUnits, type Tx } from '../../db/pool.ts';
import { makeOrderReader, type StoredOrder, toStoredOrder } from '../../engine/order-store.ts';

export interface Transfer extends StoredOrder {
  readonly bankCode: string;
  readonly accountNumber: string;
  /** As the caller wrote it. */
  readonly holderName: string;
  readonly memo: string;
  readonly repays: string | null;
  /** Money of this partner came back from this account before. */
  readonly payeeFlagged: boolean;
}

const COLUMNS = `t.id, t.partner_id, t.external_id, t.asset_id, a.code as asset_code, a.decimals, t.amount, t.fee, t.bank_code,
  t.account_number, t.holder_name, t.memo, t.repays, t.requested_at, t.day::text as day,
  exists (
    select 1 from payonce.payees_flagged f
    where f.partner_id = t.partner_id
      and payonce.payee_key(f.bank_code, f.account_number) = payonce.payee_key(t.bank_code, t.account_number)) as payee_flagged`;

const LOAD = `select ${COLUMNS}
from payonce.transfers t
join payonce.assets a on a.id = t.asset_id
where t.id = any ($1::text[])`;

const EXTERNAL = `select t.partner_id, t.external_id, t.id
from payonce.transfers t
join unnest($1::text[], $2::text[]) as u (partner_id, external_id) on u.partner_id = t.partner_id and u.external_id = t.external_id`;

const READ = `select ${COLUMNS}, v.status
from payonce.transfers t
join payonce.assets a on a.id = t.asset_id
join payonce.transfer_states v on v.id = t.id
where t.partner_id = $1
  and t.id = $2`;

const LIST = `select ${COLUMNS}, v.status,
       to_char(t.requested_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as place
from payonce.transfers t
join payonce.assets a on a.id = t.asset_id
join payonce.transfer_states v on v.id = t.id
where t.partner_id = $1
  and ($2::timestamptz is null or (t.requested_at, t.id) < ($2::timestamptz, $3::text))
  and ($4::text is null or v.status = $4::text)
  and ($5::text is null or t.external_id = $5::text)
order by t.requested_at desc, t.id desc
limit $6`;

const reader = makeOrderReader(
  { load: LOAD, external: EXTERNAL, read: READ, list: LIST },
  (row): Transfer => ({
    ...toStoredOrder(row),
    bankCode: toText(row['bank_code'], 'transfers.bank_code'),
    accountNumber: toText(row['account_number'], 'transfers.account_number'),
    holderName: toText(row['holder_name'], 'transfers.holder_name'),
    memo: toText(row['memo'], 'transfers.memo'),
    repays: row['repays'] as string | null,
    payeeFlagged: row['payee_flagged'] as boolean,
  }),
);
export const loadTransfers = reader.load;
export const loadExternalIds = reader.loadExternalIds;
export const readTransferById = reader.read;
export const listTransfers = reader.list;

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
  readonly amount: bigint;
  /** What the rail says came back, before fees. */
  readonly cameBack: bigint;
  /** A case about it is open. */
  readonly inDoubt: boolean;
}

// Two transfers that pay one again wait for each other here; what the second reads is in a statement of its own.
const LOCK_REPAID = `select s.id
from payonce.subjects s
where s.type = 'transfer'
  and s.id = any ($1::text[])
order by s.id
for no key update`;

const REPAID = `select t.id, t.partner_id, v.status, r.id as repaid_by, t.amount,
       coalesce((select sum(b.amount) from payonce.returns b where b.effect_id = v.effect_id), 0) as came_back,
       exists (select 1 from payonce.cases k where k.effect_id = v.effect_id and k.closed_at is null) as in_doubt
from payonce.transfers t
join payonce.transfer_states v on v.id = t.id
left join payonce.transfers r on r.repays = t.id
where t.id = any ($1::text[])`;

export async function lockRepaid(tx: Tx, ids: readonly string[]): Promise<Map<string, Repaid>> {
  if (ids.length === 0) return new Map();
  await tx.query(LOCK_REPAID, [ids]);
  const { rows } = await tx.query(REPAID, [ids]);
  return new Map(
    rows.map((row) => [
      toText(row['id'], 'id'),
      {
        partnerId: toText(row['partner_id'], 'partner_id'),
        status: toText(row['status'], 'status'),
        repaidBy: row['repaid_by'] as string | null,
        amount: toUnits(row['amount'], 'amount'),
        cameBack: toUnits(row['came_back'], 'came_back'),
        inDoubt: row['in_doubt'] === true,
      },
    ]),
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

// The provider's object of the last attempt; while a believed no waits also why, and when it may become final.
const FATE = `select coalesce(v.object_id, e.accepted_object) as bank_id, b.detail as reason,
       case when b.id is not null then e.lateness_until end as final_at,
       (select r.id from payonce.transfers r where r.repays = e.subject_id) as repaid_by
from payonce.effects e
left join payonce.effect_evidence v on v.id = coalesce(e.settled_by, e.released_by)
left join payonce.effect_evidence b on b.id = e.believed_evidence and e.ended_at is null and e.testimonies = 0
where e.subject_type = 'transfer'
  and e.subject_id = $1
order by e.seq desc
limit 1`;

const RETURNS = `select r.id, r.amount, r.fee, r.reason, r.at
from payonce.returns r
join payonce.effects e on e.id = r.effect_id
where e.subject_type = 'transfer'
  and e.subject_id = $1
order by r.at, r.id`;

export interface TransferFate {
  readonly bankId: string | null;
  readonly reason: string | null;
  readonly finalAt: Date | null;
  readonly repaidBy: string | null;
  readonly returns: readonly {
    readonly id: string;
    readonly amount: bigint;
    readonly fee: bigint;
    readonly reason: string | null;
    readonly at: Date;
  }[];
}

export async function loadFate(query: Query, id: string): Promise<TransferFate> {
  const [row] = (await query.query(FATE, [id])).rows;
  const { rows } = await query.query(RETURNS, [id]);
  return {
    bankId: (row?.['bank_id'] ?? null) as string | null,
    reason: (row?.['reason'] ?? null) as string | null,
    finalAt: (row?.['final_at'] ?? null) as Date | null,
    repaidBy: (row?.['repaid_by'] ?? null) as string | null,
    returns: rows.map((one) => ({
      id: toText(one['id'], 'returns.id'),
      amount: toUnits(one['amount'], 'returns.amount'),
      fee: toUnits(one['fee'], 'returns.fee'),
      reason: one['reason'] as string | null,
      at: one['at'] as Date,
    })),
  };
}

// Under a share lock on what is paid again: testimony of it waits for the seal, or the seal sees it.
const LOCK_PAID_AGAIN = `select e.id
from payonce.transfers t
join payonce.effects e on e.subject_type = 'transfer' and e.subject_id = t.repays
where t.id = any ($1::text[])
order by e.id
for share of e`;

const MOVED_AFTER_ALL = `select t.id, t.repays
from payonce.transfers t
join payonce.effects e on e.subject_type = 'transfer' and e.subject_id = t.repays
where t.id = any ($1::text[])
  and (e.state in ('PENDING', 'SEALED')
    or e.state = 'SETTLED' and not exists (select 1 from payonce.returns r where r.effect_id = e.id)
    or e.state = 'RELEASED' and not payonce.release_stands(e.id))`;

/** Of these transfers, those that pay again what moved after all, or may still, by what they name. */
export async function loadBarredRepayers(tx: Tx, ids: readonly string[]): Promise<Map<string, string>> {
  await tx.query(LOCK_PAID_AGAIN, [ids]);
  const { rows } = await tx.query<{ id: string; repays: string }>(MOVED_AFTER_ALL, [ids]);
  return new Map(rows.map((row) => [row.id, row.repays]));
}
