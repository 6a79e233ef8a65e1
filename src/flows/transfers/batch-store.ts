/**
 * Batches' statements. Lock order: keys (advisory, the engine's intake), the partner's files (references.ts), then inserts;
 * `taken_at` last.
 * Isolation: READ COMMITTED, set by `tx`.
 */
import { type Query, type Row, toText, toUnits, type Tx } from '../../db/pool.ts';
import type { LineFault } from './batch-file.ts';
import { payeeKey } from './payee-key.ts';
import { findHolders, holderInWords } from './references.ts';

export interface Batch {
  readonly id: string;
  readonly partnerId: string;
  readonly idempotencyKey: string;
  readonly fileSha256: string;
  readonly format: 'csv' | 'json';
  /** `transfers`: each line is a transfer of its own; `batch`: one order to a provider that takes many lines. */
  readonly paysAs: 'transfers' | 'batch';
  readonly assetId: string;
  /** The good lines' sum. */
  readonly amount: bigint;
  /** Of a `batch`; `null`: each transfer has its own. */
  readonly fee: bigint | null;
  /** Of a `batch`: whose day's total counts it. */
  readonly day: string | null;
}

export interface StoredBatch extends Batch {
  readonly assetCode: string;
  readonly decimals: number;
  readonly requestedAt: Date;
}

export interface Line {
  readonly batchId: string;
  readonly line: number;
  readonly ref: string;
  readonly partnerId: string;
  readonly externalId: string | null;
  readonly amount: bigint;
  readonly fee: bigint | null;
  readonly bankCode: string;
  readonly accountNumber: string;
  readonly holderName: string;
  readonly holderNameNfc: string;
  readonly memo: string;
}

const STORE_SUBJECT = `insert into payonce.subjects (type, id, partner_id, natural_key)
values ('transfer_batch', $1, $2, $3)`;

/** The subject of a file whose lines are transfers: it has events and no effect. */
export async function storeSubject(tx: Tx, id: string, partnerId: string, natural: string): Promise<void> {
  await tx.query(STORE_SUBJECT, [id, partnerId, natural]);
}

const STORE = `insert into payonce.transfer_batches
  (id, partner_id, idempotency_key, file_sha256, format, pays_as, asset_id, amount, fee, day)
select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::numeric[], $9::numeric[], $10::date[])`;

export async function storeBatches(tx: Tx, list: readonly Batch[]): Promise<void> {
  await tx.query(STORE, [
    list.map((one) => one.id),
    list.map((one) => one.partnerId),
    list.map((one) => one.idempotencyKey),
    list.map((one) => one.fileSha256),
    list.map((one) => one.format),
    list.map((one) => one.paysAs),
    list.map((one) => one.assetId),
    list.map((one) => one.amount),
    list.map((one) => one.fee),
    list.map((one) => one.day),
  ]);
}

const STORE_LINES = `insert into payonce.transfer_batch_lines
  (batch_id, line, ref, partner_id, external_id, amount, fee, bank_code, account_number, holder_name, holder_name_nfc, memo)
select * from unnest($1::text[], $2::int[], $3::text[], $4::text[], $5::text[], $6::numeric[], $7::numeric[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[])`;

export async function storeLines(tx: Tx, list: readonly Line[]): Promise<void> {
  await tx.query(STORE_LINES, [
    list.map((one) => one.batchId),
    list.map((one) => one.line),
    list.map((one) => one.ref),
    list.map((one) => one.partnerId),
    list.map((one) => one.externalId),
    list.map((one) => one.amount),
    list.map((one) => one.fee),
    list.map((one) => one.bankCode),
    list.map((one) => one.accountNumber),
    list.map((one) => one.holderName),
    list.map((one) => one.holderNameNfc),
    list.map((one) => one.memo),
  ]);
}

const STORE_FAULTS = `insert into payonce.transfer_batch_faults (batch_id, n, line, column_name, column_number, got, expected)
select $1, * from unnest($2::int[], $3::int[], $4::text[], $5::int[], $6::text[], $7::text[])`;

export async function storeFaults(tx: Tx, batchId: string, list: readonly LineFault[]): Promise<void> {
  if (list.length === 0) return;
  await tx.query(STORE_FAULTS, [
    batchId,
    list.map((_, index) => index + 1),
    list.map((one) => one.line),
    list.map((one) => one.column),
    list.map((one) => one.columnNumber),
    list.map((one) => one.got),
    list.map((one) => one.expected),
  ]);
}

