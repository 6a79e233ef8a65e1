/**
 * Addresses at the edge: one canonical spelling inside (lower case), the checksummed one for people (case H11).
 * A mixed-case text is held to EIP-55, since a broken checksum is a typing error and money sent there is gone.
 */
import { checksumAddress } from 'viem';

export type AddressFault = 'not_text' | 'not_address' | 'checksum' | 'zero_address' | 'precompile';
export type ReadAddress =
  | { readonly ok: true; readonly address: string; readonly display: string }
  | { readonly ok: false; readonly fault: AddressFault; readonly expected: string };

const ADDRESS = /^0x[0-9a-fA-F]{40}$/;
/** 0x…01 to 0x…ffff: chains keep their built-in contracts there and add to them; nobody has a key to one of these. */
const PRECOMPILE = /^0x0{36}[0-9a-f]{4}$/;

export function readAddress(text: unknown): ReadAddress {
  if (typeof text !== 'string') {
    return { ok: false, fault: 'not_text', expected: 'a text such as "0x…" with 40 hex digits' };
  }
  if (!ADDRESS.test(text)) return { ok: false, fault: 'not_address', expected: '0x and 40 hex digits, nothing around' };
  const address = canonicalAddress(text);
  const digits = text.slice(2);
  const display = checksumAddress(address);
  const mixed = digits !== digits.toLowerCase() && digits !== digits.toUpperCase();
  if (mixed && text !== display) {
    return {
      ok: false,
      fault: 'checksum',
      expected: 'the spelling that your wallet shows; a letter is wrong or in the wrong case',
    };
  }
  if (/^0x0{40}$/.test(address)) {
    return {
      ok: false,
      fault: 'zero_address',
      expected: 'an address that somebody owns; tokens sent to zero are destroyed',
    };
  }
  if (PRECOMPILE.test(address)) {
    return {
      ok: false,
      fault: 'precompile',
      expected: "an address that somebody owns; this one is the chain's own code, and tokens sent there are lost",
    };
  }
  return { ok: true, address, display };
}

/** Lower case of a text already known to be an address. */
export function canonicalAddress(text: string): `0x${string}` {
  return `0x${text.slice(2).toLowerCase()}`;
}
