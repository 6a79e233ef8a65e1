/*
 * Where the command line starts. Parses nothing itself beyond handing argv to the program; the commands live in cli/.
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
