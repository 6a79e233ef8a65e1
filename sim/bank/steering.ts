/*
 * What happens to transfers after they were accepted: by themselves, through the states of the provider's document, or
 * because a test says so.
 */
import type { BankBooks, GiveBack } from './books.ts';
import type { TaskClock } from './clock.ts';
import type { Profile } from './profile.ts';
import type { Batch, Return, Transfer } from './transfer.ts';

/** Names one transfer by its id, key or reference. */
export type Which = { readonly id?: string; readonly key?: string; readonly reference?: string };

export type Steering = {
  all(): readonly Transfer[];
  /** Throws where none or more than one is so named. */
  find(which: Which): Transfer;
  /** Into any state, known or not; `final` when the money is gone with it. */
  moveTo(which: Which, state: string, final?: boolean): void;
  /** Fails before it left: the money is with us again and no movement stands. */
  fail(which: Which, reason?: string): void;
  /** Comes back after success. `state` where the provider has several (REFUNDED, REVERSED). */
  giveBack(which: Which, how?: GiveBack & { readonly state?: string }): Return;
};

export function makeSteering(
  profile: Profile,
  books: BankBooks,
  clock: TaskClock,
  settleMs: number | null,
): Steering & { readonly settle: (batch: Batch, toTheEnd: boolean) => void } {
  const find = (which: Which): Transfer => {
    const found = books
      .all()
      .filter(
        ({ id, batch, line }) =>
          (which.id === undefined || which.id === id) &&
          (which.key === undefined || which.key === batch.key) &&
          (which.reference === undefined || which.reference === line.reference),
      );
    const [only] = found;
    if (only === undefined || found.length > 1)
      throw new Error(`${found.length} transfers are named by this: name one`);
    return only;
  };
  return {
    all: books.all,
    find,
    moveTo: (which, state, final = false) => books.move(find(which), state, final),
    fail(which, reason = 'account_closed') {
      const transfer = find(which);
      if (!books.fail(transfer, profile.failedState, reason)) {
        throw new Error(`${transfer.id} has left already: give it back instead`);
      }
    },
    giveBack: (which, { state, ...how } = {}) => books.giveBack(find(which), state ?? profile.returnedState, how),
    settle(batch, toTheEnd) {
      if (settleMs === null) return;
      const { lifecycle } = profile;
      const last = toTheEnd ? lifecycle.length - 1 : lifecycle.length - 2;
      for (const transfer of batch.transfers) {
        for (let place = 1; place <= last; place += 1) {
          clock.after(settleMs * place, () => {
            const state = lifecycle[place];
            // Somebody else decided meanwhile.
            if (state === undefined || transfer.state !== lifecycle[place - 1] || transfer.standing !== 'accepted')
              return;
            books.move(transfer, state, place === lifecycle.length - 1);
          });
        }
      }
    },
  };
}
