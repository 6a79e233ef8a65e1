/*
 * Nodes over one chain: what one takes in spreads to the others and to the witnesses, every slot has its block, and a fork
 * puts the transactions of the left branch back into the pools.
 */
import type { TaskClock } from '../bank/clock.ts';
import type { Block, Candidate, Chain } from './chain.ts';
import type { FaultPlan } from './faults.ts';
import { defaultSettings, makeNode, type NodeSettings, type TronNode } from './node.ts';
import type { VmResult } from './programs.ts';
import type { TronTransaction } from './transaction.ts';

/** What is in store for a transaction, beside what its own validity gives. */
export type Fate = {
  readonly hold?: 'never' | 'last' | { readonly blocks: number };
  readonly forkOut?: { readonly afterBlocks: number; readonly comesBack: boolean };
  readonly endsAs?: VmResult;
};

export type ForkOptions = {
  /** False: what was in the left branch is in no pool any more. Absent: it comes back. */
  readonly comesBack?: boolean;
  /** These do not come back. */
  readonly lost?: readonly string[];
  /** Solid blocks are left too: broken finality. */
  readonly beyondSolid?: boolean;
};

export type Network = {
  readonly nodes: ReadonlyMap<string, TronNode>;
  readonly addNode: (settings: NodeSettings) => TronNode;
  readonly destine: (transaction: TronTransaction, fate: Fate) => void;
  /** To the witnesses and all nodes, from nobody in particular. */
  readonly submit: (transaction: TronTransaction) => void;
  /** Out of every pool. */
  readonly forget: (id: string) => void;
  readonly fork: (depth: number, options?: ForkOptions) => void;
  /** So many of the next slots have no block: their witnesses are away. */
  readonly skipSlots: (count: number) => void;
  readonly mine: (count: number) => Block;
  readonly start: () => void;
};

export type NetworkParts = { readonly chain: Chain; readonly clock: TaskClock; readonly plan: FaultPlan };

export function makeNetwork({ chain, clock, plan }: NetworkParts): Network {
  const nodes = new Map<string, TronNode>();
  const fates = new Map<string, Fate>();
  const held = new Map<string, { transaction: TronTransaction; sinceBlock: number }>();
  let toSkip = 0;
  const nowMs = (): number => clock.now().getTime();

  const spread = (transaction: TronTransaction, from: string): void => {
    for (const [name, node] of nodes) if (name !== from) node.take(transaction);
    witnesses.take(transaction);
  };
  const witnesses = makeNode({
    chain,
    settings: { ...defaultSettings('witnesses'), pendingMax: Infinity },
    nowMs,
    spread: () => undefined,
  });

  const holdIsOver = (id: string, slotMs: number): boolean => {
    const hold = fates.get(id)?.hold;
    const entry = held.get(id);
    if (hold === undefined || entry === undefined) return true;
    if (hold === 'never') return false;
    // The next slot would be too late for it.
    if (hold === 'last') return slotMs + chain.blockMs > entry.transaction.expiration;
    return chain.head().number + 1 >= entry.sinceBlock + hold.blocks;
  };

  const candidates = (slotMs: number): Candidate[] => {
    const due = [...held.values()].map(({ transaction }) => transaction).filter(({ id }) => holdIsOver(id, slotMs));
    const free = witnesses.pending().filter(({ id }) => !held.has(id));
    return [...free, ...due].map((transaction) => ({ transaction, endsAs: fates.get(transaction.id)?.endsAs }));
  };

  const lookThrough = (): void => {
    witnesses.lookThrough();
    for (const node of nodes.values()) node.lookThrough();
  };

  const produce = (slotMs: number): void => {
    const block = chain.produce(slotMs, candidates(slotMs)).block;
    for (const { transaction, outcome } of block.included) {
      const fate = fates.get(transaction.id);
      if (held.delete(transaction.id)) plan.note(fate?.hold === 'last' ? 'include_at_last' : 'include_later');
      if (fate?.endsAs !== undefined && outcome.called !== null) plan.note('end_as');
    }
    for (const [id, { transaction }] of held) {
      if (transaction.expiration >= slotMs + chain.blockMs) continue;
      held.delete(id);
      if (fates.get(id)?.hold === 'never') plan.note('never_include');
    }
    lookThrough();
    forkWhatIsDue();
  };

  const forkWhatIsDue = (): void => {
    for (const [id, { forkOut, ...rest }] of fates) {
      const found = forkOut === undefined ? null : chain.find(id);
      if (forkOut === undefined || found === null) continue;
      const built = chain.head().number - found.block.number;
      if (built < forkOut.afterBlocks) continue;
      // Once: what comes back stays.
      fates.set(id, rest);
      fork(built + 1, { lost: forkOut.comesBack ? [] : [id] });
      plan.note('fork_out');
    }
  };

  const fork = (depth: number, options: ForkOptions = {}): void => {
    const top = chain.head().number;
    const slots = Array.from({ length: depth }, (_, place) => chain.block(top - depth + 1 + place)?.timeMs ?? 0);
    const popped = chain.rollBack(depth, options.beyondSolid);
    // The other branch had its own witnesses in the same slots, and nothing of ours.
    for (const slotMs of slots) chain.produce(slotMs, []);
    lookThrough();
    if (options.comesBack === false) return;
    for (const transaction of popped) {
      if (options.lost?.includes(transaction.id) !== true) spread(transaction, '');
    }
  };

  const slot = (): void => {
    clock.after(chain.blockMs, slot);
    if (toSkip > 0) toSkip -= 1;
    else produce(nowMs());
  };

  return {
    nodes,
    addNode(settings) {
      if (nodes.has(settings.name)) throw new RangeError(`there is a node ${settings.name} already: give another name`);
      const node = makeNode({ chain, settings, nowMs, spread });
      nodes.set(settings.name, node);
      return node;
    },
    destine(transaction, fate) {
      fates.set(transaction.id, { ...fates.get(transaction.id), ...fate });
      if (fate.hold !== undefined) held.set(transaction.id, { transaction, sinceBlock: chain.head().number });
    },
    submit: (transaction) => spread(transaction, ''),
    forget(id) {
      held.delete(id);
      witnesses.forget(id);
      for (const node of nodes.values()) node.forget(id);
    },
    fork,
    skipSlots(count) {
      toSkip += count;
    },
    mine(count) {
      const until = chain.head().number + count;
      while (chain.head().number < until) {
        const sinceMs = nowMs();
        clock.advance(Math.max(1, chain.blockMs - ((sinceMs - chain.head().timeMs) % chain.blockMs)));
      }
      return chain.head();
    },
    start() {
      clock.after(chain.head().timeMs + chain.blockMs - nowMs(), slot);
    },
  };
}
