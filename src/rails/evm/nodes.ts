/** The configured nodes: which chain they are on, and their heads. A node of another chain is never used. */
import type { Json } from '../../engine/rail.ts';
import type { Log } from '../../kernel/log.ts';
import type { Ports } from '../../kernel/ports.ts';
import type { WireLimits } from '../http.ts';
import { nameNodes } from '../node-list.ts';
import { countOf, field, hexOf, quantityOf, toQuantity } from './json.ts';
import { TIME_S_MAX } from './limits.ts';
import { type Line, type NodeConfig, openLine, type RpcCall, type RpcNode, type RpcResult } from './rpc.ts';

export type Finality = { readonly tag: 'finalized' } | { readonly depth: number };

export interface ChainConfig {
  readonly chainId: bigint;
  readonly genesisHash?: string;
  readonly nodes: readonly NodeConfig[];
  readonly finality: Finality;
}

export type ChainVerdict = 'right' | 'wrong' | 'down';

export interface EvmNode {
  readonly rpc: RpcNode;
  /** Unchecked: for looks, which keep the chain id in their own evidence. */
  readonly line: Line;
  /** The same connection, answering only while it is known to be of the right chain. */
  readonly checked: Line;
  /** The last verdict; `unknown` before the first answer. */
  lastVerdict(): ChainVerdict | 'unknown';
  /** Asks once per connection for chain id and genesis. */
  check(): Promise<ChainVerdict>;
}

/** A value that a node gave, or why there is none. */
export type Read<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: string };

export interface Header {
  readonly number: bigint;
  readonly hash: string;
  readonly parentHash: string;
  readonly timestamp: bigint;
  readonly baseFeePerGas: bigint | null;
  readonly logsBloom: string | null;
}

export function openNodes(config: ChainConfig, ports: Ports, limits: WireLimits, log: Log): EvmNode[] {
  return nameNodes(config.nodes).map((rpc) => openNode(rpc, config, ports, limits, log));
}

function openNode(rpc: RpcNode, config: ChainConfig, ports: Ports, limits: WireLimits, log: Log): EvmNode {
  const line = openLine(rpc, ports, limits);
  let verdict: ChainVerdict | 'unknown' = 'unknown';
  let checkedConnections = 0;
  const check = async (): Promise<ChainVerdict> => {
    if (verdict === 'right' && line.connections() === checkedConnections) return verdict;
    const next = readChain(await line.ask(chainCalls(config)), config);
    checkedConnections = line.connections();
    if (next === 'wrong' && verdict !== 'wrong') {
      log.error(
        { reason: 'WRONG_CHAIN', node: rpc.source, chain_id: config.chainId },
        'This node is on another chain and is not used: correct its URL or the chain id',
      );
    }
    verdict = next;
    return next;
  };
  return {
    rpc,
    line,
    checked: { ...line, ask: (calls) => askChecked(line, check, calls) },
    lastVerdict: () => verdict,
    check,
  };
}

/** A connection that was opened anew in between may lead to another machine: its chain is asked before its answer is used. */
async function askChecked(
  line: Line,
  check: () => Promise<ChainVerdict>,
  calls: readonly RpcCall[],
): Promise<RpcResult[]> {
  let verdict = await check();
  if (verdict === 'right') {
    const before = line.connections();
    const results = await line.ask(calls);
    if (line.connections() === before) return results;
    verdict = await check();
    if (verdict === 'right') return results;
  }
  const detail = verdict === 'wrong' ? 'the node is on another chain' : 'the node does not tell its chain';
  return calls.map(() => ({ kind: 'unreadable', detail, reach: 'never_connected', status: null }));
}

export function chainCalls(config: ChainConfig): RpcCall[] {
  const calls: RpcCall[] = [{ method: 'eth_chainId', params: [] }];
  if (config.genesisHash !== undefined) calls.push(blockCall(0n));
  return calls;
}

