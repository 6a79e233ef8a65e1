/** The configured nodes: which chain they are on, and their blocks. A node of another chain is never used. */
import type { Json } from '../../engine/rail.ts';
import { assert } from '../../kernel/errors.ts';
import type { Log } from '../../kernel/log.ts';
import type { Ports } from '../../kernel/ports.ts';
import type { WireLimits } from '../http.ts';
import { field, textOf, longOf } from '../json.ts';
import { nameNodes } from '../node-list.ts';
import type { Pace } from './lanes.ts';
import { TIME_MS_MAX } from './limits.ts';
import { faultOf, type Line, type NodeConfig, openLine, type TronNodeName, type TronResult } from './wire.ts';

export interface ChainConfig {
  /** The id of block 0, 64 hex digits: it tells TRON's networks apart. */
  readonly genesisId: string;
  readonly nodes: readonly NodeConfig[];
}

export type ChainVerdict = 'right' | 'wrong' | 'down';

/** One connection to a node. */
export interface Lane {
  /** Unchecked: for looks, which keep the genesis in their own evidence. */
  readonly line: Line;
  /** The same connection, answering only while it is known to be of the right chain. */
  readonly checked: Line;
  /** The last verdict; `unknown` before the first answer. */
  lastVerdict(): ChainVerdict | 'unknown';
}

/** A node is its first connection; the further ones are opened when a batch is large enough. */
export interface TronNode extends Lane {
  readonly name: TronNodeName;
  /** All connections, the first one too. Each is asked for its chain by itself: it may lead to another machine. */
  readonly lanes: readonly Lane[];
  readonly pace: Pace;
  close(): Promise<void>;
}

/** A value that a node gave, or why there is none. */
export type Read<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly fault: string };

export interface Header {
  readonly number: bigint;
  /** Block id: 64 hex digits, the first 16 of them the number. */
  readonly id: string;
  readonly parentId: string;
  readonly timeMs: number;
}

export interface NodeParts {
  readonly ports: Ports;
  readonly limits: WireLimits;
  readonly log: Log;
  /** One per configured node, shared by whatever asks it. */
  readonly paces: readonly Pace[];
}

/** `lanes`: connections per node. */
export function openNodes(config: ChainConfig, parts: NodeParts, lanes: (node: NodeConfig) => number): TronNode[] {
  return nameNodes(config.nodes).map((name, index) => {
    const pace = parts.paces[index];
    assert(pace !== undefined, 'each node has its pace');
    const opened = Array.from({ length: Math.max(1, lanes(name)) }, () => openLane(name, config, parts, pace));
    const [first] = opened;
    assert(first !== undefined, 'a node has a connection');
    const close = async (): Promise<void> => void (await Promise.all(opened.map((lane) => lane.line.close())));
    return { ...first, name, lanes: opened, pace, close };
  });
}

function openLane(name: TronNodeName, config: ChainConfig, { ports, limits, log }: NodeParts, pace: Pace): Lane {
  const line = openLine(name, ports, limits, pace);
  let verdict: ChainVerdict | 'unknown' = 'unknown';
  let checkedConnections = 0;
  const check = async (): Promise<ChainVerdict> => {
    if (verdict === 'right' && line.connections() === checkedConnections) return verdict;
    const next = readGenesis(await askGenesis(line), config);
    checkedConnections = line.connections();
    if (next === 'wrong' && verdict !== 'wrong') {
      log.error(
        { reason: 'WRONG_CHAIN', node: name.source, genesis_id: config.genesisId },
        'This node is on another chain and is not used: correct its URL or the genesis id',
      );
    }
    verdict = next;
    return next;
  };
  return {
    line,
    checked: { ...line, ask: (path, body) => askChecked(line, check, path, body) },
    lastVerdict: () => verdict,
  };
}

/** A connection that was opened anew in between may lead to another machine: its chain is asked before its answer is used. */
async function askChecked(
  line: Line,
  check: () => Promise<ChainVerdict>,
  path: string,
  body: Json | undefined,
): Promise<TronResult> {
  let verdict = await check();
  if (verdict === 'right') {
    const before = line.connections();
    const result = await line.ask(path, body);
    if (line.connections() === before) return result;
    verdict = await check();
    if (verdict === 'right') return result;
  }
  const detail = verdict === 'wrong' ? 'the node is on another chain' : 'the node does not tell its chain';
  return { kind: 'unreadable', detail, reach: 'never_connected', status: null };
}

export function askGenesis(line: Line): Promise<TronResult> {
  return askBlock(line, 'wallet', 0n);
}

export function readGenesis(result: TronResult, config: ChainConfig): ChainVerdict {
  const header = headerIn(result);
  if (header === null || header.number !== 0n) return 'down';
  return header.id === config.genesisId.toLowerCase() ? 'right' : 'wrong';
}

/** `wallet` shows the head, which may be rolled back; `walletsolidity` only what is solid. */
export type View = 'wallet' | 'walletsolidity';

export function askBlock(line: Line, view: View, number: bigint | 'now'): Promise<TronResult> {
  return number === 'now'
    ? line.ask(`${view}/getnowblock`)
    : line.ask(`${view}/getblockbynum`, { num: Number(number) });
}

/** By transaction id: `{}` where the node shows none. */
export function askTransaction(line: Line, view: View, what: 'byid' | 'infobyid', txId: string): Promise<TronResult> {
  return line.ask(`${view}/gettransaction${what}`, { value: txId });
}

export async function readHeader(line: Line, view: View, number: bigint | 'now'): Promise<Read<Header>> {
  const result = await askBlock(line, view, number);
  const header = headerIn(result);
  return header === null ? { ok: false, fault: faultOf(result) } : { ok: true, value: header };
}

export function headerIn(result: TronResult | undefined): Header | null {
  return result?.kind === 'value' ? headerOf(result.value) : null;
}

const BLOCK_ID = /^[0-9a-fA-F]{64}$/;

export function headerOf(value: Json | undefined): Header | null {
  const raw = field(field(value, 'block_header'), 'raw_data');
  const id = textOf(field(value, 'blockID'));
  const parentId = textOf(field(raw, 'parentHash'));
  // A default of protobuf is not printed: block 0 has no number, and may have no time.
  const number = longOf(field(raw, 'number') ?? '0');
  const time = longOf(field(raw, 'timestamp') ?? (number === 0n ? '0' : undefined));
  if (id === null || parentId === null || number === null || time === null || time > TIME_MS_MAX) return null;
  if (!BLOCK_ID.test(id) || !BLOCK_ID.test(parentId) || BigInt(`0x${id.slice(0, 16)}`) !== number) return null;
  return { number, id: id.toLowerCase(), parentId: parentId.toLowerCase(), timeMs: Number(time) };
}
