/*
 * One node: how far it sees, what it keeps, what it has pending, and what it answers to a broadcast, in java-tron's order of
 * checks.
 *
 * Promises: the pending of a node is executed on top of its own head, so that what cannot be paid is refused; it is looked
 * through again with every block; what stays longer than the time-out is forgotten, although it may be valid still.
 */
import { attempt, type Chain } from './chain.ts';
import { ContractRefused, execute } from './execute.ts';
import { SLOT_MS, TooFewResources } from './resources.ts';
import { type Layer, makeLayer, type Reader } from './state.ts';
import { objectionToSignatures } from './signatures.ts';
import type { TronTransaction } from './transaction.ts';

export type NodeSettings = {
  readonly name: string;
  /** How many blocks it is behind the head. */
  lagBlocks: number;
  /** False: receipts are not kept, and every look for one is `{}`. */
  history: boolean;
  /** `vm.saveInternalTx`: false keeps nothing of what happens inside of a call. java-tron has it off, public nodes on. */
  saveInternalTx: boolean;
  /** `vm.saveFeaturedInternalTx`: false keeps only those by which TRX moves. */
  saveFeaturedInternalTx: boolean;
  /** Lite: what is of the past is not answered at all. */
  lite: boolean;
  /** `node.rpc.trxCacheEnable`. */
  transactionCache: boolean;
  /** Synced peers. */
  peers: number;
  /** Connected, not synced: they make NO_CONNECTION into NOT_ENOUGH_EFFECTIVE_CONNECTION. */
  unsyncedPeers: number;
  /** Takes everything and spreads nothing. */
  isolated: boolean;
  pendingMax: number;
  pendingTimeoutMs: number;
  estimatesEnergy: boolean;
  /** Paths that its configuration closes: 404. */
  closed: readonly string[];
  /** Calls in a second of real time, and what is answered beyond. */
  limit: { readonly perSecond: number; readonly answer: 200 | 403 | 429 } | null;
  /** TRON-PRO-API-KEY that it asks for. */
  apiKey: string | null;
};

export type ResponseCode =
  | 'SUCCESS'
  | 'SIGERROR'
  | 'CONTRACT_VALIDATE_ERROR'
  | 'CONTRACT_EXE_ERROR'
  | 'BANDWITH_ERROR'
  | 'DUP_TRANSACTION_ERROR'
  | 'TAPOS_ERROR'
  | 'TOO_BIG_TRANSACTION_ERROR'
  | 'TRANSACTION_EXPIRATION_ERROR'
  | 'SERVER_BUSY'
  | 'NO_CONNECTION'
  | 'NOT_ENOUGH_EFFECTIVE_CONNECTION'
  | 'BLOCK_UNSOLIDIFIED'
  | 'OTHER_ERROR';

export type Said = { readonly code: ResponseCode; readonly message: string };

export type TronNode = {
  readonly settings: NodeSettings;
  readonly head: () => number;
  readonly solid: () => number;
  readonly view: () => Reader;
  readonly pending: () => readonly TronTransaction[];
  /** `mind` bends what becomes of it. */
  readonly broadcast: (transaction: TronTransaction, mind: Mind) => Said;
  /** From a peer: taken or not, nobody is told. True when it is pending here now. */
  readonly take: (transaction: TronTransaction) => boolean;
  readonly forget: (id: string) => void;
  /** After a block or a fork. */
  readonly lookThrough: () => void;
};

export type Mind = {
  /** Nothing of it is kept, here or elsewhere. */
  readonly drops: boolean;
  readonly staysHere: boolean;
};

const UNSOLID_BLOCKS_MAX = 54;
const EXPIRATION_AHEAD_MS_MAX = 86_400_000;
const TRANSACTION_BYTES_MAX = 500 * 1_024;
const RESULT_BYTES = 64;
const CACHE_MS = 3_600_000;

export function defaultSettings(name: string): NodeSettings {
  return {
    name,
    lagBlocks: 0,
    history: true,
    saveInternalTx: true,
    saveFeaturedInternalTx: true,
    lite: false,
    transactionCache: false,
    peers: 12,
    unsyncedPeers: 0,
    isolated: false,
    pendingMax: 2_000,
    pendingTimeoutMs: 60_000,
    estimatesEnergy: true,
    closed: [],
    limit: null,
    apiKey: null,
  };
}

export type NodeParts = {
  readonly chain: Chain;
  readonly settings: NodeSettings;
  readonly nowMs: () => number;
  /** To the other nodes. */
  readonly spread: (transaction: TronTransaction, from: string) => void;
};

type Refusal = Said | null;

