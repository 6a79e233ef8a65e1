/** Reads of payouts, programmes and statements. Isolation: READ COMMITTED. No locks. */
import { type Query, type Row, toText, toUnits } from '../../db/pool.ts';
import { formatUnits } from '../../kernel/money.ts';
import { PROGRAMME_COLUMNS, type Programme, toProgramme } from './programme.ts';
import type { Taken } from './store.ts';
import type { StoredPayout } from './view.ts';

const COLUMNS = `y.id, y.partner_id, y.programme_id, o.name as programme, c.external_id as creator, y.pool_id, y.ordinal, y.asset_id, a.code as asset_code, a.decimals,
  o.volume_decimals, y.amount, y.volume, y.destination, y.origin, y.cut_date::text as cut_date, y.min_output, y.batch_id, y.requested_at`;

const LOAD = `select ${COLUMNS}
from payonce.payouts y
join payonce.programmes o on o.id = y.programme_id
join payonce.creators c on c.id = y.creator_id
join payonce.assets a on a.id = y.asset_id
where y.id = any ($1::text[])`;

const READ = `select ${COLUMNS}, v.status
from payonce.payouts y
join payonce.programmes o on o.id = y.programme_id
join payonce.creators c on c.id = y.creator_id
join payonce.assets a on a.id = y.asset_id
join payonce.payout_states v on v.id = y.id
where y.partner_id = $1
  and y.id = $2`;

const LIST = `select ${COLUMNS}, v.status,
       to_char(y.requested_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as place
from payonce.payouts y
join payonce.programmes o on o.id = y.programme_id
join payonce.creators c on c.id = y.creator_id
join payonce.assets a on a.id = y.asset_id
join payonce.payout_states v on v.id = y.id
where ($1::text is null or y.partner_id = $1)
  and ($2::timestamptz is null or (y.requested_at, y.id) < ($2::timestamptz, $3::text))
  and ($4::text is null or v.status = $4::text)
  and ($5::text is null or o.id = $5::text or o.name = $5::text)
  and ($6::text is null or c.external_id = $6::text)
order by y.requested_at desc, y.id desc
limit $7`;

export function toStoredPayout(row: Row): StoredPayout {
  return {
    id: toText(row['id'], 'payouts.id'),
    partnerId: toText(row['partner_id'], 'payouts.partner_id'),
    programmeId: toText(row['programme_id'], 'payouts.programme_id'),
    programme: toText(row['programme'], 'programmes.name'),
    creator: toText(row['creator'], 'creators.external_id'),
    poolId: toUnits(row['pool_id'], 'payouts.pool_id'),
    ordinal: row['ordinal'] as number,
    assetId: toText(row['asset_id'], 'payouts.asset_id'),
    assetCode: toText(row['asset_code'], 'assets.code'),
    decimals: row['decimals'] as number,
    volumeDecimals: row['volume_decimals'] as number,
    amount: toUnits(row['amount'], 'payouts.amount'),
    volume: toUnits(row['volume'], 'payouts.volume'),
    destination: toText(row['destination'], 'payouts.destination'),
    origin: toText(row['origin'], 'payouts.origin'),
    cutDate: row['cut_date'] as string | null,
    minOutput: row['min_output'] === null ? null : toUnits(row['min_output'], 'payouts.min_output'),
    batchId: row['batch_id'] as string | null,
    requestedAt: row['requested_at'] as Date,
  };
}

export async function loadPayouts(query: Query, ids: readonly string[]): Promise<Map<string, StoredPayout>> {
  const { rows } = await query.query(LOAD, [ids]);
  return new Map(rows.map(toStoredPayout).map((one) => [one.id, one]));
}

const OF_BATCHES = `select ${COLUMNS}, y.taken
from payonce.payouts y
join payonce.programmes o on o.id = y.programme_id
join payonce.creators c on c.id = y.creator_id
join payonce.assets a on a.id = y.asset_id
where y.batch_id = any ($1::text[])
order by y.id`;

export type BatchedPayout = StoredPayout & { readonly taken: Taken['taken'] };

/** The payouts of calls that pay many, by batch; in each, in the order of its lines. */
export async function loadOfBatches(query: Query, batchIds: readonly string[]): Promise<Map<string, BatchedPayout[]>> {
  const { rows } = await query.query(OF_BATCHES, [batchIds]);
  const found = new Map<string, BatchedPayout[]>(batchIds.map((id) => [id, []]));
  for (const row of rows) {
    const payout = { ...toStoredPayout(row), taken: toText(row['taken'], 'payouts.taken') as Taken['taken'] };
    found.get(payout.batchId ?? '')?.push(payout);
  }
  return found;
}

/** `null` for another partner's as well. */
export async function readPayout(
  query: Query,
  partnerId: string,
  id: string,
): Promise<(StoredPayout & { readonly status: string }) | null> {
  const [row] = (await query.query(READ, [partnerId, id])).rows;
  return row === undefined ? null : { ...toStoredPayout(row), status: toText(row['status'], 'status') };
}

