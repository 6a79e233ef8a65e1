/**
 * The port that every rail implements, and the only part of the engine that a rail may see.
 *
 * A rail is thin: it plans (nothing leaves), seals (pure), signs, sends one request, looks, and reads raw answers into
 * observations by a table whose default is `unreadable`. It holds no database handle, retries nothing, decides nothing:
 * what an observation is worth, and what happens next, is `classify` and the engine.
 * Batch-first: `plan` and `look` take arrays and answer one entry per effect, in order; one bad item never fails its
 * neighbours.
 */

export type Json = null | boolean | string | number | readonly Json[] | { readonly [key: string]: Json };

/** What a rail can promise, with the worse error named where a figure is chosen (see `kernel/limits.ts`). */
export interface Capabilities {
  /** `true`: the same identity may be sent again and takes effect at most once. */
  readonly keyed: boolean;
  /** How long the rail remembers a key; `null` where the identity is for ever (a chain's nonce). */
  readonly keyRetentionMs: number | null;
  /** How long after `send_by` a request may still take effect; `null` where absence is proved by finality instead. */
  readonly latenessMs: number | null;
  /** After this an effect that is neither settled nor released becomes a case. */
  readonly decideWithinMs: number;
  /** `true`: an identity is a place in a signer's sequence (nonce), allotted from the signer's row at the seal. */
  readonly sequenced: boolean;
  /** Sealed and unmined per signer, at most (rails.md §2.7: geth keeps 16 per account for sure). */
  readonly inFlightPerSignerMax: number;
  /** Whether an unknown can be looked up. */
  readonly lookUp: boolean;
  /** Absence needs this many witnesses with operators of their own. */
  readonly absenceWitnesses: number;
  readonly sendConcurrencyMax: number;
  /** Between two looks at a sealed effect. */
  readonly lookEveryMs: number;
  /** Unseen for so long → the same bytes again. */
  readonly resendAfterMs: number;
  /** Unseen for so long → a variant with higher fees, if the rail signs; `null`: never by itself. */
  readonly bumpAfterMs: number | null;
  /** Fee bumps by the machine; more are a person's. */
  readonly bumpsMax: number;
  /** Money may come back for so long after it went: a settled effect is looked at until then. Absent: it never does. */
  readonly returnsWithinMs?: number;
  /** One request's whole answer comes within this, where that is longer than most; leases are sized by it (`lease.ts`). */
  readonly answerWithinMs?: number;
  /** `REFUSED_AT_ONCE` counts here: the requests reach the provider itself, and nothing between delivers one again. */
  readonly refusedAtOnceCounts?: boolean;
}

export interface AssetRef {
  readonly id: string;
  readonly code: string;
  readonly decimals: number;
  /** CAIP-2 chain or provider name. */
  readonly chain: string;
  /** Token contract in canonical spelling; `null` is the chain's own coin. */
  readonly contract: string | null;
}

/** A contract call in place of a plain transfer (P8). Hex is lower case with 0x. */
export interface ContractCall {
  readonly to: string;
  readonly data: string;
  readonly value: bigint;
  /** Logs that must be in the receipt for success: exact topics (null = any); data word `minimumWord` ≥ `minimum`. */
  readonly logs: readonly {
    readonly address: string;
    readonly topics: readonly (string | null)[];
    readonly data?: string;
    readonly minimumWord?: number;
    readonly minimum?: bigint;
  }[];
  /** A call that is bound by a quote: word `word` after the selector is the least output that it accepts, and `logs[log]` bears
   *  the same as its `minimum`. The figure is a rail parameter: chosen at the plan (`Flow.minimums`), immutable with the seal.
   *  What stands in `data` and the log goes where nobody quotes. Under `least` it is not sealed at all. */
  readonly minimum?: { readonly word: number; readonly log: number; readonly least: bigint };
}

/** Who a bank pays, as text throughout: leading zeros count (M5). Frozen at intake like everything else. */
export interface BankPayee {
  readonly bankCode: string;
  readonly accountNumber: string;
  /** NFC. */
  readonly holderName: string;
  readonly memo: string;
}

/** One line of a batch. The batch is the subject; its lines live in the flow's table. */
export type BatchLine = BankLine | ChainLine;

/** Of a provider's batch. */
export interface BankLine {
  /** Our own name of the line, unique in the batch. */
  readonly ref: string;
  readonly payee: BankPayee;
  readonly amount: bigint;
}