const FAULTS = `select line, column_name, column_number, got, expected
from payonce.transfer_batch_faults
where batch_id = $1
order by n`;

export async function loadFaults(query: Query, batchId: string): Promise<LineFault[]> {
  const { rows } = await query.query(FAULTS, [batchId]);
  return rows.map((row) => ({
    line: row['line'] as number,
    column: toText(row['column_name'], 'column_name'),
    columnNumber: row['column_number'] as number | null,
    got: toText(row['got'], 'got'),
    expected: toText(row['expected'], 'expected'),
  }));
}

const BY_FILE = `select id, asset_id
from payonce.transfer_batches
where partner_id = $1
  and file_sha256 = $2
order by requested_at, id
limit 1`;

/** The first batch made of these very bytes, under whatever key. */
export async function findByFile(
  query: Query,
  partnerId: string,
  sha256: string,
): Promise<{ readonly id: string; readonly assetId: string } | null> {
  const [row] = (await query.query(BY_FILE, [partnerId, sha256])).rows;
  return row === undefined ? null : { id: toText(row['id'], 'id'), assetId: toText(row['asset_id'], 'asset_id') };
}

// What failed, was cancelled or refused is not paid: it may be in a file again. The view of lines is made to be asked by files.
const TWINS = `with twins as materialized (
  select u.n, l.batch_id, l.line, f.requested_at
  from unnest($2::int[], $3::text[], $4::numeric[]) as u (n, payee, amount)
  join payonce.transfer_batch_lines l
    on l.partner_id = $1 and payonce.payee_key(l.bank_code, l.account_number) = u.payee and l.amount = u.amount and l.external_id is null
  join payonce.transfer_batches f on f.id = l.batch_id
  where f.asset_id = $5
    and f.requested_at > payonce.now() - make_interval(hours => $6)
),
states as materialized (
  select s.batch_id, s.line
  from payonce.transfer_batch_line_states s
  where s.batch_id = any (array(select distinct batch_id from twins))
    and s.fate not in ('refused', 'failed', 'cancelled')
)
select t.n, 'line ' || t.line || ' of ' || t.batch_id as place, t.requested_at
from twins t
join states s on s.batch_id = t.batch_id and s.line = t.line
union all
select u.n, 'transfer ' || t.id, t.requested_at
from unnest($2::int[], $3::text[], $4::numeric[]) as u (n, payee, amount)
join payonce.transfers t
  on t.partner_id = $1 and payonce.payee_key(t.bank_code, t.account_number) = u.payee and t.amount = u.amount and t.external_id is null
join payonce.transfer_states v on v.id = t.id
where t.asset_id = $5
  and t.requested_at > payonce.now() - make_interval(hours => $6)
  and v.status not in ('failed', 'cancelled')
  and not exists (select 1 from payonce.transfer_batch_lines l where l.partner_id = t.partner_id and l.ref = t.idempotency_key)
order by requested_at, place desc`;

type Payment = Pick<Line, 'externalId' | 'bankCode' | 'accountNumber' | 'amount'>;

/** Which of these lines pay what is being paid already, and where; by their place in the list. */
export async function findTaken(
  query: Query,
  partnerId: string,
  assetId: string,
  lines: readonly Payment[],
  repeatedWithinHours: number,
): Promise<Map<number, string>> {
  const held = await findHolders(
    query,
    lines.map(({ externalId }) => ({ partnerId, externalId })),
  );
  const nameless = lines.map((line, n) => ({ ...line, n })).filter((one) => one.externalId === null);
  const { rows: twins } = await query.query<{ n: number; place: string }>(TWINS, [
    partnerId,
    nameless.map((one) => one.n),
    nameless.map(payeeKey),
    nameless.map((one) => one.amount),
    assetId,
    repeatedWithinHours,
  ]);
  return new Map([
    ...[...held].map(([n, holder]) => [n, holderInWords(holder)] as const),
    ...twins.map((one) => [one.n, one.place] as const),
  ]);
}

const WAITING = `select l.batch_id, l.line, l.ref, l.partner_id, l.external_id, l.amount, l.fee, l.bank_code, l.account_number, l.holder_name,
       l.holder_name_nfc, l.memo
from payonce.transfer_batch_lines l
where l.batch_id = $1
  and not exists (select 1 from payonce.idempotency_keys k where k.partner_id = l.partner_id and k.key = l.ref)
order by l.line
limit $2`;

