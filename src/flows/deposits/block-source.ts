/**
 * The port to a chain's nodes, as this flow needs it; a rail's block readers have this shape. Hashes, addresses, topics
 * and data are in the chain's one canonical spelling (case H11); figures are bigint. A reader vouches for the block being
 * whole: one receipt per transaction, of this very block (cases F3, H10). A transaction whose content does not read stands
 * in `unread` and not among the transactions: its fault is its own.
 */
export type Reading<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: string };

export interface BlockRef {
  readonly number: bigint;
  readonly hash: string;
}

export interface BlockHeader extends BlockRef {
  readonly parentHash: string;
  /** Seconds; absent: it tells none. */
  readonly timestamp?: bigint;
}

export interface TransferLog {
  readonly address: string;
  readonly topics: readonly string[];
  readonly data: string;
  /** Of a Transfer log, where the chain spells addresses otherwise than its virtual machine does: as the chain spells them. */
  readonly parties?: { readonly from: string; readonly to: string };
}

export interface BlockTransaction {
  readonly hash: string;
  readonly from: string;
  /** `null`: the transaction makes a contract. */
  readonly to: string | null;
  readonly value: bigint;
  readonly nonce: bigint;
  /** The chain's coin that contracts passed on inside, in order, where the chain tells it. */
  readonly internal?: readonly { readonly from: string; readonly to: string; readonly value: bigint }[];
  /** What happened inside and is not known to have moved the coin or not: credited to nobody, told where it is ours. */
  readonly strange?: readonly {
    readonly from: string;
    readonly to: string;
    readonly value: bigint;
    readonly note: string;
  }[];
  readonly receipt: {
    readonly hash: string;
    readonly blockHash: string;
    /** The outer status (case H1). */
    readonly succeeded: boolean;
    /** All logs of this transaction, in order: the index here is what names a transfer. */
    readonly logs: readonly TransferLog[];
  };
}

export interface Block extends BlockHeader {
  readonly transactions: readonly BlockTransaction[];
  readonly unread?: readonly UnreadTransaction[];
}

export interface UnreadTransaction {
  readonly hash: string;
  readonly why: string;
  /** Addresses that it may name, canonical; `null`: too many to tell, it may name anybody. */
  readonly names: readonly string[] | null;
}

/** One node. Never throws for what the other side did. */
export interface BlockSource {
  /** Names it in alerts. */
  readonly source: string;
  /** Who runs it: two nodes of one operator are one witness. */
  readonly operator: string;
  finalizedHead(): Promise<Reading<BlockHeader>>;
  latestHead(): Promise<Reading<BlockHeader>>;
  readHeader(number: bigint): Promise<Reading<BlockHeader>>;
  /** One entry per number, in order. */
  readBlocks(numbers: readonly bigint[]): Promise<readonly Reading<Block>[]>;
}

/** The blocks from `from` on that a node gave and that hang together, and why they end before `to`. */
export interface Run<Shown extends Block = Block> {
  readonly blocks: readonly Shown[];
  readonly fault: string | null;
}

/** Reads consecutive blocks up to the first that is missing, not whole, or does not follow the one before. */
export async function readRun<Shown extends Block>(
  node: { readonly source: string; readBlocks(numbers: readonly bigint[]): Promise<readonly Reading<Shown>[]> },
  from: bigint,
  to: bigint,
): Promise<Run<Shown>> {
  const numbers = Array.from({ length: Number(to - from + 1n) }, (_, index) => from + BigInt(index));
  const readings = await node.readBlocks(numbers);
  const blocks: Shown[] = [];
  for (const [index, number] of numbers.entries()) {
    const reading = readings[index];
    if (reading?.ok !== true)
      return { blocks, fault: `${node.source}: ${reading?.fault ?? `block ${number} is missing`}` };
    const fault = faultOf(reading.value, number, blocks.at(-1));
    if (fault !== null) return { blocks, fault: `${node.source}: ${fault}` };
    blocks.push(reading.value);
  }
  return { blocks, fault: null };
}

function faultOf(block: Block, number: bigint, before: Block | undefined): string | null {
  if (block.number !== number) return `block ${block.number} where ${number} was asked for`;
  if (before !== undefined && block.parentHash !== before.hash)
    return `block ${number} does not follow block ${before.number}`;
  const foreign = block.transactions.find(
    (one) => one.receipt.hash !== one.hash || one.receipt.blockHash !== block.hash,
  );
  return foreign === undefined ? null : `the receipt of ${foreign.hash} belongs elsewhere than to block ${number}`;
}
