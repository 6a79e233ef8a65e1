/** How a command's work is bound to its words. */
import type { Command } from 'commander';
import type { Report } from './output.ts';

/** One command's work: its arguments and options in, what to show out. */
export type Act<Options> = (args: readonly string[], options: Options) => Promise<Report>;
/** Adds `--json` and runs the act; the exit code is the report's. */
export type Bind = <Options>(command: Command, act: Act<Options>) => void;

export function argument(args: readonly string[], at: number): string {
  const value = args[at];
  if (value === undefined) throw new Error(`argument ${at + 1} is missing`);
  return value;
}
