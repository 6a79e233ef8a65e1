/* The guards of collections. Fields: guard.ts. */
import type { PlacedGuard } from './guard.ts';

const SWEEPS = 'test/flows/collections.test.ts';
const DECISION = /each reason to leave it has its name/;

export const COLLECTED: PlacedGuard[] = [
  {
    name: 'a cycle is one process’s turn',
    file: 'src/flows/collections/store.ts',
    find: '    and ($3 or q.next_at <= payonce.now())',
    replace: '    and ($3 or q.next_at is not null)',
    test: SWEEPS,
    title: /the hour is one process’s turn/,
    expect: /one process had the hour/,
  },
  {
    name: 'dust stays',
    file: 'src/flows/collections/plan.ts',
    find: "  if (amount < holding.min) return leave('below_min');\n",
    replace: '',
    test: SWEEPS,
    title: DECISION,
    expect: /below_min/,
  },
  {
    name: 'a coin’s sweep leaves what it may burn',
    file: 'src/flows/collections/plan.ts',
    find: 'const amount = holding.units - holding.keep;',
    replace: 'const amount = holding.units;',
    test: SWEEPS,
    title: DECISION,
    expect: /100n !== 10n/,
  },
  {
    name: 'a sweep that failed is not made again by the hour',
    file: 'src/flows/collections/plan.ts',
    find: "  if (last?.undecided === true) return leave('in_review');\n",
    replace: '',
    test: SWEEPS,
    title: /is not made again by the hour/,
    expect: /a person has not decided yet/,
  },
];
