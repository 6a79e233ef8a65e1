/**
 * Withdrawals: a partner pays out an amount of an asset to an address.
 *
 * What holds: the fee is on top of the amount, both are held at intake, and both leave the partner's account in one
 * posting (`WDR_CONFIRM:{id}`) when the effect settled; when it was released the whole hold goes back and no fee is taken.
 * Settlement and self withdrawals move custody between wallets of ours and debit nobody (W8, `WDR_MOVE:{id}`).
 * A destination of our own is refused for customers unless the asset's policy allows deposit addresses (then it is a
 * withdrawal for one partner and a deposit for the other).
 * A withdrawal's life is exactly its effects: there is no status column (design §2), `payonce.withdrawal_states` derives.
 * After a dead release: a nonce spent by another transaction and a first revert are tried again; a second revert, and a
 * cancel on chain, end as `failed`; before the seal a cancel ends as `cancelled`; everything else asks a person.
 */
import { type CancelOutcome, cancelSubject } from '../../engine/cancel.ts';
import type { EngineDeps } from '../../engine/engine.ts';
import { currentHold, type EndedEffect, type Flow, type Outcome, type Then } from '../../engine/flow.ts';
import { giveBackDay } from '../../engine/intake-store.ts';
import type { EffectRow } from '../../engine/store.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import { postingKey } from '../../kernel/ids.ts';
import { accountName, type AccountName, type Chart } from '../../ledger/accounts.ts';
import type { LedgerItem } from '../../ledger/post.ts';
import type { Tx } from '../../db/pool.ts';
import type { NewEvent } from '../../outbox/emit.ts';
import { loadWithdrawals, type Withdrawal } from './store.ts';
import { toPartnerView } from './view.ts';

export type { CreateDeps, CreateOutcome } from '../../engine/intake.ts';
export { createWithdrawals, type WithdrawalRequest } from './intake.ts';
export type { CancelOutcome } from '../../engine/cancel.ts';

export const SUBJECT = 'withdrawal';
/** Two reverted tries cost gas twice; a third would hardly end otherwise (case E8: no endless gas burn). */
const REVERTS_MAX = 2;
/** A foreign use of our nonce quarantines the wallet, so this many in a row means that something is very wrong. */
const ATTEMPTS_MAX = 5;

/** Before its seal. Durable on return; a second cancel does nothing. */
export function cancelWithdrawal(
  engine: EngineDeps,
  partnerId: string,
  id: string,
  by: string,
): Promise<CancelOutcome> {
  return cancelSubject(engine, SUBJECT, partnerId, id, by);
}

export function makeWithdrawals(chart: Chart): Flow {
  return {
    subjectType: SUBJECT,
    settled: (tx, ended) => settled(tx, chart, ended),
    afterRelease,
    async released(tx, ended) {
      const found = await loadWithdrawals(
        tx,
        ended.map((one) => one.effect.subjectId),
      );
      const closing = ended.filter((one) => one.next.step === 'fail' || one.next.step === 'cancelled');
      const counted = closing.map((one) => rowOf(found, one.effect)).filter((one) => one.purpose === 'customer');
      await giveBackDay(tx, SUBJECT, counted);
      return ended.map((one) => event(rowOf(found, one.effect), one.next, one));
    },
    async shown(tx, effects) {
      const found = await loadWithdrawals(
        tx,
        effects.map((one) => one.effect.subjectId),
      );
      return effects.map((one) =>
        toEvent(
          rowOf(found, one.effect),
          one.included ? 'sent' : 'processing',
          one.included ? { tx_hash: one.objectId } : { reason: 'its block left the chain; it is being sent again' },
        ),
      );
    },
    async believed(tx, effects) {
      const found = await loadWithdrawals(
        tx,
        effects.map((one) => one.effect.subjectId),
      );
      return effects.map((one) =>
        toEvent(rowOf(found, one.effect), 'processing', { reason: one.reason, final_at: one.finalAt.toISOString() }),
      );
    },
    async reopened(tx, effects) {
      const found = await loadWithdrawals(
        tx,
        effects.map((one) => one.subjectId),
      );
      return effects.map((one) => toEvent(rowOf(found, one), 'reopened', { reason: 'it moved after all' }));
    },
    async holdOf(tx, effect) {
      const withdrawal = rowOf(await loadWithdrawals(tx, [effect.subjectId]), effect);
      if (withdrawal.purpose !== 'customer') return null;
      const [accountId] = await chart.ids(tx, [accountName.partner(withdrawal.partnerId, withdrawal.assetId)]);
      if (accountId === undefined) throw new InvariantBroken('an account is missing');
      return { accountId, amount: withdrawal.amount + withdrawal.fee };
    },
  };
}

