/*
 * The guards that hold the promise, as data. Each names one place in the code, what it looks like with the guard taken out,
 * and the test that must then go red, with the reason that must be in its message. `npm run guards` does exactly that in a
 * copy of the tree. A guard without a place yet names the step of the plan that brings it (see test/cases.ts). Where two
 * layers hold the same thing, each has an entry, and its test takes the other layer away (req W13).
 *
 * To add one: write the test first, then an entry with the exact text of the guard (it must occur once in the file).
 */
import { BANK } from './bank.ts';
import { COMPARED } from './chains.ts';
import { COLLECTED } from './collections.ts';
import { ENGINE } from './engine.ts';
import { TRADED } from './escrow.ts';
import type { Guard } from './guard.ts';
import { LEDGER } from './ledger.ts';
import { SENT_TO_MANY } from './multi-send.ts';
import { OUTSIDE } from './outside.ts';
import { P2P } from './p2p.ts';
import { PAID_OUT } from './payouts.ts';
import { REALIZED } from './realizations.ts';
import { SCHEMA } from './schema.ts';
import { BOUGHT } from './supplies.ts';
import { TRON } from './tron.ts';

export type { Guard } from './guard.ts';

export const GUARDS: Guard[] = [
  ...ENGINE,
  ...BANK,
  ...LEDGER,
  ...OUTSIDE,
  ...SCHEMA,
  ...BOUGHT,
  ...TRON,
  ...COLLECTED,
  ...COMPARED,
  ...REALIZED,
  ...TRADED,
  ...P2P,
  ...SENT_TO_MANY,
  ...PAID_OUT,
];
