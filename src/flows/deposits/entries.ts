/**
 * What a movement posts. Custody follows the chain whatever the class (R10), so that for each address of ours and each
 * asset −balance(custody) = IN − OUT on the chain, to the unit (inv I2):
 *
 *   DEPOSIT            custody of the receiver −a · partner +a, and the fee apart: partner −f · fees +f
 *   OWN_EFFECT         nothing: the effect's flow posts both sides when it settles
 *   FUNDING            custody of the receiver −a · custody of the sender +a. R13's way, a suspense line on each side,
 *   UNKNOWN_INTERNAL   would cancel out in one posting; nobody is credited either way
 *   UNKNOWN_INBOUND    custody of the receiver −a · suspense +a, until two persons say whose it is
 *   UNKNOWN_OUTBOUND   custody of the sender +a · suspense −a, until two persons say what it was
 */
import { type AccountName, accountName, type Chart } from '../../ledger/accounts.ts';
import { post, type Posting } from '../../ledger/post.ts';
import type { Tx } from '../../db/pool.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import { postingKey } from '../../kernel/ids.ts';
import type { Log } from '../../kernel/log.ts';
import type { SeenTransfer } from './store.ts';

export interface Line {
  readonly account: AccountName;
  readonly amount: bigint;
}

export interface Draft {
  readonly key: string;
  readonly reference: string;
  readonly lines: readonly Line[];
  readonly reverses?: bigint;
}

export interface CreditedDeposit {
  readonly id: string;
  readonly partnerId: string;
  readonly amount: bigint;
  readonly fee: bigint;
}

export function creditDrafts(chain: string, { sighting }: SeenTransfer, deposit: CreditedDeposit): Draft[] {
  const { assetId, to, amount } = sighting.movement;
  const partner = accountName.partner(deposit.partnerId, assetId);
  const credit: Draft = {
    key: postingKey.depositCredit(deposit.id),
    reference: deposit.id,
    lines: [
      { account: partner, amount },
      { account: accountName.custody(chain, to, assetId), amount: -amount },
    ],
  };
  if (deposit.fee === 0n) return [credit];
  const fee: Draft = {
    key: postingKey.depositFee(deposit.id),
    reference: deposit.id,
    lines: [
      { account: partner, amount: -deposit.fee },
      { account: accountName.fees(assetId), amount: deposit.fee },
    ],
  };
  return [credit, fee];
}

/** For everything but deposits; `null` where nothing moved that the ledger would show. */
export function moveDraft(chain: string, { transferId, sighting }: SeenTransfer): Draft | null {
  const { assetId, from, to, amount, txHash, position } = sighting.movement;
  const reference = `${txHash}:${position}`;
  const sender = accountName.custody(chain, from, assetId);
  const receiver = accountName.custody(chain, to, assetId);
  const suspense = accountName.suspense(assetId);
  const draft = (key: string, credited: AccountName, debited: AccountName): Draft => ({
    key,
    reference,
    lines: [
      { account: credited, amount },
      { account: debited, amount: -amount },
    ],
  });
  switch (sighting.class) {
    case 'DEPOSIT':
    case 'OWN_EFFECT':
      return null;
    case 'FUNDING':
    case 'UNKNOWN_INTERNAL':
      return from === to ? null : draft(postingKey.depositMove(transferId), sender, receiver);
    case 'UNKNOWN_INBOUND':
      return draft(postingKey.depositSuspense(transferId), suspense, receiver);
    case 'UNKNOWN_OUTBOUND':
      return draft(postingKey.depositMove(transferId), sender, suspense);
  }
}

/**
 * Books drafts in one round trip. What a floor refuses is booked over it, the deficit raised by what is missing: it is
 * told by the chain or decided by two persons, never asked for. Answers what was missing per key, where something was.
 */
export async function bookDrafts(
  tx: Tx,
  chart: Chart,
  log: Log,
  drafts: readonly Draft[],
): Promise<Map<string, bigint>> {
  const ids = await chart.ids(
    tx,
    drafts.flatMap((draft) => draft.lines.map((line) => line.account)),
  );
  let next = 0;
  const items = drafts.map((draft): Posting => {
    const entries = draft.lines.map((line) => ({ accountId: ids[next++] ?? 0n, amount: line.amount }));
    return { kind: 'post', key: draft.key, reference: draft.reference, entries, reverses: draft.reverses };
  });
  const missing = new Map<string, bigint>();
  const verdicts = await post(tx, items);
  for (const [index, verdict] of verdicts.entries()) {
    const item = items[index];
    if (item === undefined || verdict.verdict === 'posted') continue;
    if (verdict.verdict === 'exists') {
      // The transition was ours, so the key should be free: a path that posts directly was here first (W13).
      log.warn({ key: item.key, reference: item.reference }, 'already recorded');
    } else if (verdict.verdict === 'insufficient') {
      missing.set(item.key, await postOverFloor(tx, item));
    } else {
      throw new InvariantBroken(`posting ${item.key} was answered ${verdict.verdict}`);
    }
  }
  return missing;
}

const LOCK_ACCOUNTS = `select id
from payonce.accounts
where id = any ($1::bigint[])
order by id
for no key update`;

const RAISE_DEFICIT = `with before as (
  select id, deficit from payonce.accounts where id = $1
)
update payonce.accounts a
set deficit = greatest(a.deficit, a.floor - (a.balance - a.held - $2::numeric))
from before
where a.id = before.id
  and a.floor is not null
returning a.deficit - before.deficit as missing`;

async function postOverFloor(tx: Tx, item: Posting): Promise<bigint> {
  await tx.query(LOCK_ACCOUNTS, [item.entries.map((entry) => entry.accountId)]);
  let missing = 0n;
  for (const entry of item.entries.filter((one) => one.amount < 0n)) {
    const { rows } = await tx.query<{ missing: bigint }>(RAISE_DEFICIT, [entry.accountId, -entry.amount]);
    missing += rows[0]?.missing ?? 0n;
  }
  const [verdict] = await post(tx, [item]);
  if (verdict?.verdict !== 'posted')
    throw new InvariantBroken(`posting ${item.key} was answered ${verdict?.verdict} over its floor`);
  return missing;
}
