/**
 * What a node shows of a transaction that is in a block: read strictly, a missing figure is never taken for 0. Pure.
 *
 * A token's call succeeded where `receipt.result` is SUCCESS and the top-level `result` is absent (only FAILED is printed).
 * `contractResult` is not looked at: USDT answers false on success. A TRX transfer has no `receipt.result`; its
 * `contractRet` stands with the transaction. Logs count only where it succeeded (rails.md §3.3).
 *
 * Of what happened inside, TRX moved only where the note says `call`, `create` or `suicide`: java-tron notes stakes, loans
 * of energy, votes and rewards in the same list, with the stake as if it were a value (Program.java, every caller of
 * addInternalTx). A note that is in neither list is no money, and is handed on for people.
 */
import type { Json } from '../../engine/rail.ts';
import { field, isArray, plainWord, textOf, longOf } from '../json.ts';
import type { ShownLog } from '../expected-logs.ts';
import { fromNode } from './address.ts';

/** `failed`: it is in the block, its fee is burned, nothing moved. `unknown`: a word that we do not know. */
export type Outcome = 'succeeded' | 'failed' | 'unknown';

export interface TxInfo {
  readonly txId: string;
  readonly blockNumber: bigint;
  /** Sun, all fees together. */
  readonly fee: bigint;
  readonly outcome: Outcome;
  /** In the node's words: `OUT_OF_ENERGY`, `REVERT`, …; with the contract's own message where there is one. */
  readonly word: string;
  /** Whether `receipt.result` said anything: plain transfers have none. */
  readonly told: boolean;
  readonly logs: readonly ShownLog[];
  /** TRX that contracts passed on inside, in order; those of failed calls are left out. The order is every node's, whatever
   *  else it keeps: what moves nothing has no place in it. */
  readonly internal: readonly Passed[];
  /** What we do not know whether it moved TRX. */
  readonly strange: readonly (Passed & { readonly note: string })[];
}

export interface Passed {
  readonly from: string;
  readonly to: string;
  /** Sun. */
  readonly value: bigint;
}

/** The legacy of a contract that ends holds what it had unfrozen too, which stands noted once more for itself. */
const MOVING_NOTES: ReadonlySet<string> = new Set(['call', 'create', 'suicide']);
/** A stake, or the own balance of the contract: nobody else gets TRX. */
const STAYING_NOTES =
  /^(?:(?:un)?freeze(?:BalanceV2)?For\w+|(?:un)?delegateResourceOf\w+|withdrawExpireUnfreeze(?:While\w+)?|cancelAllUnfreezeV2|voteWitness|withdrawReward)$/i;

/** All words of `contractRet` that say: executed, failed, rolled back (rails.md §3.3). */
const FAILED_WORDS: ReadonlySet<string> = new Set([
  'REVERT',
  'BAD_JUMP_DESTINATION',
  'OUT_OF_MEMORY',
  'PRECOMPILED_CONTRACT',
  'STACK_TOO_SMALL',
  'STACK_TOO_LARGE',
  'ILLEGAL_OPERATION',
  'STACK_OVERFLOW',
  'OUT_OF_ENERGY',
  'OUT_OF_TIME',
  'JVM_STACK_OVER_FLOW',
  'TRANSFER_FAILED',
  'INVALID_CODE',
  // An exception that RuntimeImpl.setResultCode has no word for: rolled back like every other one.
  'UNKNOWN',
]);

export function outcomeOf(word: string | null): Outcome {
  if (word === 'SUCCESS') return 'succeeded';
  return word !== null && FAILED_WORDS.has(word) ? 'failed' : 'unknown';
}

