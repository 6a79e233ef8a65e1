/**
 * Case H9: an asset's decimals are frozen here and said by its contract there. A difference makes every amount wrong by
 * a power of ten, so it refuses the start; a node that is down says nothing about the asset and refuses nothing.
 */
import type { Query } from '../../db/pool.ts';

/** What the chain says of one asset. */
export type AssetSaid =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: string; readonly detail: string; readonly certain: boolean };

export interface CheckedAsset {
  readonly id: string;
  readonly code: string;
  readonly decimals: number;
  readonly chain: string;
  readonly contract: string | null;
}

export interface AssetsChecked {
  /** `refused`: do not run with these assets. `unknown`: the chain could not be asked about all; ask again later. */
  readonly verdict: 'right' | 'unknown' | 'refused';
  /** Sentences for the operator, one per asset that is not right. */
  readonly faults: readonly string[];
}

const ASSETS = `select id, code, decimals, chain, contract
from payonce.assets
where chain = $1
order by code`;

/** Asks `reader` about each asset of the chain; one that cannot be read never hides another (case H11). */
export async function checkAssets(
  query: Query,
  chain: string,
  reader: (asset: CheckedAsset) => Promise<AssetSaid>,
): Promise<AssetsChecked> {
  const { rows } = await query.query<CheckedAsset & Record<string, unknown>>(ASSETS, [chain]);
  let verdict: AssetsChecked['verdict'] = 'right';
  const faults: string[] = [];
  for (const asset of rows) {
    const said = await reader(asset);
    if (said.ok) continue;
    faults.push(
      `${asset.code}: ${said.detail} (${said.reason}). Decimals never change: register the contract as another asset.`,
    );
    if (said.certain) verdict = 'refused';
    else if (verdict === 'right') verdict = 'unknown';
  }
  return { verdict, faults };
}
