/*
 * What a provider's document says, as a type. Each file in profiles/ is one provider, written from its document: where the
 * key goes, what is compared, in which order things are checked, what is kept under the key and how long, what answers and
 * errors look like, what can be looked up and what comes back after success.
 *
 * Promises: everything that a document states or leaves open is in `behaviour` or in a function of the profile; a test may
 * override `behaviour` to play a provider that is not as its document says.
 * Never does: know how Payonce reads any of it.
 */
import type { Batch, Destination, Order, Transfer } from './transfer.ts';
import type { Wire } from './wire-json.ts';

export type ProfileName = 'generic' | 'toss' | 'stripe' | 'increase' | 'modern-treasury' | 'paypal-payouts' | 'unkeyed';

export type BankRequest = {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
};

export type Answer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

/** Why a bank says no. Each profile has its own words for each. */
export type Refusal =
  | 'insufficient_funds'
  | 'account_unknown'
  | 'account_closed'
  | 'limit'
  | 'closed_hours'
  | 'duplicate_payment'
  | 'bad_request'
  | 'unauthenticated'
  | 'forbidden'
  | 'rate_limited'
  | 'maintenance'
  | 'not_found'
  | 'key_missing'
  | 'key_bad'
  | 'new_key_please'
  | 'internal'
  /** A code that stands in no document. */
  | 'unheard_of';

export type RefusalDetail = { readonly field?: string; readonly message?: string };

/** The order of checks. `execute` always comes last. */
export type Stage = 'credential' | 'decode' | 'key' | 'read' | 'business' | 'balance';

export type Behaviour = {
  readonly order: readonly Stage[];
  readonly keyLengthMax: number;
  readonly keyScope: 'global' | 'account' | 'credential' | 'credential_and_path';
  /** `null`: never forgotten. */
  readonly retentionMs: number | null;
  /** `canonical`: parameters, whatever their order; `raw`: bytes, so that re-ordered JSON is another body. */
  readonly compares: 'canonical' | 'raw' | 'no';
  /** What is kept under the key once the key was taken. */
  readonly keeps: 'all' | 'successes';
  readonly lookLagMs: number;
};

/** What a profile may ask the bank for. */
export type Desk = {
  now(): Date;
  readonly url: string;
  readonly securityKey: Buffer | null;
  readonly currency: string;
  id(prefix: string, length?: number): string;
  /** The account behind a provider's own handle (a seller, an external account, a receiver). `null`: no such handle. */
  resolve(handle: string): Destination | null;
  /** True the first time only. */
  nonceIsNew(nonce: string): boolean;
  available(currency: string): bigint;
  /** The secrets that are good now; `grant` adds one, as a token end-point does. */
  credentialIsGood(secret: string): boolean;
  grant(secret: string): void;
};

/** What look-ups see now. `shown` is how the answer will show one: itself, unless a fault disguises it. */
export type Seen = { readonly transfers: readonly Transfer[]; readonly shown: (transfer: Transfer) => Transfer };

export type Refused = { readonly ok: false; readonly answer: Answer };
export type Read<T> = ({ readonly ok: true } & T) | Refused;

export type Profile = {
  readonly name: ProfileName;
  readonly currency: string;
  readonly behaviour: Behaviour;
  /** States in the order of a transfer that goes well; the last one is the best there is. */
  readonly lifecycle: readonly [string, ...string[]];
  readonly failedState: string;
  readonly returnedState: string;
  /** Ids as the provider's look. */
  readonly ids: { readonly transfer: string; readonly batch: string };

  classify(request: BankRequest): 'create' | 'look' | 'other';
  /** What a client sends with this secret. */
  authorization(secret: string): Readonly<Record<string, string>>;
  /** The secret that a request shows. */
  presented(request: BankRequest): string | null;
  decode(request: BankRequest, desk: Desk): Read<{ body: Wire; plain: string }>;
  key(request: BankRequest, body: Wire): Read<{ key: string | null }>;
  read(request: BankRequest, body: Wire, desk: Desk): Read<{ order: Order }>;
  accepted(batch: Batch, desk: Desk): Answer;
  /** The answer to a repetition, from what was stored and, where there is one, the batch as it is now. */
  replayed(stored: Answer, batch: Batch | null, desk: Desk): Answer;
  /** Same key, other body. */
  mismatch(stored: Answer, batch: Batch | null, desk: Desk): Answer;
  inProgress(): Answer;
  refuse(reason: Refusal, desk: Desk, detail?: RefusalDetail): Answer;
  look(request: BankRequest, seen: Seen, desk: Desk): Answer;
  other?(request: BankRequest, desk: Desk): Answer;
};
