/**
 * Whole blocks for the deposit scanner, from each node on its own, in the shape that the scanner knows.
 *
 * A block counts as read only if it holds one receipt for each of its transactions, by id and of this very block number.
 * A transaction that does not read beyond that is left out of its block alone, with its reason and the addresses that it
 * may name: what one stranger sends must not stop everybody's deposits. What is solid is read from the solid view, what is above it from the head (case G3).
 * A log's index in its own receipt is its place; TRX leaves no log and is read from the transaction itself (case G8), and
 * what contracts passed on inside from the receipt.
 * Faults are values; one bad block never fails its neighbours.
 * Never: follows the chain, keeps a cursor, or decides what is a deposit.
 */
import type { Json } from '../../engine/rail.ts';
import { type ShownLog, TRANSFER_TOPIC } from '../expected-logs.ts';
import { field, isArray, isObject, plainWord, textOf, longOf } from '../json.ts';
import { canonicalAddress, fromNode } from './address.ts';
import { findTransactions, type Holder, readBalances } from './balances.ts';
import { askBlock, headerIn, type Header, type Read, readHeader, type TronNode, type View } from './nodes.ts';
import { contractRetOf, hashOf, outcomeOf, type Passed, readInfo, type TxInfo } from './receipt.ts';
import { namesIn, type Unread } from './unread.ts';
import { faultOf, type Line } from './wire.ts';

export interface ChainTransaction {
  readonly hash: string;
  /** Addresses in base58. */
  readonly from: string;
  /** `null`: it makes a contract, or does what has no receiver. */
  readonly to: string | null;
  /** Sun. */
  readonly value: bigint;
  /** TRON has none. */
  readonly nonce: bigint;
  /** TRX that contracts passed on inside, in order. */
  readonly internal: readonly Passed[];
  /** What happened inside and is not known to move TRX or not to. */
  readonly strange: TxInfo['strange'];
  readonly receipt: {
    readonly hash: string;
    readonly blockHash: string;
    readonly succeeded: boolean;
    /** Sun, all fees of it together, whether it succeeded or not. */
    readonly cost: bigint;
    readonly logs: readonly ChainLog[];
  };
}

export interface ChainLog extends ShownLog {
  /** Of a Transfer log: its parties in base58. */
  readonly parties?: { readonly from: string; readonly to: string };
}

export interface BlockHeader {
  readonly number: bigint;
  readonly hash: string;
  readonly parentHash: string;
  /** Seconds. */
  readonly timestamp: bigint;
}

export interface ChainBlock extends BlockHeader {
  readonly transactions: readonly ChainTransaction[];
  /** Left out of `transactions`. */
  readonly unread: readonly Unread[];
}

export interface BlockReader {
  readonly source: string;
  readonly operator: string;
  /** The solid head. */
  finalizedHead(): Promise<Read<BlockHeader>>;
  latestHead(): Promise<Read<BlockHeader>>;
  readHeader(number: bigint): Promise<Read<BlockHeader>>;
  /** One entry per number, in order. */
  readBlocks(numbers: readonly bigint[]): Promise<readonly Read<ChainBlock>[]>;
  /** What each held at exactly this block; a fault where it is not the solid head while we ask: nodes keep no older state. */
  readBalances(block: { readonly hash: string }, holders: readonly Holder[]): Promise<readonly Read<bigint>[]>;
  /** In which solid block each stands; `null`: in none that this node knows. */
  findTransactions(hashes: readonly string[]): Promise<readonly Read<bigint | null>[]>;
}

export function makeBlockReader(node: TronNode): BlockReader {
  const line = node.checked;
  let solidNumber = -1n;
  const viewOf = (number: bigint): View => (number <= solidNumber ? 'walletsolidity' : 'wallet');
  return {
    source: node.name.source,
    operator: node.name.operator,
    async finalizedHead() {
      const read = await readHeader(line, 'walletsolidity', 'now');
      if (read.ok && read.value.number > solidNumber) solidNumber = read.value.number;
      return toBlockHeader(read);
    },
    latestHead: async () => toBlockHeader(await readHeader(line, 'wallet', 'now')),
    readHeader: async (number) => toBlockHeader(await readHeader(line, viewOf(number), number)),
    async readBlocks(numbers) {
      const blocks: Read<ChainBlock>[] = [];
      for (const number of numbers) blocks.push(await readBlock(line, viewOf(number), number));
      return blocks;
    },
    readBalances: (block, holders) => readBalances(line, block.hash, holders),
    findTransactions: (hashes) => findTransactions(line, hashes),
  };
}

function toBlockHeader(read: Read<Header>): Read<BlockHeader> {
  return read.ok ? { ok: true, value: spellHeader(read.value) } : read;
}

function spellHeader(header: Header): BlockHeader {
  return {
    number: header.number,
    hash: header.id,
    parentHash: header.parentId,
    timestamp: BigInt(Math.floor(header.timeMs / 1_000)),
  };
}

