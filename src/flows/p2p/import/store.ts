/**
 * The import's own statements: lines of a file, what was taken over of them, and what is known of who and where.
 * Lock order: the import's row (shared), then as orders are written. Isolation: READ COMMITTED, set by `tx`.
 */
import { type Query, type Row, toText, toUnits, type Tx } from '../../../db/pool.ts';
import { InvariantBroken, PayonceError } from '../../../kernel/errors.ts';
import type { ImportMarket } from './judge.ts';
import { type Content, type Kind, type StagedLine, toContent } from './lines.ts';

// One import writes at a time: who began last. The one before finds itself replaced at its next batch.
const REPLACE = `update payonce.p2p_imports
set replaced_at = payonce.now()
where finished_at is null
  and replaced_at is null`;
const FORGET_REPLACED = `delete from payonce.p2p_import_lines
where (import_id, line) in (
  select l.import_id, l.line
  from payonce.p2p_imports i
  join payonce.p2p_import_lines l on l.import_id = i.id
  where i.replaced_at is not null
  limit $1)`;
const BEGIN = `insert into payonce.p2p_imports (file_name, imported_by)
values ($1, $2)
returning id`;

export async function beginImport(tx: Tx, fileName: string, by: string): Promise<bigint> {
  await tx.query(REPLACE);
  const [row] = (await tx.query<{ id: bigint }>(BEGIN, [fileName, by])).rows;
  if (row === undefined) throw new InvariantBroken('an import has no row');
  return row.id;
}

/** Answers how many lines went; 0 when none is left. */
export async function forgetReplaced(query: Query, most: number): Promise<number> {
  return (await query.query(FORGET_REPLACED, [most])).rowCount;
}

const HOLD = `select 1
from payonce.p2p_imports
where id = $1
  and finished_at is null
  and replaced_at is null
for share`;

/** Throws PO_BUSY when another import began after this one. */
export async function holdImport(tx: Tx, importId: bigint): Promise<void> {
  if ((await tx.query(HOLD, [importId])).rowCount === 0)
    throw new PayonceError('PO_BUSY', {
      detail: 'Another import began while this one ran, and goes on alone. Run this one again when it has ended',
    });
}

const STAGE = `insert into payonce.p2p_import_lines
  (import_id, line, kind, old_id, deposit_old_id, withdraw_old_id, leg_old_id, digest, content, outcome, reason)
select $1, u.line, u.kind, u.old_id, u.deposit_old_id, u.withdraw_old_id, u.leg_old_id, u.digest, u.content,
       case when u.reason is not null then 'doubtful' end, u.reason
from unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
  as u (line, kind, old_id, deposit_old_id, withdraw_old_id, leg_old_id, digest, content, reason)`;

export async function stageLines(tx: Tx, importId: bigint, lines: readonly StagedLine[]): Promise<void> {
  await tx.query(STAGE, [
    importId,
    lines.map((one) => one.line),
    lines.map((one) => one.kind),
    lines.map((one) => one.oldId),
    lines.map((one) => one.depositOldId),
    lines.map((one) => one.withdrawOldId),
    lines.map((one) => one.legOldId),
    lines.map((one) => one.digest),
    lines.map((one) => one.content),
    lines.map((one) => one.doubt),
  ]);
}

export const ANALYZE = 'analyze payonce.p2p_import_lines';

export interface OrderLine {
  readonly line: bigint;
  readonly oldId: string;
  readonly digest: string;
  readonly content: Content;
}

const ORDERS = `select l.line, l.old_id, l.digest, l.content
from payonce.p2p_import_lines l
where l.import_id = $1
  and l.kind = $2
  and l.old_id > $3
  and l.outcome is null
order by l.old_id
limit $4`;

/** By old id; what is judged already is not among them. */
export async function loadOrders(
  query: Query,
  importId: bigint,
  kind: 'deposit_order' | 'withdraw_order',
  after: string,
  most: number,
): Promise<OrderLine[]> {
  return (await query.query(ORDERS, [importId, kind, after, most])).rows.map((row) => toOrderLine(row));
}

