/** What a bank says of its own books: statements taken in, and compared with ours. */
import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { type BankReport, GRACE_DAYS, reconcileBank, toJson } from '../audit/reconcile/bank.ts';
import { CSV_COLUMNS, type CsvColumn } from '../audit/statements/csv.ts';
import { type Imported, importStatement } from '../audit/statements/import.ts';
import { readDay } from '../audit/statements/statement.ts';
import { type ListedFile, listStatementFiles, openVoidCase, showStatementFile } from '../audit/statements/void.ts';
import { propose } from '../engine/adjudicate.ts';
import { needOperator } from '../engine/administration.ts';
import { PayonceError } from '../kernel/errors.ts';
import { formatUnits } from '../kernel/money.ts';
import { argument, type Bind } from './binding.ts';
import type { CliDeps } from './deps.ts';
import { EXIT, heading, moment, paint, printable, type Report, table } from './output.ts';

interface ImportOptions {
  readonly rail: string;
  readonly account?: string;
  readonly column?: Partial<Record<CsvColumn, string>>;
  readonly currency?: string;
  readonly grouping?: string;
  readonly decimalMark?: string;
  readonly from?: string;
  readonly to?: string;
}

/** Answers `reconcile`, which the chains' command hangs on too. */
export function addStatementCommands(program: Command, bind: Bind, deps: CliDeps): Command {
  const statement = program.command('statement').description("what a bank's statements say");
  bind<ImportOptions>(
    statement
      .command('import <file>')
      .description('take a statement in, camt.053 or CSV: whole or not at all, once (operator)')
      .requiredOption('--rail <name>', 'whose account it is, for example bank:main')
      .option('--account <id>', 'the account as the file names it, where it changed')
      .option('--column <name=header>', `CSV, repeatable: ${Object.keys(CSV_COLUMNS).join(', ')}`, readColumn)
      .option('--currency <code>', 'CSV without a currency column')
      .option('--grouping <mark>', 'CSV: stands between groups of three digits')
      .option('--decimal-mark <mark>', 'CSV: stands before the fraction; a point if absent')
      .option('--from <day>', 'CSV: the first day it covers, where its first line is later', readDayOption)
      .option('--to <day>', 'CSV: the last day it covers, where its last line is earlier', readDayOption),
    async (args, options) => {
      const path = argument(args, 0);
      const bytes = await readBytes(path);
      const { rail, account, column, ...csv } = options;
      const done = await deps.withDatabase(async (database) =>
        importStatement(database, await needOperator(database.pool, database.operatorKey, 'operator'), {
          rail,
          name: basename(path),
          bytes,
          ...(account === undefined ? {} : { account }),
          csv: { ...csv, ...(column === undefined ? {} : { columns: column }) },
        }),
      );
      return toImportReport(done, rail);
    },
  );
  bind<{ rail?: string }>(
    statement.command('list').description('files that were taken in, the newest first').option('--rail <name>'),
    async (_args, { rail }) => {
      const files = await deps.withDatabase(({ pool }) =>
        listStatementFiles(pool, { rail: rail ?? null, sha256: null }),
      );
      return { json: { files }, text: filesText(files) };
    },
  );
  bind(
    statement
      .command('show <sha256>')
      .description('a file’s lines, as they were read; its first characters are enough'),
    async (args) => {
      const { file, lines } = await deps.withDatabase(({ pool }) => showStatementFile(pool, argument(args, 0)));
      const rows = lines.map((one) => [
        one.place,
        one.booked_on,
        one.direction,
        `${formatUnits(BigInt(one.amount), one.decimals)} ${one.asset}`,
        printable(one.refs.join(' ')),
        printable(one.counterparty_account ?? '-'),
        printable(one.counterparty_name ?? '-'),
        printable(one.remittance ?? '-'),
      ]);
      const header = ['LINE', 'BOOKED', 'WAY', 'AMOUNT', 'REFERENCES', 'ACCOUNT', 'NAME', 'TEXT'];
      return { json: { file, lines }, text: [filesText([file]), table(header, rows, 'It has no lines.')].join('\n') };
    },
  );
  bind<{ reason: string }>(
    statement
      .command('void <sha256>')
      .description('propose to a second person that a file was read wrongly and does not count (operator)')
      .requiredOption('--reason <text>', 'what was wrong with how it was read'),
    async (args, { reason }) => {
      const made = await deps.withEngine(async ({ engine, makeId, pool, operatorKey }) => {
        const operator = await needOperator(pool, operatorKey, 'operator');
        const caseId = await openVoidCase(pool, makeId, argument(args, 0));
        return { caseId, ...(await propose(engine, operator, caseId, 'void_statement', { reason })) };
      });
      return {
        json: { proposal_id: made.proposalId, case_id: made.caseId },
        text: `Proposed to void it: ${paint('bold', made.proposalId)}, in case ${made.caseId}.\nNext: another person (approver) looks at it (payonce statement show) and runs: payonce case approve ${made.proposalId}`,
      };
    },
  );
  const reconcile = program.command('reconcile').description('compare what others say moved with our books');
  bind<{ rail: string; from?: string; to?: string; graceDays?: number }>(
    reconcile
      .command('bank')
      .description("a bank's statements against our payments, both ways; exit 1 where they differ")
      .requiredOption('--rail <name>', 'for example bank:main')
      .option('--from <day>', 'the first day; absent: as far as statements go', readDayOption)
      .option('--to <day>', 'the last day', readDayOption)
      .option('--grace-days <count>', `how long a payment may take to be booked (${GRACE_DAYS})`, readDays),
    async (_args, options) => {
      const report = await deps.withDatabase((database) => reconcileBank(database, options));
      return {
        json: { report_id: report.reportId, ...toJson(report), cases: report.woken.cases, looks: report.woken.looks },
        text: reportText(report),
        exit: report.findings.length === 0 ? EXIT.ok : EXIT.failed,
      };
    },
  );
  return reconcile;
}

