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

const LIST_CASES = `select ${CASE_COLUMNS},
       (k.closed_at is null)::int as is_open,
       to_char(k.opened_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as opened_place
from payonce.cases k
left join payonce.assets a on a.id = k.asset_id
where ($1::boolean or k.closed_at is null)
  and ($2::text is null or k.kind = $2)
  and ($3::text is null or k.partner_id = $3)
  and ($4::int is null or k.severity = $4)
  and ($5::int is null
    or (-(k.closed_at is null)::int, -k.severity, k.opened_at, k.id) > (-$5::int, -$6::int, $7::timestamptz, $8::text))
order by (k.closed_at is null) desc, k.severity desc, k.opened_at, k.id
limit $9`;

const OPEN_CASES = `select count(*)::int as count,
       extract(epoch from payonce.now() - min(k.opened_at))::bigint as oldest_seconds
from payonce.cases k
where k.closed_at is null
  and ($1::text is null or k.kind = $1)
  and ($2::text is null or k.partner_id = $2)
  and ($3::int is null or k.severity = $3)`;

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

export interface CaseFilter {
  readonly kind?: string | undefined;
  readonly partnerId?: string | undefined;
  readonly severity?: number | undefined;
}
/** Where a page ended: open (1) or not, severity, when it was opened, id. */
export type CasePlace = readonly [isOpen: string, severity: string, openedAt: string, id: string];

/** The most urgent first; closed ones after all open ones, with `all`. */
export async function listCases(
  query: Query,
  filter: CaseFilter & { readonly all: boolean; readonly limit: number; readonly after?: CasePlace | null },
): Promise<(ListedCase & { readonly place: CasePlace })[]> {
  const { all, kind, partnerId, severity, after, limit } = filter;
  const { rows } = await query.query<CaseRow & { is_open: number; opened_place: string }>(LIST_CASES, [
    all,
    kind ?? null,
    partnerId ?? null,
    severity ?? null,
    ...(after ?? [null, null, null, null]),
    limit,
  ]);
  return rows.map(({ is_open, opened_place, ...row }) => ({
    ...toCase(row),
    place: [String(is_open), String(row.severity), opened_place, row.id],
  }));
}

/** How many are open, and how old the oldest is; null where none is. */
export async function countOpenCases(
  query: Query,
  { kind, partnerId, severity }: CaseFilter,
): Promise<{ count: number; oldest_seconds: bigint | null }> {
  const { rows } = await query.query<{ count: number; oldest_seconds: bigint | null }>(OPEN_CASES, [
    kind ?? null,
    partnerId ?? null,
    severity ?? null,
  ]);
  return rows[0] ?? { count: 0, oldest_seconds: null };
}

export async function casesOfEffects(query: Query, ids: readonly bigint[]): Promise<ListedCase[]> {
  return (await query.query<CaseRow>(CASES_OF_EFFECTS, [ids])).rows.map(toCase);
}

export async function readListedCase(query: Query, id: string): Promise<ListedCase> {
  const row = (await query.query<CaseRow>(READ_CASE, [id])).rows[0];
  if (row === undefined) throw new PayonceError('PO_NOT_FOUND', { detail: `There is no case ${id}` });
  return toCase(row);
}