export function readChain(results: readonly RpcResult[], config: ChainConfig): ChainVerdict {
  const chainId = quantityIn(results[0]);
  if (chainId === null) return 'down';
  if (chainId !== config.chainId) return 'wrong';
  if (config.genesisHash === undefined) return 'right';
  const genesis = headerIn(results[1]);
  if (genesis === null) return 'down';
  return genesis.hash === config.genesisHash.toLowerCase() ? 'right' : 'wrong';
}

export function blockCall(number: bigint | 'latest' | 'finalized', withTransactions = false): RpcCall {
  return {
    method: 'eth_getBlockByNumber',
    params: [typeof number === 'bigint' ? toQuantity(number) : number, withTransactions],
  };
}

export function countCall(address: string, at: bigint | 'latest'): RpcCall {
  return { method: 'eth_getTransactionCount', params: [address, typeof at === 'bigint' ? toQuantity(at) : at] };
}

export function quantityIn(result: RpcResult | undefined): bigint | null {
  return result?.kind === 'result' ? quantityOf(result.value) : null;
}

export function countIn(result: RpcResult | undefined): bigint | null {
  return result?.kind === 'result' ? countOf(result.value) : null;
}

export function headerIn(result: RpcResult | undefined): Header | null {
  return result?.kind === 'result' ? headerOf(result.value) : null;
}

export function headerOf(value: Json): Header | null {
  const number = countOf(field(value, 'number'));
  const hash = hexOf(field(value, 'hash'));
  const parentHash = hexOf(field(value, 'parentHash'));
  const timestamp = countOf(field(value, 'timestamp'));
  if (number === null || hash === null || parentHash === null || timestamp === null) return null;
  if (timestamp > TIME_S_MAX) return null;
  const baseFeePerGas = quantityOf(field(value, 'baseFeePerGas'));
  return { number, hash, parentHash, timestamp, baseFeePerGas, logsBloom: hexOf(field(value, 'logsBloom')) };
}

/** What went wrong, in words. */
export function faultOf(result: RpcResult | undefined): string {
  if (result === undefined) return 'not asked';
  if (result.kind === 'error') return `${result.code ?? 'error'}: ${result.message}`;
  if (result.kind === 'unreadable')
    return result.status === null ? result.detail : `HTTP ${result.status}: ${result.detail}`;
  return result.value === null ? 'the node has no such thing' : 'not in the expected form';
}

/** The calls that tell where the chain stands, and their reading. `finalized` never falls back to `latest`. */
export function headCalls(finality: Finality): RpcCall[] {
  return 'tag' in finality ? [blockCall('latest'), blockCall('finalized')] : [blockCall('latest')];
}

export function readHeads(
  results: readonly RpcResult[],
  finality: Finality,
): Read<{ readonly latest: Header; readonly finalNumber: bigint }> {
  const latest = headerIn(results[0]);
  if (latest === null) return { ok: false, fault: `no latest block: ${faultOf(results[0])}` };
  if ('depth' in finality) {
    const number = latest.number - BigInt(finality.depth);
    return { ok: true, value: { latest, finalNumber: number < 0n ? 0n : number } };
  }
  const final = headerIn(results[1]);
  if (final === null) return { ok: false, fault: `no finalized block: ${faultOf(results[1])}` };
  return { ok: true, value: { latest, finalNumber: final.number } };
}

/** The finalized head with its hash, by tag or by depth. */
export async function readFinalized(line: Line, finality: Finality): Promise<Read<Header>> {
  const results = await line.ask(headCalls(finality));
  const heads = readHeads(results, finality);
  if (!heads.ok) return heads;
  if ('tag' in finality) {
    const header = headerIn(results[1]);
    return header === null ? { ok: false, fault: faultOf(results[1]) } : { ok: true, value: header };
  }
  const [result] = await line.ask([blockCall(heads.value.finalNumber)]);
  const header = headerIn(result);
  return header === null ? { ok: false, fault: faultOf(result) } : { ok: true, value: header };
}
