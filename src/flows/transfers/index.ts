/**
 * Transfers: a partner pays out to an account at a bank.
 *
 * What holds: the fee is on top of the amount, both are held at intake and leave the partner's account in one posting
 * (`TRF_CONFIRM:{id}`) when the effect settled; a release gives the whole hold back. Money that comes back after success is
 * one posting per return (`RETURN:{id}`): the partner gets what we got, the bank's fee for it stays with the partner, and
 * so does ours. The payee is flagged, and nothing is sent again by itself: paying again is a new transfer that `repays`.
 * After a release the partner is told `failed`: for a dead no about request or account at once, for a believed one after
 * lateness and a fresh look. A stored refusal that is no fault of the transfer (balance, limit, hours) asks a person.
 * There is no status column: `payonce.transfer_states` derives.
 * Files: intake (what is taken in), store, view, ends (what batches share), batch* (files of many, see batch.ts). The rail's
 * rules for a payee are injected, a flow knows no rail.
 */
import type { Tx } from '../../db/pool.ts';
import { type CancelOutcome, cancelSubject } from '../../engine/cancel.ts';
import type { EngineDeps } from '../../engine/engine.ts';
import {
  type BookedReturn,
  currentHold,
  type EndedEffect,
  type Flow,
  type Outcome,
  type Then,
} from '../../engine/flow.ts';
import { giveBackDay } from '../../engine/intake-store.ts';
import type { EffectRow } from '../../engine/store.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import { postingKey } from '../../kernel/ids.ts';
import { formatUnits } from '../../kernel/money.ts';
import { accountName, type Chart } from '../../ledger/accounts.ts';
import type { LedgerItem } from '../../ledger/post.ts';
import type { NewEvent } from '../../outbox/emit.ts';
import { accountsOf, afterRelease, at, returnItems } from './ends.ts';
import { flagPayees, loadBarredRepayers, loadTransfers, type Transfer } from './store.ts';
import { toPartnerView } from './view.ts';

export { createTransfers, type PayeeCheck, readTransfer, type TransferRequest } from './intake.ts';

const SUBJECT = 'transfer';

/** Before its seal. Durable on return; a second cancel does nothing. */
export function cancelTransfer(engine: EngineDeps, partnerId: string, id: string, by: string): Promise<CancelOutcome> {
  return cancelSubject(engine, SUBJECT, partnerId, id, by);
}

export function makeTransfers(chart: Chart): Flow {
  return {
    subjectType: SUBJECT,
    settled: (tx, ended) => settled(tx, chart, ended),
    afterRelease,
    async released(tx, ended) {
      const rows = await rowsOf(
        tx,
        ended.map((one) => one.effect),
      );
      const closing = ended.flatMap((one, index) =>
        one.next.step === 'fail' || one.next.step === 'cancelled' ? (rows[index] ?? []) : [],
      );
      await giveBackDay(tx, SUBJECT, closing);
      return rows.map((row, index) => toReleased(row, ended[index]?.next));
    },
    // A bank shows nothing between accepted and gone that a partner could act on.
    shown: () => Promise.resolve([]),
    async believed(tx, effects) {
      const rows = await rowsOf(
        tx,
        effects.map((one) => one.effect),
      );
      return rows.map((row, index) =>
        toEvent(row, 'processing', {
          reason: effects[index]?.reason ?? null,
          final_at: effects[index]?.finalAt.toISOString() ?? null,
        }),
      );
    },
    async reopened(tx, effects) {
      return (await rowsOf(tx, effects)).map((row) => toEvent(row, 'reopened', { reason: 'it moved after all' }));
    },
    returned: (tx, returns) => returned(tx, chart, returns),
    barred: (tx, effects) => barredRepayers(tx, effects),
    async holdOf(tx, effect) {
      const [row] = await rowsOf(tx, [effect]);
      if (row === undefined) throw new InvariantBroken('a row is missing');
      const [accountId] = await chart.ids(tx, [accountName.partner(row.partnerId, row.assetId)]);
      if (accountId === undefined) throw new InvariantBroken('an account is missing');
      return { accountId, amount: row.amount + row.fee };
    },
  };
}

