/**
 * A transaction that does not read is left out of its block alone: whom may it concern? Every address that it or its receipt
 * could name, wherever it stands: whole fields, words of calldata and of logs, the raw bytes of its message. Rather one too
 * many: whoever asks knows which are ours, and a word that looks like an address of ours by chance does not happen. Pure.
 */
import type { Json } from '../../engine/rail.ts';
import { isArray, isObject } from '../json.ts';
import { canonicalAddress, readAddress } from './address.ts';
import { NAMED_ADDRESSES_MAX } from './limits.ts';

export interface Unread {
  readonly hash: string;
  /** What of it did not read. */
  readonly why: string;
  /** `null`: too many to tell apart; it may name anybody. */
  readonly names: readonly string[] | null;
}

/** `0x41` and 20 bytes as protobuf and JSON write an address; 12 bytes of zero and 20 as the virtual machine does. */
const IN_BYTES = /(?=(?:41|0{24})([0-9a-f]{40}))/g;

export function namesIn(values: readonly (Json | undefined)[]): readonly string[] | null {
  const found = new Set<string>();
  if (!values.every((value) => value === undefined || collect(value, found))) return null;
  return [...new Set([...found].map(canonicalAddress))];
}

/** False: there are too many. */
function collect(value: Json, found: Set<string>): boolean {
  if (isArray(value)) return value.every((one) => collect(one, found));
  if (isObject(value)) return Object.values(value).every((one) => collect(one, found));
  if (typeof value !== 'string') return true;
  const digits = value.toLowerCase().replace(/^0x/, '');
  if (!/^(?:[0-9a-f]{2})+$/.test(digits)) {
    const read = readAddress(value);
    if (read.ok) found.add(read.address);
    return true;
  }
  // A log's address has the bare 20 bytes.
  if (digits.length === 40) found.add(`0x${digits}`);
  for (const match of digits.matchAll(IN_BYTES)) {
    if (match.index % 2 !== 0 || match[1] === undefined) continue;
    found.add(`0x${match[1]}`);
    if (found.size > NAMED_ADDRESSES_MAX) return false;
  }
  return true;
}
