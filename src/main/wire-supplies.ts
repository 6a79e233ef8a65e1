/**
 * Supplies, from the configuration: what may be bought for waiting payments on each chain, out of which wallets and accounts,
 * and which wallets are watched so that none runs dry unseen (R7, R16).
 */
import { ENERGY_GIVE_UP_MS } from '../flows/supplies/limits.ts';
import type { ReadBalance } from '../flows/supplies/index.ts';
import type { EnergyPolicy, GasPolicy, SupplyPolicy, WatchedWallet } from '../flows/supplies/policy.ts';
import { PayonceError } from '../kernel/errors.ts';
import type { Log } from '../kernel/log.ts';
import { parseAmount } from '../kernel/money.ts';
import type { Ports } from '../kernel/ports.ts';
import { type EnergyRail, energyMarket, makeEnergyRail } from '../rails/energy/index.ts';
import type { Config, TronConfig, WalletConfig } from './config.ts';
import type { Chain } from './wire-chains.ts';

type TronEnergy = NonNullable<TronConfig['energy']>;

export interface WiredMarket {
  readonly rail: EnergyRail;
  readonly account: string;
}

export function makeMarkets(config: Config, ports: Ports, log: Log): WiredMarket[] {
  return config.tron.flatMap(({ energy }) => {
    if (energy?.market === undefined) return [];
    const { name, baseUrl, account, secret } = energy.market;
    const rail = makeEnergyRail(
      {
        name: marketRail(name),
        profile: energyMarket,
        baseUrl,
        account,
        secret,
        deployment: config.deployment,
      },
      { ports, log },
    );
    return [{ rail, account }];
  });
}

function marketRail(name: string): string {
  return `energy:${name}`;
}

/** Throws PO_CONFIG_INVALID for amounts that the coin cannot have. */
export function supplyPolicy(config: Config, chains: readonly Chain[]): SupplyPolicy {
  return {
    gas: chains.flatMap((chain) => gasOf(chain, walletsOf(config, chain, 'GAS'))),
    energy: config.tron.flatMap(({ energy }, index) => {
      // EVM chains come first, as they are made.
      const chain = chains[config.chains.length + index];
      return chain === undefined || energy === undefined ? [] : [energyOf(chain, energy)];
    }),
    watched: chains.flatMap((chain) => watchedOf(chain, walletsOf(config, chain, 'GAS'))),
  };
}

/** Wallets that the configuration calls so, in the chain's spelling. */
export function walletsOf(
  { wallets }: Pick<Config, 'wallets'>,
  { chain, canonical }: Chain,
  kind: WalletConfig['kind'],
): string[] {
  return wallets.flatMap((wallet) =>
    wallet.chain === chain && wallet.kind === kind ? (canonical(wallet.address) ?? []) : [],
  );
}

function gasOf(chain: Chain, wallets: readonly string[]): GasPolicy[] {
  const { gas, coinAssetId } = chain;
  if (gas === undefined) return [];
  const level = coinUnits(chain, 'level', gas.level);
  const amountMax = coinUnits(chain, 'topUpMax', gas.topUpMax);
  return [{ chain: chain.chain, rail: chain.rail.name, coinAssetId, wallets, level, amountMax }];
}

/** Sun per TRX are six decimals; other figures of energy are sun and units already. */
function energyOf({ chain, coinAssetId }: Chain, energy: TronEnergy): EnergyPolicy {
  const { market, giveUpAfterMs, burnUpToSun } = energy;
  return {
    chain,
    market:
      market === undefined
        ? null
        : {
            rail: marketRail(market.name),
            account: market.account,
            coinAssetId,
            priceMaxPerUnit: BigInt(market.priceMaxSun),
            durationMs: (market.rentMinutes ?? RENT_MINUTES) * 60_000,
            unitsMin: BigInt(market.unitsMin ?? UNITS_MIN),
            unitsMax: BigInt(market.unitsMax ?? UNITS_MAX),
          },
    // Without a market nothing is worth waiting for.
    giveUpAfterMs: giveUpAfterMs ?? (market === undefined ? 0 : ENERGY_GIVE_UP_MS),
    whenNone: burnUpToSun === undefined ? { act: 'wait' } : { act: 'burn', upTo: BigInt(burnUpToSun) },
  };
}

const RENT_MINUTES = 60;
/** What markets take at least. */
const UNITS_MIN = '1000';
/** A transfer of USDT to an address that has none takes 130,000, and twice that where the network makes calls dear. */
const UNITS_MAX = '500000';

/** Those that sign pay: the relayers of a token where it has some, else its wallet. */
function watchedOf(chain: Chain, gas: readonly string[]): WatchedWallet[] {
  const paying = chain.assets.flatMap(({ wallet, relayers }) => (relayers.length > 0 ? relayers : (wallet ?? [])));
  const warnBelow =
    chain.gas?.warnBelow === undefined ? chain.warnBelow : coinUnits(chain, 'warnBelow', chain.gas.warnBelow);
  const warnWithinMs = (chain.gas?.warnWithinHours ?? WARN_WITHIN_HOURS) * 3_600_000;
  return [...new Set([...paying, ...gas])].map((address) => ({
    chain: chain.chain,
    address,
    coinAssetId: chain.coinAssetId,
    warnBelow,
    warnWithinMs,
  }));
}

const WARN_WITHIN_HOURS = 24;

function coinUnits(chain: Chain, field: string, text: string): bigint {
  const decimals = chain.assets.find((asset) => asset.contract === null)?.decimals ?? 0;
  const parsed = parseAmount(text, decimals);
  if (!parsed.ok) throw fault(chain, `${field}: "${text}" is no amount with ${decimals} decimals`);
  return parsed.units;
}

function fault({ chain }: Chain, why: string): PayonceError {
  return new PayonceError('PO_CONFIG_INVALID', { detail: `PAYONCE_CONFIG: "gas" of ${chain}: ${why}` });
}

/** What a chain's final head shows of a wallet; `null`: no node tells. */
export function balanceReader(chains: readonly Chain[]): ReadBalance {
  return async ({ chain, address }) => {
    for (const node of chains.find((one) => one.chain === chain)?.rail.blocks ?? []) {
      const head = await node.finalizedHead();
      if (!head.ok) continue;
      const [balance] = await node.readBalances(head.value, [{ address, contract: null }]);
      if (balance?.ok === true) return balance.value;
    }
    return null;
  };
}
