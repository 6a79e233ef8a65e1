/** What a partner may trade, for who asks for something else: an answer that says what to do next. */
import type { Query } from '../../db/pool.ts';
import type { ErrorFacts } from '../../kernel/errors.ts';

const TRADED = `select e.partner_id, coalesce(array_agg(a.code || ' for ' || m.fiat order by a.code, m.fiat) filter (where m.fiat is not null), '{}') as markets
from payonce.p2p_members e
left join payonce.p2p_markets m on m.group_name = e.group_name and m.stopped_at is null
left join payonce.assets a on a.id = m.asset_id
where e.partner_id = any ($1::text[])
group by e.partner_id`;

/** What the group of each partner trades; a partner of no group is not there. */
export async function loadTraded(
  query: Query,
  orders: readonly { readonly partnerId: string }[],
): Promise<Map<string, readonly string[]>> {
  if (orders.length === 0) return new Map();
  const { rows } = await query.query<{ partner_id: string; markets: string[] }>(TRADED, [
    orders.map((one) => one.partnerId),
  ]);
  return new Map(rows.map((row) => [row.partner_id, row.markets]));
}

const MARKETS_NAMED_MAX = 10;

/** Of `loadTraded`: what is told to who asks for what is not traded. */
export function toldMarkets(markets: readonly string[] | undefined): Pick<ErrorFacts, 'detail' | 'expected'> {
  if (markets === undefined)
    return {
      detail: 'You belong to no group, and orders are matched inside groups: ask the operator to let you join one',
      expected: 'a member of a group',
    };
  const named = markets.slice(0, MARKETS_NAMED_MAX).join(', ');
  return { expected: named === '' ? 'a market, and your group has none now' : `one of: ${named}` };
}
