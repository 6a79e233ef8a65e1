/*
 * Bandwidth and energy: what an account has, what an act takes, and what is burnt in sun where it has too little. Both fill
 * up again within a day, evenly.
 */
import type { Account, Layer, Usage } from './state.ts';

export const SLOT_MS = 3_000;
/** A day of slots. */
const WINDOW_SLOTS = 28_800n;
export const SUN_PER_TRX = 1_000_000n;
export const FREE_NET_BYTES = 600n;
/** Kept free in each transaction for its result. */
const RESULT_BYTES = 64n;

/** The parameters of the chain that cost something, by the names of `getchainparameters`. */
export type Prices = {
  readonly transactionFee: bigint;
  readonly energyFee: bigint;
  readonly createAccountFee: bigint;
  readonly createNewAccountFeeInSystemContract: bigint;
  readonly maxFeeLimit: bigint;
  readonly totalNetLimit: bigint;
  readonly totalNetWeight: bigint;
  readonly totalEnergyLimit: bigint;
  readonly totalEnergyWeight: bigint;
};

export const MAIN_NET_PRICES: Prices = {
  transactionFee: 1_000n,
  energyFee: 100n,
  createAccountFee: 100_000n,
  createNewAccountFeeInSystemContract: 1_000_000n,
  maxFeeLimit: 15_000_000_000n,
  totalNetLimit: 43_200_000_000n,
  totalNetWeight: 26_600_000_000n,
  totalEnergyLimit: 180_000_000_000n,
  totalEnergyWeight: 19_400_000_000n,
};

export class TooFewResources extends Error {}

export function slotOf(nowMs: number): number {
  return Math.floor(nowMs / SLOT_MS);
}

export function usedNow(usage: Usage, slot: number): bigint {
  const passed = BigInt(Math.max(0, slot - usage.slot));
  return passed >= WINDOW_SLOTS ? 0n : (usage.used * (WINDOW_SLOTS - passed)) / WINDOW_SLOTS;
}

export function netLimit(account: Account, prices: Prices): bigint {
  return share(account.stakedNet + account.borrowedNet, prices.totalNetLimit, prices.totalNetWeight);
}

export function energyLimit(account: Account, prices: Prices): bigint {
  return share(account.stakedEnergy + account.borrowedEnergy, prices.totalEnergyLimit, prices.totalEnergyWeight);
}

export function energyLeft(account: Account, prices: Prices, slot: number): bigint {
  const left = energyLimit(account, prices) - usedNow(account.energy, slot);
  return left > 0n ? left : 0n;
}

/** How much stake gives at least so much energy. */
export function sunForEnergy(energy: bigint, prices: Prices): bigint {
  return (energy * prices.totalEnergyWeight * SUN_PER_TRX) / prices.totalEnergyLimit + SUN_PER_TRX;
}

export type NetBill = { readonly usage: bigint; readonly fee: bigint };

/** Throws TooFewResources: the answer is BANDWITH_ERROR. */
export function payBandwidth(
  state: Layer,
  payer: string,
  sizeBytes: number,
  makesAccount: boolean,
  prices: Prices,
  slot: number,
): NetBill {
  const account = state.account(payer);
  if (account === null) throw new TooFewResources('no account');
  const bytes = BigInt(sizeBytes) + RESULT_BYTES;
  const net = usedNow(account.net, slot);
  if (bytes <= netLimit(account, prices) - net) {
    state.setAccount(payer, { ...account, net: { used: net + bytes, slot } });
    return { usage: bytes, fee: 0n };
  }
  // An account is never made out of the free bandwidth.
  const free = usedNow(account.freeNet, slot);
  if (!makesAccount && bytes <= FREE_NET_BYTES - free) {
    state.setAccount(payer, { ...account, freeNet: { used: free + bytes, slot } });
    return { usage: bytes, fee: 0n };
  }
  const fee = makesAccount ? prices.createAccountFee : bytes * prices.transactionFee;
  if (account.balance < fee) throw new TooFewResources('bandwidth and balance are too small');
  state.setAccount(payer, { ...account, balance: account.balance - fee });
  return { usage: 0n, fee };
}

export type EnergyBill = { readonly usage: bigint; readonly fee: bigint };

export function payEnergy(state: Layer, payer: string, energy: bigint, prices: Prices, slot: number): EnergyBill {
  const account = state.account(payer);
  if (account === null) throw new TooFewResources('no account');
  const left = energyLeft(account, prices, slot);
  const usage = left < energy ? left : energy;
  const fee = (energy - usage) * prices.energyFee;
  if (account.balance < fee) throw new TooFewResources(`${payer} insufficient balance`);
  const used = usedNow(account.energy, slot) + usage;
  state.setAccount(payer, { ...account, balance: account.balance - fee, energy: { used, slot } });
  return { usage, fee };
}

/** What the borrower used of this stake, which goes back to its owner with it: in proportion, and no more than it gives. */
export function usageOfLoan(
  borrower: Account,
  what: 'energy' | 'net',
  sun: bigint,
  prices: Prices,
  slot: number,
): bigint {
  const [all, most] =
    what === 'energy'
      ? [borrower.stakedEnergy + borrower.borrowedEnergy, share(sun, prices.totalEnergyLimit, prices.totalEnergyWeight)]
      : [borrower.stakedNet + borrower.borrowedNet, share(sun, prices.totalNetLimit, prices.totalNetWeight)];
  if (all === 0n) return 0n;
  const part = (usedNow(borrower[what], slot) * sun) / all;
  return part < most ? part : most;
}

function share(sun: bigint, limit: bigint, weight: bigint): bigint {
  return (sun * limit) / (weight * SUN_PER_TRX);
}
