/** Cancelling: conditional, one winner (M20, case I3). What is matched is not taken back by it; its legs are. */
import type { Query } from '../../db/pool.ts';
import type { EngineDeps } from '../../engine/deps.ts';
import { lockEffectsOfSubject } from '../../engine/store.ts';
import { openDesk } from './desk.ts';
import { LEG } from './order.ts';
import { cancelTrades } from './trades.ts';

export type CancelOrderOutcome =
  /** A seller's order with open legs: it takes no more, what is free went back, and its legs decide the rest. */
  | 'cancelled'
  | 'closing'
  | 'not_found'
  /** A trade is being opened for it: whether that stands is known soon. */
  | 'opening'
  | { readonly matched: readonly string[] }
  | { readonly ended: string };

/** A buyer's order, while nobody was told of legs. Durable on return; said twice it is `cancelled` again. */
export async function cancelDepositOrder(
  engine: EngineDeps,
  partnerId: string,
  id: string,
): Promise<CancelOrderOutcome> {
  return engine.pool.tx('cancel deposit order', async (tx): Promise<CancelOrderOutcome> => {
    const desk = await openDesk(tx, { deposits: [id] });
    const order = desk.deposit(id);
    if (order === undefined || order.partnerId !== partnerId) return 'not_found';
    if (order.status === 'CANCELLED') return 'cancelled';
    if (order.closedAt !== null) return { ended: order.status.toLowerCase() };
    const open = desk.legsOf(id).filter((leg) => leg.state === 'OPEN');
    if (order.status === 'MATCHED' || open.some((leg) => leg.kind === 'LP' && !order.waitsLp))
      return { matched: open.map((leg) => leg.id) };
    if (order.waitsLp) return 'opening';
    desk.close(id, 'CANCELLED', 'CANCELLED_BY_PARTNER');
    await desk.writeAndBook(tx, engine);
    return 'cancelled';
  });
}

/** A seller's order: what no leg has goes back at once. */
export async function cancelWithdrawOrder(
  engine: EngineDeps,
  partnerId: string,
  id: string,
): Promise<CancelOrderOutcome> {
  return engine.pool.tx('cancel withdraw order', async (tx): Promise<CancelOrderOutcome> => {
    const desk = await openDesk(tx, { withdraws: [id] });
    const order = desk.withdraw(id);
    if (order === undefined || order.partnerId !== partnerId) return 'not_found';
    if (order.status === 'CANCELLED') return 'cancelled';
    if (order.closedAt !== null) return { ended: order.status.toLowerCase() };
    if (order.status === 'CLOSING') return 'closing';
    desk.closeSeller(id, 'CANCELLED');
    await desk.writeAndBook(tx, engine);
    return order.closedAt === null ? 'closing' : 'cancelled';
  });
}

export type CancelLegOutcome = 'cancelled' | 'asked' | 'not_found' | { readonly ended: string };

const LEG_OF_BUYER = `select g.deposit_order_id
from payonce.p2p_legs g
join payonce.p2p_deposit_orders o on o.id = g.deposit_order_id
where g.id = $1
  and o.partner_id = $2`;

/**
 * The buyer's partner gives a leg up. A seller's leg that nobody says was paid is void at once; a provider is asked to end its
 * trade (`asked`: an effect of its own), and until it says so the leg stands.
 */
export async function cancelLeg(engine: EngineDeps, partnerId: string, legId: string): Promise<CancelLegOutcome> {
  const cancelled = await engine.pool.tx('cancel leg', async (tx): Promise<CancelLegOutcome> => {
    const [named] = (await tx.query<{ deposit_order_id: string }>(LEG_OF_BUYER, [legId, partnerId])).rows;
    if (named === undefined) return 'not_found';
    const effects = await lockEffectsOfSubject(tx, LEG, legId);
    const desk = await openDesk(tx, { deposits: [named.deposit_order_id] });
    const leg = desk.leg(legId);
    const order = desk.deposit(named.deposit_order_id);
    if (leg === undefined || order === undefined || order.matchedAt === null) return 'not_found';
    if (leg.state === 'VOID') return 'cancelled';
    if (leg.state !== 'OPEN') return { ended: leg.state.toLowerCase() };
    if (leg.paidMarkedAt !== null) return { ended: 'said to be paid: a dispute decides it' };
    if (leg.disputedAt !== null) return { ended: 'disputed' };
    if (leg.kind === 'LP') {
      await cancelTrades(
        tx,
        effects.filter((effect) => effect.state === 'SEALED'),
      );
      return 'asked';
    }
    desk.end(legId, 'VOID', 'CANCELLED_BY_PARTNER', 'CANCELLED_BY_PARTNER');
    await desk.writeAndBook(tx, engine);
    return 'cancelled';
  });
  return cancelled;
}

const SWITCH = `update payonce.p2p_members
set matching_off_at = case when $2 then coalesce(matching_off_at, payonce.now()) end
where partner_id = $1`;

/** M22. `false`: the partner is in no group. */
export async function switchMatching(query: Query, partnerId: string, isOff: boolean): Promise<boolean> {
  return (await query.query(SWITCH, [partnerId, isOff])).rowCount === 1;
}
