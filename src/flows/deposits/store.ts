/**
 * The statements of the deposits' own rows: one exported function per statement, `tx` first.
 *
 * Lock order: the chain's cursor row, then transfers by (tx, position), then deposits by id; after these (elsewhere)
 * signers, accounts by id, alerts and cases, and the subjects' counters last. Isolation: READ COMMITTED, set by `tx`.
 * Only the edge statements name `deposits.state`, and the rows that they return are the verdict.
 */
import { type Query, type Row, toText, toUnits, type Tx } from '../../db/pool.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import type { Sighting } from './sightings.ts';

export type DepositState = 'detected' | 'credited' | 'vanished' | 'reversed';

/** A transfer whose row this transaction wrote: the sighting is ours to act on. */
export interface SeenTransfer {
  readonly transferId: bigint;
  readonly sighting: Sighting;
}

const MARK_SEEN = `insert into payonce.chain_transfers
  (chain, tx_hash, position, block_number, block_hash, asset_id, from_address, to_address, amount, class, class_reason,
   sender_class, sender_reason, effect_id, final_at)
select $1, tx_hash, position, block_number, block_hash, asset_id, from_address, to_address, amount, class, class_reason,
       sender_class, sender_reason, effect_id, case when $2::boolean then payonce.now() end
from unnest($3::text[], $4::int[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::text[], $10::numeric[], $11::text[], $12::text[],
            $13::text[], $14::text[], $15::bigint[])
  as s (tx_hash, position, block_number, block_hash, asset_id, from_address, to_address, amount, class, class_reason,
        sender_class, sender_reason, effect_id)
order by tx_hash, position
on conflict (chain, tx_hash, position) do update
set block_number = excluded.block_number,
    block_hash = excluded.block_hash,
    asset_id = excluded.asset_id,
    from_address = excluded.from_address,
    to_address = excluded.to_address,
    amount = excluded.amount,
    class = excluded.class,
    class_reason = excluded.class_reason,
    sender_class = excluded.sender_class,
    sender_reason = excluded.sender_reason,
    effect_id = excluded.effect_id,
    final_at = excluded.final_at,
    gone_at = null
where payonce.chain_transfers.final_at is null
  and (excluded.final_at is not null
       or payonce.chain_transfers.block_hash <> excluded.block_hash
       or payonce.chain_transfers.gone_at is not null)
returning id, tx_hash, position`;

/** The verdict of W11: what comes back is what this transaction, and no other, saw first (or saw final first). */
export async function markSeen(
  tx: Tx,
  chain: string,
  sightings: readonly Sighting[],
  final: boolean,
): Promise<SeenTransfer[]> {
  if (sightings.length === 0) return [];
  const moved = sightings.map((one) => one.movement);
  const { rows } = await tx.query<{ id: bigint; tx_hash: string; position: number }>(MARK_SEEN, [
    chain,
    final,
    moved.map((one) => one.txHash),
    moved.map((one) => one.position),
    moved.map((one) => one.blockNumber),
    moved.map((one) => one.blockHash),
    moved.map((one) => one.assetId),
    moved.map((one) => one.from),
    moved.map((one) => one.to),
    moved.map((one) => one.amount),
    sightings.map((one) => one.class),
    sightings.map((one) => one.reason),
    sightings.map((one) => one.sender?.class ?? null),
    sightings.map((one) => one.sender?.reason ?? null),
    sightings.map((one) => one.effectId),
  ]);
  const ids = new Map(rows.map((row) => [`${row.tx_hash}:${row.position}`, row.id]));
  return sightings.flatMap((sighting) => {
    const transferId = ids.get(`${sighting.movement.txHash}:${sighting.movement.position}`);
    return transferId === undefined ? [] : [{ transferId, sighting }];
  });
}

const RECLASS = `update payonce.chain_transfers
set class = $2, class_reason = $3
where id = any ($1::bigint[])`;

