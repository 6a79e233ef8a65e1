/** What partners see of orders and legs (M5): when it began, how and when it ended, what it got and what it did not get. */
import { formatUnits } from '../../kernel/money.ts';
import type { NewEvent } from '../../outbox/emit.ts';
import { PRICE_DECIMALS } from './limits.ts';
import { DEPOSIT, type DepositOrder, type Leg, WITHDRAW, type WithdrawOrder } from './order.ts';

export type Data = { readonly [key: string]: unknown };

/** Where a buyer pays: by a seller's order, or by a provider's leg. */
export type Payee = Pick<WithdrawOrder, 'bankCode' | 'accountNumber' | 'holderName'>;

function common(order: DepositOrder | WithdrawOrder): Data {
  return {
    id: order.id,
    external_id: order.externalId,
    user_ref: order.userRef,
    status: order.status.toLowerCase(),
    asset: order.assetCode,
    asset_id: order.assetId,
    amount: formatUnits(order.amount, order.decimals),
    fiat: order.fiat,
    price: formatUnits(order.price, PRICE_DECIMALS),
    created_at: order.createdAt.toISOString(),
    expires_at: order.expiresAt.toISOString(),
    closed_at: order.closedAt?.toISOString() ?? null,
    close_reason: order.closeReason,
  };
}

export function toLegView(
  leg: Leg,
  { decimals, fiat, fiatDecimals }: DepositOrder | WithdrawOrder,
  payee: Payee | null,
): Data {
  return {
    id: leg.id,
    kind: leg.kind === 'LP' ? 'liquidity_provider' : 'seller',
    state: leg.state.toLowerCase(),
    amount: formatUnits(leg.amount, decimals),
    fiat,
    fiat_amount: formatUnits(leg.fiatAmount, fiatDecimals),
    price: formatUnits(leg.price, PRICE_DECIMALS),
    pay_by: leg.payBy?.toISOString() ?? null,
    paid_marked: leg.paidMarkedAt !== null,
    disputed: leg.disputedAt !== null,
    ended_at: leg.endedAt?.toISOString() ?? null,
    end_reason: leg.endReason,
    pay_to:
      payee === null
        ? null
        : { bank_code: payee.bankCode, account_number: payee.accountNumber, holder_name: payee.holderName },
  };
}

/** An order as people see it: the queue's own words too, which no partner is told. */
export function toOperatorView(order: DepositOrder | WithdrawOrder): Data {
  const { decimals } = order;
  if ('bankCode' in order)
    return {
      ...common(order),
      settled_amount: formatUnits(order.settled, decimals),
      reserved_amount: formatUnits(order.reserved, decimals),
      given_back_amount: formatUnits(order.givenBack, decimals),
      closing_as: order.closingAs?.toLowerCase() ?? null,
      bank_code: order.bankCode,
      account_number: order.accountNumber,
      holder_name: order.holderName,
    };
  return {
    ...common(order),
    remaining_amount: formatUnits(order.remaining, decimals),
    partial: order.takesPart ? 'accept' : 'wait',
    matched_at: order.matchedAt?.toISOString() ?? null,
    waits_lp: order.waitsLp,
    attempts: order.attempts,
    wait_reason: order.waitReason,
  };
}

/** The buyer's order with its legs. Legs are shown once the order is matched: before that they may still be taken back. */
export function toDepositView(
  order: DepositOrder,
  legs: readonly Leg[],
  payees: ReadonlyMap<string, Payee>,
): Data & { readonly status: string } {
  const settled = legs.reduce((sum, leg) => (leg.state === 'SETTLED' ? sum + leg.amount : sum), 0n);
  return {
    ...common(order),
    status: order.status === 'MATCHING' ? 'pending' : order.status.toLowerCase(),
    settled_amount: formatUnits(settled, order.decimals),
    remaining_amount: formatUnits(order.remaining, order.decimals),
    partial: order.takesPart ? 'accept' : 'wait',
    legs:
      order.matchedAt === null && order.status !== 'MATCHED'
        ? []
        : legs.map((leg) => toLegView(leg, order, payeeOf(leg, payees))),
  };
}

function payeeOf(leg: Leg, payees: ReadonlyMap<string, Payee>): Payee | null {
  // Once it has ended nobody should pay there.
  return leg.state === 'OPEN' ? (payees.get(leg.withdrawOrderId ?? leg.id) ?? null) : null;
}

export function toWithdrawView(order: WithdrawOrder, legs: readonly Leg[]): Data & { readonly status: string } {
  return {
    ...common(order),
    status: order.status.toLowerCase(),
    settled_amount: formatUnits(order.settled, order.decimals),
    reserved_amount: formatUnits(order.reserved, order.decimals),
    remaining_amount: formatUnits(order.amount - order.settled - order.reserved, order.decimals),
    bank_code: order.bankCode,
    account_number: order.accountNumber,
    holder_name: order.holderName,
    legs: legs.map((leg) => toLegView(leg, order, null)),
  };
}

/** `deposit_order.{name}`; `about` is the leg that the event is of. */
export function depositEvent(
  order: DepositOrder,
  legs: readonly Leg[],
  name: string,
  sellers: ReadonlyMap<string, Payee>,
  about?: Leg,
): NewEvent {
  return {
    subjectType: DEPOSIT,
    subjectId: order.id,
    type: `${DEPOSIT}.${name}`,
    data: {
      ...toDepositView(name === 'matched' ? { ...order, status: 'MATCHED' } : order, legs, sellers),
      ...(about === undefined ? {} : { leg: about.id }),
    },
  };
}

export function withdrawEvent(order: WithdrawOrder, name: string): NewEvent {
  return {
    subjectType: WITHDRAW,
    subjectId: order.id,
    type: `${WITHDRAW}.${name}`,
    data: toWithdrawView(order, []),
  };
}

/** One leg, as the seller's partner is told of it. */
export function legEvent(seller: WithdrawOrder, leg: Leg, _buyer: DepositOrder, name: string): NewEvent {
  return {
    subjectType: WITHDRAW,
    subjectId: seller.id,
    type: `${WITHDRAW}.${name}`,
    data: { ...toWithdrawView(seller, []), leg: toLegView(leg, seller, null) },
  };
}
