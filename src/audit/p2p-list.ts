/** P2P as operators read it: groups, orders of both sides, one order with all that hangs on it, payments. Reads only; amounts are decimal text. */
import { type Query, toUnits } from '../db/pool.ts';
import { DEPOSIT_EDGES, WITHDRAW_EDGES } from '../flows/p2p/edges.ts';
import { PRICE_DECIMALS } from '../flows/p2p/index.ts';
import { readDepositOrder, readWithdrawWhole } from '../flows/p2p/reads.ts';
import { type Data, toLegView, toOperatorView } from '../flows/p2p/view.ts';
import { PayonceError } from '../kernel/errors.ts';
import { formatUnits } from '../kernel/money.ts';

type Rows<T> = T & Record<string, unknown>;

export interface ListedMarket {
  readonly asset: string;
  readonly asset_id: string;
  readonly fiat: string;
  readonly order_min: string;
  readonly order_max: string;
  readonly leg_min: string;
  readonly fee_basis_points: number;
  readonly stopped_at: Date | null;
}
export interface ListedRoute {
  readonly rail: string;
  readonly asset: string;
  readonly fiat: string;
  /** `null`: for the whole group. */
  readonly partner_id: string | null;
  readonly priority: number;
  readonly min: string;
  readonly max: string;
  readonly is_enabled: boolean;
}
export interface ListedMember {
  readonly partner_id: string;
  readonly name: string;
  readonly matching_off_at: Date | null;
}
export interface ListedGroup {
  readonly name: string;
  readonly members: readonly ListedMember[];
  readonly markets: readonly ListedMarket[];
  readonly routes: readonly ListedRoute[];
}

const MEMBERS = `select e.group_name, e.partner_id, p.name, e.matching_off_at
from payonce.p2p_members e
join payonce.partners p on p.id = e.partner_id
order by e.partner_id`;
const MARKETS = `select m.group_name, a.code as asset, m.asset_id, m.fiat, m.order_min, m.order_max, m.leg_min,
       m.fee_bp as fee_basis_points, m.stopped_at, a.decimals
from payonce.p2p_markets m
join payonce.assets a on a.id = m.asset_id
order by a.code, m.fiat`;
const ROUTES = `select r.group_name, r.rail, a.code as asset, r.fiat, nullif(r.partner_id, '*') as partner_id, r.priority, r.min, r.max,
       r.is_enabled, a.decimals
from payonce.p2p_routes r
join payonce.assets a on a.id = r.asset_id
order by a.code, r.fiat, r.priority, r.id`;

/** By name; what is no longer configured is there, as stopped. */
export async function listGroups(query: Query): Promise<ListedGroup[]> {
  const { rows: groups } = await query.query<{ name: string }>('select name from payonce.p2p_groups order by name');
  const members = (await query.query<Rows<ListedMember & { group_name: string }>>(MEMBERS)).rows;
  const markets = (await query.query<Rows<ListedMarket & { group_name: string; decimals: number }>>(MARKETS)).rows;
  const routes = (await query.query<Rows<ListedRoute & { group_name: string; decimals: number }>>(ROUTES)).rows;
  const inText = (value: unknown, decimals: number): string => formatUnits(toUnits(value, 'an amount'), decimals);
  const of = <T extends { group_name: string }>(rows: readonly T[], name: string): T[] =>
    rows.filter((row) => row.group_name === name);
  return groups.map(({ name }) => ({
    name,
    members: of(members, name).map(({ group_name: _group, ...one }) => one),
    markets: of(markets, name).map(({ group_name: _group, decimals, ...one }) => ({
      ...one,
      order_min: inText(one.order_min, decimals),
      order_max: inText(one.order_max, decimals),
      leg_min: inText(one.leg_min, decimals),
    })),
    routes: of(routes, name).map(({ group_name: _group, decimals, ...one }) => ({
      ...one,
      min: inText(one.min, decimals),
      max: inText(one.max, decimals),
    })),
  }));
}

