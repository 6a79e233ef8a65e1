/**
 * Recomputes the whole ledger from its entries and names whatever does not agree: every chain link by link (inv L1–L4),
 * every posting's sum per asset, every account's balance and holds, every asset's sum over all accounts.
 *
 * Promises: reads page by page, so memory stays the same whatever the ledger's size; may run beside live traffic, and holds
 * no snapshot open (a held snapshot slows every queue in the database): an account row is read first, and of its entries
 * those up to the seq that it bore, which no longer change. After a fault it goes on from what is stored, so one altered
 * entry is one broken link and not a million.
 * Never: a repair. A correction is a new posting, by a person (`reverse.ts`).
 *
 * Not told: whether a past balance was below its floor. Only the present deficit is on record, and a re-opened effect may
 * have taken the account under its floor by right.
 */
import { type Query, type Row, toText, toUnits } from '../db/pool.ts';

export type FaultKind =
  | 'seq_gap'
  | 'broken_link'
  | 'entry_asset'
  | 'no_account'
  | 'balance'
  | 'entry_sum'
  | 'held'
  | 'below_floor'
  | 'posting_sum'
  | 'posting_empty'
  | 'posting_missing'
  | 'asset_sum';

export interface Fault {
  readonly kind: FaultKind;
  readonly accountId?: bigint;
  readonly seq?: bigint;
  readonly postingId?: bigint;
  readonly assetId?: string;
  readonly expected: string;
  readonly got: string;
}

export interface Verification {
  readonly accounts: bigint;
  readonly entries: bigint;
  readonly postings: bigint;
  /** At most FAULTS_LISTED_MAX of them; `faultCount` counts all. */
  readonly faults: readonly Fault[];
  readonly faultCount: number;
}

export interface Progress {
  readonly phase: 'accounts' | 'postings';
  readonly done: bigint;
  readonly total: bigint;
}

/** What is read at once: a page of entries is about 2 MB here. Larger pages were no faster. */
const ENTRIES_PAGE = 5_000;
const ACCOUNTS_PAGE = 1_000;
/** Ids per look at the postings; the sums are made in the database, only what is wrong comes back. */
const POSTINGS_PAGE = 20_000n;
/** A ledger that is wrong throughout shall not fill the memory with its faults. */
export const FAULTS_LISTED_MAX = 1_000;

interface AccountRow {
  readonly assetId: string;
  readonly balance: bigint;
  readonly seq: bigint;
  /** What the entries read so far say. */
  chainSeq: bigint;
  chainBalance: bigint;
  sum: bigint;
}

export async function verify(query: Query, onProgress: (progress: Progress) => void = () => {}): Promise<Verification> {
  const faults: Fault[] = [];
  let faultCount = 0;
  const report = (fault: Fault): void => {
    faultCount += 1;
    if (faults.length < FAULTS_LISTED_MAX) faults.push(fault);
  };
  const { accounts, entries } = await verifyAccounts(query, report, onProgress);
  const postings = await verifyPostings(query, report, onProgress);
  await verifyAssets(query, report);
  return { accounts, entries, postings, faults, faultCount };
}

/** One sentence a fault, for the command line and the alert. */
export function describeFault(fault: Fault): string {
  const place = [
    fault.accountId === undefined ? undefined : `account ${fault.accountId}`,
    fault.seq === undefined ? undefined : `seq ${fault.seq}`,
    fault.postingId === undefined ? undefined : `posting ${fault.postingId}`,
    fault.assetId === undefined ? undefined : `asset ${fault.assetId}`,
  ].filter((part) => part !== undefined);
  return `${fault.kind} at ${place.join(', ')}: expected ${fault.expected}, got ${fault.got}`;
}

type Report = (fault: Fault) => void;

const TOTALS = `select count(*) as accounts, coalesce(sum(a.seq), 0) as entries
from payonce.accounts a`;

/** Balance, holds and seq of an account in one statement, hence of one moment. */
const ACCOUNTS = `select a.id, a.asset_id, a.balance, a.held, a.deficit, a.floor, a.seq,
       coalesce((select sum(h.amount) from payonce.holds h where h.account_id = a.id and h.state = 'open'), 0) as open_holds
from payonce.accounts a
where a.id > $1
order by a.id
limit $2`;

