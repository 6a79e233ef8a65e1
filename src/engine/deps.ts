/** What the engine's parts share: made once by `makeEngine`, passed first. Data only. */
import type { Pool, Query, Tx } from '../db/pool.ts';
import type { MakeId } from '../kernel/ids.ts';
import type { Log } from '../kernel/log.ts';
import type { Ports } from '../kernel/ports.ts';
import type { Chart } from '../ledger/accounts.ts';
import type { Flow } from './flow.ts';
import type { Rail } from './rail.ts';
import type { SupplyPort } from './supply.ts';

/** A case as a flow's verb sees it. */
export interface AboutCase {
  readonly kind: string;
  readonly subjectKey: string;
}

/** A decision of two persons that belongs to a flow. */
export interface FlowVerb {
  /** What stands against it, in words; asked at the proposal and again at the approval, with no transaction open. */
  objection(about: AboutCase, detail: Readonly<Record<string, string>>): Promise<string | null>;
  /** Runs in the approving transaction. A refusal undoes everything: an act that changed nothing decides nothing. */
  carryOut?(
    tx: Tx,
    proposal: { readonly id: string; readonly about: AboutCase; readonly detail: Readonly<Record<string, string>> },
  ): Promise<{ readonly did: string; readonly closesCase: boolean } | { readonly refused: string }>;
}

/** Counted in process, shown as metrics (W2, W12, R17). */
export interface Counters {
  alreadyTransitioned: number;
  busy: number;
  sends: number;
  sealed: number;
}

export interface EngineDeps {
  readonly pool: Pool;
  readonly ports: Ports;
  readonly log: Log;
  readonly makeId: MakeId;
  readonly chart: Chart;
  readonly flows: ReadonlyMap<string, Flow>;
  readonly rails: ReadonlyMap<string, Rail>;
  /** Decisions of two persons that belong to a flow, by verb. */
  readonly verbs: ReadonlyMap<string, FlowVerb>;
  /** Who buys what waiting effects need (gas, energy); absent: they wait until somebody brings it. */
  readonly supply?: SupplyPort;
  /** Where another source shows that an effect moved (a bank's statement), in words, or `null`. */
  readonly seenElsewhere?: (query: Query, effectId: bigint) => Promise<string | null>;
  readonly counters: Counters;
  readonly leaseMs: number;
}