/** Lines that have no answer yet. */
export async function loadWaiting(query: Query, batchId: string, limit: number): Promise<Line[]> {
  return (await query.query(WAITING, [batchId, limit])).rows.map(toLine);
}

const MARK_TAKEN = `update payonce.transfer_batches b
set taken_at = payonce.now()
where b.id = $1
  and b.taken_at is null
  and not exists (
    select 1 from payonce.transfer_batch_lines l
    where l.batch_id = b.id
      and not exists (select 1 from payonce.idempotency_keys k where k.partner_id = l.partner_id and k.key = l.ref))`;

export async function markTaken(query: Query, batchId: string): Promise<void> {
  await query.query(MARK_TAKEN, [batchId]);
}

const OPEN = `select id
from payonce.transfer_batches
where pays_as = 'transfers'
  and taken_at is null
  and requested_at < payonce.now() - make_interval(secs => $1::float8 / 1000)
order by requested_at, id
limit $2`;

/** Files some of whose lines wait still, though their uploader had the time to take them. */
export async function findUntaken(query: Query, olderThanMs: number, limit: number): Promise<string[]> {
  return (await query.query(OPEN, [olderThanMs, limit])).rows.map((row) => toText(row['id'], 'id'));
}

const LINES = `select l.batch_id, l.line, l.ref, l.partner_id, l.external_id, l.amount, l.fee, l.bank_code, l.account_number, l.holder_name,
       l.holder_name_nfc, l.memo,
       (select f.fate from payonce.transfer_batch_fates f where f.batch_id = l.batch_id and f.line = l.line order by f.seq desc limit 1) as fate
from payonce.transfer_batch_lines l
where l.batch_id = any ($1::text[])
order by l.batch_id, l.line`;

export type Fate = 'paid' | 'not_paid' | 'unknown';
export type LineWithFate = Line & { readonly fate: Fate | null };

export async function loadLines(query: Query, ids: readonly string[]): Promise<Map<string, LineWithFate[]>> {
  const rows = (await query.query(LINES, [ids])).rows.map((row) => ({
    ...toLine(row),
    fate: row['fate'] as Fate | null,
  }));
  return Map.groupBy(rows, (row) => row.batchId);
}

const STORE_FATES = `insert into payonce.transfer_batch_fates (batch_id, line, seq, fate, object_id, detail)
select * from unnest($1::text[], $2::int[], $3::int[], $4::text[], $5::text[], $6::text[])`;

export interface NewFate {
  readonly batchId: string;
  readonly line: number;
  /** 1 at the end; 2 decides what was unknown then. */
  readonly seq: 1 | 2;
  readonly fate: Fate;
  readonly objectId: string | null;
  readonly detail: string;
}

export async function storeFates(tx: Tx, list: readonly NewFate[]): Promise<void> {
  if (list.length === 0) return;
  await tx.query(STORE_FATES, [
    list.map((one) => one.batchId),
    list.map((one) => one.line),
    list.map((one) => one.seq),
    list.map((one) => one.fate),
    list.map((one) => one.objectId),
    list.map((one) => one.detail),
  ]);
}

const FLAG = `insert into payonce.payees_flagged (return_id, partner_id, bank_code, account_number, batch_id, line, reason)
select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int[], $7::text[])`;

export async function flagLinePayees(
  tx: Tx,
  list: readonly { readonly id: string; readonly reason: string | null; readonly line: Line }[],
): Promise<void> {
  await tx.query(FLAG, [
    list.map((one) => one.id),
    list.map((one) => one.line.partnerId),
    list.map((one) => one.line.bankCode),
    list.map((one) => one.line.accountNumber),
    list.map((one) => one.line.batchId),
    list.map((one) => one.line.line),
    list.map((one) => one.reason),
  ]);
}

function toLine(row: Row): Line {
  return {
    batchId: toText(row['batch_id'], 'batch_id'),
    line: row['line'] as number,
    ref: toText(row['ref'], 'ref'),
    partnerId: toText(row['partner_id'], 'partner_id'),
    externalId: row['external_id'] as string | null,
    amount: toUnits(row['amount'], 'amount'),
    fee: row['fee'] === null ? null : toUnits(row['fee'], 'fee'),
    bankCode: toText(row['bank_code'], 'bank_code'),
    accountNumber: toText(row['account_number'], 'account_number'),
    holderName: toText(row['holder_name'], 'holder_name'),
    holderNameNfc: toText(row['holder_name_nfc'], 'holder_name_nfc'),
    memo: toText(row['memo'], 'memo'),
  };
}
