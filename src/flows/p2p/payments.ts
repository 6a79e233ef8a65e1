/**
 * Payments of legs: a seller's partner confirms one by API, or a bank's notice comes through the inbox (a part, too much, late,
 * for nobody). Each is kept once by its source's own id; what completes a leg settles it in the same transaction (M13).
 *
 * A confirmation is for exactly the leg's amount. A notice counts towards it: a part stops the timer and waits for the rest; what
 * is too much, late and not to be had any more, or of no leg is kept and is a person's (case I1). Fiat never enters the ledger.
 */
import type { Pool, Query, Tx } from '../../db/pool.ts';
import { toUnits } from '../../db/pool.ts';
import { openCase } from '../../engine/cases.ts';
import type { MakeId } from '../../kernel/ids.ts';
import { formatUnits } from '../../kernel/money.ts';
import { type Desk, type DeskDeps, openDesk } from './desk.ts';
import type { DepositOrder, Leg } from './order.ts';

export interface PaymentNotice {
  /** The bank or partner that says so. */
  readonly source: string;
  /** Its own id of the payment: counted once. */
  readonly externalId: string;
  /** The leg's id, as the payer was told to name it. */
  readonly reference: string;
  readonly fiat: string;
  /** In the fiat's smallest unit. */
  readonly fiatAmount: bigint;
  /** As its source writes the amount: what people are told. */
  readonly written?: string;
}

export type PaymentFate = 'part' | 'settled' | 'over' | 'late' | 'unmatched';

export type PaymentOutcome =
  | { readonly outcome: 'counted'; readonly fate: PaymentFate; readonly legId: string | null }
  /** It was counted before. `differs`: under this id stands another amount, currency or leg; people are told. */
  | { readonly outcome: 'known'; readonly fate: PaymentFate; readonly differs: boolean };

const KNOWN = `select fate, reference, fiat, fiat_amount
from payonce.p2p_payments
where source = $1
  and external_id = $2`;

const LOCK_NAME = `select pg_advisory_xact_lock(hashtextextended('p2p payment' || chr(10) || $1 || chr(10) || $2, 0))`;

const LEG_ORDER = `select deposit_order_id
from payonce.p2p_legs
where id = $1`;

const SUM = `select coalesce(sum(fiat_amount), 0) as paid
from payonce.p2p_payments
where leg_id = $1`;

const STORE = `insert into payonce.p2p_payments (id, source, external_id, leg_id, reference, fiat, fiat_amount, fate)
values ($1, $2, $3, $4, $5, $6, $7, $8)`;

/** Counts one notice, in the caller's transaction. */
export async function countPayment(tx: Tx, deps: DeskDeps, notice: PaymentNotice): Promise<PaymentOutcome> {
  await tx.query(LOCK_NAME, [notice.source, notice.externalId]);
  const [known] = (await tx.query(KNOWN, [notice.source, notice.externalId])).rows;
  if (known !== undefined) {
    const differs =
      known['reference'] !== notice.reference ||
      known['fiat'] !== notice.fiat ||
      toUnits(known['fiat_amount'], 'fiat_amount') !== notice.fiatAmount;
    if (differs)
      await openUnclear(
        tx,
        deps.makeId,
        notice,
        null,
        'came again under the same id with other content; see which is right',
      );
    return { outcome: 'known', fate: known['fate'] as PaymentFate, differs };
  }
  const [named] = (await tx.query<{ deposit_order_id: string }>(LEG_ORDER, [notice.reference])).rows;
  const desk = await openDesk(tx, { deposits: named === undefined ? [] : [named.deposit_order_id] });
  const leg = desk.leg(notice.reference);
  const order = leg === undefined ? undefined : desk.deposit(leg.depositOrderId);
  const { fate, why } =
    leg === undefined || order === undefined
      ? { fate: 'unmatched' as const, why: 'names no leg that is known' }
      : await judge(tx, desk, leg, order, notice);
  await tx.query(STORE, [
    deps.makeId('ppy'),
    notice.source,
    notice.externalId,
    leg?.id ?? null,
    notice.reference,
    notice.fiat,
    notice.fiatAmount,
    fate,
  ]);
  await desk.writeAndBook(tx, deps);
  if (why !== null) await openUnclear(tx, deps.makeId, notice, order?.partnerId ?? null, why);
  return { outcome: 'counted', fate, legId: leg?.id ?? null };
}

