/**
 * What an account's owner reads: its entries page by page, its balance at a past time or entry, a partner's balances.
 *
 * Entries are read by seq, which has no gaps and no late comers: a page boundary never skips an entry, whatever commits in
 * between. Locks: none. Isolation: one statement each.
 */
import { type Query, toText, toUnits } from '../db/pool.ts';
import { PayonceError } from '../kernel/errors.ts';
import * as limits from '../kernel/limits.ts';

export interface StatementEntry {
  readonly seq: bigint;
  /** Units; positive is credit. */
  readonly amount: bigint;
  readonly balanceAfter: bigint;
  readonly postingId: bigint;
  readonly key: string;
  readonly reference: string;
  readonly createdAt: Date;
}

const ENTRIES = `select e.seq, e.amount, e.balance_after, e.posting_id, p.idem_key, p.reference, e.created_at
from payonce.ledger_entries e
join payonce.postings p on p.id = e.posting_id
where e.account_id = $1
  and e.seq < $2
order by e.seq desc
limit $3`;

/** Above every seq. */
const SEQ_END = 2n ** 63n - 1n;

/** Newest first. `cursor` is the `next` of the page before; one of another account is refused. */
export async function loadEntries(
  query: Query,
  accountId: bigint,
  page: { cursor?: string; itemsMax?: number } = {},
): Promise<{ entries: StatementEntry[]; next: string | null }> {
  const items = Math.min(page.itemsMax ?? limits.PAGE_ITEMS, limits.PAGE_ITEMS_MAX);
  const before = page.cursor === undefined ? SEQ_END : fromCursor(page.cursor, accountId);
  const { rows } = await query.query(ENTRIES, [accountId, before, items + 1]);
  const entries = rows.slice(0, items).map((row) => ({
    seq: toUnits(row['seq'], 'seq'),
    amount: toUnits(row['amount'], 'amount'),
    balanceAfter: toUnits(row['balance_after'], 'balance_after'),
    postingId: toUnits(row['posting_id'], 'posting_id'),
    key: toText(row['idem_key'], 'idem_key'),
    reference: toText(row['reference'], 'reference'),
    createdAt: row['created_at'] as Date,
  }));
  const last = entries.at(-1);
  return { entries, next: rows.length > items && last !== undefined ? toCursor(accountId, last.seq) : null };
}

function toCursor(accountId: bigint, seq: bigint): string {
  return Buffer.from(`${accountId}.${seq}`).toString('base64url');
}

function fromCursor(cursor: string, accountId: bigint): bigint {
  const match = /^(\d{1,19})\.(\d{1,19})$/.exec(Buffer.from(cursor, 'base64url').toString());
  if (match?.[1] !== accountId.toString() || match[2] === undefined || BigInt(match[2]) > SEQ_END) {
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: 'The cursor does not belong to this list',
      pointer: 'cursor',
      expected: 'the next of the page before, unchanged',
    });
  }
  return BigInt(match[2]);
}

export interface PastBalance {
  readonly balance: bigint;
  /** Of the last entry that counts; 0: the account was still empty. */
  readonly seq: bigint;
}

const BALANCE_AT_SEQ = `select e.seq, e.balance_after
from payonce.ledger_entries e
where e.account_id = $1
  and e.seq <= $2
order by e.seq desc
limit 1`;

/** An account's entries carry times in the order of their seq (both are given under its lock), so the last entry up to a
 *  time is found by halving: twenty look-ups in a million entries and no index that every posting would have to pay for. */
const SEQ_AT_TIME = `with recursive search (low, high) as (
  select 0::bigint, a.seq
  from payonce.accounts a
  where a.id = $1
  union all
  select case when e.created_at <= $2 then e.seq else s.low end,
         case when e.created_at <= $2 then s.high else e.seq - 1 end
  from search s
  join payonce.ledger_entries e on e.account_id = $1 and e.seq = (s.low + s.high + 1) / 2
  where s.low < s.high
)
select low as seq
from search
where low >= high`;

/** The balance right after entry `seq`, or after the last one before it. */
export async function balanceAtSeq(query: Query, accountId: bigint, seq: bigint): Promise<PastBalance> {
  const { rows } = await query.query(BALANCE_AT_SEQ, [accountId, seq]);
  const row = rows[0];
  if (row === undefined) return { balance: 0n, seq: 0n };
  return { balance: toUnits(row['balance_after'], 'balance_after'), seq: toUnits(row['seq'], 'seq') };
}

/** The balance that stood at `time`, entries of that very moment included. */
export async function balanceAt(query: Query, accountId: bigint, time: Date): Promise<PastBalance> {
  const { rows } = await query.query(SEQ_AT_TIME, [accountId, time]);
  const row = rows[0];
  return balanceAtSeq(query, accountId, row === undefined ? 0n : toUnits(row['seq'], 'seq'));
}

export interface PartnerBalance {
  readonly accountId: bigint;
  readonly code: string;
  readonly assetId: string;
  readonly balance: bigint;
  readonly held: bigint;
  /** balance − held; negative only where a re-opened effect took the account under its floor. */
  readonly available: bigint;
  readonly deficit: bigint;
}

const PARTNER_BALANCES = `select a.id, a.code, a.asset_id, a.balance, a.held, a.deficit
from payonce.accounts a
where a.partner_id = $1
order by a.asset_id, a.id`;

export async function loadBalances(query: Query, partnerId: string): Promise<PartnerBalance[]> {
  const { rows } = await query.query(PARTNER_BALANCES, [partnerId]);
  return rows.map((row) => {
    const balance = toUnits(row['balance'], 'balance');
    const held = toUnits(row['held'], 'held');
    return {
      accountId: toUnits(row['id'], 'id'),
      code: toText(row['code'], 'code'),
      assetId: toText(row['asset_id'], 'asset_id'),
      balance,
      held,
      available: balance - held,
      deficit: toUnits(row['deficit'], 'deficit'),
    };
  });
}
