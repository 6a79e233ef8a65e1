/* What a contract is called with on this chain, and what comes of it. */
import type { Address } from './address.ts';
import type { Layer } from './state.ts';

export type Log = { readonly address: Address; readonly topics: readonly string[]; readonly data: string };
export type SunTransfer = { readonly from: Address; readonly to: Address; readonly sun: bigint };
/** What the machine notes of an opcode inside a call. `sun` is what the opcode names: only with some notes has it moved. */
export type InternalTransfer = SunTransfer & { readonly note: string };

export type Call = {
  readonly state: Layer;
  readonly self: Address;
  readonly caller: Address;
  readonly data: string;
  readonly sun: bigint;
  readonly nowMs: number;
};

export type Returned = {
  readonly result: 'SUCCESS' | 'REVERT' | 'UNKNOWN' | 'NOT_NAMED_YET';
  readonly output: string;
  readonly energy: bigint;
  readonly penalty: bigint;
  readonly logs: readonly Log[];
  readonly internal: readonly InternalTransfer[];
};
