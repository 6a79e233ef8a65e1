/*
 * The provider's own book: every trade that it opened, each step that it took, and what it released. It judges the proofs, so it
 * knows nothing of how a caller reads it.
 *
 * Promises: a trade is opened once per accepted request and keeps its steps in order; released amounts are only ever added to.
 */
import type { Stage } from './vocabulary.ts';

export type Trade = {
  readonly id: string;
  readonly reference: string;
  /** The idempotency key under which it was opened. */
  readonly key: string | null;
  readonly asset: string;
  /** Decimal text, as it was asked for. */
  readonly amount: string;
  readonly fiat: string;
  readonly fiatAmount: string;
  readonly price: string;
  readonly payBy: string;
  readonly openedAt: Date;
  readonly stage: Stage;
  readonly paidMarkedAt: Date | null;
  /** Decimal text; of the whole amount, or of a part. */
  readonly releasedAmount: string | null;
  readonly updatedAt: Date;
  readonly steps: readonly { readonly stage: Stage; readonly at: Date; readonly by: 'caller' | 'buyer' | 'provider' }[];
  /** Look-ups by reference show it from then on. */
  readonly visibleAt: Date;
};

export type NewTrade = Pick<
  Trade,
  'reference' | 'key' | 'asset' | 'amount' | 'fiat' | 'fiatAmount' | 'price' | 'payBy'
>;

export type EscrowBook = {
  open(trade: NewTrade, lagMs: number): Trade;
  move(id: string, stage: Stage, by: 'caller' | 'buyer' | 'provider', releasedAmount?: string): Trade;
  get(id: string): Trade | null;
  /** By the caller's reference. Doubles show here. */
  of(reference: string): readonly Trade[];
  trades(): readonly Trade[];
  /** What was released, whole or in part. */
  released(): readonly Trade[];
};

/** What no longer changes by itself. */
const OVER: ReadonlySet<Stage> = new Set(['released', 'cancelled', 'expired', 'refunded']);

export function isOver({ stage }: Trade): boolean {
  return OVER.has(stage);
}

export function makeBook(now: () => Date, makeId: () => string): EscrowBook {
  const trades = new Map<string, Trade>();
  const byReference = new Map<string, string[]>();
  return {
    open(asked, lagMs) {
      const at = now();
      const trade: Trade = {
        ...asked,
        id: makeId(),
        openedAt: at,
        updatedAt: at,
        stage: 'created',
        paidMarkedAt: null,
        releasedAmount: null,
        steps: [{ stage: 'created', at, by: 'caller' }],
        visibleAt: new Date(at.getTime() + lagMs),
      };
      trades.set(trade.id, trade);
      byReference.set(trade.reference, [...(byReference.get(trade.reference) ?? []), trade.id]);
      return trade;
    },
    move(id, stage, by, releasedAmount) {
      const before = trades.get(id);
      if (before === undefined) throw new RangeError(`there is no trade ${id}`);
      const at = now();
      const trade: Trade = {
        ...before,
        stage,
        updatedAt: at,
        paidMarkedAt: stage === 'buyer_marked_paid' ? at : before.paidMarkedAt,
        releasedAmount: stage === 'released' ? (releasedAmount ?? before.amount) : before.releasedAmount,
        steps: [...before.steps, { stage, at, by }],
      };
      trades.set(id, trade);
      return trade;
    },
    get: (id) => trades.get(id) ?? null,
    of: (reference) => (byReference.get(reference) ?? []).flatMap((id) => trades.get(id) ?? []),
    trades: () => [...trades.values()],
    released: () => [...trades.values()].filter((one) => one.releasedAmount !== null),
  };
}