async function judge(
  tx: Tx,
  desk: Desk,
  leg: Leg,
  order: DepositOrder,
  notice: PaymentNotice,
): Promise<{ fate: PaymentFate; why: string | null }> {
  const inWords = (units: bigint): string => `${formatUnits(units, order.fiatDecimals)} ${order.fiat}`;
  if (notice.fiat !== order.fiat)
    return { fate: 'unmatched', why: `is in ${notice.fiat}, and leg ${leg.id} is paid in ${order.fiat}` };
  // A provider's trade is paid to the provider; what it says of it decides.
  if (leg.kind === 'LP') return { fate: 'unmatched', why: `is for leg ${leg.id}, which is paid to a provider` };
  const [row] = (await tx.query(SUM, [leg.id])).rows;
  const paid = toUnits(row?.['paid'], 'paid') + notice.fiatAmount;
  if (leg.state === 'SETTLED')
    return {
      fate: 'over',
      why: `is for leg ${leg.id}, which is settled already; ${inWords(paid)} came for ${inWords(leg.fiatAmount)}`,
    };
  const isLate = leg.state !== 'OPEN';
  if (paid < leg.fiatAmount) {
    if (isLate)
      return {
        fate: 'late',
        why: `is a part (${inWords(paid)} of ${inWords(leg.fiatAmount)}) of leg ${leg.id}, which has ended`,
      };
    desk.mark(leg.id);
    return { fate: 'part', why: null };
  }
  // Paid, and disputed: people say what it means.
  if (leg.disputedAt !== null) return { fate: 'part', why: `is for leg ${leg.id}, which is disputed` };
  const settled = desk.settle(leg.id, { reason: isLate ? 'PAID_LATE' : 'PAID' });
  if (settled !== 'settled') return { fate: 'late', why: `is for leg ${leg.id}, which has ended: ${settled.refused}` };
  return paid > leg.fiatAmount
    ? { fate: 'over', why: `settled leg ${leg.id}, and is ${inWords(paid - leg.fiatAmount)} too much` }
    : { fate: 'settled', why: null };
}

/** Asks people about a payment; one open case for each. */
export async function openUnclear(
  query: Query,
  makeId: MakeId,
  notice: Pick<PaymentNotice, 'source' | 'externalId'> & { readonly written?: string; readonly fiat?: string },
  partnerId: string | null,
  why: string,
): Promise<void> {
  await openCase(query, makeId, {
    kind: 'payment_unclear',
    severity: 2,
    subjectKey: `payment:${notice.source}:${notice.externalId}`,
    ...(partnerId === null ? {} : { partnerId }),
    summary: `payment ${notice.externalId} of ${notice.source}${notice.written === undefined ? '' : ` (${notice.written} ${notice.fiat ?? ''})`} ${why}`,
  });
}

export type ConfirmOutcome =
  /** `already`: it was settled before, by this or another word; nothing moved again. */
  | { readonly outcome: 'settled' | 'already' }
  | { readonly outcome: 'not_found' }
  | { readonly outcome: 'differs'; readonly expected: string; readonly fiat: string }
  | { readonly outcome: 'ended'; readonly state: string };

const LEG_OF_SELLER = `select g.deposit_order_id
from payonce.p2p_legs g
join payonce.p2p_withdraw_orders w on w.id = g.withdraw_order_id
where g.id = $1
  and w.partner_id = $2`;

