/** Amounts as people read them: in whole ones of the asset, with its code. For what is told; machines get units and ids. */
import type { Query } from '../db/pool.ts';
import { formatUnits } from '../kernel/money.ts';

const ASSET_WORDS = `select id, code, decimals
from payonce.assets`;

/** How people call assets and write their amounts, by id. */
export type AssetWords = ReadonlyMap<string, { readonly code: string; readonly decimals: number }>;

export async function loadAssetWords(query: Query): Promise<AssetWords> {
  const { rows } = await query.query<{ id: string; code: string; decimals: number }>(ASSET_WORDS);
  return new Map(rows.map((row) => [row.id, { code: row.code, decimals: row.decimals }]));
}

/** An asset that is on no record is told as it came. */
export function amountInWords(words: AssetWords, assetId: string, units: bigint): string {
  const asset = words.get(assetId);
  return asset === undefined ? `${units} units of ${assetId}` : `${formatUnits(units, asset.decimals)} ${asset.code}`;
}
