/** Receipts: read strictly. Pure. */
import type { Json } from '../../engine/rail.ts';
import { countOf, field, hexOf, isArray, quantityOf, textOf } from './json.ts';
import { COST_WEI_MAX } from './limits.ts';

export interface ReceiptLog {
  readonly address: string;
  readonly topics: readonly string[];
  readonly data: string;
}

export interface Receipt {
  readonly hash: string;
  readonly succeeded: boolean;
  readonly blockNumber: bigint;
  readonly blockHash: string;
  readonly from: string | null;
  readonly gasUsed: bigint;
  /** Wei: execution, and where a rollup says so, its share of the layer below. */
  readonly cost: bigint;
  readonly logs: readonly ReceiptLog[];
}

/** `null` for anything that is not a whole receipt: a missing figure is never taken for 0. */
export function readReceipt(value: Json | undefined): Receipt | null {
  const hash = hexOf(field(value, 'transactionHash'));
  const status = quantityOf(field(value, 'status'));
  const blockNumber = countOf(field(value, 'blockNumber'));
  const blockHash = hexOf(field(value, 'blockHash'));
  const gasUsed = countOf(field(value, 'gasUsed'));
  const price = quantityOf(field(value, 'effectiveGasPrice'));
  const rawLogs = field(value, 'logs');
  if (hash === null || blockNumber === null || blockHash === null || gasUsed === null || price === null) return null;
  if ((status !== 0n && status !== 1n) || !isArray(rawLogs)) return null;
  const cost = gasUsed * price + (quantityOf(field(value, 'l1Fee')) ?? 0n);
  if (cost > COST_WEI_MAX) return null;
  const logs: ReceiptLog[] = [];
  for (const raw of rawLogs) {
    const log = readLog(raw);
    if (log === null) return null;
    logs.push(log);
  }
  return {
    hash,
    succeeded: status === 1n,
    blockNumber,
    blockHash,
    from: hexOf(field(value, 'from')),
    gasUsed,
    cost,
    logs,
  };
}

export function readLog(value: Json): ReceiptLog | null {
  const address = hexOf(field(value, 'address'));
  const data = hexOf(field(value, 'data'));
  const topics = field(value, 'topics');
  // `removed` marks a log of a block that left the chain.
  if (address === null || data === null || !isArray(topics) || field(value, 'removed') === true) return null;
  const read = topics.map(hexOf);
  return read.every((topic) => topic !== null) ? { address, topics: read, data } : null;
}

/** The message of a revert, where the node gave one. */
export function causeOf(item: Json | undefined): string | null {
  return textOf(field(field(item, 'error'), 'message'));
}
