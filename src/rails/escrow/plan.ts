/**
 * Planning a trade asks nobody: price and liquidity are the provider's answer to the request itself, which binds it. What can
 * never be asked is refused here, before the seal.
 */
import type { EffectIntent, PlanVerdict, PlanWait, TradeTerms } from '../../engine/rail.ts';
import { unitsIn } from '../amount-text.ts';
import { idText } from '../foreign-text.ts';
import type { Scope } from '../keyed-request.ts';
import type { TradeProfile } from './profile.ts';

/** No currency and no price that we know has more. */
const FIAT_PLACES_MAX = 18;

export function planTrade(profile: TradeProfile, scope: Scope, now: Date, effect: EffectIntent): PlanVerdict {
  const { trade } = effect;
  const fault = trade === undefined ? 'it names no trade' : termsFault(scope, effect, trade);
  if (fault !== null) return refused('TRADE_REFUSED', fault);
  // A provider could end it the moment it stands.
  if (trade?.act === 'open' && Date.parse(trade.payBy) <= now.getTime())
    return refused('TRADE_TOO_LATE', `it had to be paid by ${trade.payBy}`);
  return { verdict: 'ready', plan: { profile: profile.name } };
}

/** Nothing of an intent changes: what is refused here is refused tomorrow. */
function refused(reason: 'TRADE_REFUSED' | 'TRADE_TOO_LATE', detail: string): PlanWait {
  return { verdict: 'wait', reason, detail, alert: true, lasts: 'for_good' };
}

function termsFault(scope: Scope, { wallet, amount }: EffectIntent, trade: TradeTerms): string | null {
  if (wallet !== scope.account) return `it is of account ${wallet}, not ${scope.account}`;
  if (idText(trade.reference) === null) return 'its reference cannot be asked for';
  if (trade.act === 'cancel')
    return idText(trade.tradeId) === null ? 'the trade to cancel is not known by its id: look for it first' : null;
  if (amount <= 0n) return 'its amount is zero or less';
  if (!/^[A-Za-z]{3}$/.test(trade.fiat)) return `${trade.fiat} is no currency`;
  for (const [what, text] of [
    ['fiat amount', trade.fiatAmount],
    ['price', trade.price],
  ] as const)
    if ((unitsIn({ text, unit: 'major' }, FIAT_PLACES_MAX) ?? 0n) <= 0n) return `its ${what} is ${text}`;
  return Number.isNaN(Date.parse(trade.payBy)) ? `${trade.payBy} is no time` : null;
}
