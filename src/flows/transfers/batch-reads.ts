/** What a partner reads of its batches: statements and shapes. Amounts are decimal text. Isolation: READ COMMITTED, no locks. */
import { type Query, type Row, toText, toUnits } from '../../db/pool.ts';
import { formatUnits } from '../../kernel/money.ts';
import { EVENT_LINES_MAX } from './batch-limits.ts';
import type { LineFault } from './batch-file.ts';
import { loadFaults, type StoredBatch } from './batch-store.ts';

const COLUMNS = `b.id, b.partner_id, b.idempotency_key, b.file_sha256, b.format, b.pays_as, b.asset_id, a.code as asset_code, a.decimals,
  b.amount, b.fee, b.day::text as day, b.requested_at`;

const LOAD = `select ${COLUMNS}
from payonce.transfer_batches b
join payonce.assets a on a.id = b.asset_id
where b.id = any ($1::text[])`;

export async function loadBatches(query: Query, ids: readonly string[]): Promise<Map<string, StoredBatch>> {
  return new Map((await query.query(LOAD, [ids])).rows.map(toBatch).map((batch) => [batch.id, batch]));
}

const READ = `select ${COLUMNS}, v.status
from payonce.transfer_batches b
join payonce.assets a on a.id = b.asset_id
join payonce.transfer_batch_states v on v.id = b.id
where b.partner_id = $1
  and b.id = $2`;

const LIST = `select ${COLUMNS}, v.status,
       to_char(b.requested_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as place
from payonce.transfer_batches b
join payonce.assets a on a.id = b.asset_id
join payonce.transfer_batch_states v on v.id = b.id
where b.partner_id = $1
  and ($2::timestamptz is null or (b.requested_at, b.id) < ($2::timestamptz, $3::text))
  and ($5::text is null or v.status = $5::text)
order by b.requested_at desc, b.id desc
limit $4`;

const FATES = `select l.fate, count(*)::int as lines, sum(l.amount) as amount
from payonce.transfer_batch_line_states l
where l.batch_id = $1
group by l.fate`;

const COUNTS = `select (select count(*) from payonce.transfer_batch_lines l where l.batch_id = $1)::int as good,
       (select count(distinct f.line) from payonce.transfer_batch_faults f where f.batch_id = $1)::int as bad`;

const LINES = `select l.line, l.external_id, l.amount, l.fee, l.bank_code, l.account_number, l.holder_name, l.memo, l.fate, l.transfer_id, l.object_id,
       l.detail, l.code
from payonce.transfer_batch_line_states l
where l.batch_id = $1
  and l.line > $2
order by l.line
limit $3`;

type Fates = Readonly<Record<string, number>>;

export interface BatchView {
  id: string;
  status: string;
  pays_as: 'transfers' | 'batch';
  asset: string;
  amount: string;
  fee: string | null;
  format: 'csv' | 'json';
  file_sha256: string;
  requested_at: string;
}
export interface BatchDetail extends BatchView {
  lines: { good: number; bad: number; by_fate: Fates };
  /** The sum of confirmed lines: what came back is no part of it. */
  paid: string;
  bad_lines: readonly FaultView[];
}
export interface FaultView {
  line: number;
  column: string;
  column_number: number | null;
  got: string;
  expected: string;
}
export interface LineView {
  line: number;
  external_id: string | null;
  amount: string;
  fee: string | null;
  bank_code: string;
  account_number: string;
  holder_name: string;
  memo: string;
  fate: string;
  reason: string | null;
  code: string | null;
  transfer_id: string | null;
  bank_id: string | null;
}

export function toBatchView(batch: StoredBatch, status: string): BatchView {
  return {
    id: batch.id,
    status,
    pays_as: batch.paysAs,
    asset: batch.assetCode,
    amount: formatUnits(batch.amount, batch.decimals),
    fee: batch.fee === null ? null : formatUnits(batch.fee, batch.decimals),
    format: batch.format,
    file_sha256: batch.fileSha256,
    requested_at: batch.requestedAt.toISOString(),
  };
}

export function toFaultView({ line, column, columnNumber, got, expected }: LineFault): FaultView {
  return { line, column, column_number: columnNumber, got, expected };
}

