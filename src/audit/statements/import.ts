/**
 * Taking a statement in: all of a file or nothing, once.
 *
 * The same file again changes nothing and says so; lines that another file showed before are counted and not stored again.
 * In the same transaction the new lines, and old ones that it tells more of, are compared with what was released: a statement is
 * word that it moved after all.
 */
import { createHash } from 'node:crypto';
import type { Pool, Tx } from '../../db/pool.ts';
import { audit } from '../../engine/audit-log.ts';
import type { Operator } from '../../engine/operators.ts';
import { PayonceError } from '../../kernel/errors.ts';
import type { MakeId } from '../../kernel/ids.ts';
import { compareLines } from '../reconcile/bank.ts';
import { findDifferences } from '../reconcile/findings.ts';
import { wakeWhatMoved, type Woken } from '../reconcile/moved-after-all.ts';
import { readCamt } from './camt.ts';
import { type CsvOptions, readCsv } from './csv.ts';
import { lineKeys } from './line-key.ts';
import { makeFaults, type ReadStatements, signed, type Statement, type StatementFault } from './statement.ts';
import { loadStatementRail, lockStatements, type StatementRail, storeStatement, takeFile } from './store.ts';

/** A month of a busy account is some ten thousand lines; a file past this is no statement. */
export const STATEMENT_BYTES_MAX = 64 * 1_048_576;

export interface StatementFile {
  readonly rail: string;
  /** For people; says nothing about what it is. */
  readonly name: string;
  readonly bytes: Uint8Array;
  /** The account as the file names it; absent: that of the rail's earlier statements. */
  readonly account?: string;
  readonly csv?: CsvOptions;
}

export type Imported =
  | {
      readonly outcome: 'imported' | 'known';
      readonly sha256: string;
      readonly format: string;
      readonly account: string;
      readonly statements: readonly { readonly currency: string; readonly from: string; readonly to: string }[];
      readonly lines: number;
      /** Lines that no file had shown before. */
      readonly fresh: number;
      /** Entries that are not booked. */
      readonly skipped: number;
      readonly woken: Woken;
    }
  | { readonly outcome: 'refused'; readonly faults: readonly StatementFault[] };

/** Durable on return. Throws PO_NOT_FOUND for an unknown rail. */
export async function importStatement(
  deps: { readonly pool: Pool; readonly makeId: MakeId },
  operator: Operator,
  file: StatementFile,
): Promise<Imported> {
  const rail = await loadStatementRail(deps.pool, file.rail);
  if (rail === null) throw new PayonceError('PO_NOT_FOUND', { detail: `There is no rail ${file.rail}` });
  const read = readFile(rail, file);
  if (!read.ok) return { outcome: 'refused', faults: read.faults };
  const sha256 = createHash('sha256').update(file.bytes).digest('hex');
  return deps.pool.tx('import a statement', async (tx) => {
    await lockStatements(tx, rail.name);
    // Read again under the lock: another file may have said meanwhile which account it is.
    const account = accountOf((await loadStatementRail(tx, rail.name)) ?? rail, file, read.statements);
    if (!account.ok) return refused(account.fault);
    const taken = await takeFile(tx, {
      sha256,
      rail: rail.name,
      name: file.name,
      format: read.format,
      by: operator.id,
    });
    if (!taken.taken && taken.rail !== rail.name) return refused(`it was taken as a statement of ${taken.rail} before`);
    const { fresh, learned } = taken.taken
      ? await store(tx, rail, { sha256, take: taken.take, account: account.name }, read.statements)
      : { fresh: [], learned: [] };
    const told = [...fresh, ...learned];
    const woken = told.length === 0 ? { cases: [], looks: [] } : await wake(tx, deps.makeId, rail.name, told);
    const counts = {
      lines: read.statements.reduce((sum, one) => sum + one.lines.length, 0),
      fresh: fresh.length,
      skipped: read.skipped,
    };
    if (taken.taken) {
      const detail = { file: file.name, sha256, format: read.format, ...counts };
      await audit(tx, operator.id, 'statement.import', rail.name, detail);
    }
    return {
      outcome: taken.taken ? 'imported' : 'known',
      sha256,
      format: read.format,
      account: account.name,
      statements: read.statements.map(({ currency, from, to }) => ({ currency, from, to })),
      ...counts,
      woken,
    };
  });
}

function refused(detail: string): Imported {
  return { outcome: 'refused', faults: [{ place: 'the file', detail }] };
}