export async function reclass(
  tx: Tx,
  transferIds: readonly bigint[],
  to: { class: string; reason: string },
): Promise<void> {
  if (transferIds.length > 0) await tx.query(RECLASS, [transferIds, to.class, to.reason]);
}

const MARK_GONE = `update payonce.chain_transfers t
set gone_at = payonce.now()
from payonce.scanned_blocks b
where t.chain = $1
  and t.final_at is null
  and t.gone_at is null
  and b.chain = t.chain
  and b.number = t.block_number
  and b.hash <> t.block_hash
returning t.id`;

/** Transfers whose block another one has replaced. A node that merely lacks the block proves nothing. */
export async function markGone(tx: Tx, chain: string): Promise<bigint[]> {
  const { rows } = await tx.query<{ id: bigint }>(MARK_GONE, [chain]);
  return rows.map((row) => row.id);
}

const LOAD_OFF_CHAIN = `select t.id, t.class, d.id as deposit_id, d.partner_id, t.asset_id, t.amount, t.tx_hash
from payonce.chain_transfers t
join payonce.scanned_blocks b on b.chain = t.chain and b.number = t.block_number and b.hash <> t.block_hash
left join payonce.deposits d on d.transfer_id = t.id and d.state = 'credited'
where t.chain = $1
  and t.block_number between $2 and $3
  and t.final_at is not null
  and t.gone_at is null
order by t.id`;

export interface OffChain {
  readonly transferId: bigint;
  readonly class: string;
  readonly depositId: string | null;
  readonly partnerId: string | null;
  readonly assetId: string;
  readonly amount: bigint;
  readonly txHash: string;
}

/** Booked transfers whose final block is not the chain's any more (case F5). */
export async function loadOffChain(tx: Tx, chain: string, from: bigint, to: bigint): Promise<OffChain[]> {
  const { rows } = await tx.query(LOAD_OFF_CHAIN, [chain, from, to]);
  return rows.map((row) => ({
    transferId: toUnits(row['id'], 'chain_transfers.id'),
    class: toText(row['class'], 'chain_transfers.class'),
    depositId: row['deposit_id'] as string | null,
    partnerId: row['partner_id'] as string | null,
    assetId: toText(row['asset_id'], 'chain_transfers.asset_id'),
    amount: toUnits(row['amount'], 'chain_transfers.amount'),
    txHash: toText(row['tx_hash'], 'chain_transfers.tx_hash'),
  }));
}

const MOVE_FINAL = `update payonce.chain_transfers t
set block_number = s.block_number, block_hash = s.block_hash
from unnest($2::text[], $3::int[], $4::bigint[], $5::text[]) as s (tx_hash, position, block_number, block_hash)
where t.chain = $1
  and t.tx_hash = s.tx_hash
  and t.position = s.position
  and t.final_at is not null
  and t.block_hash <> s.block_hash
returning t.id, t.gone_at, t.tx_hash`;

/** Booked transfers that stand in another final block now. Booked once: only the place is noted. */
export async function moveFinal(
  tx: Tx,
  chain: string,
  sightings: readonly Sighting[],
): Promise<{ transferId: bigint; txHash: string; wasGone: boolean }[]> {
  if (sightings.length === 0) return [];
  const moved = sightings.map((one) => one.movement);
  const { rows } = await tx.query<{ id: bigint; gone_at: Date | null; tx_hash: string }>(MOVE_FINAL, [
    chain,
    moved.map((one) => one.txHash),
    moved.map((one) => one.position),
    moved.map((one) => one.blockNumber),
    moved.map((one) => one.blockHash),
  ]);
  return rows.map((row) => ({ transferId: row.id, txHash: row.tx_hash, wasGone: row.gone_at !== null }));
}

export interface DepositRow {
  readonly id: string;
  readonly transferId: bigint;
  readonly partnerId: string;
  readonly addressId: string;
  readonly assetId: string;
  readonly amount: bigint;
  readonly fee: bigint;
  readonly state: DepositState;
}

const COLUMNS = 'id, transfer_id, partner_id, address_id, asset_id, amount, fee, state';

