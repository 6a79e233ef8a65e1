/*
 * The accounts that money can go to. By default every account exists, as at a bank that learns of a wrong number only when
 * the money comes back; an account that was closed, or any unknown one where the bank asks its directory, is refused.
 */
import type { Refusal } from './profile.ts';
import type { Destination, Order } from './transfer.ts';

export type BankAccount = {
  readonly bankCode: string;
  readonly accountNumber: string;
  readonly holder?: string;
  /** The provider's own name for it: a seller, an external account, a receiver. */
  readonly handle?: string;
};

export type Directory = {
  readonly add: (account: BankAccount) => void;
  readonly close: (accountNumber: string) => void;
  readonly reopen: (accountNumber: string) => void;
  readonly resolve: (handle: string) => Destination | null;
  readonly objection: (order: Order) => Refusal | null;
};

export function makeDirectory(initial: readonly BankAccount[], others: 'open' | 'unknown'): Directory {
  const accounts = [...initial];
  const closed = new Set<string>();
  const known = ({ bankCode, accountNumber, handle }: Destination): boolean =>
    accounts.some((account) =>
      accountNumber === ''
        ? account.handle === handle
        : account.bankCode === bankCode && account.accountNumber === accountNumber,
    );
  return {
    add: (account) => void accounts.push(account),
    close: (accountNumber) => void closed.add(accountNumber),
    reopen: (accountNumber) => void closed.delete(accountNumber),
    resolve(handle) {
      const account = accounts.find((each) => each.handle === handle);
      if (account !== undefined) {
        const { bankCode, accountNumber, holder } = account;
        return { bankCode, accountNumber, holder: holder ?? null, handle };
      }
      return others === 'open' ? { bankCode: '', accountNumber: '', holder: null, handle } : null;
    },
    objection({ lines }) {
      for (const { destination } of lines) {
        if (closed.has(destination.accountNumber) || closed.has(destination.handle ?? '')) return 'account_closed';
        if (others === 'unknown' && !known(destination)) return 'account_unknown';
      }
      return null;
    },
  };
}
