/*
 * The judge at the end of every test: the invariants against the database, and, where the test has a rail with books of
 * its own, those books against the database. Fails with every breach by name.
 */
import assert from 'node:assert/strict';
import { type Breach, checkInvariants, type InvariantName } from '../../src/audit/invariants.ts';
import { compareWithRail } from '../../src/audit/oracle.ts';
import type { OracleOptions, RailBooks } from '../../src/audit/rail-books.ts';
import { makePool, type Query } from '../../src/db/pool.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { systemPorts } from '../../src/kernel/ports.ts';

export interface BooksOptions extends OracleOptions {
  /** The rails' own books: simulators', or the chain's. */
  readonly books?: RailBooks | readonly RailBooks[];
  /** Only these; absent: all. */
  readonly only?: readonly InvariantName[];
  /** All but these: a test of the ledger alone has holds that belong to no effect (L6), say. */
  readonly without?: readonly InvariantName[];
}

export async function findBreaches(query: Query, options: BooksOptions = {}): Promise<Breach[]> {
  const breaches = await checkInvariants(query, options.only === undefined ? {} : { only: options.only });
  const books: readonly RailBooks[] = options.books === undefined ? [] : [options.books].flat();
  for (const one of books) breaches.push(...(await compareWithRail(query, one, options)));
  const without: readonly string[] = options.without ?? [];
  return breaches.filter((breach) => !without.includes(breach.invariant));
}

export async function assertBooksClean(target: Query | string, options: BooksOptions = {}): Promise<void> {
  const pool =
    typeof target === 'string'
      ? makePool({ url: target, ports: systemPorts(), log: silentLog, connectionsMax: 1 })
      : null;
  try {
    const breaches = await findBreaches(pool ?? (target as Query), options);
    const lines = breaches.map((breach) => `${breach.invariant}: ${breach.subject} ${breach.detail}`);
    assert.equal(lines.length, 0, `the books are not clean:\n${lines.join('\n')}`);
  } finally {
    await pool?.end();
  }
}
