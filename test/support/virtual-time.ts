/*
 * Virtual time for a world: the database's clock (`payonce.now()`, which decides) and the clocks of as many processes as the
 * test plays stand still until the test moves them. Work is run to where everybody either is done or sleeps, and only then
 * does time go on, from one sleeper's waking to the next: no test waits for a clock, and each run is the same.
 */
import type { Pool } from '../../src/db/pool.ts';
import type { Clock } from '../../src/kernel/ports.ts';

const PREPARE = [
  'create table public.virtual_clock (at timestamptz not null)',
  'insert into public.virtual_clock values (clock_timestamp())',
  // Only in a test's own database, whose owner the test is.
  `create or replace function payonce.now() returns timestamptz language sql volatile as $$ select at from public.virtual_clock $$`,
];

export interface VirtualTime {
  nowMs(): number;
  /** A process' clock: its wall time may be off by `offMs`. */
  clock(offMs?: number): Clock;
  sleep(ms: number): Promise<void>;
  /** Starts work that is waited for in `run`. */
  start(work: () => Promise<unknown>): void;
  /** Moves time on by so much, letting everybody run to the next sleep at each waking on the way. */
  run(ms: number): Promise<void>;
  set(at: Date): Promise<void>;
}

interface Sleeper {
  readonly atMs: number;
  wake(): void;
}

export async function makeVirtualTime(pool: Pool, start: string): Promise<VirtualTime> {
  for (const statement of PREPARE) await pool.query(statement);
  let nowMs = Date.parse(start);
  let running = 0;
  const faults: unknown[] = [];
  let sleepers: Sleeper[] = [];
  const show = async (): Promise<void> => {
    await pool.query('update public.virtual_clock set at = $1', [new Date(nowMs)]);
  };
  await show();
  const sleep = (ms: number): Promise<void> =>
    ms <= 0 ? Promise.resolve() : new Promise((resolve) => sleepers.push({ atMs: nowMs + ms, wake: resolve }));
  /** Everybody who runs sleeps: each started work is one thread, so as many sleep as run. */
  const quiet = async (): Promise<void> => {
    while (running > sleepers.length) await new Promise((resolve) => setImmediate(resolve));
    if (faults.length > 0) throw faults[0];
  };
  const time: VirtualTime = {
    nowMs: () => nowMs,
    clock: (offMs = 0) => ({
      now: () => new Date(nowMs + offMs),
      monotonicMs: () => nowMs,
      sleep: (ms) => sleep(ms),
    }),
    sleep,
    start(work) {
      running += 1;
      void work()
        .catch((fault: unknown) => faults.push(fault))
        .finally(() => {
          running -= 1;
        });
    },
    async run(ms) {
      const endMs = nowMs + ms;
      await quiet();
      for (;;) {
        const next = Math.min(endMs, ...sleepers.map((one) => one.atMs));
        nowMs = Math.max(nowMs, next);
        await show();
        const due = sleepers.filter((one) => one.atMs <= nowMs);
        if (due.length === 0) return;
        sleepers = sleepers.filter((one) => one.atMs > nowMs);
        for (const one of due) one.wake();
        await quiet();
      }
    },
    async set(at) {
      nowMs = at.getTime();
      await show();
    },
  };
  return time;
}
