/*
 * TRON addresses. One spelling inside: 42 lower-case hexadecimal digits that begin with 41. The wire has two: this one, and
 * base58 with a checksum where the caller says `visible`.
 */
import { createHash } from 'node:crypto';
import { keccak256 } from 'viem';

export type Address = string;

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz';
const HEX_ADDRESS = /^41[0-9a-f]{40}$/;

export function sha256(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest();
}

export function isAddress(hex: string): boolean {
  return HEX_ADDRESS.test(hex);
}

export function toBase58(hex: string): string {
  const payload = Buffer.from(hex, 'hex');
  const bytes = Buffer.concat([payload, sha256(sha256(payload)).subarray(0, 4)]);
  let left = BigInt(`0x${bytes.toString('hex')}`);
  let text = '';
  while (left > 0n) {
    text = `${ALPHABET[Number(left % 58n)] ?? ''}${text}`;
    left /= 58n;
  }
  for (const byte of bytes) {
    if (byte !== 0) break;
    text = `1${text}`;
  }
  return text;
}

/** `null`: a character that is none of base58's, a length that is none of an address, or a checksum that is not its own. */
export function fromBase58(text: string): Address | null {
  let value = 0n;
  for (const letter of text) {
    const digit = ALPHABET.indexOf(letter);
    if (digit < 0) return null;
    value = value * 58n + BigInt(digit);
  }
  const hex = value.toString(16);
  if (hex.length > 50) return null;
  const bytes = Buffer.from(hex.padStart(50, '0'), 'hex');
  const payload = bytes.subarray(0, 21);
  if (!sha256(sha256(payload)).subarray(0, 4).equals(bytes.subarray(21))) return null;
  const address = payload.toString('hex');
  return isAddress(address) ? address : null;
}

/** Whatever a test writes: base58, 41-hex, or the 20 bytes of the virtual machine. */
export function addressOf(text: string): Address {
  const lower = text.toLowerCase();
  if (isAddress(lower)) return lower;
  if (/^0x[0-9a-f]{40}$/.test(lower)) return `41${lower.slice(2)}`;
  const address = fromBase58(text);
  if (address === null) throw new RangeError(`${text} is no TRON address: give base58, 41-hex or 0x with 20 bytes`);
  return address;
}

export function toEvm(address: Address): `0x${string}` {
  return `0x${address.slice(2)}`;
}

export function fromEvm(address: string): Address {
  return `41${address.slice(2).toLowerCase()}`;
}

export function topicOf(address: Address): string {
  return address.slice(2).padStart(64, '0');
}

/** Where a contract lies that this transaction of this owner creates. */
export function contractAddressOf(txId: string, owner: Address): Address {
  return `41${keccak256(`0x${txId}${owner}`).slice(-40)}`;
}
