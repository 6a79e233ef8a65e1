/** What the steps of one import share. */
import type { Pool } from '../../../db/pool.ts';
import type { MakeId } from '../../../kernel/ids.ts';
import type { Chart } from '../../../ledger/accounts.ts';

export interface ImportDeps {
  readonly pool: Pool;
  readonly makeId: MakeId;
  readonly chart: Chart;
}

export interface Batch {
  readonly importId: bigint;
  readonly deps: ImportDeps;
  readonly isDry: boolean;
  readonly rails: ReadonlySet<string>;
  /** What a dry run would have set aside so far, by account. */
  readonly dryNeeds: Map<string, bigint>;
  readonly now: Date;
}
