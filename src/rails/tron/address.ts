/**
 * Addresses at the edge: base58 is the one spelling inside; 21 bytes in hex (with or without 0x) and the EVM's 20 bytes
 * are read too (case H11). The length alone tells the hex spellings apart: an address of 20 bytes may well begin with 41.
 * A refusal says which check failed: a mistyped character is found by the checksum that base58 carries.
 */
import { createHash } from 'node:crypto';
import { decode58, encode58 } from 'tronweb/utils';
import { checksumAddress } from 'viem';

export type AddressFault =
  | 'not_text'
  | 'not_address'
  | 'alphabet'
  | 'length'
  | 'prefix'
  | 'checksum'
  | 'zero_address'
  | 'precompile';
export type ReadAddress =
  | { readonly ok: true; readonly address: string; readonly display: string }
  | { readonly ok: false; readonly fault: AddressFault; readonly expected: string };

const HEX_20 = /^0x[0-9a-fA-F]{40}$/;
const HEX_21 = /^(?:0x)?41[0-9a-fA-F]{40}$/;
const HEX_ANY = /^(?:0x)?[0-9a-fA-F]+$/;
const BASE58 = /^[1-9A-HJ-NP-Za-km-z]+$/;
const BASE58_CHARACTERS = 34;
const PREFIX = '41';
/** …01 to …ffff: the chain keeps its built-in contracts there; nobody has a key to one of these. */
const PRECOMPILE = /^0{36}[0-9a-f]{4}$/;

export function readAddress(text: unknown): ReadAddress {
  if (typeof text !== 'string') return refuse('not_text', 'a text such as "T…" with 34 characters');
  if (HEX_20.test(text)) {
    const digits = text.slice(2);
    const mixed = digits !== digits.toLowerCase() && digits !== digits.toUpperCase();
    if (mixed && text !== checksumAddress(`0x${digits.toLowerCase()}`)) {
      return refuse('checksum', 'the spelling that your wallet shows; a letter is wrong or in the wrong case');
    }
    return accept(digits.toLowerCase());
  }
  if (HEX_21.test(text)) return accept(text.replace(/^0x/, '').slice(2).toLowerCase());
  // Forty digits without 0x might be one of 20 bytes, or one of 21 with its end cut off.
  if (text.startsWith('0x') || (HEX_ANY.test(text) && !text.startsWith('T'))) {
    return refuse('length', '0x and 40 hex digits, or 41 and 40 more');
  }
  return readBase58(text);
}

function readBase58(text: string): ReadAddress {
  if (!text.startsWith('T')) return refuse('not_address', 'an address that begins with T, and nothing around it');
  if (/\s/.test(text)) return refuse('alphabet', 'an address without blanks in it or around it');
  if (!BASE58.test(text)) return refuse('alphabet', 'base58: digits and letters without 0, O, I and l');
  if (text.length !== BASE58_CHARACTERS) return refuse('length', `${BASE58_CHARACTERS} characters`);
  const bytes = Buffer.from(decode58(text));
  if (bytes.length !== 25) return refuse('length', '21 bytes and a checksum of 4');
  const body = bytes.subarray(0, 21);
  if (!checkOf(body).equals(bytes.subarray(21))) {
    return refuse('checksum', 'the spelling that your wallet shows; a character is wrong or two are swapped');
  }
  const hex = body.toString('hex');
  if (!hex.startsWith(PREFIX)) return refuse('prefix', 'an address of TRON; this one is of another network');
  return accept(hex.slice(2));
}

function refuse(fault: AddressFault, expected: string): ReadAddress {
  return { ok: false, fault, expected };
}

function accept(digits: string): ReadAddress {
  if (/^0{40}$/.test(digits)) {
    return refuse('zero_address', 'an address that somebody owns; what is sent to zero is destroyed');
  }
  if (PRECOMPILE.test(digits)) {
    return refuse(
      'precompile',
      "an address that somebody owns; this one is the chain's own code, and what is sent there is lost",
    );
  }
  const address = spell(digits);
  return { ok: true, address, display: address };
}

function checkOf(body: Uint8Array): Buffer {
  const once = createHash('sha256').update(body).digest();
  return createHash('sha256').update(once).digest().subarray(0, 4);
}

/** Base58 of 20 bytes in hex, whatever they are. */
function spell(digits: string): string {
  const body = Buffer.from(PREFIX + digits, 'hex');
  return encode58([...body, ...checkOf(body)]);
}

/** The one spelling of a text already known to be an address, in any of the four. Throws where it is none. */
export function canonicalAddress(text: string): string {
  return spell(digitsOf(text));
}

/** 21 bytes in hex without 0x: what nodes take and give. */
export function hexAddress(text: string): string {
  return PREFIX + digitsOf(text);
}

/** The 20 bytes as the virtual machine sees them, with 0x. */
export function machineAddress(text: string): `0x${string}` {
  return `0x${digitsOf(text)}`;
}

/** The 32-byte word of an address in call data and topics. */
export function wordOfAddress(text: string): `0x${string}` {
  return `0x${digitsOf(text).padStart(64, '0')}`;
}

function digitsOf(text: string): string {
  if (HEX_20.test(text)) return text.slice(2).toLowerCase();
  if (HEX_21.test(text)) return text.replace(/^0x/, '').slice(2).toLowerCase();
  const bytes = BASE58.test(text) ? Buffer.from(decode58(text)) : Buffer.alloc(0);
  const body = bytes.subarray(0, 21);
  if (bytes.length !== 25 || body[0] !== 0x41 || !checkOf(body).equals(bytes.subarray(21))) {
    throw new Error(`"${text}" is no address of TRON: correct the row or the configuration that holds it`);
  }
  return body.subarray(1).toString('hex');
}

/** An address as a node shows it (41-hex, or the bare 20 bytes of a log), in our spelling; `null` where it is none. */
export function fromNode(value: unknown): string | null {
  if (typeof value !== 'string') return null;
  if (/^41[0-9a-fA-F]{40}$/.test(value)) return spell(value.slice(2).toLowerCase());
  return /^[0-9a-fA-F]{40}$/.test(value) ? spell(value.toLowerCase()) : null;
}
