/**
 * A bank or payout provider, as data and a small mapper: what `keyed-profile.ts` says of every provider, and what is a bank's.
 * The mapper builds one request and names what stands in an answer. What that is worth is the reader's table (`read.ts`).
 */
import type { BankPayee } from '../../engine/rail.ts';
import type { AmountText } from '../amount-text.ts';
import type { Cite, Item, KeyedProfile, LookFacts } from '../keyed-profile.ts';
import type { ProviderRequest } from '../keyed-request.ts';
import type { PayeeRules } from './destination.ts';

/** `paid`: the profile's last state before returns. `open`: it exists and may still move or not. */
export type StateMeaning = 'paid' | 'accepted' | 'open' | 'failed' | 'returned';

/** What stands in an answer about one transfer; `null` where it says nothing of it. */
export interface ProviderObject extends Item {
  readonly amount: AmountText | null;
  readonly currency: string | null;
  readonly bankCode: string | null;
  readonly accountNumber: string | null;
  readonly holderName: string | null;
  /** The provider's words for a failure or return. */
  readonly reason: string | null;
  readonly returns: readonly ProviderReturn[];
  /** Batches only; `null`: the answer shows no lines, or not all of them. */
  readonly lines: readonly ProviderLine[] | null;
}

export interface ProviderReturn {
  readonly id: string;
  /** What came back to us; `null`: all of it, as far as the provider says. */
  readonly amount: AmountText | null;
  /** What was kept of the money on its way back, beside `amount`; absent or `null`: nothing is said. */
  readonly fee?: AmountText | null;
  readonly reason: string | null;
}

export interface ProviderLine {
  readonly ref: string | null;
  readonly id: string | null;
  readonly amount: AmountText | null;
  readonly currency: string | null;
  readonly receiver: string | null;
  readonly state: string | null;
}

/** Fields of an object that the provider shows again. */
export type Echo = 'key' | 'reference' | 'amount' | 'currency' | 'bankCode' | 'accountNumber' | 'holderName' | 'lines';

/** What a request is built from, and what an answer is compared with: all of it is in the seal. */
export interface TransferFacts {
  readonly key: string;
  readonly account: string;
  /** In the asset's smallest unit. */
  readonly amount: bigint;
  readonly decimals: number;
  /** ISO 4217, upper case. */
  readonly currency: string;
  readonly payee: BankPayee;
  /** One for a plain transfer. */
  readonly lines: readonly { readonly ref: string; readonly payee: BankPayee; readonly amount: bigint }[];
}

/** What a look-up knows to ask by. */
export interface TransferLook extends LookFacts {
  readonly account: string;
  readonly currency: string;
  readonly sealedAt: Date;
}

export interface Profile extends KeyedProfile<ProviderObject, TransferLook> {
  readonly sameKeyOtherBody: 'error' | 'first_answer' | 'unknown';
  /** A success of this provider may turn into a failure later: that is money that came back. */
  readonly paidMayFail: Cite | null;
  readonly states: Readonly<Record<string, StateMeaning>>;
  /** Batches only: what a line's state means. */
  readonly lineStates: Readonly<Record<string, 'paid' | 'not_paid' | 'came_back' | 'open' | 'unknown'>>;
  /** Due in every success; at least amount and one of key, reference. */
  readonly echoes: readonly Echo[];
  readonly currencies: readonly { readonly code: string; readonly decimals: number }[] | null;
  /** Amounts go as JSON or form integers, which receivers round above 2^53. */
  readonly amountUnitsMax: bigint | null;
  readonly linesMax: number;
  readonly payee: PayeeRules;
  /** The body is encrypted anew at each send; the plaintext is what is sealed. */
  readonly encryption: 'none' | 'jwe';
  request(facts: TransferFacts): ProviderRequest;
}
