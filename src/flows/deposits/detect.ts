/**
 * What stands above finality, shown as `detected`. Each block is read once: the hashes of the head are kept above the
 * cursor, a longer chain is read on from there, and one that does not follow is read again from finality on. A block that
 * left the chain is known by another one in its place, never by a node that lacks it.
 */
import type { Pool } from '../../db/pool.ts';
import type { Final } from './agreement.ts';
import { type Block, type BlockRef, type BlockSource, readRun } from './block-source.ts';
import { bookHead, type Booked, type BookDeps, NOTHING_BOOKED } from './book.ts';
import * as cursors from './cursor-store.ts';
import { HEAD_BLOCKS_MAX } from './limits.ts';
import { findSightings, type Watch } from './sightings.ts';

export interface DetectDeps extends BookDeps, Watch {
  readonly pool: Pool;
}

/** By the first node that has something new. `next`: the first block that is not booked as final. */
export async function detectAtHead(deps: DetectDeps, finals: readonly Final[], next: bigint): Promise<Booked> {
  for (const { node } of finals) {
    const run = await readHead(deps, node, next);
    if (run === null) continue;
    const found = await findSightings(deps.pool, deps, run);
    return deps.pool.tx('note detected deposits', async (tx) => {
      const cursor = await cursors.lockCursor(tx, deps.chain);
      if (cursor === null || cursor.next !== next || cursor.halted !== null) return NOTHING_BOOKED;
      await cursors.deleteBlocksFrom(tx, deps.chain, run[0]?.number ?? next);
      await cursors.writeBlocks(tx, deps.chain, run);
      return bookHead(tx, deps, found);
    });
  }
  return NOTHING_BOOKED;
}

/** `null`: this node shows nothing that was not read, or not what stands on the final blocks. */
async function readHead(deps: DetectDeps, node: BlockSource, next: bigint): Promise<readonly Block[] | null> {
  const latest = await node.latestHead();
  if (!latest.ok || latest.value.number < next) return null;
  const [noted] = await cursors.loadBlocks(deps.pool, deps.chain, latest.value.number, latest.value.number);
  if (noted?.hash === latest.value.hash) return null;
  const tip = await cursors.loadHighestBlock(deps.pool, deps.chain);
  if (tip !== null && tip.number >= next && tip.number < latest.value.number) {
    const run = await readAfter(node, tip, latest.value.number);
    if (run !== null) return run;
  }
  const [final] = await cursors.loadBlocks(deps.pool, deps.chain, next - 1n, next - 1n);
  return readAfter(node, final ?? { number: next - 1n, hash: null }, latest.value.number);
}

async function readAfter(
  node: BlockSource,
  parent: BlockRef | { number: bigint; hash: null },
  latest: bigint,
): Promise<readonly Block[] | null> {
  const from = parent.number + 1n;
  const last = from + BigInt(HEAD_BLOCKS_MAX) - 1n;
  const { blocks } = await readRun(node, from, last < latest ? last : latest);
  const [first] = blocks;
  if (first === undefined) return null;
  return parent.hash === null || first.parentHash === parent.hash ? blocks : null;
}