/** Of a call to a multi-send contract, which is the effect's destination and takes the sum from the signer. */
export interface ChainLine {
  /** The same; 1 to 32 visible ASCII characters, since the contract's logs bear it in one word. */
  readonly ref: string;
  /** The chain's one spelling. */
  readonly to: string;
  readonly amount: bigint;
}

/** A trade at an escrow LP (rails.md §4): `open` one in which we get the effect's amount for fiat that our buyer pays, or
 *  `cancel` one that was opened. Amounts are decimal text. */
export interface TradeTerms {
  readonly act: 'open' | 'cancel';
  /** Our own name of the trade: the same for opening and for cancelling it. */
  readonly reference: string;
  /** ISO 4217. */
  readonly fiat: string;
  readonly fiatAmount: string;
  /** Fiat per whole unit of the asset. */
  readonly price: string;
  /** The LP may end an unpaid trade from then on. ISO 8601, UTC. */
  readonly payBy: string;
  /** `cancel`: the LP's own id of the trade. */
  readonly tradeId: string | null;
}

/** What an effect should do: frozen at intake, the same for every successor. */
export interface EffectIntent {
  readonly effectId: bigint;
  readonly subjectType: string;
  readonly subjectId: string;
  readonly seq: number;
  readonly partnerId: string;
  /** (partner, caller's key), length-prefixed: what HTTP keys are derived from. */
  readonly naturalKey: string;
  readonly rail: string;
  readonly asset: AssetRef;
  readonly amount: bigint;
  readonly destination: string;
  /** The wallet or account that the money leaves. */
  readonly wallet: string;
  /** Who pays gas and owns the nonce; may differ from `wallet` on rails that know relayers. */
  readonly signer: string;
  readonly call: ContractCall | null;
  /** A bank's receiver; `destination` is then `{bankCode}:{accountNumber}`. */
  readonly payee: BankPayee | null;
  /** A batch: who gets how much; `amount` is their sum. */
  readonly lines?: readonly BatchLine[];
  /** Escrow LPs: what is traded. */
  readonly trade?: TradeTerms;
}

export interface PlanContext {
  /** Sealed and not yet seen final, per wallet and asset id: what the chain's balance does not show yet. */
  readonly inFlight: readonly { readonly wallet: string; readonly assetId: string; readonly amount: bigint }[];
  /** Sealed and unmined per signer. */
  readonly openPerSigner: ReadonlyMap<string, number>;
  /** Rails with rented energy: how much of the chain's coin, in its smallest unit, an effect (by id) may burn now in its
   *  place. Not in it: none yet, or never; it waits, and answers its `needs` again. */
  readonly burnUpTo?: ReadonlyMap<bigint, bigint>;
  /** Energy that is rented for pending effects (by id), there or under way: nobody else may count on it. */
  readonly energyHeld?: readonly { readonly address: string; readonly effectId: bigint; readonly units: bigint }[];
  /** The least output that today's quote allows, for effects (by id) whose call is bound by one. */
  readonly minimums?: ReadonlyMap<bigint, bigint>;
}

/** Rail parameters of the first variant, e.g. gas limit and fees; text for every figure that is money. */
export type Plan = { readonly [key: string]: Json };

export type PlanVerdict = { readonly verdict: 'ready'; readonly plan: Plan } | PlanWait;

/** Nothing is sealed; the effect goes back with this reason. `alert` tells people (R14). */
export interface PlanWait {
  readonly verdict: 'wait';
  readonly reason: string;
  readonly detail: string;
  readonly alert: boolean;
  /** `a_while`: it passes by itself and is no failure. `until_mended`: somebody must act (fund it), and it backs off.
   *  `for_good`: this effect will not be planned; when that stays so it is a case, and nothing of it has left. */
  readonly lasts: 'a_while' | 'until_mended' | 'for_good';
  /** When asking again makes sense, where that is known; absent: the engine's back-off. */
  readonly waitMs?: number;
  /** What would end the wait and can be bought: whoever supplies it is asked in the transaction of the give-back. */
  readonly needs?: Need;
  /** It is the signer that is short (of gas, bandwidth; `allowance`: of what this wallet lets it move of this token): another one
   *  of the pool may do it. */
  readonly signerShort?: boolean | 'allowance';
}

/**
 * What is short, and how much of it is missing. Buying it is a paid act of its own, after the claim and before this
 * effect's seal (R16). `gas`: units of the chain's coin at `address`; `energy`: units of energy for `address`, all that the
 * call may take: what is left there may be counted on by another effect that waits as well.
 */