export function readInfo(value: Json | undefined): TxInfo | null {
  const txId = hashOf(field(value, 'id'));
  const blockNumber = longOf(field(value, 'blockNumber'));
  // Defaults of protobuf are not printed: no fee is no field.
  const fee = longOf(field(value, 'fee') ?? '0');
  const logs = readLogs(field(value, 'log'));
  const internal = readInternal(field(value, 'internal_transactions'));
  if (txId === null || blockNumber === null || fee === null || logs === null || internal === null) return null;
  const result = textOf(field(field(value, 'receipt'), 'result'));
  const top = field(value, 'result');
  if (top !== undefined && top !== 'FAILED' && top !== 'SUCESS' && top !== 'SUCCESS') return null;
  const failedAbove = top === 'FAILED';
  const outcome = result === null ? (failedAbove ? 'unknown' : 'succeeded') : outcomeOf(result);
  // The two words of one receipt must not contradict each other.
  if (result !== null && failedAbove !== (outcome === 'failed') && outcome !== 'unknown') return null;
  const succeeded = outcome === 'succeeded';
  return {
    txId,
    blockNumber,
    fee,
    outcome,
    word: [result, resMessage(value)].filter((one) => one !== null).join(': ') || 'no word',
    told: result !== null,
    logs: succeeded ? logs : [],
    internal: succeeded ? internal.moved : [],
    strange: succeeded ? internal.strange : [],
  };
}

/** The word that stands with the transaction itself, as in a block: `ret[0].contractRet`. */
export function contractRetOf(transaction: Json | undefined): string | null {
  const ret = field(transaction, 'ret');
  return isArray(ret) ? textOf(field(ret[0], 'contractRet')) : null;
}

export function hashOf(value: Json | undefined): string | null {
  return typeof value === 'string' && /^[0-9a-fA-F]{64}$/.test(value) ? value.toLowerCase() : null;
}

function resMessage(value: Json | undefined): string | null {
  const hex = textOf(field(value, 'resMessage'));
  return hex !== null && /^(?:[0-9a-fA-F]{2})+$/.test(hex) ? Buffer.from(hex, 'hex').toString('utf8') : null;
}

function readLogs(value: Json | undefined): ShownLog[] | null {
  if (value === undefined) return [];
  if (!isArray(value)) return null;
  const logs: ShownLog[] = [];
  for (const raw of value) {
    const address = fromNode(field(raw, 'address'));
    const topics = field(raw, 'topics') ?? [];
    const data = wordsOf(field(raw, 'data') ?? '');
    if (address === null || data === null || !isArray(topics)) return null;
    const read = topics.map(wordsOf);
    if (!read.every((topic) => topic !== null)) return null;
    logs.push({ address, topics: read, data });
  }
  return logs;
}

/** Hex without 0x, as nodes give it. */
function wordsOf(value: Json): string | null {
  return typeof value === 'string' && /^(?:[0-9a-fA-F]{2})*$/.test(value) ? `0x${value.toLowerCase()}` : null;
}

interface Inside {
  readonly moved: readonly Passed[];
  readonly strange: TxInfo['strange'];
}

function readInternal(value: Json | undefined): Inside | null {
  const moved: Passed[] = [];
  const strange: TxInfo['strange'][number][] = [];
  if (value === undefined) return { moved, strange };
  if (!isArray(value)) return null;
  for (const raw of value) {
    const note = noteOf(raw);
    if (note === null) return null;
    if (field(raw, 'rejected') === true || STAYING_NOTES.test(note)) continue;
    const values = field(raw, 'callValueInfo') ?? [];
    if (!isArray(values)) return null;
    for (const one of values) {
      const amount = longOf(field(one, 'callValue') ?? '0');
      if (amount === null) return null;
      // A token of the old kind (TRC-10) names its id; what is left is TRX.
      if (amount === 0n || field(one, 'tokenId') !== undefined) continue;
      const from = fromNode(field(raw, 'caller_address'));
      const to = fromNode(field(raw, 'transferTo_address'));
      if (from === null || to === null) return null;
      if (MOVING_NOTES.has(note)) moved.push({ from, to, value: amount });
      else strange.push({ from, to, value: amount, note });
    }
  }
  return { moved, strange };
}

/** Nodes give it in hex. No note is an unknown one; `null`: it is no text. */
function noteOf(raw: Json): string | null {
  const hex = textOf(field(raw, 'note') ?? '');
  return hex !== null && /^(?:[0-9a-fA-F]{2})*$/.test(hex) ? plainWord(Buffer.from(hex, 'hex').toString('utf8')) : null;
}
