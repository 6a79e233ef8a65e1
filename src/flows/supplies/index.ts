/**
 * Supplies: what waiting effects lack is bought by effects of their own, after the claim and before the payment's seal (R16).
 *
 * A top-up (`topup:{chain}:{address}`) brings coin from a GAS wallet to an address; a rental (`energy:{effect}`) brings energy
 * from a market, paid out of the balance there. Both go through `engine/own-move.ts`: an identity each, once whatever dies in
 * between, one open per lane, and a posting when they are proved. Bought again only when the last one has ended and is spent;
 * energy that was rented for one effect is not counted on by another one of the same address.
 * What cannot be had: the payment stays in the queue with the reason and nothing of it is sealed; after `giveUpAfterMs` the
 * policy may let it burn coin, up to a cap (`PlanContext.burnUpTo`).
 * Never: a partner's money, a second purchase while one is open or delivered, a decision about the waiting effect.
 * Files: policy (the data), gas, energy, levels (R7: wallets that run dry), store.
 */
import type { Pool, Query, Tx } from '../../db/pool.ts';
import type { Flow } from '../../engine/flow.ts';
import { makeOwnMoveFlow } from '../../engine/own-move.ts';
import type { Need } from '../../engine/rail.ts';
import type { EffectRow } from '../../engine/store.ts';
import { loadWaited, type SupplyAnswer, type SupplyPort, type Wanting } from '../../engine/supply.ts';
import type { MakeId } from '../../kernel/ids.ts';
import type { Log } from '../../kernel/log.ts';
import type { Chart } from '../../ledger/accounts.ts';
import { makeEnergyFlow, supplyEnergy } from './energy.ts';
import { supplyGas, TOPUP } from './gas.ts';
import { checkLevels, type Level, type ReadBalance } from './levels.ts';
import type { SupplyPolicy } from './policy.ts';
import { type HeldEnergy, loadHeldEnergy } from './store.ts';

export type { EnergyPolicy, SupplyPolicy, WatchedWallet } from './policy.ts';
export type { Level, ReadBalance } from './levels.ts';
export { ENERGY_GIVE_UP_MS } from './limits.ts';

export interface SuppliesDeps {
  readonly pool: Pool;
  readonly makeId: MakeId;
  readonly log: Log;
  /** What the chain shows of a watched wallet; absent: our books alone. */
  readonly readBalance?: ReadBalance;
}

export interface Supplies {
  /** For `EngineDeps.supply`. */
  readonly port: SupplyPort;
  /** R7, for the scheduler: measures all watched wallets, by the chain where it can be asked. */
  checkLevels(): Promise<readonly Level[]>;
}

/** Of top-ups and of rentals: what their ends book. */
export function makeSupplyFlows(chart: Chart, log: Log, makeId: MakeId): Flow[] {
  return [makeOwnMoveFlow(chart, TOPUP), makeEnergyFlow(chart, log, makeId)];
}

export function makeSupplies(deps: SuppliesDeps, policy: SupplyPolicy): Supplies {
  return {
    port: {
      supply: (tx, wanting) => supply(tx, deps, policy, wanting),
      async beforeBatch(effects) {
        const paying = new Set(
          effects.flatMap((one) => [`${one.asset.chain} ${one.signer}`, `${one.asset.chain} ${one.wallet}`]),
        );
        await checkLevels(
          deps,
          policy.watched.filter((one) => paying.has(`${one.chain} ${one.address}`)),
        );
        return {
          burnUpTo: await burnUpTo(deps.pool, policy, effects),
          energyHeld: await energyHeld(deps.pool, policy, effects),
        };
      },
    },
    checkLevels: () => checkLevels(deps, policy.watched, deps.readBalance),
  };
}

async function supply(
  tx: Tx,
  deps: SuppliesDeps,
  policy: SupplyPolicy,
  wanting: readonly Wanting[],
): Promise<SupplyAnswer[]> {
  const answers = new Map<bigint, SupplyAnswer>();
  const keep = (of: readonly Wanting[], said: readonly SupplyAnswer[]): void =>
    of.forEach((one, index) => {
      const answer = said[index];
      if (answer !== undefined) answers.set(one.effect.id, answer);
    });
  for (const gas of policy.gas) {
    const of = wanting.filter(
      (one) => isGas(one) && one.effect.asset.chain === gas.chain && one.need.assetId === gas.coinAssetId,
    );
    if (of.length > 0) keep(of, await supplyGas(tx, deps, gas, of.filter(isGas)));
  }
  for (const energy of policy.energy) {
    const of = wanting.filter((one) => isEnergy(one) && one.effect.asset.chain === energy.chain);
    if (of.length > 0) keep(of, await supplyEnergy(tx, deps, energy, of.filter(isEnergy)));
  }
  return wanting.map(
    (one) => answers.get(one.effect.id) ?? { waitMs: null, says: `nobody brings ${one.need.kind} here` },
  );
}

function isGas(one: Wanting): one is Wanting & { readonly need: Extract<Need, { kind: 'gas' }> } {
  return one.need.kind === 'gas';
}

function isEnergy(one: Wanting): one is Wanting & { readonly need: Extract<Need, { kind: 'energy' }> } {
  return one.need.kind === 'energy';
}

/** What is rented for whoever pays out of the addresses that sign here. */
async function energyHeld(query: Query, policy: SupplyPolicy, effects: readonly EffectRow[]): Promise<HeldEnergy[]> {
  const renting = effects.filter(({ asset }) =>
    policy.energy.some((one) => one.chain === asset.chain && one.market !== null),
  );
  return renting.length === 0
    ? []
    : loadHeldEnergy(
        query,
        [...new Set(renting.map((one) => one.rail))],
        [...new Set(renting.map((one) => one.signer))],
      );
}

/** By effect: what its policy lets it burn, where it has waited for energy for long enough. */
async function burnUpTo(
  query: Query,
  policy: SupplyPolicy,
  effects: readonly EffectRow[],
): Promise<ReadonlyMap<bigint, bigint>> {
  const burning = policy.energy.flatMap((one) =>
    one.whenNone.act === 'burn' ? [{ ...one, upTo: one.whenNone.upTo }] : [],
  );
  const concerned = effects.flatMap((effect) => {
    const rule = burning.find((one) => one.chain === effect.asset.chain);
    return rule === undefined ? [] : [{ effect, rule }];
  });
  const waited = await loadWaited(
    query,
    concerned.map((one) => one.effect.id),
    'energy',
  );
  return new Map(
    concerned.flatMap(({ effect, rule }) =>
      (waited.get(effect.id) ?? 0) >= rule.giveUpAfterMs ? [[effect.id, rule.upTo]] : [],
    ),
  );
}