const ENTRIES = `select e.account_id, e.seq, e.posting_id, e.asset_id, e.amount, e.balance_after
from payonce.ledger_entries e
where (e.account_id, e.seq) > ($1, $2)
  and e.account_id <= $3
order by e.account_id, e.seq
limit $4`;

/** Above every account id: the last page of accounts also takes entries that belong to no account. */
const ID_END = 2n ** 63n - 1n;

async function verifyAccounts(
  query: Query,
  report: Report,
  onProgress: (progress: Progress) => void,
): Promise<{ accounts: bigint; entries: bigint }> {
  const totals = (await query.query(TOTALS)).rows[0] ?? {};
  const total = toUnits(totals['entries'], 'entries');
  let accounts = 0n;
  let entries = 0n;
  for (let from = 0n; from < ID_END; ) {
    const { rows } = await query.query(ACCOUNTS, [from, ACCOUNTS_PAGE]);
    const page = new Map(rows.map((row) => [toUnits(row['id'], 'id'), toAccount(row, report)]));
    const to = rows.length < ACCOUNTS_PAGE ? ID_END : toUnits(rows.at(-1)?.['id'], 'id');
    for (let cursor = [from, ID_END]; ; ) {
      const { rows: entryRows } = await query.query(ENTRIES, [cursor[0], cursor[1], to, ENTRIES_PAGE]);
      for (const row of entryRows) entries += verifyEntry(row, page, report);
      onProgress({ phase: 'accounts', done: entries, total });
      const last = entryRows.at(-1);
      if (last === undefined || entryRows.length < ENTRIES_PAGE) break;
      cursor = [toUnits(last['account_id'], 'account_id'), toUnits(last['seq'], 'seq')];
    }
    for (const [accountId, account] of page) verifyEnd(accountId, account, report);
    accounts += BigInt(page.size);
    from = to;
  }
  return { accounts, entries };
}

function toAccount(row: Row, report: Report): AccountRow {
  const accountId = toUnits(row['id'], 'id');
  const balance = toUnits(row['balance'], 'balance');
  const held = toUnits(row['held'], 'held');
  const openHolds = toUnits(row['open_holds'], 'open_holds');
  if (held !== openHolds) {
    report({ kind: 'held', accountId, expected: `open holds of ${openHolds}`, got: `held ${held}` });
  }
  if (row['floor'] !== null) {
    const lowest = toUnits(row['floor'], 'floor') - toUnits(row['deficit'], 'deficit');
    if (balance - held < lowest) {
      report({ kind: 'below_floor', accountId, expected: `at least ${lowest}`, got: `${balance - held}` });
    }
  }
  const assetId = toText(row['asset_id'], 'asset_id');
  return { assetId, balance, seq: toUnits(row['seq'], 'seq'), chainSeq: 0n, chainBalance: 0n, sum: 0n };
}

/** Answers how many entries it judged: 1, or 0 for one that came after its account was read. */
function verifyEntry(row: Row, page: ReadonlyMap<bigint, AccountRow>, report: Report): bigint {
  const accountId = toUnits(row['account_id'], 'account_id');
  const seq = toUnits(row['seq'], 'seq');
  const postingId = toUnits(row['posting_id'], 'posting_id');
  const amount = toUnits(row['amount'], 'amount');
  const balanceAfter = toUnits(row['balance_after'], 'balance_after');
  const assetId = toText(row['asset_id'], 'asset_id');
  const account = page.get(accountId);
  if (account === undefined) {
    report({ kind: 'no_account', accountId, seq, postingId, expected: 'an account', got: 'none' });
    return 1n;
  }
  if (seq > account.seq) return 0n;
  const place = { accountId, seq, postingId };
  if (seq !== account.chainSeq + 1n) {
    report({ kind: 'seq_gap', ...place, expected: `seq ${account.chainSeq + 1n}`, got: `seq ${seq}` });
  } else if (balanceAfter !== account.chainBalance + amount) {
    const expected = `balance_after ${account.chainBalance + amount}`;
    report({ kind: 'broken_link', ...place, expected, got: `balance_after ${balanceAfter}` });
  }
  if (assetId !== account.assetId) {
    report({ kind: 'entry_asset', ...place, expected: account.assetId, got: assetId });
  }
  account.chainSeq = seq;
  account.chainBalance = balanceAfter;
  account.sum += amount;
  return 1n;
}

