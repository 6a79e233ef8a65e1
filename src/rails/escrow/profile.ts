/**
 * A provider of escrowed trades, as data and a small mapper: what `keyed-profile.ts` says of every provider, and what is a
 * trade's (rails.md §4). The mapper builds one request and names what stands in an answer; what it is worth is `read.ts`.
 */
import type { AmountText } from '../amount-text.ts';
import type { Item, KeyedProfile, KeyRule, LookFacts } from '../keyed-profile.ts';
import type { ProviderRequest } from '../keyed-request.ts';

/**
 * `stands`: it exists, and may still become anything; that the buyer marked it as paid is one party's claim, and no money.
 * `released`: we have the asset. `ended`: cancelled or expired, which frees only what was never marked as paid. All others are
 * people's: the provider has stopped, or what moved is not to be read from a state.
 */
export type TradeMeaning = 'stands' | 'released' | 'ended' | 'ended_paid' | 'pay_failed' | 'disputed' | 'refunded';

/** What stands in an answer about one trade; `null` where it says nothing of it. */
export interface TradeObject extends Item {
  readonly asset: string | null;
  readonly amount: AmountText | null;
  readonly fiat: string | null;
  readonly fiatAmount: AmountText | null;
  /** `not_shown` is no `never`: an answer that leaves it out says nothing of it. */
  readonly markedPaid: 'never' | 'marked' | 'not_shown';
  readonly releasedAmount: AmountText | null;
}

/** Fields of a trade that the provider shows again. */
export type TradeEcho = 'reference' | 'asset' | 'amount' | 'fiat' | 'fiatAmount';

/** What a request is built from. */
export interface TradeFacts {
  readonly act: 'open' | 'cancel';
  readonly reference: string;
  /** `cancel`: the provider's id of the trade. */
  readonly tradeId: string | null;
  readonly asset: string;
  /** In the asset's smallest unit. */
  readonly amount: bigint;
  readonly decimals: number;
  /** ISO 4217, upper case. */
  readonly fiat: string;
  readonly fiatAmount: string;
  readonly price: string;
  /** ISO 8601, UTC. */
  readonly payBy: string;
}

/** What a look-up knows to ask by; `key` is our reference, which is what trades carry. */
export interface TradeLook extends LookFacts {
  readonly act: TradeFacts['act'];
}

export interface TradeProfile extends KeyedProfile<TradeObject, TradeLook> {
  readonly key: KeyRule;
  readonly states: Readonly<Record<string, TradeMeaning>>;
  /** Due in every trade that is shown; at least reference and amount. */
  readonly echoes: readonly TradeEcho[];
  request(facts: TradeFacts): ProviderRequest;
}
