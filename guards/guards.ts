/*
 * The guards that hold the promise, as data. Each names one place in the code, what it looks like with the guard taken out,
 * and the test that must then go red, with the reason that must be in its message. `npm run guards` does exactly that in a
 * copy of the tree. A guard without a place yet names the step of the plan that brings it (see test/cases.ts). Where two
 * layers hold the same thing, each has an entry, and its test takes the other layer away (req W13).
 *
 * To add one: write the test first, then an entry with the exact text of the guard (it must occur once in the file).
 */
import { ENGINE } from './engine.ts';
import type { Guard } from './guard.ts';
import { LEDGER } from './ledger.ts';
import { OUTSIDE } from './outside.ts';
import { SCHEMA } from './schema.ts';

export type { Guard } from './guard.ts';

/** What has no code yet. */
const LATER: Guard[] = [
  { name: 'same key on re-request', step: 2 },
  { name: 'stored body', step: 2 },
  { name: 'mismatched echo is nothing', step: 2 },
  { name: 'readable NOT_FOUND in the fresh look', step: 2 },
  { name: 'retention margin', step: 2 },
  { name: 'TRON margin and solidity', step: 3 },
  { name: 'leg remaining check', step: 4 },
];

export const GUARDS: Guard[] = [...ENGINE, ...LEDGER, ...OUTSIDE, ...SCHEMA, ...LATER];
