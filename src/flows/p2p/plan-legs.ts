/**
 * How an order is filled (M8): sellers first, the cheapest and then the oldest, then liquidity by its routes. Pure.
 *
 * What a leg may not leave behind: a piece too small to be a leg of its own, neither of the buyer's order (where another leg
 * can still take it) nor below the minimum of a leg. What remains below it is left, and the order closes short with a reason.
 */
import { PRICE_DECIMALS } from './limits.ts';

export interface Wanted {
  readonly remaining: bigint;
  readonly legMin: bigint;
  /** Legs that it may still have. */
  readonly slots: number;
  /** Whether less than the whole is better than nothing (`partial: accept`). */
  readonly takesPart: boolean;
}

export interface Candidate {
  readonly id: string;
  readonly free: bigint;
  readonly legMin: bigint;
  readonly price: bigint;
}

export interface Route {
  readonly rail: string;
  readonly account: string;
  readonly min: bigint;
  readonly max: bigint;
}

export interface PlannedLegs {
  readonly sellers: readonly { readonly id: string; readonly amount: bigint; readonly price: bigint }[];
  readonly lp: { readonly route: Route; readonly amount: bigint } | null;
  readonly left: bigint;
}

const NOTHING = { sellers: [], lp: null } as const;

/** Candidates and routes in the order in which they are to be taken. */
export function planLegs(wanted: Wanted, candidates: readonly Candidate[], routes: readonly Route[]): PlannedLegs {
  const whole = fill(wanted, candidates, routes);
  // Three small sellers may use up the legs and leave what a provider, or larger ones, would have covered.
  const best =
    whole.left >= wanted.legMin
      ? [whole, fill(wanted, largestFirst(candidates), routes)].reduce((one, other) =>
          other.left < one.left ? other : one,
        )
      : whole;
  if (best.left >= wanted.legMin && !wanted.takesPart) return { ...NOTHING, left: wanted.remaining };
  return best;
}

function largestFirst(candidates: readonly Candidate[]): Candidate[] {
  return [...candidates].sort((one, other) => (one.free < other.free ? 1 : one.free > other.free ? -1 : 0));
}

function fill(wanted: Wanted, candidates: readonly Candidate[], routes: readonly Route[]): PlannedLegs {
  let left = wanted.remaining;
  const sellers: { id: string; amount: bigint; price: bigint }[] = [];
  for (const one of candidates) {
    // The last leg is kept for a provider while one can take all that is left.
    const isLast = sellers.length === wanted.slots - 1;
    if (sellers.length >= wanted.slots || left < wanted.legMin) break;
    if (isLast && one.free < left && routes.some((route) => takes(route, left) === left)) break;
    const amount = legOf(left, one, wanted.legMin);
    if (amount === 0n) continue;
    sellers.push({ id: one.id, amount, price: one.price });
    left -= amount;
  }
  if (sellers.length < wanted.slots && left >= wanted.legMin) {
    for (const route of routes) {
      const amount = takes(route, left);
      if (amount < wanted.legMin) continue;
      return { sellers, lp: { route, amount }, left: left - amount };
    }
  }
  return { sellers, lp: null, left };
}

function takes(route: Route, left: bigint): bigint {
  if (left < route.min) return 0n;
  return left < route.max ? left : route.max;
}

/** As much as fits, so that neither side keeps a piece that no leg may be; nothing where that cannot be. */
function legOf(left: bigint, { free, legMin }: Candidate, buyersMin: bigint): bigint {
  const least = legMin > buyersMin ? legMin : buyersMin;
  const most = free < left ? free : left;
  if (most < least) return 0n;
  const rest = left - most;
  // The buyer's rest would be too small for a leg: take less, if what is taken stays large enough.
  if (rest > 0n && rest < buyersMin && most - (buyersMin - rest) >= least) return most - (buyersMin - rest);
  return most;
}

/** What a buyer pays for an amount, in the fiat's smallest unit; rounded up, in favour of whoever gives the asset. */
export function fiatOf(amount: bigint, price: bigint, decimals: number, fiatDecimals: number): bigint {
  const divisor = 10n ** BigInt(decimals + PRICE_DECIMALS);
  return (amount * price * 10n ** BigInt(fiatDecimals) + divisor - 1n) / divisor;
}
