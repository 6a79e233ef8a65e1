/**
 * Statements' own statements of SQL. Files of one rail are imported one after the other: an advisory lock to the transaction's
 * end, then rows that are only ever added. Isolation: READ COMMITTED, set by `tx`.
 */
import { type Query, toText, toUnits, type Tx } from '../../db/pool.ts';
import { namesOn, type Statement, type StatementLine } from './statement.ts';

export interface RailAsset {
  readonly id: string;
  /** ISO 4217. */
  readonly currency: string;
  readonly decimals: number;
}

export interface StatementRail {
  readonly name: string;
  readonly assets: readonly RailAsset[];
  /** Our account there, as the rail's configuration names it. */
  readonly wallets: readonly string[];
  /** As the statements so far name it; empty before the first. */
  readonly accounts: readonly string[];
}

const LOCK = `select pg_advisory_xact_lock(hashtextextended('payonce.statements ' || $1, 0))`;

const RAIL = `select r.name,
       array(select p.wallet from payonce.asset_policies p where p.rail = r.name group by p.wallet order by p.wallet) as wallets,
       array(select s.account from payonce.statements_counted s where s.rail = r.name group by s.account order by s.account) as accounts
from payonce.rails r
where r.name = $1`;

const ASSETS = `select a.id, a.code, a.decimals
from payonce.assets a
where a.chain = $1
order by a.id`;

// Once, and once more after each time that it was voided.
const FILE = `insert into payonce.statement_files (sha256, take, rail, name, format, imported_by)
select $1, coalesce(max(f.take), 0) + 1, $2, $3, $4, $5
from payonce.statement_files f
where f.sha256 = $1
having not exists (
  select 1 from payonce.statement_files g
  where g.sha256 = $1
    and not exists (select 1 from payonce.statement_voids v where v.file_sha256 = g.sha256 and v.take = g.take))
on conflict (sha256, take) do nothing
returning take`;

const FILE_RAIL = `select rail
from payonce.statement_files
where sha256 = $1
order by take desc
limit 1`;

const STATEMENT = `insert into payonce.statements
  (file_sha256, take, position, rail, account, asset_id, name, sequence, from_day, to_day, opening, closing, moved)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
returning id`;

const LINES = `insert into payonce.statement_lines
  (rail, line_key, asset_id, direction, amount, booked_on, value_on, own_reference, refs, counterparty_name, counterparty_account,
   remittance, is_reversal, is_charge, return_reason)
select $1, u.line_key, $2, u.direction, u.amount, u.booked_on, u.value_on, u.own_reference,
       array(select jsonb_array_elements_text(u.refs)), u.counterparty_name, u.counterparty_account, u.remittance, u.is_reversal,
       u.is_charge, u.return_reason
from unnest($3::text[], $4::text[], $5::numeric[], $6::date[], $7::date[], $8::text[], $9::jsonb[], $10::text[], $11::text[],
            $12::text[], $13::bool[], $14::bool[], $15::text[])
  as u (line_key, direction, amount, booked_on, value_on, own_reference, refs, counterparty_name, counterparty_account, remittance,
        is_reversal, is_charge, return_reason)
on conflict (rail, line_key) where retired_at is null do nothing
returning id`;

const PLACES = `insert into payonce.statement_places (statement_id, ordinal, line_id, place, refs)
select $1, u.ordinal, l.id, u.place, array(select jsonb_array_elements_text(u.refs))
from unnest($3::text[], $4::text[], $5::jsonb[]) with ordinality as u (line_key, place, refs, ordinal)
join payonce.statement_lines l on l.rail = $2 and l.line_key = u.line_key and l.retired_at is null`;

// Known lines that carry a reference here which no other file showed.
const LEARNED = `select p.line_id
from payonce.statement_places p
where p.statement_id = $1
  and exists (
    select 1 from unnest(p.refs) r
    where not exists (
      select 1 from payonce.statement_places o
      where o.line_id = p.line_id and o.statement_id <> p.statement_id and r = any (o.refs)))`;

export async function lockStatements(tx: Tx, rail: string): Promise<void> {
  await tx.query(LOCK, [rail]);
}

/** `null`: there is no such rail. */
export async function loadStatementRail(query: Query, name: string): Promise<StatementRail | null> {
  const row = (await query.query<{ name: string; wallets: string[]; accounts: string[] }>(RAIL, [name])).rows[0];
  if (row === undefined) return null;
  const assets = (await query.query<{ id: string; code: string; decimals: number }>(ASSETS, [name])).rows;
  return {
    ...row,
    assets: assets.map(({ id, code, decimals }) => ({
      id,
      currency: (/\/iso4217:([A-Z]{3})$/.exec(id)?.[1] ?? code).toUpperCase(),
      decimals,
    })),
  };
}

/** `taken`, or the rail for which the same file was taken before. */
export async function takeFile(
  tx: Tx,
  file: { sha256: string; rail: string; name: string; format: string; by: string },
): Promise<{ readonly taken: true; readonly take: number } | { readonly taken: false; readonly rail: string }> {
  const [stored] = (await tx.query(FILE, [file.sha256, file.rail, file.name, file.format, file.by])).rows;
  if (stored !== undefined) return { taken: true, take: stored['take'] as number };
  const { rows } = await tx.query(FILE_RAIL, [file.sha256]);
  return { taken: false, rail: toText(rows[0]?.['rail'], 'statement_files.rail') };
}

export interface StoredStatement {
  readonly sha256: string;
  readonly take: number;
  readonly position: number;
  readonly rail: string;
  readonly account: string;
  readonly assetId: string;
  readonly statement: Statement;
  readonly moved: bigint;
  /** Of its lines, in order. */
  readonly keys: readonly string[];
}

/** Lines that nobody had shown before, and known ones of which it tells more than was known. */
export async function storeStatement(
  tx: Tx,
  one: StoredStatement,
): Promise<{ readonly fresh: bigint[]; readonly learned: bigint[] }> {
  const { statement, rail, assetId, keys } = one;
  const { rows } = await tx.query(STATEMENT, [
    one.sha256,
    one.take,
    one.position,
    rail,
    one.account,
    assetId,
    statement.name,
    statement.sequence,
    statement.from,
    statement.to,
    statement.opening,
    statement.closing,
    one.moved,
  ]);
  const id = toUnits(rows[0]?.['id'], 'statements.id');
  const { lines } = statement;
  if (lines.length === 0) return { fresh: [], learned: [] };
  const of = <T>(read: (line: StatementLine) => T): T[] => lines.map(read);
  const refs = of((line) => JSON.stringify(namesOn(line)));
  const inserted = await tx.query(LINES, [
    rail,
    assetId,
    keys,
    of((line) => line.direction),
    of((line) => line.amount),
    of((line) => line.bookedOn),
    of((line) => line.valueOn),
    of((line) => line.ownReference),
    refs,
    of((line) => line.counterpartyName),
    of((line) => line.counterpartyAccount),
    of((line) => line.remittance),
    of((line) => line.isReversal),
    of((line) => line.isCharge),
    of((line) => line.returnReason),
  ]);
  await tx.query(PLACES, [id, rail, keys, of((line) => line.place), refs]);
  const fresh = inserted.rows.map((row) => toUnits(row['id'], 'statement_lines.id'));
  const known = new Set(fresh);
  const learned = (await tx.query(LEARNED, [id])).rows.map((row) => toUnits(row['line_id'], 'line_id'));
  return { fresh, learned: learned.filter((line) => !known.has(line)) };
}
