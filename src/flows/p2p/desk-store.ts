/**
 * The desk's statements. Lock order: deposit orders by id, their legs by id, withdraw orders by id.
 * Isolation: READ COMMITTED, set by `tx`.
 */
import type { Row, Tx } from '../../db/pool.ts';
import {
  DEPOSIT_COLUMNS,
  type DepositOrder,
  type Leg,
  toDepositOrder,
  toLeg,
  toWithdrawOrder,
  WITHDRAW_COLUMNS,
  WITHDRAW_JOINS,
  type WithdrawOrder,
} from './order.ts';

const LOCK_DEPOSITS = `select ${DEPOSIT_COLUMNS}
from payonce.p2p_deposit_orders o
join payonce.assets a on a.id = o.asset_id
where o.id = any ($1::text[])
order by o.id
for no key update of o`;

const LOCK_LEGS = `select *
from payonce.p2p_legs
where deposit_order_id = any ($1::text[])
order by id
for no key update`;

const LOCK_WITHDRAWS = `select ${WITHDRAW_COLUMNS}
from payonce.p2p_withdraw_orders o
${WITHDRAW_JOINS}
where o.id = any ($1::text[])
order by o.id
for no key update of o`;

const WRITE_DEPOSITS = `update payonce.p2p_deposit_orders o
set status = u.status, remaining_amount = u.remaining, waits_lp = u.waits_lp, match_attempt_count = u.attempts, wait_reason = u.wait_reason,
    claimed_at = case when u.status = 'MATCHING' then o.claimed_at end,
    next_at = case when u.wait_ms is null then o.next_at else payonce.now() + make_interval(secs => u.wait_ms / 1000.0) end,
    matched_at = case when u.status = 'MATCHED' then coalesce(o.matched_at, payonce.now()) else o.matched_at end,
    closed_at = case when u.close_reason is null then null else coalesce(o.closed_at, payonce.now()) end,
    close_reason = u.close_reason
from unnest($1::text[], $2::text[], $3::numeric[], $4::bool[], $5::int[], $6::text[], $7::float8[], $8::text[])
  as u (id, status, remaining, waits_lp, attempts, wait_reason, wait_ms, close_reason)
where o.id = u.id`;

const WRITE_LEGS = `update payonce.p2p_legs g
set state = u.state, pay_by = case when u.pay_within_ms is null then g.pay_by else payonce.now() + make_interval(secs => u.pay_within_ms / 1000.0) end,
    paid_marked_at = case when u.is_marked then coalesce(g.paid_marked_at, payonce.now()) else g.paid_marked_at end,
    disputed_at = case when u.is_disputed then coalesce(g.disputed_at, payonce.now()) end,
    ended_at = case when u.state = 'OPEN' then null when u.state = g.state then g.ended_at else payonce.now() end,
    end_reason = u.end_reason, fixes = u.fixes, slot = u.slot
from unnest($1::text[], $2::text[], $3::float8[], $4::bool[], $5::bool[], $6::text[], $7::int[], $8::int[])
  as u (id, state, pay_within_ms, is_marked, is_disputed, end_reason, fixes, slot)
where g.id = u.id`;

const WRITE_WITHDRAWS = `update payonce.p2p_withdraw_orders o
set status = u.status, reserved = u.reserved, settled = u.settled, given_back = u.given_back, backs = u.backs, closing_as = u.closing_as,
    closed_at = case when u.close_reason is null then null else coalesce(o.closed_at, payonce.now()) end, close_reason = u.close_reason
from unnest($1::text[], $2::text[], $3::numeric[], $4::numeric[], $5::numeric[], $6::int[], $7::text[], $8::text[])
  as u (id, status, reserved, settled, given_back, backs, closing_as, close_reason)
where o.id = u.id`;

export interface Locked {
  readonly deposits: readonly DepositOrder[];
  readonly legs: readonly Leg[];
  readonly withdraws: readonly WithdrawOrder[];
}

/** The orders, all legs of the buyers' ones, and the sellers of those legs. */
export async function lockOrders(
  tx: Tx,
  ids: { readonly deposits: readonly string[]; readonly withdraws: readonly string[] },
): Promise<Locked> {
  const load = async (sql: string, list: readonly string[]): Promise<readonly Row[]> =>
    list.length === 0 ? [] : (await tx.query(sql, [[...new Set(list)]])).rows;
  const deposits = (await load(LOCK_DEPOSITS, ids.deposits)).map(toDepositOrder);
  const legs = (await load(LOCK_LEGS, ids.deposits)).map(toLeg);
  const sellers = [...legs.flatMap((leg) => leg.withdrawOrderId ?? []), ...ids.withdraws];
  return { deposits, legs, withdraws: (await load(LOCK_WITHDRAWS, sellers)).map(toWithdrawOrder) };
}

export async function writeLegRows(
  tx: Tx,
  legs: readonly (Leg & { readonly payWithinMs: number | null })[],
): Promise<void> {
  if (legs.length === 0) return;
  await tx.query(WRITE_LEGS, [
    legs.map((leg) => leg.id),
    legs.map((leg) => leg.state),
    legs.map((leg) => leg.payWithinMs),
    legs.map((leg) => leg.paidMarkedAt !== null),
    legs.map((leg) => leg.disputedAt !== null),
    legs.map((leg) => leg.endReason),
    legs.map((leg) => leg.fixes),
    legs.map((leg) => leg.slot),
  ]);
}

export async function writeDepositRows(
  tx: Tx,
  orders: readonly (DepositOrder & { readonly waitMs: number | null })[],
): Promise<void> {
  if (orders.length === 0) return;
  await tx.query(WRITE_DEPOSITS, [
    orders.map((one) => one.id),
    orders.map((one) => one.status),
    orders.map((one) => one.remaining),
    orders.map((one) => one.waitsLp),
    orders.map((one) => one.attempts),
    orders.map((one) => one.waitReason),
    orders.map((one) => one.waitMs),
    orders.map((one) => one.closeReason),
  ]);
}

export async function writeWithdrawRows(tx: Tx, orders: readonly WithdrawOrder[]): Promise<void> {
  if (orders.length === 0) return;
  await tx.query(WRITE_WITHDRAWS, [
    orders.map((one) => one.id),
    orders.map((one) => one.status),
    orders.map((one) => one.reserved),
    orders.map((one) => one.settled),
    orders.map((one) => one.givenBack),
    orders.map((one) => one.backs),
    orders.map((one) => one.closingAs),
    orders.map((one) => one.closeReason),
  ]);
}