function verifyEnd(accountId: bigint, account: AccountRow, report: Report): void {
  if (account.chainSeq !== account.seq) {
    const got = `last entry ${account.chainSeq}`;
    report({ kind: 'seq_gap', accountId, seq: account.seq, expected: `entries up to seq ${account.seq}`, got });
  }
  if (account.chainBalance !== account.balance) {
    const expected = `${account.chainBalance}, the last balance_after`;
    report({ kind: 'balance', accountId, seq: account.seq, expected, got: `balance ${account.balance}` });
  }
  if (account.sum !== account.balance) {
    const got = `a sum of entries of ${account.sum}`;
    report({ kind: 'entry_sum', accountId, expected: `balance ${account.balance}`, got });
  }
}

const POSTING_RANGE = `select coalesce(greatest((select max(p.id) from payonce.postings p),
                         (select max(e.posting_id) from payonce.ledger_entries e)), 0) as last`;

const WRONG_SUMS = `select e.posting_id, e.asset_id, sum(e.amount) as total
from payonce.ledger_entries e
where e.posting_id > $1
  and e.posting_id <= $2
group by e.posting_id, e.asset_id
having sum(e.amount) <> 0
order by e.posting_id, e.asset_id
limit $3`;

/** A head without entries, or entries without a head. */
const UNPAIRED = `select coalesce(p.id, e.posting_id) as posting_id, p.id is null as is_missing
from (select id from payonce.postings where id > $1 and id <= $2) p
full join (select distinct posting_id from payonce.ledger_entries where posting_id > $1 and posting_id <= $2) e
  on e.posting_id = p.id
where p.id is null
   or e.posting_id is null
order by 1
limit $3`;

const COUNT_POSTINGS = `select count(*) as postings
from payonce.postings p
where p.id > $1
  and p.id <= $2`;

async function verifyPostings(query: Query, report: Report, onProgress: (progress: Progress) => void): Promise<bigint> {
  const total = toUnits((await query.query(POSTING_RANGE)).rows[0]?.['last'], 'last');
  let postings = 0n;
  for (let from = 0n; from < total; from += POSTINGS_PAGE) {
    const range = [from, from + POSTINGS_PAGE];
    for (const row of (await query.query(WRONG_SUMS, [...range, FAULTS_LISTED_MAX])).rows) {
      report({
        kind: 'posting_sum',
        postingId: toUnits(row['posting_id'], 'posting_id'),
        assetId: toText(row['asset_id'], 'asset_id'),
        expected: 'a sum of 0',
        got: `${toUnits(row['total'], 'total')}`,
      });
    }
    for (const row of (await query.query(UNPAIRED, [...range, FAULTS_LISTED_MAX])).rows) {
      const postingId = toUnits(row['posting_id'], 'posting_id');
      if (row['is_missing'] === true)
        report({ kind: 'posting_missing', postingId, expected: 'a posting', got: 'entries only' });
      else report({ kind: 'posting_empty', postingId, expected: 'entries', got: 'none' });
    }
    postings += toUnits((await query.query(COUNT_POSTINGS, range)).rows[0]?.['postings'], 'postings');
    onProgress({ phase: 'postings', done: from + POSTINGS_PAGE > total ? total : from + POSTINGS_PAGE, total });
  }
  return postings;
}

const ASSET_SUMS = `select a.asset_id, sum(a.balance) as total
from payonce.accounts a
group by a.asset_id
having sum(a.balance) <> 0
order by a.asset_id`;

async function verifyAssets(query: Query, report: Report): Promise<void> {
  for (const row of (await query.query(ASSET_SUMS)).rows) {
    report({
      kind: 'asset_sum',
      assetId: toText(row['asset_id'], 'asset_id'),
      expected: 'a sum of 0 over all accounts',
      got: `${toUnits(row['total'], 'total')}`,
    });
  }
}
