/**
 * Matching: one transaction per claimed order, with no wire in it (M3, M9).
 *
 * It finds who fills the order and locks them (`find-legs.ts`), reserves by a conditional update, and writes the legs. A trade at a provider is only intended here, as an effect: the engine opens it, with no lock held by
 * anybody, and the order waits for it in MATCHING (M18). What cannot be had is no failure: the order waits in the queue (M19).
 */
import { type Pool, toText, type Tx } from '../../db/pool.ts';
import { intend, type Intent } from '../../engine/intend.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import { lengthPrefixed } from '../../kernel/ids.ts';
import type { Log } from '../../kernel/log.ts';
import { formatUnits } from '../../kernel/money.ts';
import { type Claimed, claimOrders, failAttempt, reclaimOnce } from './claim.ts';
import { type DeskDeps, openDesk } from './desk.ts';
import { findLegs } from './find-legs.ts';
import {
  LEGS_MAX,
  MATCH_LANES,
  NO_LIQUIDITY_MS,
  NO_LIQUIDITY_MS_MAX,
  PRICE_DECIMALS,
  RACED_MS,
  RACES_MAX,
} from './limits.ts';
import { DEPOSIT_COLUMNS, type DepositOrder, LEG, toDepositOrder } from './order.ts';
import { fiatOf, type PlannedLegs, type Route } from './plan-legs.ts';

export interface MatchDeps extends DeskDeps {
  readonly pool: Pool;
  readonly log: Log;
}

export interface MatchCounts {
  /** Orders that got all their legs, or wait for a trade. */
  matched: number;
  waiting: number;
  failed: number;
  /** Claims that were gone when they came to write. */
  lost: number;
}

/** One pass: takes back what was left, claims, matches each. Answers what became of what it claimed. */
export async function matchOnce(deps: MatchDeps, counts: MatchCounts): Promise<number> {
  await reclaimOnce(deps.pool, deps);
  const claimed = await claimOrders(deps.pool);
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let one = claimed[next]; one !== undefined; one = claimed[next]) {
      next += 1;
      await matchClaimed(deps, one, counts);
    }
  };
  await Promise.all(Array.from({ length: Math.min(MATCH_LANES, claimed.length) }, lane));
  return claimed.length;
}

/** One order's failure never holds up another (M3): its attempt is counted, and it waits its turn. */
export async function matchClaimed(deps: MatchDeps, claimed: Claimed, counts: MatchCounts): Promise<void> {
  try {
    for (let race = 1; ; race += 1) {
      const outcome = await deps.pool.tx('match', (tx) => matchIn(tx, deps, claimed, race));
      if (outcome === 'raced') continue;
      counts[outcome] += 1;
      return;
    }
  } catch (error) {
    counts.failed += 1;
    deps.log.error({ err: error, deposit_order: claimed.id }, 'an order could not be matched; it is tried again');
    await failAttempt(deps.pool, deps, claimed, error instanceof Error ? error.message.slice(0, 200) : 'failed');
  }
}

/** `raced`: nothing was written, and its locks end with the transaction; never of the last race. */
async function matchIn(
  tx: Tx,
  deps: MatchDeps,
  claimed: Claimed,
  race: number,
): Promise<'matched' | 'waiting' | 'lost' | 'raced'> {
  const order = await lockClaimed(tx, claimed);
  if (order === null) return 'lost';
  const standing = await loadStanding(tx, order.id);
  const isLate = order.expiresAt <= order.now;
  const slots = LEGS_MAX - standing.slots.length;
  const nobody: PlannedLegs = { sellers: [], lp: null, left: order.remaining };
  const found =
    isLate || slots === 0 || order.remaining < order.legMin || order.isOff
      ? nobody
      : await findLegs(tx, order, { slots, waits: race > 1 });
  if (found === 'raced' && race < RACES_MAX) return 'raced';
  const legs = found === 'raced' ? nobody : found;
  await writeLegs(tx, deps, order, legs, standing);
  // The provider is asked by the engine; until it has answered nobody is told, and no timer takes the order (M18).
  if (legs.lp !== null) return 'matched';
  const desk = await openDesk(tx, { deposits: [order.id] });
  const stands = legs.sellers.length + standing.slots.length > 0;
  const outcome = stands && (order.takesPart || legs.left < order.legMin) ? 'matched' : 'waiting';
  if (outcome === 'matched') desk.match(order.id);
  else if (isLate) desk.close(order.id, 'EXPIRED', 'NO_LIQUIDITY');
  else if (found === 'raced') desk.requeue(order.id, RACED_MS, 'SELLERS_ARE_BUSY', order.attempts);
  else desk.requeue(order.id, waitOf(order), order.isOff ? 'MATCHING_IS_OFF' : 'NO_LIQUIDITY', order.attempts);
  await desk.writeAndBook(tx, deps);
  return outcome;
}

/** Looked at less often the longer it has waited, and once more when its time is over. */
function waitOf(order: DepositOrder): number {
  const age = order.now.getTime() - order.createdAt.getTime();
  const untilDeadline = Math.max(order.expiresAt.getTime() - order.now.getTime(), 0) + 1;
  return Math.min(Math.max(NO_LIQUIDITY_MS, age / 4), NO_LIQUIDITY_MS_MAX, untilDeadline);
}

interface ClaimedOrder extends DepositOrder {
  readonly naturalKey: string;
  /** M22: its partner's orders are not matched now. */
  readonly isOff: boolean;
}

const LOCK_CLAIMED = `select ${DEPOSIT_COLUMNS}, s.natural_key, coalesce(e.matching_off_at is not null, true) as is_off
from payonce.p2p_deposit_orders o
join payonce.assets a on a.id = o.asset_id
join payonce.subjects s on s.type = 'deposit_order' and s.id = o.id
left join payonce.p2p_members e on e.partner_id = o.partner_id
where o.id = $1
  and o.status = 'MATCHING'
  and o.claim_token = $2
  and not o.waits_lp
for no key update of o`;

