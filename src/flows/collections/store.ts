/**
 * Collections' statements. Lock order: terms, then what the own move's intake takes. Isolation: READ COMMITTED, set by `tx`.
 */
import { type Query, type Row, toText, toUnits, type Tx } from '../../db/pool.ts';
import type { Holding } from './plan.ts';

export interface CollectTerms {
  readonly assetId: string;
  /** Units. Below it nothing is swept. */
  readonly min: bigint;
  /** Units that stay at the address. */
  readonly keep: bigint;
  readonly everyMs: number;
}

const PUT_TERMS = `insert into payonce.collection_terms (asset_id, min, keep, every_ms)
select * from unnest($1::text[], $2::numeric[], $3::numeric[], $4::bigint[])
on conflict (asset_id) do update
set min = excluded.min, keep = excluded.keep, every_ms = excluded.every_ms, stopped_at = null,
    next_at = least(payonce.collection_terms.next_at, payonce.now() + make_interval(secs => excluded.every_ms / 1000))`;
const STOP_TERMS = `update payonce.collection_terms t
set stopped_at = payonce.now()
from payonce.assets a
where a.id = t.asset_id
  and a.chain = $1
  and t.stopped_at is null
  and not t.asset_id = any ($2::text[])`;

/** What is swept on a chain from now on, and nothing else; open sweeps of other assets go on to their end. */
export async function storeTerms(tx: Tx, chain: string, terms: readonly CollectTerms[]): Promise<void> {
  const assets = terms.map((one) => one.assetId);
  await tx.query(PUT_TERMS, [
    assets,
    terms.map((one) => one.min),
    terms.map((one) => one.keep),
    terms.map((one) => one.everyMs),
  ]);
  await tx.query(STOP_TERMS, [chain, assets]);
}

const TAKE_TURNS = `update payonce.collection_terms t
set token = t.token + 1, began_at = payonce.now(), next_at = payonce.now() + make_interval(secs => $2::float8 / 1000)
where t.asset_id = any (array(
  select q.asset_id
  from payonce.collection_terms q
  join payonce.assets a on a.id = q.asset_id
  where a.chain = $1
    and q.stopped_at is null
    and ($3 or q.next_at <= payonce.now())
  order by q.asset_id
  for update of q skip locked))
returning t.asset_id, t.token, (select a.contract is null from payonce.assets a where a.id = t.asset_id) as is_coin`;

export interface Turn {
  readonly assetId: string;
  readonly token: bigint;
  readonly isCoin: boolean;
}

/** Assets whose cycle is due (or all, when asked) and is ours now, tokens first. `forMs`: after it another may take over. */
export async function takeTurns(tx: Tx, chain: string, forMs: number, all: boolean): Promise<Turn[]> {
  const { rows } = await tx.query<{ asset_id: string; token: bigint; is_coin: boolean }>(TAKE_TURNS, [
    chain,
    forMs,
    all,
  ]);
  return rows
    .map((row) => ({ assetId: row.asset_id, token: row.token, isCoin: row.is_coin }))
    .sort((left, right) => Number(left.isCoin) - Number(right.isCoin) || (left.assetId < right.assetId ? -1 : 1));
}

const END_TURN = `update payonce.collection_terms
set next_at = began_at + make_interval(secs => every_ms / 1000)
where asset_id = $1
  and token = $2`;

/** The cycle is through; one that another took over meanwhile is that one's. */
export async function endTurn(query: Query, turn: Turn): Promise<void> {
  await query.query(END_TURN, [turn.assetId, turn.token]);
}

const HOLDINGS = `select h.address_id, h.chain, h.address, h.partner_id, h.asset_id, h.is_coin, h.units, h.min, h.keep, h.account_seq, h.rail,
       h.wallet, h.wallet_is_master, h.open_lane, h.ordinal, h.last_seq, h.last_closed_as, h.last_undecided
from payonce.collection_holdings h
where h.asset_id = $1
  and h.address_id > $2
order by h.address_id
limit $3`;

export interface PlacedHolding extends Holding {
  /** For the next page. */
  readonly addressId: string;
}

/** What lies at deposit addresses in this asset, by address id after `after`. The chain is not asked. */
export async function loadHoldings(
  query: Query,
  assetId: string,
  after: string,
  limit: number,
): Promise<PlacedHolding[]> {
  return (await query.query(HOLDINGS, [assetId, after, limit])).rows.map(toHolding);
}

function toHolding(row: Row): PlacedHolding {
  const lastSeq = row['last_seq'];
  return {
    addressId: toText(row['address_id'], 'address_id'),
    chain: toText(row['chain'], 'chain'),
    address: toText(row['address'], 'address'),
    partnerId: toText(row['partner_id'], 'partner_id'),
    assetId: toText(row['asset_id'], 'asset_id'),
    isCoin: row['is_coin'] as boolean,
    units: toUnits(row['units'], 'units'),
    min: toUnits(row['min'], 'min'),
    keep: toUnits(row['keep'], 'keep'),
    accountSeq: toUnits(row['account_seq'], 'account_seq'),
    rail: row['rail'] as string | null,
    wallet: row['wallet'] as string | null,
    walletIsMaster: row['wallet_is_master'] as boolean,
    openLane: row['open_lane'] as string | null,
    ordinal: row['ordinal'] as number,
    last:
      lastSeq === null
        ? null
        : {
            accountSeq: toUnits(lastSeq, 'last_seq'),
            closedAs: row['last_closed_as'] as string | null,
            undecided: row['last_undecided'] as boolean,
          },
  };
}

