/** Cases as they are listed: how urgent, how old, how much is at risk. Amounts are decimal text of the asset. */
import type { Query } from '../db/pool.ts';
import { PayonceError } from '../kernel/errors.ts';
import { formatUnits } from '../kernel/money.ts';

export interface ListedCase {
  readonly id: string;
  readonly kind: string;
  readonly severity: number;
  readonly subject: string;
  readonly effect_id: string | null;
  readonly partner_id: string | null;
  readonly amount: string | null;
  readonly asset: string | null;
  readonly summary: string;
  readonly age_seconds: bigint;
  readonly opened_at: Date;
  readonly last_seen_at: Date;
  readonly closed_at: Date | null;
  readonly closed_how: string | null;
  readonly open_proposals: number;
}

const CASE_COLUMNS = `k.id, k.kind, k.severity, k.subject_key as subject, k.effect_id::text, k.partner_id, k.amount as units,
  a.code as asset, a.decimals, k.summary, extract(epoch from payonce.now() - k.opened_at)::bigint as age_seconds,
  k.opened_at, k.last_seen_at, k.closed_at, k.closed_how,
  (select count(*) from payonce.proposals p where p.case_id = k.id and p.state = 'open')::int as open_proposals`;

const LIST_CASES = `select ${CASE_COLUMNS}
from payonce.cases k
left join payonce.assets a on a.id = k.asset_id
where $1::boolean or k.closed_at is null
order by (k.closed_at is null) desc, k.severity desc, k.opened_at, k.id
limit $2`;

const READ_CASE = `select ${CASE_COLUMNS}
from payonce.cases k
left join payonce.assets a on a.id = k.asset_id
where k.id = $1`;

const CASES_OF_EFFECTS = `select ${CASE_COLUMNS}
from payonce.cases k
left join payonce.assets a on a.id = k.asset_id
where k.effect_id = any ($1::bigint[])
order by k.opened_at, k.id`;

type Rows<T> = T & Record<string, unknown>;
type CaseRow = Rows<ListedCase & { units: bigint | null; decimals: number | null }>;

function toCase({ units, decimals, ...rest }: CaseRow): ListedCase {
  return { ...rest, amount: units === null || decimals === null ? null : formatUnits(units, decimals) };
}

/** The most urgent first; closed ones after all open ones, with `all`. */
export async function listCases(query: Query, filter: { all: boolean; limit: number }): Promise<ListedCase[]> {
  return (await query.query<CaseRow>(LIST_CASES, [filter.all, filter.limit])).rows.map(toCase);
}

export async function casesOfEffects(query: Query, ids: readonly bigint[]): Promise<ListedCase[]> {
  return (await query.query<CaseRow>(CASES_OF_EFFECTS, [ids])).rows.map(toCase);
}

export async function readListedCase(query: Query, id: string): Promise<ListedCase> {
  const row = (await query.query<CaseRow>(READ_CASE, [id])).rows[0];
  if (row === undefined) throw new PayonceError('PO_NOT_FOUND', { detail: `There is no case ${id}` });
  return toCase(row);
}
