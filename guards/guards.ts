/*
 * The guards that hold the promise, as data. Each names one place in the code, what it looks like with the guard taken out,
 * and the test that must then go red, with the reason that must be in its message. `npm run guards` does exactly that in a
 * copy of the tree. A guard without a place yet names the step of the plan that brings it (see test/cases.ts).
 *
 * To add one: write the test first, then an entry with the exact text of the guard (it must occur once in the file).
 */
type Place = {
  /** Path from the root: TypeScript or a migration. */
  file: string;
  /** The guard's exact text; must occur exactly once in the file. */
  find: string;
  /** The same place without the guard. Must still parse: a syntax error is not the reason. */
  replace: string;
  /** The test file whose test must go red. */
  test: string;
  /** The title of that test. Several tests may match; at least one must fail for the reason, none for another. */
  title: RegExp;
  /** What the failure's message must say. */
  expect: RegExp;
};

export type Guard = { name: string } & (Place | { step: number });

export const GUARDS: Guard[] = [
  { name: 'affected-row verdict', step: 1 },
  { name: 'state predicate', step: 1 },
  { name: 'UNIQUE idem_key', step: 1 },
  { name: 'SKIP LOCKED', step: 1 },
  { name: 'account lock', step: 1 },
  { name: 'floor check', step: 1 },
  { name: 'seal before send', step: 1 },
  { name: 'same key on re-request', step: 2 },
  { name: 'stored body', step: 2 },
  { name: '"not found" is nothing', step: 1 },
  { name: 'unknown code is nothing', step: 1 },
  { name: 'mismatched echo is nothing', step: 2 },
  { name: 'evidence filter (only codes after the key check)', step: 2 },
  { name: 'rank of evidence', step: 1 },
  { name: 'lateness and fresh look before a believed release', step: 1 },
  { name: 'two witnesses for absence', step: 1 },
  { name: 'send_by', step: 1 },
  { name: 'nothing sent after a re-open', step: 1 },
  { name: 'readable NOT_FOUND in the fresh look', step: 1 },
  { name: 'no effect after failed', step: 1 },
  { name: 'key window minus lateness', step: 2 },
  { name: 'testimonies counted on the row', step: 1 },
  { name: 'testimony committed before further calls', step: 1 },
  { name: 're-open on late testimony', step: 1 },
  { name: 'lease fence', step: 1 },
  { name: 'lane', step: 1 },
  { name: 'busy instead of waiting', step: 1 },
  { name: 'own variant is not "other"', step: 1 },
  { name: 'finality before absence', step: 1 },
  { name: 'TRON margin and solidity', step: 3 },
  { name: 'one exclusion group per nonce', step: 1 },
  { name: 're-entrancy', step: 1 },
  { name: 'no timer release', step: 1 },
  { name: 'outbox in the same transaction', step: 1 },
  { name: 'stable event id', step: 1 },
  { name: 'deposit key with log index and chain', step: 1 },
  { name: 'own-wallet transfers are not deposits', step: 1 },
  { name: 'finality for deposits', step: 1 },
  { name: 'leg remaining check', step: 4 },
  { name: 'no wire in a transaction', step: 1 },
  { name: 'wallet quarantine', step: 1 },
  { name: '16 per signer', step: 1 },
  { name: 'stored refusals', step: 1 },
  { name: 'derived key', step: 2 },
  { name: 'key scoped to partner', step: 1 },
  { name: 'other body refused', step: 1 },
  { name: 'HMAC and timestamp', step: 1 },
  { name: 'SSRF pin and no redirects', step: 7 },
  { name: 'append-only', step: 1 },
  { name: 'four eyes', step: 1 },
  { name: 'amount never a number', step: 1 },
  { name: 'retention margin', step: 2 },
];
