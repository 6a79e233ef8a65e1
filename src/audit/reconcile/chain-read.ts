/**
 * Reading a range of a chain for reconciliation, block by block from the chain itself: what moved at the watched wallets, and what
 * their own transactions cost. Only that is kept, so a long history costs time, not memory.
 *
 * The port: a rail's block readers have this shape. A reader vouches for whole blocks; a balance is that of exactly one block, or a
 * fault. Every run of blocks hangs together by parent hashes, and its last block is the one that enough operators show.
 */
import {
  agreedHeight,
  askAgreement,
  type Block,
  type BlockHeader,
  type BlockRef,
  type BlockSource,
  type BlockTransaction,
  type Final,
  type Movement,
  type Reading,
  readFinals,
  readMovements,
  readRun,
  type WatchedAssets,
} from '../../flows/deposits/index.ts';
import { PayonceError } from '../../kernel/errors.ts';

export interface ChainTransaction extends BlockTransaction {
  readonly receipt: BlockTransaction['receipt'] & {
    /** What the chain took from the signer for it, in units of its coin, whether it succeeded or not. */
    readonly cost: bigint;
  };
}

export interface ChainBlock extends Block {
  /** Seconds. */
  readonly timestamp: bigint;
  readonly transactions: readonly ChainTransaction[];
}

export interface Holder {
  readonly address: string;
  /** `null`: the chain's own coin. */
  readonly contract: string | null;
}

/** One node. Never throws for what the other side did. */
export interface ChainNode extends BlockSource {
  readBlocks(numbers: readonly bigint[]): Promise<readonly Reading<ChainBlock>[]>;
  /** Units at exactly this block, one per holder in order; a fault where the node does not keep its state. */
  readBalances(block: BlockRef, holders: readonly Holder[]): Promise<readonly Reading<bigint>[]>;
  /** The final block in which each transaction stands; `null`: in none. */
  findTransactions(hashes: readonly string[]): Promise<readonly Reading<bigint | null>[]>;
}

export interface ReconciledChain {
  /** CAIP-2. */
  readonly chain: string;
  readonly rail: string;
  readonly nodes: readonly ChainNode[];
  /** Operators that must show the same final block; absent: 2, or 1 where one operator runs all nodes. */
  readonly agreeing?: number;
  /** The chain's one spelling of an address, `null` where the text is none. */
  canonical(address: string): string | null;
}

/** What a transaction that one of our wallets signed cost. */
export interface Cost {
  readonly txHash: string;
  readonly blockNumber: bigint;
  readonly payer: string;
  readonly nonce: bigint;
  readonly units: bigint;
}

export interface RangeRead {
  readonly movements: readonly Movement[];
  readonly costs: readonly Cost[];
  /** Seconds of the first and the last block; `null`: the range is empty. */
  readonly time: { readonly first: bigint; readonly last: bigint } | null;
}

export type Progress = (name: string, done: bigint, total: bigint) => void;

/** Blocks asked for at once. More: answers of many megabytes on a busy chain, which nodes refuse. */
const RUN_BLOCKS = 50n;

/** The nodes, and the final block up to which is compared: the highest that enough operators show, or the one asked for. */
export async function openChain(
  chain: ReconciledChain,
  wantedTo: bigint | null,
): Promise<{ finals: readonly Final[]; nodes: readonly ChainNode[]; to: BlockHeader; head: bigint }> {
  const operators = new Set(chain.nodes.map((node) => node.operator)).size;
  const agreeing = chain.agreeing ?? Math.min(2, operators);
  const finals = await readFinals(chain.nodes);
  const head = agreedHeight(finals, agreeing);
  if (head === null) throw notNow(chain, `fewer than ${agreeing} operators tell a final block`);
  if (wantedTo !== null && wantedTo > head)
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: `Block ${wantedTo} is not final on ${chain.chain}: only what is final is compared, now up to ${head}`,
    });
  const number = wantedTo ?? head;
  const able = finals.filter((final) => final.head.number >= number);
  for (const { node } of able) {
    const header = await node.readHeader(number);
    if (!header.ok) continue;
    const agreement = await askAgreement(finals, header.value, agreeing);
    if (agreement.verdict !== 'agreed') throw notNow(chain, agreement.why);
    const nodes = chain.nodes.filter((one) => able.some((final) => final.node === one));
    return { finals, nodes, to: header.value, head };
  }
  throw notNow(chain, `no node shows block ${number}`);
}