/** The seller's partner says that the whole of a leg was paid (M13). Durable on return; said twice it moves once. */
export async function confirmLeg(
  pool: Pool,
  deps: DeskDeps,
  about: { readonly partnerId: string; readonly legId: string; readonly fiatAmount: string },
): Promise<ConfirmOutcome> {
  return pool.tx('confirm leg', async (tx): Promise<ConfirmOutcome> => {
    const [named] = (await tx.query<{ deposit_order_id: string }>(LEG_OF_SELLER, [about.legId, about.partnerId])).rows;
    if (named === undefined) return { outcome: 'not_found' };
    const desk = await openDesk(tx, { deposits: [named.deposit_order_id] });
    const leg = desk.leg(about.legId);
    const order = desk.deposit(named.deposit_order_id);
    // Nobody was told of it before its order was matched.
    if (leg === undefined || order === undefined || (order.matchedAt === null && order.closedAt === null))
      return { outcome: 'not_found' };
    const expected = formatUnits(leg.fiatAmount, order.fiatDecimals);
    if (about.fiatAmount !== expected) return { outcome: 'differs', expected, fiat: order.fiat };
    if (leg.state === 'SETTLED') return { outcome: 'already' };
    if (leg.disputedAt !== null) return { outcome: 'ended', state: 'disputed' };
    const settled = desk.settle(leg.id, { reason: leg.state === 'OPEN' ? 'CONFIRMED' : 'CONFIRMED_LATE' });
    if (settled !== 'settled') return { outcome: 'ended', state: `${leg.state.toLowerCase()}: ${settled.refused}` };
    await desk.writeAndBook(tx, deps);
    return { outcome: 'settled' };
  });
}

const LEG_OF_BUYER = `select g.deposit_order_id
from payonce.p2p_legs g
join payonce.p2p_deposit_orders o on o.id = g.deposit_order_id
where g.id = $1
  and o.partner_id = $2`;

/** The buyer's partner says that its user has paid: a claim, not money; but no timer takes the leg from here (design §7). */
export async function markPaid(
  pool: Pool,
  deps: DeskDeps,
  about: { readonly partnerId: string; readonly legId: string },
): Promise<'marked' | 'not_found' | { readonly ended: string }> {
  return pool.tx('mark paid', async (tx) => {
    const [named] = (await tx.query<{ deposit_order_id: string }>(LEG_OF_BUYER, [about.legId, about.partnerId])).rows;
    if (named === undefined) return 'not_found';
    const desk = await openDesk(tx, { deposits: [named.deposit_order_id] });
    const leg = desk.leg(about.legId);
    if (leg === undefined || desk.deposit(named.deposit_order_id)?.matchedAt === null) return 'not_found';
    if (leg.state !== 'OPEN') return { ended: leg.state.toLowerCase() };
    desk.mark(leg.id);
    await desk.writeAndBook(tx, deps);
    return 'marked';
  });
}

const LEG_OF_EITHER = `select g.deposit_order_id, o.partner_id as buyer, w.partner_id as seller
from payonce.p2p_legs g
join payonce.p2p_deposit_orders o on o.id = g.deposit_order_id
left join payonce.p2p_withdraw_orders w on w.id = g.withdraw_order_id
where g.id = $1
  and $2 in (o.partner_id, w.partner_id)`;

/** Either side disputes a leg: both are frozen, and two persons say what happened. */
export async function disputeLeg(
  pool: Pool,
  deps: DeskDeps,
  about: { readonly partnerId: string; readonly legId: string; readonly reason: string },
): Promise<'disputed' | 'not_found' | { readonly ended: string }> {
  return pool.tx('dispute leg', async (tx) => {
    const [named] = (
      await tx.query<{ deposit_order_id: string; buyer: string }>(LEG_OF_EITHER, [about.legId, about.partnerId])
    ).rows;
    if (named === undefined) return 'not_found';
    const desk = await openDesk(tx, { deposits: [named.deposit_order_id] });
    const leg = desk.leg(about.legId);
    const order = desk.deposit(named.deposit_order_id);
    if (leg === undefined || order === undefined || order.matchedAt === null) return 'not_found';
    if (leg.state !== 'OPEN') return { ended: leg.state.toLowerCase() };
    desk.dispute(leg.id, true);
    await desk.writeAndBook(tx, deps);
    await openCase(tx, deps.makeId, {
      kind: 'leg_disputed',
      severity: 3,
      subjectKey: `leg:${leg.id}`,
      partnerId: about.partnerId,
      assetId: order.assetId,
      amount: leg.amount,
      summary: `leg ${leg.id} is disputed by the ${named.buyer === about.partnerId ? 'buyer' : 'seller'}’s partner: ${about.reason.slice(0, 300)}`,
    });
    return 'disputed';
  });
}