/** M17: the order as it is under its lock, if the claim still stands. */
async function lockClaimed(tx: Tx, claimed: Claimed): Promise<ClaimedOrder | null> {
  const [row] = (await tx.query(LOCK_CLAIMED, [claimed.id, claimed.token])).rows;
  if (row === undefined) return null;
  return {
    ...toDepositOrder(row),
    naturalKey: toText(row['natural_key'], 'natural_key'),
    isOff: row['is_off'] === true,
  };
}

const STANDING = `select coalesce(max(ordinal), 0) as ordinal, coalesce(array_agg(slot) filter (where state in ('OPEN', 'SETTLED')), '{}') as slots
from payonce.p2p_legs
where deposit_order_id = $1`;

interface Standing {
  readonly ordinal: number;
  readonly slots: readonly number[];
}

async function loadStanding(tx: Tx, orderId: string): Promise<Standing> {
  const [row] = (await tx.query(STANDING, [orderId])).rows;
  return { ordinal: row?.['ordinal'] as number, slots: row?.['slots'] as number[] };
}

// The condition is the guard (M8): what the plan believed is tested where it is written.
const RESERVE = `update payonce.p2p_withdraw_orders o
set reserved = o.reserved + u.amount
from unnest($1::text[], $2::numeric[]) as u (id, amount)
where o.id = u.id
  and o.status = 'OPEN'
  and o.amount - o.reserved - o.settled - o.given_back >= u.amount`;

const INSERT_LEGS = `insert into payonce.p2p_legs
  (id, deposit_order_id, ordinal, slot, kind, withdraw_order_id, rail, amount, price, fiat_amount, claim_token)
select u.id, $1, u.ordinal, u.slot, u.kind, u.withdraw_order_id, u.rail, u.amount, u.price, u.fiat_amount, $2
from unnest($3::text[], $4::int[], $5::int[], $6::text[], $7::text[], $8::text[], $9::numeric[], $10::numeric[], $11::numeric[])
  as u (id, ordinal, slot, kind, withdraw_order_id, rail, amount, price, fiat_amount)`;

const TAKE = `update payonce.p2p_deposit_orders
set remaining_amount = remaining_amount - $3, waits_lp = $4
where id = $1
  and status = 'MATCHING'
  and claim_token = $2`;

async function writeLegs(
  tx: Tx,
  deps: MatchDeps,
  order: ClaimedOrder,
  { sellers, lp }: PlannedLegs,
  standing: Standing,
): Promise<void> {
  if (sellers.length === 0 && lp === null) return;
  const free = [1, 2, 3].filter((slot) => !standing.slots.includes(slot));
  const legs = [
    ...sellers.map((one) => ({ ...one, kind: 'SELLER', withdrawOrderId: one.id, rail: null })),
    ...(lp === null
      ? []
      : [{ kind: 'LP', amount: lp.amount, price: order.price, withdrawOrderId: null, rail: lp.route.rail }]),
  ].map((leg, index) => ({
    ...leg,
    id: deps.makeId('leg'),
    ordinal: standing.ordinal + index + 1,
    slot: free[index],
    fiatAmount: fiatOf(leg.amount, leg.price, order.decimals, order.fiatDecimals),
  }));
  const reserved = await tx.query(RESERVE, [sellers.map((one) => one.id), sellers.map((one) => one.amount)]);
  if (reserved.rowCount !== sellers.length)
    throw new InvariantBroken(`order ${order.id}: a seller’s amount was gone under its lock`);
  await tx.query(INSERT_LEGS, [
    order.id,
    order.claimToken,
    legs.map((leg) => leg.id),
    legs.map((leg) => leg.ordinal),
    legs.map((leg) => leg.slot),
    legs.map((leg) => leg.kind),
    legs.map((leg) => leg.withdrawOrderId),
    legs.map((leg) => leg.rail),
    legs.map((leg) => leg.amount),
    legs.map((leg) => leg.price),
    legs.map((leg) => leg.fiatAmount),
  ]);
  const sum = legs.reduce((total, leg) => total + leg.amount, 0n);
  const taken = await tx.query(TAKE, [order.id, order.claimToken, sum, lp !== null]);
  if (taken.rowCount !== 1) throw new InvariantBroken(`order ${order.id} was lost under its lock`);
  const trade = legs.find((leg) => leg.kind === 'LP');
  if (trade !== undefined && lp !== null)
    await intend(tx, [tradeIntent(order, trade, lp.route)], () => Promise.resolve());
}

/** A trade that is to be opened: its identity is the order's own, and the leg's place in it. */
function tradeIntent(
  order: ClaimedOrder,
  leg: { readonly id: string; readonly ordinal: number; readonly amount: bigint; readonly fiatAmount: bigint },
  route: Route,
): Intent {
  return {
    subjectType: LEG,
    subjectId: leg.id,
    partnerId: order.partnerId,
    naturalKey: lengthPrefixed([order.naturalKey, String(leg.ordinal)]),
    rail: route.rail,
    assetId: order.assetId,
    amount: leg.amount,
    destination: `trade:${leg.id}`,
    wallet: route.account,
    signer: route.account,
    trade: {
      act: 'open',
      reference: leg.id,
      fiat: order.fiat,
      fiatAmount: formatUnits(leg.fiatAmount, order.fiatDecimals),
      price: formatUnits(order.price, PRICE_DECIMALS),
      payBy: new Date(order.expiresAt.getTime() + Number(order.payWithinMs)).toISOString(),
      tradeId: null,
    },
  };
}
