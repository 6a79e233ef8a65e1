/** What a wallet lets a relayer move: proposed by one person, approved by another, set by an effect of its own. */
import type { Command } from 'commander';
import { propose } from '../engine/adjudicate.ts';
import { needOperator } from '../engine/administration.ts';
import { openAllowanceCase } from '../flows/allowances/index.ts';
import { PayonceError } from '../kernel/errors.ts';
import type { Bind } from './binding.ts';
import type { CliDeps, Wired } from './deps.ts';
import { paint, printable } from './output.ts';
import { replacedText } from './story-text.ts';

interface AllowanceOptions {
  readonly chain: string;
  readonly wallet: string;
  readonly relayer: string;
  readonly asset: string;
  readonly amount: string;
  readonly reason: string;
}

export function addAllowanceCommands(wallet: Command, bind: Bind, deps: CliDeps): void {
  const options = (command: Command, reason: string): Command =>
    command
      .requiredOption('--chain <id>', 'such as eip155:1')
      .requiredOption('--wallet <address>', 'whose tokens they are: the "wallet" of the asset')
      .requiredOption('--relayer <address>', 'who may move them')
      .requiredOption('--asset <code>', 'a token of that chain, by code or id')
      .option('--reason <text>', 'why; it stands in the audit log', reason);
  bind<AllowanceOptions>(
    options(
      wallet
        .command('approve')
        .description('propose to a second person that a relayer may move tokens of a wallet (operator)')
        .option('--amount <amount>', 'max, or as much as it may move in all, such as 5000.50', 'max'),
      'it relays for this wallet',
    ),
    async (_args, asked) => proposeAllowance(deps, asked),
  );
  bind<Omit<AllowanceOptions, 'amount'>>(
    options(
      wallet.command('revoke').description('propose to a second person that it may move none any more (operator)'),
      'it relays for this wallet no more',
    ),
    async (_args, asked) => proposeAllowance(deps, { ...asked, amount: '0' }),
  );
}

async function proposeAllowance(deps: CliDeps, { reason, ...asked }: AllowanceOptions) {
  const made = await deps.withEngine(async (wired) => {
    const { engine, makeId, pool, operatorKey } = wired;
    const operator = await needOperator(pool, operatorKey, 'operator');
    const wish = { ...asked, ...placed(wired, asked) };
    const railOf = (name: string) => engine.rails.get(name);
    const { caseId, detail, says } = await openAllowanceCase({ pool, makeId, railOf }, wish);
    return { caseId, says, ...(await propose(engine, operator, caseId, 'allowance', { ...detail, reason })) };
  });
  return {
    json: { proposal_id: made.proposalId, case_id: made.caseId, replaced: made.replaced },
    text: `${printable(made.says)}\nProposed as ${paint('bold', made.proposalId)}, in case ${made.caseId}.${replacedText(made.replaced)}\nNext: another person (approver) reads the case and runs: payonce case approve ${made.proposalId}`,
  };
}

/** The rail of the chain, and addresses in its one spelling. */
function placed({ chains }: Wired, asked: Pick<AllowanceOptions, 'chain' | 'wallet' | 'relayer'>) {
  const chain = chains.find((one) => one.chain === asked.chain);
  if (chain === undefined)
    throw new PayonceError('PO_NOT_FOUND', {
      detail: `There is no chain ${printable(asked.chain)} here. Configured: ${chains.map((one) => one.chain).join(', ') || 'none'}`,
    });
  const address = (option: string, text: string): string => {
    const read = chain.canonical(text);
    if (read === null)
      throw new PayonceError('PO_REQUEST_INVALID', {
        detail: `--${option}: got "${printable(text)}", expected an address of ${chain.chain}: a character is wrong or missing`,
      });
    return read;
  };
  return { rail: chain.rail, wallet: address('wallet', asked.wallet), relayer: address('relayer', asked.relayer) };
}
