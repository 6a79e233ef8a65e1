/**
 * A provider, as data and a small mapper.
 *
 * The data are promises of the provider on which money is freed or sent again, so each of them that could free money names
 * where the provider says so (`Cite`); what is not confirmed is left out, which is the safe reading (rails.md §7). A list of
 * evidence may be narrowed by anybody and widened only together with `test/rails/bank-baseline.json` (T5).
 * The mapper knows the provider's JSON and nothing else: it builds one request and names what stands in an answer. What
 * that is worth is the reader's table (`read.ts`), then `classify`.
 */
import type { BankPayee, Json } from '../../engine/rail.ts';
import type { PayeeRules } from './destination.ts';

/** Where a provider says so: a page of its documents, or the section of our facts that quotes it. */
export type Cite = string;

export interface KeyRule {
  /** A header's name, or the place in the body (for people: the mapper puts it there). */
  readonly header: string | null;
  readonly bodyPath: string | null;
  /** The draft of the IETF quotes it; most providers do not. */
  readonly quoted: boolean;
  readonly charactersMax: number;
  readonly charset: RegExp;
}

/** What one code in an answer means. The row is found by status and code; no row: unreadable. */
export interface CodeRow {
  readonly statuses: readonly number[];
  /** `*` stands for every code at these statuses, only where the provider gives the status itself one meaning. */
  readonly code: string;
  readonly means:
    | { readonly reads: 'key_taken' | 'in_progress' | 'blocked'; readonly why: string }
    | {
        readonly reads: 'refused';
        readonly why: string;
        /** Request or account is wrong and stays wrong; `false`: balance, limit, hours. */
        readonly final: boolean;
        /** Counts as `REFUSED_AT_ONCE`: request or account, never balance, limit, hours, duplicate. */
        readonly atOnce?: Cite;
        /** Comes from a stage after the key was looked up (T5, T12). */
        readonly afterKeyCheck?: Cite;
        /** Stays stored under the key and is replayed. */
        readonly storedUnderKey?: Cite;
      };
}

/** `paid`: the profile's last state before returns. `open`: it exists and may still move or not. */
export type StateMeaning = 'paid' | 'accepted' | 'open' | 'failed' | 'returned';

/** How an amount stands in an answer. */
export interface AmountText {
  readonly text: string;
  readonly unit: 'minor' | 'major';
}

/** What stands in an answer about one transfer; `null` where it says nothing of it. */
export interface ProviderObject {
  readonly id: string | null;
  /** The idempotency key, where the provider shows it. */
  readonly key: string | null;
  /** Our own reference. */
  readonly reference: string | null;
  readonly amount: AmountText | null;
  readonly currency: string | null;
  readonly bankCode: string | null;
  readonly accountNumber: string | null;
  readonly holderName: string | null;
  readonly state: string | null;
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

export interface ProviderError {
  readonly code: string;
  /** The code was made of words for people, where the body has none of its own: a framework writes such bodies too, so
   *  nothing is absent and nothing refused by it. */
  readonly inWords?: true;
  readonly message: string;
  /** The object that stands under our key, where the refusal names it: a place to look, and no more until it was seen there. */
  readonly objectId: string | null;
  /** The key or reference that the refusal echoes. */
  readonly key: string | null;
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

export interface ProviderRequest {
  readonly method: 'POST';
  /** Path with query, relative to the base URL. */
  readonly path: string;
  /** Headers that are part of what is asked; never the credential, never the key's own header. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What a look-up knows to ask by. */
export interface LookFacts {
  readonly key: string;
  readonly account: string;
  readonly currency: string;
  readonly objectId: string | null;
  readonly sealedAt: Date;
}

export interface LookUp {
  readonly name: 'by_key' | 'by_reference' | 'by_object';
  /** How long a new transfer may stay unseen; `null`: not stated, as almost everywhere (rails.md §1.4). */
  readonly lagMs: number | null;
  /** Path with query, or `null` where it cannot be asked yet (no object id). */
  path(facts: LookFacts): string | null;
  /** The next page of a list, `null` after the last one, `unknown` where a page does not say. */
  next(page: Json, facts: LookFacts, pages: number): { readonly path: string } | null | 'unknown';
  /** Statuses and codes that mean "there is none"; empty for lists. */
  readonly absent: readonly { readonly status: number; readonly code: string }[];
}

export interface Profile {
  readonly name: string;
  /** Who runs it: answers are counted by operator. */
  readonly operator: string;
  readonly key: KeyRule | null;
  /** The provider tells one key from the same key elsewhere by these. All of it is sealed; a change of any bars re-sending. */
  readonly scope: readonly ('credential' | 'base_url' | 'method' | 'path')[];
  readonly retentionMs: number | null;
  readonly retentionCite: Cite;
  readonly latenessMs: number;
  readonly decideWithinMs: number;
  /** Whole answer within; longer than the provider's own limit, or each slow success is an unknown. */
  readonly timeoutMs: number;
  readonly sameKeyOtherBody: 'error' | 'first_answer' | 'unknown';
  /** A header and its value with which the provider marks a replayed answer, errors included. */
  readonly replayMark: { readonly header: string; readonly value: string; readonly cite: Cite } | null;
  readonly codes: readonly CodeRow[];
  /** An object that failed keeps its key: the same key again shows that object. */
  readonly failedKeepsKey: Cite | null;
  /** A success of this provider may turn into a failure later: that is money that came back. */
  readonly paidMayFail: Cite | null;
  readonly states: Readonly<Record<string, StateMeaning>>;
  /** Batches only: what a line's state means. */
  readonly lineStates: Readonly<Record<string, 'paid' | 'not_paid' | 'came_back' | 'open' | 'unknown'>>;
  /** Due in every success; at least amount and one of key, reference. */
  readonly echoes: readonly Echo[];
  /** The key is due in refusals too (T4). A key that is shown anyway is always compared. */
  readonly echoesKeyInErrors: boolean;
  /** Response headers kept beside the body, in lower case; the replay mark's and the key's are kept anyway. */
  readonly keepHeaders: readonly string[];
  readonly lookUps: readonly LookUp[];
  /** `false`: an unknown cannot be looked up, only an object whose id is known. */
  readonly lookUp: boolean;
  readonly currencies: readonly { readonly code: string; readonly decimals: number }[] | null;
  /** Amounts go as JSON or form integers, which receivers round above 2^53. */
  readonly amountUnitsMax: bigint | null;
  readonly linesMax: number;
  readonly payee: PayeeRules;
  readonly auth: 'bearer' | 'basic' | 'x_api_key';
  /** The body is encrypted anew at each send; the plaintext is what is sealed. */
  readonly encryption: 'none' | 'jwe';
  request(facts: TransferFacts): ProviderRequest;
  /** All objects in a success-like body, or `null` where it has not the provider's shape. */
  objects(body: Json): readonly ProviderObject[] | null;
  /** What a refusal says, or `null` where it has not the provider's shape. */
  error(body: Json): ProviderError | null;
}

/** The header in which the key goes, in lower case; `null` where it goes in the body, or there is none. */
export function keyHeaderOf(profile: Profile): string | null {
  return profile.key?.header?.toLowerCase() ?? null;
}
