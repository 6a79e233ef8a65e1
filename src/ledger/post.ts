/**
 * Posting: the one way in which balances and holds move.
 *
 * `post` takes a batch and answers one verdict per item, in one round trip, with the result of the items having come one
 * after another; the decision is made under the account locks (J5), which are taken by id before anything is inserted
 * (W6). `exists` and `insufficient` are results and never roll the caller back (W5). A posting's entries sum to zero per
 * asset; positive is credit (we owe it), negative is debit (we have it).
 * Never: a posting without a key, an edit of an entry, a balance written by anything else.
 *
 * Lock order: accounts by id, then holds by id. Isolation: READ COMMITTED, set by `tx`.
 */
import type { Pool, Tx } from '../db/pool.ts';
import { InvariantBroken } from '../kernel/errors.ts';

export interface Entry {
  readonly accountId: bigint;
  /** Units; positive is credit. Not zero. */
  readonly amount: bigint;
}

/** A balanced act with its key. `closesHold` ends that hold in the same step: what it held becomes free for the entries. */
export interface Posting {
  readonly kind: 'post';
  readonly key: string;
  readonly reference: string;
  readonly entries: readonly Entry[];
  readonly effectId?: bigint | undefined;
  readonly reverses?: bigint | undefined;
  readonly closesHold?: string | undefined;
}
/** Sets an amount aside: available = balance − held. */
export interface HoldOpen {
  readonly kind: 'hold';
  readonly holdKey: string;
  readonly accountId: bigint;
  readonly amount: bigint;
}
/** Gives a hold back. */
export interface HoldVoid {
  readonly kind: 'void';
  readonly holdKey: string;
}
export type LedgerItem = Posting | HoldOpen | HoldVoid;

export type Verdict =
  | { readonly verdict: 'posted'; readonly postingId: bigint }
  /** The key was booked before. `effectId` tells by whom: under another effect it is a contradiction, never quiet. */
  | { readonly verdict: 'exists'; readonly postingId: bigint | null; readonly effectId: bigint | null }
  | { readonly verdict: 'held' | 'voided' | 'insufficient' | 'hold_gone' };

const POST = `select item, verdict, posting_id, posting_effect
from payonce.post($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::int[], $8::bigint[], $9::numeric[])`;

interface VerdictRow extends Record<string, unknown> {
  item: number;
  verdict: string;
  posting_id: bigint | null;
  posting_effect: bigint | null;
}

/**
 * Books a batch. Durable with the caller's commit. Items that refer to the same account see each other's result in order.
 * Errors: a broken invariant (unbalanced entries, an account twice in one posting) is thrown and books nothing.
 */
export async function post(tx: Tx, items: readonly LedgerItem[]): Promise<Verdict[]> {
  if (items.length === 0) return [];
  return toVerdicts(items, (await tx.query<VerdictRow>(POST, toValues(items))).rows);
}

/** The same as a transaction of its own, in one round trip; durable when it returns. Repeatable, since each item has a key:
 *  if the answer was lost on the way, the verdicts are those of a repetition (`exists`, `hold_gone`). */
export async function postAlone(pool: Pool, items: readonly LedgerItem[]): Promise<Verdict[]> {
  if (items.length === 0) return [];
  return toVerdicts(items, (await pool.one<VerdictRow>('post', POST, toValues(items))).rows);
}

function toValues(items: readonly LedgerItem[]): string[] {
  const lines = { item: [] as number[], account: [] as bigint[], amount: [] as bigint[] };
  items.forEach((item, index) => {
    for (const line of linesOf(item)) {
      lines.item.push(index + 1);
      lines.account.push(line.accountId);
      lines.amount.push(line.amount);
    }
  });
  return [
    toArray(items.map((item) => item.kind)),
    toArray(items.map((item) => quoted(item.kind === 'post' ? item.key : ''))),
    toArray(items.map((item) => quoted(item.kind === 'post' ? item.reference : ''))),
    toArray(items.map((item) => (item.kind === 'post' ? (item.effectId ?? 'NULL') : 'NULL'))),
    toArray(items.map((item) => (item.kind === 'post' ? (item.reverses ?? 'NULL') : 'NULL'))),
    toArray(
      items.map((item) => (item.kind === 'post' && item.closesHold === undefined ? 'NULL' : quoted(holdOf(item)))),
    ),
    toArray(lines.item),
    toArray(lines.account),
    toArray(lines.amount),
  ];
}

/** PostgreSQL's array text, made here: the driver's own way, element by element, took a third of this process's time. */
function toArray(elements: readonly (string | number | bigint)[]): string {
  return `{${elements.join(',')}}`;
}

function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&')}"`;
}

function holdOf(item: LedgerItem): string {
  return item.kind === 'post' ? (item.closesHold ?? '') : item.holdKey;
}

function toVerdicts(items: readonly LedgerItem[], rows: readonly VerdictRow[]): Verdict[] {
  if (rows.length !== items.length) throw new InvariantBroken(`post answered ${rows.length} of ${items.length} items`);
  return rows.map(toVerdict);
}

function linesOf(item: LedgerItem): readonly Entry[] {
  if (item.kind === 'void') return [];
  if (item.kind === 'hold') return [{ accountId: item.accountId, amount: item.amount }];
  if (item.entries.length < 2) throw new InvariantBroken(`posting ${item.key} has fewer than two entries`);
  return item.entries;
}

function toVerdict(row: VerdictRow): Verdict {
  switch (row.verdict) {
    case 'posted':
      if (row.posting_id === null) throw new InvariantBroken('a posting was booked without an id');
      return { verdict: 'posted', postingId: row.posting_id };
    case 'exists':
      return { verdict: 'exists', postingId: row.posting_id, effectId: row.posting_effect };
    case 'held':
    case 'voided':
    case 'insufficient':
    case 'hold_gone':
      return { verdict: row.verdict };
    default:
      throw new InvariantBroken(`post answered "${row.verdict}"`);
  }
}
