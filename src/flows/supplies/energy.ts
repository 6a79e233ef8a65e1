/** Rentals: energy for one effect, one at a time, paid out of the prepaid balance at a market. */
import type { Tx } from '../../db/pool.ts';
import { clearAlert, raiseAlert } from '../../engine/alerts.ts';
import { openCase } from '../../engine/cases.ts';
import type { EndedEffect, Flow, Then } from '../../engine/flow.ts';
import {
  makeOwnMoveFlow,
  type MoveOutcome,
  OWN_PARTNER,
  type OwnMove,
  type OwnMoveKind,
  takeOwnMoves,
} from '../../engine/own-move.ts';
import type { Need } from '../../engine/rail.ts';
import { restartNeeds, type SupplyAnswer, type Wanting } from '../../engine/supply.ts';
import { lengthPrefixed, type MakeId, postingKey } from '../../kernel/ids.ts';
import type { Log } from '../../kernel/log.ts';
import { formatUnits } from '../../kernel/money.ts';
import type { Chart } from '../../ledger/accounts.ts';
import { ASK_AGAIN_MS, RENTAL_MARGIN_MS, RETRY_MS } from './limits.ts';
import type { EnergyMarketTerms, EnergyPolicy } from './policy.ts';
import { findOverpriced, type LastSupply, loadLastSupplies, storeSupplies } from './store.ts';

export const ENERGY: OwnMoveKind = {
  subjectType: 'energy',
  idPrefix: 'nrg',
  key: postingKey.energy,
  arrivesAt: 'gas',
  // A market that refused once is asked anew by the need itself, with an order of its own.
  triesMax: 1,
};

/** Told once while it lasts; cleared by the next rental that comes. */
const ALERT = 'energy_unavailable';
/** Told once for each; cleared with its case. */
const OVERPRICED_ALERT = 'energy_overpriced';

export function makeEnergyFlow(chart: Chart, log: Log, makeId: MakeId): Flow {
  const moves = makeOwnMoveFlow(chart, ENERGY);
  return {
    ...moves,
    booksCost: true,
    async settled(tx, ended) {
      for (const rail of new Set(ended.map((one) => one.effect.rail))) await clearAlert(tx, ALERT, rail);
      for (const one of ended) await tellOverpriced(tx, { log, makeId }, one);
      // The effect's amount is the most that it may cost; what the market took is what is booked.
      return moves.settled(
        tx,
        ended.map((one) => ({ ...one, effect: { ...one.effect, amount: one.cost?.units ?? one.effect.amount } })),
      );
    },
    async barred(tx, effects) {
      const dear = await findOverpriced(tx, [...new Set(effects.map((one) => one.rail))]);
      return new Map(
        effects.flatMap(({ id, rail }) => {
          const why = dear.get(rail);
          return why === undefined ? [] : [[id, why]];
        }),
      );
    },
    afterRelease: (ended) => afterRelease(moves, ended),
    async released(tx, ended) {
      const failed = new Map(
        ended.flatMap((one) => (one.next.step === 'fail' ? [[one.effect.rail, one.next.reason]] : [])),
      );
      for (const [rail, reason] of failed) await tellUnavailable(tx, log, rail, reason);
      return moves.released(tx, ended);
    },
    async believed(tx, effects) {
      for (const { effect, reason } of effects) await tellUnavailable(tx, log, effect.rail, reason);
      return moves.believed(tx, effects);
    },
  };
}

async function tellUnavailable(tx: Tx, log: Log, rail: string, why: string): Promise<void> {
  await raiseAlert(tx, ALERT, rail, `No energy from ${rail}: ${why}. Payments that need it wait.`, log);
}

/** It is paid and booked as it was taken; people ask the market, and until two have closed the case it gets no order. */
async function tellOverpriced(
  tx: Tx,
  { log, makeId }: { readonly log: Log; readonly makeId: MakeId },
  { effect, cost }: EndedEffect,
): Promise<void> {
  const { rail, asset, amount } = effect;
  const taken = cost?.units ?? 0n;
  if (taken <= amount) return;
  const what = `${rail} took ${formatUnits(taken, asset.decimals)} ${asset.code} for rental ${effect.subjectId}, which allowed ${formatUnits(amount, asset.decimals)}`;
  const key = `${rail}:${effect.id}`;
  await openCase(tx, makeId, {
    kind: 'overpriced',
    severity: 3,
    subjectKey: key,
    effectId: effect.id,
    partnerId: effect.partnerId,
    assetId: asset.id,
    amount: taken,
    summary: `${what}. It is booked as it was taken; nothing more is ordered there until this case is closed.`,
  });
  await raiseAlert(tx, OVERPRICED_ALERT, key, `${what}. Nothing more is ordered there.`, log);
}

/** Whatever proves that nothing was rented ends this order; the effect that needs it asks for the next. */
function afterRelease(moves: Flow, ended: EndedEffect): Then {
  switch (ended.kind) {
    case 'REJECTION_STORED':
    case 'REJECTED':
    case 'REFUSED_AT_ONCE':
    case 'PROVIDER_FAILED':
    case 'NEVER_LEFT':
    case 'OPERATOR_ABSENT':
      return { step: 'fail', reason: ended.detail };
    default:
      return moves.afterRelease(ended);
  }
}

