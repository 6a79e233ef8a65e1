/**
 * The look: from every node where solidity stands and what became of each transaction. Nothing is judged here; `read`
 * does that. A large batch goes in parts over several connections, each whole in itself: what is said of one transaction
 * was said on one connection.
 *
 * Order matters (rails.md §3.4): the solid head first, then the transaction, at last the solid head once more, so that a
 * balancer with a node that lags behind it is seen. Where solid time has passed the expiration and nothing is shown, the
 * node must also prove that it would show it: a transaction of a block not later than the reference, and one of a block
 * after the margin, both found in its own blocks and asked for by id.
 */
import type { Answer, Json, SealedEffect } from '../../engine/rail.ts';
import { askInTime } from '../in-time.ts';
import { field, isArray, textOf } from '../json.ts';
import { overLanes } from './lanes.ts';
import { EXPIRY_MARGIN_MS, KNOWN_BLOCKS_MAX } from './limits.ts';
import { headerItem, type Item, LOOK_FORM, toItem, writeLook } from './look-body.ts';
import {
  askBlock,
  askGenesis,
  askTransaction,
  type ChainConfig,
  headerIn,
  type Header,
  readGenesis,
  type TronNode,
} from './nodes.ts';
import { type Expect, readExpect, readPayload } from './payload.ts';
import { isNothing, type Line, type TronResult } from './wire.ts';

interface Looked {
  readonly txId: string;
  readonly expect: Expect;
}

/** Told of the solid time that a node of the right chain shows. */
export type SeeTime = (operator: string, timeMs: number) => void;

export async function lookAtAll(
  nodes: readonly TronNode[],
  config: ChainConfig & { readonly askWithinMs: number },
  sealed: readonly SealedEffect[],
  see: SeeTime,
): Promise<(readonly Answer[])[]> {
  if (sealed.length === 0) return [];
  const looked = sealed.map((one) => ({
    txId: readPayload(one.seal.payload).txId,
    expect: readExpect(one.seal.expect),
  }));
  const perNode = await askInTime(
    nodes,
    config.askWithinMs,
    (node) => overLanes(node.lanes, looked, ({ line }, part) => lookOn(node, line, config, part, see)),
    (node) => tooSlow(node, config.askWithinMs, looked),
  );
  return sealed.map((_, index) => perNode.flatMap((answers) => answers[index] ?? []));
}

function tooSlow(node: TronNode, withinMs: number, looked: readonly Looked[]): Answer[] {
  const detail = `it had not answered after ${withinMs} ms`;
  return looked.map(() => failedAnswer(node, { kind: 'unreadable', detail, reach: 'request_written', status: null }));
}

async function lookOn(
  node: TronNode,
  line: Line,
  config: ChainConfig,
  looked: readonly Looked[],
  see: SeeTime,
): Promise<Answer[]> {
  const genesis = await askGenesis(line);
  if (genesis.kind === 'unreadable') return looked.map(() => failedAnswer(node, genesis));
  const connection = line.connections();
  const solidResult = await askBlock(line, 'walletsolidity', 'now');
  const solid = headerIn(solidResult);
  if (solid !== null && readGenesis(genesis, config) === 'right') see(node.name.operator, solid.timeMs);
  const common = { form: LOOK_FORM, genesis: headerItem(genesis), solid: headerItem(solidResult) };
  if (solid === null) return looked.map((one) => wholeAnswer(node, one, common));

  const known = makeKnown(line, solid);
  const bodies: Item[] = [];
  for (const one of looked) bodies.push(await lookAtOne(line, one, solid, known));
  const end = {
    solidAgain: headerItem(await askBlock(line, 'walletsolidity', 'now')),
    oneConnection: line.connections() === connection,
  };
  return looked.map((one, index) => wholeAnswer(node, one, { ...common, ...bodies[index], ...end }));
}