function filesText(files: readonly ListedFile[]): string {
  const rows = files.map((one) => [
    one.sha256.slice(0, 12),
    one.rail,
    printable(one.name),
    `${one.from ?? '?'} to ${one.to ?? '?'}`,
    String(one.lines),
    one.imported_by,
    moment(one.imported_at),
    one.voided_at === null ? '-' : `void since ${moment(one.voided_at) ?? ''}`,
  ]);
  const header = ['SHA256', 'RAIL', 'FILE', 'COVERS', 'LINES', 'BY', 'TAKEN IN', 'VOID'];
  return table(header, rows, 'No statement was taken in.');
}

function toImportReport(done: Imported, rail: string): Report {
  if (done.outcome === 'refused') {
    const detail = done.faults.map((fault) => `${fault.place}: ${fault.detail}`).join('\n');
    throw new PayonceError('PO_REQUEST_INVALID', { detail: `Nothing was taken in. ${detail}` });
  }
  const { woken, statements, ...counts } = done;
  const days = statements.map((one) => `${one.currency} ${one.from} to ${one.to}`).join('; ');
  const what =
    done.outcome === 'known'
      ? `This file was taken in before: nothing is new. Was it read wrongly? payonce statement void ${done.sha256.slice(0, 12)}`
      : `Taken in: ${done.lines} lines, ${done.fresh} of them new${done.skipped === 0 ? '' : `; ${done.skipped} entries are not booked and do not count`}.`;
  return {
    json: { ...counts, statements, cases: woken.cases, looks: woken.looks },
    text: [
      what,
      `${paint('dim', 'covers')} ${printable(days)}, account ${printable(done.account)}`,
      ...wokenLines(woken),
      `${paint('dim', 'next ')} payonce reconcile bank --rail ${rail}`,
    ].join('\n'),
  };
}

