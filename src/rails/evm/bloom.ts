/** The bloom filter of logs: an incomplete set of logs does not add up to its block's bloom (case F3). */
import { keccak256, toBytes } from 'viem';
import type { ReceiptLog } from './receipt.ts';

const BLOOM_BYTES = 256;

/** The 2048-bit filter over addresses and topics, as 0x-hex. */
export function bloomOf(logs: readonly ReceiptLog[]): string {
  const bloom = Buffer.alloc(BLOOM_BYTES);
  const entries = new Set(logs.flatMap((log) => [log.address, ...log.topics]));
  for (const entry of entries) {
    const hash = keccak256(toBytes(entry), 'bytes');
    for (const at of [0, 2, 4]) {
      const bit = (((hash[at] ?? 0) << 8) | (hash[at + 1] ?? 0)) & 2047;
      const place = BLOOM_BYTES - 1 - (bit >> 3);
      bloom[place] = (bloom[place] ?? 0) | (1 << (bit & 7));
    }
  }
  return `0x${bloom.toString('hex')}`;
}
