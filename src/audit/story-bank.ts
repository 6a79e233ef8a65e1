/**
 * What a story tells of a bank's effect beside the rest: whom it pays, a no that waits, what came back, and what the bank's
 * statements show of it. The payee is
 * shown whole: a person compares it with the bank's statement, and what was sent and answered names it anyway. Reads only.
 */
import type { Query } from '../db/pool.ts';
import { formatUnits } from '../kernel/money.ts';

export interface StoryPayee {
  readonly bank_code: string;
  readonly account_number: string;
  /** As it is sent. */
  readonly holder_name: string;
  readonly memo: string;
  /** Money of this partner came back from this account before. */
  readonly flagged: boolean;
}
export interface StoryReturn {
  readonly id: string;
  readonly provider_return_id: string;
  readonly amount: string;
  /** Kept of it on the way. */
  readonly fee: string;
  readonly reason: string | null;
  readonly at: Date;
}
/** A line of the bank's statement that names it: what the bank's own books say, in its words. */
export interface StoryStatementLine {
  readonly booked_on: string;
  readonly direction: 'out' | 'in';
  readonly amount: string;
  readonly own_reference: string | null;
  readonly counterparty_account: string | null;
  readonly counterparty_name: string | null;
  readonly text: string | null;
  /** File and line of it. */
  readonly place: string;
}
export interface StoryBank {
  /** `null`: not a single transfer. */
  readonly payee: StoryPayee | null;
  /** A no that stops all sends and is not final yet. */
  readonly believed: { readonly reason: string; readonly final_at: Date } | null;
  readonly returns: readonly StoryReturn[];
  readonly statement_lines: readonly StoryStatementLine[];
}

const PAYEES = `select e.id as effect_id, p.bank_code, p.account_number, p.holder_name, p.memo,
       exists (
         select 1 from payonce.payees_flagged f
         where f.partner_id = e.partner_id
           and payonce.payee_key(f.bank_code, f.account_number) = payonce.payee_key(p.bank_code, p.account_number)) as flagged
from payonce.effects e
cross join lateral (
  select e.call #>> '{payee,bankCode}' as bank_code, e.call #>> '{payee,accountNumber}' as account_number,
         e.call #>> '{payee,holderName}' as holder_name, e.call #>> '{payee,memo}' as memo) p
where e.id = any ($1::bigint[])
  and e.call ? 'payee'`;

const BELIEVED = `select e.id as effect_id, v.detail as reason, e.lateness_until as final_at
from payonce.effects e
join payonce.effect_evidence v on v.id = e.believed_evidence
where e.id = any ($1::bigint[])
  and e.ended_at is null
  and e.testimonies = 0`;

const RETURNS = `select r.effect_id, r.id, r.provider_return_id, r.amount as units, r.fee as fee_units, r.reason, r.at, a.decimals
from payonce.returns r
join payonce.effects e on e.id = r.effect_id
join payonce.assets a on a.id = e.asset_id
where r.effect_id = any ($1::bigint[])
order by r.at, r.id`;

// A batch may have thousands; enough to see what they are.
const LINES_MAX = 50;
const LINES = `with named as (
  select e.id, e.rail, array(
    select e.expect ->> 'key'
    union select l ->> 'ref' from jsonb_array_elements(e.expect -> 'lines') l
    union select v.object_id from payonce.effect_evidence v where v.effect_id = e.id and v.object_id is not null and v.struck_at is null
    union select r.provider_return_id from payonce.returns r where r.effect_id = e.id) as names
  from payonce.effects e
  where e.id = any ($1::bigint[])
    and e.expect ? 'key'
),
found as (
  select distinct on (n.id, l.id) n.id as effect_id, l.id, l.booked_on::text as booked_on, l.direction, l.amount as units, a.decimals, l.own_reference,
         l.counterparty_account, l.counterparty_name, l.remittance as text, f.name || ' ' || p.place as place
  from named n
  join payonce.statement_places p on p.refs && n.names
  join payonce.statements_counted s on s.id = p.statement_id and s.rail = n.rail
  join payonce.statement_files f on f.sha256 = s.file_sha256 and f.take = s.take
  join payonce.statement_lines l on l.id = p.line_id
  join payonce.assets a on a.id = l.asset_id
  order by n.id, l.id, p.statement_id
)
select *
from (select f.*, row_number() over (partition by f.effect_id order by f.booked_on, f.id) as n from found f) f
where f.n <= $2
order by f.effect_id, f.n`;

interface LineRow extends Omit<StoryStatementLine, 'amount'> {
  readonly effect_id: bigint;
  readonly units: bigint;
  readonly decimals: number;
}

interface ReturnRow {
  readonly effect_id: bigint;
  readonly id: string;
  readonly provider_return_id: string;
  readonly units: bigint;
  readonly fee_units: bigint;
  readonly reason: string | null;
  readonly at: Date;
  readonly decimals: number;
}
type OfEffect<T> = T & { readonly effect_id: bigint } & Record<string, unknown>;

export async function loadBankStories(query: Query, ids: readonly bigint[]): Promise<Map<bigint, StoryBank>> {
  const payees = (await query.query<OfEffect<StoryPayee>>(PAYEES, [ids])).rows;
  const believed = (await query.query<OfEffect<{ reason: string; final_at: Date }>>(BELIEVED, [ids])).rows;
  const returns = (await query.query<ReturnRow & Record<string, unknown>>(RETURNS, [ids])).rows;
  const lines = (await query.query<LineRow & Record<string, unknown>>(LINES, [ids, LINES_MAX])).rows;
  const linesOf = Map.groupBy(lines, (row) => row.effect_id);
  const payeeOf = new Map(payees.map(({ effect_id, ...payee }): [bigint, StoryPayee] => [effect_id, payee]));
  const noOf = new Map(believed.map(({ effect_id, reason, final_at }) => [effect_id, { reason, final_at }]));
  const returnsOf = Map.groupBy(returns, (row) => row.effect_id);
  return new Map(
    ids.map((id) => [
      id,
      {
        payee: payeeOf.get(id) ?? null,
        believed: noOf.get(id) ?? null,
        returns: (returnsOf.get(id) ?? []).map(toReturn),
        statement_lines: (linesOf.get(id) ?? []).map(toLine),
      },
    ]),
  );
}

function toLine(row: LineRow): StoryStatementLine {
  const { booked_on, direction, own_reference, counterparty_account, counterparty_name, text, place } = row;
  const amount = formatUnits(row.units, row.decimals);
  return { booked_on, direction, amount, own_reference, counterparty_account, counterparty_name, text, place };
}

function toReturn({ id, provider_return_id, units, fee_units, decimals, reason, at }: ReturnRow): StoryReturn {
  return {
    id,
    provider_return_id,
    amount: formatUnits(units, decimals),
    fee: formatUnits(fee_units, decimals),
    reason,
    at,
  };
}
