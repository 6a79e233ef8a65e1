/**
 * How long providers take to open trades (M22), from the tables: whichever process asked, whoever serves the metrics sees it.
 *
 * Promises: each trade that was accepted since the first reading is told once, also where its commit came late. Never: a scan of what
 * ever was: trades that are open, and those of orders of the last minutes, whose own may have ended between two readings. (One that did
 * although its order is older is not told: providers release after a payment, hence after minutes.)
 */
import type { Pool } from '../db/pool.ts';

/** Between two readings of a scraper lies far less. */
const WINDOW_MS = 15 * 60_000;

const RAILS = `select name
from payonce.rails
where name like 'escrow:%'
order by name`;

const ACCEPTED = `select e.id, e.rail, greatest(extract(epoch from e.accepted_at - e.first_sent_at), 0)::float8 as seconds
from (
  select s.id, s.rail, s.accepted_at, s.first_sent_at
  from payonce.effects s
  where s.state = 'SEALED'
    and s.rail = any ($1::text[])
    and s.subject_type = 'p2p_leg'
  union
  select s.id, s.rail, s.accepted_at, s.first_sent_at
  from payonce.p2p_deposit_orders o
  join payonce.p2p_legs g on g.deposit_order_id = o.id and g.kind = 'LP'
  join payonce.effects s on s.subject_type = 'p2p_leg' and s.subject_id = g.id and s.state <> 'RELEASED'
  where o.status = any ('{MATCHING,MATCHED,COMPLETED,PARTIALLY_SETTLED,EXPIRED,CANCELLED}')
    and o.created_at > (select payonce.now()) - make_interval(secs => $2::float8 / 1000)) e
where e.accepted_at > (select payonce.now()) - make_interval(secs => $2::float8 / 1000)`;

export interface TradeLatency {
  /** `fresh`: what was not told by an earlier reading; nothing of what was accepted before the first. */
  read(): Promise<{
    readonly rails: readonly string[];
    readonly fresh: readonly { readonly rail: string; readonly seconds: number }[];
  }>;
}

/** One reading at a time. */
export function makeTradeLatency(pool: Pool): TradeLatency {
  let known: ReadonlySet<bigint> | undefined;
  return {
    async read() {
      const rails = (await pool.query<{ name: string }>(RAILS)).rows.map((row) => row.name);
      const { rows } = await pool.query<{ id: bigint; rail: string; seconds: number }>(ACCEPTED, [rails, WINDOW_MS]);
      const before = known;
      // What has left the window never comes back into it.
      known = new Set(rows.map((row) => row.id));
      return { rails, fresh: before === undefined ? [] : rows.filter((row) => !before.has(row.id)) };
    },
  };
}
