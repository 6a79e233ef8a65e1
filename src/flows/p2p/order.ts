/** The rows of a market's two sides and of what lies between them. Amounts in units, prices in 10^-12 fiat per whole unit. */
import { type Row, toText, toUnits } from '../../db/pool.ts';
import type { DepositStatus, LegState, WithdrawStatus } from './edges.ts';

export const DEPOSIT = 'deposit_order';
export const WITHDRAW = 'withdraw_order';
/** The trade of a leg at a provider, and the act that ends such a trade: effects' subjects, named by the leg. */
export const LEG = 'p2p_leg';
export const CANCEL_TRADE = 'p2p_cancel';

interface Order {
  readonly id: string;
  readonly partnerId: string;
  readonly groupName: string;
  readonly assetId: string;
  readonly assetCode: string;
  readonly decimals: number;
  readonly fiat: string;
  readonly fiatDecimals: number;
  readonly externalId: string | null;
  readonly userRef: string;
  readonly amount: bigint;
  readonly price: bigint;
  readonly legMin: bigint;
  readonly createdAt: Date;
  readonly expiresAt: Date;
  readonly closedAt: Date | null;
  readonly closeReason: string | null;
  /** The database's time at the read. */
  readonly now: Date;
}

export interface DepositOrder extends Order {
  readonly status: DepositStatus;
  readonly remaining: bigint;
  readonly takesPart: boolean;
  readonly feeBp: bigint;
  readonly payWithinMs: bigint;
  readonly claimToken: bigint;
  readonly waitsLp: boolean;
  readonly attempts: number;
  readonly waitReason: string | null;
  readonly matchedAt: Date | null;
}

export interface WithdrawOrder extends Order {
  readonly status: WithdrawStatus;
  readonly reserved: bigint;
  readonly settled: bigint;
  readonly givenBack: bigint;
  readonly backs: number;
  readonly closingAs: 'EXPIRED' | 'CANCELLED' | null;
  readonly bankCode: string;
  readonly accountNumber: string;
  readonly holderName: string;
}

export interface Leg {
  readonly id: string;
  readonly depositOrderId: string;
  readonly ordinal: number;
  readonly slot: number;
  readonly kind: 'SELLER' | 'LP';
  readonly withdrawOrderId: string | null;
  readonly rail: string | null;
  readonly amount: bigint;
  readonly price: bigint;
  readonly fiatAmount: bigint;
  readonly state: LegState;
  readonly createdAt: Date;
  readonly payBy: Date | null;
  readonly paidMarkedAt: Date | null;
  readonly disputedAt: Date | null;
  readonly endedAt: Date | null;
  readonly endReason: string | null;
  readonly fixes: number;
}

function toOrder(row: Row): Order {
  return {
    id: toText(row['id'], 'id'),
    partnerId: toText(row['partner_id'], 'partner_id'),
    groupName: toText(row['group_name'], 'group_name'),
    assetId: toText(row['asset_id'], 'asset_id'),
    assetCode: toText(row['asset_code'], 'asset_code'),
    decimals: row['decimals'] as number,
    fiat: toText(row['fiat'], 'fiat'),
    fiatDecimals: row['fiat_decimals'] as number,
    externalId: row['external_id'] as string | null,
    userRef: toText(row['user_ref'], 'user_ref'),
    amount: toUnits(row['amount'], 'amount'),
    price: toUnits(row['price'], 'price'),
    legMin: toUnits(row['leg_min'], 'leg_min'),
    createdAt: row['created_at'] as Date,
    expiresAt: row['expires_at'] as Date,
    closedAt: row['closed_at'] as Date | null,
    closeReason: row['close_reason'] as string | null,
    now: row['now'] as Date,
  };
}

/** Of `DEPOSIT_COLUMNS`. */
export function toDepositOrder(row: Row): DepositOrder {
  return {
    ...toOrder(row),
    status: row['status'] as DepositStatus,
    remaining: toUnits(row['remaining_amount'], 'remaining_amount'),
    takesPart: row['takes_part'] as boolean,
    feeBp: BigInt(row['fee_bp'] as number),
    payWithinMs: toUnits(row['pay_within_ms'], 'pay_within_ms'),
    claimToken: toUnits(row['claim_token'], 'claim_token'),
    waitsLp: row['waits_lp'] as boolean,
    attempts: row['match_attempt_count'] as number,
    waitReason: row['wait_reason'] as string | null,
    matchedAt: row['matched_at'] as Date | null,
  };
}

/** Of `WITHDRAW_COLUMNS`. */
export function toWithdrawOrder(row: Row): WithdrawOrder {
  return {
    ...toOrder(row),
    status: row['status'] as WithdrawStatus,
    reserved: toUnits(row['reserved'], 'reserved'),
    settled: toUnits(row['settled'], 'settled'),
    givenBack: toUnits(row['given_back'], 'given_back'),
    backs: row['backs'] as number,
    closingAs: row['closing_as'] as WithdrawOrder['closingAs'],
    bankCode: toText(row['bank_code'], 'bank_code'),
    accountNumber: toText(row['account_number'], 'account_number'),
    holderName: toText(row['holder_name'], 'holder_name'),
  };
}

/** Of a leg's row. */
export function toLeg(row: Row): Leg {
  return {
    id: toText(row['id'], 'id'),
    depositOrderId: toText(row['deposit_order_id'], 'deposit_order_id'),
    ordinal: row['ordinal'] as number,
    slot: row['slot'] as number,
    kind: row['kind'] as Leg['kind'],
    withdrawOrderId: row['withdraw_order_id'] as string | null,
    rail: row['rail'] as string | null,
    amount: toUnits(row['amount'], 'amount'),
    price: toUnits(row['price'], 'price'),
    fiatAmount: toUnits(row['fiat_amount'], 'fiat_amount'),
    state: row['state'] as LegState,
    createdAt: row['created_at'] as Date,
    payBy: row['pay_by'] as Date | null,
    paidMarkedAt: row['paid_marked_at'] as Date | null,
    disputedAt: row['disputed_at'] as Date | null,
    endedAt: row['ended_at'] as Date | null,
    endReason: row['end_reason'] as string | null,
    fixes: row['fixes'] as number,
  };
}

/** What of a seller's order no leg has and nothing gave back. */
export function freeOf({ amount, reserved, settled, givenBack }: WithdrawOrder): bigint {
  return amount - reserved - settled - givenBack;
}

export const DEPOSIT_COLUMNS = `o.id, o.partner_id, o.group_name, o.asset_id, a.code as asset_code, a.decimals, o.fiat, o.fiat_decimals, o.external_id,
  o.user_ref, o.amount, o.price, o.leg_min, o.created_at, o.expires_at, o.closed_at, o.close_reason, o.status, o.remaining_amount, o.takes_part,
  o.fee_bp, o.pay_within_ms, o.claim_token, o.waits_lp, o.match_attempt_count, o.wait_reason, o.matched_at, payonce.now() as now`;

export const WITHDRAW_COLUMNS = `o.id, o.partner_id, o.group_name, o.asset_id, a.code as asset_code, a.decimals, o.fiat, m.fiat_decimals, o.external_id,
  o.user_ref, o.amount, o.price, o.leg_min, o.created_at, o.expires_at, o.closed_at, o.close_reason, o.status, o.reserved, o.settled, o.given_back,
  o.backs, o.closing_as, o.bank_code, o.account_number, o.holder_name, payonce.now() as now`;

export const WITHDRAW_JOINS = `join payonce.assets a on a.id = o.asset_id
join payonce.p2p_markets m on m.group_name = o.group_name and m.asset_id = o.asset_id and m.fiat = o.fiat`;
