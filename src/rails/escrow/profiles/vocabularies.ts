/**
 * Other providers' words for the states of a trade, over the shape of `standard`: for a gateway of theirs or ours that speaks
 * that contract and passes the states on as they are. The words are from rails.md §4, each list with its source; the names of
 * fields and routes of their own APIs were not confirmed, so none is here.
 *
 * Nothing of what `standard` promises about keys is said by them: no refusal of theirs counts, an unpaid end is believed only
 * after lateness, and an accepted trade that ended is a person's. Numbers are compared as the text that stood there.
 */
import { DAY_MS } from '../../keyed-limits.ts';
import type { CodeRow } from '../../keyed-profile.ts';
import type { TradeProfile } from '../profile.ts';
import { OPEN_CODES, standard } from './standard.ts';

const REFUSALS: readonly CodeRow[] = [
  'bad_request',
  'account_disabled',
  'amount_out_of_range',
  'no_liquidity',
  'market_closed',
].map((code) => ({
  statuses: [422],
  code,
  means: { reads: 'refused', why: 'refused; whether it is stored is not said', final: false },
}));

function vocabulary(name: string, states: TradeProfile['states']): TradeProfile {
  return {
    ...standard,
    name,
    operator: name,
    retentionMs: DAY_MS,
    retentionCite: 'none stated: the shortest that is common',
    replayMark: null,
    codes: [...OPEN_CODES, ...REFUSALS],
    failedKeepsKey: null,
    states,
  };
}

/** rails.md §4 `[S Binance.Net enum, others]`. */
const binanceC2c = vocabulary('binance-c2c', {
  PENDING: 'stands',
  TRADING: 'stands',
  BUYER_PAYED: 'stands',
  DISTRIBUTING: 'stands',
  COMPLETED: 'released',
  IN_APPEAL: 'disputed',
  APPEALING: 'disputed',
  CANCELLED: 'ended',
  CANCELLED_BY_SYSTEM: 'ended',
});

/** rails.md §4 `[S]`: a numeric enum, which has grown before. */
const bybitP2p = vocabulary('bybit-p2p', {
  // Waiting for the chain, for the buyer's payment, for the seller's release.
  '5': 'stands',
  '10': 'stands',
  '20': 'stands',
  '30': 'disputed',
  '40': 'ended',
  '50': 'released',
  '60': 'stands',
  '70': 'pay_failed',
  // Cancelled after an exception: whether fiat moved is not said.
  '80': 'ended_paid',
  '90': 'stands',
  '100': 'disputed',
  '110': 'disputed',
});

/** rails.md §4 `[D]`. */
const trustap = vocabulary('trustap', {
  created: 'stands',
  joined: 'stands',
  cancelled: 'ended',
  paid: 'stands',
  cancelled_with_payment: 'ended_paid',
  tracked: 'stands',
  delivered: 'stands',
  complained: 'disputed',
  complaint_period_ended: 'stands',
  funds_released: 'released',
  payment_refunded: 'refunded',
});

/** rails.md §4 `[D]`: releases may be partial, which the released amount tells. */
const rapydEscrow = vocabulary('rapyd-escrow', {
  pending: 'stands',
  on_hold: 'stands',
  released: 'released',
  canceled: 'ended',
});

/** rails.md §4 `[D]`; docs.transak.com, "Order Status". */
const transak = vocabulary('transak', {
  AWAITING_PAYMENT_FROM_USER: 'stands',
  PAYMENT_DONE_MARKED_BY_USER: 'stands',
  PROCESSING: 'stands',
  PENDING_DELIVERY_FROM_TRANSAK: 'stands',
  ON_HOLD_PENDING_DELIVERY_FROM_TRANSAK: 'stands',
  COMPLETED: 'released',
  CANCELLED: 'ended',
  EXPIRED: 'ended',
  FAILED: 'pay_failed',
  REFUNDED: 'refunded',
});

export const VOCABULARIES: readonly TradeProfile[] = [binanceC2c, bybitP2p, trustap, rapydEscrow, transak];