function toOrderLine(row: Row): OrderLine {
  return {
    line: row['line'] as bigint,
    oldId: toText(row['old_id'], 'old_id'),
    digest: toText(row['digest'], 'digest'),
    content: toContent(toText(row['content'], 'content')) ?? {},
  };
}

export interface LegLine extends OrderLine {
  readonly depositOldId: string | null;
  readonly withdrawOldId: string | null;
  readonly doubt: string | null;
  readonly hasDeposit: boolean;
  readonly hasWithdraw: boolean;
  readonly ledger: readonly LedgerLine[];
}
export interface LedgerLine extends OrderLine {
  readonly doubt: string | null;
}

const LEG_FIELDS = `l.line, coalesce(l.old_id, '(line ' || l.line || ')') as old_id, l.digest, l.content, l.deposit_old_id, l.withdraw_old_id,
       case when l.outcome = 'doubtful' then l.reason end as doubt,
       exists (select 1 from payonce.p2p_import_lines o where o.import_id = l.import_id and o.kind = 'deposit_order' and o.old_id = l.deposit_old_id)
         or exists (select 1 from payonce.p2p_imported i where i.kind = 'deposit_order' and i.old_id = l.deposit_old_id) as has_deposit,
       exists (select 1 from payonce.p2p_import_lines o where o.import_id = l.import_id and o.kind = 'withdraw_order' and o.old_id = l.withdraw_old_id)
         or exists (select 1 from payonce.p2p_imported i where i.kind = 'withdraw_order' and i.old_id = l.withdraw_old_id) as has_withdraw`;

const LEGS_OF_DEPOSITS = `select ${LEG_FIELDS}
from payonce.p2p_import_lines l
where l.import_id = $1
  and l.kind = 'leg'
  and not l.is_repeat
  and l.deposit_old_id = any ($2::text[])`;
const LEGS_OF_WITHDRAWS = `select ${LEG_FIELDS}
from payonce.p2p_import_lines l
where l.import_id = $1
  and l.kind = 'leg'
  and not l.is_repeat
  and l.withdraw_old_id = any ($2::text[])`;
const LEDGER = `select l.line, l.old_id, l.digest, l.content, l.leg_old_id, case when l.outcome = 'doubtful' then l.reason end as doubt
from payonce.p2p_import_lines l
where l.import_id = $1
  and l.kind = 'ledger'
  and not l.is_repeat
  and l.leg_old_id = any ($2::text[])`;

/** By the old id of the order that was asked for. */
export async function loadLegs(
  query: Query,
  importId: bigint,
  side: 'deposit_order' | 'withdraw_order',
  orderIds: readonly string[],
): Promise<Map<string, LegLine[]>> {
  const { rows } = await query.query(side === 'deposit_order' ? LEGS_OF_DEPOSITS : LEGS_OF_WITHDRAWS, [
    importId,
    orderIds,
  ]);
  const ledger = new Map<string, LedgerLine[]>();
  for (const row of (await query.query(LEDGER, [importId, rows.map((row) => row['old_id'])])).rows)
    push(ledger, toText(row['leg_old_id'], 'leg_old_id'), {
      ...toOrderLine({ ...row, old_id: row['old_id'] ?? '' }),
      doubt: row['doubt'] as string | null,
    });
  const legs = new Map<string, LegLine[]>();
  for (const row of rows) {
    const leg: LegLine = {
      ...toOrderLine(row),
      depositOldId: row['deposit_old_id'] as string | null,
      withdrawOldId: row['withdraw_old_id'] as string | null,
      doubt: row['doubt'] as string | null,
      hasDeposit: row['has_deposit'] as boolean,
      hasWithdraw: row['has_withdraw'] as boolean,
      ledger: ledger.get(toText(row['old_id'], 'old_id')) ?? [],
    };
    push(legs, toText(side === 'deposit_order' ? leg.depositOldId : leg.withdrawOldId, side), leg);
  }
  return legs;
}