function readFile(rail: StatementRail, file: StatementFile): ReadStatements {
  if (file.bytes.length > STATEMENT_BYTES_MAX) {
    const detail = `it has ${file.bytes.length} bytes, at most ${STATEMENT_BYTES_MAX} are read; ask the bank for shorter periods`;
    return { ok: false, faults: [{ place: 'the file', detail }] };
  }
  const nul = file.bytes.indexOf(0);
  if (nul >= 0)
    return { ok: false, faults: [{ place: `byte ${nul + 1}`, detail: 'it is NUL; save the file as UTF-8 text' }] };
  const currencies = new Map(rail.assets.map((asset) => [asset.currency, asset.decimals]));
  const read = isXml(file.bytes) ? readCamt(file.bytes, currencies) : readCsv(file.bytes, currencies, file.csv);
  return read.ok ? withinLimits(read) : read;
}

/** Longer than any bank's, shorter than what an index refuses. */
const REFERENCE_CHARACTERS_MAX = 512;

function withinLimits(read: ReadStatements & { readonly ok: true }): ReadStatements {
  const faults = makeFaults();
  for (const { lines } of read.statements)
    for (const { place, references } of lines)
      for (const { length } of references)
        if (length > REFERENCE_CHARACTERS_MAX)
          faults.add(
            place,
            `a reference has ${length} characters, at most ${REFERENCE_CHARACTERS_MAX} are kept; see --column`,
          );
  return faults.list.length === 0 ? read : { ok: false, faults: faults.list };
}

/** Its first character that is neither blank nor byte order mark. */
function isXml(bytes: Uint8Array): boolean {
  return /^\uFEFF?\s*</.test(new TextDecoder().decode(bytes.subarray(0, 1_024)));
}

/**
 * A rail is one account. Statements name it in the bank's way (an IBAN), which may differ from the provider's: the first file
 * says it, and every other one must agree.
 */
function accountOf(
  rail: StatementRail,
  file: StatementFile,
  statements: readonly Statement[],
): { readonly ok: true; readonly name: string } | { readonly ok: false; readonly fault: string } {
  const stated = [...new Set(statements.flatMap((one) => one.account ?? []))];
  const [only] = stated;
  if (stated.length > 1)
    return { ok: false, fault: `it has statements of ${stated.join(' and ')}; take in one account a file` };
  const expected = file.account ?? rail.accounts[0];
  if (only !== undefined && expected !== undefined && only !== expected) {
    const why =
      file.account === undefined
        ? `earlier statements of ${rail.name} are of ${expected}`
        : `${expected} was asked for`;
    return { ok: false, fault: `it is of account ${only}, and ${why}; if that is right, say --account ${only}` };
  }
  return { ok: true, name: only ?? expected ?? rail.wallets[0] ?? rail.name };
}

/** The ids of the lines that are new, and of those of which more is known now. */
async function store(
  tx: Tx,
  rail: StatementRail,
  of: { readonly sha256: string; readonly take: number; readonly account: string },
  statements: readonly Statement[],
): Promise<{ readonly fresh: readonly bigint[]; readonly learned: readonly bigint[] }> {
  const fresh: bigint[] = [];
  const learned: bigint[] = [];
  for (const [index, statement] of statements.entries()) {
    const assetId = rail.assets.find((asset) => asset.currency === statement.currency)?.id ?? '';
    const moved = statement.lines.reduce((sum, line) => sum + signed(line), 0n);
    const keys = lineKeys(assetId, statement.lines);
    const stored = { ...of, position: index + 1, rail: rail.name, assetId, statement, moved, keys };
    const told = await storeStatement(tx, stored);
    for (const id of told.fresh) fresh.push(id);
    for (const id of told.learned) learned.push(id);
  }
  return { fresh, learned };
}

/** What the file told anew: what older ones said was acted on when they came, and is found again by `reconcile bank`. */
async function wake(tx: Tx, makeId: MakeId, rail: string, lineIds: readonly bigint[]): Promise<Woken> {
  const { found } = await compareLines(tx, rail, { ...NO_DAYS, lineIds });
  const isFresh = new Set(lineIds);
  const findings = findDifferences(found, { ...ALL_DAYS, graceDays: 0, isCovered: () => false });
  return wakeWhatMoved(
    tx,
    makeId,
    findings.filter((one) => one.lines.some((line) => isFresh.has(line.id))),
  );
}

const ALL_DAYS = { from: '0001-01-01', to: '9999-12-31' };
/** Lines by id only. */
const NO_DAYS = { from: '9999-12-31', to: '0001-01-01' };
