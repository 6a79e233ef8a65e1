/** What the chains say of our wallets: compared with our books, and what two persons booked of the differences. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { reconcileChain } from '../audit/reconcile/chain.ts';
import type { ReconciledChain } from '../audit/reconcile/chain-read.ts';
import {
  type ChainReport,
  howCompared,
  sumByPartner,
  toChainCsv,
  toChainJson,
} from '../audit/reconcile/chain-report.ts';
import { listOpenFindings, openRepairCase, REPAIR_AS } from '../audit/repair/index.ts';
import { approve, type Detail, propose } from '../engine/adjudicate.ts';
import { needOperator } from '../engine/administration.ts';
import { PayonceError } from '../kernel/errors.ts';
import { formatUnits } from '../kernel/money.ts';
import { argument, type Bind } from './binding.ts';
import type { CliDeps } from './deps.ts';
import { cut, EXIT, heading, makeProgress, moment, paint, printable, table } from './output.ts';

const DETAIL_CHARACTERS_MAX = 120;

interface ChainOptions {
  readonly chain?: string;
  readonly wallet: readonly string[];
  readonly from?: bigint;
  readonly to?: bigint;
  readonly csv?: boolean;
  readonly json?: boolean;
}

/** `reconcile` is the parent that the banks' command hangs on too. */
export function addChainCommands(program: Command, reconcile: Command, bind: Bind, deps: CliDeps): void {
  bind<ChainOptions>(
    reconcile
      .command('chain')
      .description('wallets against their chain, both ways, to the unit; exit 1 where they differ')
      .requiredOption('--wallet <address>', 'repeatable', gathered, [])
      .option('--chain <id>', 'for example eip155:1; needed where the address is one on several')
      .option('--from <block>', 'the first block; absent: after what was compared before', readBlock)
      .option('--to <block>', 'the last block, a final one; absent: the highest', readBlock)
      .addOption(new Option('--csv', 'print the findings as CSV').conflicts('json')),
    async (_args, options) => {
      const progress = makeProgress(options.json !== true);
      const reports = await deps.withEngine(async ({ pool, chains }) => {
        try {
          return await reconcileChain({ pool }, pickChain(chains, options.chain, options.wallet), {
            wallets: options.wallet,
            from: options.from,
            to: options.to,
            onProgress: (name, done, total) => progress.show(name, done, total),
          });
        } finally {
          progress.end();
        }
      });
      const isClean = reports.every((report) => report.findings.length === 0);
      return {
        json: { ok: isClean, reports: reports.map(toChainJson) },
        text: options.csv === true ? toChainCsv(reports) : reports.map(reportText).join('\n\n'),
        exit: isClean ? EXIT.ok : EXIT.failed,
      };
    },
  );
  addRepairCommands(program.command('repair').description('book by two persons what comparing found'), bind, deps);
}

function addRepairCommands(repair: Command, bind: Bind, deps: CliDeps): void {
  bind<{ chain?: string; wallet?: string }>(
    repair
      .command('list')
      .description('findings of stored reports that nobody has booked')
      .option('--chain <id>')
      .option('--wallet <address>', 'as the reports write it'),
    async (_args, { chain, wallet }) => {
      const findings = await deps.withDatabase(({ pool }) =>
        listOpenFindings(pool, { chain: chain ?? null, wallet: wallet ?? null }),
      );
      const rows = findings.map((one) => [
        one.id,
        one.kind,
        one.wallet,
        one.partner_id,
        `${one.amount} ${one.asset}`,
        one.block,
        one.tx_hash,
        moment(one.found_at),
        cut(printable(one.detail), DETAIL_CHARACTERS_MAX),
      ]);
      return {
        json: { findings },
        text: table(
          ['FINDING', 'KIND', 'WALLET', 'PARTNER', 'AMOUNT', 'BLOCK', 'TRANSACTION', 'FOUND', 'WHAT'],
          rows,
          'Nothing is open.',
        ),
      };
    },
  );
  bind<{ as: string; partner?: string; effect?: string; reason: string }>(
    repair
      .command('propose <finding>')
      .description('propose to a second person what a finding is booked as (operator)')
      .addOption(new Option('--as <what>', 'what it is booked as').choices([...REPAIR_AS]).makeOptionMandatory())
      .option('--partner <id>', 'as partner: whose it is')
      .option('--effect <id>', 'whose payment it repeats; for the record')
      .requiredOption('--reason <text>', 'what you saw, and where')
      .addHelpText(
        'after',
        `
loss      it is gone and nobody else bears it    partner   the partner's account bears it, or gets it
treasury  it is money of our own                 suspense  a difference of the account, until it is found
gas       what a foreign transaction cost        own       between two wallets of ours: nothing is to post`,
      ),
    async (args, { as, partner, effect, reason }) => {
      const finding = argument(args, 0);
      const detail: Detail = {
        reason,
        finding,
        as,
        ...(partner === undefined ? {} : { partner_id: partner }),
        ...(effect === undefined ? {} : { effect_id: effect }),
      };
      const made = await deps.withEngine(async ({ engine, makeId, pool, operatorKey }) => {
        const operator = await needOperator(pool, operatorKey, 'operator');
        const caseId = await openRepairCase(pool, makeId, finding, detail);
        return { caseId, ...(await propose(engine, operator, caseId, 'repair', detail)) };
      });
      return {
        json: { proposal_id: made.proposalId, case_id: made.caseId, finding_id: finding, as },
        text: `Proposed to book finding ${finding} as ${as}: ${paint('bold', made.proposalId)}, in case ${made.caseId}.\nNext: another person (approver) reads the case and runs: payonce repair approve ${made.proposalId}`,
      };
    },
  );
  bind(
    repair.command('approve <proposal>').description('book what another person proposed (approver)'),
    async (args) => {
      const id = argument(args, 0);
      const approval = await deps.withEngine(async ({ engine, operatorKey }) =>
        approve(engine, await needOperator(engine.pool, operatorKey, 'approver'), id),
      );
      return {
        json: { proposal_id: id, ...approval },
        text:
          approval.outcome === 'done'
            ? `Done: ${printable(approval.did)}.`
            : `Void, nothing was booked: ${printable(approval.why)}.`,
        exit: approval.outcome === 'done' ? EXIT.ok : EXIT.conflict,
      };
    },
  );
}

