/** Commands that run the system or look at the machine it runs on: up, serve, worker, migrate, config, doctor. */
import { type Command, InvalidArgumentError } from 'commander';
import type { Level } from '../audit/finding.ts';
import type { Bind } from './binding.ts';
import type { CliDeps } from './deps.ts';
import { EXIT, facts, paint, printable, table } from './output.ts';

export function addRunCommands(program: Command, bind: Bind, deps: CliDeps): void {
  program
    .command('up')
    .description('start everything with nothing else installed: database, development chain, API, workers')
    .action(() => deps.up());
  program
    .command('serve')
    .description('run the API and all workers; SIGTERM drains')
    .action(() => deps.serve());
  program
    .command('worker')
    .description('run workers alone, any number of processes; SIGTERM drains')
    .option(
      '--only <roles>',
      `some of: ${deps.workerRoles.join(', ')}, separated by commas`,
      readRoles(deps.workerRoles),
    )
    .action((options: { only?: readonly string[] }) => deps.work(options.only ?? deps.workerRoles));

  bind(program.command('migrate').description('bring the database schema to this version'), async () => {
    const { applied } = await deps.migrate();
    return {
      json: { applied },
      text:
        applied.length === 0
          ? 'The schema is up to date: nothing to do.'
          : `Applied ${applied.length}: ${applied.join(', ')}`,
    };
  });

  bind<{ reference?: boolean; check?: boolean }>(
    program
      .command('config')
      .description('show the configuration, without secrets')
      .option('--reference', 'print what can be configured, as Markdown')
      .option('--check', 'only check it: all faults at once, exit 2'),
    async (_args, options) => {
      if (options.reference === true) {
        const reference = deps.configReference();
        return { json: { reference }, text: reference.trimEnd() };
      }
      const { settings, chains, banks } = deps.shownConfig();
      if (options.check === true) await deps.checkConfig();
      if (options.check === true) return { json: { ok: true, chains, banks }, text: 'The configuration is valid.' };
      const rows = settings.map((one) => [one.name, printable(one.value), one.isSet ? 'set' : 'default']);
      return {
        json: { settings: settings.map(({ isSet, ...rest }) => ({ ...rest, is_set: isSet })), chains, banks },
        text: [
          table(['SETTING', 'VALUE', 'FROM'], rows),
          '',
          facts([
            ['chains', chains.length === 0 ? 'none: set PAYONCE_CONFIG' : chains.join(', ')],
            ['banks', banks.length === 0 ? 'none' : banks.join(', ')],
          ]),
        ].join('\n'),
      };
    },
  );

  bind(
    program
      .command('doctor')
      .description('prove that the database and this deployment are safe to move money on; exit 1 where they are not'),
    async () => {
      const report = await deps.doctor();
      const lines = report.findings.flatMap((one) => [
        `${mark(one.level)}  ${one.name.padEnd(18)}  ${printable(one.found)}`,
        ...(one.hint === '' ? [] : [`${' '.repeat(28)}${paint('dim', 'next')} ${one.hint}`]),
      ]);
      const verdicts: Record<Level, string> = {
        ok: paint('green', 'All is well.'),
        warn: paint('yellow', 'It may run; look at the warnings.'),
        unsafe: paint(
          'red',
          'Not safe: money left without a record of ours, or a wallet is in quarantine. The rest goes on; people look at this now.',
        ),
        refuse: paint('red', 'No money should move on this: in production nothing new is sealed until it is mended.'),
      };
      return {
        json: report,
        text: [...lines, '', verdicts[report.level]].join('\n'),
        exit: report.level === 'refuse' || report.level === 'unsafe' ? EXIT.failed : EXIT.ok,
      };
    },
  );
}

function mark(level: Level): string {
  const padded = level.padEnd(6);
  return paint(level === 'ok' ? 'green' : level === 'warn' ? 'yellow' : 'red', padded);
}

function readRoles(known: readonly string[]): (text: string) => readonly string[] {
  return (text) => {
    const roles = text.split(',').map((one) => one.trim());
    const wrong = roles.filter((one) => !known.includes(one));
    if (wrong.length > 0)
      throw new InvalidArgumentError(`There is no role ${wrong.join(', ')}. There are: ${known.join(', ')}.`);
    return roles;
  };
}
