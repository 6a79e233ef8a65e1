/*
 * Goal: what a second look makes of a settled effect, in every mix of what nodes may show. Method: the pure rule, by a table.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import type { Observation, ObservationKind } from '../../src/engine/rail.ts';
import { judgeAgain } from '../../src/engine/second-look.ts';

const ENDED = new Date('2026-03-01T00:00:00Z');
const LATER_MS = ENDED.getTime() + 3_600_000;

type Shown = readonly [operator: string, kind: ObservationKind, fields?: Partial<Observation>];
function seen(shown: readonly Shown[]): Observation[] {
  return shown.map(([operator, kind, fields], index) => ({
    kind,
    source: `node-${index}`,
    operator,
    witness: false,
    objectId: null,
    detail: '',
    cost: null,
    ...fields,
  }));
}
const PAST = { witness: true, finalMs: LATER_MS } as const;

const TABLE: readonly (readonly [says: string, why: string, shown: readonly Shown[]])[] = [
  [
    'stands',
    'two operators show it',
    [
      ['a', 'final_success'],
      ['b', 'final_success'],
    ],
  ],
  [
    'stands',
    'the only operator shows it',
    [
      ['a', 'final_success'],
      ['a', 'final_success'],
    ],
  ],
  [
    'stands',
    'two against one',
    [
      ['a', 'final_success'],
      ['b', 'final_success'],
      ['c', 'expired_unincluded'],
    ],
  ],
  [
    'unclear',
    'the other operator is silent',
    [
      ['a', 'final_success'],
      ['b', 'unreadable'],
    ],
  ],
  [
    'unclear',
    'the other one lags',
    [
      ['a', 'final_success'],
      ['b', 'not_found', { witness: true, finalMs: ENDED.getTime() }],
    ],
  ],
  [
    'unclear',
    'the other one is no witness',
    [
      ['a', 'final_success'],
      ['b', 'not_found', { finalMs: LATER_MS }],
    ],
  ],
  [
    'unclear',
    'nobody says anything',
    [
      ['a', 'unreadable'],
      ['b', 'blocked'],
    ],
  ],
  [
    'unclear',
    'it is in a block again',
    [
      ['a', 'included'],
      ['b', 'not_found', PAST],
    ],
  ],
  [
    'unclear',
    'not there, by nodes that may not be so far',
    [
      ['a', 'not_found'],
      ['b', 'not_found'],
    ],
  ],
  [
    'gone',
    'one against one',
    [
      ['a', 'final_success'],
      ['b', 'expired_unincluded'],
    ],
  ],
  [
    'gone',
    'past its block it is not there',
    [
      ['a', 'final_success'],
      ['b', 'not_found', PAST],
    ],
  ],
  [
    'gone',
    'reverted at one',
    [
      ['a', 'final_success'],
      ['b', 'reverted_final'],
    ],
  ],
  [
    'gone',
    'two nodes of one operator are one',
    [
      ['a', 'final_success'],
      ['a', 'final_success'],
      ['b', 'spent_by_other'],
    ],
  ],
  [
    'gone',
    'the one that said it is silent',
    [
      ['a', 'unreadable'],
      ['b', 'cancel_mined'],
    ],
  ],
];

test('a second look believes no operator alone against another, and no silence, lag or gap (case F5, inv E1)', () => {
  for (const [says, why, shown] of TABLE) {
    const found = judgeAgain(seen(shown), ENDED, false);
    assert.equal(found.says, says, why);
    const denied = says === 'gone' && shown.some(([, kind]) => kind === 'final_success');
    assert.equal(found.contradiction !== null, denied, why);
  }
});

test('where blocks are known to have been taken back, a plain "not there" that nobody denies counts (case F5)', () => {
  const missed = seen([
    ['a', 'not_found'],
    ['b', 'unreadable'],
  ]);
  assert.equal(judgeAgain(missed, ENDED, true).says, 'gone');
  const shown = seen([
    ['a', 'not_found'],
    ['b', 'final_success'],
  ]);
  assert.equal(judgeAgain(shown, ENDED, true).says, 'unclear', 'one operator alone closes no case either');
});
