/** What partners and people read: an order with its legs, lists, and the gauges of the queue (M5, M22). One query each. */
import { type Query, type Row, toText } from '../../db/pool.ts';
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

export interface ReadDeposit {
  readonly order: DepositOrder;
  readonly legs: readonly Leg[];
  /** Where legs of sellers are paid, by order. */
  readonly sellers: ReadonlyMap<string, Pick<WithdrawOrder, 'bankCode' | 'accountNumber' | 'holderName'>>;
  /** Trades of legs, by leg: the effect and the provider's id. */
  readonly trades: ReadonlyMap<string, Trade>;
  readonly place: string;
}

export interface Trade {
  readonly rail: string;
  /** The provider's own id, once it is known. */
  readonly tradeId: string | null;
  /** The last answer that showed it, as it is stored. */
  readonly answer: string | null;
}

export interface ReadWithdraw {
  readonly order: WithdrawOrder;
  readonly legs: readonly Leg[];
  readonly place: string;
}

const PLACE_TEXT = `to_char(o.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as place`;

const LEGS_OF_BUYER = `left join lateral (
  select g.*, w.bank_code, w.account_number, w.holder_name, e.accepted_object, e.answer
  from payonce.p2p_legs g
  left join payonce.p2p_withdraw_orders w on w.id = g.withdraw_order_id
  left join lateral (
    select e.accepted_object, (
      select n.body from payonce.effect_answers n
      where n.effect_id = e.id and n.observed in ('accepted', 'final_success') order by n.id desc limit 1) as answer
    from payonce.effects e
    where e.subject_type = 'p2p_leg' and e.subject_id = g.id order by e.seq desc limit 1) e on g.kind = 'LP'
  where g.deposit_order_id = o.id) g on true`;

const LEG_COLUMNS = `g.id as leg_id, g.deposit_order_id, g.ordinal, g.slot, g.kind, g.withdraw_order_id, g.rail, g.amount as leg_amount, g.price as leg_price,
  g.fiat_amount, g.state, g.created_at as leg_created_at, g.pay_by, g.paid_marked_at, g.disputed_at, g.ended_at, g.end_reason, g.fixes`;

const READ_DEPOSIT = `select ${DEPOSIT_COLUMNS}, ${PLACE_TEXT}, ${LEG_COLUMNS}, g.bank_code, g.account_number, g.holder_name, g.accepted_object, g.answer
from payonce.p2p_deposit_orders o
join payonce.assets a on a.id = o.asset_id
${LEGS_OF_BUYER}
where o.partner_id = $1
  and o.id = $2
order by g.ordinal`;

const LIST_DEPOSITS = `select ${DEPOSIT_COLUMNS}, o.place, ${LEG_COLUMNS}, g.bank_code, g.account_number, g.holder_name, g.accepted_object, g.answer
from (
  select o.*, ${PLACE_TEXT}
  from payonce.p2p_deposit_orders o
  where o.partner_id = $1
    and ($2::timestamptz is null or (o.created_at, o.id) < ($2::timestamptz, $3::text))
    and ($4::text[] is null or o.status = any ($4::text[]))
    and ($5::text is null or o.external_id = $5::text)
  order by o.created_at desc, o.id desc
  limit $6) o
join payonce.assets a on a.id = o.asset_id
${LEGS_OF_BUYER}
order by o.created_at desc, o.id desc, g.ordinal`;

// As its partner is told: a leg whose order is not matched may still be taken back, and was announced to nobody.
const LEGS_OF_SELLER = `left join payonce.p2p_legs g on g.withdraw_order_id = o.id`;
const ANNOUNCED = `and (g.state = 'SETTLED' or exists (
    select 1 from payonce.p2p_deposit_orders d where d.id = g.deposit_order_id and d.matched_at is not null))`;

const READ_WITHDRAW = `select ${WITHDRAW_COLUMNS}, ${PLACE_TEXT}, ${LEG_COLUMNS}
from payonce.p2p_withdraw_orders o
${WITHDRAW_JOINS}
${LEGS_OF_SELLER}
  ${ANNOUNCED}
where o.partner_id = $1
  and o.id = $2
order by g.created_at, g.id`;

// For people: every leg that is written.
const READ_WITHDRAW_WHOLE = `select ${WITHDRAW_COLUMNS}, ${PLACE_TEXT}, ${LEG_COLUMNS}
from payonce.p2p_withdraw_orders o
${WITHDRAW_JOINS}
${LEGS_OF_SELLER}
where o.partner_id = $1
  and o.id = $2
order by g.created_at, g.id`;

const LIST_WITHDRAWS = `select ${WITHDRAW_COLUMNS}, o.place, ${LEG_COLUMNS}
from (
  select o.*, ${PLACE_TEXT}
  from payonce.p2p_withdraw_orders o
  where o.partner_id = $1
    and ($2::timestamptz is null or (o.created_at, o.id) < ($2::timestamptz, $3::text))
    and ($4::text[] is null or o.status = any ($4::text[]))
    and ($5::text is null or o.external_id = $5::text)
  order by o.created_at desc, o.id desc
  limit $6) o
${WITHDRAW_JOINS}
${LEGS_OF_SELLER}
  ${ANNOUNCED}
order by o.created_at desc, o.id desc, g.created_at, g.id`;