export type Need =
  | { readonly kind: 'gas'; readonly address: string; readonly assetId: string; readonly units: bigint }
  | { readonly kind: 'energy'; readonly address: string; readonly units: bigint };

/** A place in a signer's sequence, given out by the signer's row in the sealing transaction. */
export interface Allotment {
  readonly signer: string;
  readonly nonce: bigint;
}

/** What the seal makes immutable. */
export interface Seal {
  readonly identity: string;
  /** The exact bytes (a chain: the canonical text of chain, signer, nonce, to, value, data). */
  readonly payload: Uint8Array;
  /** What must be seen for success. */
  readonly expect: Json;
  readonly signer: string | null;
  readonly nonce: bigint | null;
  /** Chains without a sequence: the final block that the plan saw. Nothing is sealed before our own scan has come near it. */
  readonly finalBlock?: bigint;
}

export type VariantKind = 'original' | 'bump' | 'cancel';

/** Parameters of one signed variant. Fees are text. */
export interface VariantSpec {
  readonly kind: VariantKind;
  readonly gasLimit: string;
  readonly maxFeePerGas: string;
  readonly maxPriorityFeePerGas: string;
}

/** A signed variant: stored by the engine before it is sent. */
export interface Signed extends VariantSpec {
  readonly hash: string;
  readonly raw: Uint8Array;
  readonly to: string;
  readonly value: string;
  readonly data: string;
}

export interface SealedEffect extends EffectIntent {
  readonly seal: Seal;
  readonly plan: Plan;
  readonly variants: readonly Signed[];
  readonly sealedAt: Date;
  /** The rail's object that testimony named, so that a look can ask for it by its id. */
  readonly acceptedObject?: string | null;
  /** Objects that refusals pointed at, the latest first, while none is accepted: a look asks for them too. */
  readonly objectHints?: readonly string[];
}

/** How far a request got (libraries.md): the difference between "never left" and "unknown". `withheld`: the rail itself
 *  refused to send (its credential or address is not the sealed one); that says nothing of earlier sends. */
export type Reach = 'withheld' | 'never_connected' | 'request_written' | 'partial_answer' | 'answer';

/** One raw answer, stored before it is interpreted. */
export interface Answer {
  readonly operation: 'send' | 'look';
  /** The node or provider account asked, as configured. */
  readonly source: string;
  /** Who runs that source; witnesses are counted by it. */
  readonly operator: string;
  readonly reach: Reach;
  readonly status: number | null;
  /** The body as received (cut at the rail's size limit), or the transport's error. A look that asked several
   *  questions keeps all raw results in one JSON text. */
  readonly body: string;
  /** The signed variant concerned, for sends. */
  readonly variantHash: string | null;
}

/** A cost that the rail itself took (gas), paid in its own coin by `payer`. */
export interface RailCost {
  readonly assetId: string;
  readonly payer: string;
  readonly units: bigint;
}

export type ObservationKind =
  // says nothing
  | 'never_left'
  | 'not_found'
  | 'unreadable'
  | 'in_progress'
  | 'blocked'
  // yes
  | 'included'
  | 'accepted'
  | 'key_taken'
  | 'moved_otherwise'
  | 'final_success'
  | 'came_back'
  // no
  | 'refused'
  | 'object_failed'
  | 'reverted_final'
  | 'cancel_mined'
  | 'spent_by_other'
  | 'expired_unincluded'
  // two persons' word, never a rail's
  | 'operator_absent';

/** Money that came back after it went: `id` is the provider's return id, or object id and state (once each). */
export interface Returned {
  readonly id: string;
  /** How much of what went is undone. */
  readonly amount: bigint;
  /** Kept of it on the way back: we got `amount` less `fee`. Absent: nothing. */
  readonly fee?: bigint;
  readonly reason: string | null;
  /** Batches: the name of the line that it is of. */
  readonly line?: string;
}

/** One line's own truth. `unknown` is for a person. */
export interface LineTruth {
  readonly ref: string;
  readonly outcome: 'paid' | 'not_paid' | 'came_back' | 'open' | 'unknown';
  readonly objectId: string | null;
  readonly detail: string;
}

