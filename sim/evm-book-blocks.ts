/*
 * Blocks to what moved in them. Decoded by hand from the specifications (JSON-RPC, ERC-20, the trace module), so that the
 * books cannot share a misreading with Payonce's rail or with the library that it signs with.
 */
import { type Json, postRpc } from './json-rpc.ts';

/** keccak256 of `Transfer(address,address,uint256)`. */
const TRANSFER_TOPIC = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';
/** Signature and the two indexed addresses; a fourth would be an ERC-721's token. */
const TRANSFER_TOPIC_COUNT = 3;
const ADDRESS_CHARS = 40;
/** Traces are some kB each; the node takes at most 2 MB of questions at once. */
const ITEMS_PER_CALL = 200;

/** A movement as the block tells it; whether it is final depends on when one asks. */
export type Draft = {
  readonly id: string;
  readonly tx: string;
  readonly from: string;
  readonly to: string;
  readonly asset: string;
  readonly amount: bigint;
  readonly block: number;
  readonly signer: string;
  readonly nonce: number;
};
export type BookedBlock = {
  readonly height: number;
  readonly hash: string;
  readonly movements: Draft[];
  readonly gas: { readonly tx: string; readonly payer: string; readonly amount: bigint }[];
};

/** What was read of one block does not fit together: it was replaced meanwhile. Read again. */
export class ReorgWhileReading extends Error {}

type Block = { number: string; hash: string; transactions: Transaction[] };
type Transaction = { hash: string; from: string; to: string | null; input: string; value: string; nonce: string };
type Receipt = { status: string; gasUsed: string; effectiveGasPrice: string; blockHash: string; logs: Log[] };
type Log = { address: string; topics: string[]; data: string };
type Step = {
  /** `call`, `create` or `suicide`. */
  type: string;
  traceAddress: number[];
  error?: string;
  action: {
    from: string;
    to?: string;
    value?: string;
    callType?: string;
    address?: string;
    refundAddress?: string;
    balance?: string;
  };
  result?: { address?: string } | null;
};
type Value = { readonly from: string; readonly to: string; readonly amount: bigint; readonly path: string };

export async function readBlocks(url: string, tokens: ReadonlySet<string>, heights: number[]): Promise<BookedBlock[]> {
  const byNumber = heights.map((height): [Json, Json] => [`0x${height.toString(16)}`, true]);
  const blocks = (await askEach(url, 'eth_getBlockByNumber', byNumber)) as unknown as (Block | null)[];
  const found = blocks.filter((block) => block !== null);
  if (found.length < blocks.length) throw new ReorgWhileReading('the chain became shorter');
  const transactions = found.flatMap((block) => block.transactions);
  const receipts = await readReceipts(url, transactions);
  const traces = await readTraces(url, transactions);
  return found.map((block) => bookBlock(tokens, block, receipts, traces));
}

function bookBlock(
  tokens: ReadonlySet<string>,
  block: Block,
  receipts: ReadonlyMap<string, Receipt>,
  traces: ReadonlyMap<string, Step[]>,
): BookedBlock {
  const height = Number(block.number);
  const movements: Draft[] = [];
  const gas: BookedBlock['gas'] = [];
  for (const transaction of block.transactions) {
    const tx = transaction.hash;
    const receipt = receipts.get(tx);
    if (receipt?.blockHash !== block.hash) throw new ReorgWhileReading(`block ${block.hash} was replaced`);
    const signer = transaction.from.toLowerCase();
    gas.push({ tx, payer: signer, amount: BigInt(receipt.gasUsed) * BigInt(receipt.effectiveGasPrice) });
    if (receipt.status !== '0x1') continue;
    const common = { tx, block: height, signer, nonce: Number(transaction.nonce) };
    for (const { path, ...value } of valuesOf(transaction, traces.get(tx))) {
      movements.push({ ...common, ...value, id: `${tx}/value/${path}`, asset: 'native' });
    }
    for (const [position, log] of receipt.logs.entries()) {
      const transfer = toTransfer(tokens, log);
      // The place in the transaction's own receipt: a re-mined transaction has other indexes in its block, not here.
      if (transfer !== undefined) movements.push({ ...common, ...transfer, id: `${tx}/log/${position}` });
    }
  }
  return { height, hash: block.hash, movements, gas };
}

