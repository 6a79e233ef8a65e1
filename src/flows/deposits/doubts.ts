/**
 * What may concern an address of ours and reads neither as money nor as none: a transaction that its reader left out, and
 * what happened inside of one by a word that we do not know. It credits nobody and stops nothing; people are told, and once
 * the program reads it, `payonce deposits rescan` books it. Pure.
 */
import type { Block } from './block-source.ts';

export interface Doubt {
  /** Names alert and case. */
  readonly key: string;
  readonly severity: 1 | 2;
  readonly message: string;
}

/** Every address that a doubt of these blocks names. */
export function namesInDoubt(blocks: readonly Block[]): string[] {
  return blocks.flatMap((block) => [
    ...(block.unread ?? []).flatMap(({ names }) => names ?? []),
    ...block.transactions.flatMap(({ strange = [] }) => strange.flatMap(({ from, to }) => [from, to])),
  ]);
}

/** `ours`: those of the names that are addresses of ours. */
export function findDoubts(
  chain: string,
  blocks: readonly Block[],
  ours: { has(address: string): boolean },
): readonly Doubt[] {
  const found = new Map<string, Doubt>();
  const add = (one: Doubt): void => {
    if (!found.has(one.key)) found.set(one.key, one);
  };
  for (const { number, unread = [], transactions } of blocks) {
    for (const { hash, why, names } of unread) {
      const named = names?.filter((address) => ours.has(address)) ?? null;
      if (named?.length === 0) continue;
      const whom = named === null ? 'may name addresses of ours' : `names ${named.slice(0, 5).join(', ')}`;
      add({
        key: `${chain}:${hash}`,
        severity: 2,
        message: `Transaction ${hash} in block ${number} ${whom} and does not read (${why}): it was left out and credited nobody. Look at it; when this program reads it, rescan the block.`,
      });
    }
    for (const { hash, strange = [] } of transactions) {
      for (const { from, to, value, note } of strange) {
        const address = [to, from].find((one) => ours.has(one));
        if (address === undefined) continue;
        // One per address and word: a stranger may write as many as he likes, and one rescan reads them all.
        add({
          key: `${chain}:${address}:${note}`,
          severity: 1,
          message: `A contract did "${note}" with ${value} units from ${from} to ${to} in ${hash}: whether that moves money is not known here, so it credited nobody. Look at what it means; when this program knows it, rescan from block ${number} on.`,
        });
      }
    }
  }
  return [...found.values()];
}