export interface PayoutPage {
  /** `null`: of all partners (operators). */
  readonly partnerId: string | null;
  readonly before: { readonly at: string; readonly id: string } | null;
  readonly status: string | null;
  /** Name or id. */
  readonly programme: string | null;
  readonly creator: string | null;
  readonly limit: number;
}

/** Newest first. */
export async function listPayouts(
  query: Query,
  page: PayoutPage,
): Promise<(StoredPayout & { readonly status: string; readonly place: string })[]> {
  const { rows } = await query.query(LIST, [
    page.partnerId,
    page.before?.at ?? null,
    page.before?.id ?? null,
    page.status,
    page.programme,
    page.creator,
    page.limit,
  ]);
  return rows.map((row) => ({
    ...toStoredPayout(row),
    status: toText(row['status'], 'status'),
    place: toText(row['place'], 'place'),
  }));
}

const PROGRAMMES = `select ${PROGRAMME_COLUMNS}
from payonce.programmes o
join payonce.assets a on a.id = o.asset_id
where ($1::text is null or o.partner_id = $1)
  and ($2::text is null or o.id > $2)
order by o.id
limit $3`;

export async function listProgrammes(
  query: Query,
  partnerId: string | null,
  after: string | null,
  limit: number,
): Promise<Programme[]> {
  return (await query.query(PROGRAMMES, [partnerId, after, limit])).rows.map(toProgramme);
}

// One query: all of it stands in the pools' own rows.
const STATEMENT = `select p.id, c.external_id as creator, o.name as programme, a.code as asset, a.decimals, o.volume_decimals, p.volume, p.volume - p.volume_taken as volume_carried,
       div(p.reward, p.reward_divisor) as accrued, p.in_flight, p.paid, p.payable, p.payouts, p.due_since, p.wait_reason,
       (select d.address from payonce.creator_addresses d where d.creator_id = p.creator_id and d.chain = a.chain order by d.id desc limit 1) as address
from payonce.pools p
join payonce.programmes o on o.id = p.programme_id
join payonce.assets a on a.id = o.asset_id
join payonce.creators c on c.id = p.creator_id
where ($1::text is null or o.partner_id = $1)
  and ($2::text is null or o.id = $2::text or o.name = $2::text)
  and ($3::text is null or c.external_id = $3::text)
  and (not $4::bool or p.due_since is not null)
  and p.id > $5
order by p.id
limit $6`;

export interface StatementLine {
  programme: string;
  creator: string;
  asset: string;
  address: string | null;
  volume: string;
  /** In no payout. */
  volume_carried: string;
  accrued: string;
  paid: string;
  in_flight: string;
  carried: string;
  payouts: number;
  /** Due and not made: since when, and why. */
  due_since: string | null;
  waits_for: string | null;
}

export interface StatementPage {
  readonly partnerId: string | null;
  readonly programme: string | null;
  readonly creator: string | null;
  /** Only who waits. */
  readonly waiting: boolean;
  readonly after: bigint;
  readonly limit: number;
}

/** accrued = paid + in_flight + carried, in each line. `place`: where the next page begins. */
export async function readStatement(
  query: Query,
  page: StatementPage,
): Promise<{ readonly line: StatementLine; readonly place: bigint }[]> {
  const { rows } = await query.query(STATEMENT, [
    page.partnerId,
    page.programme,
    page.creator,
    page.waiting,
    page.after,
    page.limit,
  ]);
  return rows.map((row) => {
    const units = (name: string): string => formatUnits(toUnits(row[name], name), row['decimals'] as number);
    const volume = (name: string): string => formatUnits(toUnits(row[name], name), row['volume_decimals'] as number);
    return {
      place: toUnits(row['id'], 'pools.id'),
      line: {
        programme: toText(row['programme'], 'programmes.name'),
        creator: toText(row['creator'], 'creators.external_id'),
        asset: toText(row['asset'], 'assets.code'),
        address: row['address'] as string | null,
        volume: volume('volume'),
        volume_carried: volume('volume_carried'),
        accrued: units('accrued'),
        paid: units('paid'),
        in_flight: units('in_flight'),
        carried: units('payable'),
        payouts: row['payouts'] as number,
        due_since: (row['due_since'] as Date | null)?.toISOString() ?? null,
        waits_for: row['wait_reason'] as string | null,
      },
    };
  });
}

const CSV_COLUMNS = [
  'programme',
  'creator',
  'asset',
  'address',
  'volume',
  'volume_carried',
  'accrued',
  'paid',
  'in_flight',
  'carried',
  'payouts',
  'due_since',
  'waits_for',
] as const satisfies readonly (keyof StatementLine)[];

/** RFC 4180. A name of the partner's that a spreadsheet would take for a formula gets an apostrophe before it. */
export function toStatementCsv(lines: readonly StatementLine[]): string {
  const cell = (value: string | number | null): string => {
    const text = value === null ? '' : String(value);
    const safe = typeof value === 'string' && /^[=+@\t\r]|^-[^0-9]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const rows = lines.map((line) => CSV_COLUMNS.map((name) => cell(line[name])).join(','));
  return `${[CSV_COLUMNS.join(','), ...rows].join('\r\n')}\r\n`;
}