/** All of `from` to `to`, from the first node that gives it; another one goes on where a node ends. */
export async function readRange(
  chain: ReconciledChain,
  nodes: readonly ChainNode[],
  range: { readonly from: bigint; readonly to: BlockRef },
  watched: { readonly wallets: ReadonlySet<string>; readonly assets: WatchedAssets },
  onProgress?: Progress,
): Promise<RangeRead> {
  const movements: Movement[] = [];
  const costs: Cost[] = [];
  let first: ChainBlock | null = null;
  let last: ChainBlock | null = null;
  for (let from = range.from; from <= range.to.number; ) {
    const end = from + RUN_BLOCKS - 1n < range.to.number ? from + RUN_BLOCKS - 1n : range.to.number;
    const blocks = await readSomewhere(chain, nodes, from, end);
    for (const block of blocks) {
      if (last !== null && block.parentHash !== last.hash)
        throw notNow(chain, `block ${block.number} does not follow block ${last.number}: its nodes disagree`);
      first ??= block;
      last = block;
      gather(block, watched, movements, costs);
    }
    from = end + 1n;
    onProgress?.(chain.chain, from - range.from, range.to.number - range.from + 1n);
  }
  if (last !== null && last.hash !== range.to.hash)
    throw notNow(chain, `block ${last.number} was read as ${last.hash}, and its operators show ${range.to.hash}`);
  const time = first === null || last === null ? null : { first: first.timestamp, last: last.timestamp };
  return { movements, costs, time };
}

function gather(
  block: ChainBlock,
  watched: { readonly wallets: ReadonlySet<string>; readonly assets: WatchedAssets },
  movements: Movement[],
  costs: Cost[],
): void {
  for (const movement of readMovements(block, watched.assets).movements)
    if (watched.wallets.has(movement.from) || watched.wallets.has(movement.to)) movements.push(movement);
  for (const { hash: txHash, from: payer, nonce, receipt } of block.transactions)
    if (receipt.cost > 0n && watched.wallets.has(payer))
      costs.push({ txHash, blockNumber: block.number, payer, nonce, units: receipt.cost });
}

async function readSomewhere(
  chain: ReconciledChain,
  nodes: readonly ChainNode[],
  from: bigint,
  to: bigint,
): Promise<readonly ChainBlock[]> {
  let fault = 'no node is asked';
  for (const node of nodes) {
    const run = await readRun<ChainBlock>(node, from, to);
    if (run.fault === null) return run.blocks;
    fault = run.fault;
  }
  throw notNow(chain, fault);
}

/** What each held at this block, from the first node that tells; a fault where none does. */
export async function readBalancesSomewhere(
  nodes: readonly ChainNode[],
  block: BlockRef,
  holders: readonly Holder[],
): Promise<readonly Reading<bigint>[]> {
  const found: Reading<bigint>[] = holders.map(() => ({ ok: false, fault: 'no node was asked' }));
  for (const node of nodes) {
    const open = holders.flatMap((holder, index) => (found[index]?.ok === true ? [] : [{ holder, index }]));
    if (open.length === 0) break;
    const told = await node.readBalances(
      block,
      open.map((one) => one.holder),
    );
    for (const [at, { index }] of open.entries())
      found[index] = told[at] ?? { ok: false, fault: `${node.source} answered for fewer than it was asked` };
  }
  return found;
}

/** Where each stands, from the first node that knows it. A fault says only that nobody could be asked. */
export async function findSomewhere(
  nodes: readonly ChainNode[],
  hashes: readonly string[],
): Promise<readonly Reading<bigint | null>[]> {
  const found: Reading<bigint | null>[] = hashes.map(() => ({ ok: false, fault: 'no node was asked' }));
  for (const node of hashes.length === 0 ? [] : nodes) {
    const told = await node.findTransactions(hashes);
    for (const [index, reading] of told.entries()) {
      const before = found[index];
      if (reading.ok && (before?.ok !== true || before.value === null)) found[index] = reading;
    }
  }
  return found;
}

function notNow(chain: ReconciledChain, why: string): PayonceError {
  return new PayonceError('PO_BUSY', {
    detail: `${chain.chain} cannot be compared now: ${why}. Look after its nodes and run it again`,
  });
}
