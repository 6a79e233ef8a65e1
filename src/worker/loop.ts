/**
 * Loops: `run` over `runOnce`, sleeping after the work, never an interval timer (R3).
 *
 * A loop never overlaps itself in one process; that alone is not the defence, the lease in the database is. An error is
 * logged and slept over; what it left behind is found by the lease's end. `stop` lets the pass in progress finish.
 */
import type { Log } from '../kernel/log.ts';
import type { Clock } from '../kernel/ports.ts';

export interface Loop {
  readonly name: string;
  /** Ends the sleep early: there may be work. */
  wake(): void;
  /** Resolves when the pass in progress is over. */
  stop(): Promise<void>;
}

export interface LoopOptions {
  readonly name: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Sleep when there was nothing to do. */
  readonly idleMs: number;
  /** One pass; `true` when there was work: then the next one follows at once. */
  runOnce(): Promise<boolean>;
}

/** After a failure: long enough not to fill the log, short enough not to keep money waiting. */
const FAILED_MS = 1_000;

export function startLoop(options: LoopOptions): Loop {
  const stopping = new AbortController();
  let sleeping = new AbortController();
  let woken = false;
  const running = (async () => {
    while (!stopping.signal.aborted) {
      woken = false;
      let worked = false;
      let failed = false;
      try {
        worked = await options.runOnce();
      } catch (error) {
        failed = true;
        options.log.error({ err: error, loop: options.name }, 'a pass failed; it is tried again');
      }
      if (stopping.signal.aborted) break;
      if (failed || !(worked || woken)) {
        sleeping = new AbortController();
        if (!failed && woken) continue;
        await options.clock.sleep(
          failed ? FAILED_MS : options.idleMs,
          AbortSignal.any([sleeping.signal, stopping.signal]),
        );
      }
    }
  })();
  return {
    name: options.name,
    wake() {
      woken = true;
      sleeping.abort();
    },
    async stop() {
      stopping.abort();
      await running;
    },
  };
}

/** R3's first line: a pass that is still running is not begun a second time in this process. */
export function withoutOverlap(runOnce: () => Promise<boolean>): () => Promise<boolean> {
  let busy = false;
  return async () => {
    if (busy) return false;
    busy = true;
    try {
      return await runOnce();
    } finally {
      busy = false;
    }
  };
}
