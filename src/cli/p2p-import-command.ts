/** Orders and legs of an older system, taken over from a file (M14). */
import { open } from 'node:fs/promises';
import { basename } from 'node:path';
import type { Command } from 'commander';
import { importP2p, type Imported } from '../flows/p2p/import/index.ts';
import { PayonceError } from '../kernel/errors.ts';
import { makeChart } from '../ledger/accounts.ts';
import { argument, type Bind } from './binding.ts';
import type { CliDeps } from './deps.ts';
import { EXIT, heading, makeProgress, paint, printable, type Report, table } from './output.ts';

/** As many as fit a few screens; --json has them all. */
const SHOWN_MAX = 100;

/** Hangs on `payonce p2p`, and makes it where nobody has: to be added after whoever describes it. */
export function addP2pImportCommand(program: Command, bind: Bind, deps: CliDeps): void {
  const p2p =
    program.commands.find((command) => command.name() === 'p2p') ??
    program.command('p2p').description('buyers’ and sellers’ orders');
  bind<{ dryRun?: boolean }>(
    p2p
      .command('import <file>')
      .description(
        'take orders and legs of an older system over, JSON lines; repeatable; exit 1 where rows are doubtful (operator)',
      )
      .option('--dry-run', 'say what would happen, and leave nothing'),
    async (args, { dryRun }) => {
      const path = argument(args, 0);
      const file = await openFile(path);
      const progress = makeProgress(true);
      try {
        const { size } = await file.stat();
        const done = await deps.withDatabase((database) =>
          importP2p(
            { pool: database.pool, makeId: database.makeId, chart: makeChart() },
            database.operatorKey,
            { name: basename(path), bytes: file.createReadStream({ autoClose: false }) },
            {
              isDry: dryRun === true,
              onProgress: (stage, at, total) => progress.show(stage, at, total ?? BigInt(size)),
            },
          ),
        );
        return toReport(done);
      } finally {
        progress.end();
        await file.close();
      }
    },
  );
}

function toReport(done: Imported): Report {
  const { listed, leftOff, isDry, ...counts } = done;
  const isClean = counts.doubtful + counts.refused === 0n;
  const rows = listed
    .slice(0, SHOWN_MAX)
    .map((one) => [
      String(one.line),
      one.kind.replace('_', ' '),
      one.id === null ? null : printable(one.id),
      paint(one.outcome === 'refused' ? 'yellow' : 'red', one.outcome),
      printable(one.reason),
    ]);
  const more = BigInt(listed.length - rows.length) + leftOff;
  return {
    json: { dry_run: isDry, ...counts, listed, left_off: leftOff },
    text: [
      `${isDry ? 'A dry run, nothing was written' : 'Taken over'}: ${counts.lines} rows, ${counts.imported} ${isDry ? 'would be new' : 'new'}, ${counts.same} known before, ${counts.doubtful} doubtful, ${counts.refused} refused.`,
      ...(isClean
        ? []
        : [
            heading('For a person'),
            table(['LINE', 'KIND', 'ID', 'OUTCOME', 'WHY'], rows),
            ...(more === 0n ? [] : [`${more} more; --json shows ${leftOff === 0n ? 'all' : 'the first 10,000'}.`]),
            `${paint('dim', 'next ')} Nothing was written for these. See what is right, correct the file, and run it again: what is taken over stays as it is.`,
          ]),
    ].join('\n'),
    exit: isClean ? EXIT.ok : EXIT.failed,
  };
}

async function openFile(path: string): ReturnType<typeof open> {
  try {
    return await open(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new PayonceError('PO_REQUEST_INVALID', { detail: `${path} cannot be read: ${code ?? 'unknown'}` });
  }
}
