/**
 * The statements of the scan itself: the chain's cursor and the hashes of the blocks that were read.
 * Lock order: the cursor's row is the first lock of every transaction that books deposits of its chain.
 */
import { type Query, toText, toUnits, type Tx } from '../../db/pool.ts';
import type { BlockHeader } from './block-source.ts';

export type HaltKind = 'nodes_disagree' | 'finality_broken';

export interface Cursor {
  /** The first block that is not booked yet. */
  readonly next: bigint;
  /** `nodes_disagree` ends by itself when they agree again; `finality_broken` is a person's. */
  readonly halted: HaltKind | null;
}

const COLUMNS = `next_block, halted_at is not null as halted, coalesce(halted_reason, '') like 'finality_broken:%' as broken`;
const LOAD = `select ${COLUMNS}
from payonce.scan_cursors
where chain = $1`;

export async function loadCursor(query: Query, chain: string): Promise<Cursor | null> {
  return toCursor((await query.query<CursorRow>(LOAD, [chain])).rows[0]);
}

/** Waits for whoever books on this chain now. */
export async function lockCursor(tx: Tx, chain: string): Promise<Cursor | null> {
  return toCursor((await tx.query<CursorRow>(`${LOAD}\nfor update`, [chain])).rows[0]);
}

interface CursorRow extends Record<string, unknown> {
  next_block: bigint;
  halted: boolean;
  broken: boolean;
}
function toCursor(row: CursorRow | undefined): Cursor | null {
  if (row === undefined) return null;
  const halted = row.halted ? (row.broken ? 'finality_broken' : 'nodes_disagree') : null;
  return { next: toUnits(row.next_block, 'scan_cursors.next_block'), halted };
}

const CREATE = `insert into payonce.scan_cursors (chain, next_block)
values ($1, $2)
on conflict (chain) do nothing`;

export async function createCursor(tx: Tx, chain: string, next: bigint): Promise<void> {
  await tx.query(CREATE, [chain, next]);
}

const ADVANCE = `update payonce.scan_cursors
set next_block = $3, halted_at = null, halted_reason = null
where chain = $1
  and next_block = $2
  and (halted_reason is null or halted_reason like 'nodes_disagree:%')`;

/** Also ends a disagreement: whoever advances has just seen the nodes agree. 0 rows: somebody else was there. */
export async function advanceCursor(tx: Tx, chain: string, expected: bigint, next: bigint): Promise<boolean> {
  return (await tx.query(ADVANCE, [chain, expected, next])).rowCount === 1;
}

const HALT = `update payonce.scan_cursors
set halted_at = payonce.now(), halted_reason = $2
where chain = $1
  and (halted_reason is null or (halted_reason like 'nodes_disagree:%' and $2 like 'finality_broken:%'))`;

export async function haltCursor(tx: Tx, chain: string, kind: HaltKind, why: string): Promise<boolean> {
  return (await tx.query(HALT, [chain, `${kind}: ${why}`])).rowCount === 1;
}

const RESUME = `update payonce.scan_cursors
set next_block = $2, halted_at = null, halted_reason = null
where chain = $1
  and halted_reason like 'finality_broken:%'
  and next_block >= $2`;

export async function resumeCursor(tx: Tx, chain: string, next: bigint): Promise<boolean> {
  return (await tx.query(RESUME, [chain, next])).rowCount === 1;
}

const BLOCKS = `select number, hash, parent_hash
from payonce.scanned_blocks
where chain = $1
  and number between $2 and $3
order by number`;

export async function loadBlocks(query: Query, chain: string, from: bigint, to: bigint): Promise<BlockHeader[]> {
  const { rows } = await query.query(BLOCKS, [chain, from, to]);
  return rows.map((row) => ({
    number: toUnits(row['number'], 'scanned_blocks.number'),
    hash: toText(row['hash'], 'scanned_blocks.hash'),
    parentHash: toText(row['parent_hash'], 'scanned_blocks.parent_hash'),
  }));
}

const HIGHEST = `select number, hash
from payonce.scanned_blocks
where chain = $1
order by number desc
limit 1`;

export async function loadHighestBlock(query: Query, chain: string): Promise<{ number: bigint; hash: string } | null> {
  const [row] = (await query.query(HIGHEST, [chain])).rows;
  if (row === undefined) return null;
  return { number: toUnits(row['number'], 'scanned_blocks.number'), hash: toText(row['hash'], 'scanned_blocks.hash') };
}

const WRITE_BLOCKS = `insert into payonce.scanned_blocks (chain, number, hash, parent_hash)
select $1, number, hash, parent_hash
from unnest($2::bigint[], $3::text[], $4::text[]) as b (number, hash, parent_hash)
order by number
on conflict (chain, number) do update
set hash = excluded.hash, parent_hash = excluded.parent_hash, scanned_at = payonce.now()
where payonce.scanned_blocks.hash <> excluded.hash`;

export async function writeBlocks(tx: Tx, chain: string, blocks: readonly BlockHeader[]): Promise<void> {
  await tx.query(WRITE_BLOCKS, [
    chain,
    blocks.map((one) => one.number),
    blocks.map((one) => one.hash),
    blocks.map((one) => one.parentHash),
  ]);
}

const DELETE_FROM = `delete from payonce.scanned_blocks
where chain = $1
  and number >= $2`;

export async function deleteBlocksFrom(tx: Tx, chain: string, from: bigint): Promise<void> {
  await tx.query(DELETE_FROM, [chain, from]);
}

const PRUNE = `delete from payonce.scanned_blocks
where chain = $1
  and number < $2`;

export async function pruneBlocks(tx: Tx, chain: string, below: bigint): Promise<void> {
  await tx.query(PRUNE, [chain, below]);
}
