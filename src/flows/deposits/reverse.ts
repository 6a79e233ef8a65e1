/**
 * Reversing a credited deposit whose block left the chain after it had been final (case F5): two persons' decision, booked
 * by new entries. The account may go under its floor; its deficit then says by how much, and later credits lower it.
 * A reversed deposit is never credited again by the scanner.
 */
import type { Tx } from '../../db/pool.ts';
import { openCase } from '../../engine/cases.ts';
import { postingKey } from '../../kernel/ids.ts';
import { accountName } from '../../ledger/accounts.ts';
import { amountInWords, loadAssetWords } from '../../ledger/amount-words.ts';
import { emit } from '../../outbox/emit.ts';
import type { BookDeps } from './book.ts';
import { bookDrafts, type Line } from './entries.ts';
import { lockDeposit, markReversed, markTransferGone } from './store.ts';
import { loadDepositViews, toDepositData } from './views.ts';

/** The verb of the proposal; its detail names the deposit: `{"deposit_id": "dep_…"}`. */
export const REVERSE_DEPOSIT = 'reverse_deposit';

const APPROVED = `select 1
from payonce.proposals
where id = $1
  and verb = '${REVERSE_DEPOSIT}'
  and approved_by is not null
  and state in ('approved', 'done')
  and detail ->> 'deposit_id' = $2`;

const CREDIT = `select id
from payonce.postings
where idem_key = $1`;

export type Reversal =
  /** `missing`: how far the account went under its floor. */
  | { readonly outcome: 'reversed'; readonly missing: bigint }
  | { readonly outcome: 'already_reversed' | 'not_credited' | 'not_approved' | 'unknown_deposit' };

export async function reverseDeposit(
  tx: Tx,
  deps: Pick<BookDeps, 'makeId' | 'chart' | 'log'>,
  wish: { depositId: string; proposalId: string },
): Promise<Reversal> {
  const deposit = await lockDeposit(tx, wish.depositId);
  if (deposit === null) return { outcome: 'unknown_deposit' };
  if (deposit.state === 'reversed') return { outcome: 'already_reversed' };
  if ((await tx.query(APPROVED, [wish.proposalId, deposit.id])).rowCount === 0) return { outcome: 'not_approved' };
  if (!(await markReversed(tx, deposit.id))) return { outcome: 'not_credited' };
  await markTransferGone(tx, deposit.transferId);

  const view = (await loadDepositViews(tx, [deposit.id])).get(deposit.id);
  const [original] = (await tx.query<{ id: bigint }>(CREDIT, [postingKey.depositCredit(deposit.id)])).rows;
  if (view === undefined || original === undefined)
    throw new Error(`deposit ${deposit.id} is credited without a posting: run payonce verify`);
  const { assetId, partnerId, amount, fee } = deposit;
  const lines: Line[] = [
    { account: accountName.partner(partnerId, assetId), amount: fee - amount },
    { account: accountName.fees(assetId), amount: -fee },
    { account: accountName.custody(view.chain, view.address, assetId), amount },
  ];
  const key = postingKey.depositReversal(deposit.id);
  const draft = {
    key,
    reference: deposit.id,
    lines: lines.filter((line) => line.amount !== 0n),
    reverses: original.id,
  };
  const missing = (await bookDrafts(tx, deps.chart, deps.log, [draft])).get(key) ?? 0n;
  if (missing > 0n) {
    const summary = `Deposit ${deposit.id} was reversed and partner ${partnerId} had already used ${amountInWords(await loadAssetWords(tx), assetId, missing)} of it: settle with the partner.`;
    const about = { subjectKey: deposit.id, partnerId, assetId, amount: missing };
    await openCase(tx, deps.makeId, { kind: 'deposit_reversed', severity: 2, summary, ...about });
  }
  await emit(tx, deps.makeId, [
    { subjectType: 'deposit', subjectId: deposit.id, type: 'deposit.reversed', data: toDepositData(view) },
  ]);
  return { outcome: 'reversed', missing };
}
