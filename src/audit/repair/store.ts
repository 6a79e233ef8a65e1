/** The statements of repairs. Lock order: the case (by the approval), accounts by id (in `post`), then rows that are only added. */
import { type Query, type Row, toText, toUnits, type Tx } from '../../db/pool.ts';
import { clearAlert } from '../../engine/alerts.ts';
import { formatUnits } from '../../kernel/money.ts';
import type { ChainFindingKind } from '../reconcile/chain-match.ts';
import type { RepairAs } from './plan.ts';

export interface StoredFinding {
  readonly id: string;
  readonly reportId: bigint;
  readonly chain: string;
  readonly wallet: string;
  readonly key: string;
  readonly kind: ChainFindingKind;
  readonly partnerId: string | null;
  readonly assetId: string;
  readonly amount: bigint;
  readonly txHash: string | null;
  readonly position: number | null;
  readonly detail: string;
}

const FINDING = `select f.id, f.report_id, r.chain, r.wallet, f.finding_key, f.kind, f.partner_id, f.asset_id, f.amount, f.tx_hash, f.position, f.detail
from payonce.chain_findings f
join payonce.chain_reports r on r.id = f.report_id
where f.id = $1`;

export async function loadFinding(query: Query, id: string): Promise<StoredFinding | null> {
  if (!/^[1-9][0-9]{0,17}$/.test(id)) return null;
  const [row] = (await query.query(FINDING, [id])).rows;
  return row === undefined ? null : toFinding(row);
}

function toFinding(row: Row): StoredFinding {
  return {
    id: toUnits(row['id'], 'chain_findings.id').toString(),
    reportId: toUnits(row['report_id'], 'chain_findings.report_id'),
    chain: toText(row['chain'], 'chain_reports.chain'),
    wallet: toText(row['wallet'], 'chain_reports.wallet'),
    key: toText(row['finding_key'], 'chain_findings.finding_key'),
    kind: toText(row['kind'], 'chain_findings.kind') as ChainFindingKind,
    partnerId: row['partner_id'] as string | null,
    assetId: toText(row['asset_id'], 'chain_findings.asset_id'),
    amount: toUnits(row['amount'], 'chain_findings.amount'),
    txHash: row['tx_hash'] as string | null,
    position: row['position'] as number | null,
    detail: toText(row['detail'], 'chain_findings.detail'),
  };
}

const CLASS = `select class
from payonce.chain_transfers
where chain = $1
  and tx_hash = $2
  and position = $3
  and final_at is not null
  and gone_at is null`;

/** What the scan says of the finding's movement; `null`: it has no record, or the finding is no movement. */
export async function loadClassOf(query: Query, finding: StoredFinding): Promise<string | null> {
  if (finding.txHash === null || finding.position === null) return null;
  const { rows } = await query.query<{ class: string }>(CLASS, [finding.chain, finding.txHash, finding.position]);
  return rows[0]?.class ?? null;
}

const REPAIRED = `select proposal_id
from payonce.chain_repairs
where finding_key = $1`;

export async function loadRepairOf(query: Query, key: string): Promise<string | null> {
  return (await query.query<{ proposal_id: string }>(REPAIRED, [key])).rows[0]?.proposal_id ?? null;
}

const LATER = `select 1
from payonce.chain_reports r
where r.chain = $1
  and r.wallet = $2
  and r.id > $3
limit 1`;

export async function isLatest(query: Query, finding: StoredFinding): Promise<boolean> {
  return (await query.query(LATER, [finding.chain, finding.wallet, finding.reportId])).rowCount === 0;
}

// What two persons closed before is not asked for again.
const MORE_UNKNOWN = `select 1
from payonce.chain_transfers t
where t.chain = $1
  and t.to_address = $2
  and t.asset_id = $3
  and t.class = 'UNKNOWN_INBOUND'
  and t.gone_at is null
  and t.seen_at > coalesce((
    select max(k.closed_at) from payonce.cases k
    where k.kind = 'unmatched_inbound' and k.subject_key = $1 || ':' || $2 || ':' || $3), '-infinity')
  and not exists (
    select 1 from payonce.chain_repairs p
    where p.finding_key = 'move:' || t.chain || ':' || t.tx_hash || ':' || t.position)
limit 1`;

/** Whether more came to the finding's wallet in its asset that is nobody's yet. */
export async function isMoreUnknown(query: Query, { chain, wallet, assetId }: StoredFinding): Promise<boolean> {
  return (await query.query(MORE_UNKNOWN, [chain, wallet, assetId])).rowCount === 1;
}

