/*
 * The one chain behind all nodes: blocks, what is solid, what is rolled back.
 *
 * Promises: a block holds only what passed the checks at its own slot; a fork takes blocks off the head and never a solid
 * one, unless that very fault is asked for; every inclusion that ever was is remembered, with when it was rolled back.
 */
import { createHash } from 'node:crypto';
import { type Address, sha256 } from './address.ts';
import { execute, type Outcome, type Surroundings } from './execute.ts';
import type { VmResult } from './programs.ts';
import { writeFields } from './proto.ts';
import type { Prices } from './resources.ts';
import { type Layer, makeLayer, type World } from './state.ts';
import type { TronTransaction } from './transaction.ts';

export type Included = { readonly transaction: TronTransaction; readonly outcome: Outcome; readonly place: number };

export type Block = {
  readonly number: number;
  readonly id: string;
  readonly parentId: string;
  readonly timeMs: number;
  readonly witness: Address;
  readonly root: string;
  readonly signature: string;
  readonly included: readonly Included[];
};

export type Inclusion = {
  readonly block: number;
  readonly blockId: string;
  readonly timeMs: number;
  readonly result: VmResult;
  rolledBack: boolean;
};

export type Candidate = { readonly transaction: TronTransaction; readonly endsAs?: VmResult | undefined };

export type Chain = {
  readonly blockMs: number;
  readonly solidLagBlocks: number;
  readonly prices: Prices;
  readonly world: World;
  /** Rises with every block and every fork. */
  readonly version: () => number;
  readonly head: () => Block;
  readonly solid: () => number;
  readonly block: (number: number) => Block | null;
  /** Of the chain of the head, in their order, empty ones left out. */
  readonly blocksWithTransactions: () => Block[];
  /** Where it is now, in the chain of the head. */
  readonly find: (id: string) => { readonly block: Block; readonly included: Included } | null;
  readonly inclusions: (id: string) => readonly Inclusion[];
  /** Is this the reference of a block of the last 65,536, seen from this height? */
  readonly refers: (bytes: string, hash: string, height: number) => boolean;
  /** Those left out are no longer valid; those that found no room in time are not told. */
  produce(
    timeMs: number,
    candidates: readonly Candidate[],
  ): { readonly block: Block; readonly refused: TronTransaction[] };
  /** `beyondSolid`: what must never happen, for those who must notice it. */
  readonly rollBack: (depth: number, beyondSolid?: boolean) => TronTransaction[];
  /** The solid block stays where it is until this is taken back: witnesses that no longer agree. */
  readonly stall: (yes: boolean) => void;
};

const WITNESSES = 27;
/** 19 of 27 have built on the solid block: with all taking their turns it lies so far behind the head. */
export const SOLID_LAG_BLOCKS = 18;
/** References look this far back. */
const RECENT_BLOCKS = 65_536;

export type ChainParts = {
  readonly world: World;
  readonly startMs: number;
  readonly blockMs: number;
  readonly firstNumber: number;
  readonly solidLagBlocks: number;
  readonly prices: Prices;
};