interface EnergyWanting extends Wanting {
  readonly need: Extract<Need, { kind: 'energy' }>;
}

interface Rental extends OwnMove {
  readonly wanting: EnergyWanting;
  readonly ordinal: number;
  readonly units: bigint;
  readonly durationMs: number;
}

/** One answer per wanting, in order. */
export async function supplyEnergy(
  tx: Tx,
  deps: { readonly makeId: MakeId; readonly log: Log },
  policy: EnergyPolicy,
  wanting: readonly EnergyWanting[],
): Promise<SupplyAnswer[]> {
  const { market } = policy;
  if (market === null) return wanting.map((one) => answer(policy, one, 'no market is configured'));
  const last = await loadLastSupplies(
    tx,
    wanting.map((one) => one.lane),
  );
  const dear = (await findOverpriced(tx, [market.rail])).get(market.rail) ?? null;
  const answers = new Map<bigint, SupplyAnswer>();
  const moves: Rental[] = [];
  for (const one of wanting) {
    const before = last.get(one.lane);
    const says = waitFor(before) ?? dear ?? unable(market, one.need.units);
    if (says !== null && one.waitedMs >= policy.giveUpAfterMs && before?.state !== 'SETTLED')
      await tellUnavailable(tx, deps.log, market.rail, says);
    if (says !== null) answers.set(one.effect.id, answer(policy, one, says));
    else moves.push(toRental(market, one, (before?.ordinal ?? 0) + 1));
  }
  await restartNeeds(
    tx,
    moves.flatMap(({ wanting: { effect, lane } }) => (last.get(lane)?.state === 'SETTLED' ? [effect.id] : [])),
  );
  const outcomes = await takeOwnMoves(tx, deps, ENERGY, moves, (made) =>
    storeSupplies(
      tx,
      made.map(({ id, move }) => ({
        id,
        subjectType: 'energy',
        lane: move.lane,
        ordinal: move.ordinal,
        chain: move.wanting.effect.asset.chain,
        address: move.wanting.need.address,
        forEffect: move.wanting.effect.id,
        units: move.units,
        durationMs: move.durationMs,
      })),
    ),
  );
  moves.forEach((move, index) => {
    answers.set(move.wanting.effect.id, answer(policy, move.wanting, `rental ${idOf(outcomes[index])} is under way`));
  });
  return wanting.map((one) => answers.get(one.effect.id) ?? { waitMs: null, says: 'nobody brings it' });
}

function idOf(outcome: MoveOutcome | undefined): string {
  return outcome?.outcome === 'lane_taken' ? outcome.by.subjectId : (outcome?.id ?? '');
}

/** Asked again when the policy may have changed its mind, and before that in case a wake was lost. */
function answer(policy: EnergyPolicy, { waitedMs }: Wanting, says: string): SupplyAnswer {
  const untilNext = policy.giveUpAfterMs - waitedMs;
  if (untilNext > 0) return { waitMs: Math.min(untilNext, ASK_AGAIN_MS), says };
  return { waitMs: null, says: `${says}; waited for ${Math.floor(waitedMs / 1_000)} s` };
}

/** Why no further rental is made now, by what became of the last one. */
function waitFor(last: LastSupply | undefined): string | null {
  if (last === undefined) return null;
  const sinceMs = last.endedMs ?? 0;
  switch (last.state) {
    case 'PENDING':
    case 'SEALED':
      return `rental ${last.id} is under way${last.refused === null ? '' : ` (${last.refused})`}`;
    case 'SETTLED':
      // Paid and there, whatever a node shows of it: rented again only when it has run out.
      return sinceMs < (last.durationMs ?? 0) - RENTAL_MARGIN_MS ? `rental ${last.id} was delivered` : null;
    case 'RELEASED':
      if (last.inReview) return `rental ${last.id} is a person's`;
      return sinceMs < RETRY_MS ? `rental ${last.id} was refused` : null;
  }
}

function unable(market: EnergyMarketTerms, units: bigint): string | null {
  return units > market.unitsMax ? `it needs ${units} energy, a rental is of ${market.unitsMax} at most` : null;
}

function toRental(market: EnergyMarketTerms, wanting: EnergyWanting, ordinal: number): Rental {
  const { effect, need, lane } = wanting;
  const units = need.units > market.unitsMin ? need.units : market.unitsMin;
  return {
    wanting,
    ordinal,
    units,
    durationMs: market.durationMs,
    partnerId: OWN_PARTNER,
    // By the payment's own names: after a restore from a backup another payment has its number, and not these.
    naturalKey: lengthPrefixed([effect.subjectType, effect.naturalKey, String(effect.seq), String(ordinal)]),
    lane,
    rail: market.rail,
    assetId: market.coinAssetId,
    amount: units * market.priceMaxPerUnit,
    wallet: market.account,
    signer: market.account,
    destination: `${need.address}:${units}:${Math.round(market.durationMs / 1_000)}`,
  };
}
