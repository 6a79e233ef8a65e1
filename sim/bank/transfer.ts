/*
 * A transfer as the bank holds it, and the order that it came from. A provider that takes one payment a request makes batches
 * of one line.
 */
import type { WireObject } from './wire-json.ts';

export type Destination = {
  readonly bankCode: string;
  readonly accountNumber: string;
  readonly holder: string | null;
  /** The provider's own name for it, where requests name it so. */
  readonly handle: string | null;
};

export type Return = {
  readonly id: string;
  /** What came back, fee taken off. */
  readonly units: bigint;
  readonly feeUnits: bigint;
  readonly at: Date;
  readonly reason: string;
  /** How often the provider lists it: a sloppy one lists the same return twice. */
  readonly reports: number;
};

export type Transfer = {
  readonly id: string;
  readonly batch: Batch;
  readonly ordinal: number;
  readonly line: Line;
  readonly at: Date;
  visibleFrom: Date;
  state: string;
  /** `accepted`: it stands and may still fail. `final`: it left. `undone`: it never will. */
  standing: 'accepted' | 'final' | 'undone';
  failure: string | null;
  changedAt: Date;
  returns: readonly Return[];
};

export type Batch = {
  readonly id: string;
  readonly key: string | null;
  readonly order: Order;
  readonly at: Date;
  readonly path: string;
  readonly transfers: readonly Transfer[];
};

export type Line = {
  readonly reference: string | null;
  readonly destination: Destination;
  readonly amount: bigint;
  readonly currency: string;
  readonly memo: string | null;
  /** What the provider takes and shows again without using it. */
  readonly extra: WireObject;
};

export type Order = { readonly reference: string | null; readonly lines: readonly Line[]; readonly extra: WireObject };