export function makeNode({ chain, settings, nowMs, spread }: NodeParts): TronNode {
  const pool = new Map<string, { transaction: TronTransaction; sinceMs: number }>();
  const seen = new Map<string, number>();
  const told = new Map<string, number>();
  let session: { layer: Layer; version: number; head: number } | null = null;

  const head = (): number => chain.head().number - settings.lagBlocks;
  // What this node holds for solid hangs on the blocks that it has.
  const solid = (): number => Math.min(chain.solid(), Math.max(head() - chain.solidLagBlocks, 0));
  const headMs = (): number => chain.block(head())?.timeMs ?? 0;

  const layer = (): Layer => {
    if (session === null || session.version !== chain.version() || session.head !== head()) {
      const fresh = makeLayer(chain.world.at(head()));
      session = { layer: fresh, version: chain.version(), head: head() };
      for (const [id, { transaction }] of pool) {
        if (checkCommon(transaction) !== null || attempt(fresh, transaction, around()) === null) pool.delete(id);
      }
    }
    return session.layer;
  };
  const around = () => ({ prices: chain.prices, nowMs: headMs() + SLOT_MS });

  const onMyChain = (id: string): boolean => {
    const found = chain.find(id);
    return found !== null && found.block.number <= head();
  };

  const checkCommon = (transaction: TronTransaction): Refusal => {
    if (!chain.refers(transaction.refBlockBytes, transaction.refBlockHash, head())) {
      return { code: 'TAPOS_ERROR', message: 'Tapos check error.' };
    }
    if (transaction.sizeBytes + 2 * RESULT_BYTES > TRANSACTION_BYTES_MAX) {
      const message = `Too big transaction with result, TxId ${transaction.id}, the size is ${transaction.sizeBytes + 2 * RESULT_BYTES} bytes, maxTxSize ${TRANSACTION_BYTES_MAX}`;
      return { code: 'TOO_BIG_TRANSACTION_ERROR', message };
    }
    if (transaction.expiration <= headMs() || transaction.expiration > headMs() + EXPIRATION_AHEAD_MS_MAX) {
      return { code: 'TRANSACTION_EXPIRATION_ERROR', message: 'Transaction expired' };
    }
    return onMyChain(transaction.id) ? { code: 'DUP_TRANSACTION_ERROR', message: 'Dup transaction.' } : null;
  };

  const checkSignatures = (transaction: TronTransaction): Refusal => {
    const objection = objectionToSignatures(transaction, layer());
    return objection === null ? null : { code: 'SIGERROR', message: `Validate signature error: ${objection}` };
  };

  /** Into pending, or the reason why not. */
  const push = (transaction: TronTransaction, drops: boolean): Refusal => {
    const objection = checkSignatures(transaction) ?? checkCommon(transaction);
    if (objection !== null) return objection;
    if (pool.has(transaction.id)) return { code: 'DUP_TRANSACTION_ERROR', message: 'Dup transaction.' };
    const trial = makeLayer(layer());
    try {
      execute(trial, transaction, around());
    } catch (error) {
      if (error instanceof ContractRefused) {
        return { code: 'CONTRACT_VALIDATE_ERROR', message: `Contract validate error : ${error.message}` };
      }
      if (error instanceof TooFewResources) {
        return { code: 'BANDWITH_ERROR', message: 'Account resource insufficient error.' };
      }
      return { code: 'OTHER_ERROR', message: `Error: ${error instanceof Error ? error.message : 'null'}` };
    }
    if (drops) return null;
    trial.mergeInto(layer());
    pool.set(transaction.id, { transaction, sinceMs: nowMs() });
    return null;
  };

  const checkNode = (): Refusal => {
    if (head() - solid() >= UNSOLID_BLOCKS_MAX) return { code: 'BLOCK_UNSOLIDIFIED', message: 'Block unsolidified.' };
    if (settings.peers + settings.unsyncedPeers === 0) return { code: 'NO_CONNECTION', message: 'No connection.' };
    if (settings.peers < 1) {
      const message = `Effective connection:${settings.peers} lt minEffectiveConnection:1`;
      return { code: 'NOT_ENOUGH_EFFECTIVE_CONNECTION', message };
    }
    return pool.size > settings.pendingMax ? { code: 'SERVER_BUSY', message: 'Server busy.' } : null;
  };

  const isCached = (id: string): boolean => {
    if (!settings.transactionCache) return false;
    const sinceMs = seen.get(id);
    if (sinceMs !== undefined && nowMs() - sinceMs <= CACHE_MS) return true;
    // Before any check: a refused try is remembered like a good one.
    seen.set(id, nowMs());
    return false;
  };

  return {
    settings,
    head,
    solid,
    view: () => chain.world.at(head()),
    pending: () => [...pool.values()].map(({ transaction }) => transaction),
    broadcast(transaction, mind) {
      const barred = checkNode();
      if (barred !== null) return barred;
      if (isCached(transaction.id)) return { code: 'DUP_TRANSACTION_ERROR', message: 'Transaction already exists.' };
      if (transaction.contracts.length === 0) {
        return { code: 'CONTRACT_VALIDATE_ERROR', message: 'Contract validate error : No contract!' };
      }
      if (transaction.expiration < headMs() + SLOT_MS) {
        return { code: 'TRANSACTION_EXPIRATION_ERROR', message: 'Transaction expired' };
      }
      const refusal = push(transaction, mind.drops);
      if (refusal !== null) return refusal;
      const toldMs = told.get(transaction.id);
      told.set(transaction.id, nowMs());
      if (!settings.isolated && !mind.drops && !mind.staysHere) spread(transaction, settings.name);
      // Nobody to tell, or everybody has had it: the same words for both, and it is pending here already.
      if (settings.isolated || (toldMs !== undefined && nowMs() - toldMs <= CACHE_MS)) {
        return { code: 'NOT_ENOUGH_EFFECTIVE_CONNECTION', message: 'P2P broadcast failed.' };
      }
      return { code: 'SUCCESS', message: '' };
    },
    take: (transaction) => !settings.isolated && push(transaction, false) === null,
    forget(id) {
      pool.delete(id);
      session = null;
    },
    lookThrough() {
      for (const [id, { transaction, sinceMs }] of pool) {
        const old = nowMs() - sinceMs >= settings.pendingTimeoutMs;
        const late = transaction.expiration < headMs() + SLOT_MS;
        if (old || late || onMyChain(id)) pool.delete(id);
      }
      session = null;
    },
  };
}
