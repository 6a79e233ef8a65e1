/** Start-up check of a token: its decimals on chain against those configured (case H9: 18 on one chain, 6 on another). */
import type { AssetRef } from '../../engine/rail.ts';
import { canonicalAddress } from './address.ts';
import { type EvmNode, faultOf, quantityIn } from './nodes.ts';

export type AssetCheck =
  | { readonly ok: true }
  | { readonly ok: false; readonly reason: 'DECIMALS_DIFFER' | 'NO_CONTRACT' | 'NODE_DOWN'; readonly detail: string };

/** `decimals()`. */
const DECIMALS = '0x313ce567';
/** The coin of every EVM chain. */
const COIN_DECIMALS = 18;

/** Every node that answers must agree; without any answer nothing is said about the asset. */
export async function checkAssetOn(nodes: readonly EvmNode[], asset: AssetRef): Promise<AssetCheck> {
  if (asset.contract === null) {
    if (asset.decimals === COIN_DECIMALS) return { ok: true };
    return {
      ok: false,
      reason: 'DECIMALS_DIFFER',
      detail: `the coin has ${COIN_DECIMALS} decimals, ${asset.code} is configured with ${asset.decimals}`,
    };
  }
  const contract = canonicalAddress(asset.contract);
  const faults: string[] = [];
  let agreed = false;
  for (const node of nodes) {
    const [code, decimals] = await node.checked.ask([
      { method: 'eth_getCode', params: [contract, 'latest'] },
      { method: 'eth_call', params: [{ to: contract, data: DECIMALS }, 'latest'] },
    ]);
    if (code?.kind === 'result' && code.value === '0x') {
      return { ok: false, reason: 'NO_CONTRACT', detail: `${node.rpc.source}: there is no contract at ${contract}` };
    }
    const shown = quantityIn(decimals);
    if (shown === null) {
      faults.push(`${node.rpc.source}: ${faultOf(decimals)}`);
    } else if (shown !== BigInt(asset.decimals)) {
      return {
        ok: false,
        reason: 'DECIMALS_DIFFER',
        detail: `${node.rpc.source}: ${contract} has ${shown} decimals, ${asset.code} is configured with ${asset.decimals}`,
      };
    } else {
      agreed = true;
    }
  }
  return agreed ? { ok: true } : { ok: false, reason: 'NODE_DOWN', detail: faults.join('; ') };
}