const OPENING = `select a ->> 'opening_from' as opening_from
from payonce.chain_reports r
cross join jsonb_array_elements(r.report -> 'assets') a
where r.id = $1
  and a ->> 'asset_id' = $2`;

/** Whether the chain told what the wallet had before the report's first block, to it or to an earlier run. */
export async function isOpeningTold(query: Query, { reportId, assetId }: StoredFinding): Promise<boolean> {
  const { rows } = await query.query<{ opening_from: string | null }>(OPENING, [reportId, assetId]);
  return rows.some((row) => row.opening_from === 'chain' || row.opening_from === 'report');
}

export async function isPartner(query: Query, id: string): Promise<boolean> {
  return (await query.query('select 1 from payonce.partners where id = $1', [id])).rowCount === 1;
}

export async function isEffect(query: Query, id: bigint): Promise<boolean> {
  return (await query.query('select 1 from payonce.effects where id = $1', [id])).rowCount === 1;
}

const INSERT = `insert into payonce.chain_repairs
  (finding_key, finding_id, proposal_id, booked_as, partner_id, effect_id, tx_hash, posting_id)
values ($1, $2, $3, $4, $5, $6, $7, $8)`;

export async function insertRepair(
  tx: Tx,
  one: {
    readonly finding: StoredFinding;
    readonly proposalId: string;
    readonly bookedAs: RepairAs;
    readonly partnerId: string | null;
    readonly effectId: bigint | null;
    readonly postingId: bigint | null;
  },
): Promise<void> {
  const { finding, proposalId, bookedAs, partnerId, effectId, postingId } = one;
  const values = [finding.key, finding.id, proposalId, bookedAs, partnerId, effectId, finding.txHash, postingId];
  await tx.query(INSERT, values);
}

// Of each name the latest finding; one that a later report over the same blocks does not list any more is no finding.
const OPEN = `select f.id, f.report_id, r.chain, r.wallet, f.finding_key, f.kind, f.direction, f.partner_id, f.asset_id, f.amount,
       f.block_number, f.tx_hash, f.position, f.effect_id, f.detail, a.code, a.decimals, r.made_at
from payonce.chain_findings f
join payonce.chain_reports r on r.id = f.report_id
join payonce.assets a on a.id = f.asset_id
where ($1::text is null or r.chain = $1)
  and ($2::text is null or r.wallet = $2)
  and not exists (select 1 from payonce.chain_repairs p where p.finding_key = f.finding_key)
  and not exists (
    select 1 from payonce.chain_reports l
    where l.chain = r.chain
      and l.wallet = r.wallet
      and l.id > r.id
      and (f.kind = 'ledger' or coalesce(f.block_number, r.from_block) >= l.from_block and coalesce(f.block_number, r.to_block) <= l.to_block))
order by f.id
limit 1000`;

export interface OpenFinding {
  readonly id: string;
  readonly chain: string;
  readonly wallet: string;
  readonly kind: string;
  readonly direction: string | null;
  readonly partner_id: string | null;
  readonly asset: string;
  /** Decimal text. */
  readonly amount: string;
  readonly block: string | null;
  readonly tx_hash: string | null;
  readonly effect_id: string | null;
  readonly detail: string;
  readonly found_at: Date;
}

export async function listOpenFindings(
  query: Query,
  of: { readonly chain: string | null; readonly wallet: string | null },
): Promise<OpenFinding[]> {
  const { rows } = await query.query(OPEN, [of.chain, of.wallet]);
  return rows.map((row) => ({
    id: toUnits(row['id'], 'id').toString(),
    chain: toText(row['chain'], 'chain'),
    wallet: toText(row['wallet'], 'wallet'),
    kind: toText(row['kind'], 'kind'),
    direction: row['direction'] as string | null,
    partner_id: row['partner_id'] as string | null,
    asset: toText(row['code'], 'code'),
    amount: formatUnits(toUnits(row['amount'], 'amount'), row['decimals'] as number),
    block: (row['block_number'] as bigint | null)?.toString() ?? null,
    tx_hash: row['tx_hash'] as string | null,
    effect_id: (row['effect_id'] as bigint | null)?.toString() ?? null,
    detail: toText(row['detail'], 'detail'),
    found_at: row['made_at'] as Date,
  }));
}

/** The alert of the wallet ends with its last open finding. */
export async function clearWhereDone(tx: Tx, { chain, wallet }: StoredFinding): Promise<void> {
  const open = await listOpenFindings(tx, { chain, wallet });
  if (open.length === 0) await clearAlert(tx, 'chain_reconcile', `${chain}:${wallet}`);
}
