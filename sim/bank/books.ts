/*
 * The bank's own books: what was accepted, what left, what came back. The judge of every proof on this rail.
 *
 * Promises: each line that was accepted is one movement, counted whether or not anybody was told; one that failed before it
 * left is none; a return is a second movement, back, less what the bank kept. The own balance is start − out + back − fees.
 * Never does: notice that two transfers look alike. A payment made twice stands here twice.
 */
import type { Cost, Movement, RailBooks } from '../oracle.ts';
import type { Batch, Destination, Order, Return, Transfer } from './transfer.ts';

export type BankMovement = Movement & {
  readonly kind: 'out' | 'return';
  readonly key: string | null;
  readonly reference: string | null;
  readonly destination: Destination;
  readonly memo: string | null;
  readonly at: Date;
  readonly state: string;
  readonly returned: 'no' | 'partly' | 'fully';
};

export type GiveBack = {
  /** Before the fee. Absent: all that is left of it. */
  readonly units?: bigint;
  readonly feeUnits?: bigint;
  readonly reason?: string;
  readonly reports?: number;
};

/** How the provider names what it makes, and the states that it goes through. */
type Terms = {
  readonly lifecycle: readonly [string, ...string[]];
  readonly ids: { readonly transfer: string; readonly batch: string };
};

export type BankBooks = RailBooks<BankMovement> & {
  readonly accept: (terms: Terms, key: string | null, path: string, order: Order, lookLagMs: number) => Batch;
  readonly all: () => readonly Transfer[];
  readonly available: (currency: string) => bigint;
  readonly setAvailable: (currency: string, units: bigint) => void;
  readonly move: (transfer: Transfer, state: string, final: boolean) => void;
  readonly fail: (transfer: Transfer, state: string, reason: string) => boolean;
  readonly giveBack: (transfer: Transfer, state: string, how: GiveBack) => Return;
};

export type BooksOptions = {
  readonly rail: string;
  readonly own: string;
  /** Charged to us for each line that is accepted. */
  readonly feeUnits: bigint;
  readonly now: () => Date;
  readonly id: (prefix: string, length?: number) => string;
};

export function makeBankBooks(options: BooksOptions): BankBooks {
  const transfers: Transfer[] = [];
  const balances = new Map<string, bigint>();
  const ordinals = new Map<string, number>();
  let ordinalsEver = 0;

  const available = (currency: string): bigint => balances.get(currency) ?? 0n;
  const credit = (currency: string, units: bigint): void => void balances.set(currency, available(currency) + units);

  const movementsOf = (transfer: Transfer): BankMovement[] => {
    if (transfer.standing === 'undone') return [];
    const { line, batch, returns } = transfer;
    const to = addressOf(line.destination);
    const back = returns.reduce((sum, each) => sum + each.units + each.feeUnits, 0n);
    const shared = {
      rail: options.rail,
      tx: transfer.id,
      asset: line.currency,
      key: batch.key,
      reference: line.reference,
      destination: line.destination,
      memo: line.memo,
      state: transfer.state,
      returned: back === 0n ? 'no' : back < line.amount ? 'partly' : 'fully',
    } as const;
    return [
      {
        ...shared,
        kind: 'out',
        id: `${transfer.id}:out`,
        from: options.own,
        to,
        amount: line.amount,
        final: transfer.standing === 'final',
        block: transfer.ordinal,
        at: transfer.at,
      },
      ...returns.map((each) => ({
        ...shared,
        kind: 'return' as const,
        id: each.id,
        from: to,
        to: options.own,
        amount: each.units,
        final: true,
        block: ordinals.get(each.id) ?? transfer.ordinal,
        at: each.at,
      })),
    ];
  };

  const movements = async (): Promise<BankMovement[]> =>
    transfers.flatMap(movementsOf).sort((one, other) => one.block - other.block);

  return {
    rail: options.rail,
    movements,
    async costs() {
      if (options.feeUnits === 0n) return [];
      return transfers
        .filter(({ standing }) => standing !== 'undone')
        .map(
          (transfer): Cost => ({
            rail: options.rail,
            tx: transfer.id,
            payer: options.own,
            asset: transfer.line.currency,
            amount: options.feeUnits,
            final: transfer.standing === 'final',
          }),
        );
    },
    async balance(holder, asset) {
      if (holder === options.own) return available(asset);
      let units = 0n;
      for (const movement of await movements()) {
        if (movement.asset !== asset) continue;
        if (movement.to === holder) units += movement.amount;
        if (movement.from === holder) units -= movement.amount;
      }
      return units;
    },
    accept(terms, key, path, order, lookLagMs) {
      const at = options.now();
      const made: Transfer[] = [];
      const batch: Batch = { id: options.id(terms.ids.batch), key, order, at, path, transfers: made };
      for (const line of order.lines) {
        made.push({
          id: options.id(terms.ids.transfer),
          batch,
          ordinal: ++ordinalsEver,
          line,
          at,
          visibleFrom: new Date(at.getTime() + lookLagMs),
          state: terms.lifecycle[0],
          standing: terms.lifecycle.length === 1 ? 'final' : 'accepted',
          failure: null,
          changedAt: at,
          returns: [],
        });
        credit(line.currency, -line.amount - options.feeUnits);
      }
      transfers.push(...made);
      return batch;
    },
    all: () => transfers,
    available,
    setAvailable: (currency, units) => void balances.set(currency, units),
    move(transfer, state, final) {
      transfer.state = state;
      transfer.changedAt = options.now();
      if (final && transfer.standing === 'accepted') transfer.standing = 'final';
    },
    fail(transfer, state, reason) {
      if (transfer.standing !== 'accepted') return false;
      transfer.state = state;
      transfer.standing = 'undone';
      transfer.failure = reason;
      transfer.changedAt = options.now();
      credit(transfer.line.currency, transfer.line.amount + options.feeUnits);
      return true;
    },
    giveBack(transfer, state, how) {
      const gone = transfer.returns.reduce((sum, each) => sum + each.units + each.feeUnits, 0n);
      const left = transfer.line.amount - gone;
      const gross = how.units ?? left;
      const feeUnits = how.feeUnits ?? 0n;
      if (transfer.standing === 'undone') throw new Error(`${transfer.id} never left: nothing can come back`);
      if (gross <= 0n || gross > left || feeUnits > gross) {
        throw new RangeError(`${transfer.id} has ${left} left to come back: choose units and fee within it`);
      }
      const returned: Return = {
        id: options.id('ret_'),
        units: gross - feeUnits,
        feeUnits,
        at: options.now(),
        reason: how.reason ?? 'account_closed',
        reports: how.reports ?? 1,
      };
      ordinals.set(returned.id, ++ordinalsEver);
      transfer.returns = [...transfer.returns, returned];
      transfer.standing = 'final';
      transfer.state = state;
      transfer.failure = returned.reason;
      transfer.changedAt = returned.at;
      credit(transfer.line.currency, returned.units);
      return returned;
    },
  };
}

/** One spelling for an account: `bank:account`; the handle where that is all that is known. */
export function addressOf(destination: Destination): string {
  return destination.accountNumber === ''
    ? (destination.handle ?? '')
    : `${destination.bankCode}:${destination.accountNumber}`;
}