function push<T>(map: Map<string, T[]>, key: string, one: T): void {
  const list = map.get(key);
  if (list === undefined) map.set(key, [one]);
  else list.push(one);
}

const MARKETS = `select u.place, p.id as partner_id, e.group_name, a.id as asset_id, a.code, a.decimals, m.fiat_decimals, m.leg_min, m.fee_bp, m.pay_within_ms,
       m.order_for_ms
from unnest($1::int[], $2::text[], $3::text[], $4::text[]) as u (place, partner_id, asset, fiat)
left join payonce.partners p on p.id = u.partner_id
left join payonce.p2p_members e on e.partner_id = u.partner_id
left join payonce.assets a on a.id = u.asset or a.code = u.asset
left join payonce.p2p_markets m on m.group_name = e.group_name and m.asset_id = a.id and m.fiat = u.fiat`;

/** For each order its market, or what of it is unknown. */
export async function loadMarkets(
  query: Query,
  orders: readonly Content[],
): Promise<(ImportMarket | { readonly unknown: string })[]> {
  const asked = orders.map((one) =>
    ['partner', 'asset', 'fiat'].map((name) => {
      const value = one[name];
      return typeof value === 'string' && !value.includes('\0') ? value : '';
    }),
  );
  const { rows } = await query.query(MARKETS, [
    asked.map((_, place) => place),
    ...[0, 1, 2].map((at) => asked.map((one) => one[at] ?? '')),
  ]);
  const byPlace = new Map(rows.map((row) => [row['place'], row]));
  return asked.map(([partner = '', asset = '', fiat = ''], place) => {
    const row = byPlace.get(place);
    if (row === undefined || row['partner_id'] === null)
      return { unknown: `there is no partner "${partner.slice(0, 60)}"` };
    if (row['fiat_decimals'] === null)
      return {
        unknown: `partner ${partner} has no market of "${asset.slice(0, 60)}" for "${fiat.slice(0, 10)}": its group must have one`,
      };
    return {
      groupName: toText(row['group_name'], 'group_name'),
      assetId: toText(row['asset_id'], 'asset_id'),
      assetCode: toText(row['code'], 'code'),
      decimals: row['decimals'] as number,
      fiatDecimals: row['fiat_decimals'] as number,
      legMin: toUnits(row['leg_min'], 'leg_min'),
      feeBp: row['fee_bp'] as number,
      payWithinMs: toUnits(row['pay_within_ms'], 'pay_within_ms'),
      forMs: toUnits(row['order_for_ms'], 'order_for_ms'),
    };
  });
}

const RAILS = `select name
from payonce.rails`;
export async function loadRails(query: Query): Promise<ReadonlySet<string>> {
  return new Set((await query.query(RAILS)).rows.map((row) => toText(row['name'], 'name')));
}

/** A seller's order that was taken over, and how much of what it sold before has its leg here. */
export interface TakenSeller {
  readonly id: string;
  readonly market: string;
  readonly before: bigint;
  named: bigint;
}

const SELLERS = `select i.old_id, w.id, w.group_name, w.asset_id, w.fiat, w.settled_before,
       (select coalesce(sum(g.amount), 0) from payonce.p2p_legs g where g.withdraw_order_id = w.id and g.is_history) as named
from payonce.p2p_imported i
join payonce.p2p_withdraw_orders w on w.id = i.new_id
where i.kind = 'withdraw_order'
  and i.old_id = any ($1::text[])`;

export async function loadSellers(query: Query, oldIds: readonly string[]): Promise<Map<string, TakenSeller>> {
  const { rows } = await query.query(SELLERS, [oldIds]);
  return new Map(
    rows.map((row) => [
      toText(row['old_id'], 'old_id'),
      {
        id: toText(row['id'], 'id'),
        market: marketName(row),
        before: toUnits(row['settled_before'], 'settled_before'),
        named: toUnits(row['named'], 'named'),
      },
    ]),
  );
}

