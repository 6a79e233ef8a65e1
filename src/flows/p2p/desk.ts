/**
 * The desk: some orders with all their legs, locked; what is done to them; and one write of it all.
 *
 * Everything after matching goes through here, whoever asks: a payment, a timer, a cancel, a trade's end. What follows from a
 * leg's end follows in the same transaction: the amount goes back or is credited, the orders move or close, events are told.
 * Never: a leg of an order that is not locked; a close while a leg is open; a status that does not follow from the legs (M2).
 *
 * Lock order: deposit orders by id, their legs by id, withdraw orders by id; accounts and event counters are the caller's.
 */
import type { Tx } from '../../db/pool.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import { type MakeId, postingKey } from '../../kernel/ids.ts';
import { feeOf } from '../../kernel/money.ts';
import { accountName, type AccountName, type Chart } from '../../ledger/accounts.ts';
import { type LedgerItem, post } from '../../ledger/post.ts';
import { emit, type NewEvent } from '../../outbox/emit.ts';
import {
  DEPOSIT_EDGES,
  type DepositStatus,
  LEG_EDGES,
  type LegState,
  WITHDRAW_EDGES,
  type WithdrawStatus,
} from './edges.ts';
import { type Locked, lockOrders, writeDepositRows, writeLegRows, writeWithdrawRows } from './desk-store.ts';
import { type DepositOrder, freeOf, type Leg, type WithdrawOrder } from './order.ts';
import { depositEvent, legEvent, withdrawEvent } from './view.ts';

export interface DeskDeps {
  readonly chart: Chart;
  readonly makeId: MakeId;
}

type Changeable<T> = { -readonly [K in keyof T]: T[K] };

/** What could not be credited, and why. */
export type Refusal = { readonly refused: string };

export async function openDesk(
  tx: Tx,
  ids: { readonly deposits?: readonly string[]; readonly withdraws?: readonly string[] },
): Promise<Desk> {
  return new Desk(await lockOrders(tx, { deposits: ids.deposits ?? [], withdraws: ids.withdraws ?? [] }));
}

export class Desk {
  private readonly deposits: Map<string, Changeable<DepositOrder>>;
  private readonly withdraws: Map<string, Changeable<WithdrawOrder>>;
  private readonly legs: Map<string, Changeable<Leg>>;
  private readonly touched = { deposits: new Set<string>(), withdraws: new Set<string>(), legs: new Set<string>() };
  private readonly waitMs = new Map<string, number>();
  private readonly starts = new Set<string>();
  private readonly postings: { key: string; reference: string; effectId?: bigint; lines: [AccountName, bigint][] }[] =
    [];
  private readonly events: (() => NewEvent)[] = [];

  constructor({ deposits, legs, withdraws }: Locked) {
    this.deposits = new Map(deposits.map((one) => [one.id, { ...one }]));
    this.withdraws = new Map(withdraws.map((one) => [one.id, { ...one }]));
    this.legs = new Map(legs.map((one) => [one.id, { ...one }]));
  }

  deposit(id: string): DepositOrder | undefined {
    return this.deposits.get(id);
  }
  withdraw(id: string): WithdrawOrder | undefined {
    return this.withdraws.get(id);
  }
  leg(id: string): Leg | undefined {
    return this.legs.get(id);
  }
  legsOf(orderId: string): Leg[] {
    return [...this.legs.values()].filter((leg) => leg.depositOrderId === orderId);
  }

