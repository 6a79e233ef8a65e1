/**
 * Deposit addresses: each belongs to one partner and, as the partner likes, to a user of theirs; it stays watched for
 * ever, since money may come to it at any time. The address itself comes from outside (a key store, a derivation), made
 * before the transaction; one that was made and not written down was told to nobody.
 */
import { type Pool, type Query, type Row, toText, type Tx } from '../../db/pool.ts';
import type { MakeId } from '../../kernel/ids.ts';
import { type PageResult, pageSize, readPlace, writePlace } from './views.ts';

export interface DepositAddress {
  readonly id: string;
  readonly partnerId: string;
  readonly chain: string;
  readonly address: string;
  readonly userRef: string | null;
  readonly createdAt: Date;
}

export interface AddressWish {
  readonly partnerId: string;
  readonly chain: string;
  readonly userRef: string | null;
  /** The address that this user already has on this chain, if any, instead of a new one. */
  readonly reuse: boolean;
}

export interface AddressDeps {
  readonly pool: Pool;
  readonly makeId: MakeId;
  /** A fresh address in canonical spelling, whose key is safely stored when this resolves. */
  newAddress(chain: string): Promise<string>;
}

export type AddressResult = { readonly outcome: 'created' | 'exists'; readonly address: DepositAddress };

/** Durable when it resolves: deposits to the address are credited from here on. */
export async function createDepositAddress(deps: AddressDeps, wish: AddressWish): Promise<AddressResult> {
  if (wish.reuse) {
    const found = await findReusable(deps.pool, wish);
    if (found !== null) return { outcome: 'exists', address: found };
  }
  const address = await deps.newAddress(wish.chain);
  return deps.pool.tx('create deposit address', (tx) => addDepositAddress(tx, deps.makeId, wish, address));
}

/** The same inside the caller's transaction, with an address made before it began. */
export async function addDepositAddress(
  tx: Tx,
  makeId: MakeId,
  wish: AddressWish,
  address: string,
): Promise<AddressResult> {
  if (wish.reuse) {
    // The partner's row makes two calls for one user come one after the other.
    await tx.query(LOCK_PARTNER, [wish.partnerId]);
    const found = await findReusable(tx, wish);
    if (found !== null) return { outcome: 'exists', address: found };
  }
  const { rows } = await tx.query(INSERT, [makeId('adr'), wish.chain, address, wish.partnerId, wish.userRef]);
  const [row] = rows;
  if (row === undefined) throw new Error('an address was written without an answer');
  return { outcome: 'created', address: toAddress(row) };
}

const COLUMNS = 'id, partner_id, chain, address, user_ref, created_at';

const LOCK_PARTNER = `select 1
from payonce.partners
where id = $1
for no key update`;

const INSERT = `insert into payonce.addresses (id, chain, address, kind, partner_id, user_ref)
values ($1, $2, $3, 'DEPOSIT', $4, $5)
returning ${COLUMNS}`;

const REUSABLE = `select ${COLUMNS}
from payonce.addresses
where partner_id = $1
  and chain = $2
  and kind = 'DEPOSIT'
  and user_ref is not distinct from $3
order by id
limit 1`;

async function findReusable(query: Query, wish: AddressWish): Promise<DepositAddress | null> {
  const [row] = (await query.query(REUSABLE, [wish.partnerId, wish.chain, wish.userRef])).rows;
  return row === undefined ? null : toAddress(row);
}

const LIST = `select ${COLUMNS}
from payonce.addresses
where partner_id = $1
  and kind = 'DEPOSIT'
  and ($2::text is null or user_ref = $2)
  and ($3::text is null or id < $3)
order by id desc
limit $4`;

export interface AddressFilter {
  readonly userRef?: string | undefined;
  readonly cursor?: string | undefined;
  readonly limit?: number | undefined;
}

/** Newest first. */
export async function listDepositAddresses(
  query: Query,
  partnerId: string,
  filter: AddressFilter = {},
): Promise<PageResult<DepositAddress>> {
  const place = readPlace(filter.cursor, 1);
  if (place === 'invalid') return { outcome: 'cursor_invalid' };
  const limit = pageSize(filter.limit);
  const { rows } = await query.query(LIST, [partnerId, filter.userRef ?? null, place?.[0] ?? null, limit + 1]);
  const items = rows.slice(0, limit).map(toAddress);
  const last = items.at(-1);
  return { outcome: 'page', items, next: rows.length > limit && last !== undefined ? writePlace([last.id]) : null };
}

const ONE = `select ${COLUMNS}
from payonce.addresses
where id = $1
  and partner_id = $2
  and kind = 'DEPOSIT'`;

export async function readDepositAddress(query: Query, partnerId: string, id: string): Promise<DepositAddress | null> {
  const [row] = (await query.query(ONE, [id, partnerId])).rows;
  return row === undefined ? null : toAddress(row);
}

function toAddress(row: Row): DepositAddress {
  return {
    id: toText(row['id'], 'addresses.id'),
    partnerId: toText(row['partner_id'], 'addresses.partner_id'),
    chain: toText(row['chain'], 'addresses.chain'),
    address: toText(row['address'], 'addresses.address'),
    userRef: row['user_ref'] as string | null,
    createdAt: row['created_at'] as Date,
  };
}
