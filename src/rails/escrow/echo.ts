/** Does a trade that carries our reference show what we sealed? Pure. */
import { unitsIn } from '../amount-text.ts';
import type { TradeEcho, TradeObject, TradeProfile } from './profile.ts';
import type { Expect } from './seal.ts';

/** Of fiat: more places than any currency has, so that `10` and `10.00` are one amount. */
const FIAT_PLACES_MAX = 18;

/** What differs, in words, or `null`. What is due and missing differs too. */
export function differenceIn(profile: TradeProfile, expect: Expect, trade: TradeObject): string | null {
  const differs = profile.echoes.find((name) => !isEchoed(name, expect, trade));
  return differs === undefined ? null : `${WORDS[differs]} is ${shownAs(differs, trade) ?? 'missing'}`;
}

const WORDS: Readonly<Record<TradeEcho, string>> = {
  reference: 'reference',
  asset: 'asset',
  amount: 'amount',
  fiat: 'currency',
  fiatAmount: 'fiat amount',
};

function isEchoed(name: TradeEcho, expect: Expect, trade: TradeObject): boolean {
  switch (name) {
    case 'reference':
      return trade.reference === expect.reference;
    case 'asset':
      return trade.asset?.toUpperCase() === expect.asset;
    case 'amount':
      return unitsIn(trade.amount, expect.decimals) === expect.amount;
    case 'fiat':
      return trade.fiat?.toUpperCase() === expect.fiat;
    case 'fiatAmount': {
      const shown = unitsIn(trade.fiatAmount, FIAT_PLACES_MAX);
      return shown !== null && shown === unitsIn({ text: expect.fiatAmount, unit: 'major' }, FIAT_PLACES_MAX);
    }
  }
}

function shownAs(name: TradeEcho, trade: TradeObject): string | null {
  return name === 'amount' || name === 'fiatAmount' ? (trade[name]?.text ?? null) : trade[name];
}