const LOCK_BY_TRANSFER = `select ${COLUMNS}
from payonce.deposits
where transfer_id = any ($1::bigint[])
order by id
for no key update`;

export async function lockDepositsOf(tx: Tx, transferIds: readonly bigint[]): Promise<DepositRow[]> {
  if (transferIds.length === 0) return [];
  return (await tx.query(LOCK_BY_TRANSFER, [transferIds])).rows.map(toDeposit);
}

const LOCK_DEPOSIT = `select ${COLUMNS}
from payonce.deposits
where id = $1
for no key update`;

export async function lockDeposit(tx: Tx, depositId: string): Promise<DepositRow | null> {
  const [row] = (await tx.query(LOCK_DEPOSIT, [depositId])).rows;
  return row === undefined ? null : toDeposit(row);
}

function toDeposit(row: Row): DepositRow {
  return {
    id: toText(row['id'], 'deposits.id'),
    transferId: toUnits(row['transfer_id'], 'deposits.transfer_id'),
    partnerId: toText(row['partner_id'], 'deposits.partner_id'),
    addressId: toText(row['address_id'], 'deposits.address_id'),
    assetId: toText(row['asset_id'], 'deposits.asset_id'),
    amount: toUnits(row['amount'], 'deposits.amount'),
    fee: toUnits(row['fee'], 'deposits.fee'),
    state: toDepositState(row['state']),
  };
}

export function toDepositState(value: unknown): DepositState {
  if (value === 'detected' || value === 'credited' || value === 'vanished' || value === 'reversed') return value;
  throw new InvariantBroken(`deposits.state is ${String(value)}`);
}

const INSERT_SUBJECTS = `insert into payonce.subjects (type, id, partner_id, natural_key)
select 'deposit', id, partner_id, natural_key
from unnest($1::text[], $2::text[], $3::text[]) as s (id, partner_id, natural_key)
order by id`;

const INSERT_DEPOSITS = `insert into payonce.deposits (id, transfer_id, partner_id, address_id, asset_id, amount, fee, state, credited_at)
select id, transfer_id, partner_id, address_id, asset_id, amount, fee, $8, case when $8 = 'credited' then payonce.now() end
from unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::numeric[], $7::numeric[])
  as d (id, transfer_id, partner_id, address_id, asset_id, amount, fee)
order by id`;

export interface NewDeposit {
  readonly id: string;
  readonly naturalKey: string;
  readonly transferId: bigint;
  readonly partnerId: string;
  readonly addressId: string;
  readonly assetId: string;
  readonly amount: bigint;
  readonly fee: bigint;
}

export async function insertSubjects(tx: Tx, deposits: readonly NewDeposit[]): Promise<void> {
  if (deposits.length === 0) return;
  const list = [
    deposits.map((one) => one.id),
    deposits.map((one) => one.partnerId),
    deposits.map((one) => one.naturalKey),
  ];
  await tx.query(INSERT_SUBJECTS, list);
}

export async function insertDeposits(
  tx: Tx,
  deposits: readonly NewDeposit[],
  state: 'detected' | 'credited',
): Promise<void> {
  if (deposits.length === 0) return;
  await tx.query(INSERT_DEPOSITS, [
    deposits.map((one) => one.id),
    deposits.map((one) => one.transferId),
    deposits.map((one) => one.partnerId),
    deposits.map((one) => one.addressId),
    deposits.map((one) => one.assetId),
    deposits.map((one) => one.amount),
    deposits.map((one) => one.fee),
    state,
  ]);
}

const MARK_CREDITED = `update payonce.deposits d
set state = 'credited', credited_at = payonce.now(), amount = u.amount, fee = u.fee
from unnest($1::text[], $2::numeric[], $3::numeric[]) as u (id, amount, fee)
where d.id = u.id
  and d.state in ('detected', 'vanished')
returning d.id`;

const MARK_DETECTED = `update payonce.deposits d
set state = 'detected', amount = u.amount
from unnest($1::text[], $2::numeric[]) as u (id, amount)
where d.id = u.id
  and d.state = 'vanished'
returning d.id`;

