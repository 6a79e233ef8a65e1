/**
 * Corrections. Nothing in the ledger is edited: a wrong posting is answered by a new one with the opposite entries, which
 * names it, once (inv L8). The incident's ledger, 100 short, was corrected by a new CREDIT in the same way (W16).
 *
 * Lock order: accounts by id (those of the posting that is reversed). Isolation: READ COMMITTED, set by `tx`.
 */
import { type Tx, toText, toUnits } from '../db/pool.ts';
import { post, type Verdict } from './post.ts';

export interface Reversal {
  readonly postingId: bigint;
  /** Key and reference of the new posting. */
  readonly key: string;
  readonly reference: string;
  readonly effectId?: bigint;
}

export type ReversalVerdict =
  | Verdict
  | { readonly verdict: 'reversed_before'; readonly postingId: bigint; readonly key: string }
  | { readonly verdict: 'not_found' };

const LOCK_ACCOUNTS = `select a.id
from payonce.accounts a
where a.id = any (array(select e.account_id from payonce.ledger_entries e where e.posting_id = $1))
order by a.id
for no key update`;

const ENTRIES = `select e.account_id, e.amount
from payonce.ledger_entries e
where e.posting_id = $1
order by e.account_id`;

const REVERSED_BY = `select p.id, p.idem_key
from payonce.postings p
where p.reverses = $1`;

/** Books the opposite of a posting. `insufficient` where an account's floor forbids it: then it is a person's decision. */
export async function reverse(tx: Tx, reversal: Reversal): Promise<ReversalVerdict> {
  // Two reversals of one posting have the same accounts: the second sees the first's row once it has the locks.
  await tx.query(LOCK_ACCOUNTS, [reversal.postingId]);
  const { rows: entries } = await tx.query(ENTRIES, [reversal.postingId]);
  if (entries.length === 0) return { verdict: 'not_found' };
  const { rows: reversedBy } = await tx.query(REVERSED_BY, [reversal.postingId]);
  const earlier = reversedBy[0];
  if (earlier !== undefined && earlier['idem_key'] !== reversal.key) {
    return {
      verdict: 'reversed_before',
      postingId: toUnits(earlier['id'], 'id'),
      key: toText(earlier['idem_key'], 'idem_key'),
    };
  }
  const verdicts = await post(tx, [
    {
      kind: 'post',
      key: reversal.key,
      reference: reversal.reference,
      effectId: reversal.effectId,
      reverses: reversal.postingId,
      entries: entries.map((entry) => ({
        accountId: toUnits(entry['account_id'], 'account_id'),
        amount: -toUnits(entry['amount'], 'amount'),
      })),
    },
  ]);
  return verdicts[0] as Verdict;
}