function marketName(row: Row): string {
  return ['group_name', 'asset_id', 'fiat'].map((name) => toText(row[name], name)).join('\n');
}

export interface Mark {
  readonly line: bigint;
  readonly outcome: 'imported' | 'doubtful' | 'refused';
  readonly reason: string | null;
}

const MARK = `update payonce.p2p_import_lines l
set outcome = u.outcome, reason = u.reason
from unnest($2::bigint[], $3::text[], $4::text[]) as u (line, outcome, reason)
where l.import_id = $1
  and l.line = u.line
  and l.outcome is null`;

export async function markLines(tx: Tx, importId: bigint, marks: readonly Mark[]): Promise<void> {
  await tx.query(MARK, [
    importId,
    marks.map((one) => one.line),
    marks.map((one) => one.outcome),
    marks.map((one) => one.reason),
  ]);
}

export interface TakenRow {
  readonly kind: Kind;
  readonly oldId: string;
  readonly digest: string;
  readonly newId: string | null;
}

const TAKEN = `insert into payonce.p2p_imported (kind, old_id, digest, new_id, import_id)
select u.kind, u.old_id, u.digest, u.new_id, $1
from unnest($2::text[], $3::text[], $4::text[], $5::text[]) as u (kind, old_id, digest, new_id)`;

export async function storeTaken(tx: Tx, importId: bigint, rows: readonly TakenRow[]): Promise<void> {
  await tx.query(TAKEN, [
    importId,
    rows.map((one) => one.kind),
    rows.map((one) => one.oldId),
    rows.map((one) => one.digest),
    rows.map((one) => one.newId),
  ]);
}

export interface Counts {
  readonly lines: bigint;
  readonly imported: bigint;
  readonly same: bigint;
  readonly doubtful: bigint;
  readonly refused: bigint;
}

const COUNT = `select count(*) as lines, count(*) filter (where outcome = 'imported') as imported, count(*) filter (where outcome = 'same') as same,
       count(*) filter (where outcome = 'doubtful') as doubtful, count(*) filter (where outcome = 'refused') as refused
from payonce.p2p_import_lines
where import_id = $1`;

export async function countLines(query: Query, importId: bigint): Promise<Counts> {
  const [row] = (await query.query<Record<keyof Counts, bigint>>(COUNT, [importId])).rows;
  if (row === undefined) throw new InvariantBroken('a count has no row');
  return { ...row };
}

export interface ListedLine {
  readonly line: bigint;
  readonly kind: string;
  readonly id: string | null;
  readonly outcome: string;
  readonly reason: string;
}

const LISTED = `select line, kind, old_id, outcome, reason
from payonce.p2p_import_lines
where import_id = $1
  and outcome in ('doubtful', 'refused')
order by line
limit $2`;

export async function listDoubtful(query: Query, importId: bigint, most: number): Promise<ListedLine[]> {
  return (await query.query(LISTED, [importId, most])).rows.map((row) => ({
    line: row['line'] as bigint,
    kind: toText(row['kind'], 'kind'),
    id: row['old_id'] as string | null,
    outcome: toText(row['outcome'], 'outcome'),
    reason: toText(row['reason'], 'reason'),
  }));
}

const FINISH = `update payonce.p2p_imports
set sha256 = $2, lines = $3, imported = $4, same = $5, doubtful = $6, refused = $7, finished_at = payonce.now()
where id = $1`;
const DROP = `delete from payonce.p2p_imports
where id = $1`;

export async function finishImport(tx: Tx, importId: bigint, sha256: string, counts: Counts): Promise<void> {
  const { lines, imported, same, doubtful, refused } = counts;
  await tx.query(FINISH, [importId, sha256, lines, imported, same, doubtful, refused]);
}
/** Of a dry run, whose lines are gone. */
export async function dropImport(query: Query, importId: bigint): Promise<void> {
  await query.query(DROP, [importId]);
}
