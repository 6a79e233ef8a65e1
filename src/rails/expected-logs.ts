/** The logs that a seal expects of its receipt: written into it, read back, and held against what a chain shows. Pure. */
import type { ContractCall, Json } from '../engine/rail.ts';
import { assert } from '../kernel/errors.ts';
import { field, isArray, isObject, textOf, unitsOf } from './json.ts';

/** `Transfer(address,address,uint256)`. */
export const TRANSFER_TOPIC = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef';

export interface ExpectedLog {
  readonly address: string;
  /** `null` stands for every word. */
  readonly topics: readonly (string | null)[];
  readonly data: string | null;
  readonly minimumWord: number | null;
  readonly minimum: bigint | null;
}

export interface ShownLog {
  readonly address: string;
  readonly topics: readonly string[];
  readonly data: string;
}

/** What a contract call must show. `spell` gives the chain's one spelling of a contract. */
export function logsOfCall(call: ContractCall, spell: (address: string) => string): Json {
  return call.logs.map((log) => ({
    address: spell(log.address),
    topics: log.topics.map((topic) => (topic === null ? null : topic.toLowerCase())),
    data: log.data?.toLowerCase() ?? null,
    minimumWord: log.minimumWord === undefined ? null : String(log.minimumWord),
    minimum: log.minimum?.toString() ?? null,
  }));
}

/** The one log of a token's transfer; `from` and `to` are words of 32 bytes, lower-case hex. */
export function logOfTransfer(contract: string, from: string, to: string, amount: bigint): Json {
  return {
    address: contract,
    topics: [TRANSFER_TOPIC, from, to],
    data: `0x${amount.toString(16).padStart(64, '0')}`,
    minimumWord: null,
    minimum: null,
  };
}

/** Reads sealed logs back. */
export function readExpectedLogs(value: Json | undefined): ExpectedLog[] {
  assert(isArray(value), 'sealed expect is not ours');
  return value.map(readExpectedLog);
}

function readExpectedLog(value: Json): ExpectedLog {
  const address = textOf(field(value, 'address'));
  const topics = field(value, 'topics');
  assert(isObject(value) && address !== null && isArray(topics), 'sealed log is not ours');
  const word = unitsOf(value['minimumWord']);
  return {
    address,
    topics: topics.map(textOf),
    data: textOf(value['data']),
    minimumWord: word === null ? null : Number(word),
    minimum: unitsOf(value['minimum']),
  };
}

/**
 * Every expected log must be there, each by a log of its own: a multi-send that pays one person twice needs two. Taken
 * in order; where that misses an arrangement it reports "not met", which a person then sees, never a false "met".
 */
export function logsMet(expected: readonly ExpectedLog[], shown: readonly ShownLog[]): boolean {
  const unused = new Set(shown);
  return expected.every((wanted) => {
    const found = [...unused].find((log) => logMatches(wanted, log));
    return found !== undefined && unused.delete(found);
  });
}

function logMatches(wanted: ExpectedLog, log: ShownLog): boolean {
  if (log.address !== wanted.address || log.topics.length !== wanted.topics.length) return false;
  if (wanted.topics.some((topic, index) => topic !== null && topic !== log.topics[index])) return false;
  if (wanted.data !== null && wanted.data !== log.data) return false;
  if (wanted.minimum === null) return true;
  const start = 2 + 64 * (wanted.minimumWord ?? 0);
  const word = log.data.slice(start, start + 64);
  return word.length === 64 && BigInt(`0x${word}`) >= wanted.minimum;
}
