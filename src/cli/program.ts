/**
 * The command line: reads what was asked, calls what does it, and shows the answer.
 *
 * Promises: every command answers with tables and sentences, or with one JSON document on stdout with `--json`; errors go to
 * stderr with what to do next; exit codes are 0 done · 1 failed, or something was found broken · 2 usage or a broken
 * configuration · 3 no such thing · 4 conflict (busy, stale, void, too late) · 5 whether it was stored is not known.
 * Never: a rule about money. It has no verb that the engine does not have: no retry, no force. A secret is shown once, where
 * it is made.
 */
import { Command, CommanderError } from 'commander';
import { PayonceError } from '../kernel/errors.ts';
import { toJsonText } from '../kernel/json-text.ts';
import type { Act, Bind } from './binding.ts';
import { addCaseCommands } from './case-commands.ts';
import { addChainCommands } from './chain-commands.ts';
import { addCheckCommands } from './check-commands.ts';
import { addCollectCommands } from './collect-commands.ts';
import { addControlCommands } from './control-commands.ts';
import { addDepositCommands } from './deposit-commands.ts';
import type { CliDeps } from './deps.ts';
import { addEffectCommands } from './effect-commands.ts';
import { tellFault } from './faults.ts';
import { EXIT } from './output.ts';
import { addFundingCommands } from './funding-commands.ts';
import { addInboxCommands } from './inbox-commands.ts';
import { addP2pCommands } from './p2p-commands.ts';
import { addP2pImportCommand } from './p2p-import-command.ts';
import { addPayoutCommands } from './payout-commands.ts';
import { addPeopleCommands } from './people-commands.ts';
import { addProbeCommand } from './probe-command.ts';
import { addRealizeCommands } from './realize-commands.ts';
import { addRunCommands } from './run-commands.ts';
import { addStatementCommands } from './statement-commands.ts';

export type { CliDeps } from './deps.ts';

function usage(error: CommanderError): PayonceError {
  return new PayonceError('PO_REQUEST_INVALID', { detail: error.message.replace(/^error: /, '') });
}

/** Answers the exit code. */
export async function runCli(argv: readonly string[], deps: CliDeps): Promise<number> {
  let exit: number = EXIT.ok;
  const asJson = argv.includes('--json');
  const bind: Bind = <Options>(command: Command, act: Act<Options>) => {
    command.option('--json', 'print one JSON document').action(async () => {
      // A command that acts by itself and has commands below it takes their options of the same name: they count for both.
      const isJson = command.optsWithGlobals<{ json?: boolean }>().json === true;
      const report = await act(command.args, command.optsWithGlobals() as Options);
      process.stdout.write(`${isJson ? toJsonText(report.json, 2) : report.text}\n`);
      exit = report.exit ?? EXIT.ok;
    });
  };
  const program = new Command('payonce')
    .description('Money that Payonce sends moves once or not at all.')
    .version(deps.version, '--version', 'print the version')
    .showSuggestionAfterError()
    .exitOverride()
    .configureOutput({ writeErr: (text) => void (asJson ? null : process.stderr.write(text)) });
  addRunCommands(program, bind, deps);
  addPeopleCommands(program, bind, deps);
  addCaseCommands(program, bind, deps);
  addEffectCommands(program, bind, deps);
  addControlCommands(program, bind, deps);
  addFundingCommands(program, bind, deps);
  addInboxCommands(program, bind, deps);
  addCollectCommands(program, bind, deps);
  addRealizeCommands(program, bind, deps);
  addCheckCommands(program, bind, deps);
  addChainCommands(program, addStatementCommands(program, bind, deps), bind, deps);
  addDepositCommands(program, bind, deps);
  addProbeCommand(program, bind, deps);
  addP2pCommands(program, bind, deps);
  addP2pImportCommand(program, bind, deps);
  addPayoutCommands(program, bind, deps);
  program.addHelpText(
    'after',
    `
Exit codes: 0 done · 1 failed or found broken · 2 usage or configuration · 3 no such thing · 4 conflict · 5 outcome unknown
Settings are environment variables: payonce config --reference`,
  );
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return exit;
  } catch (error) {
    if (!(error instanceof CommanderError)) return tellFault(error, asJson);
    if (error.exitCode === 0) return EXIT.ok;
    // For people it stands on stderr already, in the parser's own words.
    return asJson ? tellFault(usage(error), true) : EXIT.usage;
  }
}
