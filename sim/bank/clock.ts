/*
 * The bank's own clock. It runs with real time from wherever it was set, or stands still; `advance` and `set` move it. Key
 * retention, look-up lag, late delivery, settling and returns hang on it, so that fifteen days pass in a test.
 *
 * Promises: what is due is done in the order of its time, and sees that time as `now`, however far the clock jumped.
 * Never does: run a task before its time, or keep the process alive for one.
 */

export type BankClock = {
  readonly now: () => Date;
  /** Moves forward and does what falls due on the way. */
  readonly advance: (ms: number) => void;
  /** Jumps, backwards too: what is due stays due at its own time. */
  readonly set: (date: Date | string) => void;
};

export type TaskClock = BankClock & {
  readonly after: (ms: number, task: () => void) => void;
  readonly stop: () => void;
};

/** setTimeout takes no longer wait; the timer is set anew when it ends early. */
const TIMER_WAIT_MS_MAX = 2 ** 31 - 1;

type Task = { readonly atMs: number; readonly run: () => void };

export function makeBankClock(start: Date, ticking: boolean): TaskClock {
  let baseMs = start.getTime();
  let realBaseMs = performance.now();
  /** While a task runs, its own time. */
  let pinnedMs: number | null = null;
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;
  const tasks: Task[] = [];

  const nowMs = (): number => pinnedMs ?? (ticking ? baseMs + Math.floor(performance.now() - realBaseMs) : baseMs);

  const moveTo = (ms: number): void => {
    baseMs = ms;
    realBaseMs = performance.now();
  };

  const doDue = (): void => {
    const untilMs = nowMs();
    for (;;) {
      const next = tasks[0];
      if (stopped || next === undefined || next.atMs > untilMs) break;
      tasks.shift();
      pinnedMs = next.atMs;
      try {
        next.run();
      } finally {
        pinnedMs = null;
      }
    }
    arm();
  };

  /** After all that are due by then: by halving, since loads have tens of thousands of tasks. */
  const placeOf = (atMs: number): number => {
    let [from, to] = [0, tasks.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((tasks[middle]?.atMs ?? Infinity) <= atMs) from = middle + 1;
      else to = middle;
    }
    return from;
  };

  const arm = (): void => {
    clearTimeout(timer);
    const next = tasks[0];
    if (stopped || next === undefined) return;
    const waitMs = Math.max(0, next.atMs - nowMs());
    if (waitMs > 0 && !ticking) return;
    timer = setTimeout(doDue, Math.min(waitMs, TIMER_WAIT_MS_MAX));
    timer.unref();
  };

  return {
    now: () => new Date(nowMs()),
    advance(ms) {
      if (ms < 0) throw new RangeError('advance moves forward; use set to go back');
      moveTo(nowMs() + ms);
      doDue();
    },
    set(date) {
      const ms = new Date(date).getTime();
      if (Number.isNaN(ms)) throw new RangeError('set takes a date');
      moveTo(ms);
      doDue();
    },
    after(ms, run) {
      const atMs = nowMs() + ms;
      tasks.splice(placeOf(atMs), 0, { atMs, run });
      if (pinnedMs === null) arm();
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