  /** Credits the buyer's partner with a leg, less the fee; from what the seller set aside, or from the provider. A leg that had
   *  ended is settled late, if its amount is still there. */
  settle(legId: string, by: { readonly reason: string; readonly effectId?: bigint }): 'settled' | Refusal {
    const leg = this.mustLeg(legId);
    const order = this.mustDeposit(leg.depositOrderId);
    if (leg.state === 'SETTLED') return { refused: 'it is settled already' };
    if (leg.state !== 'OPEN') {
      const gone = this.takeAgain(leg, order);
      if (gone !== null) return { refused: gone };
    }
    this.setLeg(leg, 'SETTLED', by.reason);
    const fee = feeOf(leg.amount, 0n, order.feeBp);
    const lines: [AccountName, bigint][] = [
      [this.payer(leg, order), -leg.amount],
      [accountName.partner(order.partnerId, order.assetId), leg.amount - fee],
    ];
    if (fee > 0n) lines.push([accountName.fees(order.assetId), fee]);
    const { effectId } = by;
    this.postings.push({
      key: postingKey.p2pCredit(leg.id),
      reference: order.id,
      lines: lines.filter(([, amount]) => amount !== 0n),
      ...(effectId === undefined ? {} : { effectId }),
    });
    const seller = this.sellerOf(leg);
    if (seller !== null) {
      seller.reserved -= leg.amount;
      seller.settled += leg.amount;
      this.touched.withdraws.add(seller.id);
    }
    this.tellLeg(leg, 'leg_settled');
    if (seller !== null) this.followSeller(seller);
    this.follow(order, 'PAID_IN_FULL');
    return 'settled';
  }

  /** A leg ends without payment: its amount goes back to both orders. */
  end(legId: string, as: 'EXPIRED' | 'VOID', reason: string, closes: string): void {
    const leg = this.mustLeg(legId);
    const order = this.mustDeposit(leg.depositOrderId);
    this.setLeg(leg, as, reason);
    order.remaining += leg.amount;
    this.touched.deposits.add(order.id);
    const seller = this.sellerOf(leg);
    if (seller !== null) {
      seller.reserved -= leg.amount;
      this.touched.withdraws.add(seller.id);
    }
    // Nobody was told of a leg before its order was matched.
    if (order.status === 'MATCHED') this.tellLeg(leg, 'leg_ended');
    if (seller !== null) this.followSeller(seller);
    if (order.status === 'MATCHED') this.follow(order, closes);
  }

  /** A trade that was given up stands after all: its leg is open again if the order still has room for it. */
  takeBack(legId: string): 'open' | 'surplus' {
    const leg = this.mustLeg(legId);
    const order = this.mustDeposit(leg.depositOrderId);
    if (leg.state === 'VOID' && order.closedAt === null && this.takeAgain(leg, order) === null) {
      this.setLeg(leg, 'OPEN', null);
      if (order.status === 'MATCHED') this.tellLeg(leg, 'leg_reopened');
      return 'open';
    }
    if (leg.state === 'VOID') this.setLeg(leg, 'SURPLUS', 'the trade stood after its amount was given to others');
    return 'surplus';
  }

  /** The provider released a trade that nobody needs: what it gave is suspense, and a person's. */
  bookSurplus(legId: string, effectId: bigint): void {
    const leg = this.mustLeg(legId);
    const order = this.mustDeposit(leg.depositOrderId);
    if (leg.state === 'VOID')
      this.setLeg(leg, 'SURPLUS', 'the provider released after the order had gone on without it');
    this.postings.push({
      key: postingKey.p2pSurplus(leg.id),
      reference: order.id,
      effectId,
      lines: [
        [accountName.lp(leg.rail ?? '', order.assetId), -leg.amount],
        [accountName.suspense(order.assetId), leg.amount],
      ],
    });
  }

  /** Somebody says that it was paid: no timer ends it from here. */
  mark(legId: string): void {
    const leg = this.mustLeg(legId);
    leg.paidMarkedAt ??= leg.createdAt;
    this.touched.legs.add(legId);
  }

  dispute(legId: string, is: boolean): void {
    const leg = this.mustLeg(legId);
    leg.disputedAt = is ? (leg.disputedAt ?? leg.createdAt) : null;
    this.touched.legs.add(legId);
  }

  /** One more correction of two persons: its number, which is part of its posting's key (W4). */
  countFix(legId: string): number {
    const leg = this.mustLeg(legId);
    leg.fixes += 1;
    this.touched.legs.add(legId);
    return leg.fixes;
  }

