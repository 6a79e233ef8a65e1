/**
 * What of P2P waits for something that nobody does: orders that no matcher claims, claims of matchers that died, surpluses that lie in
 * suspense, and payments that nobody has placed. Reads only.
 */
import type { Query } from '../db/pool.ts';
import { formatUnits } from '../kernel/money.ts';
import type { Finding } from './finding.ts';

/** A matcher looks each second; a claim is over within moments, and is taken back after five minutes by any that runs. */
const UNCLAIMED = '1 minute';
const CLAIM_LEFT = '6 minutes';
/** Of what is told one by one. */
const NAMED_MAX = 5;

const STALE = `select
  (select count(*)::int from payonce.p2p_deposit_orders
   where status = 'PENDING' and next_at < payonce.now() - $1::interval) as unclaimed,
  (select coalesce(extract(epoch from payonce.now() - min(next_at)), 0)::int from payonce.p2p_deposit_orders
   where status = 'PENDING' and next_at < payonce.now() - $1::interval) as waiting_seconds,
  (select count(*)::int from payonce.p2p_deposit_orders
   where status = 'MATCHING' and not waits_lp and claimed_at < payonce.now() - $2::interval) as left_behind`;

const SURPLUSES = `select k.id, k.amount, a.code, a.decimals, extract(epoch from payonce.now() - k.opened_at)::int as age_seconds
from payonce.cases k
left join payonce.assets a on a.id = k.asset_id
where k.kind = 'trade_surplus'
  and k.closed_at is null
order by k.opened_at, k.id`;

const UNPLACED = `select count(*)::int as count, coalesce(extract(epoch from payonce.now() - min(opened_at)), 0)::int as age_seconds,
       (array_agg(id order by opened_at, id))[1:$1] as cases
from payonce.cases
where kind = 'payment_unclear'
  and closed_at is null`;

export async function findP2p(query: Query): Promise<Finding[]> {
  return [await matchers(query), await surpluses(query), await payments(query)];
}

async function matchers(query: Query): Promise<Finding> {
  const [row] = (
    await query.query<{ unclaimed: number; waiting_seconds: number; left_behind: number }>(STALE, [
      UNCLAIMED,
      CLAIM_LEFT,
    ])
  ).rows;
  const { unclaimed = 0, waiting_seconds: seconds = 0, left_behind: left = 0 } = row ?? {};
  if (unclaimed + left === 0) return well('matchers', 'no order waits for a matcher');
  return {
    name: 'matchers',
    level: 'warn',
    found: [
      ...(unclaimed === 0
        ? []
        : [`${unclaimed} orders are due for ${inWords(seconds)} and no matcher has claimed them`]),
      ...(left === 0 ? [] : [`${left} claims were left by matchers that died, and nobody takes them back`]),
    ].join('; '),
    hint: 'Start one: payonce worker --only matcher. If one runs, its log says what fails; payonce p2p orders tells what each order waits for.',
  };
}

async function surpluses(query: Query): Promise<Finding> {
  const { rows } = await query.query<{
    id: string;
    amount: bigint | null;
    code: string | null;
    decimals: number | null;
    age_seconds: number;
  }>(SURPLUSES);
  const [oldest] = rows;
  if (oldest === undefined) return well('trade surplus', 'no provider holds or released more than was needed');
  const named = rows
    .slice(0, NAMED_MAX)
    .map(
      (one) => `${one.id}: ${one.amount === null ? '?' : formatUnits(one.amount, one.decimals ?? 0)} ${one.code ?? ''}`,
    );
  return {
    name: 'trade surplus',
    level: 'warn',
    found: `${rows.length} open, the oldest for ${inWords(oldest.age_seconds)} (${named.join(', ')}${rows.length > NAMED_MAX ? ', …' : ''})`,
    hint: 'Agree with the provider, then two persons say where it goes: payonce case show CASE, payonce case propose CASE p2p_surplus --as …',
  };
}

async function payments(query: Query): Promise<Finding> {
  const [row] = (
    await query.query<{ count: number; age_seconds: number; cases: string[] | null }>(UNPLACED, [NAMED_MAX])
  ).rows;
  if (row === undefined || row.count === 0) return well('payments', 'every payment that was told has its leg');
  return {
    name: 'payments',
    level: 'warn',
    found: `${row.count} payments are placed nowhere, the oldest for ${inWords(row.age_seconds)} (${(row.cases ?? []).join(', ')}${row.count > NAMED_MAX ? ', …' : ''})`,
    hint: 'Somebody paid and nobody was credited: payonce p2p payments --unclear, then payonce case show CASE.',
  };
}

function well(name: string, found: string): Finding {
  return { name, level: 'ok', found, hint: '' };
}

function inWords(seconds: number): string {
  if (seconds < 120) return `${seconds} seconds`;
  return seconds < 7_200 ? `${Math.floor(seconds / 60)} minutes` : `${Math.floor(seconds / 3_600)} hours`;
}