async function readBlock(line: Line, view: View, number: bigint): Promise<Read<ChainBlock>> {
  const fault = (why: string): Read<ChainBlock> => ({ ok: false, fault: `block ${number}: ${why}` });
  const result = await askBlock(line, view, number);
  const header = headerIn(result);
  if (header === null || result.kind !== 'value') return fault(faultOf(result));
  if (header.number !== number) return fault(`the node gave block ${header.number}`);
  const list = field(result.value, 'transactions') ?? [];
  if (!isArray(list)) return fault('its transactions are not a list');
  const receipts = await readReceipts(line, view, number, list.length);
  if (!receipts.ok) return fault(receipts.fault);
  const transactions: ChainTransaction[] = [];
  const unread: Unread[] = [];
  for (const [index, value] of list.entries()) {
    const hash = hashOf(field(value, 'txID'));
    const receipt = hash === null ? undefined : receipts.value.get(hash);
    if (hash === null || receipt === undefined) return fault(`transaction ${index}: it has no receipt`);
    const read = readTransaction(hash, value, readInfo(receipt), header);
    if (typeof read === 'string') unread.push({ hash, why: read, names: namesIn([value, receipt]) });
    else transactions.push(read);
  }
  return { ok: true, value: { ...spellHeader(header), transactions, unread } };
}

async function readReceipts(
  line: Line,
  view: View,
  number: bigint,
  count: number,
): Promise<Read<ReadonlyMap<string, Json>>> {
  if (count === 0) return { ok: true, value: new Map() };
  const result = await line.ask(`${view}/gettransactioninfobyblocknum`, { num: Number(number) });
  if (result.kind !== 'value' || !isArray(result.value)) return { ok: false, fault: `no receipts: ${faultOf(result)}` };
  const receipts = new Map<string, Json>();
  for (const value of result.value) {
    const txId = hashOf(field(value, 'id'));
    const isOfBlock = longOf(field(value, 'blockNumber')) === number;
    if (txId === null || !isOfBlock) return { ok: false, fault: 'a receipt is not of this block' };
    receipts.set(txId, value);
  }
  if (receipts.size !== count || result.value.length !== count) {
    return { ok: false, fault: `${result.value.length} receipts for ${count} transactions` };
  }
  return { ok: true, value: receipts };
}

/** A text says why it cannot be read. */
function readTransaction(hash: string, value: Json, receipt: TxInfo | null, header: Header): ChainTransaction | string {
  if (receipt === null) return 'its receipt is not whole';
  const outcome = outcomeOf(contractRetOf(value));
  if (outcome === 'unknown') return `its contractRet is ${plainWord(contractRetOf(value) ?? 'missing')}`;
  if (receipt.told && receipt.outcome !== outcome) return 'its receipt contradicts it';
  const move = readMove(value);
  if (move === null) return 'its contract does not read';
  const succeeded = outcome === 'succeeded';
  return {
    hash,
    ...move,
    nonce: 0n,
    internal: succeeded ? receipt.internal : [],
    strange: succeeded ? receipt.strange : [],
    receipt: {
      hash: receipt.txId,
      blockHash: header.id,
      succeeded,
      cost: receipt.fee,
      logs: succeeded ? receipt.logs.map(spellLog) : [],
    },
  };
}

/** A word that is no address is left as it is: whoever reads movements says that the log does not read. */
function spellLog(log: ShownLog): ChainLog {
  const [topic, from, to] = log.topics;
  if (topic !== TRANSFER_TOPIC || !isAddressWord(from) || !isAddressWord(to)) return log;
  return {
    ...log,
    parties: { from: canonicalAddress(`0x${from.slice(26)}`), to: canonicalAddress(`0x${to.slice(26)}`) },
  };
}

function isAddressWord(word: string | undefined): word is string {
  return word !== undefined && /^0x0{24}[0-9a-f]{40}$/.test(word);
}

/** Who moves how much TRX to whom by the transaction itself. `null` where a contract that moves TRX is not whole. */
function readMove(value: Json): Pick<ChainTransaction, 'from' | 'to' | 'value'> | null {
  const contracts = field(field(value, 'raw_data'), 'contract');
  const contract = isArray(contracts) ? contracts[0] : undefined;
  const body = field(field(contract, 'parameter'), 'value');
  const from = fromNode(field(body, 'owner_address'));
  if (!isObject(contract) || from === null) return null;
  switch (textOf(contract['type'])) {
    case 'TransferContract':
      return move(from, field(body, 'to_address'), field(body, 'amount'));
    case 'TriggerSmartContract':
      return move(from, field(body, 'contract_address'), field(body, 'call_value') ?? '0');
    case 'CreateSmartContract': {
      const sun = longOf(field(field(body, 'new_contract'), 'call_value') ?? '0');
      return sun === null ? null : { from, to: null, value: sun };
    }
    default:
      // Votes, stakes, tokens of the old kind: no TRX from one account to another.
      return { from, to: null, value: 0n };
  }
}

function move(from: string, toValue: Json | undefined, amount: Json | undefined) {
  const to = fromNode(toValue);
  const value = longOf(amount);
  return to === null || value === null ? null : { from, to, value };
}
