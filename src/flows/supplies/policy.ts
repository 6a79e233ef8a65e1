/** What may be bought for waiting effects, out of what, up to what, and what follows when it cannot be had: data. */

/** Gas for addresses of ours on one chain: its coin, out of wallets of the kind GAS. */
export interface GasPolicy {
  /** CAIP-2. */
  readonly chain: string;
  readonly rail: string;
  readonly coinAssetId: string;
  /** GAS wallets, in the rail's canonical spelling: the one with the most on our books pays. */
  readonly wallets: readonly string[];
  /** An address that lacks gas is filled up to this. Units of the coin. */
  readonly level: bigint;
  /** More than this at once is a person's: a wrong need must not empty the wallet. */
  readonly amountMax: bigint;
}

/** Energy for the effects of one chain. */
export interface EnergyPolicy {
  readonly chain: string;
  /** Where it is rented; `null`: nowhere. */
  readonly market: EnergyMarketTerms | null;
  /** Not there so long after the first need → `whenNone`. On the database's clock. */
  readonly giveUpAfterMs: number;
  /** `wait`: given back again and again until it can be had. `burn`: the coin pays for it, up to so much for one effect. */
  readonly whenNone: { readonly act: 'wait' } | { readonly act: 'burn'; readonly upTo: bigint };
}

export interface EnergyMarketTerms {
  /** The rail of the market: `energy:main`. */
  readonly rail: string;
  /** The account there whose prepaid balance pays; `custody:{chain}:{account}` on our books. */
  readonly account: string;
  /** The coin in which it is paid. */
  readonly coinAssetId: string;
  /** The most that one unit of energy may cost for the whole duration, in units of the coin: dearer is not ordered. */
  readonly priceMaxPerUnit: bigint;
  readonly durationMs: number;
  /** The least that is rented, and the most for one effect: more is a person's. */
  readonly unitsMin: bigint;
  readonly unitsMax: bigint;
}

/** A wallet that pays for gas, bandwidth or energy, and must not run dry (R7). */
export interface WatchedWallet {
  readonly chain: string;
  readonly address: string;
  readonly coinAssetId: string;
  /** Told below this, whatever it burns. Units of the coin. */
  readonly warnBelow: bigint;
  /** Told when, at the last day's rate, it lasts less than this. */
  readonly warnWithinMs: number;
}

export interface SupplyPolicy {
  readonly gas: readonly GasPolicy[];
  readonly energy: readonly EnergyPolicy[];
  readonly watched: readonly WatchedWallet[];
}