async function settled(tx: Tx, chart: Chart, ended: readonly EndedEffect[]): Promise<Outcome> {
  const found = await loadWithdrawals(
    tx,
    ended.map((one) => one.effect.subjectId),
  );
  const rows = ended.map((one) => ({ one, withdrawal: rowOf(found, one.effect) }));
  const names = rows.flatMap(({ one, withdrawal }) => accountsOf(withdrawal, one.effect));
  const ids = await chart.ids(tx, names);
  const items = rows.map(({ one, withdrawal }, index): LedgerItem => {
    const [from, custody, other] = [ids[index * 3], ids[index * 3 + 1], ids[index * 3 + 2]];
    if (from === undefined || custody === undefined || other === undefined)
      throw new InvariantBroken('an account is missing');
    if (withdrawal.purpose !== 'customer') {
      return {
        kind: 'post',
        key: postingKey.withdrawalMove(withdrawal.id),
        reference: withdrawal.id,
        effectId: one.effect.id,
        entries: [
          { accountId: custody, amount: withdrawal.amount },
          { accountId: other, amount: -withdrawal.amount },
        ],
      };
    }
    const entries = [
      { accountId: from, amount: -(withdrawal.amount + withdrawal.fee) },
      { accountId: custody, amount: withdrawal.amount },
    ];
    if (withdrawal.fee > 0n) entries.push({ accountId: other, amount: withdrawal.fee });
    return {
      kind: 'post',
      key: postingKey.withdrawalConfirm(withdrawal.id),
      reference: withdrawal.id,
      effectId: one.effect.id,
      entries,
      closesHold: currentHold(one.effect) ?? undefined,
    };
  });
  const events = rows.map(({ one, withdrawal }) => toEvent(withdrawal, 'confirmed', { tx_hash: one.objectId }));
  return { items, events };
}

/** Partner, custody of the wallet, and the third: fees, or the receiving wallet's custody where nobody is debited. */
function accountsOf(withdrawal: Withdrawal, effect: EffectRow): AccountName[] {
  const chain = effect.asset.chain;
  return [
    accountName.partner(withdrawal.partnerId, withdrawal.assetId),
    accountName.custody(chain, effect.wallet, withdrawal.assetId),
    withdrawal.purpose === 'customer'
      ? accountName.fees(withdrawal.assetId)
      : accountName.custody(chain, withdrawal.destination, withdrawal.assetId),
  ];
}

function afterRelease(ended: EndedEffect): Then {
  const { kind, effect } = ended;
  switch (kind) {
    case 'NEVER_SEALED':
      return { step: 'cancelled', reason: 'cancelled before anything was sent' };
    case 'CANCEL_MINED':
      return { step: 'fail', reason: 'cancelled on chain by an operator' };
    case 'REVERTED_FINAL':
      return effect.seq < REVERTS_MAX ? { step: 'again' } : { step: 'fail', reason: 'the transfer reverted' };
    case 'NONCE_SPENT_BY_OTHER':
    case 'EXPIRED_UNINCLUDED':
      return effect.seq < ATTEMPTS_MAX
        ? { step: 'again' }
        : { step: 'review', why: `${effect.seq} tries did not go through` };
    case 'REFUSED_AT_ONCE':
      return { step: 'fail', reason: 'the rail refused the destination' };
    default:
      return { step: 'review', why: `released by ${kind}` };
  }
}

function event(withdrawal: Withdrawal, next: Then, ended: EndedEffect): NewEvent {
  switch (next.step) {
    case 'again':
      return toEvent(withdrawal, 'retried', {
        reason: `try ${ended.effect.seq} did not go through (${ended.kind}); it moved nothing`,
      });
    case 'fail':
      return toEvent(withdrawal, 'failed', { reason: next.reason });
    case 'cancelled':
      return toEvent(withdrawal, 'cancelled', { reason: next.reason });
    case 'review':
      return toEvent(withdrawal, 'in_review', { reason: next.why });
  }
}

const STATUS_OF = {
  confirmed: 'confirmed',
  sent: 'sent',
  processing: 'processing',
  reopened: 'processing',
  retried: 'processing',
  failed: 'failed',
  cancelled: 'cancelled',
  in_review: 'in_review',
} as const;

function toEvent(withdrawal: Withdrawal, name: keyof typeof STATUS_OF, extra: Record<string, string | null>): NewEvent {
  return {
    subjectType: SUBJECT,
    subjectId: withdrawal.id,
    type: `withdrawal.${name}`,
    data: { ...toPartnerView(withdrawal, STATUS_OF[name]), ...extra },
  };
}

function rowOf(found: ReadonlyMap<string, Withdrawal>, effect: EffectRow): Withdrawal {
  const withdrawal = found.get(effect.subjectId);
  if (withdrawal === undefined) throw new InvariantBroken(`effect ${effect.id} names no withdrawal`);
  return withdrawal;
}
