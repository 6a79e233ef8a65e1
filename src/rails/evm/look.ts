/**
 * The look: from every node, on one connection each, where finality stands, whether the node knows the block that the
 * seal names, what became of every variant, and who used the nonce. Nothing is judged here; `read` does that.
 *
 * Order matters: finality first, then the count and the receipts up to it, at last the canonical blocks and the
 * finalized block once more, so that a node that moves between is seen.
 */
import type { Answer, SealedEffect } from '../../engine/rail.ts';
import { askInTime } from '../in-time.ts';
import { findNonceUser } from './competitor.ts';
import { field, quantityOf, textOf, toQuantity } from './json.ts';
import { headerItem, type Item, LOOK_FORM, receiptItem, toItem, transactionItem, writeLook } from './look-body.ts';
import {
  blockCall,
  type ChainConfig,
  chainCalls,
  countCall,
  type EvmNode,
  headCalls,
  quantityIn,
  readHeads,
} from './nodes.ts';
import { type Expect, type Payload, readExpect, readPayload } from './payload.ts';
import { makeQuestions } from './questions.ts';
import type { RpcCall, RpcResult } from './rpc.ts';

interface Looked {
  readonly sealed: SealedEffect;
  readonly payload: Payload;
  readonly expect: Expect;
}

export async function lookAtAll(
  nodes: readonly EvmNode[],
  config: ChainConfig & { readonly askWithinMs: number },
  sealed: readonly SealedEffect[],
): Promise<(readonly Answer[])[]> {
  if (sealed.length === 0) return [];
  const looked = sealed.map((one) => ({
    sealed: one,
    payload: readPayload(one.seal.payload),
    expect: readExpect(one.seal.expect),
  }));
  const perNode = await askInTime(
    nodes,
    config.askWithinMs,
    (node) => lookOn(node, config, looked),
    (node) => {
      const detail = `it had not answered after ${config.askWithinMs} ms`;
      return looked.map(() =>
        failedAnswer(node, { kind: 'unreadable', detail, reach: 'request_written', status: null }),
      );
    },
  );
  return sealed.map((_, index) => perNode.flatMap((answers) => answers[index] ?? []));
}

