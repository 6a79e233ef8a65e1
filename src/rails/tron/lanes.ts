/** Several connections to one node, and the pace at which it may be asked over all of them. */
import type { Clock } from '../../kernel/ports.ts';
import { ITEMS_PER_LANE } from './limits.ts';

/**
 * Items in parts, one part a lane, the lanes beside each other: as many as are worth their own questions. Results are in
 * the order of the items.
 */
export async function overLanes<L, T, R>(
  lanes: readonly L[],
  items: readonly T[],
  work: (lane: L, part: readonly T[]) => Promise<readonly R[]>,
): Promise<R[]> {
  const used = lanes.slice(0, Math.max(1, Math.ceil(items.length / ITEMS_PER_LANE)));
  const size = Math.ceil(items.length / used.length);
  const parts = await Promise.all(
    used.map(async (lane, index) => {
      const part = items.slice(index * size, (index + 1) * size);
      return part.length === 0 ? [] : work(lane, part);
    }),
  );
  return parts.flat();
}

/** What a node takes per second, over all connections of one rail. */
export interface Pace {
  /** Until the next request may go. */
  turn(): Promise<void>;
  /** A request that does not wait: a send has its own moment, and those that read after it wait longer. */
  count(): void;
}

export function makePace(clock: Clock, perSecond: number | undefined): Pace {
  if (perSecond === undefined) return { turn: async () => {}, count() {} };
  const eachMs = 1_000 / perSecond;
  let freeAtMs = 0;
  const take = (): number => {
    const nowMs = clock.monotonicMs();
    const atMs = Math.max(nowMs, freeAtMs);
    freeAtMs = atMs + eachMs;
    return atMs - nowMs;
  };
  return {
    async turn() {
      const waitMs = take();
      if (waitMs > 0) await clock.sleep(waitMs);
    },
    count: () => void take(),
  };
}