/** Of either side. */
export const ORDER_STATUSES = [...new Set([...Object.keys(DEPOSIT_EDGES), ...Object.keys(WITHDRAW_EDGES)])];
const OPEN_STATUSES = ['PENDING', 'MATCHING', 'MATCHED', 'OPEN', 'CLOSING'];

export interface ListedOrder {
  readonly id: string;
  readonly side: 'deposit' | 'withdraw';
  readonly status: string;
  readonly partner_id: string;
  readonly group: string;
  readonly asset: string;
  readonly fiat: string;
  readonly amount: string;
  /** What is in no leg that is open or settled. */
  readonly remaining_amount: string;
  readonly price: string;
  readonly created_at: Date;
  readonly wait_reason: string | null;
}

const ORDERS = `select o.*, a.code as asset, a.decimals
from (
  (select id, 'deposit' as side, status, partner_id, group_name as "group", asset_id, fiat, amount, remaining_amount, price, created_at,
          wait_reason
   from payonce.p2p_deposit_orders
   where ($1::text[] is null or status = any ($1::text[]))
     and ($2::text is null or partner_id = $2)
   order by created_at desc, id desc
   limit $3)
  union all
  (select id, 'withdraw', status, partner_id, group_name, asset_id, fiat, amount, amount - reserved - settled, price, created_at, null
   from payonce.p2p_withdraw_orders
   where ($1::text[] is null or status = any ($1::text[]))
     and ($2::text is null or partner_id = $2)
   order by created_at desc, id desc
   limit $3)) o
join payonce.assets a on a.id = o.asset_id
order by o.created_at desc, o.id desc
limit $3`;

/** The latest first. Without a status and a partner: what is open. */
export async function listOrders(
  query: Query,
  filter: { readonly status: string | null; readonly partnerId: string | null; readonly limit: number },
): Promise<ListedOrder[]> {
  const statuses = filter.status === null ? (filter.partnerId === null ? OPEN_STATUSES : null) : [filter.status];
  const { rows } = await query.query<Rows<ListedOrder & { decimals: number; asset_id: string }>>(ORDERS, [
    statuses,
    filter.partnerId,
    filter.limit,
  ]);
  return rows.map(({ decimals, asset_id: _asset, ...one }) => ({
    ...one,
    amount: formatUnits(toUnits(one.amount, 'amount'), decimals),
    remaining_amount: formatUnits(toUnits(one.remaining_amount, 'remaining_amount'), decimals),
    price: formatUnits(toUnits(one.price, 'price'), PRICE_DECIMALS),
  }));
}

export interface ShownEffect {
  readonly id: string;
  readonly leg: string;
  readonly act: 'open' | 'cancel';
  readonly rail: string;
  readonly state: string;
  /** The provider's own id of the trade, once it is known. */
  readonly trade: string | null;
  readonly wait_reason: string | null;
}
export interface ShownCase {
  readonly id: string;
  readonly kind: string;
  readonly summary: string;
}
export interface ShownOrder {
  readonly side: 'deposit' | 'withdraw';
  readonly partner_id: string;
  readonly group: string;
  readonly order: Data;
  readonly legs: readonly Data[];
  /** Trades of legs, and what cancels them. */
  readonly effects: readonly ShownEffect[];
  readonly payments: readonly ListedPayment[];
  readonly open_cases: readonly ShownCase[];
}

const WHOSE = `select partner_id, 'deposit' as side
from payonce.p2p_deposit_orders
where id = $1
union all
select partner_id, 'withdraw'
from payonce.p2p_withdraw_orders
where id = $1`;

const EFFECTS = `select e.id::text as id, e.subject_id as leg, case e.subject_type when 'p2p_leg' then 'open' else 'cancel' end as act, e.rail,
       e.state, e.accepted_object as trade, e.wait_reason
from payonce.effects e
where e.subject_type in ('p2p_leg', 'p2p_cancel')
  and e.subject_id = any ($1::text[])
order by e.id`;