/** It was to pay again what did not move; since then it is said that it did. */
async function barredRepayers(tx: Tx, effects: readonly EffectRow[]): Promise<ReadonlyMap<bigint, string>> {
  const moved = await loadBarredRepayers(
    tx,
    effects.map((effect) => effect.subjectId),
  );
  return new Map(
    effects.flatMap((effect) => {
      const repaid = moved.get(effect.subjectId);
      return repaid === undefined ? [] : [[effect.id, `${repaid}, which it pays again, moved after all; cancel it`]];
    }),
  );
}

async function settled(tx: Tx, chart: Chart, ended: readonly EndedEffect[]): Promise<Outcome> {
  const effects = ended.map((one) => one.effect);
  const rows = await rowsOf(tx, effects);
  const accounts = await accountsOf(tx, chart, effects);
  const items = rows.map((row, index): LedgerItem => {
    const { partner, custody, fees, effect } = at(accounts, index);
    const entries = [
      { accountId: partner, amount: -(row.amount + row.fee) },
      { accountId: custody, amount: row.amount },
    ];
    if (row.fee > 0n) entries.push({ accountId: fees, amount: row.fee });
    return {
      kind: 'post',
      key: postingKey.transferConfirm(row.id),
      reference: row.id,
      effectId: effect.id,
      entries,
      closesHold: currentHold(effect) ?? undefined,
    };
  });
  return {
    items,
    events: rows.map((row, index) => toEvent(row, 'confirmed', { bank_id: ended[index]?.objectId ?? null })),
  };
}

async function returned(tx: Tx, chart: Chart, returns: readonly BookedReturn[]): Promise<Outcome> {
  const effects = returns.map((one) => one.effect);
  const rows = await rowsOf(tx, effects);
  const accounts = await accountsOf(tx, chart, effects);
  await flagPayees(
    tx,
    returns.map((one, index) => ({ ...one, transfer: at(rows, index) })),
  );
  const items = returns.flatMap((one, index) => returnItems(one, at(accounts, index)));
  const events = returns.map((one, index) => {
    const row = at(rows, index);
    return toEvent({ ...row, payeeFlagged: true }, 'returned', {
      return_id: one.id,
      returned_amount: formatUnits(one.amount, row.decimals),
      return_fee: formatUnits(one.fee, row.decimals),
      reason: one.reason,
    });
  });
  return { items, events };
}

function toReleased(row: Transfer, next: Then | undefined): NewEvent {
  switch (next?.step) {
    case 'fail':
      return toEvent(row, 'failed', { reason: next.reason });
    case 'cancelled':
      return toEvent(row, 'cancelled', { reason: next.reason });
    case 'review':
      return toEvent(row, 'in_review', { reason: next.why });
    // Never by itself: two persons chose it after a release.
    case 'again':
      return toEvent(row, 'processing', { reason: 'it did not move; the next try began' });
    case undefined:
      throw new InvariantBroken(`transfer ${row.id} was released to no end`);
  }
}

const STATUS_OF = {
  confirmed: 'confirmed',
  processing: 'processing',
  reopened: 'processing',
  failed: 'failed',
  cancelled: 'cancelled',
  in_review: 'in_review',
  returned: 'returned',
} as const;

function toEvent(row: Transfer, name: keyof typeof STATUS_OF, extra: Record<string, string | null>): NewEvent {
  return {
    subjectType: SUBJECT,
    subjectId: row.id,
    type: `transfer.${name}`,
    data: { ...toPartnerView(row, STATUS_OF[name]), ...extra },
  };
}

/** One row per effect, in order. */
async function rowsOf(tx: Tx, effects: readonly EffectRow[]): Promise<Transfer[]> {
  const found = await loadTransfers(
    tx,
    effects.map((effect) => effect.subjectId),
  );
  return effects.map((effect) => {
    const row = found.get(effect.subjectId);
    if (row === undefined) throw new InvariantBroken(`effect ${effect.id} names no transfer`);
    return row;
  });
}
