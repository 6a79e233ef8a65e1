/** Realizations: the night's fees by hand, and the nightly verdict on what was moved. */
import { type Command, InvalidArgumentError } from 'commander';
import { needOperator } from '../engine/administration.ts';
import { audit } from '../engine/audit-log.ts';
import {
  judgeNight,
  keepVerdict,
  loadLastNight,
  type NightDeps,
  type NightVerdict,
  realizeDate,
} from '../flows/realizations/index.ts';
import { PayonceError } from '../kernel/errors.ts';
import { silentLog } from '../kernel/log.ts';
import { formatUnits } from '../kernel/money.ts';
import { loadAssetWords } from '../ledger/amount-words.ts';
import type { Bind } from './binding.ts';
import type { CliDeps, Database } from './deps.ts';
import { EXIT, paint, printable, type Report, table } from './output.ts';

/** Why something is not made, in words. */
const WHY = {
  lane_taken: 'an earlier one is still open; it is made when that has ended',
  no_wallet: 'the asset has no wallet: set "wallet" and "withdrawal" in the configuration',
  no_settlement_wallet: 'its chain has no SETTLEMENT wallet: add one to "wallets" in the configuration',
} as const;

export function addRealizeCommands(program: Command, bind: Bind, deps: CliDeps): void {
  const realize = program
    .command('realize')
    .description(
      'move the fees of a business date to the settlement wallet now: what was missed, or corrections (operator)',
    )
    .option('--date <date>', 'the business date; the latest whose night has come, where absent', readDate)
    .option('--dry-run', 'show what would be made and keep nothing');
  bind<{ date?: string; dryRun?: boolean }>(realize, async (_args, { date, dryRun }) =>
    deps.withDatabase(async (database) => {
      const operator = await needOperator(database.pool, database.operatorKey, 'operator');
      const isDry = dryRun === true;
      const outcome = await realizeDate(nightsOf(database), date ?? null, isDry);
      if (!isDry)
        await audit(database.pool, operator.id, 'realizations.made', outcome.date, { made: outcome.made.length });
      const words = await loadAssetWords(database.pool);
      const inWords = (assetId: string, units: bigint): string => formatUnits(units, words.get(assetId)?.decimals ?? 0);
      const codeOf = (assetId: string): string => words.get(assetId)?.code ?? assetId;
      const rows = outcome.made.map((one) => [
        one.id,
        printable(one.partnerId),
        codeOf(one.assetId),
        inWords(one.assetId, one.amount),
        String(one.ordinal),
        one.destination,
      ]);
      const waits = outcome.waiting.map((one) => [
        printable(one.partnerId),
        codeOf(one.assetId),
        inWords(one.assetId, one.amount),
        WHY[one.why],
      ]);
      return {
        json: {
          date: outcome.date,
          dry_run: isDry,
          whole: outcome.whole,
          made: outcome.made.map((one) => ({
            id: one.id,
            partner: one.partnerId,
            asset: one.assetId,
            ordinal: one.ordinal,
            amount: inWords(one.assetId, one.amount),
            from: one.wallet,
            to: one.destination,
          })),
          waiting: outcome.waiting.map((one) => ({
            partner: one.partnerId,
            asset: one.assetId,
            amount: inWords(one.assetId, one.amount),
            why: one.why,
          })),
        },
        text: [
          `${outcome.date}${isDry ? ' (shown only: nothing was kept)' : ''}`,
          table(['REALIZATION', 'PARTNER', 'ASSET', 'AMOUNT', 'NO.', 'TO'], rows, 'Nothing is due.'),
          ...(waits.length === 0 ? [] : ['', table(['PARTNER', 'ASSET', 'AMOUNT', 'WAITS BECAUSE'], waits)]),
        ].join('\n'),
      };
    }),
  );
  bind<{ date?: string }>(
    realize
      .command('verdict')
      .description(
        'whether each realization of a night was completed once and the settlement wallets got as much; exit 1 unless it passes',
      )
      .option('--date <date>', 'the business date; the last night, where absent', readDate),
    async (_args, { date }) =>
      deps.withDatabase(async ({ pool }) => {
        const asked = date ?? (await loadLastNight(pool));
        if (asked === null)
          throw new PayonceError('PO_NOT_FOUND', { detail: 'There was no night yet; payonce realize makes one' });
        const verdict = await judgeNight(pool, asked);
        await keepVerdict(pool, silentLog, verdict);
        return report(verdict, await loadAssetWords(pool));
      }),
  );
}

const SAID = {
  pass: ['green', 'pass: each was completed once, under contention, and the wallets got exactly that'],
  inconclusive: [
    'yellow',
    'inconclusive, which is no pass: all is in order, and no claim was lost to overlap, so nothing was put to the test',
  ],
  pending: ['yellow', 'pending: not everything has ended and been seen final on its chain; ask again later'],
  fail: ['red', 'fail'],
} as const;

function report(verdict: NightVerdict, words: ReadonlyMap<string, { code: string; decimals: number }>): Report {
  const [colour, said] = SAID[verdict.verdict];
  const inWords = (assetId: string, units: bigint): string => formatUnits(units, words.get(assetId)?.decimals ?? 0);
  const rows = verdict.networks.map((one) => [
    one.chain,
    words.get(one.assetId)?.code ?? one.assetId,
    String(one.records),
    inWords(one.assetId, one.recorded),
    String(one.inflows),
    inWords(one.assetId, one.inflow),
  ]);
  return {
    json: {
      date: verdict.date,
      verdict: verdict.verdict,
      realizations: verdict.realizations,
      open: verdict.open,
      claims_lost_to_overlap: verdict.claimsLost.toString(),
      faults: verdict.faults,
      networks: verdict.networks.map((one) => ({
        chain: one.chain,
        asset: one.assetId,
        records: one.records,
        recorded: inWords(one.assetId, one.recorded),
        inflows: one.inflows,
        inflow: inWords(one.assetId, one.inflow),
      })),
    },
    text: [
      `${verdict.date}  ${paint(colour, said)}`,
      `${verdict.realizations} realizations, ${verdict.open} still open, ${verdict.claimsLost} claims lost to overlap`,
      table(['CHAIN', 'ASSET', 'ON RECORD', 'SUM', 'INFLOWS', 'SUM'], rows, 'Nothing moved.'),
      ...verdict.faults.map((fault) => `${paint('red', 'fault')} ${printable(fault)}`),
      ...(verdict.verdict === 'fail'
        ? [
            `${paint('dim', 'next ')} Stop new seals of the chain (payonce rail stop NAME --reason TEXT) and compare: payonce reconcile chain`,
          ]
        : []),
    ].join('\n'),
    exit: verdict.verdict === 'pass' ? EXIT.ok : EXIT.failed,
  };
}

function nightsOf({ pool, makeId, realizationsZone }: Database): NightDeps {
  if (realizationsZone === null)
    throw new PayonceError('PO_CONFIG_INVALID', {
      detail: 'PAYONCE_CONFIG: realizations.timeZone is needed by this command',
    });
  return { pool, makeId, log: silentLog, timeZone: realizationsZone };
}

export function readDate(text: string): string {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  if (Number.isNaN(at) || new Date(at).toISOString().slice(0, 10) !== text)
    throw new InvalidArgumentError('Give a date such as 2026-03-10.');
  return text;
}
