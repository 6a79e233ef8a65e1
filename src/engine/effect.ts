/**
 * The life of an effect, as data: states, edges, evidence and what each kind of it says (design §2).
 *
 * One table here, from which the SQL guard (`payonce.effect_edges`, `payonce.evidence_kinds`), the diagram in docs and
 * the exhaustive test come; a test compares them. Pure: no I/O, no clock.
 */

export const STATES = ['PENDING', 'SEALED', 'SETTLED', 'RELEASED'] as const;
export type State = (typeof STATES)[number];

export const EDGES: readonly { readonly from: State; readonly to: State; readonly by: string }[] = [
  { from: 'PENDING', to: 'SEALED', by: 'seal (or adopt)' },
  { from: 'PENDING', to: 'RELEASED', by: 'release: never sealed' },
  { from: 'SEALED', to: 'SETTLED', by: 'settle' },
  { from: 'SEALED', to: 'RELEASED', by: 'release: a named no' },
  { from: 'RELEASED', to: 'SEALED', by: 're-open: testimony came after all' },
];

export type Says = 'nothing' | 'yes' | 'no';
/** `display` bars and settles nothing; `word` bars believed noes; `object` settles. `believed` waits; `dead` ends. */
export type Rank = 'none' | 'display' | 'word' | 'object' | 'believed' | 'dead';

interface KindRow {
  readonly says: Says;
  readonly rank: Rank;
  /** Proved by a chain's finality: ends even an effect known as accepted by word. */
  readonly chainFinal: boolean;
}

export const EVIDENCE = {
  NOT_FOUND: { says: 'nothing', rank: 'none', chainFinal: false },
  UNREADABLE: { says: 'nothing', rank: 'none', chainFinal: false },
  IN_PROGRESS: { says: 'nothing', rank: 'none', chainFinal: false },
  BLOCKED: { says: 'nothing', rank: 'none', chainFinal: false },
  NEVER_LEFT: { says: 'nothing', rank: 'none', chainFinal: false },
  INCLUDED: { says: 'yes', rank: 'display', chainFinal: false },
  ACCEPTED: { says: 'yes', rank: 'word', chainFinal: false },
  KEY_TAKEN: { says: 'yes', rank: 'word', chainFinal: false },
  MOVED_OTHERWISE: { says: 'yes', rank: 'word', chainFinal: false },
  FINAL_SUCCESS: { says: 'yes', rank: 'object', chainFinal: false },
  CAME_BACK: { says: 'yes', rank: 'object', chainFinal: false },
  OPERATOR_SAW: { says: 'yes', rank: 'object', chainFinal: false },
  REJECTED: { says: 'no', rank: 'believed', chainFinal: false },
  OPERATOR_ABSENT: { says: 'no', rank: 'believed', chainFinal: false },
  NEVER_SEALED: { says: 'no', rank: 'dead', chainFinal: false },
  REJECTION_STORED: { says: 'no', rank: 'dead', chainFinal: false },
  REFUSED_AT_ONCE: { says: 'no', rank: 'dead', chainFinal: false },
  PROVIDER_FAILED: { says: 'no', rank: 'dead', chainFinal: false },
  REVERTED_FINAL: { says: 'no', rank: 'dead', chainFinal: true },
  CANCEL_MINED: { says: 'no', rank: 'dead', chainFinal: true },
  NONCE_SPENT_BY_OTHER: { says: 'no', rank: 'dead', chainFinal: true },
  EXPIRED_UNINCLUDED: { says: 'no', rank: 'dead', chainFinal: true },
} as const satisfies Record<string, KindRow>;

export type EvidenceKind = keyof typeof EVIDENCE;

export function canGo(from: State, to: State): boolean {
  return EDGES.some((edge) => edge.from === from && edge.to === to);
}

/** Evidence as it goes into the effect's record. */
export interface Evidence {
  readonly kind: EvidenceKind;
  readonly rank: Rank;
  readonly source: string;
  readonly operator: string;
  readonly objectId: string | null;
  readonly detail: string;
}

/** What is known of an effect when an observation is classified: read under the same locks as the verdict's write. */
export interface Facts {
  readonly state: State;
  readonly sends: number;
  /** Sends that surely never left (transport's word), counted over all sends so far. */
  readonly sendsNeverLeft: number;
  /** Sends so far that each have their own stored, readable refusal. */
  readonly sendsRefused: number;
  /** Of those, refusals of request or account given at once. */
  readonly sendsRefusedAtOnce: number;
  /** Not struck. */
  readonly testimonies: number;
  readonly objectTestimony: boolean;
  readonly acceptedObject: string | null;
  /** Every object that testimony on record names: one that failed says nothing about another. */
  readonly namedObjects: readonly (string | null)[];
  /** Operators whose witnesses have said, in this pass or before, that the nonce was spent by this other transaction. */
  readonly absence: readonly { readonly operator: string; readonly objectId: string | null }[];
  readonly absenceWitnesses: number;
  readonly keyed: boolean;
  /** lateness < keyRetention/2, or no retention at all: a stored refusal is replayed for long enough. */
  readonly latenessWithinKey: boolean;
  /** The profile lets `REFUSED_AT_ONCE` count (direct TLS, no re-delivering proxy). */
  readonly refusedAtOnceCounts: boolean;
  /** The effect's age is past `decideWithin`. */
  readonly pastDecide: boolean;
  /** An identity that is a place in a sequence ends only by being mined: never having left is no end of it. */
  readonly sequenced: boolean;
  /** The rail's finality shows what did not happen, so no word replaces it (`classify.ts`). */
  readonly provesAbsence: boolean;
  /** Lateness is known and the rail can be asked: a believed no can be completed by the machine. */
  readonly canBelieve: boolean;
  /** A released effect: the object whose failure released it. */
  readonly failedObject: string | null;
  /** The believed no on record that waits for lateness and a fresh look. */
  readonly believing: Evidence | null;
  /** This pass' look-ups began after lateness had ended, and what they showed. */
  readonly freshLook: 'none' | 'absent' | 'unclear';
}
