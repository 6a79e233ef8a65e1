/**
 * What time does to orders and legs, and what it does not: a leg that is paid for or disputed, and an order whose trade is being
 * opened, have no timer (design §7, M18, M20). Time is the database's. One transaction per order, but where
 * nothing is decided any more (trades that stand); any number of processes.
 */
import { type Pool, toText } from '../../db/pool.ts';
import { cancelSubject } from '../../engine/cancel.ts';
import type { EngineDeps } from '../../engine/deps.ts';
import { InvariantBroken } from '../../kernel/errors.ts';
import type { Log } from '../../kernel/log.ts';
import { type Desk, type DeskDeps, openDesk } from './desk.ts';
import { EXPIRE_BATCH, STAND_BATCH } from './limits.ts';
import { LEG } from './order.ts';

// Trades that stand, of orders that wait for them: what the provider has said is on the effect's row (M18).
const STANDING = `select o.id
from payonce.p2p_deposit_orders o
where o.status = 'MATCHING'
  and o.waits_lp
  and not exists (
    select 1 from payonce.p2p_legs g
    join payonce.effects e on e.subject_type = 'p2p_leg' and e.subject_id = g.id and e.state <> 'RELEASED'
    where g.deposit_order_id = o.id and g.kind = 'LP' and g.state = 'OPEN' and e.accepted_at is null and e.state <> 'SETTLED')
order by o.claimed_at, o.id
limit $1`;

const NOT_STANDING = `select distinct g.deposit_order_id
from payonce.p2p_legs g
join payonce.effects e on e.subject_type = 'p2p_leg' and e.subject_id = g.id and e.state <> 'RELEASED'
where g.deposit_order_id = any ($1::text[])
  and g.kind = 'LP'
  and g.state = 'OPEN'
  and e.accepted_at is null
  and e.state <> 'SETTLED'`;

/**
 * Orders whose trades stand are MATCHED, many in one transaction: nothing is decided for them any more, and a commit for each would cost as
 * much as their matching. Where one of them cannot be written each is on its own, so that it holds up no other (M3). Answers how many.
 */
export async function standOnce(pool: Pool, deps: DeskDeps & { readonly log: Log }): Promise<number> {
  const ids = (await pool.query(STANDING, [EXPIRE_BATCH])).rows.map((row) => toText(row['id'], 'id'));
  let matched = 0;
  for (let from = 0; from < ids.length; from += STAND_BATCH) {
    const some = ids.slice(from, from + STAND_BATCH);
    try {
      matched += await stand(pool, deps, some);
    } catch (error) {
      deps.log.warn({ err: error, orders: some.length }, 'orders cannot be matched together; each is on its own');
      matched += await standEach(pool, deps, some);
    }
  }
  return matched;
}

async function standEach(pool: Pool, deps: DeskDeps & { readonly log: Log }, ids: readonly string[]): Promise<number> {
  let matched = 0;
  for (const id of ids) {
    try {
      matched += await stand(pool, deps, [id]);
    } catch (error) {
      if (error instanceof InvariantBroken) throw error;
      deps.log.error(
        { err: error, deposit_order: id },
        'its trades stand, and it could not be matched; it is tried again',
      );
    }
  }
  return matched;
}

async function stand(pool: Pool, deps: DeskDeps, ids: readonly string[]): Promise<number> {
  if (ids.length === 0) return 0;
  return pool.tx('stand', async (tx) => {
    const desk = await openDesk(tx, { deposits: ids });
    const { rows } = await tx.query<{ deposit_order_id: string }>(NOT_STANDING, [ids]);
    const not = new Set(rows.map((row) => row.deposit_order_id));
    const standing = ids.filter((id) => {
      const order = desk.deposit(id);
      const has = desk.legsOf(id).some((leg) => leg.state === 'OPEN' || leg.state === 'SETTLED');
      return order?.status === 'MATCHING' && order.waitsLp && !not.has(id) && has;
    });
    for (const id of standing) desk.match(id);
    await desk.writeAndBook(tx, deps);
    return standing.length;
  });
}

