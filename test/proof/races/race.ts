/* What the pairs share: a race is a pair that can be explored, with its subject's shape kept to itself. */
import type { Query } from '../../../src/db/pool.ts';
import type { EngineDeps } from '../../../src/engine/deps.ts';
import { explore, type Explored, type Pair, type Side, type Stage } from './explore.ts';
import type { Level } from './session.ts';

export interface Race {
  readonly name: string;
  explore(level: Level, switchesMax: number): Promise<Explored>;
}

/** Races about one world, and what judges all of them at the end. */
export interface Races {
  readonly races: readonly Race[];
  check(): Promise<void>;
  end(): Promise<void>;
}

export function race<Subject>(stage: Stage, pair: Pair<Subject>): Race {
  return { name: pair.name, explore: (level, switchesMax) => explore(stage, level, pair, switchesMax) };
}

/** The engine as another process has it: its own connection and ports, the same database. */
export function engineOf(engine: EngineDeps, side: Side): EngineDeps {
  return { ...engine, pool: side.pool, ports: side.ports };
}

export async function countOf(query: Query, sql: string, values: readonly unknown[]): Promise<number> {
  const { rows } = await query.query<{ n: number }>(`select count(*)::int as n from ${sql}`, values);
  return rows[0]?.n ?? -1;
}
