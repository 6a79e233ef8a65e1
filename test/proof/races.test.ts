/*
 * Goal: nothing that two processes do at once depends on luck. Method, on a real PostgreSQL, at READ COMMITTED and at REPEATABLE
 * READ: for each critical pair of the product's functions every order of their statements is run (races/explore.ts), each judged
 * by its outcome and all by the books; and PostgreSQL's own isolationtester runs the incident's algorithm beside ours, over
 * statements recorded from our functions (races/isolation.ts), and prints both counts.
 *
 * `npm test` runs all orders in which the sides change at most once while both could go on: one function whole at any point of the
 * other, and whatever locks make of it, which is enough for every lost update and every act on a stale read. Where the first
 * statement locks that is every order there is. PAYONCE_TEST_RACES=3 allows three such changes, and takes long.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertBooksClean } from '../support/books.ts';
import type { Explored } from './races/explore.ts';
import { type Count, edgesApart, incidentWay, makeIsolationWorld, ourWay } from './races/interleaved.ts';
import { engineRaces } from './races/pairs-engine.ts';
import { flowRaces } from './races/pairs-flows.ts';
import { ledgerRaces } from './races/pairs-ledger.ts';
import { p2pRaces } from './races/pairs-p2p.ts';
import { payoutRaces } from './races/pairs-payouts.ts';
import { doorRaces } from './races/pairs-people.ts';
import type { Races } from './races/race.ts';
import type { Level } from './races/session.ts';

const LEVELS: readonly Level[] = ['read committed', 'repeatable read'];
const SWITCHES_MAX = Number(process.env['PAYONCE_TEST_RACES'] ?? '1');

const total = { pairs: 0, orders: 0, waited: 0 };

interface Stage {
  diagnostic(line: string): void;
  after(act: () => Promise<void>): void;
}

async function exploreAll(t: Stage, make: () => Promise<Races>): Promise<void> {
  const made = await make();
  t.after(() => made.end());
  for (const one of made.races) {
    const found: Explored[] = [];
    for (const level of LEVELS) found.push(await one.explore(level, SWITCHES_MAX));
    total.pairs += 1;
    for (const { orders, waited } of found) {
      total.orders += orders;
      total.waited += waited;
    }
    const [sizes, words] = [
      found.map(sizeOf).join(' and '),
      new Set(found.flatMap((each) => [...each.outcomes.keys()])),
    ];
    t.diagnostic(`${one.name}: ${sizes} orders; ${[...words].join(', ')}`);
  }
  await made.check();
}

/** `+`: there are more, with more changes of side. */
function sizeOf({ orders, whole }: Explored): string {
  return `${orders}${whole ? '' : '+'}`;
}

test('isolationtester: the incident’s algorithm doubles the DEBIT in 34 of 35 interleavings, ours in none (req W1, W2, W3, case D1)', async (t) => {
  const world = await makeIsolationWorld(t, 'races isolation');
  const counts: Count[] = [];
  for (const level of LEVELS) counts.push(await incidentWay(world, level), await ourWay(world, level));
  // What is recorded is the edge and its DEBIT; the event that belongs to them has ids of its own in each run.
  await assertBooksClean(world.pool, { without: ['N1'] });
  const apart = await makeIsolationWorld(t, 'races edges');
  for (const level of LEVELS) counts.push(...(await edgesApart(apart, level)));
  for (const { name, level, doubles, permutations, waits, gaveUp } of counts)
    t.diagnostic(
      `${name}, ${level}: ${doubles} doubled of ${permutations} interleavings (${waits} waited, ${gaveUp} gave up)`,
    );
  // 70 interleavings are 35 with the sides' names exchanged.
  for (const one of counts) assert.equal(one.doubles, one.name.startsWith('the incident') ? 68 : 0, one.name);
});

test('whatever the order of two functions’ statements, it ends in one of the outcomes that are meant, and in clean books', {
  concurrency: 2,
}, async (t) => {
  await Promise.all([
    t.test(
      'the engine: claim, seal, settle, release, testimony, re-open (req W1, W2, R1, R12, T6, case A3, D1, L1, L2, inv E1, E3, E8, E9, E11, E13)',
      (each) => exploreAll(each, engineRaces),
    ),
    t.test(
      'the doors: one key, one external id, the last funds; two persons beside other news (req P1, T11, case E1, inv E15)',
      (each) => exploreAll(each, doorRaces),
    ),
    t.test('the ledger: one key, one account, one hold, crosswise (req W3, W5, W6, inv L4, L5, L6, L8)', (each) =>
      exploreAll(each, ledgerRaces),
    ),
    t.test('P2P: match, cancel, fill, pay, expire (req M3, M20, case I3, inv M1, M2, M3)', (each) =>
      exploreAll(each, p2pRaces),
    ),
    t.test('payouts: volume, threshold, what waited (req P6, P7, case A7, inv P1)', (each) =>
      exploreAll(each, payoutRaces),
    ),
    t.test('deposits, sweeps, the night, inbox and outbox (req W11, R3, R8, case D6, inv I1, E16, N1)', (each) =>
      exploreAll(each, flowRaces),
    ),
  ]);
  t.diagnostic(
    `${total.pairs} pairs × ${total.orders} interleavings at two levels; in ${total.waited} one waited for the other`,
  );
});
