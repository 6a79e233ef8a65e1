/**
 * A provider that is asked over HTTP under keys of ours, as data: what every profile of one says, whatever is bought there.
 *
 * The data are promises of the provider on which money is freed or sent again, so each of them that could free money names
 * where the provider says so (`Cite`); what is not confirmed is left out, which is the safe reading (rails.md §7). A list of
 * evidence may be narrowed by anybody and widened only together with the rail's committed baseline (T5).
 * A mapper beside the data knows the provider's JSON and nothing else. What an answer is worth is the reader's table
 * (`keyed-read.ts`), then `classify`.
 */
import type { Json } from '../engine/rail.ts';

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

/** What of an object tells whose it is, and how it stands; `null` where the answer says nothing of it. */
export interface Item {
  readonly id: string | null;
  /** The idempotency key, where the provider shows it. */
  readonly key: string | null;
  /** Our own reference. */
  readonly reference: string | null;
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

/** What a look-up knows to ask by. */
export interface LookFacts {
  /** The key, or the reference where that is what objects carry. */
  readonly key: string;
  readonly objectId: string | null;
}

export interface LookUp<Facts extends LookFacts> {
  readonly name: 'by_key' | 'by_reference' | 'by_object';
  /** How long a new object may stay unseen; `null`: not stated, as almost everywhere (rails.md §1.4). */
  readonly lagMs: number | null;
  /** Path with query, or `null` where it cannot be asked yet (no object id). */
  path(facts: Facts): string | null;
  /** The next page of a list, `null` after the last one, `unknown` where a page does not say. */
  next(page: Json, facts: Facts, pages: number): { readonly path: string } | null | 'unknown';
  /** Statuses and codes that mean "there is none"; empty for lists. */
  readonly absent: readonly { readonly status: number; readonly code: string }[];
}

export type Auth = 'bearer' | 'basic' | 'x_api_key';

export interface KeyedProfile<One extends Item, Facts extends LookFacts> {
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
  /** A header and its value with which the provider marks a replayed answer, errors included. */
  readonly replayMark: { readonly header: string; readonly value: string; readonly cite: Cite } | null;
  readonly codes: readonly CodeRow[];
  /** An object that failed keeps its key: the same key again shows that object. */
  readonly failedKeepsKey: Cite | null;
  /** The key is due in refusals too (T4). A key that is shown anyway is always compared. */
  readonly echoesKeyInErrors: boolean;
  /** Response headers kept beside the body, in lower case; the replay mark's and the key's are kept anyway. */
  readonly keepHeaders: readonly string[];
  readonly lookUps: readonly LookUp<Facts>[];
  /** `false`: an unknown cannot be looked up, only an object whose id is known. */
  readonly lookUp: boolean;
  readonly auth: Auth;
  /** All objects in a success-like body, or `null` where it has not the provider's shape. */
  objects(body: Json): readonly One[] | null;
  /** What a refusal says, or `null` where it has not the provider's shape. */
  error(body: Json): ProviderError | null;
}

/** The header in which the key goes, in lower case; `null` where it goes in the body, or there is none. */
export function keyHeaderOf({ key }: { readonly key: KeyRule | null }): string | null {
  return key?.header?.toLowerCase() ?? null;
}