/** What one answer shows, before anyone asks what it is worth. */
export interface Observation {
  readonly kind: ObservationKind;
  readonly source: string;
  readonly operator: string;
  /** `true`: this source showed on one connection that it covers the time of the seal up to finality (a witness). */
  readonly witness: boolean;
  /** Chains: the time of the final block up to which this source answers, ms. */
  readonly finalMs?: number;
  /** The object at the rail that this is about: a transaction hash, a provider's id. */
  readonly objectId: string | null;
  /** For people: why it was read so. */
  readonly detail: string;
  readonly cost: RailCost | null;
  /** `refused` only: what the profile says about the refusal. */
  readonly refusal?: {
    readonly stage: 'before_key_check' | 'after_key_check' | 'unknown';
    readonly storedUnderKey: boolean;
    readonly replayed: boolean;
    readonly final: boolean;
    /** Request or account is wrong (never balance, limit, hours, duplicate). */
    readonly atOnce: boolean;
  };
  /** `object_failed` only: the profile cites that the key stays bound to the failed object. */
  readonly keyStaysBound?: boolean;
  /** `came_back`: all returns that the object shows. `object_failed`: what has come back if it was paid before (a provider
   *  whose success may still turn into a failure). */
  readonly returned?: readonly Returned[];
  /** An object that a refusal points at, perhaps another's: a look asks for it, and what that shows under our identity counts. */
  readonly objectHint?: string;
  /** `key_taken` only: two objects that have not failed stand under our identity. */
  readonly doubled?: true;
  /** `key_taken` only: ours by key and reference, and not what we sealed (amount, currency, receiver). */
  readonly otherContent?: true;
  /** Batches: each line of the intent, in order. */
  readonly lines?: readonly LineTruth[];
  /** The rail has stopped and waits for people (a dispute, an end after a payment was claimed): in words, for a case. */
  readonly asksPeople?: string;
  /** What would help: shown to people, and read by the engine's next step. */
  readonly advice?: 'resend' | 'bump' | 'fund' | 'fill_gap' | 'wait';
}

/** What the signer's account shows on chain: read before seals, compared with our counter. */
export interface SignerSurvey {
  readonly signer: string;
  /** Highest transaction count that any node shows at its head; `null` where no node answered. */
  readonly nonceHead: bigint | null;
}

/** What a wallet lets a relayer move of a token: `units` in place of what stood before. */
export interface AllowanceAsked {
  readonly contract: string;
  readonly wallet: string;
  readonly relayer: string;
  readonly units: bigint;
}

/** Chains: relayers move a wallet's tokens by an allowance that the wallet gives at the token (R15). */
export interface Allowances {
  /** The wallet's own call, and what must be seen for success. Pure. */
  call(asked: AllowanceAsked): ContractCall;
  /** What stands at the head, and whether the token takes the new figure straight away (some change one from 0 only); `null`: no
   *  node tells. */
  ask(asked: AllowanceAsked): Promise<{ readonly units: bigint; readonly takes: boolean } | null>;
}

export interface Rail {
  readonly name: string;
  readonly capabilities: Capabilities;
  /** Fees, reference block, funds, simulation. Nothing leaves. One verdict per effect, in order. */
  plan(effects: readonly EffectIntent[], context: PlanContext): Promise<readonly PlanVerdict[]>;
  /** Pure: identity, exact payload, what to expect. */
  seal(effect: EffectIntent, plan: Plan, allotment: Allotment | null): Seal;
  /** Sequenced rails: what the chain knows of these signers. */
  survey?(signers: readonly string[]): Promise<readonly SignerSurvey[]>;
  readonly allowances?: Allowances;
  /** Chains: the parameters of the next variant. `original` comes from the plan alone, without I/O. */
  specify?(sealed: SealedEffect, kind: VariantKind): Promise<VariantSpec>;
  /** Chains: a deterministic signature over the sealed payload with these parameters. */
  sign?(sealed: SealedEffect, spec: VariantSpec): Promise<Signed>;
  /** Keyed rails: why this sealed effect must not be sent by the rail as it is configured now, or `null`. The key would be
   *  a new one to the provider (another credential, region or path), so it is looked at only, and a person is told. Pure. */
  withholds?(sealed: SealedEffect): string | null;
  /** One request, no retry. Never throws for what the other side did; reports how far it got. */
  send(sealed: SealedEffect, signed: Signed | null): Promise<Answer>;
  /** Inquiry, receipts, nonce at finality, from each source. One list of answers per effect, in order. */
  look(sealed: readonly SealedEffect[]): Promise<readonly (readonly Answer[])[]>;
  /** Pure, table-driven, default `unreadable`. */
  read(answer: Answer, sealed: SealedEffect): Observation;
}
