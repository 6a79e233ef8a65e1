/** Blocks that the scan has passed, read again: what it left out is booked by its own path, and nothing twice. */
import type { Command } from 'commander';
import { audit } from '../engine/audit-log.ts';
import { needOperator } from '../engine/administration.ts';
import { PayonceError } from '../kernel/errors.ts';
import type { Bind } from './binding.ts';
import { pickChain, readBlock } from './chain-commands.ts';
import type { CliDeps } from './deps.ts';
import { EXIT, printable } from './output.ts';

interface RescanOptions {
  readonly chain?: string;
  readonly from: bigint;
  readonly to: bigint;
}

export function addDepositCommands(program: Command, bind: Bind, deps: CliDeps): void {
  const deposits = program.command('deposits').description('what arrived on chains');
  bind<RescanOptions>(
    deposits
      .command('rescan')
      .description(
        'read booked blocks again, as after an address was registered late; nothing is booked twice (operator)',
      )
      .requiredOption('--from <block>', 'the first block', readBlock)
      .requiredOption('--to <block>', 'the last block', readBlock)
      .option('--chain <id>', 'for example eip155:1; needed where several are configured'),
    async (_args, { chain: name, from, to }) => {
      if (to < from)
        throw new PayonceError('PO_REQUEST_INVALID', {
          detail: `Block ${to} is before block ${from}: swap --from and --to`,
        });
      const { chain, result } = await deps.withEngine(async ({ pool, chains, rescan, operatorKey }) => {
        const operator = await needOperator(pool, operatorKey, 'operator');
        const { chain: picked } = pickChain(chains, name);
        const done = await rescan(picked, from, to);
        const { outcome, credited, transfers } = done;
        await pool.tx('rescan', (tx) =>
          audit(tx, operator.id, 'deposits.rescanned', picked, {
            from: from.toString(),
            to: to.toString(),
            outcome,
            credited,
            transfers,
          }),
        );
        return { chain: picked, result: done };
      });
      const { outcome, credited, transfers, why, next } = result;
      const isDone = outcome === 'scanned';
      const end = isDone && next !== null && next <= to ? next - 1n : to;
      return {
        json: {
          ok: isDone,
          chain,
          outcome,
          from_block: from.toString(),
          to_block: isDone ? end.toString() : null,
          next_block: next?.toString() ?? null,
          transfers,
          credited,
          why,
        },
        text: isDone
          ? `Read blocks ${from} to ${end} of ${chain} again: ${transfers} movements that were not on record, ${credited} deposits credited.${end < to ? ` The scan has booked no block after ${end} yet and comes to them by itself.` : ''}`
          : `Not read to the end (${outcome}): ${printable(why ?? 'no reason was given')}. What was read is booked; the same command may be run again.`,
        exit: isDone ? EXIT.ok : EXIT.conflict,
      };
    },
  );
}
