/*
 * Where the command line starts: bin/payonce.js comes here once Node is known to be new enough.
 * Promises: the commands of cli/ with everything that they need. Never: a command's own work, or a reading of the
 * environment beside config.ts.
 */
import { runCli } from '../cli/program.ts';
import { cliDeps } from './cli-deps.ts';

// `payonce audit list | head` is no fault: the reader has seen enough.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));

process.exitCode = await runCli(process.argv.slice(2), cliDeps);