  /** All its legs stand: the buyer is told where to pay, and the time to pay begins. */
  match(orderId: string): void {
    const order = this.mustDeposit(orderId);
    this.setDeposit(order, 'MATCHED');
    order.waitsLp = false;
    order.waitReason = null;
    const legs = this.legsOf(orderId).filter((leg) => leg.state === 'OPEN');
    for (const leg of legs) {
      this.starts.add(leg.id);
      this.touched.legs.add(leg.id);
    }
    this.events.push(() => depositEvent(order, this.legsOf(orderId), 'matched', this.withdraws));
    for (const leg of legs) {
      const seller = this.sellerOf(leg);
      if (seller !== null) this.events.push(() => legEvent(seller, leg, order, 'matched'));
    }
    this.follow(order, 'NO_PAYMENT');
  }

  /** Back to the queue, where it is looked at after `waitMs`. */
  requeue(orderId: string, waitMs: number, reason: string, attempts: number): void {
    const order = this.mustDeposit(orderId);
    this.setDeposit(order, 'PENDING');
    order.waitsLp = false;
    order.waitReason = reason;
    order.attempts = attempts;
    this.waitMs.set(orderId, waitMs);
  }

  /** Closes an order that has no open leg; legs that nobody was told of are given back first. */
  close(orderId: string, as: 'EXPIRED' | 'CANCELLED', reason: string): void {
    const order = this.mustDeposit(orderId);
    // A trade that stands is paid or not; no close takes it away.
    if (this.legsOf(orderId).some((leg) => leg.state === 'OPEN' && leg.kind === 'LP')) return this.match(orderId);
    for (const leg of this.legsOf(orderId)) if (leg.state === 'OPEN') this.end(leg.id, 'VOID', reason, reason);
    this.setDeposit(order, this.settledOf(orderId) > 0n ? 'PARTIALLY_SETTLED' : as);
    order.waitsLp = false;
    this.tellClosed(order, reason);
  }

  /** Takes no new legs from here, gives back what is free, and closes when no leg is open. */
  closeSeller(orderId: string, as: 'EXPIRED' | 'CANCELLED'): void {
    const order = this.withdraws.get(orderId);
    if (order === undefined) throw new InvariantBroken(`withdraw order ${orderId} is not on the desk`);
    order.closingAs = as;
    this.touched.withdraws.add(orderId);
    if (order.status === 'OPEN' && order.reserved > 0n) this.setWithdraw(order, 'CLOSING');
    this.giveBack(order);
    this.followSeller(order);
  }

  /** Writes all of it. What is to be booked and told is answered: a trade's end is booked by the engine. */
  async write(tx: Tx, deps: DeskDeps): Promise<{ readonly items: LedgerItem[]; readonly events: NewEvent[] }> {
    const rowsOf = <T>(ids: ReadonlySet<string>, rows: ReadonlyMap<string, T>): T[] =>
      [...ids].sort().flatMap((id) => rows.get(id) ?? []);
    // A leg that gives its slot up goes first: another of its order may take it.
    await writeLegRows(
      tx,
      rowsOf(this.touched.legs, this.legs).map((leg) => ({
        ...leg,
        payWithinMs: this.starts.has(leg.id) ? Number(this.mustDeposit(leg.depositOrderId).payWithinMs) : null,
      })),
    );
    await writeDepositRows(
      tx,
      rowsOf(this.touched.deposits, this.deposits).map((one) => ({ ...one, waitMs: this.waitMs.get(one.id) ?? null })),
    );
    await writeWithdrawRows(tx, rowsOf(this.touched.withdraws, this.withdraws));
    return { items: await this.toItems(tx, deps.chart), events: this.events.map((make) => make()) };
  }

  /** The same, booked and told here; durable with the caller's commit. */
  async writeAndBook(tx: Tx, deps: DeskDeps): Promise<void> {
    const { items, events } = await this.write(tx, deps);
    const verdicts = await post(tx, items);
    verdicts.forEach((verdict, index) => {
      const item = items[index];
      if (verdict.verdict !== 'posted')
        throw new InvariantBroken(`${item?.kind === 'post' ? item.key : 'a posting'} answered ${verdict.verdict}`);
    });
    await emit(tx, deps.makeId, events);
  }

