/*
 * The provider's own book: every trade that it opened, each step that it took, and what it released. It judges the proofs, so it
 * knows nothing of how a caller reads it.
 *
 * Promises: a trade is opened once per accepted request and keeps its steps in order, each with who asked for it and under which
 * key; released amounts are only ever added to.
 * Never does: notice that two trades look alike. What was opened twice stands here twice.
 */
import { formatUnits, parseAmount } from '../../src/kernel/money.ts';
import type { Stage } from './vocabulary.ts';

export type StepBy = 'caller' | 'buyer' | 'provider';

export type Step = {
  readonly stage: Stage;
  readonly at: Date;
  readonly by: StepBy;
  /** The idempotency key of the request that asked for it. */
  readonly key: string | null;
  /** Released in this step, decimal text. */
  readonly released: string | null;
};

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
  /** Decimal text; of all releases together. */
  readonly releasedAmount: string | null;
  readonly updatedAt: Date;
  readonly steps: readonly Step[];
  /** Look-ups by reference show it from then on. */
  readonly visibleAt: Date;
};

export type NewTrade = Pick<
  Trade,
  'reference' | 'key' | 'asset' | 'amount' | 'fiat' | 'fiatAmount' | 'price' | 'payBy'
>;

export type Move = {
  readonly stage: Stage;
  readonly by: StepBy;
  readonly key?: string | null;
  /** `released`: so much of it, decimal text; more than was traded too. Absent: all that is left. */
  readonly amount?: string;
};

export type EscrowBook = {
  /** `id`: of a trade that stood in an earlier book. */
  open(trade: NewTrade, lagMs: number, id?: string): Trade;
  /** Throws where there is no such trade, or nothing left to release. */
  move(id: string, move: Move): Trade;
  get(id: string): Trade | null;
  /** By the caller's reference. Doubles show here. */
  of(reference: string): readonly Trade[];
  trades(): readonly Trade[];
  /** How many there are: the list is made anew for each who asks. */
  count(): number;
  /** What was released, whole or in part. */
  released(): readonly Trade[];
};

/** What no longer changes by itself. */
const OVER: ReadonlySet<Stage> = new Set(['released', 'cancelled', 'expired', 'refunded']);
/** More places than any asset has. */
const PLACES = 30;

export function isOver({ stage }: Trade): boolean {
  return OVER.has(stage);
}

/** Zero or more as units of `PLACES` places, `null` for what is no amount. */
export function unitsOf(text: string): bigint | null {
  const read = parseAmount(text, PLACES);
  return read.ok ? read.units : null;
}

export function makeBook(now: () => Date, makeId: () => string): EscrowBook {
  const trades = new Map<string, Trade>();
  const byReference = new Map<string, string[]>();
  return {
    open(asked, lagMs, id = makeId()) {
      const at = now();
      const trade: Trade = {
        ...asked,
        id,
        openedAt: at,
        updatedAt: at,
        stage: 'created',
        paidMarkedAt: null,
        releasedAmount: null,
        steps: [{ stage: 'created', at, by: 'caller', key: asked.key, released: null }],
        visibleAt: new Date(at.getTime() + lagMs),
      };
      trades.set(trade.id, trade);
      const same = byReference.get(trade.reference);
      if (same === undefined) byReference.set(trade.reference, [trade.id]);
      else same.push(trade.id);
      return trade;
    },
    move(id, { stage, by, key = null, amount }) {
      const before = trades.get(id);
      if (before === undefined) throw new RangeError(`there is no trade ${id}`);
      const released = stage === 'released' ? (amount ?? leftOf(before)) : null;
      if (released !== null && (unitsOf(released) ?? 0n) <= 0n)
        throw new RangeError(`${id}: ${released} cannot be released; ${leftOf(before)} is left`);
      const after = atStep(before, { stage, at: now(), by, key, released });
      trades.set(id, after);
      return after;
    },
    get: (id) => trades.get(id) ?? null,
    of: (reference) => (byReference.get(reference) ?? []).flatMap((id) => trades.get(id) ?? []),
    trades: () => [...trades.values()],
    count: () => trades.size,
    released: () => [...trades.values()].filter((one) => one.releasedAmount !== null),
  };
}

/** As it stood then; `null`: it was not there yet. */
export function asOf(trade: Trade, at: Date): Trade | null {
  const [first, ...more] = trade.steps.filter((step) => step.at <= at);
  if (first === undefined) return null;
  const start: Trade = {
    ...trade,
    stage: first.stage,
    updatedAt: first.at,
    paidMarkedAt: null,
    releasedAmount: null,
    steps: [first],
  };
  return more.reduce(atStep, start);
}

function atStep(before: Trade, step: Step): Trade {
  return {
    ...before,
    stage: step.stage,
    updatedAt: step.at,
    paidMarkedAt: step.stage === 'buyer_marked_paid' ? step.at : before.paidMarkedAt,
    releasedAmount: step.released === null ? before.releasedAmount : sumOf(before.releasedAmount, step.released),
    steps: [...before.steps, step],
  };
}

function sumOf(before: string | null, more: string): string {
  // The first is told as it was written.
  return before === null ? more : formatUnits((unitsOf(before) ?? 0n) + (unitsOf(more) ?? 0n), PLACES);
}

function leftOf({ amount, releasedAmount }: Trade): string {
  if (releasedAmount === null) return amount;
  const left = (unitsOf(amount) ?? 0n) - (unitsOf(releasedAmount) ?? 0n);
  return formatUnits(left < 0n ? 0n : left, PLACES);
}
