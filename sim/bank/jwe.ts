/*
 * Compact JWE with a shared key: `dir` and `A256GCM` of RFC 7516 and 7518, the part that Toss asks for. By node's own crypto,
 * so that it is another implementation than the one that it tests.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { isWireObject, parseWire, printWire, textAt, type WireObject } from './wire-json.ts';

const IV_BYTES = 12;
const TAG_BYTES = 16;

export function encryptJwe(plain: string, key: Buffer, header: WireObject): string {
  const protectedHeader = Buffer.from(printWire({ ...header, alg: 'dir', enc: 'A256GCM' })).toString('base64url');
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES });
  cipher.setAAD(Buffer.from(protectedHeader, 'ascii'));
  const text = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
  return [protectedHeader, '', ...[iv, text, cipher.getAuthTag()].map((part) => part.toString('base64url'))].join('.');
}

/** `null` for whatever was not made with this key in this way. */
export function decryptJwe(jwe: string, key: Buffer): { header: WireObject; plain: string } | null {
  const [protectedHeader = '', wrapped, iv = '', text = '', tag = '', more] = jwe.split('.');
  const header = parseWire(Buffer.from(protectedHeader, 'base64url').toString('utf8'));
  if (!isWireObject(header) || wrapped !== '' || more !== undefined) return null;
  if (textAt(header, 'alg') !== 'dir' || textAt(header, 'enc') !== 'A256GCM') return null;
  const [ivBytes, textBytes, tagBytes] = [iv, text, tag].map((part) => Buffer.from(part, 'base64url'));
  if (ivBytes?.length !== IV_BYTES || textBytes === undefined || tagBytes?.length !== TAG_BYTES) return null;
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, ivBytes, { authTagLength: TAG_BYTES });
    decipher.setAAD(Buffer.from(protectedHeader, 'ascii'));
    decipher.setAuthTag(tagBytes);
    return { header, plain: Buffer.concat([decipher.update(textBytes), decipher.final()]).toString('utf8') };
  } catch {
    return null;
  }
}
