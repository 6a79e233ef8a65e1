/**
 * The queue of buyers' orders: its status is the queue (M2).
 *
 * Promises: a claim is one short statement, committed at once (M3), never more than asked for whatever the plan (case L1), and
 * costs the same however many orders are closed (M12); its token goes up, and every write of the claim names it (M17). What a
 * dead matcher left is taken back after a while, as an attempt (M7), unless a trade is open for it: that no timer takes (M18).
 * Never: a lock held while anything is waited for.
 */
import { type Pool, toText, toUnits, type Tx } from '../../db/pool.ts';
import { type Desk, type DeskDeps, openDesk } from './desk.ts';
import { ATTEMPTS_MAX, FAILED_MS, FAILED_MS_MAX, MATCH_CLAIM, RECLAIM_AFTER_MS } from './limits.ts';

export interface Claimed {
  readonly id: string;
  readonly token: bigint;
}

// Due by `next_at`, which is when it was created until an attempt put it off: so the oldest first (M3), and none that wait for
// liquidity stand before one that is due.
const CLAIM = `update payonce.p2p_deposit_orders
set status = 'MATCHING', claimed_at = payonce.now(), claim_token = claim_token + 1
where id = any (array(
  select id from payonce.p2p_deposit_orders
  where status = 'PENDING'
    and next_at <= (select payonce.now())
  order by next_at, id
  limit $1
  for update skip locked))
returning id, claim_token`;

// Before statistics exist the planner takes the queue for short and would sort the whole of it: a backlog of a million, each time.
const BY_INDEX = `select set_config('enable_bitmapscan', 'off', true)`;

/** Durable on return. */
export async function claimOrders(pool: Pool, limit = MATCH_CLAIM): Promise<Claimed[]> {
  return pool.tx('claim orders', (tx) => claimIn(tx, limit));
}

/** The same in the caller's transaction, which is to be committed at once. */
export async function claimIn(tx: Tx, limit: number): Promise<Claimed[]> {
  await tx.query(BY_INDEX);
  const { rows } = await tx.query(CLAIM, [limit]);
  return rows.map((row) => ({
    id: toText(row['id'], 'id'),
    token: toUnits(row['claim_token'], 'claim_token'),
  }));
}

const LEFT = `select id, claim_token
from payonce.p2p_deposit_orders
where status = 'MATCHING'
  and not waits_lp
  and claimed_at < payonce.now() - make_interval(secs => $1::float8 / 1000)
order by claimed_at, id
limit $2`;

/** Takes back what a matcher left behind. Answers how many. */
export async function reclaimOnce(pool: Pool, deps: DeskDeps, afterMs = RECLAIM_AFTER_MS): Promise<number> {
  const { rows } = await pool.query(LEFT, [afterMs, MATCH_CLAIM]);
  for (const row of rows) {
    const claimed = { id: toText(row['id'], 'id'), token: toUnits(row['claim_token'], 'claim_token') };
    await failAttempt(pool, deps, claimed, 'RECLAIMED: the matcher that had it gave no answer');
  }
  return rows.length;
}

/** An attempt that came to nothing: back to the queue, or closed when it was the last (M6). Nothing if the claim is gone. */
export async function failAttempt(pool: Pool, deps: DeskDeps, claimed: Claimed, reason: string): Promise<void> {
  await pool.tx('attempt failed', async (tx) => {
    const desk = await openDesk(tx, { deposits: [claimed.id] });
    const order = desk.deposit(claimed.id);
    if (order === undefined || order.status !== 'MATCHING' || order.claimToken !== claimed.token || order.waitsLp)
      return;
    countAttempt(desk, claimed.id, reason);
    await desk.writeAndBook(tx, deps);
  });
}

/** Raises the count of a claimed order, and puts it back or closes it. */
export function countAttempt(desk: Desk, orderId: string, reason: string): void {
  const order = desk.deposit(orderId);
  if (order === undefined) return;
  const attempts = order.attempts + 1;
  // With a leg that is paid for it cannot simply end; the deadline and its legs close it.
  if (attempts >= ATTEMPTS_MAX && desk.legsOf(orderId).every((leg) => leg.state !== 'OPEN' || leg.kind === 'SELLER'))
    return desk.close(orderId, 'CANCELLED', 'MATCH_FAILED');
  desk.requeue(orderId, Math.min(FAILED_MS * 2 ** Math.min(attempts, 10), FAILED_MS_MAX), reason, attempts);
}