  private async toItems(tx: Tx, chart: Chart): Promise<LedgerItem[]> {
    const ids = await chart.ids(
      tx,
      this.postings.flatMap(({ lines }) => lines.map(([name]) => name)),
    );
    let place = 0;
    return this.postings.map(
      ({ key, reference, lines, effectId }): LedgerItem => ({
        kind: 'post',
        key,
        reference,
        effectId,
        entries: lines.map(([, amount]) => {
          const accountId = ids[place];
          place += 1;
          if (accountId === undefined) throw new InvariantBroken('an account is missing');
          return { accountId, amount };
        }),
      }),
    );
  }

  private payer(leg: Leg, order: DepositOrder): AccountName {
    const seller = this.sellerOf(leg);
    return seller === null
      ? accountName.lp(leg.rail ?? '', order.assetId)
      : accountName.setAside(seller.partnerId, order.assetId);
  }

  /** Reserves again for a leg that had ended; `null`, or why that cannot be. */
  private takeAgain(leg: Changeable<Leg>, order: Changeable<DepositOrder>): string | null {
    if (order.remaining < leg.amount) return 'the order has found its amount elsewhere';
    const taken = new Set(
      this.legsOf(order.id).flatMap((one) => (one.state === 'OPEN' || one.state === 'SETTLED' ? [one.slot] : [])),
    );
    const slot = [1, 2, 3].find((one) => !taken.has(one));
    if (slot === undefined) return 'the order has three other legs';
    const seller = this.sellerOf(leg);
    if (seller !== null) {
      if (seller.closedAt !== null || freeOf(seller) < leg.amount) return 'the seller’s amount has gone elsewhere';
      seller.reserved += leg.amount;
      this.touched.withdraws.add(seller.id);
    }
    leg.slot = slot;
    order.remaining -= leg.amount;
    this.touched.deposits.add(order.id);
    return null;
  }

  /** What a buyer's order does when one of its legs has ended: it closes with its last one. */
  private follow(order: Changeable<DepositOrder>, closes: string): void {
    const legs = this.legsOf(order.id);
    if (legs.some((leg) => leg.state === 'OPEN')) return;
    const settled = this.settledOf(order.id);
    if (order.closedAt !== null) {
      if (order.remaining === 0n) this.setDeposit(order, 'COMPLETED');
      else if (order.status !== 'PARTIALLY_SETTLED') this.setDeposit(order, 'PARTIALLY_SETTLED');
      else return this.tell(order, 'partially_settled');
      return this.tellClosed(order, 'PAID_LATE');
    }
    // Not matched yet, or looking for the rest: the matcher or the deadline closes it.
    if (order.status !== 'MATCHED' && !(order.status === 'MATCHING' && order.waitsLp)) {
      this.touched.deposits.add(order.id);
      return;
    }
    if (order.remaining === 0n) {
      this.setDeposit(order, 'COMPLETED');
      return this.tellClosed(order, 'PAID_IN_FULL');
    }
    if (order.status !== 'MATCHED') return;
    const reason = order.remaining < order.legMin && settled > 0n ? 'REMAINDER_BELOW_MINIMUM' : closes;
    if (settled > 0n) this.setDeposit(order, 'PARTIALLY_SETTLED');
    else this.setDeposit(order, closes === 'CANCELLED_BY_PARTNER' ? 'CANCELLED' : 'EXPIRED');
    this.tellClosed(order, reason === 'PAID_IN_FULL' ? 'LIQUIDITY_WAS_SHORT' : reason);
  }