const CHANGE_AMOUNT = `update payonce.deposits d
set amount = u.amount
from unnest($1::text[], $2::numeric[]) as u (id, amount)
where d.id = u.id
  and d.state = 'detected'
  and d.amount <> u.amount
returning d.id`;

const MARK_VANISHED = `update payonce.deposits
set state = 'vanished'
where id = any ($1::text[])
  and state = 'detected'
returning id`;

const MARK_REVERSED = `update payonce.deposits
set state = 'reversed', reversed_at = payonce.now()
where id = $1
  and state = 'credited'
returning id`;

interface Measured {
  readonly id: string;
  readonly amount: bigint;
  readonly fee: bigint;
}

export async function markCredited(tx: Tx, deposits: readonly Measured[]): Promise<Set<string>> {
  return edge(tx, MARK_CREDITED, deposits.length, [
    deposits.map((one) => one.id),
    deposits.map((one) => one.amount),
    deposits.map((one) => one.fee),
  ]);
}

/** A vanished deposit that is seen again. */
export async function markDetected(tx: Tx, deposits: readonly Measured[]): Promise<Set<string>> {
  return edge(tx, MARK_DETECTED, deposits.length, [deposits.map((one) => one.id), deposits.map((one) => one.amount)]);
}

/** No edge: a transaction mined again before finality may have moved another amount. */
export async function changeDetectedAmount(tx: Tx, deposits: readonly Measured[]): Promise<Set<string>> {
  return edge(tx, CHANGE_AMOUNT, deposits.length, [deposits.map((one) => one.id), deposits.map((one) => one.amount)]);
}

export async function markVanished(tx: Tx, depositIds: readonly string[]): Promise<Set<string>> {
  return edge(tx, MARK_VANISHED, depositIds.length, [depositIds]);
}

export async function markReversed(tx: Tx, depositId: string): Promise<boolean> {
  return (await edge(tx, MARK_REVERSED, 1, [depositId])).size === 1;
}

async function edge(tx: Tx, sql: string, count: number, values: readonly unknown[]): Promise<Set<string>> {
  if (count === 0) return new Set();
  const { rows } = await tx.query<{ id: string }>(sql, values);
  return new Set(rows.map((row) => row.id));
}

const MARK_TRANSFER_GONE = `update payonce.chain_transfers
set gone_at = payonce.now()
where id = $1
  and gone_at is null`;

export async function markTransferGone(tx: Tx, transferId: bigint): Promise<void> {
  await tx.query(MARK_TRANSFER_GONE, [transferId]);
}

const FEES = `select distinct on (w.n) w.n, p.deposit_fee_flat, p.deposit_fee_bp
from unnest($1::text[], $2::text[]) with ordinality as w (asset_id, partner_id, n)
join payonce.asset_policies p on p.asset_id = w.asset_id and p.partner_id in (w.partner_id, '*')
order by w.n, p.partner_id = '*'`;

export interface FeeTerms {
  readonly flat: bigint;
  readonly basisPoints: bigint;
}

/** One per pair, in order; a partner's own terms stand before those of all; none: no fee. */
export async function loadFeeTerms(
  query: Query,
  pairs: readonly { assetId: string; partnerId: string }[],
): Promise<FeeTerms[]> {
  const terms = pairs.map((): FeeTerms => ({ flat: 0n, basisPoints: 0n }));
  if (pairs.length === 0) return terms;
  const { rows } = await query.query<{ n: bigint; deposit_fee_flat: bigint; deposit_fee_bp: number }>(FEES, [
    pairs.map((one) => one.assetId),
    pairs.map((one) => one.partnerId),
  ]);
  for (const row of rows) {
    terms[Number(row.n) - 1] = {
      flat: toUnits(row.deposit_fee_flat, 'deposit_fee_flat'),
      basisPoints: BigInt(row.deposit_fee_bp),
    };
  }
  return terms;
}