const STORE = `insert into payonce.collections (id, partner_id, chain, address, asset_id, ordinal, account_seq, amount, destination)
select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int[], $7::bigint[], $8::numeric[], $9::text[])`;

export interface NewCollection {
  readonly id: string;
  readonly partnerId: string;
  readonly chain: string;
  readonly address: string;
  readonly assetId: string;
  readonly ordinal: number;
  readonly accountSeq: bigint;
  readonly amount: bigint;
  readonly destination: string;
}
export async function storeCollections(tx: Tx, list: readonly NewCollection[]): Promise<void> {
  await tx.query(STORE, [
    list.map((one) => one.id),
    list.map((one) => one.partnerId),
    list.map((one) => one.chain),
    list.map((one) => one.address),
    list.map((one) => one.assetId),
    list.map((one) => one.ordinal),
    list.map((one) => one.accountSeq),
    list.map((one) => one.amount),
    list.map((one) => one.destination),
  ]);
}

const SIGNERS = `insert into payonce.signers (rail, address, label, next_nonce)
select distinct u.rail, u.address, 'deposit address', 0
from unnest($1::text[], $2::text[]) as u (rail, address)
order by 1, 2
on conflict (rail, address) do nothing`;

/** A deposit address signs its own sweeps. Its sequence begins at 0: a chain that counts more quarantines it before a seal. */
export async function storeSigners(tx: Tx, list: readonly { rail: string; address: string }[]): Promise<void> {
  await tx.query(SIGNERS, [list.map((one) => one.rail), list.map((one) => one.address)]);
}

const OVERTAKEN = `select c.id, c.partner_id
from payonce.collections c
join payonce.effects e on e.lane = 'sweep:' || c.address || ':' || c.asset_id and e.subject_type = 'collection' and e.subject_id = c.id
  and e.state in ('PENDING', 'SEALED')
join payonce.collection_terms t on t.asset_id = c.asset_id
left join payonce.accounts a on a.code = 'custody:' || c.chain || ':' || c.address and a.asset_id = c.asset_id
where c.asset_id = $1
  and e.state || '' = 'PENDING'
  and e.failures > 0
  and coalesce(-a.balance, 0) < c.amount + t.keep`;

/** Sweeps that wait for more than lies at their address now (it left otherwise, or was burned): they can never be paid. */
export async function loadOvertaken(query: Query, assetId: string): Promise<{ id: string; partnerId: string }[]> {
  const { rows } = await query.query<{ id: string; partner_id: string }>(OVERTAKEN, [assetId]);
  return rows.map((row) => ({ id: row.id, partnerId: row.partner_id }));
}

const LIST = `select c.id, c.partner_id, c.chain, c.address, c.asset_id, a.code, a.decimals, c.amount, c.destination, c.made_at, v.status,
       v.effect_id, v.wait_reason
from payonce.collections c
join payonce.assets a on a.id = c.asset_id
join payonce.collection_states v on v.id = c.id
where ($1::text is null or v.status = $1)
order by c.made_at desc, c.id desc
limit $2`;

export interface ListedCollection {
  readonly id: string;
  readonly partnerId: string;
  readonly chain: string;
  readonly address: string;
  readonly assetId: string;
  readonly assetCode: string;
  readonly decimals: number;
  readonly amount: bigint;
  readonly destination: string;
  readonly madeAt: Date;
  readonly status: string;
  readonly effectId: bigint;
  readonly waitReason: string | null;
}

/** Newest first; `status` null: all. */
export async function listCollections(query: Query, status: string | null, limit: number): Promise<ListedCollection[]> {
  return (await query.query(LIST, [status, limit])).rows.map((row) => ({
    id: toText(row['id'], 'id'),
    partnerId: toText(row['partner_id'], 'partner_id'),
    chain: toText(row['chain'], 'chain'),
    address: toText(row['address'], 'address'),
    assetId: toText(row['asset_id'], 'asset_id'),
    assetCode: toText(row['code'], 'code'),
    decimals: row['decimals'] as number,
    amount: toUnits(row['amount'], 'amount'),
    destination: toText(row['destination'], 'destination'),
    madeAt: row['made_at'] as Date,
    status: toText(row['status'], 'status'),
    effectId: toUnits(row['effect_id'], 'effect_id'),
    waitReason: row['wait_reason'] as string | null,
  }));
}

const SWEPT_ASSETS = `select t.asset_id, a.chain, a.code, a.decimals, t.min, t.keep, t.next_at
from payonce.collection_terms t
join payonce.assets a on a.id = t.asset_id
where t.stopped_at is null
order by a.chain, a.code, t.asset_id`;

export interface SweptAsset {
  readonly assetId: string;
  readonly chain: string;
  readonly code: string;
  readonly decimals: number;
  readonly min: bigint;
  readonly keep: bigint;
  readonly nextAt: Date;
}

export async function loadSweptAssets(query: Query): Promise<SweptAsset[]> {
  return (await query.query(SWEPT_ASSETS)).rows.map((row) => ({
    assetId: toText(row['asset_id'], 'asset_id'),
    chain: toText(row['chain'], 'chain'),
    code: toText(row['code'], 'code'),
    decimals: row['decimals'] as number,
    min: toUnits(row['min'], 'min'),
    keep: toUnits(row['keep'], 'keep'),
    nextAt: row['next_at'] as Date,
  }));
}

const COLLECTION = `select c.partner_id
from payonce.collections c
where c.id = $1`;

export async function loadPartnerOf(query: Query, id: string): Promise<string | null> {
  return (await query.query<{ partner_id: string }>(COLLECTION, [id])).rows[0]?.partner_id ?? null;
}
