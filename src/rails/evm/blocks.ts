/**
 * Whole blocks for the deposit scanner, from each node on its own.
 *
 * A block is asked for by number once, to learn its hash, and its receipts by that hash: a node cannot mix two forks
 * into one answer. A block counts as read only if it holds one receipt per transaction, all of this very hash, and all
 * logs together give the block's own bloom (case F3: nodes at the head answer with incomplete logs and no error).
 * Faults are values; one bad block never fails its neighbours; a batch that a node refuses is halved down to one.
 * Never: follows the chain, keeps a cursor, or decides what is a deposit.
 */
import type { Json } from '../../engine/rail.ts';
import { findTransactions, type Holder, readBalances } from './balances.ts';
import { bloomOf } from './bloom.ts';
import { countOf, field, hexOf, isArray, quantityOf } from './json.ts';
import {
  blockCall,
  type EvmNode,
  faultOf,
  type Finality,
  type Header,
  headerIn,
  headerOf,
  type Read,
  readFinalized,
} from './nodes.ts';
import { readReceipt, type Receipt } from './receipt.ts';
import type { Line, RpcCall, RpcResult } from './rpc.ts';

/** A transaction with its own receipt; a log's position in the deposit's key is its index in `receipt.logs`. */
export interface ChainTransaction {
  readonly hash: string;
  readonly from: string;
  /** `null`: it created a contract. */
  readonly to: string | null;
  readonly value: bigint;
  readonly nonce: bigint;
  readonly receipt: Receipt;
}

export interface ChainBlock {
  readonly number: bigint;
  readonly hash: string;
  readonly parentHash: string;
  readonly timestamp: bigint;
  readonly transactions: readonly ChainTransaction[];
}

export interface BlockReader {
  readonly source: string;
  readonly operator: string;
  finalizedHead(): Promise<Read<Header>>;
  latestHead(): Promise<Read<Header>>;
  /** The header alone: cheap, for comparing hashes between nodes. */
  readHeader(number: bigint): Promise<Read<Header>>;
  /** One entry per number, in order. */
  readBlocks(numbers: readonly bigint[]): Promise<readonly Read<ChainBlock>[]>;
  /** What each held at exactly this block; a fault where the node does not keep its state any more. */
  readBalances(block: { readonly hash: string }, holders: readonly Holder[]): Promise<readonly Read<bigint>[]>;
  /** In which block each stands; `null`: in none that this node knows. */
  findTransactions(hashes: readonly string[]): Promise<readonly Read<bigint | null>[]>;
}

export function makeBlockReader(node: EvmNode, finality: Finality): BlockReader {
  let receiptsByBlock = true;
  const onRightChain = async <T>(work: () => Promise<Read<T>>): Promise<Read<T>> => {
    const chain = await node.check();
    if (chain === 'right') return work();
    return { ok: false, fault: chain === 'wrong' ? 'the node is on another chain' : 'the node does not answer' };
  };
  const header = async (call: RpcCall): Promise<Read<Header>> => {
    const [result] = await node.checked.ask([call]);
    const read = headerIn(result);
    return read === null ? { ok: false, fault: faultOf(result) } : { ok: true, value: read };
  };

  async function readBlocks(numbers: readonly bigint[]): Promise<readonly Read<ChainBlock>[]> {
    const results = await askHalving(
      node.checked,
      numbers.map((number) => blockCall(number, true)),
    );
    const heads = numbers.map((number, index) => readHead(results[index], number));
    const receipts = receiptsByBlock
      ? await askHalving(
          node.checked,
          heads.flatMap((head) => (head.ok ? [receiptsCall(head.value.header.hash)] : [])),
        )
      : [];
    if (receipts.some(isUnsupported)) receiptsByBlock = false;
    const blocks: Read<ChainBlock>[] = [];
    let next = 0;
    for (const head of heads) {
      if (!head.ok) {
        blocks.push(head);
        continue;
      }
      const answer = receiptsByBlock ? receipts[next] : await singleReceipts(node.checked, head.value.hashes);
      next += 1;
      blocks.push(assemble(head.value, answer));
    }
    return blocks;
  }

  return {
    source: node.rpc.source,
    operator: node.rpc.operator,
    finalizedHead: () => onRightChain(() => readFinalized(node.checked, finality)),
    latestHead: () => onRightChain(() => header(blockCall('latest'))),
    readHeader: (number) => onRightChain(() => header(blockCall(number))),
    async readBlocks(numbers) {
      const read = await onRightChain(async () => ({ ok: true, value: await readBlocks(numbers) }));
      return read.ok ? read.value : numbers.map(() => read);
    },
    async readBalances(block, holders) {
      const read = await onRightChain(async () => ({ ok: true, value: await readBalances(node, block, holders) }));
      return read.ok ? read.value : holders.map(() => read);
    },
    async findTransactions(hashes) {
      const read = await onRightChain(async () => ({ ok: true, value: await findTransactions(node, hashes) }));
      return read.ok ? read.value : hashes.map(() => read);
    },
  };
}

