/** Deposits as partners see them: in events, and by the API in pages with an opaque cursor. */
import { type Query, type Row, toText, toUnits } from '../../db/pool.ts';
import { formatUnits } from '../../kernel/money.ts';
import { PAGE_ITEMS, PAGE_ITEMS_MAX } from '../../kernel/limits.ts';
import { type DepositState, toDepositState } from './store.ts';

export interface DepositView {
  readonly id: string;
  readonly partnerId: string;
  readonly state: DepositState;
  readonly chain: string;
  readonly assetCode: string;
  readonly decimals: number;
  readonly amount: bigint;
  /** 0 until credited. */
  readonly fee: bigint;
  readonly addressId: string;
  readonly address: string;
  readonly userRef: string | null;
  readonly txHash: string;
  /** The index of the log in its transaction's receipt; −1 is the chain's own coin. */
  readonly position: number;
  readonly blockNumber: bigint;
  readonly detectedAt: Date;
  readonly creditedAt: Date | null;
  readonly reversedAt: Date | null;
}

export interface Page<T> {
  readonly items: readonly T[];
  /** For the next page; `null`: this was the last one. */
  readonly next: string | null;
}

/** `cursor_invalid`: the text is no cursor of ours. */
export type PageResult<T> = ({ readonly outcome: 'page' } & Page<T>) | { readonly outcome: 'cursor_invalid' };

const COLUMNS = `d.id, d.partner_id, d.state, t.chain, a.code as asset_code, a.decimals, d.amount, d.fee,
  d.address_id, r.address, r.user_ref, t.tx_hash, t.position, t.block_number, d.detected_at, d.credited_at, d.reversed_at`;
const JOINS = `join payonce.chain_transfers t on t.id = d.transfer_id
join payonce.assets a on a.id = d.asset_id
join payonce.addresses r on r.id = d.address_id`;

const BY_IDS = `select ${COLUMNS}
from payonce.deposits d
${JOINS}
where d.id = any ($1::text[])`;

export async function loadDepositViews(query: Query, ids: readonly string[]): Promise<Map<string, DepositView>> {
  if (ids.length === 0) return new Map();
  const { rows } = await query.query(BY_IDS, [ids]);
  return new Map(rows.map((row) => [toText(row['id'], 'deposits.id'), toView(row)]));
}

const ONE = `select ${COLUMNS}
from payonce.deposits d
${JOINS}
where d.id = $1
  and d.partner_id = $2`;

/** Another partner's deposit is no deposit. */
export async function readDeposit(query: Query, partnerId: string, depositId: string): Promise<DepositView | null> {
  const [row] = (await query.query(ONE, [depositId, partnerId])).rows;
  return row === undefined ? null : toView(row);
}

// The place in the list is (time, id) at the database's own precision: a Date would cut the microseconds.
const LIST = `select ${COLUMNS}, to_char(d.detected_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as place
from payonce.deposits d
${JOINS}
where d.partner_id = $1
  and ($2::text is null or d.state = $2)
  and ($3::text is null or d.address_id = $3)
  and ($4::timestamptz is null or (d.detected_at, d.id) < ($4, $5))
order by d.detected_at desc, d.id desc
limit $6`;

export interface DepositFilter {
  readonly state?: DepositState | undefined;
  readonly addressId?: string | undefined;
  readonly cursor?: string | undefined;
  readonly limit?: number | undefined;
}

/** Newest first. */
export async function listDeposits(
  query: Query,
  partnerId: string,
  filter: DepositFilter = {},
): Promise<PageResult<DepositView>> {
  const place = readPlace(filter.cursor, 2);
  if (place === 'invalid') return { outcome: 'cursor_invalid' };
  const limit = pageSize(filter.limit);
  const { rows } = await query.query(LIST, [
    partnerId,
    filter.state ?? null,
    filter.addressId ?? null,
    place?.[0] ?? null,
    place?.[1] ?? null,
    limit + 1,
  ]);
  const shown = rows.slice(0, limit);
  const last = rows.length > limit ? shown.at(-1) : undefined;
  const next = last === undefined ? null : writePlace([toText(last['place'], 'place'), toText(last['id'], 'id')]);
  return { outcome: 'page', items: shown.map(toView), next };
}

function toView(row: Row): DepositView {
  return {
    id: toText(row['id'], 'deposits.id'),
    partnerId: toText(row['partner_id'], 'deposits.partner_id'),
    state: toDepositState(row['state']),
    chain: toText(row['chain'], 'chain_transfers.chain'),
    assetCode: toText(row['asset_code'], 'assets.code'),
    decimals: row['decimals'] as number,
    amount: toUnits(row['amount'], 'deposits.amount'),
    fee: toUnits(row['fee'], 'deposits.fee'),
    addressId: toText(row['address_id'], 'deposits.address_id'),
    address: toText(row['address'], 'addresses.address'),
    userRef: row['user_ref'] as string | null,
    txHash: toText(row['tx_hash'], 'chain_transfers.tx_hash'),
    position: row['position'] as number,
    blockNumber: toUnits(row['block_number'], 'chain_transfers.block_number'),
    detectedAt: row['detected_at'] as Date,
    creditedAt: row['credited_at'] as Date | null,
    reversedAt: row['reversed_at'] as Date | null,
  };
}

/** The shape in events and answers: amounts as decimal text, times as RFC 3339. */
export function toDepositData(view: DepositView): { readonly [key: string]: unknown } {
  return {
    id: view.id,
    state: view.state,
    asset: view.assetCode,
    amount: formatUnits(view.amount, view.decimals),
    fee: formatUnits(view.fee, view.decimals),
    chain: view.chain,
    address: view.address,
    address_id: view.addressId,
    user_ref: view.userRef,
    tx_hash: view.txHash,
    position: view.position,
    block_number: view.blockNumber.toString(),
    detected_at: view.detectedAt.toISOString(),
    credited_at: view.creditedAt?.toISOString() ?? null,
    reversed_at: view.reversedAt?.toISOString() ?? null,
  };
}

export function pageSize(limit: number | undefined): number {
  return Math.max(1, Math.min(limit ?? PAGE_ITEMS, PAGE_ITEMS_MAX));
}

export function writePlace(parts: readonly string[]): string {
  return Buffer.from(JSON.stringify(parts)).toString('base64url');
}

/** `null` where no cursor was given. */
export function readPlace(cursor: string | undefined, parts: number): string[] | null | 'invalid' {
  if (cursor === undefined) return null;
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    if (!Array.isArray(value) || value.length !== parts) return 'invalid';
    if (!value.every((part): part is string => typeof part === 'string')) return 'invalid';
    if (parts === 2 && Number.isNaN(Date.parse(value[0] ?? ''))) return 'invalid';
    return value;
  } catch {
    return 'invalid';
  }
}
