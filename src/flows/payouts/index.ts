/**
 * Payouts: creators get what their volume earned them, each event of it once (P1-P9).
 *
 * What holds. A programme says what is paid for volume, as data. A creator's events add up in its pool as they come in; who crosses
 * the threshold has a payout in the same transaction, and the daily cut at 05:00 of the programme's time zone pays the rest from a
 * least amount on. A payout takes all that is free of its pool, and what it took is on record; it goes back only where nothing
 * moved. accrued = paid + in flight + carried, always, by the rows' own checks (inv P1).
 * The partner's money is held with the payout and leaves its account when the effect settled (`PAY_CONFIRM:{id}`); there is no fee.
 * Where it is short, or the creator has no address, the payout is not made, stays due and is listed.
 * After a dead release: what was not mined is tried again as it is; a reverted or refused one ends, its volume is payable again, and
 * the next payout carries the address, the terms and the quote of its own moment. After some in a row it waits for the daily cut.
 * Never: a scan of events; a payout under another quote or address than the one that it was made with.
 *
 * Files: programme (what it is, the reward), programmes (made and changed), accrue, enqueue (due → payouts), waiting (what could
 * not be made), cut, calls (templates), ends, batch (many in one call), batch-lines, batch-verbs, store, reads, view.
 */
import type { Tx } from '../../db/pool.ts';
import { type CancelOutcome, cancelSubject } from '../../engine/cancel.ts';
import type { EngineDeps } from '../../engine/deps.ts';
import { currentHold, type EndedEffect, type Flow, type Outcome } from '../../engine/flow.ts';
import type { EffectRow } from '../../engine/store.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import { postingKey } from '../../kernel/ids.ts';
import { accountName, type Chart } from '../../ledger/accounts.ts';
import type { LedgerItem } from '../../ledger/post.ts';
import { afterRelease, at, giveBack } from './ends.ts';
import { loadPayouts } from './reads.ts';
import { markTaken } from './store.ts';
import { payoutEvent, type StoredPayout } from './view.ts';

export { accrue, type Accrued, type AccrualFault } from './accrue.ts';
export { makePayoutBatches } from './batch.ts';
export { makePayoutBatchVerbs } from './batch-verbs.ts';
export type { MayCall, WordOf } from './calls.ts';
export { cutProgramme, type CutOutcome, runCuts } from './cut.ts';
export type { PayoutDeps } from './enqueue.ts';
export { ACCRUALS_BYTES_MAX, ACCRUALS_MAX, SLIPPAGE_BASIS_POINTS_MAX } from './limits.ts';
export { putCreator, putProgramme, type TermsRequest } from './programmes.ts';
export {
  listPayouts,
  listProgrammes,
  readPayout,
  readStatement,
  type StatementLine,
  toStatementCsv,
} from './reads.ts';
export { toProgrammeView } from './programme.ts';
export { toPayoutDetail, toPayoutView } from './view.ts';
export { payWaitingOnce } from './waiting.ts';

const SUBJECT = 'payout';

/** Before its seal. What it consumed is free again, and comes with the creator's next accrual or cut. */
export function cancelPayout(engine: EngineDeps, partnerId: string, id: string, by: string): Promise<CancelOutcome> {
  return cancelSubject(engine, SUBJECT, partnerId, id, by);
}

export function makePayoutFlow(chart: Chart): Flow {
  return {
    subjectType: SUBJECT,
    settled: (tx, ended) => settled(tx, chart, ended),
    afterRelease,
    async released(tx, ended) {
      const found = await loadOf(tx, ended);
      await giveBack(
        tx,
        ended.map((one, index) => ({ payout: at(found, index), next: one.next, detail: one.detail })),
      );
      return ended.map((one, index) => {
        const payout = at(found, index);
        switch (one.next.step) {
          case 'again':
            return payoutEvent(payout, 'retried', { reason: `try ${one.effect.seq} did not go through (${one.kind})` });
          case 'fail':
            return payoutEvent(payout, 'failed', { reason: one.next.reason });
          case 'cancelled':
            return payoutEvent(payout, 'cancelled', { reason: one.next.reason });
          case 'review':
            return payoutEvent(payout, 'in_review', { reason: one.next.why });
        }
      });
    },
    async shown(tx, effects) {
      const found = await loadOf(tx, effects);
      return effects.map((one, index) =>
        payoutEvent(
          at(found, index),
          one.included ? 'sent' : 'processing',
          one.included ? { tx_hash: one.objectId } : { reason: 'its block left the chain; it is being sent again' },
        ),
      );
    },
    async believed(tx, effects) {
      const found = await loadOf(tx, effects);
      return effects.map((one, index) =>
        payoutEvent(at(found, index), 'processing', { reason: one.reason, final_at: one.finalAt.toISOString() }),
      );
    },
    async reopened(tx, effects) {
      const found = await loadOf(
        tx,
        effects.map((effect) => ({ effect })),
      );
      await markTaken(
        tx,
        found.map((one) => ({ id: one.id, taken: 'in_flight', detail: null })),
      );
      return found.map((one) => payoutEvent(one, 'reopened', { reason: 'it moved after all' }));
    },
    async holdOf(tx, effect) {
      const [accountId] = await chart.ids(tx, [accountName.partner(effect.partnerId, effect.asset.id)]);
      if (accountId === undefined) throw new InvariantBroken('an account is missing');
      return { accountId, amount: effect.amount };
    },
  };
}

async function settled(tx: Tx, chart: Chart, ended: readonly EndedEffect[]): Promise<Outcome> {
  const found = await loadOf(tx, ended);
  const ids = await chart.ids(
    tx,
    ended.flatMap(({ effect }) => [
      accountName.partner(effect.partnerId, effect.asset.id),
      accountName.custody(effect.asset.chain, effect.wallet, effect.asset.id),
    ]),
  );
  await markTaken(
    tx,
    found.map((one, index) => ({ id: one.id, taken: 'paid', detail: ended[index]?.objectId ?? null })),
  );
  return {
    items: ended.map(({ effect }, index): LedgerItem => {
      const amount = effect.amount;
      return {
        kind: 'post',
        key: postingKey.payoutConfirm(effect.subjectId),
        reference: effect.subjectId,
        effectId: effect.id,
        entries: [
          { accountId: at(ids, index * 2), amount: -amount },
          { accountId: at(ids, index * 2 + 1), amount },
        ],
        closesHold: currentHold(effect) ?? undefined,
      };
    }),
    events: found.map((one, index) => payoutEvent(one, 'confirmed', { tx_hash: ended[index]?.objectId ?? null })),
  };
}

/** In order. */
async function loadOf(tx: Tx, list: readonly { readonly effect: EffectRow }[]): Promise<StoredPayout[]> {
  const found = await loadPayouts(
    tx,
    list.map((one) => one.effect.subjectId),
  );
  return list.map(({ effect }) => {
    const payout = found.get(effect.subjectId);
    if (payout === undefined) throw new InvariantBroken(`effect ${effect.id} names no payout`);
    return payout;
  });
}