/** The chain that was named; else the only one on which all of `addresses` are addresses. */
export function pickChain(
  chains: readonly ReconciledChain[],
  name: string | undefined,
  addresses: readonly string[] = [],
): ReconciledChain {
  const listed = chains.map((one) => one.chain).join(', ');
  if (chains.length === 0)
    throw new PayonceError('PO_CONFIG_INVALID', { detail: 'No chain is configured here: set PAYONCE_CONFIG' });
  const able = chains.filter((one) => addresses.every((address) => one.canonical(address) !== null));
  const fitting = able.length === 0 ? chains : able;
  const [first, ...others] =
    name === undefined ? fitting : chains.filter((one) => one.chain === name || one.rail === name);
  if (first === undefined)
    throw new PayonceError('PO_NOT_FOUND', { detail: `There is no chain ${name ?? ''} here. Configured: ${listed}` });
  if (others.length > 0)
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: `Say which chain (--chain ID): ${[first, ...others].map((one) => one.chain).join(', ')}`,
    });
  return first;
}

function reportText(report: ChainReport): string {
  const assets = new Map(report.assets.map((asset) => [asset.id, asset]));
  const amount = (units: bigint | null, assetId: string): string | null => {
    const asset = assets.get(assetId);
    return units === null ? null : `${formatUnits(units, asset?.decimals ?? 0)} ${asset?.code ?? assetId}`;
  };
  const { counts, wallet } = report;
  const rows = report.findings.map((one, index) => [
    report.findingIds[index]?.toString() ?? null,
    paint('red', one.kind),
    one.direction,
    one.partnerId,
    amount(one.amount, one.assetId),
    one.blockNumber?.toString() ?? null,
    one.txHash,
    one.effect === null ? null : `${one.effect.id} ${one.effect.state}`,
    printable(one.detail),
  ]);
  const partners = sumByPartner(report.findings).map((one) => [
    one.partnerId,
    one.kind,
    one.direction,
    one.count.toString(),
    amount(one.amount, one.assetId),
  ]);
  const sums = report.sums.map((one) => [
    assets.get(one.assetId)?.code ?? one.assetId,
    one.openingFrom === 'untold' ? 'not told' : amount(one.opening, one.assetId),
    amount(one.came, one.assetId),
    amount(one.went, one.assetId),
    amount(one.cost, one.assetId),
    amount(one.closing, one.assetId),
    one.difference === null ? 'not compared' : amount(one.difference, one.assetId),
    amount(one.booked, one.assetId),
  ]);
  const repaired = report.repaired.map(({ finding, repair }) => [
    finding.kind,
    finding.direction,
    amount(finding.amount, finding.assetId),
    finding.txHash,
    `repaired by ${repair.by.join(' and ')}, as ${repair.bookedAs}`,
  ]);
  return [
    `${paint('bold', wallet.address)} (${wallet.kind}${wallet.partnerId === null ? '' : ` of ${wallet.partnerId}`}) on ${report.chain}, blocks ${report.from} to ${report.to}: ${counts.outflows} out, ${counts.inflows} in; ${counts.byEffect} by effects, ${counts.byRecord} by records, ${counts.underWay} under way.`,
    table(
      ['FINDING', 'FOUND', 'SIDE', 'PARTNER', 'AMOUNT', 'BLOCK', 'TRANSACTION', 'EFFECT', 'WHAT'],
      rows,
      paint('green', 'Nothing differs.'),
    ),
    ...(partners.length === 0
      ? []
      : [heading('By partner'), table(['PARTNER', 'FOUND', 'SIDE', 'COUNT', 'AMOUNT'], partners)]),
    heading('Balances'),
    table(
      ['ASSET', 'OPENING', 'IN', 'OUT', 'COST', 'BALANCE', 'DIFFERENCE', 'OUR BOOKS'],
      sums,
      'Nothing ever moved here.',
    ),
    ...report.sums.map((one) =>
      paint('dim', `${assets.get(one.assetId)?.code ?? one.assetId}: ${printable(howCompared(one))}.`),
    ),
    ...(report.comparedLedger ? [] : [paint('dim', 'The last block is too far back for the ledger to be compared.')]),
    ...(repaired.length === 0
      ? []
      : [heading('Booked by two persons'), table(['FOUND', 'SIDE', 'AMOUNT', 'TRANSACTION', 'HOW'], repaired)]),
    ...(rows.length === 0
      ? []
      : [
          `${paint('dim', 'next ')} Find out what each is; two persons book it: payonce repair propose FINDING --as … --reason …`,
        ]),
  ].join('\n');
}

function gathered(text: string, before: readonly string[]): string[] {
  return [...before, text];
}

export function readBlock(text: string): bigint {
  if (!/^(?:0|[1-9][0-9]{0,17})$/.test(text)) throw new InvalidArgumentError('Give the number of a block.');
  return BigInt(text);
}
