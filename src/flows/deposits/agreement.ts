/** What the nodes agree on: heights that enough operators call final, and one hash for each (case F5). */
import type { BlockHeader, BlockSource } from './block-source.ts';

export interface Final {
  readonly node: BlockSource;
  readonly head: BlockHeader;
}

/** The nodes that tell a final block now. */
export async function readFinals(nodes: readonly BlockSource[]): Promise<Final[]> {
  const heads = await Promise.all(nodes.map((node) => node.finalizedHead()));
  return heads.flatMap((head, index) => {
    const node = nodes[index];
    return head.ok && node !== undefined ? [{ node, head: head.value }] : [];
  });
}

/** The highest block that so many operators call final; `null`: there are not so many. */
export function agreedHeight(finals: readonly Final[], agreeing: number): bigint | null {
  const best = new Map<string, bigint>();
  for (const { node, head } of finals) {
    const seen = best.get(node.operator);
    if (seen === undefined || head.number > seen) best.set(node.operator, head.number);
  }
  const heights = [...best.values()].sort((left, right) => (left < right ? 1 : left > right ? -1 : 0));
  return heights[agreeing - 1] ?? null;
}

export type Agreement =
  | { readonly verdict: 'agreed' }
  | { readonly verdict: 'too_few' | 'disagree'; readonly why: string };

/**
 * Whether enough operators show this block at its height and none shows another. A node that does not have it as final
 * yet, or does not answer, says nothing.
 */
export async function askAgreement(finals: readonly Final[], block: BlockHeader, agreeing: number): Promise<Agreement> {
  const able = finals.filter(({ head }) => head.number >= block.number);
  const shown = await Promise.all(
    able.map(({ node, head }) =>
      head.number === block.number
        ? Promise.resolve({ ok: true as const, value: head })
        : node.readHeader(block.number),
    ),
  );
  const same = new Set<string>();
  const other: string[] = [];
  for (const [index, header] of shown.entries()) {
    const node = able[index]?.node;
    if (!header.ok || node === undefined) continue;
    if (header.value.hash === block.hash) same.add(node.operator);
    else other.push(`${node.source} shows ${header.value.hash}`);
  }
  if (other.length > 0) {
    return { verdict: 'disagree', why: `block ${block.number} was read as ${block.hash}, but ${other.join(' and ')}` };
  }
  if (same.size >= agreeing) return { verdict: 'agreed' };
  return { verdict: 'too_few', why: `${same.size} of ${agreeing} operators show block ${block.number}` };
}
