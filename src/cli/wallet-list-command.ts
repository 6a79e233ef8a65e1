/** `wallet list`: per chain, what each wallet is for, what waits on it, and what it holds by our books and by its chain. */
import type { Command } from 'commander';
import { type Held, listWallets, loadBooked, readOnChain } from '../audit/wallets.ts';
import { formatUnits } from '../kernel/money.ts';
import type { Bind } from './binding.ts';
import type { CliDeps } from './deps.ts';
import { moment, paint, printable, table } from './output.ts';

export function addWalletList(wallet: Command, bind: Bind, deps: CliDeps): void {
  bind<{ onChain?: boolean }>(
    wallet
      .command('list')
      .description('wallets, what each is for and holds, and what waits on them')
      .option('--on-chain', 'ask the nodes what each holds at the final head'),
    async (_args, { onChain }) => {
      const { wallets, booked, shown } =
        onChain === true
          ? await deps.withEngine(async ({ pool, chains }) => {
              const wallets = await listWallets(pool);
              const shown = await readOnChain(pool, chains, wallets);
              return { wallets, booked: await loadBooked(pool, wallets), shown };
            })
          : await deps.withDatabase(async ({ pool }) => {
              const wallets = await listWallets(pool);
              return { wallets, booked: await loadBooked(pool, wallets), shown: null };
            });
      const listed = wallets.map((one) => ({
        ...one,
        in_the_books: heldBy(booked, one),
        ...(shown === null ? {} : { on_chain: heldBy(shown, one) }),
      }));
      const rows = listed.map((one) => [
        one.chain,
        one.kind,
        one.address,
        one.partner_id,
        one.rail,
        one.next_nonce?.toString() ?? null,
        String(one.unmined),
        String(one.pending),
        amounts(one.in_the_books),
        ...(one.on_chain === undefined ? [] : [amounts(one.on_chain)]),
        one.quarantined_at === null
          ? null
          : paint('red', `since ${moment(one.quarantined_at) ?? '?'}: ${printable(one.quarantine_reason ?? '')}`),
      ]);
      const columns = [
        'CHAIN',
        'KIND',
        'WALLET',
        'PARTNER',
        'RAIL',
        'NEXT NONCE',
        'UNMINED',
        'WAITING',
        'IN THE BOOKS',
      ];
      return {
        json: { wallets: listed },
        text: table(
          [...columns, ...(shown === null ? [] : ['ON CHAIN']), 'QUARANTINE'],
          rows,
          'No wallet yet: the wallets of PAYONCE_CONFIG are registered when a worker first reaches their chain.',
        ),
      };
    },
  );
}

function heldBy(held: readonly Held[], wallet: { readonly chain: string; readonly address: string }) {
  return held
    .filter((one) => one.chain === wallet.chain && one.address === wallet.address)
    .map((one) => ({ asset: one.asset, amount: one.units === null ? null : formatUnits(one.units, one.decimals) }));
}

function amounts(list: ReturnType<typeof heldBy>): string {
  return list.map(({ asset, amount }) => (amount === null ? `${asset} not told` : `${amount} ${asset}`)).join(', ');
}
