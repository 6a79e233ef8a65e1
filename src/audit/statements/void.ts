/**
 * Statements as they were taken in, and a file that was read wrongly (columns swapped) declared void by two persons: its lines no
 * longer count, nothing is deleted, and the same file may be taken in again. What other files show stays.
 *
 * Never: a booking, or the end of a case that a voided line opened; people who were told of it decide that.
 */
import type { Pool, Query, Tx } from '../../db/pool.ts';
import { openCase } from '../../engine/cases.ts';
import type { AboutCase, FlowVerb } from '../../engine/deps.ts';
import { PayonceError } from '../../kernel/errors.ts';
import type { MakeId } from '../../kernel/ids.ts';
import { lockStatements } from './store.ts';

const FILES = `select f.sha256, f.take, f.rail, f.name, f.format, coalesce(o.name, f.imported_by) as imported_by, f.imported_at, v.voided_at, v.proposal_id,
       s.account, s.from_day::text as from_day, s.to_day::text as to_day, s.lines
from payonce.statement_files f
left join payonce.operators o on o.id = f.imported_by
left join payonce.statement_voids v on v.file_sha256 = f.sha256 and v.take = f.take
cross join lateral (
  select min(s.account) as account, min(s.from_day) as from_day, max(s.to_day) as to_day,
         (select count(*)::int from payonce.statement_places p join payonce.statements t on t.id = p.statement_id
          where t.file_sha256 = f.sha256 and t.take = f.take) as lines
  from payonce.statements s
  where s.file_sha256 = f.sha256 and s.take = f.take) s
where ($1::text is null or f.rail = $1)
  and ($2::text is null or starts_with(f.sha256, $2))
order by f.imported_at desc, f.sha256, f.take desc
limit $3`;

/** One taking-in of a file. */
export interface ListedFile {
  readonly sha256: string;
  readonly take: number;
  readonly rail: string;
  readonly name: string;
  readonly format: string;
  readonly account: string | null;
  readonly from: string | null;
  readonly to: string | null;
  readonly lines: number;
  readonly imported_by: string;
  readonly imported_at: Date;
  readonly voided_at: Date | null;
  readonly voided_by_proposal: string | null;
}

const FILES_MAX = 200;

/** The newest first. `sha256`: its beginning is enough. */
export async function listStatementFiles(
  query: Query,
  { rail, sha256 }: { readonly rail: string | null; readonly sha256: string | null },
): Promise<ListedFile[]> {
  const { rows } = await query.query<
    Omit<ListedFile, 'from' | 'to' | 'voided_by_proposal'> & {
      readonly from_day: string | null;
      readonly to_day: string | null;
      readonly proposal_id: string | null;
    }
  >(FILES, [rail, sha256, FILES_MAX]);
  return rows.map(({ from_day: from, to_day: to, proposal_id: voidedBy, ...row }) => ({
    ...row,
    from,
    to,
    voided_by_proposal: voidedBy,
  }));
}

const LINES = `select p.place, l.direction, l.amount::text as amount, a.code as asset, a.decimals, l.booked_on::text as booked_on, l.own_reference, p.refs,
       l.counterparty_name, l.counterparty_account, l.remittance, l.retired_at is not null as is_void
from payonce.statements s
join payonce.statement_places p on p.statement_id = s.id
join payonce.statement_lines l on l.id = p.line_id
join payonce.assets a on a.id = l.asset_id
where s.file_sha256 = $1
  and s.take = $2
order by s.position, p.ordinal
limit $3`;

export interface ShownLine {
  readonly place: string;
  readonly direction: 'out' | 'in';
  /** Units. */
  readonly amount: string;
  readonly asset: string;
  readonly decimals: number;
  readonly booked_on: string;
  readonly own_reference: string | null;
  readonly refs: readonly string[];
  readonly counterparty_name: string | null;
  readonly counterparty_account: string | null;
  readonly remittance: string | null;
  readonly is_void: boolean;
}

const LINES_MAX = 500;

/** The newest taking-in of a file with its first lines, as they were read. */
export async function showStatementFile(
  query: Query,
  sha256: string,
): Promise<{ readonly file: ListedFile; readonly lines: readonly ShownLine[] }> {
  const file = await findOne(query, sha256);
  return { file, lines: (await query.query<ShownLine & Row>(LINES, [file.sha256, file.take, LINES_MAX])).rows };
}
type Row = Record<string, unknown>;

async function findOne(query: Query, sha256: string): Promise<ListedFile> {
  const found = /^[0-9a-f]{6,64}$/.test(sha256) ? await listStatementFiles(query, { rail: null, sha256 }) : [];
  const [newest] = found;
  if (newest === undefined)
    throw new PayonceError('PO_NOT_FOUND', {
      detail: `There is no statement ${sha256}; give at least 6 characters of its sha256 (payonce statement list)`,
    });
  if (found.some((one) => one.sha256 !== newest.sha256))
    throw new PayonceError('PO_REQUEST_INVALID', { detail: `Several files begin with ${sha256}; give more of it` });
  return newest;
}

const SUBJECT = 'statement:';

/** The case in which two persons decide that a file does not count. Durable with the caller's commit. */
export async function openVoidCase(query: Query, makeId: MakeId, sha256: string): Promise<string> {
  const file = await findOne(query, sha256);
  if (file.voided_at !== null)
    throw new PayonceError('PO_EVIDENCE_REFUSED', { detail: `Statement ${file.sha256} is void already` });
  return openCase(query, makeId, {
    kind: 'statement_wrong',
    severity: 1,
    subjectKey: `${SUBJECT}${file.sha256}`,
    summary: `${file.name} of ${file.rail}, ${file.lines} lines, ${file.from ?? '?'} to ${file.to ?? '?'}, was read wrongly: are its lines void?`,
  });
}

const VOID = `insert into payonce.statement_voids (file_sha256, take, proposal_id)
values ($1, $2, $3)`;

// What another file shows as well stays.
const RETIRE = `update payonce.statement_lines l
set retired_at = payonce.now()
where l.retired_at is null
  and l.id in (
    select p.line_id from payonce.statement_places p
    join payonce.statements s on s.id = p.statement_id
    where s.file_sha256 = $1 and s.take = $2)
  and not exists (
    select 1 from payonce.statement_places p
    join payonce.statements_counted s on s.id = p.statement_id
    where p.line_id = l.id)`;

export function makeStatementVerbs(pool: Pool): { readonly void_statement: FlowVerb } {
  return {
    void_statement: {
      objection: async (about) => (await judge(pool, about)).objection,
      async carryOut(tx, { id, about }) {
        const { file, objection } = await judge(tx, about);
        if (objection !== null || file === null) return { refused: objection ?? 'there is no such statement' };
        await lockStatements(tx, file.rail);
        const retired = await voidFile(tx, file, id);
        return {
          did: `statement ${file.name} is void: ${retired} of its ${file.lines} lines count no longer; take it in again as it should be read`,
          closesCase: true,
        };
      },
    },
  };
}

async function judge(query: Query, about: AboutCase): Promise<{ file: ListedFile | null; objection: string | null }> {
  if (about.kind !== 'statement_wrong')
    return { file: null, objection: 'this case is not about a statement: payonce statement void opens one' };
  const file = await findOne(query, about.subjectKey.slice(SUBJECT.length));
  return { file, objection: file.voided_at === null ? null : `statement ${file.sha256} is void already` };
}

async function voidFile(tx: Tx, { sha256, take }: ListedFile, proposalId: string): Promise<number> {
  await tx.query(VOID, [sha256, take, proposalId]);
  return (await tx.query(RETIRE, [sha256, take])).rowCount;
}
