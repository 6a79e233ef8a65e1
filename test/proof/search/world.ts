/**
 * The worlds of the search: what a provider may do to us, which of its promises it keeps, and how much of it is explored.
 *
 * A tick is the unit of all durations. A request is sent at most one tick after its permission (`send_by`) and executes at
 * most `executesWithin` ticks later; declared lateness is longer than that and than the lag of a look together.
 */
import type { Capabilities } from '../../../src/engine/rail.ts';

export const TICK_MS = 1000;
/** What a look shows where there is nothing to look at. */
export const NO_LOOK = 'no look-up';

export interface World {
  readonly name: string;
  readonly kind: 'keyed' | 'unkeyed' | 'evm';
  /** The provider keeps what its profile declares: then two payments are impossible, not merely on record. */
  readonly promisesKept: boolean;
  readonly lookUp: boolean;
  /** Two persons may say that nothing moved. */
  readonly absences: boolean;
  readonly executesWithin: number;
  /** A fresh object may be missing from a look until the next tick. */
  readonly lookLags: boolean;
  /** Requests execute beyond the declared lateness too. */
  readonly lateBeyond: boolean;
  readonly latenessTicks: number;
  readonly retentionTicks: number | null;
  readonly decideTicks: number;
  /** What a refusal is; empty: it never refuses. */
  readonly refusals: readonly Refusal[];
  /** An accepted object may still fail. */
  readonly acceptedMayFail: boolean;
  readonly failFreesKey: boolean;
  readonly refusedAtOnceCounts: boolean;
  readonly duplicates: number;
  readonly reorgs: number;
  /** Transactions at our nonce that we never made. */
  readonly foreign: number;
  /** A node may say that what another shows in a block was reverted, and is final. */
  readonly nodeLies: boolean;
  /** Of the first effect; its successor is sent as often less `successorLess`. */
  readonly sendsMax: number;
  readonly successorLess: number;
}
/** `stored`: under the key, and replayed. `balance`: checked before the key, so also over a payment that exists. */
type Refusal = 'after_key' | 'stored' | 'balance' | 'at_once' | 'lying_stored';

const BASE: Omit<World, 'name' | 'kind'> = {
  promisesKept: true,
  lookUp: true,
  absences: true,
  executesWithin: 1,
  lookLags: false,
  lateBeyond: false,
  latenessTicks: 2,
  retentionTicks: null,
  decideTicks: 1,
  refusals: [],
  acceptedMayFail: false,
  failFreesKey: false,
  refusedAtOnceCounts: false,
  duplicates: 0,
  reorgs: 0,
  foreign: 0,
  nodeLies: false,
  sendsMax: 2,
  successorLess: 1,
};

export const WORLDS = {
  successes: { ...BASE, name: 'keyed, stores only successes', kind: 'keyed', refusals: ['after_key'], duplicates: 1 },
  rejections: { ...BASE, name: 'keyed, stores rejections too', kind: 'keyed', refusals: ['stored'], lookLags: true },
  balance: {
    ...BASE,
    name: 'keyed, checks the balance before the key',
    kind: 'keyed',
    refusals: ['balance'],
    lookLags: true,
  },
  atOnce: {
    ...BASE,
    name: 'keyed, direct, refuses a wrong account at once',
    kind: 'keyed',
    refusals: ['at_once'],
    refusedAtOnceCounts: true,
  },
  failsBound: {
    ...BASE,
    name: 'keyed, what it accepted may fail and keeps its key',
    kind: 'keyed',
    acceptedMayFail: true,
  },
  failsFree: {
    ...BASE,
    name: 'keyed, what it accepted may fail and frees its key',
    kind: 'keyed',
    acceptedMayFail: true,
    failFreesKey: true,
  },
  retention: {
    ...BASE,
    name: 'keyed, forgets its keys',
    kind: 'keyed',
    retentionTicks: 5,
  },
  longLateness: {
    ...BASE,
    name: 'keyed, lateness longer than half the retention',
    kind: 'keyed',
    refusals: ['after_key'],
    executesWithin: 2,
    latenessTicks: 3,
    retentionTicks: 4,
  },
  unkeyed: { ...BASE, name: 'unkeyed', kind: 'unkeyed', refusals: ['balance'] },
  blind: { ...BASE, name: 'keyed, without a look-up', kind: 'keyed', lookUp: false, refusals: ['after_key'] },
  beyond: {
    ...BASE,
    name: 'keyed, later than it declares',
    kind: 'keyed',
    promisesKept: false,
    // Their word beside broken promises is searched with the deep bounds: it makes the states ten times as many.
    absences: false,
    lateBeyond: true,
    refusals: ['after_key'],
  },
  lies: {
    ...BASE,
    name: 'keyed, calls a refusal stored that is not',
    kind: 'keyed',
    promisesKept: false,
    absences: false,
    refusals: ['lying_stored'],
  },
  evm: { ...BASE, absences: false, name: 'EVM, bump, cancel, re-organisation', kind: 'evm', reorgs: 1 },
  evmForeign: { ...BASE, absences: false, name: 'EVM, somebody else holds the key', kind: 'evm', foreign: 1 },
  evmLiar: { ...BASE, absences: false, name: 'EVM, a node lies beside an inclusion', kind: 'evm', nodeLies: true },
} as const satisfies Record<string, World>;

/** Wider bounds for a machine with time: more sends, duplicates and reorganisations. */
export function deeper(world: World): World {
  return {
    ...world,
    absences: world.kind !== 'evm',
    sendsMax: world.sendsMax + 1,
    successorLess: 0,
    lookLags: true,
    duplicates: world.duplicates === 0 ? 0 : world.duplicates + 1,
    reorgs: world.reorgs === 0 ? 0 : world.reorgs + 1,
  };
}

export function capabilitiesOf(world: World): Capabilities {
  const evm = world.kind === 'evm';
  return {
    keyed: world.kind !== 'unkeyed',
    keyRetentionMs: world.retentionTicks === null ? null : world.retentionTicks * TICK_MS,
    latenessMs: evm ? null : world.latenessTicks * TICK_MS,
    decideWithinMs: world.decideTicks * TICK_MS,
    sequenced: evm,
    inFlightPerSignerMax: 16,
    lookUp: world.lookUp,
    absenceWitnesses: evm ? 2 : 1,
    sendConcurrencyMax: 1,
    lookEveryMs: TICK_MS,
    resendAfterMs: 0,
    bumpAfterMs: evm ? TICK_MS : null,
    bumpsMax: 1,
    refusedAtOnceCounts: world.refusedAtOnceCounts,
  };
}

/** Rules of earlier drafts, each of which paid twice or lost the truth. Empty: the shipped rules. */
export const BROKEN = [
  'a next try after failed was told',
  'a stored refusal ends an accepted effect',
  'later word testimony is dropped',
  'a failed object that frees its key is dead',
  'a fresh look is content with a time-out',
  "two persons' word is content with a time-out",
  'a first send may pause',
  'the key window is half the retention',
  'a re-opened effect is sent again',
  'a contradicted successor is sent on',
  "a stale worker's yes is left lying",
  'a reverted foreign copy of our payload settles',
  'a no of finality passes over an inclusion',
] as const;
export type Broken = (typeof BROKEN)[number];

/** Ages stop counting here: nothing depends on more. */
export function oldestTicks(world: World): number {
  return Math.max(world.decideTicks, world.retentionTicks ?? 0) + 1;
}
