/* Ids and secrets from the seed alone: the same run makes the same ones. */
import { createHash } from 'node:crypto';

const ALPHABET = 'abcdefghijkmnpqrstuvwxyz23456789';
const LENGTH = 20;

export type MakeId = (prefix: string, length?: number, alphabet?: string) => string;

export function makeIds(seed: string): MakeId {
  let made = 0;
  return (prefix, length = LENGTH, alphabet = ALPHABET) => {
    made += 1;
    let digits = '';
    for (let round = 0; digits.length < length; round += 1) {
      const digest = createHash('sha256').update(`${seed}\n${made}\n${round}`).digest();
      for (const byte of digest) digits += alphabet[byte % alphabet.length] ?? '';
    }
    return prefix + digits.slice(0, length);
  };
}
