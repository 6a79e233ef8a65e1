/** Top-ups: coin from a GAS wallet of the chain to an address that lacks it, one at a time per address. */
import type { Tx } from '../../db/pool.ts';
import { raiseAlert } from '../../engine/alerts.ts';
import { OWN_PARTNER, type OwnMove, type OwnMoveKind, takeOwnMoves } from '../../engine/own-move.ts';
import type { Need } from '../../engine/rail.ts';
import type { SupplyAnswer, Wanting } from '../../engine/supply.ts';
import { lengthPrefixed, type MakeId, postingKey } from '../../kernel/ids.ts';
import type { Log } from '../../kernel/log.ts';
import { ASK_AGAIN_MS, RETRY_MS, SETTLES_IN_MS, TOPUP_TRIES_MAX, TOPUPS_A_DAY_MAX } from './limits.ts';
import type { GasPolicy } from './policy.ts';
import { loadBooked, loadLastSupplies, loadOwners, loadUsable, type LastSupply, storeSupplies } from './store.ts';

export const TOPUP: OwnMoveKind = {
  subjectType: 'topup',
  idPrefix: 'top',
  key: postingKey.topup,
  arrivesAt: 'custody',
  triesMax: TOPUP_TRIES_MAX,
};

interface GasWanting extends Wanting {
  readonly need: Extract<Need, { kind: 'gas' }>;
}

interface TopUp extends OwnMove {
  readonly ordinal: number;
  readonly chain: string;
}

/** One answer per wanting, in order; several of one address are one top-up, for the greatest need. */
export async function supplyGas(
  tx: Tx,
  deps: { readonly makeId: MakeId; readonly log: Log },
  policy: GasPolicy,
  wanting: readonly GasWanting[],
): Promise<SupplyAnswer[]> {
  const byLane = Map.groupBy(wanting, (one) => one.lane);
  const last = await loadLastSupplies(tx, [...byLane.keys()]);
  const addresses = [...new Set(wanting.map((one) => one.need.address))];
  const booked = await loadBooked(tx, policy.chain, policy.coinAssetId, [...addresses, ...policy.wallets]);
  const owners = await loadOwners(
    tx,
    addresses.map((address) => ({ chain: policy.chain, address })),
  );
  const payer = await payerOf(tx, policy, booked);
  const answers = new Map<string, SupplyAnswer>();
  const moves: TopUp[] = [];
  for (const [lane, group] of byLane) {
    const address = group[0]?.need.address ?? '';
    const missing = group.reduce((most, { need }) => (need.units > most ? need.units : most), 0n);
    const held = waitFor(last.get(lane)) ?? unable(policy, payer, address, missing);
    if (held !== null) {
      answers.set(lane, held.answer);
      if (held.tell) await tellShort(tx, deps.log, policy, address, held.answer.says);
      continue;
    }
    const ordinal = (last.get(lane)?.ordinal ?? 0) + 1;
    moves.push({
      partnerId: owners.get(`${policy.chain} ${address}`) ?? OWN_PARTNER,
      naturalKey: lengthPrefixed([policy.chain, address, String(ordinal)]),
      lane,
      rail: policy.rail,
      assetId: policy.coinAssetId,
      amount: amountOf(policy, missing, booked.get(address) ?? 0n),
      wallet: payer ?? '',
      signer: payer ?? '',
      destination: address,
      ordinal,
      chain: policy.chain,
    });
  }
  const outcomes = await takeOwnMoves(tx, deps, TOPUP, moves, (made) =>
    storeSupplies(
      tx,
      made.map(({ id, move }) => ({
        id,
        subjectType: 'topup',
        lane: move.lane,
        ordinal: move.ordinal,
        chain: move.chain,
        address: move.destination,
        forEffect: null,
        units: move.amount,
        durationMs: null,
      })),
    ),
  );
  moves.forEach((move, index) => {
    const outcome = outcomes[index];
    const says = outcome?.outcome === 'lane_taken' ? outcome.by.subjectId : (outcome?.id ?? '');
    answers.set(move.lane, { waitMs: ASK_AGAIN_MS, says: `top-up ${says} is under way` });
  });
  return wanting.map((one) => answers.get(one.lane) ?? { waitMs: null, says: 'nobody brings it' });
}

interface Held {
  readonly answer: SupplyAnswer;
  /** Only a person helps. */
  readonly tell: boolean;
}

/** Why no further top-up is made now, by what became of the last one. */
function waitFor(last: LastSupply | undefined): Held | null {
  const wait = (waitMs: number | null, says: string): Held => ({ answer: { waitMs, says }, tell: false });
  if (last === undefined) return null;
  const sinceMs = last.endedMs ?? 0;
  switch (last.state) {
    case 'PENDING':
    case 'SEALED':
      return wait(ASK_AGAIN_MS, `top-up ${last.id} is under way`);
    case 'SETTLED':
      if (sinceMs < SETTLES_IN_MS)
        return wait(SETTLES_IN_MS - sinceMs, `top-up ${last.id} has arrived, and not every node shows it`);
      if (last.settledLately < TOPUPS_A_DAY_MAX) return null;
      return {
        answer: {
          waitMs: null,
          says: `${last.settledLately} top-ups of it in 24 hours: compare it with its chain, a node may show it as empty`,
        },
        tell: true,
      };
    case 'RELEASED':
      if (last.inReview) return wait(null, `top-up ${last.id} did not go through: a person decides`);
      return sinceMs < RETRY_MS ? wait(RETRY_MS - sinceMs, `top-up ${last.id} did not go through`) : null;
  }
}

function unable(policy: GasPolicy, payer: string | null, address: string, missing: bigint): Held | null {
  const tell = (says: string): Held => ({ answer: { waitMs: null, says }, tell: true });
  // A gas wallet is filled from outside: topped up by itself it would only burn gas.
  if (policy.wallets.includes(address)) return tell(`${address} is a gas wallet itself: fund it`);
  if (payer === null) return tell('no gas wallet of this chain may pay');
  if (missing > policy.amountMax) return tell(`it lacks ${missing}, one top-up brings ${policy.amountMax} at most`);
  return null;
}

async function payerOf(tx: Tx, policy: GasPolicy, booked: ReadonlyMap<string, bigint>): Promise<string | null> {
  const usable = await loadUsable(tx, policy.rail, policy.wallets);
  const [first] = policy.wallets
    .filter((wallet) => usable.has(wallet))
    .map((wallet) => ({ wallet, units: booked.get(wallet) ?? 0n }))
    .sort((left, right) => (left.units === right.units ? 0 : left.units > right.units ? -1 : 1));
  return first?.wallet ?? null;
}

/** Up to the level, what is missing at least, and never more than the most of one top-up. */
function amountOf(policy: GasPolicy, missing: bigint, booked: bigint): bigint {
  const toLevel = policy.level - (booked > 0n ? booked : 0n);
  const wanted = toLevel > missing ? toLevel : missing;
  return wanted > policy.amountMax ? policy.amountMax : wanted;
}

async function tellShort(tx: Tx, log: Log, policy: GasPolicy, address: string, says: string): Promise<void> {
  await raiseAlert(tx, 'gas_not_supplied', `${policy.chain}:${address}`, `${address} lacks gas: ${says}`, log);
}
