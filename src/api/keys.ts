/**
 * API keys: who calls.
 *
 * Only the hash of a key is stored; the key itself is shown once, when it is made. It carries 255 bits of chance, so its
 * hash needs no salt and no slow function, and looking it up by an index tells a guesser nothing.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { makeBatcher } from '../db/batcher.ts';
import type { Pool, Query } from '../db/pool.ts';
import { type MakeId, toBase32 } from '../kernel/ids.ts';
import type { Chance } from '../kernel/ports.ts';
import { LOOK_UP_ITEMS_MAX, LOOK_UP_LANES } from './limits.ts';
import { insertApiKey, loadApiKeys } from './store.ts';

export { revokeApiKey } from './store.ts';

export type KeyMode = 'test' | 'live';

const PREFIX = { test: 'pk_test_', live: 'sk_live_' } as const;
const KEY_BYTES = 32;
/** The whole groups of five bits that 32 bytes hold. */
const KEY_CHARACTERS = 51;
const KEY_SHAPE = /^(?:pk_test_|sk_live_)[0-9a-z]{51}$/;
const HINT_CHARACTERS = 4;

export interface NewApiKey {
  readonly id: string;
  /** Shown once, here; nobody can read it again. */
  readonly key: string;
  /** What lists show of it. */
  readonly hint: string;
}

/** Durable with the caller's commit. */
export async function createApiKey(
  query: Query,
  by: { readonly makeId: MakeId; readonly chance: Chance },
  partnerId: string,
  mode: KeyMode,
): Promise<NewApiKey> {
  const key = PREFIX[mode] + toBase32(by.chance.bytes(KEY_BYTES), KEY_CHARACTERS);
  const made = { id: by.makeId('key'), key, hint: `${PREFIX[mode]}…${key.slice(-HINT_CHARACTERS)}` };
  await insertApiKey(query, { id: made.id, partnerId, keyHash: hashOf(key), hint: made.hint });
  return made;
}

export type Caller =
  | { readonly found: 'partner'; readonly partnerId: string; readonly keyId: string }
  /** It was a key once: its owner may have sent something with it. */
  | { readonly found: 'revoked' }
  | { readonly found: 'unknown' };

/** Reads keys; those that come together share one statement. A revocation counts from the next request on. */
export function makeKeyReader(pool: Pool): (key: string) => Promise<Caller> {
  const batcher = makeBatcher<string, Caller>({
    lanes: LOOK_UP_LANES,
    itemsMax: LOOK_UP_ITEMS_MAX,
    isItemsFault: () => false,
    async run(hashes) {
      const rows = new Map((await loadApiKeys(pool, hashes)).map((row) => [row.keyHash, row]));
      return hashes.map((hash): Caller => {
        const row = rows.get(hash);
        if (row === undefined || !timingSafeEqual(Buffer.from(row.keyHash), Buffer.from(hash)))
          return { found: 'unknown' };
        return row.isRevoked ? { found: 'revoked' } : { found: 'partner', partnerId: row.partnerId, keyId: row.id };
      });
    },
  });
  return async (key) => (KEY_SHAPE.test(key) ? batcher.submit(hashOf(key)) : { found: 'unknown' });
}

function hashOf(key: string): string {
  return createHash('sha256').update(key).digest('hex');
}
