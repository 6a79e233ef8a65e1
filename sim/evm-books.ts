/*
 * The books of an EVM chain, read from the chain itself: every Transfer log of the tokens, every native value that moved,
 * inside contract calls too, and the gas that was paid. See `oracle.ts`.
 *
 * Blocks that were final when read are kept; the others, and all of them after a reorg below the final one, are read anew.
 */
import { type BookedBlock, type Draft, readBlocks, ReorgWhileReading } from './evm-book-blocks.ts';
import { isObject, makeRpc } from './json-rpc.ts';
import type { Cost, Movement, RailBooks } from './oracle.ts';

/** Some 300 kB of empty blocks in one answer. */
const BLOCKS_PER_CALL = 200;
/** The chain may be reorganised while it is read; three times in a row it is not. */
const READ_TRIES_MAX = 3;

export type EvmMovement = Movement & {
  /** Who signed the transaction, and its nonce: with the chain they are the identity of an effect. */
  readonly signer: string;
  readonly nonce: number;
};

export type EvmBooksOptions = {
  /** The chain's own URL, never a proxy's. */
  readonly url: string;
  /** Contracts whose Transfer logs count. Any contract can log a Transfer; only these are money. */
  readonly tokens: readonly string[];
  /** Only what touches one of these. Absent: everything. */
  readonly watch?: readonly string[];
};

export async function makeEvmBooks(options: EvmBooksOptions): Promise<RailBooks<EvmMovement>> {
  const rpc = makeRpc(options.url);
  const rail = `eip155:${Number(await rpc('eth_chainId', []))}`;
  const tokens = new Set(options.tokens.map((token) => token.toLowerCase()));
  const watch = options.watch === undefined ? undefined : new Set(options.watch.map((one) => one.toLowerCase()));
  const read = makeReader(options.url, tokens);
  const watched = (holders: string[]): boolean => watch === undefined || holders.some((one) => watch.has(one));

  return {
    rail,
    async movements() {
      const { blocks, final } = await read();
      return blocks
        .flatMap((block) => block.movements)
        .filter(({ from, to }) => watched([from, to]))
        .map((draft: Draft): EvmMovement => ({ ...draft, rail, final: draft.block <= final }));
    },
    async costs() {
      const { blocks, final } = await read();
      return blocks
        .flatMap((block) => block.gas.map((gas) => ({ ...gas, final: block.height <= final })))
        .filter(({ payer }) => watched([payer]))
        .map((gas): Cost => ({ ...gas, rail, asset: 'native' }));
    },
    async balance(holder, asset) {
      if (asset === 'native') return BigInt((await rpc('eth_getBalance', [holder, 'latest'])) as string);
      // balanceOf(address), as anyone would call it.
      const data = `0x70a08231${holder.slice(2).toLowerCase().padStart(64, '0')}`;
      return BigInt((await rpc('eth_call', [{ to: asset, data }, 'latest'])) as string);
    },
  };
}

type Reading = { readonly blocks: BookedBlock[]; readonly final: number };

function makeReader(url: string, tokens: ReadonlySet<string>): () => Promise<Reading> {
  const rpc = makeRpc(url);
  const kept = new Map<number, BookedBlock>();
  let turn: Promise<unknown> = Promise.resolve();

  const heightOf = async (tag: string): Promise<number> => {
    const block = await rpc('eth_getBlockByNumber', [tag, false]);
    if (!isObject(block)) throw new Error(`${url} knows no ${tag} block; the books cannot be read without it`);
    return Number(block.number);
  };
  const dropWhatMayHaveChanged = async (final: number): Promise<void> => {
    for (const height of kept.keys()) if (height > final) kept.delete(height);
    const top = kept.get(Math.max(...kept.keys()));
    if (top === undefined) return;
    const block = await rpc('eth_getBlockByNumber', [`0x${top.height.toString(16)}`, false]);
    if (!isObject(block) || block.hash !== top.hash) kept.clear();
  };
  const readOnce = async (): Promise<Reading> => {
    const head = await heightOf('latest');
    const final = await heightOf('finalized');
    await dropWhatMayHaveChanged(final);
    const missing = Array.from({ length: head + 1 }, (_, height) => height).filter((height) => !kept.has(height));
    while (missing.length > 0) {
      const blocks = await readBlocks(url, tokens, missing.splice(0, BLOCKS_PER_CALL));
      for (const block of blocks) kept.set(block.height, block);
    }
    return { blocks: [...kept.values()].sort((a, b) => a.height - b.height), final };
  };
  const readWhole = async (): Promise<Reading> => {
    for (let tries = 1; ; tries++) {
      try {
        return await readOnce();
      } catch (error) {
        if (tries >= READ_TRIES_MAX || !(error instanceof ReorgWhileReading)) throw error;
        kept.clear();
      }
    }
  };
  // One reader at a time: two would drop each other's blocks.
  return async () => {
    const mine = turn.then(readWhole);
    turn = mine.catch(() => undefined);
    return mine;
  };
}
