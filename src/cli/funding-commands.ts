/** What arrived at a bank, credited by two persons. */
import { type Command, Option } from 'commander';
import { openFundingCase } from '../audit/funding.ts';
import { approve, propose } from '../engine/adjudicate.ts';
import { needOperator } from '../engine/administration.ts';
import { PayonceError } from '../kernel/errors.ts';
import { argument, type Bind } from './binding.ts';
import type { CliDeps } from './deps.ts';
import { EXIT, paint, printable } from './output.ts';
import { replacedText } from './story-text.ts';

interface FundingOptions {
  readonly partner?: string;
  readonly own?: boolean;
  readonly asset: string;
  readonly amount: string;
  readonly reference: string;
  readonly reason: string;
}

export function addFundingCommands(program: Command, bind: Bind, deps: CliDeps): void {
  const funding = program.command('funding').description('credit what arrived at a bank, by two persons');
  bind<FundingOptions>(
    funding
      .command('propose')
      .description('propose to a second person what arrived, and whose it is (operator)')
      .addOption(new Option('--partner <id>', 'the partner whose it is').conflicts('own'))
      .option('--own', 'money of our own')
      .requiredOption('--asset <code>', "the bank's asset, by code or id")
      .requiredOption('--amount <amount>', 'as the statement says, such as 1000.50')
      .requiredOption('--reference <text>', "the bank's name of this credit; it is credited once for ever")
      .requiredOption('--reason <text>', 'what you saw, and where'),
    async (_args, { partner, own, asset, amount, reference, reason }) => {
      if (partner === undefined && own !== true)
        throw new PayonceError('PO_REQUEST_INVALID', { detail: 'Say whose it is: --partner ID, or --own' });
      const wish = { asset, amount, reference, partnerId: partner ?? null };
      const made = await deps.withEngine(async ({ engine, makeId, pool, operatorKey }) => {
        const operator = await needOperator(pool, operatorKey, 'operator');
        const { caseId, detail } = await openFundingCase(pool, makeId, wish);
        return { caseId, ...(await propose(engine, operator, caseId, 'fund', { ...detail, reason })) };
      });
      return {
        json: { proposal_id: made.proposalId, case_id: made.caseId, replaced: made.replaced },
        text: `Proposed to credit ${amount} ${printable(asset)} to ${partner ?? 'ourselves'} as ${paint('bold', made.proposalId)}, in case ${made.caseId}.${replacedText(made.replaced)}\nNext: another person (approver) compares it with the statement and runs: payonce funding approve ${made.proposalId}`,
      };
    },
  );
  bind(
    funding.command('approve <proposal>').description('credit what another person proposed (approver)'),
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
            : `Void, nothing was credited: ${printable(approval.why)}.`,
        exit: approval.outcome === 'done' ? EXIT.ok : EXIT.conflict,
      };
    },
  );
}