function wokenLines(woken: BankReport['woken']): string[] {
  const lines = [];
  if (woken.cases.length > 0)
    lines.push(
      `${paint('red', 'now')} It shows payments that were released: ${woken.cases.map((id) => `payonce case show ${id}`).join(', ')}`,
    );
  if (woken.looks.length > 0)
    lines.push(`The worker asks the bank again about ${woken.looks.map((id) => `effect ${id}`).join(', ')}.`);
  return lines;
}

function reportText(report: BankReport): string {
  const assets = new Map(report.assets.map((asset) => [asset.id, asset]));
  const amount = (units: bigint | null, assetId: string): string | null => {
    const asset = assets.get(assetId);
    return units === null ? null : `${formatUnits(units, asset?.decimals ?? 0)} ${asset?.currency ?? assetId}`;
  };
  const rows = report.findings.map((one) => [
    paint('red', one.kind),
    one.date,
    one.partnerId,
    amount(one.amount, one.assetId),
    printable(referenceText(one)),
    one.effect === null ? null : `${one.effect.id} ${one.effect.state}`,
    printable(
      [
        one.detail,
        ...one.lines.map((line) => line.place),
        ...one.suggestions.map(
          (unit) => `perhaps effect ${unit.effect.id} (${unit.effect.subjectId}, ${unit.effect.state})`,
        ),
      ].join('; '),
    ),
  ]);
  const sums = report.balances.map((one) => [
    `${one.from} to ${one.to}`,
    amount(one.opening, one.assetId),
    amount(one.moved, one.assetId),
    amount(one.closing, one.assetId),
    amount(one.booked, one.assetId),
    amount(one.difference, one.assetId),
  ]);
  const { counts } = report;
  return [
    `${report.rail}, ${report.from} to ${report.to}: ${counts.lines} lines of ${counts.statements} statements, ${counts.matched} of them matched.`,
    table(
      ['FOUND', 'DATE', 'PARTNER', 'AMOUNT', 'REFERENCE', 'EFFECT', 'WHAT'],
      rows,
      paint('green', 'Nothing differs.'),
    ),
    heading('Balances'),
    table(['DAYS', 'OPENING', 'LINES', 'CLOSING', 'OUR BOOKS', 'DIFFERENCE'], sums),
    ...wokenLines(report.woken),
    ...(rows.length === 0
      ? []
      : [
          `${paint('dim', 'next ')} Ask the bank about each line; nothing is booked from a statement. Run it again when it is cleared.`,
        ]),
  ].join('\n');
}

/** What the bank wrote says more to people than its own number of the entry. */
function referenceText({ effect, reference, lines: [line] }: BankReport['findings'][number]): string {
  const written = line?.references.find((one) => one !== line.ownReference) ?? line?.remittance ?? null;
  return (effect === null ? (written ?? reference) : reference) ?? '-';
}

async function readBytes(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new PayonceError('PO_REQUEST_INVALID', { detail: `${path} cannot be read: ${code ?? 'unknown'}` });
  }
}

function readColumn(text: string, before: Partial<Record<CsvColumn, string>> = {}): Partial<Record<CsvColumn, string>> {
  const at = text.indexOf('=');
  const name = text.slice(0, at);
  if (at < 1 || !(name in CSV_COLUMNS) || text.length === at + 1)
    throw new InvalidArgumentError(`Write NAME=HEADER, with NAME one of ${Object.keys(CSV_COLUMNS).join(', ')}.`);
  return { ...before, [name]: text.slice(at + 1) };
}

function readDayOption(text: string): string {
  const day = readDay(text);
  if (day === null || day !== text) throw new InvalidArgumentError('Write the day as 2030-01-31.');
  return day;
}

function readDays(text: string): number {
  if (!/^\d{1,2}$/.test(text)) throw new InvalidArgumentError('Give a whole number of days from 0 to 99.');
  return Number(text);
}