const CASES = `select k.id, k.kind, k.summary
from payonce.cases k
where k.closed_at is null
  and (k.subject_key = any ($1::text[]) or k.effect_id = any ($2::bigint[]))
order by k.severity desc, k.id`;

/** One order of either side, whole. */
export async function readOrder(query: Query, id: string): Promise<ShownOrder> {
  const [found] = (await query.query<{ partner_id: string; side: 'deposit' | 'withdraw' }>(WHOSE, [id])).rows;
  const read =
    found === undefined
      ? null
      : found.side === 'deposit'
        ? await readDepositOrder(query, found.partner_id, id)
        : await readWithdrawWhole(query, found.partner_id, id);
  if (found === undefined || read === null)
    throw new PayonceError('PO_NOT_FOUND', {
      detail: `<order>: got "${id}", expected the id of an order (payonce p2p orders)`,
    });
  const legs = read.legs.map((leg) => leg.id);
  const effects = (await query.query<Rows<ShownEffect>>(EFFECTS, [legs])).rows;
  const payments = await listPayments(query, { unclear: false, legs, limit: null });
  const { rows: cases } = await query.query<Rows<ShownCase>>(CASES, [
    [...legs.map((leg) => `leg:${leg}`), ...payments.map((one) => `payment:${one.source}:${one.external_id}`)],
    effects.map((one) => one.id),
  ]);
  return {
    side: found.side,
    partner_id: found.partner_id,
    group: read.order.groupName,
    order: toOperatorView(read.order),
    legs: read.legs.map((leg) => ({
      ...toLegView(leg, read.order, null),
      deposit_order: leg.depositOrderId,
      withdraw_order: leg.withdrawOrderId,
      rail: leg.rail,
      corrections: leg.fixes,
    })),
    effects,
    payments,
    open_cases: cases,
  };
}

export interface ListedPayment {
  readonly id: string;
  readonly source: string;
  /** The source's own. */
  readonly external_id: string;
  readonly leg: string | null;
  readonly order: string | null;
  readonly reference: string;
  readonly fiat: string;
  readonly fiat_amount: string;
  readonly fate: 'part' | 'settled' | 'over' | 'late' | 'unmatched';
  readonly received_at: Date;
  readonly open_case: string | null;
}

const PAYMENTS = `select p.id, p.source, p.external_id, p.leg_id as leg, g.deposit_order_id as "order", p.reference, p.fiat, p.fiat_amount, p.fate,
       p.received_at, k.id as open_case,
       coalesce(o.fiat_decimals, (select max(m.fiat_decimals) from payonce.p2p_markets m where m.fiat = p.fiat), 0) as decimals
from payonce.p2p_payments p
left join payonce.p2p_legs g on g.id = p.leg_id
left join payonce.p2p_deposit_orders o on o.id = g.deposit_order_id and o.fiat = p.fiat
left join payonce.cases k
  on k.kind = 'payment_unclear' and k.closed_at is null and k.subject_key = 'payment:' || p.source || ':' || p.external_id
where (not $1 or k.id is not null)
  and ($2::text[] is null or p.leg_id = any ($2::text[]))
order by p.received_at desc, p.id desc
limit $3`;

/** The latest first. `unclear`: those that an open case is about. */
export async function listPayments(
  query: Query,
  filter: { readonly unclear: boolean; readonly legs?: readonly string[]; readonly limit: number | null },
): Promise<ListedPayment[]> {
  const { rows } = await query.query<Rows<ListedPayment & { decimals: number }>>(PAYMENTS, [
    filter.unclear,
    filter.legs ?? null,
    filter.limit,
  ]);
  return rows.map(({ decimals, ...one }) => ({
    ...one,
    fiat_amount: formatUnits(toUnits(one.fiat_amount, 'fiat_amount'), decimals),
  }));
}
