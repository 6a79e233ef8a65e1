/** Fees: what the market asks, what a first variant offers, and how a later one outbids all before it. */
import type { Json, Plan, SealedEffect, VariantKind, VariantSpec } from '../../engine/rail.ts';
import { assert } from '../../kernel/errors.ts';
import { field, isArray, quantityOf, toQuantity, unitsOf } from './json.ts';
import {
  BASE_FEE_FACTOR,
  BUMP_DENOMINATOR,
  BUMP_NUMERATOR,
  FEE_HISTORY_BLOCKS,
  GAS_MARGIN_DENOMINATOR,
  GAS_MARGIN_NUMERATOR,
  TIP_WEI_MIN,
  TRANSFER_GAS,
} from './limits.ts';
import { quantityIn } from './nodes.ts';
import type { RpcCall, RpcResult } from './rpc.ts';

/** Wei per unit of gas. */
export interface Market {
  readonly baseFee: bigint;
  readonly tip: bigint;
}

export function marketCalls(): RpcCall[] {
  return [
    { method: 'eth_feeHistory', params: [toQuantity(BigInt(FEE_HISTORY_BLOCKS)), 'latest', [50]] },
    { method: 'eth_maxPriorityFeePerGas', params: [] },
  ];
}

/** `null` where the node shows no base fee: such a chain is not planned for. */
export function readMarket(results: readonly RpcResult[]): Market | null {
  const history = results[0]?.kind === 'result' ? results[0].value : undefined;
  const baseFees = field(history, 'baseFeePerGas');
  const baseFee = isArray(baseFees) ? quantityOf(baseFees.at(-1)) : null;
  if (baseFee === null) return null;
  const suggested = quantityIn(results[1]) ?? 0n;
  return { baseFee, tip: [medianTip(field(history, 'reward')), suggested, TIP_WEI_MIN].reduce(larger) };
}

function medianTip(rewards: Json | undefined): bigint {
  if (!isArray(rewards)) return 0n;
  const tips = rewards
    .map((row) => (isArray(row) ? quantityOf(row[0]) : null))
    .filter((tip) => tip !== null)
    .sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  return tips[Math.floor(tips.length / 2)] ?? 0n;
}

export interface Fees {
  readonly maxFeePerGas: bigint;
  readonly maxPriorityFeePerGas: bigint;
}

/** The first variant's fees, or `null` where the market is above what leaves room for all bumps and a cancel. */
export function firstFees(market: Market, feeCapWei: bigint, bumpsMax: number): Fees | null {
  const ceiling = ceilingBelow(feeCapWei, bumpsMax + 1);
  if (market.baseFee + market.tip > ceiling) return null;
  const wanted = market.baseFee * BASE_FEE_FACTOR + market.tip;
  return { maxFeePerGas: smaller(wanted, ceiling), maxPriorityFeePerGas: market.tip };
}

/** The highest fee from which so many more steps still fit under the cap (rounding down here meets rounding up there). */
function ceilingBelow(feeCapWei: bigint, steps: number): bigint {
  let ceiling = feeCapWei;
  for (let step = 0; step < steps; step += 1) ceiling = (ceiling * BUMP_DENOMINATOR) / BUMP_NUMERATOR;
  return ceiling;
}

/** An estimate with its margin; a plain transfer's cost is exact. */
export function gasLimitOf(estimate: bigint): bigint {
  if (estimate <= TRANSFER_GAS) return TRANSFER_GAS;
  return (estimate * GAS_MARGIN_NUMERATOR + GAS_MARGIN_DENOMINATOR - 1n) / GAS_MARGIN_DENOMINATOR;
}

/** The spec of the original variant, from the plan alone. */
export function originalSpec(plan: Plan): VariantSpec {
  const gasLimit = unitsOf(plan['gasLimit']);
  const maxFeePerGas = unitsOf(plan['maxFeePerGas']);
  const maxPriorityFeePerGas = unitsOf(plan['maxPriorityFeePerGas']);
  assert(gasLimit !== null && maxFeePerGas !== null && maxPriorityFeePerGas !== null, 'the plan is not an EVM plan');
  return {
    kind: 'original',
    gasLimit: gasLimit.toString(),
    maxFeePerGas: maxFeePerGas.toString(),
    maxPriorityFeePerGas: maxPriorityFeePerGas.toString(),
  };
}

/** Nothing that outbids the stored variants fits under the cap. */
export class FeeCapReached extends Error {
  constructor(needed: bigint, cap: bigint) {
    super(
      `a variant that outbids those stored needs ${needed} wei per gas, the cap is ${cap}: raise the fee cap of this rail, or wait for the market`,
    );
    this.name = 'FeeCapReached';
  }
}

/**
 * The next variant: both fees an eighth above the highest ever stored (geth's rule needs a tenth on both), and at least
 * the market, as far as the bumps still to come and a cancel keep their room under the cap. A person's further bumps may
 * use all but the cancel's step. Once a cancel is stored only cancels follow (design §4).
 */
export function nextSpec(
  sealed: SealedEffect,
  wanted: VariantKind,
  market: Market | null,
  gasEstimate: bigint | null,
  limits: { readonly feeCapWei: bigint; readonly gasLimitCap: bigint; readonly bumpsMax: number },
): VariantSpec {
  const kind = sealed.variants.some((variant) => variant.kind === 'cancel') ? 'cancel' : wanted;
  const original = originalSpec(sealed.plan);
  if (kind === 'original') return original;
  // The plan counts as stored: its variant may have been signed in a process that died.
  const all: readonly VariantSpec[] = [original, ...sealed.variants];
  const highest = (pick: (spec: VariantSpec) => string): bigint => all.map((spec) => BigInt(pick(spec))).reduce(larger);
  const bumps = sealed.variants.filter((variant) => variant.kind === 'bump').length;
  const cap = ceilingBelow(limits.feeCapWei, kind === 'cancel' ? 0 : 1);
  const marketCap = ceilingBelow(limits.feeCapWei, kind === 'cancel' ? 0 : Math.max(1, limits.bumpsMax - bumps));
  const feeFloor = raised(highest((spec) => spec.maxFeePerGas));
  const tipFloor = raised(highest((spec) => spec.maxPriorityFeePerGas));
  if (feeFloor > cap) throw new FeeCapReached(feeFloor, cap);
  const marketFee = market === null ? 0n : market.baseFee * BASE_FEE_FACTOR + market.tip;
  const maxFeePerGas = larger(feeFloor, smaller(marketFee, marketCap));
  const maxPriorityFeePerGas = smaller(larger(tipFloor, market?.tip ?? 0n), maxFeePerGas);
  const gasBefore = all
    .filter((spec) => spec.kind !== 'cancel')
    .map((spec) => BigInt(spec.gasLimit))
    .reduce(larger);
  const gasWanted =
    gasEstimate === null ? gasBefore : larger(gasBefore, smaller(gasLimitOf(gasEstimate), limits.gasLimitCap));
  return {
    kind,
    gasLimit: (kind === 'cancel' ? TRANSFER_GAS : gasWanted).toString(),
    maxFeePerGas: maxFeePerGas.toString(),
    maxPriorityFeePerGas: maxPriorityFeePerGas.toString(),
  };
}

function raised(fee: bigint): bigint {
  return (fee * BUMP_NUMERATOR + BUMP_DENOMINATOR - 1n) / BUMP_DENOMINATOR;
}

function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}