interface BlockHead {
  readonly header: Header;
  readonly transactions: readonly Json[];
  readonly hashes: readonly string[];
}

function readHead(result: RpcResult | undefined, number: bigint): Read<BlockHead> {
  const value = result?.kind === 'result' ? result.value : undefined;
  const header = value === undefined ? null : headerOf(value);
  const transactions = field(value, 'transactions');
  if (header === null || !isArray(transactions)) return { ok: false, fault: `block ${number}: ${faultOf(result)}` };
  if (header.number !== number) return { ok: false, fault: `asked for block ${number}, got ${header.number}` };
  const hashes = transactions.map((one) => hexOf(field(one, 'hash')));
  if (!hashes.every((hash) => hash !== null)) return { ok: false, fault: `block ${number}: a transaction has no hash` };
  return { ok: true, value: { header, transactions, hashes } };
}

function receiptsCall(blockHash: string): RpcCall {
  return { method: 'eth_getBlockReceipts', params: [blockHash] };
}

function isUnsupported(result: RpcResult): boolean {
  if (result.kind !== 'error') return false;
  return result.code === -32601 || /method.*not (?:found|supported|available|exist)/i.test(result.message);
}

/** Where whole blocks of receipts are not offered: each by its transaction. Complete all the same. */
async function singleReceipts(line: Line, hashes: readonly string[]): Promise<RpcResult> {
  const results = await askHalving(
    line,
    hashes.map((hash) => ({ method: 'eth_getTransactionReceipt', params: [hash] })),
  );
  const values: Json[] = [];
  for (const result of results) {
    if (result.kind !== 'result') return result;
    values.push(result.value);
  }
  return { kind: 'result', value: values };
}

/** A request that fails as a whole is asked again in two halves, down to single calls: reading only. */
async function askHalving(line: Line, calls: readonly RpcCall[]): Promise<RpcResult[]> {
  const results = await line.ask(calls);
  const worthHalving =
    calls.length > 1 && results.every((one) => one.kind === 'unreadable' && one.reach !== 'never_connected');
  if (!worthHalving) return results;
  const middle = Math.ceil(calls.length / 2);
  const left = await askHalving(line, calls.slice(0, middle));
  // A node that answers nothing at all would be asked once per call: stop at the first half without any answer.
  if (left.every((one) => one.kind === 'unreadable')) return [...left, ...results.slice(middle)];
  return [...left, ...(await askHalving(line, calls.slice(middle)))];
}

function assemble(head: BlockHead, answer: RpcResult | undefined): Read<ChainBlock> {
  const { header } = head;
  const fault = (why: string): Read<ChainBlock> => ({
    ok: false,
    fault: `block ${header.number} ${header.hash}: ${why}`,
  });
  const raw = answer?.kind === 'result' ? answer.value : undefined;
  if (!isArray(raw)) return fault(`no receipts: ${faultOf(answer)}`);
  if (raw.length !== head.transactions.length) {
    return fault(`${raw.length} receipts for ${head.transactions.length} transactions`);
  }
  const transactions: ChainTransaction[] = [];
  for (const [index, value] of head.transactions.entries()) {
    const receipt = readReceipt(raw[index]);
    const transaction = receipt === null ? null : readTransaction(value, receipt);
    if (receipt === null || transaction === null) return fault(`transaction or receipt ${index} is not whole`);
    if (receipt.hash !== head.hashes[index] || receipt.blockHash !== header.hash) {
      return fault(`receipt ${index} belongs to another transaction or block`);
    }
    transactions.push(transaction);
  }
  if (header.logsBloom !== null && header.logsBloom !== bloomOf(transactions.flatMap((one) => one.receipt.logs))) {
    return fault("the logs do not give the block's bloom: the node shows only a part of them");
  }
  const { number, hash, parentHash, timestamp } = header;
  return { ok: true, value: { number, hash, parentHash, timestamp, transactions } };
}

function readTransaction(value: Json, receipt: Receipt): ChainTransaction | null {
  const hash = hexOf(field(value, 'hash'));
  const from = hexOf(field(value, 'from'));
  const amount = quantityOf(field(value, 'value'));
  const nonce = countOf(field(value, 'nonce'));
  if (hash === null || from === null || amount === null || nonce === null) return null;
  return { hash, from, to: hexOf(field(value, 'to')), value: amount, nonce, receipt };
}
