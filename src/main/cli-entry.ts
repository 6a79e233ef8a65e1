/*
 * Where the command line starts: bin/payonce.js comes here once Node is known to be new enough.
 * Promises: the commands of cli/ with everything wired. Never: a command's own work, or a reading of the environment
 * beside config.ts.
 */
import { Command } from 'commander';
import { version } from './version.ts';

const program = new Command('payonce')
  .description('Money that Payonce sends moves once or not at all.')
  .version(version);

program
  .command('version')
  .description('print the version')
  .action(() => console.log(version));

await program.parseAsync();
