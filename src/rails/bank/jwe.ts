/**
 * The encryption of bodies that one provider asks for: JWE, direct key, A256GCM, with the time and a fresh nonce in its
 * header. The ciphertext differs at every send, so the plaintext is what is sealed, and what is stored of an answer.
 */
import { CompactEncrypt, compactDecrypt } from 'jose';
import type { Ports } from '../../kernel/ports.ts';
import type { BodyCipher } from '../keyed-wire.ts';

const KEY_HEX = /^[0-9a-fA-F]{64}$/;
const COMPACT = /^[\w-]+\.[\w-]*\.[\w-]+\.[\w-]+\.[\w-]+$/;

export function makeJwe(keyHex: string, ports: Ports): BodyCipher {
  if (!KEY_HEX.test(keyHex))
    throw new Error('The security key is 64 hexadecimal characters: copy it from the provider’s console.');
  const key = Buffer.from(keyHex, 'hex');
  return {
    encrypt: (plain) =>
      new CompactEncrypt(new TextEncoder().encode(plain))
        .setProtectedHeader({
          alg: 'dir',
          enc: 'A256GCM',
          iat: koreanTime(ports.clock.now()),
          nonce: Buffer.from(ports.chance.bytes(16)).toString('hex'),
        })
        .encrypt(key),
    async decrypt(text) {
      if (!COMPACT.test(text.trim())) return text;
      try {
        const { plaintext } = await compactDecrypt(text.trim(), key, {
          keyManagementAlgorithms: ['dir'],
          contentEncryptionAlgorithms: ['A256GCM'],
        });
        return new TextDecoder().decode(plaintext);
      } catch {
        return text;
      }
    },
  };
}

const KOREA_AHEAD_MS = 9 * 60 * 60_000;

/** `2030-01-02T03:04:05+09:00`: Korea has no summer time. */
function koreanTime(now: Date): string {
  return `${new Date(now.getTime() + KOREA_AHEAD_MS).toISOString().slice(0, 19)}+09:00`;
}
