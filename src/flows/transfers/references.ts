/**
 * Who pays under a reference: a transfer for ever, a line of a provider's batch while it may be paid. One rule for both, in
 * `payonce.reference_holders`; the database refuses a second one whatever asks for it (`payonce.take_reference`).
 *
 * Lock order: a partner's files (advisory) after keys and before day totals. A file takes it alone, single transfers share it:
 * what a file sees of references stands until it is stored, and the other way round. Isolation: READ COMMITTED.
 */
import { type Query, toText, type Tx } from '../../db/pool.ts';

const LOCK_ALONE = `select pg_advisory_xact_lock(hashtextextended('payonce.transfer_batches ' || $1, 0))`;
const LOCK_SHARED = `select pg_advisory_xact_lock_shared(hashtextextended('payonce.transfer_batches ' || $1, 0))`;

/** One file of a partner at a time: the second sees the lines of the first. */
export async function lockFiles(tx: Tx, partnerId: string): Promise<void> {
  await tx.query(LOCK_ALONE, [partnerId]);
}

/** For single transfers: no file of these partners is stored meanwhile. */
export async function shareFiles(tx: Tx, partnerIds: readonly string[]): Promise<void> {
  for (const partnerId of [...new Set(partnerIds)].sort()) await tx.query(LOCK_SHARED, [partnerId]);
}

const HOLDERS = `select u.n, h.subject_type, h.subject_id, h.line
from unnest($1::int[], $2::text[], $3::text[]) as u (n, partner_id, external_id)
cross join lateral payonce.reference_holders(u.partner_id, u.external_id) h
order by u.n, h.subject_type, h.subject_id, h.line`;

export interface ReferenceHolder {
  readonly type: 'transfer' | 'transfer_batch';
  readonly id: string;
  /** Of a batch. */
  readonly line: number | null;
}

/** By the place of each in the list; absent where nobody holds it. */
export async function findHolders(
  query: Query,
  list: readonly { readonly partnerId: string; readonly externalId: string | null }[],
): Promise<Map<number, ReferenceHolder>> {
  const named = list.map((one, n) => ({ ...one, n })).filter((one) => one.externalId !== null);
  if (named.length === 0) return new Map();
  const { rows } = await query.query(HOLDERS, [
    named.map((one) => one.n),
    named.map((one) => one.partnerId),
    named.map((one) => one.externalId),
  ]);
  return new Map(
    rows.map((row) => [
      row['n'] as number,
      {
        type: row['subject_type'] as ReferenceHolder['type'],
        id: toText(row['subject_id'], 'subject_id'),
        line: row['line'] as number | null,
      },
    ]),
  );
}

export function holderInWords({ type, id, line }: ReferenceHolder): string {
  return type === 'transfer' ? `transfer ${id}` : `line ${line ?? '?'} of ${id}`;
}
