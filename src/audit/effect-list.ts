/** Effects in a list, the latest first, for whoever looks for one without knowing its number. Reads only. */
import type { Query } from '../db/pool.ts';
import { WAITS_FOR } from '../engine/quarantine.ts';
import { formatUnits } from '../kernel/money.ts';

export const EFFECT_STATES = ['PENDING', 'SEALED', 'SETTLED', 'RELEASED'] as const;
export type EffectState = (typeof EFFECT_STATES)[number];

export interface ListedEffect {
  readonly id: string;
  readonly state: EffectState;
  readonly subject_type: string;
  readonly subject_id: string;
  /** The partner's own name of it, where it gave one. */
  readonly external_id: string | null;
  readonly attempt: number;
  readonly partner_id: string;
  readonly rail: string;
  readonly asset: string;
  readonly amount: string;
  readonly destination: string;
  readonly created_at: Date;
  readonly sealed_at: Date | null;
  readonly ended_at: Date | null;
  readonly wait_reason: string | null;
  readonly open_case: string | null;
}

export interface EffectFilter {
  readonly state?: EffectState | undefined;
  /** Neither settled nor released. */
  readonly open?: boolean | undefined;
  readonly withheld?: boolean | undefined;
  readonly rail?: string | undefined;
  readonly partnerId?: string | undefined;
  readonly type?: string | undefined;
  readonly limit: number;
  /** Only effects before this one. */
  readonly before?: bigint | undefined;
}

const LIST = `select e.id::text as id, e.state, e.subject_type, e.subject_id,
       coalesce(
         (select w.external_id from payonce.withdrawals w where w.id = e.subject_id and e.subject_type = 'withdrawal'),
         (select t.external_id from payonce.transfers t where t.id = e.subject_id and e.subject_type = 'transfer')) as external_id,
       e.seq as attempt, e.partner_id, e.rail, a.code as asset, a.decimals, e.amount as units, e.destination,
       e.created_at, e.sealed_at, e.ended_at, ${WAITS_FOR} as wait_reason,
       (select k.id from payonce.cases k where k.effect_id = e.id and k.closed_at is null order by k.severity desc, k.id limit 1) as open_case
from payonce.effects e
join payonce.assets a on a.id = e.asset_id
where ($1::text is null or e.state = $1)
  and (not $2 or e.state in ('PENDING', 'SEALED'))
  and (not $3 or e.state = 'SEALED' and e.wait_reason like 'WITHHELD: %')
  and ($4::text is null or e.rail = $4)
  and ($5::text is null or e.partner_id = $5)
  and ($6::text is null or e.subject_type = $6)
  and ($7::bigint is null or e.id < $7)
order by e.id desc
limit $8`;

export async function listEffects(query: Query, filter: EffectFilter): Promise<ListedEffect[]> {
  const { rows } = await query.query<
    Omit<ListedEffect, 'amount'> & { units: bigint; decimals: number } & Record<string, unknown>
  >(LIST, [
    filter.state ?? null,
    filter.open === true,
    filter.withheld === true,
    filter.rail ?? null,
    filter.partnerId ?? null,
    filter.type ?? null,
    filter.before ?? null,
    filter.limit,
  ]);
  return rows.map(({ units, decimals, ...rest }) => ({ ...rest, amount: formatUnits(units, decimals) }));
}
