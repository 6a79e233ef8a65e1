/** What a programme is, and the reward that it gives: exact in units, with what does not divide carried. Pure. */
import { type Row, toText, toUnits } from '../../db/pool.ts';
import { formatUnits } from '../../kernel/money.ts';
import { RATE_DECIMALS } from './limits.ts';

export type PaysBy = 'transfer' | 'call' | 'multi_send';

/** A contract call in which `{creator}`, `{amount}`, `{min_output}`, `{wallet}` and `{reference}` (the payout's id)
 *  stand for words of 32 bytes, `{creator20}` for the address alone. */
export interface CallTemplate {
  readonly to: string;
  readonly data: string;
  readonly value: 'amount' | 'nothing';
  readonly logs: readonly {
    readonly address: string;
    readonly topics: readonly (string | null)[];
    /** The word of the log's data that is the output. */
    readonly minimumWord?: number;
  }[];
}

export interface Terms {
  readonly volumeDecimals: number;
  /** Units of volume, and how much the rate changes there, in 10^-12. */
  readonly tierFrom: readonly bigint[];
  readonly tierStep: readonly bigint[];
  /** The most that one creator ever gets. Units of the asset. */
  readonly cap: bigint | null;
  /** Units of volume. */
  readonly threshold: bigint;
  /** Units of the asset; `null`: no daily cut. */
  readonly cutMin: bigint | null;
  readonly timeZone: string;
  readonly paysBy: PaysBy;
  readonly call: CallTemplate | null;
  /** Smallest units of the output for a whole unit of the asset. */
  readonly quote: bigint | null;
  readonly slippageBasisPoints: number;
  readonly paused: boolean;
}

export interface Programme extends Terms {
  readonly id: string;
  readonly number: number;
  readonly partnerId: string;
  readonly name: string;
  readonly assetId: string;
  readonly assetCode: string;
  readonly decimals: number;
  readonly chain: string;
  readonly contract: string | null;
  readonly termsVersion: number;
  readonly rewardMultiple: bigint;
  readonly rewardDivisor: bigint;
}

export const PROGRAMME_COLUMNS = `o.id, o.number, o.partner_id, o.name, o.asset_id, a.code as asset_code, a.decimals, a.chain, a.contract, o.volume_decimals,
  o.reward_multiple, o.reward_divisor, o.tier_from, o.tier_step, o.cap, o.threshold, o.cut_min, o.time_zone, o.pays_by, o.call, o.quote, o.slippage_bp,
  o.paused_at is not null as paused, o.terms_version`;

export function toProgramme(row: Row): Programme {
  const maybe = (name: string): bigint | null => (row[name] === null ? null : toUnits(row[name], name));
  return {
    id: toText(row['id'], 'programmes.id'),
    number: row['number'] as number,
    partnerId: toText(row['partner_id'], 'programmes.partner_id'),
    name: toText(row['name'], 'programmes.name'),
    assetId: toText(row['asset_id'], 'programmes.asset_id'),
    assetCode: toText(row['asset_code'], 'assets.code'),
    decimals: row['decimals'] as number,
    chain: toText(row['chain'], 'assets.chain'),
    contract: row['contract'] as string | null,
    volumeDecimals: row['volume_decimals'] as number,
    rewardMultiple: toUnits(row['reward_multiple'], 'programmes.reward_multiple'),
    rewardDivisor: toUnits(row['reward_divisor'], 'programmes.reward_divisor'),
    tierFrom: row['tier_from'] as bigint[],
    tierStep: row['tier_step'] as bigint[],
    cap: maybe('cap'),
    threshold: toUnits(row['threshold'], 'programmes.threshold'),
    cutMin: maybe('cut_min'),
    timeZone: toText(row['time_zone'], 'programmes.time_zone'),
    paysBy: row['pays_by'] as PaysBy,
    call: row['call'] as CallTemplate | null,
    quote: maybe('quote'),
    slippageBasisPoints: row['slippage_bp'] as number,
    paused: row['paused'] as boolean,
    termsVersion: row['terms_version'] as number,
  };
}

/** Exact reward = volume × rate × multiple / divisor, in units of the asset. */
export function rewardScale(decimals: number, volumeDecimals: number): { multiple: bigint; divisor: bigint } {
  const places = decimals - volumeDecimals - RATE_DECIMALS;
  return places >= 0
    ? { multiple: 10n ** BigInt(places), divisor: 1n }
    : { multiple: 1n, divisor: 10n ** BigInt(-places) };
}

/** The least that a call accepts for so much, by the quote of this moment less the slippage; `null` without a quote. */
export function minOutput(programme: Programme, amount: bigint): bigint | null {
  if (programme.quote === null) return null;
  const kept = 10_000n - BigInt(programme.slippageBasisPoints);
  const least = (amount * programme.quote * kept) / (10_000n * 10n ** BigInt(programme.decimals));
  // A least output of nothing binds nobody.
  return least > 0n ? least : 1n;
}

export interface ProgrammeView {
  id: string;
  name: string;
  asset: string;
  volume_decimals: number;
  tiers: { from: string; rate: string }[];
  cap: string | null;
  threshold: string;
  cut_min: string | null;
  time_zone: string;
  pays_by: PaysBy;
  call: CallTemplate | null;
  quote: string | null;
  slippage_basis_points: number;
  paused: boolean;
  terms_version: number;
}

export function toProgrammeView(programme: Programme): ProgrammeView {
  let rate = 0n;
  return {
    id: programme.id,
    name: programme.name,
    asset: programme.assetCode,
    volume_decimals: programme.volumeDecimals,
    tiers: programme.tierFrom.map((from, index) => {
      rate += programme.tierStep[index] ?? 0n;
      return { from: formatUnits(from, programme.volumeDecimals), rate: formatUnits(rate, RATE_DECIMALS) };
    }),
    cap: programme.cap === null ? null : formatUnits(programme.cap, programme.decimals),
    threshold: formatUnits(programme.threshold, programme.volumeDecimals),
    cut_min: programme.cutMin === null ? null : formatUnits(programme.cutMin, programme.decimals),
    time_zone: programme.timeZone,
    pays_by: programme.paysBy,
    call: programme.call,
    quote: programme.quote?.toString() ?? null,
    slippage_basis_points: programme.slippageBasisPoints,
    paused: programme.paused,
    terms_version: programme.termsVersion,
  };
}
