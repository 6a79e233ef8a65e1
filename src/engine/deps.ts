/** What the engine's parts share: made once by `makeEngine`, passed first. Data only. */
import type { Pool, Tx } from '../db/pool.ts';
import type { MakeId } from '../kernel/ids.ts';
import type { Log } from '../kernel/log.ts';
import type { Ports } from '../kernel/ports.ts';
import type { Chart } from '../ledger/accounts.ts';
import type { Flow } from './flow.ts';
import type { Rail } from './rail.ts';

/** What a flow does when two persons have decided; runs in the approving transaction. Answers what it did, in words. */
export type FlowVerb = (
  tx: Tx,
  proposal: { readonly id: string; readonly detail: Readonly<Record<string, string>> },
) => Promise<string>;

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
  readonly counters: Counters;
  readonly leaseMs: number;
}
