/** Assets by code or id. Look-ups that come together share one statement; nothing is remembered between them, since a code
 *  may be given to another asset one day. */
import { makeBatcher } from '../db/batcher.ts';
import type { Pool } from '../db/pool.ts';
import { PayonceError } from '../kernel/errors.ts';
import { LOOK_UP_ITEMS_MAX, LOOK_UP_LANES } from './limits.ts';
import { type Asset, findAssets } from './store.ts';

export type FindAsset = (name: string) => Promise<Asset | null>;

export function makeFindAsset(pool: Pool): FindAsset {
  const batcher = makeBatcher<string, Asset | null>({
    run: (names) => findAssets(pool, names),
    isItemsFault: () => false,
    lanes: LOOK_UP_LANES,
    itemsMax: LOOK_UP_ITEMS_MAX,
  });
  return (name) => batcher.submit(name);
}

export async function assetOf(findAsset: FindAsset, name: string, pointer: string): Promise<Asset> {
  const asset = await findAsset(name);
  if (asset === null)
    throw new PayonceError('PO_ASSET_UNKNOWN', {
      pointer,
      got: name,
      expected: 'an asset’s id, or a code that one asset alone has (GET /v1/assets)',
    });
  return asset;
}
