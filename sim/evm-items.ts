/*
 * What one node makes of the requests of one HTTP call: each item is asked of the chain, perhaps twice, perhaps about an
 * older block, perhaps not at all, and its answer is spoiled by the faults that hit it. How the answer then travels, or does
 * not, is `evm-proxy.ts`.
 */
import { foreignId } from './evm-answer.ts';
import { type FaultPlan, type ItemFault, nameOf } from './evm-faults.ts';
import { answerThrough, askThrough, hashAsked, toView, type View, withoutBlocksAbove } from './evm-view.ts';
import { isObject, type Json, type JsonObject, makeRpc, postRpcRaw } from './json-rpc.ts';

export type Condition = {
  seen: ((head: number) => number) | undefined;
  chainId: number | null;
  readonly hidden: Set<string>;
};
export type EvmNode = { readonly upstream: string; readonly plan: FaultPlan; readonly condition: Condition };
export type Item = {
  readonly request: JsonObject;
  readonly method: string;
  readonly params: Json[];
  readonly ordinal: number;
  readonly faults: ItemFault[];
};
/** What the caller gets for one item; undefined: nothing at all. */
type Answer = JsonObject | undefined;

/** What the caller gets for each item, in the order asked; undefined for one that is lost. */
export async function answerAll(node: EvmNode, items: Item[]): Promise<Answer[]> {
  const views = await viewsOf(node, items);
  const asks = items.map((item, at) => toAsk(node, item, views[at]));
  const answers = await forward(node, items, asks);
  const twice = items.map((item) => find(item, 'duplicate'));
  const repeats = asks.map((ask, at): Ask => (twice[at] === undefined ? { done: undefined } : ask));
  const again = await forward(node, items, repeats);
  return items.map((item, at) => {
    const fault = twice[at];
    if (fault !== undefined && 'params' in (asks[at] ?? {})) note(node, fault, item);
    const answer = fault === undefined || fault.answer === 'first' ? answers[at] : again[at];
    return spoil(node, item, views[at], asks[at], answer);
  });
}

type Ask = { readonly params: Json[]; readonly changed: boolean } | { readonly done: Answer };

/** What goes to the chain for an item, or the answer that needs no chain. */
function toAsk(node: EvmNode, item: Item, view: View | undefined): Ask {
  const dropped = find(item, 'drop_item');
  if (dropped !== undefined) {
    note(node, dropped, item);
    return { done: undefined };
  }
  const error = find(item, 'rpc_error');
  if (error !== undefined && error.forwarded !== true) {
    note(node, error, item);
    return { done: toError(error) };
  }
  if (view === undefined || view.seen >= view.head) return { params: item.params, changed: false };
  const viewed = askThrough(view, item.method, item.params);
  if (viewed.kind === 'ask') {
    return { params: viewed.params, changed: JSON.stringify(viewed.params) !== JSON.stringify(item.params) };
  }
  node.plan.fired('stale', item.method, item.ordinal);
  return { done: viewed.kind === 'result' ? { result: viewed.result } : toError(viewed) };
}

function spoil(node: EvmNode, item: Item, view: View | undefined, ask: Ask | undefined, given: Answer): Answer {
  if (given === undefined || ask === undefined) return undefined;
  let answer: JsonObject = given;
  if ('params' in ask && view !== undefined && answer.result !== undefined) {
    const seen = view.seen < view.head ? answerThrough(view, item.method, answer.result) : answer.result;
    if (ask.changed || JSON.stringify(seen) !== JSON.stringify(answer.result)) {
      node.plan.fired('stale', item.method, item.ordinal);
    }
    answer = { ...answer, result: seen };
  }
  const { chainId, hidden } = node.condition;
  if (chainId !== null && (item.method === 'eth_chainId' || item.method === 'net_version')) {
    node.plan.fired('wrong_chain', item.method, item.ordinal);
    answer = { result: item.method === 'net_version' ? String(chainId) : `0x${chainId.toString(16)}` };
  }
  if (hidden.has(hashAsked(item.method, item.params) ?? '') && isObject(answer.result)) {
    node.plan.fired('hide', item.method, item.ordinal);
    answer = { result: null };
  }
  return item.faults.reduce<Answer>((sofar, fault) => spoilOnce(node, item, view, fault, sofar), {
    jsonrpc: '2.0',
    ...(item.request.id === undefined ? {} : { id: item.request.id }),
    ...answer,
  });
}