/** `null` for another partner's as well. */
export async function readBatch(query: Query, partnerId: string, id: string): Promise<BatchDetail | null> {
  const [row] = (await query.query(READ, [partnerId, id])).rows;
  if (row === undefined) return null;
  const counts = (await query.query<{ good: number; bad: number }>(COUNTS, [id])).rows[0] ?? { good: 0, bad: 0 };
  const batch = toBatch(row);
  const { byFate, paid } = await loadFates(query, id);
  return {
    ...toBatchView(batch, toText(row['status'], 'status')),
    lines: { good: counts.good, bad: counts.bad, by_fate: byFate },
    paid: formatUnits(paid, batch.decimals),
    bad_lines: (await loadFaults(query, id)).map(toFaultView),
  };
}

export async function listBatches(
  query: Query,
  partnerId: string,
  page: {
    readonly before: { readonly at: string; readonly id: string } | null;
    readonly status: string | null;
    readonly limit: number;
  },
): Promise<(BatchView & { readonly place: string })[]> {
  const { rows } = await query.query(LIST, [
    partnerId,
    page.before?.at ?? null,
    page.before?.id ?? null,
    page.limit,
    page.status,
  ]);
  return rows.map((row) => ({
    ...toBatchView(toBatch(row), toText(row['status'], 'status')),
    place: toText(row['place'], 'place'),
  }));
}

/** Lines after this one, in the file's order. The batch must be the reader's. */
export async function readLines(
  query: Query,
  batch: Pick<StoredBatch, 'id' | 'decimals'>,
  page: { readonly after: number; readonly limit: number },
): Promise<LineView[]> {
  const { rows } = await query.query(LINES, [batch.id, page.after, page.limit]);
  return rows.map((row) => ({
    line: row['line'] as number,
    external_id: row['external_id'] as string | null,
    amount: formatUnits(toUnits(row['amount'], 'amount'), batch.decimals),
    fee: row['fee'] === null ? null : formatUnits(toUnits(row['fee'], 'fee'), batch.decimals),
    bank_code: toText(row['bank_code'], 'bank_code'),
    account_number: toText(row['account_number'], 'account_number'),
    holder_name: toText(row['holder_name'], 'holder_name'),
    memo: toText(row['memo'], 'memo'),
    fate: toText(row['fate'], 'fate'),
    reason: row['detail'] as string | null,
    code: row['code'] as string | null,
    transfer_id: row['transfer_id'] as string | null,
    bank_id: row['object_id'] as string | null,
  }));
}

/** What an event tells of the lines: all of them where they are few, else how many and where to read them. */
export async function linesForEvent(query: Query, batch: StoredBatch): Promise<Record<string, unknown>> {
  const lines = await readLines(query, batch, { after: 0, limit: EVENT_LINES_MAX + 1 });
  return {
    by_fate: (await loadFates(query, batch.id)).byFate,
    lines_at: `/v1/transfer-batches/${batch.id}/lines`,
    lines:
      lines.length > EVENT_LINES_MAX
        ? null
        : lines.map(({ line, external_id, amount, fate, reason }) => ({ line, external_id, amount, fate, reason })),
  };
}

async function loadFates(query: Query, id: string): Promise<{ readonly byFate: Fates; readonly paid: bigint }> {
  const { rows } = await query.query<{ fate: string; lines: number; amount: bigint }>(FATES, [id]);
  const paid = rows.find((row) => row.fate === 'confirmed');
  return {
    byFate: Object.fromEntries(rows.map((row) => [row.fate, row.lines])),
    paid: paid === undefined ? 0n : toUnits(paid.amount, 'amount'),
  };
}

function toBatch(row: Row): StoredBatch {
  return {
    id: toText(row['id'], 'id'),
    partnerId: toText(row['partner_id'], 'partner_id'),
    idempotencyKey: toText(row['idempotency_key'], 'idempotency_key'),
    fileSha256: toText(row['file_sha256'], 'file_sha256'),
    format: row['format'] as StoredBatch['format'],
    paysAs: row['pays_as'] as StoredBatch['paysAs'],
    assetId: toText(row['asset_id'], 'asset_id'),
    assetCode: toText(row['asset_code'], 'asset_code'),
    decimals: row['decimals'] as number,
    amount: toUnits(row['amount'], 'amount'),
    fee: row['fee'] === null ? null : toUnits(row['fee'], 'fee'),
    day: row['day'] as string | null,
    requestedAt: row['requested_at'] as Date,
  };
}
