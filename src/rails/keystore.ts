/**
 * Keys at rest: one file per key in the Ethereum keystore format 3 (scrypt, aes-128-ctr, MAC by keccak-256), so that a
 * key can be taken to another wallet. An address is given out only after its file is on disk: money sent to an address
 * whose key died with a process is lost for good. Chains whose keys are of this kind share it; each spells the address in
 * its own way, and here it is 20 bytes in lower-case hex with 0x.
 * Never: writes a key in the clear, prints one, or overwrites a file.
 */
import { createCipheriv, createDecipheriv, scrypt, timingSafeEqual } from 'node:crypto';
import { mkdir, open, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { keccak256, toBytes } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import type { Json } from '../engine/rail.ts';
import type { Chance } from '../kernel/ports.ts';
import { field, parseJson, textOf } from './json.ts';

/** geth's standard cost: 256 MB and about a second for each guess at the passphrase; tests use less. */
export const SCRYPT_N = 262_144;
const SCRYPT_R = 8;
const SCRYPT_P = 1;
/** Above this a file asks for more memory than a server should give to a file. */
const SCRYPT_N_MAX = 1_048_576;

export interface KeyFiles {
  addresses(): readonly string[];
  /** Whether there is a file for this address; another process may have made it since. */
  holds(address: string): Promise<boolean>;
  /** The private key, in memory: for the rail's signer and nobody else. Throws where there is none, or it does not open. */
  keyOf(address: string): Promise<`0x${string}`>;
  /** Makes a key, writes its file, and only then tells the address. */
  createAddress(): Promise<string>;
}

/**
 * Opens `folder` (made if missing): addresses are read from the files' clear part, keys are decrypted at their first
 * signature, one after the other, since each costs a second and 256 MB. The first file is decrypted at once, so that a
 * wrong passphrase is found at start and not at the first payment.
 */
export async function openKeyFiles(
  folder: string,
  passphrase: string,
  chance: Chance,
  scryptN: number = SCRYPT_N,
): Promise<KeyFiles> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const files = new Map<string, string>();
  const known = new Set<string>();
  const derive = makeDerive(passphrase);
  /** `again`: files that came since, made by another process that serves the API; one may be half written still. */
  async function readFolder(again: boolean): Promise<void> {
    for (const name of (await readdir(folder)).filter((one) => one.endsWith('.json') && !known.has(one)).sort()) {
      const file = parseJson(await readFile(join(folder, name), 'utf8'));
      const address = textOf(field(file, 'address'));
      if (address === null) {
        if (again) continue;
        throw new Error(`${name} is no key file with an address: take it out of the keystore's folder`);
      }
      known.add(name);
      files.set(spell(address), name);
    }
  }
  await readFolder(false);
  async function holds(address: string): Promise<boolean> {
    if (!files.has(spell(address))) await readFolder(true);
    return files.has(spell(address));
  }
  const opened = new Map<string, `0x${string}`>();
  let line: Promise<unknown> = Promise.resolve();

  async function openFile(address: string): Promise<`0x${string}`> {
    const known = opened.get(address);
    if (known !== undefined) return known;
    const name = (await holds(address)) ? files.get(address) : undefined;
    if (name === undefined) throw new Error(`no key for ${address}: add its key file, or correct the wallet`);
    const file = parseJson(await readFile(join(folder, name), 'utf8'));
    const key = file === undefined ? null : await decryptKey(file, passphrase, derive);
    if (key === null) throw new Error(`the key file ${name} does not open: check the passphrase, or restore the file`);
    opened.set(address, key);
    return key;
  }
  function inTurn(address: string): Promise<`0x${string}`> {
    const turn = line.then(() => openFile(address));
    // The next in line waits for the end of this one, not for its success.
    line = turn.catch(() => null);
    return turn;
  }

  const [first] = files.keys();
  if (first !== undefined) await inTurn(first);
  return {
    addresses: () => [...files.keys()],
    holds,
    async keyOf(address) {
      const canonical = spell(address);
      return opened.get(canonical) ?? (await inTurn(canonical));
    },
    async createAddress() {
      const key: `0x${string}` = `0x${Buffer.from(chance.bytes(32)).toString('hex')}`;
      const address = spell(privateKeyToAccount(key).address);
      const text = JSON.stringify(await encryptKey(key, passphrase, chance, scryptN, derive));
      await writeDurably(folder, `${address}.json`, text);
      known.add(`${address}.json`);
      files.set(address, `${address}.json`);
      opened.set(address, key);
      return address;
    },
  };
}

function spell(address: string): string {
  return `0x${address.replace(/^0x/i, '').toLowerCase()}`;
}