function legsIn(rows: readonly Row[]): Leg[] {
  return rows.flatMap((row) =>
    row['leg_id'] === null
      ? []
      : toLeg({
          ...row,
          id: row['leg_id'],
          amount: row['leg_amount'],
          price: row['leg_price'],
          created_at: row['leg_created_at'],
        }),
  );
}

function grouped(rows: readonly Row[]): Row[][] {
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    const id = toText(row['id'], 'id');
    groups.set(id, [...(groups.get(id) ?? []), row]);
  }
  return [...groups.values()];
}

function toReadDeposit(rows: readonly Row[]): ReadDeposit | null {
  const [first] = rows;
  if (first === undefined) return null;
  return {
    order: toDepositOrder(first),
    legs: legsIn(rows),
    sellers: new Map(
      rows.flatMap((row) =>
        typeof row['withdraw_order_id'] === 'string'
          ? [
              [
                row['withdraw_order_id'],
                {
                  bankCode: toText(row['bank_code'], 'bank_code'),
                  accountNumber: toText(row['account_number'], 'account_number'),
                  holderName: toText(row['holder_name'], 'holder_name'),
                },
              ],
            ]
          : [],
      ),
    ),
    trades: new Map(
      rows.flatMap((row) =>
        typeof row['leg_id'] === 'string' && typeof row['rail'] === 'string'
          ? [
              [
                row['leg_id'],
                {
                  rail: row['rail'],
                  tradeId: row['accepted_object'] as string | null,
                  answer: row['answer'] as string | null,
                },
              ],
            ]
          : [],
      ),
    ),
    place: toText(first['place'], 'place'),
  };
}

function toReadWithdraw(rows: readonly Row[]): ReadWithdraw | null {
  const [first] = rows;
  if (first === undefined) return null;
  return { order: toWithdrawOrder(first), legs: legsIn(rows), place: toText(first['place'], 'place') };
}

/** `null`: the partner has none of this id. */
export async function readDepositOrder(query: Query, partnerId: string, id: string): Promise<ReadDeposit | null> {
  return toReadDeposit((await query.query(READ_DEPOSIT, [partnerId, id])).rows);
}
export async function readWithdrawOrder(query: Query, partnerId: string, id: string): Promise<ReadWithdraw | null> {
  return toReadWithdraw((await query.query(READ_WITHDRAW, [partnerId, id])).rows);
}
/** With legs that were announced to nobody yet. */
export async function readWithdrawWhole(query: Query, partnerId: string, id: string): Promise<ReadWithdraw | null> {
  return toReadWithdraw((await query.query(READ_WITHDRAW_WHOLE, [partnerId, id])).rows);
}

export interface OrderFilter {
  readonly before: { readonly at: string; readonly id: string } | null;
  readonly statuses: readonly string[] | null;
  readonly externalId: string | null;
  readonly limit: number;
}

const filterValues = (partnerId: string, { before, statuses, externalId, limit }: OrderFilter): unknown[] => [
  partnerId,
  before?.at ?? null,
  before?.id ?? null,
  statuses,
  externalId,
  limit,
];

/** The newest first. */
export async function listDepositOrders(query: Query, partnerId: string, filter: OrderFilter): Promise<ReadDeposit[]> {
  const { rows } = await query.query(LIST_DEPOSITS, filterValues(partnerId, filter));
  return grouped(rows).flatMap((one) => toReadDeposit(one) ?? []);
}
export async function listWithdrawOrders(
  query: Query,
  partnerId: string,
  filter: OrderFilter,
): Promise<ReadWithdraw[]> {
  const { rows } = await query.query(LIST_WITHDRAWS, filterValues(partnerId, filter));
  return grouped(rows).flatMap((one) => toReadWithdraw(one) ?? []);
}

export interface QueueGauges {
  readonly pending: number;
  readonly matching: number;
  readonly waitsLp: number;
  readonly oldestPendingSeconds: number;
  readonly oldestMatchingSeconds: number;
  readonly oldestWaitsLpSeconds: number;
}

const GAUGES = `select
  (select count(*)::int from payonce.p2p_deposit_orders where status = 'PENDING') as pending,
  (select count(*)::int from payonce.p2p_deposit_orders where status = 'MATCHING') as matching,
  (select count(*)::int from payonce.p2p_deposit_orders where status = 'MATCHING' and waits_lp) as waits_lp,
  (select coalesce(extract(epoch from payonce.now() - min(created_at)), 0)::float8 from payonce.p2p_deposit_orders where status = 'PENDING') as oldest_pending,
  (select coalesce(extract(epoch from payonce.now() - min(claimed_at)), 0)::float8 from payonce.p2p_deposit_orders where status = 'MATCHING' and not waits_lp) as oldest_matching,
  (select coalesce(extract(epoch from payonce.now() - min(claimed_at)), 0)::float8 from payonce.p2p_deposit_orders where status = 'MATCHING' and waits_lp) as oldest_waits_lp`;

/** M22. */
export async function readQueueGauges(query: Query): Promise<QueueGauges> {
  const [row] = (await query.query<Record<string, number>>(GAUGES)).rows;
  return {
    pending: row?.['pending'] ?? 0,
    matching: row?.['matching'] ?? 0,
    waitsLp: row?.['waits_lp'] ?? 0,
    oldestPendingSeconds: row?.['oldest_pending'] ?? 0,
    oldestMatchingSeconds: row?.['oldest_matching'] ?? 0,
    oldestWaitsLpSeconds: row?.['oldest_waits_lp'] ?? 0,
  };
}
