/**
 * Who used our nonce? Found by searching the block in which the signer's transaction count passed it, then the
 * transaction in that block. Needs a node that keeps state that far back; where it does not, the fault says so and a
 * person decides. EIP-7702 and delegated creations raise the count without a transaction of that nonce: then none is
 * found, and nothing is claimed.
 */
import type { Json } from '../../engine/rail.ts';
import { field, isArray, quantityOf, textOf } from './json.ts';
import { blockCall, countCall, faultOf, type Read } from './nodes.ts';
import type { Line } from './rpc.ts';

/** Points of the block range asked at once: 16 parts shrink a year of blocks to one in six batches. */
const POINTS = 15n;

/** The transaction at (signer, nonce), given that the count at block `high` is above `nonce`. */
export async function findNonceUser(
  line: Line,
  signer: string,
  nonce: bigint,
  from: bigint,
  high: bigint,
): Promise<Read<Json>> {
  const block = await findBlock(line, signer, nonce, from, high);
  if (!block.ok) return block;
  const [result] = await line.ask([blockCall(block.value, true)]);
  const transactions = result?.kind === 'result' ? field(result.value, 'transactions') : undefined;
  if (!isArray(transactions)) return { ok: false, fault: `block ${block.value}: ${faultOf(result)}` };
  const user = transactions.find(
    (one) => textOf(field(one, 'from'))?.toLowerCase() === signer && quantityOf(field(one, 'nonce')) === nonce,
  );
  if (user === undefined) {
    return { ok: false, fault: `the nonce passed in block ${block.value} without a transaction of that nonce` };
  }
  return { ok: true, value: user };
}

async function findBlock(line: Line, signer: string, nonce: bigint, from: bigint, high: bigint): Promise<Read<bigint>> {
  // Invariant: the count at `below` is at most `nonce`, at `above` it is more. Before the first block it is 0.
  let below = from > 0n ? from - 1n : -1n;
  let above = high;
  const before =
    below < 0n ? 0n : await countAt(line, signer, [below]).then((read) => (read.ok ? read.value[0] : null));
  if (before === null || before === undefined) return { ok: false, fault: `the node has no state at block ${below}` };
  if (before > nonce) {
    above = below;
    below = -1n;
  }
  while (above - below > 1n) {
    const points = pointsBetween(below, above);
    const counts = await countAt(line, signer, points);
    if (!counts.ok) return counts;
    for (const [index, point] of points.entries()) {
      if ((counts.value[index] ?? 0n) > nonce) {
        above = point;
        break;
      }
      below = point;
    }
  }
  return { ok: true, value: above };
}

/** Up to 15 blocks strictly between, in order. */
function pointsBetween(below: bigint, above: bigint): bigint[] {
  const span = above - below;
  const parts = span - 1n < POINTS ? span - 1n : POINTS;
  return Array.from({ length: Number(parts) }, (_, index) => below + (span * BigInt(index + 1)) / (parts + 1n));
}

async function countAt(line: Line, signer: string, blocks: readonly bigint[]): Promise<Read<bigint[]>> {
  const results = await line.ask(blocks.map((block) => countCall(signer, block)));
  const counts: bigint[] = [];
  for (const result of results) {
    const count = result.kind === 'result' ? quantityOf(result.value) : null;
    if (count === null) return { ok: false, fault: `the node has no state that far back: ${faultOf(result)}` };
    counts.push(count);
  }
  return { ok: true, value: counts };
}