  private followSeller(order: Changeable<WithdrawOrder>): void {
    if (order.closedAt !== null) return;
    if (order.status === 'CLOSING') this.giveBack(order);
    if (order.reserved > 0n) return;
    if (order.settled === order.amount) this.endSeller(order, 'COMPLETED', 'PAID_IN_FULL');
    else if (order.closingAs === null && order.settled > 0n && freeOf(order) < order.legMin) {
      // No leg may be as small as what is left: it goes back, and the order ends short.
      this.giveBack(order);
      this.endSeller(order, 'PARTIALLY_SETTLED', 'REMAINDER_BELOW_MINIMUM');
    } else if (order.closingAs !== null)
      this.endSeller(
        order,
        order.settled > 0n ? 'PARTIALLY_SETTLED' : order.closingAs,
        order.closingAs === 'CANCELLED' ? 'CANCELLED_BY_PARTNER' : 'EXPIRED',
      );
  }

  private giveBack(order: Changeable<WithdrawOrder>): void {
    const free = freeOf(order);
    if (free === 0n) return;
    order.backs += 1;
    order.givenBack += free;
    this.touched.withdraws.add(order.id);
    this.postings.push({
      key: postingKey.p2pBack(order.id, order.backs),
      reference: order.id,
      lines: [
        [accountName.setAside(order.partnerId, order.assetId), -free],
        [accountName.partner(order.partnerId, order.assetId), free],
      ],
    });
  }

  private endSeller(order: Changeable<WithdrawOrder>, as: WithdrawStatus, reason: string): void {
    this.setWithdraw(order, as);
    order.closeReason = reason;
    order.closedAt = order.now;
    this.events.push(() => withdrawEvent(order, as.toLowerCase()));
  }

  private settledOf(orderId: string): bigint {
    return this.legsOf(orderId).reduce((sum, leg) => (leg.state === 'SETTLED' ? sum + leg.amount : sum), 0n);
  }

  private setDeposit(order: Changeable<DepositOrder>, to: DepositStatus): void {
    if (order.status !== to && !DEPOSIT_EDGES[order.status].includes(to))
      throw new InvariantBroken(`deposit order ${order.id} cannot go from ${order.status} to ${to}`);
    order.status = to;
    this.touched.deposits.add(order.id);
  }

  private setWithdraw(order: Changeable<WithdrawOrder>, to: WithdrawStatus): void {
    if (!WITHDRAW_EDGES[order.status].includes(to))
      throw new InvariantBroken(`withdraw order ${order.id} cannot go from ${order.status} to ${to}`);
    order.status = to;
    this.touched.withdraws.add(order.id);
  }

  private setLeg(leg: Changeable<Leg>, to: LegState, reason: string | null): void {
    if (!LEG_EDGES[leg.state].includes(to))
      throw new InvariantBroken(`leg ${leg.id} cannot go from ${leg.state} to ${to}`);
    leg.state = to;
    leg.endReason = reason;
    this.touched.legs.add(leg.id);
  }

  private tellLeg(leg: Leg, name: 'leg_settled' | 'leg_ended' | 'leg_reopened'): void {
    const order = this.mustDeposit(leg.depositOrderId);
    this.events.push(() => depositEvent(order, this.legsOf(order.id), name, this.withdraws, leg));
    const seller = this.sellerOf(leg);
    if (seller !== null) this.events.push(() => legEvent(seller, leg, order, name));
  }

  private tell(order: DepositOrder, name: string): void {
    this.events.push(() => depositEvent(order, this.legsOf(order.id), name, this.withdraws));
  }

  private tellClosed(order: Changeable<DepositOrder>, reason: string): void {
    order.closeReason = reason;
    order.closedAt ??= order.now;
    this.tell(order, order.status.toLowerCase());
  }

  private mustLeg(id: string): Changeable<Leg> {
    const leg = this.legs.get(id);
    if (leg === undefined) throw new InvariantBroken(`leg ${id} is not on the desk`);
    return leg;
  }
  private mustDeposit(id: string): Changeable<DepositOrder> {
    const order = this.deposits.get(id);
    if (order === undefined) throw new InvariantBroken(`deposit order ${id} is not on the desk`);
    return order;
  }
  private sellerOf(leg: Leg): Changeable<WithdrawOrder> | null {
    return leg.withdrawOrderId === null ? null : (this.withdraws.get(leg.withdrawOrderId) ?? null);
  }
}