async function lookAtOne(line: Line, one: Looked, solid: Header, known: Known): Promise<Item> {
  const solidInfo = await askTransaction(line, 'walletsolidity', 'infobyid', one.txId);
  if (!isNothing(solidInfo)) {
    if (solidInfo.kind === 'unreadable') return { solidInfo: toItem(solidInfo) };
    const solidTransaction = await askTransaction(line, 'walletsolidity', 'byid', one.txId);
    return { solidInfo: toItem(solidInfo), solidTransaction: toItem(solidTransaction) };
  }
  const headInfo = await askTransaction(line, 'wallet', 'infobyid', one.txId);
  const seen = { solidInfo: toItem(solidInfo), headInfo: toItem(headInfo) };
  const provable = solid.timeMs > one.expect.expirationMs + EXPIRY_MARGIN_MS;
  if (!provable || !isNothing(headInfo)) return seen;
  const solidTransaction = await askTransaction(line, 'walletsolidity', 'byid', one.txId);
  const { early, reference } = await known.before(one.expect.reference.number);
  const late = await known.after(one.expect.expirationMs + EXPIRY_MARGIN_MS);
  return { ...seen, solidTransaction: toItem(solidTransaction), reference, early, late };
}

/** Transactions that this node has in its blocks, and what it shows of them by id; asked once per look. */
interface Known {
  before(number: bigint): Promise<{ readonly reference: Item; readonly early: Item }>;
  after(timeMs: number): Promise<Item>;
}

function makeKnown(line: Line, solid: Header): Known {
  const early = new Map<bigint, Promise<{ readonly reference: Item; readonly early: Item }>>();
  const late = new Map<number, Promise<Item>>();
  return {
    before(number) {
      const asked = early.get(number) ?? findBefore(line, number);
      early.set(number, asked);
      return asked;
    },
    after(timeMs) {
      const asked = late.get(timeMs) ?? findKnown(line, solid.number, (header) => header.timeMs > timeMs);
      late.set(timeMs, asked);
      return asked;
    },
  };
}

async function findBefore(line: Line, number: bigint): Promise<{ readonly reference: Item; readonly early: Item }> {
  const reference = headerItem(await askBlock(line, 'walletsolidity', number));
  return { reference, early: await findKnown(line, number, () => true) };
}

/** From a block backwards: the first transaction, its block, and the node's answer to its id. */
async function findKnown(line: Line, from: bigint, wanted: (header: Header) => boolean): Promise<Item> {
  for (let number = from, count = 0; number > 0n && count < KNOWN_BLOCKS_MAX; number -= 1n, count += 1) {
    const block = await askBlock(line, 'walletsolidity', number);
    const header = headerIn(block);
    if (header === null) return { fault: `block ${number} is not shown` };
    if (!wanted(header)) return { fault: `no transaction in the ${count} blocks that count` };
    const txId = firstTransaction(block);
    if (txId === null) continue;
    const answer = await askTransaction(line, 'walletsolidity', 'infobyid', txId);
    return { block: headerItem(block), txId, info: pickInfo(answer) };
  }
  return { fault: `no transaction in ${KNOWN_BLOCKS_MAX} blocks` };
}

function firstTransaction(block: TronResult): string | null {
  const list = block.kind === 'value' ? field(block.value, 'transactions') : undefined;
  return isArray(list) ? textOf(field(list[0], 'txID')) : null;
}

/** Id and block: what proves that the index has it. */
function pickInfo(result: TronResult): Item {
  if (result.kind === 'unreadable') return toItem(result);
  const pick = (name: string): Json => field(result.value, name) ?? null;
  return { value: { id: pick('id'), blockNumber: pick('blockNumber') } };
}

function failedAnswer(node: TronNode, result: Extract<TronResult, { kind: 'unreadable' }>): Answer {
  return {
    operation: 'look',
    source: node.name.source,
    operator: node.name.operator,
    reach: result.reach,
    status: result.status,
    body: result.detail,
    variantHash: null,
  };
}

function wholeAnswer(node: TronNode, one: Looked, body: Item): Answer {
  return {
    operation: 'look',
    source: node.name.source,
    operator: node.name.operator,
    reach: 'answer',
    status: 200,
    body: writeLook(body, new Set(one.expect.logs.map((log) => log.address))),
    variantHash: null,
  };
}
