/** One step of an allowance: an own move of amount 0 whose call sets it. */
import type { Tx } from '../../db/pool.ts';
import { type MoveOutcome, OWN_PARTNER, type OwnMove, type OwnMoveKind, takeOwnMoves } from '../../engine/own-move.ts';
import type { Rail } from '../../engine/rail.ts';
import { holdRelayer } from '../../engine/relayer-shortages.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import { lengthPrefixed, type MakeId, postingKey } from '../../kernel/ids.ts';
import { type Setting, storeSetting } from './store.ts';

/** Each proved not to be set; then a person is asked. */
const TRIES_MAX = 3;

export const ALLOWANCE: OwnMoveKind = {
  subjectType: 'allowance',
  idPrefix: 'alw',
  key: postingKey.allowance,
  // Nothing arrives: the amount is 0.
  arrivesAt: 'gas',
  triesMax: TRIES_MAX,
};

interface AllowanceMove extends OwnMove {
  readonly setting: Setting;
}

/** Takes one step in, in the caller's transaction. */
export async function takeSetting(
  tx: Tx,
  deps: { readonly makeId: MakeId },
  rail: Rail,
  setting: Setting,
): Promise<MoveOutcome> {
  const { wallet, relayer, assetId, contract, units, proposalId, step } = setting;
  const call = rail.allowances?.call({ contract, wallet, relayer, units });
  if (call === undefined) throw new InvariantBroken(`rail ${rail.name} knows no allowances`);
  const move: AllowanceMove = {
    setting,
    partnerId: OWN_PARTNER,
    naturalKey: lengthPrefixed([proposalId, String(step)]),
    lane: `allowance:${rail.name}:${wallet}:${relayer}:${assetId}`,
    rail: rail.name,
    assetId,
    amount: 0n,
    wallet,
    signer: wallet,
    destination: relayer,
    call,
  };
  const [outcome] = await takeOwnMoves(tx, deps, ALLOWANCE, [move], async (made) => {
    for (const { id } of made) await storeSetting(tx, id, setting);
  });
  if (outcome === undefined) throw new InvariantBroken('a move without an outcome');
  if (outcome.outcome === 'made' && setting.lowers) await holdRelayer(tx, setting, outcome.id);
  return outcome;
}
