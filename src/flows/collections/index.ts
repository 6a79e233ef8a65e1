/**
 * Collections: what customers paid to deposit addresses is moved into the master wallet, each hour (R9).
 *
 * Promises: a cycle asks the ledger, not the chain, which addresses hold enough of an asset to be worth a sweep, and makes one
 * effect per address and asset, with a subject of its own and the lane `sweep:{address}:{asset}`; the engine does the rest,
 * and the plan compares with the chain. Settling books custody of the address → custody of the master wallet
 * (`COL_MOVE:{id}`); the partner was credited when the deposit was final, and hears nothing of it. A cycle that is run twice,
 * or by many processes at once, makes nothing twice (R3). One address that reverts, lacks its key or is blocked by its token
 * waits with its reason, becomes a case, and stops no other.
 * Never: a sweep of dust (less than the asset's `min`, or less than its own fee): it is listed. A second sweep while one is
 * open. Gas: a sweep whose address cannot pay it says so (`needs`), and supplies bring it.
 * Beside it: deposits that come between are the next cycle's; what a sweep carries is frozen when it is made (`plan.ts`).
 *
 * Files: plan (pure), cycle, store.
 */
import { makeOwnMoveFlow } from '../../engine/own-move.ts';
import type { Flow } from '../../engine/flow.ts';
import type { Chart } from '../../ledger/accounts.ts';
import { COLLECTION } from './cycle.ts';

export { cancelCollection, type Collected, collectOnce, type LeftHolding, listLeft } from './cycle.ts';
export {
  type CollectTerms,
  listCollections,
  loadSweptAssets,
  storeTerms,
  type SweptAsset,
} from './store.ts';

export function makeCollections(chart: Chart): Flow {
  return makeOwnMoveFlow(chart, COLLECTION);
}
