/**
 * The pure core, exhaustively (proof 1): every reachable state of one subject with up to two effects, two workers, a
 * re-opener and an operator, against each kind of provider and a chain. What judges is the shipped code: `judge`, and
 * through it `classify` and `decide`, the edge table and the key window. SQL's conditions and the other side are modelled.
 *
 * Safe in every state: paid at most once (and not after `failed` was told) where the provider keeps its promises, else a
 * way onto the record; nothing released by nothing or over testimony; no testimony lost; no send after a believed no, a
 * re-open or the key window; nothing settled that did not move. Alive: from every state a way to an end or a case.
 * Each broken draft of the rules must be caught: a search that finds nothing in those proves nothing here.
 *
 * `PAYONCE_SEARCH=deep` searches wider bounds (minutes, some GB).
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { search } from './search/search.ts';
import { type Broken, BROKEN, deeper, WORLDS, type World } from './search/world.ts';

const DEEP = process.env['PAYONCE_SEARCH'] === 'deep';
const bounded = (world: World): World => (DEEP ? deeper(world) : world);

for (const world of Object.values(WORLDS)) {
  test(`no state of the shipped rules pays twice, loses testimony or has no way out: ${world.name}`, (t) => {
    const found = search(bounded(world));
    t.diagnostic(`${found.states} states, ${found.steps} steps`);
    assert.equal(found.fault, null, found.trace.join('\n'));
    const people = world.absences ? ['released by two persons'] : [];
    for (const state of ['SEALED', 'SETTLED', 'RELEASED', ...people])
      assert.ok((found.ends[state] ?? 0) > 0, `${state} is reached`);
    assert.equal(found.seesDouble, !world.promisesKept, 'a second payment is seen just where a promise is broken');
  });
}

test('each broken draft of the rules is found out, in this many steps', (t) => {
  const where: Record<Broken, World> = {
    'a next try after failed was told': WORLDS.successes,
    'a stored refusal ends an accepted effect': WORLDS.lies,
    'later word testimony is dropped': WORLDS.beyond,
    'a failed object that frees its key is dead': WORLDS.failsFree,
    'a fresh look is content with a time-out': { ...WORLDS.successes, duplicates: 0 },
    "two persons' word is content with a time-out": { ...WORLDS.successes, duplicates: 0 },
    'a first send may pause': { ...WORLDS.successes, duplicates: 0 },
    'the key window is half the retention': WORLDS.longLateness,
    'a re-opened effect is sent again': WORLDS.beyond,
    'a contradicted successor is sent on': { ...WORLDS.beyond, successorLess: 0 },
    "a stale worker's yes is left lying": WORLDS.successes,
    'a reverted foreign copy of our payload settles': WORLDS.evmForeign,
    'a no of finality passes over an inclusion': WORLDS.evmLiar,
  };
  const expected: Record<Broken, string> = {
    'a next try after failed was told': 'paid after the partner was told that it was not',
    'a stored refusal ends an accepted effect': 'released over testimony by REJECTION_STORED',
    'later word testimony is dropped': 'lost testimony: accepted/o0',
    'a failed object that frees its key is dead': 'paid after the partner was told that it was not',
    'a fresh look is content with a time-out': 'paid after the partner was told that it was not',
    "two persons' word is content with a time-out": 'paid after the partner was told that it was not',
    'a first send may pause': 'paid after the partner was told that it was not',
    'the key window is half the retention': 'sent outside the key window',
    'a re-opened effect is sent again': 'sent again after a re-open',
    'a contradicted successor is sent on': 'the live effect of a contradicted subject is sent on',
    "a stale worker's yes is left lying": 'lost testimony: accepted/o0',
    'a reverted foreign copy of our payload settles': 'settled, and nothing moved',
    'a no of finality passes over an inclusion': 'paid after the partner was told that it was not',
  };
  for (const broken of BROKEN) {
    const found = search(where[broken], broken);
    t.diagnostic(`${broken}: ${found.fault ?? 'not found'}, ${found.trace.length} steps, ${found.states} states`);
    assert.equal(found.fault, expected[broken], `${broken}\n${found.trace.join('\n')}`);
  }
});
