/* A simulated bank's own books as the judge reads them: our account there under the name that we sealed, receivers by number or handle. */
import type { Bank } from '../../sim/bank/bank.ts';
import type { RailBooks } from '../../src/audit/rail-books.ts';

/** `rail` as in `assets.chain`. Several banks: one book, as of several accounts at one provider. */
export function bankBooks(banks: Bank | readonly Bank[], rail: string, account = 'acc_1'): RailBooks {
  const all = [banks].flat();
  return {
    rail,
    async movements() {
      const lists = await Promise.all(all.map((bank) => bank.books.movements()));
      return lists.flat().map((movement) => {
        const receiver = movement.destination.accountNumber || (movement.destination.handle ?? '');
        const isBack = movement.kind === 'return';
        return { ...movement, rail, from: isBack ? receiver : account, to: isBack ? account : receiver };
      });
    },
    costs: async () => (await Promise.all(all.map((bank) => bank.books.costs()))).flat(),
  };
}