async function lookOn(node: EvmNode, config: ChainConfig, looked: readonly Looked[]): Promise<Answer[]> {
  const chain = chainCalls(config);
  const first = await node.line.ask([...chain, ...headCalls(config.finality)]);
  const silent = first.find((result) => result.kind === 'unreadable');
  if (silent?.kind === 'unreadable') return looked.map(() => failedAnswer(node, silent));
  const connection = node.line.connections();
  const heads = readHeads(first.slice(chain.length), config.finality);
  const common = {
    form: LOOK_FORM,
    chainId: toItem(first[0]),
    genesis: config.genesisHash === undefined ? null : headerItem(first[1]),
    latest: headerItem(first[chain.length]),
  };
  if (!heads.ok) {
    return looked.map((one) => wholeAnswer(node, one, { ...common, final: { fault: heads.fault } }));
  }
  const finalNumber = heads.value.finalNumber;

  const middle = makeQuestions();
  const second = looked.map((one) => ({
    reference: middle.add(blockCall(one.expect.reference.number)),
    nonceAtFinal: middle.add(countCall(one.payload.from, finalNumber)),
    nonceAtLatest: middle.add(countCall(one.payload.from, 'latest')),
    receipts: one.sealed.variants.map((variant) => middle.add(receiptCall(variant.hash))),
  }));
  const final = middle.add(blockCall(finalNumber));
  await middle.ask(node.line);

  const competitors = new Map<Looked, Item>();
  for (const [index, one] of looked.entries()) {
    const places = second[index];
    const count = places === undefined ? null : quantityIn(middle.answer(places.nonceAtFinal));
    const mined = places?.receipts.some((place) => isFinalReceipt(middle.answer(place), finalNumber)) ?? false;
    if (mined || count === null || count <= one.payload.nonce) continue;
    const from = one.expect.reference.number;
    const user = await findNonceUser(node.line, one.payload.from, one.payload.nonce, from, finalNumber);
    competitors.set(one, user.ok ? transactionItem(user.value) : { fault: user.fault });
  }

  const last = makeQuestions();
  const third = looked.map((one, index) => {
    const receipts = (second[index]?.receipts ?? []).map((place) => middle.answer(place));
    const competitor = field(competitors.get(one), 'result');
    const competitorHash = textOf(field(competitor, 'hash'));
    const blocks = [
      ...receipts.filter((result) => isFinalReceipt(result, finalNumber)).map(blockOfReceipt),
      quantityOf(field(competitor, 'blockNumber')),
    ].filter((number) => number !== null);
    return {
      blocks: blocks.map((number) => [toQuantity(number), last.add(blockCall(number))] as const),
      competitorReceipt: competitorHash === null ? null : last.add(receiptCall(competitorHash)),
      causes: causeCalls(one, receipts, finalNumber).map((call) => last.add(call)),
    };
  });
  const finalAgain = last.add(blockCall(finalNumber));
  await last.ask(node.line);
  const oneConnection = node.line.connections() === connection;

  return looked.map((one, index) => {
    const places = second[index];
    const ends = third[index];
    const causes = ends?.causes ?? [];
    return wholeAnswer(node, one, {
      ...common,
      final: headerItem(middle.answer(final)),
      finalAgain: headerItem(last.answer(finalAgain)),
      reference: headerItem(places && middle.answer(places.reference)),
      nonceAtFinal: toItem(places && middle.answer(places.nonceAtFinal)),
      nonceAtLatest: toItem(places && middle.answer(places.nonceAtLatest)),
      receipts: Object.fromEntries(
        one.sealed.variants.map((variant, at) => [variant.hash, receiptItem(middle.answer(places?.receipts[at]))]),
      ),
      blocks: Object.fromEntries((ends?.blocks ?? []).map(([name, place]) => [name, headerItem(last.answer(place))])),
      competitor: competitors.get(one) ?? null,
      competitorReceipt:
        typeof ends?.competitorReceipt === 'number' ? receiptItem(last.answer(ends.competitorReceipt)) : null,
      cause: causes.length === 0 ? null : toItem(last.answer(causes[0])),
      oneConnection,
    });
  });
}

function receiptCall(hash: string): RpcCall {
  return { method: 'eth_getTransactionReceipt', params: [hash] };
}

function blockOfReceipt(result: RpcResult | undefined): bigint | null {
  return result?.kind === 'result' ? quantityOf(field(result.value, 'blockNumber')) : null;
}

function isFinalReceipt(result: RpcResult | undefined, finalNumber: bigint): boolean {
  const block = blockOfReceipt(result);
  return block !== null && block <= finalNumber;
}

/** For a reverted payment: the same call in the state before its block, so that people read why (case E8). */
function causeCalls(one: Looked, receipts: readonly (RpcResult | undefined)[], finalNumber: bigint): RpcCall[] {
  const failed = receipts.find(
    (result) =>
      result?.kind === 'result' &&
      quantityOf(field(result.value, 'status')) === 0n &&
      isFinalReceipt(result, finalNumber),
  );
  const block = blockOfReceipt(failed);
  if (block === null || block === 0n) return [];
  const { from, to, value, data } = one.payload;
  return [{ method: 'eth_call', params: [{ from, to, value: toQuantity(value), data }, toQuantity(block - 1n)] }];
}

function failedAnswer(node: EvmNode, result: Extract<RpcResult, { kind: 'unreadable' }>): Answer {
  return {
    operation: 'look',
    source: node.rpc.source,
    operator: node.rpc.operator,
    reach: result.reach,
    status: result.status,
    body: result.detail,
    variantHash: null,
  };
}

function wholeAnswer(node: EvmNode, one: Looked, body: Item): Answer {
  return {
    operation: 'look',
    source: node.rpc.source,
    operator: node.rpc.operator,
    reach: 'answer',
    status: 200,
    body: writeLook(body, new Set(one.expect.logs.map((log) => log.address))),
    variantHash: null,
  };
}
