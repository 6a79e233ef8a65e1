/** Start-up check of a token: its decimals on chain against those configured (case H9). */
import type { AssetRef } from '../../engine/rail.ts';
import { hexAddress } from './address.ts';
import type { TronNode } from './nodes.ts';
import { figureOf, readSimulation } from './resources.ts';

export type AssetCheck =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: 'DECIMALS_DIFFER' | 'NO_CONTRACT' | 'NODE_DOWN'; readonly detail: string };

/** TRX is counted in sun. */
const COIN_DECIMALS = 6;

/** Every node that answers must agree; without any answer nothing is said about the asset. */
export async function checkAssetOn(nodes: readonly TronNode[], asset: AssetRef): Promise<AssetCheck> {
  const differ = (where: string, shown: bigint | number): AssetCheck => ({
    ok: false,
    reason: 'DECIMALS_DIFFER',
    detail: `${where} has ${shown} decimals, ${asset.code} is configured with ${asset.decimals}`,
  });
  if (asset.contract === null) return asset.decimals === COIN_DECIMALS ? { ok: true } : differ('TRX', COIN_DECIMALS);
  const contract = hexAddress(asset.contract);
  const faults: string[] = [];
  let agreed = false;
  for (const node of nodes) {
    const shown = readSimulation(
      await node.checked.ask('wallet/triggerconstantcontract', {
        owner_address: contract,
        contract_address: contract,
        function_selector: 'decimals()',
        parameter: '',
      }),
    );
    const where = `${node.name.source}: ${asset.contract}`;
    if (shown.kind === 'failed') {
      return { ok: false, reason: 'NO_CONTRACT', detail: `${where} does not tell its decimals: ${shown.why}` };
    }
    const decimals = shown.kind === 'ran' ? figureOf(shown.word) : null;
    if (decimals === null) faults.push(`${where}: ${shown.kind === 'unreadable' ? shown.why : 'no figure'}`);
    else if (decimals !== BigInt(asset.decimals)) return differ(where, decimals);
    else agreed = true;
  }
  return agreed ? { ok: true } : { ok: false, reason: 'NODE_DOWN', detail: faults.join('; ') };
}