export function makeChain(parts: ChainParts): Chain {
  const { world, blockMs, firstNumber, prices } = parts;
  const blocks: Block[] = [];
  const places = new Map<string, { block: Block; included: Included }>();
  const history = new Map<string, Inclusion[]>();
  let version = 0;
  let forks = 0;
  let stalledAt: number | null = null;

  const blockAt = (number: number): Block | null => blocks[number - firstNumber] ?? null;
  const head = (): Block => {
    const last = blocks.at(-1);
    if (last === undefined) throw new Error('the chain has no block yet');
    return last;
  };
  const solid = (): number => {
    const natural = Math.max(firstNumber, head().number - parts.solidLagBlocks);
    return stalledAt === null ? natural : Math.min(stalledAt, natural);
  };

  const append = (timeMs: number, included: readonly Included[], layer: Layer | null): Block => {
    const number = blocks.length + firstNumber;
    // Another branch is another witness' at the same height: that alone makes another id.
    const witness = witnessAt(number + forks);
    const parentId = blocks.at(-1)?.id ?? '0'.repeat(64);
    const root = sha256(Buffer.from(included.map(({ transaction }) => transaction.id).join(''), 'hex')).toString('hex');
    const header = writeFields([
      { number: 1, value: BigInt(timeMs) },
      { number: 2, value: Buffer.from(root, 'hex') },
      { number: 3, value: Buffer.from(parentId, 'hex') },
      { number: 7, value: BigInt(number) },
      { number: 9, value: Buffer.from(witness, 'hex') },
      { number: 10, value: 31n },
    ]);
    const id = `${number.toString(16).padStart(16, '0')}${sha256(header).toString('hex').slice(16)}`;
    const signature = `${sha256(header).toString('hex').repeat(2)}00`;
    const block: Block = { number, id, parentId, timeMs, witness, root, signature, included };
    blocks.push(block);
    if (layer !== null) world.commit(number, layer);
    for (const one of included) {
      places.set(one.transaction.id, { block, included: one });
      const told = history.get(one.transaction.id) ?? [];
      told.push({ block: number, blockId: id, timeMs, result: one.outcome.result, rolledBack: false });
      history.set(one.transaction.id, told);
    }
    version += 1;
    return block;
  };

  // Enough history for a solid block of its own from the start.
  for (let count = parts.solidLagBlocks + 1; count >= 0; count -= 1) append(parts.startMs - count * blockMs, [], null);

  const refers = (bytes: string, hash: string, height: number): boolean => {
    if (bytes.length !== 4) return false;
    const low = Number.parseInt(bytes, 16);
    const number = height - ((height + RECENT_BLOCKS - low) % RECENT_BLOCKS);
    return blockAt(number)?.id.slice(16, 32) === hash;
  };

  return {
    blockMs,
    solidLagBlocks: parts.solidLagBlocks,
    prices,
    world,
    version: () => version,
    head,
    solid,
    block: blockAt,
    blocksWithTransactions: () => blocks.filter(({ included }) => included.length > 0),
    find: (id) => places.get(id) ?? null,
    inclusions: (id) => history.get(id) ?? [],
    refers,
    produce(timeMs, candidates) {
      const parent = head();
      const layer = makeLayer(world.at(parent.number));
      const included: Included[] = [];
      const refused: TronTransaction[] = [];
      for (const { transaction, endsAs } of candidates) {
        const late = transaction.expiration < timeMs || transaction.expiration <= parent.timeMs;
        const known = refers(transaction.refBlockBytes, transaction.refBlockHash, parent.number);
        const around: Surroundings = { prices, nowMs: timeMs, endsAs };
        const outcome = late || !known || places.has(transaction.id) ? null : attempt(layer, transaction, around);
        if (outcome === null) refused.push(transaction);
        else included.push({ transaction, outcome, place: included.length });
      }
      return { block: append(timeMs, included, layer), refused };
    },
    rollBack(depth, beyondSolid = false) {
      const to = head().number - depth;
      if (depth < 1 || to <= firstNumber || (!beyondSolid && to < solid())) {
        throw new RangeError(`a fork of ${depth} would take back solid block ${solid()}: the head is ${head().number}`);
      }
      forks += 1;
      const popped: TronTransaction[] = [];
      for (const block of blocks.splice(to - firstNumber + 1)) {
        for (const { transaction } of block.included) {
          places.delete(transaction.id);
          const told = history.get(transaction.id)?.at(-1);
          if (told !== undefined) told.rolledBack = true;
          popped.push(transaction);
        }
      }
      world.rollBack(to);
      version += 1;
      return popped;
    },
    stall(yes) {
      stalledAt = yes ? solid() : null;
    },
  };
}

/** `null`: refused, and the layer is as it was. */
export function attempt(layer: Layer, transaction: TronTransaction, around: Surroundings): Outcome | null {
  const trial = makeLayer(layer);
  try {
    const outcome = execute(trial, transaction, around);
    trial.mergeInto(layer);
    return outcome;
  } catch {
    return null;
  }
}

function witnessAt(turn: number): Address {
  const seat = `witness ${((turn % WITNESSES) + WITNESSES) % WITNESSES}`;
  return `41${createHash('sha256').update(seat).digest('hex').slice(0, 40)}`;
}