/** DURABLE: file and folder entry are on disk when this returns. */
async function writeDurably(folder: string, name: string, text: string): Promise<void> {
  const file = await open(join(folder, name), 'wx', 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  const entry = await open(folder, 'r');
  try {
    await entry.sync();
  } finally {
    await entry.close();
  }
}

export async function encryptKey(
  privateKey: `0x${string}`,
  passphrase: string,
  chance: Chance,
  scryptN: number = SCRYPT_N,
  derive: Derive = makeDerive(passphrase),
): Promise<Json> {
  const salt = derive.saltFor(scryptN) ?? Buffer.from(chance.bytes(32));
  const iv = Buffer.from(chance.bytes(16));
  const derived = await derive.key(salt, scryptN, SCRYPT_R, SCRYPT_P);
  const cipher = createCipheriv('aes-128-ctr', derived.subarray(0, 16), iv);
  const ciphertext = Buffer.concat([cipher.update(Buffer.from(privateKey.slice(2), 'hex')), cipher.final()]);
  return {
    version: 3,
    id: uuidOf(chance.bytes(16)),
    address: privateKeyToAccount(privateKey).address.slice(2).toLowerCase(),
    crypto: {
      cipher: 'aes-128-ctr',
      cipherparams: { iv: iv.toString('hex') },
      ciphertext: ciphertext.toString('hex'),
      kdf: 'scrypt',
      kdfparams: { dklen: 32, n: scryptN, p: SCRYPT_P, r: SCRYPT_R, salt: salt.toString('hex') },
      mac: macOf(derived, ciphertext).toString('hex'),
    },
  };
}

/** The key, or `null` where the file is not ours to open: wrong passphrase, other format, damaged. */
export async function decryptKey(
  file: Json,
  passphrase: string,
  derive: Derive = makeDerive(passphrase),
): Promise<`0x${string}` | null> {
  const crypto = field(file, 'crypto') ?? field(file, 'Crypto');
  const parameters = field(crypto, 'kdfparams');
  const [n, r, p] = ['n', 'r', 'p'].map((name) => field(parameters, name));
  const salt = bytesOf(field(parameters, 'salt'));
  const iv = bytesOf(field(field(crypto, 'cipherparams'), 'iv'));
  const ciphertext = bytesOf(field(crypto, 'ciphertext'));
  const mac = bytesOf(field(crypto, 'mac'));
  if (field(crypto, 'kdf') !== 'scrypt' || field(crypto, 'cipher') !== 'aes-128-ctr') return null;
  if (typeof n !== 'number' || typeof r !== 'number' || typeof p !== 'number') return null;
  // Beyond these OpenSSL refuses to compute (N < 2^(16 r)), or the file wants more memory than it should get.
  if (n > SCRYPT_N_MAX || n < 2 || (n & (n - 1)) !== 0 || Math.log2(n) >= 16 * r || r > 32 || p > 16) return null;
  if (salt === null || iv === null || ciphertext === null || mac === null || mac.length !== 32) return null;
  const derived = await derive.key(salt, n, r, p);
  if (!timingSafeEqual(macOf(derived, ciphertext), mac)) return null;
  const decipher = createDecipheriv('aes-128-ctr', derived.subarray(0, 16), iv);
  const plain = Buffer.concat([decipher.update(ciphertext), decipher.final()]).toString('hex');
  // Some programs dropped a key's leading zero bytes.
  const key: `0x${string}` = `0x${plain.padStart(64, '0')}`;
  const address = textOf(field(file, 'address'));
  const own = privateKeyToAccount(key).address.slice(2).toLowerCase();
  return address !== null && address.replace(/^0x/, '').toLowerCase() !== own ? null : key;
}

/**
 * The passphrase's derived keys, each computed once: the files of one keystore share a salt, so that ten thousand deposit
 * addresses cost one derivation and not ten thousand seconds. One passphrase opens them all anyway; the IV is each file's own.
 */
interface Derive {
  key(salt: Uint8Array, n: number, r: number, p: number): Promise<Buffer>;
  /** A salt that was derived already at our own cost; `null`: none yet. */
  saltFor(n: number): Buffer | null;
}

function makeDerive(passphrase: string): Derive {
  const made = new Map<string, Promise<Buffer>>();
  const salts = new Map<number, Buffer>();
  return {
    key(salt, n, r, p) {
      const name = `${Buffer.from(salt).toString('hex')}:${n}:${r}:${p}`;
      const before = made.get(name);
      if (before !== undefined) return before;
      if (salt.length === 32 && r === SCRYPT_R && p === SCRYPT_P) salts.set(n, Buffer.from(salt));
      const key = deriveOne(passphrase, salt, n, r, p);
      made.set(name, key);
      return key;
    },
    saltFor: (n) => salts.get(n) ?? null,
  };
}

function deriveOne(passphrase: string, salt: Uint8Array, n: number, r: number, p: number): Promise<Buffer> {
  // Twice what the algorithm itself holds.
  const options = { N: n, r, p, maxmem: 256 * r * (n + p + 2) };
  return new Promise((resolve, reject) => {
    scrypt(passphrase, salt, 32, options, (error, key) => (error === null ? resolve(key) : reject(error)));
  });
}

function macOf(derived: Buffer, ciphertext: Buffer): Buffer {
  return Buffer.from(keccak256(Buffer.concat([derived.subarray(16, 32), ciphertext]), 'bytes'));
}

function bytesOf(value: Json | undefined): Buffer | null {
  return typeof value === 'string' && /^(?:[0-9a-fA-F]{2})+$/.test(value) ? Buffer.from(toBytes(`0x${value}`)) : null;
}

function uuidOf(bytes: Uint8Array): string {
  const hex = Buffer.from(bytes).toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20)].join('-');
}