function toTransfer(
  tokens: ReadonlySet<string>,
  log: Log,
): Pick<Draft, 'from' | 'to' | 'asset' | 'amount'> | undefined {
  const [topic, from, to] = log.topics;
  const asset = log.address.toLowerCase();
  if (!tokens.has(asset) || topic !== TRANSFER_TOPIC || log.topics.length !== TRANSFER_TOPIC_COUNT) return undefined;
  if (from === undefined || to === undefined) return undefined;
  return { from: toAddress(from), to: toAddress(to), asset, amount: BigInt(log.data) };
}

function toAddress(topic: string): string {
  return `0x${topic.slice(-ADDRESS_CHARS).toLowerCase()}`;
}

async function readReceipts(url: string, transactions: Transaction[]): Promise<Map<string, Receipt>> {
  const hashes = transactions.map((transaction): [Json] => [transaction.hash]);
  const receipts = (await askEach(url, 'eth_getTransactionReceipt', hashes)) as unknown as (Receipt | null)[];
  return new Map(receipts.flatMap((it, at) => (it === null ? [] : [[transactions[at]?.hash ?? '', it]])));
}

/**
 * Only a transaction that runs code can move value inside: the others need no trace. Asked by `trace_transaction`, which the
 * node answers from what it kept when it mined; the debug tracers run the code again, on a state that may be pruned by now.
 */
async function readTraces(url: string, transactions: Transaction[]): Promise<Map<string, Step[]>> {
  const running = transactions.filter(({ to, input }) => to === null || input !== '0x');
  const asks = running.map(({ hash }): [Json] => [hash]);
  const traces = (await askEach(url, 'trace_transaction', asks)) as unknown as Step[][];
  return new Map(traces.map((steps, at) => [running[at]?.hash ?? '', steps]));
}

function valuesOf(transaction: Transaction, steps: Step[] | undefined): Value[] {
  // A chain that was loaded from a file has kept its blocks and no traces.
  if (steps !== undefined && steps.length > 0) return valuesIn(steps);
  const amount = BigInt(transaction.value);
  if (amount === 0n || transaction.to === null) return [];
  return [{ from: transaction.from.toLowerCase(), to: transaction.to.toLowerCase(), amount, path: '0' }];
}

/** A failed step takes back everything below it. Code run on behalf of another moves nothing of its own. */
function valuesIn(steps: Step[]): Value[] {
  const failed = steps.filter((step) => step.error !== undefined).map((step) => step.traceAddress);
  return steps.flatMap((step) => {
    const undone = failed.some((above) => above.every((place, depth) => step.traceAddress[depth] === place));
    const { from, to, amount } = endsOf(step);
    if (undone || amount === 0n || from === undefined || to === undefined) return [];
    const path = [0, ...step.traceAddress].join('.');
    return [{ from: from.toLowerCase(), to: to.toLowerCase(), amount, path }];
  });
}

type Ends = { readonly from: string | undefined; readonly to: string | undefined; readonly amount: bigint };

function endsOf({ type, action, result }: Step): Ends {
  const amount = BigInt(action.value ?? '0x0');
  if (type === 'suicide') {
    return { from: action.address, to: action.refundAddress, amount: BigInt(action.balance ?? '0x0') };
  }
  if (type === 'create') return { from: action.from, to: result?.address, amount };
  const moves = (action.callType ?? 'call') === 'call';
  return { from: action.from, to: action.to, amount: moves ? amount : 0n };
}

async function askEach(url: string, method: string, params: Json[][]): Promise<Json[]> {
  const answers: Json[] = [];
  for (let at = 0; at < params.length; at += ITEMS_PER_CALL) {
    const some = params.slice(at, at + ITEMS_PER_CALL).map((one) => ({ method, params: one }));
    answers.push(...(await postRpc(url, some)));
  }
  return answers;
}
