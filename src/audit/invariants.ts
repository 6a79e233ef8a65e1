/**
 * The invariants that the database alone can show: each is a view `payonce.broken_…` (migration 0005), whose rows are what
 * is broken. The same check in every test's teardown, in `payonce verify` and on a timer in production.
 *
 * Promises: every view is read, in one snapshot each, so that it may run beside live traffic; a breach names the invariant,
 * its subject and what is wrong with it. Never: a repair; a judgement on what only the rail's own books can tell
 * (`oracle.ts`).
 */
import type { Query } from '../db/pool.ts';

/** What each says, as in the specification; the view of `L1` is `payonce.broken_l1`. */
export const INVARIANTS = {
  L1: 'entries of a posting sum to 0 per asset, and so does each asset over all accounts',
  L2: 'each account is one chain of entries without gaps',
  L3: 'a balance is the sum of its entries and the last of them',
  L4: 'no account is below its floor less its deficit',
  L5: 'a posting key names an object whose amount, asset and account agree',
  L6: 'open holds are the open effects’ amounts',
  L7: 'entries are immutable',
  L8: 'a reversal names its original, once',
  E3: 'settled has exactly one confirmation, released none and its hold back',
  E5: 'only the table’s edges, in a history without gaps',
  E6: 'the seal and the variant were stored before the first byte left',
  E8: 'a second effect only after an evidenced release of the first',
  E9: 'one effect per signer and nonce, and no nonce left out',
  E10: 'no release without a named no of the right rank',
  E11: 'no release over testimony, no believed one before lateness and a fresh look',
  E13: 'every testimony is counted, and none stands against a release unseen',
  E15: 'one answer per partner and key',
  E16: 'one open effect per lane',
  E17: 'returns never exceed what was sent',
  I1: 'each final movement has one class, and one credit iff it is a deposit',
  M1: 'amount = settled + reserved + remaining, and sellers’ money is set aside',
  M2: 'an order’s status follows from what remains, its legs and its deadline',
  M3: 'a leg settles once, and none is made after the close',
  M4: 'one trade per leg of a liquidity provider',
  P1: 'accrued = paid + in flight + carried, and each event of volume in one payout at most',
  N1: 'every end has its event and every event its deliveries',
  N2: 'events of a subject are numbered without gaps',
  V2: 'open, ended and in cases are all',
  AUDIT: 'the audit log is one chain',
} as const;

export type InvariantName = keyof typeof INVARIANTS;

export interface Breach {
  readonly invariant: string;
  /** What it is about: `effect 7`, `account 12 seq 3`. */
  readonly subject: string;
  readonly detail: string;
}

export interface InvariantOptions {
  readonly only?: readonly InvariantName[];
  onProgress?(done: number, total: number, invariant: InvariantName): void;
}

/** Broken books are broken throughout; the first of each kind say enough. */
const BREACHES_LISTED_MAX = 100;

export async function checkInvariants(query: Query, options: InvariantOptions = {}): Promise<Breach[]> {
  const names = options.only ?? (Object.keys(INVARIANTS) as InvariantName[]);
  const breaches: Breach[] = [];
  for (const [index, name] of names.entries()) {
    const { rows } = await query.query<{ subject: string | null; detail: string | null }>(
      `select subject, detail from payonce.broken_${name.toLowerCase()} limit ${BREACHES_LISTED_MAX}`,
    );
    for (const row of rows)
      breaches.push({ invariant: name, subject: row.subject ?? '?', detail: row.detail ?? INVARIANTS[name] });
    options.onProgress?.(index + 1, names.length, name);
  }
  return breaches;
}
