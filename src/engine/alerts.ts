/**
 * Alerts: a row, a log line and a gauge. One open row per (kind, key): the same trouble seen again raises its counter and
 * is told once, also after a restart.
 */
import type { Query } from '../db/pool.ts';
import { storableText } from '../kernel/foreign-text.ts';
import type { Log } from '../kernel/log.ts';

const RAISE = `insert into payonce.alerts (kind, key, message)
values ($1, $2, $3)
on conflict (kind, key) where cleared_at is null
do update set last_at = payonce.now(), times = payonce.alerts.times + 1
returning times`;

const CLEAR = `update payonce.alerts
set cleared_at = payonce.now()
where kind = $1
  and key = $2
  and cleared_at is null`;

const OPEN = `select kind, key, message, first_at, last_at, times
from (
  select kind, key, message, first_at, last_at, times
  from payonce.alerts
  where cleared_at is null
  union all
  select 'case', id, kind || ': ' || summary, opened_at, last_seen_at, 1
  from payonce.cases
  where closed_at is null
    and severity >= 2
) o
order by first_at, kind, key
limit 1000`;

export interface Alert {
  kind: string;
  key: string;
  message: string;
  firstAt: Date;
  lastAt: Date;
  times: bigint;
}

/** Raises or repeats an alert; logs it when it is new. Durable with the caller's commit. */
export async function raiseAlert(query: Query, kind: string, key: string, message: string, log?: Log): Promise<void> {
  const { rows } = await query.query<{ times: bigint }>(RAISE, [kind, storableText(key), storableText(message)]);
  if (rows[0]?.times === 1n) log?.warn({ alert: kind, key }, message);
}

/** The trouble is over. */
export async function clearAlert(query: Query, kind: string, key: string): Promise<void> {
  await query.query(CLEAR, [kind, storableText(key)]);
}

/** What people should look at now, the oldest first: alerts, and each open case that cannot wait until somebody has time. */
export async function loadOpenAlerts(query: Query): Promise<Alert[]> {
  const { rows } = await query.query<{
    kind: string;
    key: string;
    message: string;
    first_at: Date;
    last_at: Date;
    times: bigint;
  }>(OPEN);
  return rows.map((row) => ({
    kind: row.kind,
    key: row.key,
    message: row.message,
    firstAt: row.first_at,
    lastAt: row.last_at,
    times: row.times,
  }));
}
