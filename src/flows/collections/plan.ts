/**
 * What becomes of one holding in a cycle, as a pure table read from the top. What is left says why, for the list of dust.
 *
 * The amount is frozen when the sweep is made, for every try and every fee bump of it. A token goes whole: its gas is paid in
 * another asset. The coin pays for its own sweep, so it leaves `keep` behind: the most that the sweep may ever burn, at the
 * chain's fee cap. Less would be paid out sooner, and a fee that rises after the amount was frozen would leave a sweep that
 * can neither be paid nor changed. What was not burned is no loss: it lies there, pays the gas of tokens, and counts when
 * the next sweep is made. For the same reason the coin goes last, when no other sweep of its address is open.
 */

export interface Holding {
  readonly chain: string;
  readonly address: string;
  readonly partnerId: string;
  readonly assetId: string;
  readonly isCoin: boolean;
  /** In the asset's smallest unit, by the ledger. */
  readonly units: bigint;
  readonly min: bigint;
  readonly keep: bigint;
  /** Where the custody account stands. */
  readonly accountSeq: bigint;
  /** The rail and wallet of the asset's policy; `null`: it has none. */
  readonly rail: string | null;
  readonly wallet: string | null;
  readonly walletIsMaster: boolean;
  /** An open sweep of this address that this one would meet: its own lane, or, for the coin, any. */
  readonly openLane: string | null;
  /** Sweeps of this address and asset so far. */
  readonly ordinal: number;
  /** The last of them. */
  readonly last: { readonly accountSeq: bigint; readonly closedAs: string | null; readonly undecided: boolean } | null;
}

export type LeftReason =
  /** Dust: sweeping it would cost more than it is worth to the operator. */
  | 'below_min'
  | 'sweep_open'
  /** The coin waits for the address's tokens, whose gas it pays. */
  | 'tokens_first'
  /** The last sweep was released and a person has not decided yet. */
  | 'in_review'
  /** The last sweep ended without moving, and nothing has changed at the address since. */
  | 'ended_before'
  /** The asset has no policy, or its wallet is no MASTER of ours. */
  | 'no_master';

export type Decision =
  | { readonly do: 'sweep'; readonly rail: string; readonly wallet: string; readonly amount: bigint }
  | { readonly do: 'leave'; readonly why: LeftReason };

export function decideHolding(holding: Holding): Decision {
  const { rail, wallet, openLane, last } = holding;
  if (openLane === laneOf(holding)) return leave('sweep_open');
  // Less than what must stay, it is dust too.
  const amount = holding.units - holding.keep;
  if (amount < holding.min) return leave('below_min');
  if (rail === null || wallet === null || !holding.walletIsMaster) return leave('no_master');
  if (openLane !== null) return leave('tokens_first');
  if (last?.undecided === true) return leave('in_review');
  // A try that moved nothing is made again only where something is different, or where it was called off before its seal.
  if (last !== null && last.accountSeq === holding.accountSeq && last.closedAs !== 'cancelled')
    return leave('ended_before');
  return { do: 'sweep', rail, wallet, amount };
}

function leave(why: LeftReason): Decision {
  return { do: 'leave', why };
}

/** One open sweep per address and asset; an asset's id names its chain. */
export function laneOf(holding: Pick<Holding, 'address' | 'assetId'>): string {
  return `sweep:${holding.address}:${holding.assetId}`;
}
