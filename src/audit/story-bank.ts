/**
 * What a story tells of a bank's effect beside the rest: whom it pays, a no that waits, and what came back. The payee is
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
export interface StoryBank {
  /** `null`: not a single transfer. */
  readonly payee: StoryPayee | null;
  /** A no that stops all sends and is not final yet. */
  readonly believed: { readonly reason: string; readonly final_at: Date } | null;
  readonly returns: readonly StoryReturn[];
}

const PAYEES = `select e.id as effect_id, p.bank_code, p.account_number, p.holder_name, p.memo,
       exists (
         select 1 from payonce.payees_flagged f
         where f.partner_id = e.partner_id and f.bank_code = p.bank_code and f.account_number = p.account_number) as flagged
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
      },
    ]),
  );
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
