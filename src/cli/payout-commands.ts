/** Creators' payouts: what is accrued, paid and waits, for whom; the daily cut by hand. */
import type { Command } from 'commander';
import { needOperator } from '../engine/administration.ts';
import { audit } from '../engine/audit-log.ts';
import {
  cutProgramme,
  listPayouts,
  listProgrammes,
  payWaitingOnce,
  readStatement,
  type StatementLine,
  toPayoutView,
  toProgrammeView,
  toStatementCsv,
} from '../flows/payouts/index.ts';
import { argument, type Bind } from './binding.ts';
import type { CliDeps } from './deps.ts';
import { moment, printable, table } from './output.ts';
import { readDate } from './realize-commands.ts';

const LISTED_MAX = 200;
/** A statement is for a file; more lines than this are asked for by programme or creator. */
const STATEMENT_LINES_MAX = 100_000;

interface StatementOptions {
  readonly partner?: string;
  readonly programme?: string;
  readonly creator?: string;
  readonly csv?: boolean;
}

export function addPayoutCommands(program: Command, bind: Bind, deps: CliDeps): void {
  const payouts = program.command('payouts').description('creators’ payouts: programmes, statements, what waits');

  bind(payouts.command('programmes').description('what is paid for volume, and when'), async () => {
    const list = await deps.withDatabase(({ pool }) => listProgrammes(pool, null, null, LISTED_MAX));
    const rows = list.map((one) => {
      const view = toProgrammeView(one);
      const rate = view.tiers.map((tier) => `${tier.rate} from ${tier.from}`).join(', ');
      const cut = view.cut_min === null ? null : `from ${view.cut_min}, 05:00 ${view.time_zone}`;
      return [view.id, one.partnerId, view.name, view.asset, rate, view.threshold, cut, view.paused ? 'paused' : null];
    });
    return {
      json: { programmes: list.map((one) => ({ ...toProgrammeView(one), partner_id: one.partnerId })) },
      text: table(['PROGRAMME', 'PARTNER', 'NAME', 'ASSET', 'RATE', 'THRESHOLD', 'CUT', ''], rows, 'No programme.'),
    };
  });

  bind<{ partner?: string; status?: string; programme?: string; creator?: string }>(
    payouts
      .command('list')
      .description('payouts, the latest first')
      .option('--partner <id>', 'of one partner')
      .option('--status <status>', 'as it stands: pending, processing, confirmed …')
      .option('--programme <name>', 'of one programme, by name or id')
      .option('--creator <name>', 'of one creator, by the partner’s name of it'),
    async (_args, { partner, status, programme, creator }) => {
      const found = await deps.withDatabase(({ pool }) =>
        listPayouts(pool, {
          partnerId: partner ?? null,
          before: null,
          status: status ?? null,
          programme: programme ?? null,
          creator: creator ?? null,
          limit: LISTED_MAX,
        }),
      );
      const rows = found.map((one) => {
        const view = toPayoutView(one, one.status);
        const amount = `${view.amount} ${view.asset}`;
        return [
          view.id,
          view.status,
          moment(one.requestedAt),
          view.programme,
          printable(view.creator),
          amount,
          view.destination,
        ];
      });
      return {
        json: { payouts: found.map((one) => ({ ...toPayoutView(one, one.status), partner_id: one.partnerId })) },
        text: table(['PAYOUT', 'STATUS', 'SINCE', 'PROGRAMME', 'CREATOR', 'AMOUNT', 'TO'], rows, 'No payout.'),
      };
    },
  );

  const withChoice = (command: Command): Command =>
    command
      .option('--partner <id>', 'of one partner')
      .option('--programme <name>', 'of one programme, by name or id')
      .option('--creator <name>', 'of one creator, by the partner’s name of it')
      .option('--csv', 'comma-separated, with a header');

  bind<StatementOptions>(
    withChoice(
      payouts.command('statement').description('accrued, paid, in flight and carried, for each creator and programme'),
    ),
    async (_args, options) =>
      statementReport(await loadLines(deps, options, false), options, 'Nothing is accrued for this choice.'),
  );

  bind<StatementOptions>(
    withChoice(payouts.command('waiting').description('creators whose payout is due and was not made, and why')),
    async (_args, options) =>
      statementReport(await loadLines(deps, options, true), options, 'No payout waits for this choice.'),
  );

  bind<{ date?: string }>(
    payouts
      .command('cut <programme>')
      .description('the daily cut of a programme, by its id: what was missed, or what came after it (operator)')
      .option('--date <date>', 'the business date; the latest that has come, where absent', readDate),
    async (args, { date }) =>
      deps.withEngine(async (wired) => {
        const operator = await needOperator(wired.pool, wired.operatorKey, 'operator');
        const outcome = await cutProgramme(wired.payouts, argument(args, 0), date ?? null);
        await audit(wired.pool, operator.id, 'payouts.cut', outcome.programmeId, {
          date: outcome.date,
          payouts: outcome.payouts,
        });
        return {
          json: {
            programme: outcome.programmeId,
            date: outcome.date,
            payouts: outcome.payouts,
            waiting: outcome.waiting,
          },
          text: `${outcome.date}: ${outcome.payouts} payouts made, ${outcome.waiting} wait (payonce payouts waiting)`,
        };
      }),
  );

  bind(
    payouts
      .command('try')
      .description('make what waits and can be made now, as the scheduler does every few seconds (operator)'),
    async () =>
      deps.withEngine(async (wired) => {
        await needOperator(wired.pool, wired.operatorKey, 'operator');
        const { made, waiting } = await payWaitingOnce(wired.payouts);
        return {
          json: { made: made.map((one) => one.id), waiting: waiting.length },
          text: `${made.length} payouts made, ${waiting.length} of those tried still wait`,
        };
      }),
  );
}

async function loadLines(deps: CliDeps, options: StatementOptions, waiting: boolean): Promise<StatementLine[]> {
  const rows = await deps.withDatabase(({ pool }) =>
    readStatement(pool, {
      partnerId: options.partner ?? null,
      programme: options.programme ?? null,
      creator: options.creator ?? null,
      waiting,
      after: 0n,
      limit: STATEMENT_LINES_MAX,
    }),
  );
  return rows.map((row) => row.line);
}

function statementReport(
  lines: readonly StatementLine[],
  { csv }: StatementOptions,
  none: string,
): { json: unknown; text: string } {
  const rows = lines.map((line) => [
    line.programme,
    printable(line.creator),
    line.asset,
    line.volume,
    line.accrued,
    line.paid,
    line.in_flight,
    line.carried,
    line.waits_for,
  ]);
  const columns = ['PROGRAMME', 'CREATOR', 'ASSET', 'VOLUME', 'ACCRUED', 'PAID', 'IN FLIGHT', 'CARRIED', 'WAITS FOR'];
  return {
    json: { lines },
    text: csv === true ? toStatementCsv(lines).trimEnd() : table(columns, rows, none),
  };
}