function spoilOnce(node: EvmNode, item: Item, view: View | undefined, fault: ItemFault, answer: Answer): Answer {
  if (answer === undefined) return undefined;
  const { result } = answer;
  const rest = { jsonrpc: '2.0', ...(answer.id === undefined ? {} : { id: answer.id }) };
  switch (fault.kind) {
    case 'drop_item_answer':
      note(node, fault, item);
      return undefined;
    case 'rpc_error':
      if (fault.forwarded === true) note(node, fault, item);
      return { ...rest, ...toError(fault) };
    case 'invent':
      note(node, fault, item);
      return { ...rest, result: fault.result };
    case 'wrong_item_id':
      note(node, fault, item);
      return { ...answer, id: foreignId(answer.id ?? null) };
    case 'forget':
      if (hashAsked(item.method, item.params) === undefined || !isObject(result)) return answer;
      note(node, fault, item);
      return { ...rest, result: null };
    case 'empty_at_head': {
      if (item.method !== 'eth_getLogs' && item.method !== 'eth_getBlockReceipts') return answer;
      const kept = withoutBlocksAbove((view?.head ?? 0) - fault.blocks, result ?? null);
      if (!Array.isArray(kept) || !Array.isArray(result) || kept.length === result.length) return answer;
      note(node, fault, item);
      return { ...rest, result: kept };
    }
    default:
      return answer;
  }
}

/** The view each item is answered by; undefined where nothing lags. Asked once for the whole call. */
async function viewsOf(node: EvmNode, items: Item[]): Promise<(View | undefined)[]> {
  const { seen } = node.condition;
  const lags = items.map((item) => find(item, 'stale')?.blocks);
  const needed = seen !== undefined || items.some((item, at) => lags[at] !== undefined || find(item, 'empty_at_head'));
  if (!needed) return items.map(() => undefined);
  const rpc = makeRpc(node.upstream);
  const head = await rpc('eth_getBlockByNumber', ['latest', false]);
  const final = await rpc('eth_getBlockByNumber', ['finalized', false]).catch(() => null);
  return lags.map((lag) => {
    const own = seen ?? ((height: number): number => height);
    return toView(head, final, (height) => own(height) - (lag ?? 0));
  });
}

/** One HTTP call to the chain for all that must be asked. */
async function forward(node: EvmNode, items: Item[], asks: Ask[]): Promise<Answer[]> {
  const calls = asks.flatMap((ask, at) => ('done' in ask ? [] : [{ at, params: ask.params }]));
  const given = await postRpcRaw(
    node.upstream,
    calls.map(({ at, params }) => ({ method: items[at]?.method ?? '', params })),
  );
  const byPlace = new Map(calls.map(({ at }, place) => [at, given[place]]));
  return asks.map((ask, at) => ('done' in ask ? ask.done : byPlace.get(at)));
}

function toError(error: { code: number; message: string; data?: Json }): JsonObject {
  const { code, message, data } = error;
  return { error: { code, message, ...(data === undefined ? {} : { data }) } };
}

function note(node: EvmNode, fault: ItemFault, item: Item): void {
  node.plan.fired(nameOf(fault), item.method, item.ordinal);
}

function find<Kind extends ItemFault['kind']>(item: Item, kind: Kind): Extract<ItemFault, { kind: Kind }> | undefined {
  return item.faults.find((fault): fault is Extract<ItemFault, { kind: Kind }> => fault.kind === kind);
}