const DUE_LEGS = `select distinct on (deposit_order_id) deposit_order_id
from (
  select deposit_order_id from payonce.p2p_legs
  where state = 'OPEN'
    and kind = 'SELLER'
    and paid_marked_at is null
    and disputed_at is null
    and pay_by <= (select payonce.now())
  order by pay_by, id
  limit $1) g`;

const LATE_BUYERS = `select id
from payonce.p2p_deposit_orders
where status = 'PENDING'
  and expires_at <= (select payonce.now())
order by expires_at, id
limit $1`;

const LATE_SELLERS = `select id
from payonce.p2p_withdraw_orders
where status = 'OPEN'
  and expires_at <= (select payonce.now())
order by expires_at, id
limit $1`;

// Nothing was asked of the provider yet, and the order's time is over.
const LATE_TRADES = `select g.id, e.partner_id
from payonce.p2p_deposit_orders o
join payonce.p2p_legs g on g.deposit_order_id = o.id and g.kind = 'LP' and g.state = 'OPEN'
join payonce.effects e on e.subject_type = 'p2p_leg' and e.subject_id = g.id and e.state = 'PENDING'
where o.status = 'MATCHING'
  and o.waits_lp
  and o.expires_at <= (select payonce.now())
limit $1`;

/** Ends what is due. Answers how many orders it touched. */
export async function expireOnce(engine: EngineDeps): Promise<number> {
  const { pool } = engine;
  let touched = 0;
  for (const row of (await pool.query(DUE_LEGS, [EXPIRE_BATCH])).rows) {
    const id = toText(row['deposit_order_id'], 'deposit_order_id');
    touched += await onDesk(pool, engine, 'expire legs', id, (desk) => {
      const due = desk
        .legsOf(id)
        .filter(
          (leg) =>
            leg.state === 'OPEN' &&
            leg.kind === 'SELLER' &&
            leg.paidMarkedAt === null &&
            leg.disputedAt === null &&
            leg.payBy !== null &&
            leg.payBy <= (desk.deposit(id)?.now ?? new Date(0)),
        );
      for (const leg of due) desk.end(leg.id, 'EXPIRED', 'NOT_PAID_IN_TIME', 'NOT_PAID_IN_TIME');
      return due.length > 0;
    });
  }
  for (const row of (await pool.query(LATE_BUYERS, [EXPIRE_BATCH])).rows) {
    const id = toText(row['id'], 'id');
    touched += await onDesk(pool, engine, 'expire order', id, (desk) => {
      const order = desk.deposit(id);
      if (order?.status !== 'PENDING' || order.expiresAt > order.now) return false;
      // Sellers who stand ready are the matcher's to give to it, if it takes a part.
      if (desk.legsOf(id).some((leg) => leg.state === 'OPEN' && (order.takesPart || leg.kind === 'LP'))) return false;
      desk.close(id, 'EXPIRED', 'NO_LIQUIDITY');
      return true;
    });
  }
  for (const row of (await pool.query(LATE_SELLERS, [EXPIRE_BATCH])).rows)
    touched += await closeSeller(engine, toText(row['id'], 'id'), 'EXPIRED');
  for (const row of (await pool.query(LATE_TRADES, [EXPIRE_BATCH])).rows) {
    const outcome = await cancelSubject(
      engine,
      LEG,
      toText(row['partner_id'], 'partner_id'),
      toText(row['id'], 'id'),
      'deadline',
    );
    if (outcome === 'cancelled') touched += 1;
  }
  return touched;
}

async function closeSeller(engine: EngineDeps, id: string, as: 'EXPIRED'): Promise<number> {
  return engine.pool.tx('expire order', async (tx) => {
    const desk = await openDesk(tx, { withdraws: [id] });
    const order = desk.withdraw(id);
    if (order?.status !== 'OPEN' || order.expiresAt > order.now) return 0;
    desk.closeSeller(id, as);
    await desk.writeAndBook(tx, engine);
    return 1;
  });
}

async function onDesk(
  pool: Pool,
  deps: DeskDeps,
  name: string,
  orderId: string,
  act: (desk: Desk) => boolean,
): Promise<number> {
  return pool.tx(name, async (tx) => {
    const desk = await openDesk(tx, { deposits: [orderId] });
    if (!act(desk)) return 0;
    await desk.writeAndBook(tx, deps);
    return 1;
  });
}
