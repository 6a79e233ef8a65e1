/**
 * The worker's roles. Any number of processes may run any of them; what keeps them apart is in the database.
 *   sender     plans, seals and sends what is pending
 *   watcher    looks at what is sealed, settles, re-opens, scans for deposits, works the inbox
 *   courier    brings events to partners' endpoints
 *   matcher    matches buyers' orders with sellers' and with liquidity, and ends what time ends
 *   scheduler  alerts for long stays, start-up checks that are tried again
 */
import { sendOnce, watchOnce } from '../engine/advance.ts';
import { watchLongStays } from '../engine/long-stays.ts';
import type { EngineDeps } from '../engine/deps.ts';
import { watchReleasedOnce } from '../engine/look.ts';
import { leaveQuarantinedOnce } from '../engine/relayers.ts';
import { reopenOnce } from '../engine/reopen.ts';
import { recheckSettledOnce } from '../engine/vanished.ts';
import { endWaitAlerts } from '../engine/wait.ts';
import { watchWithheld } from '../engine/withheld.ts';
import * as limits from '../kernel/limits.ts';
import type { Log } from '../kernel/log.ts';
import type { Clock } from '../kernel/ports.ts';
import { type Loop, startLoop, withoutOverlap } from './loop.ts';

export const ROLES = ['sender', 'watcher', 'courier', 'matcher', 'scheduler'] as const;
export type Role = (typeof ROLES)[number];

export interface RoleDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly engine: EngineDeps;
  readonly scanners: readonly { readonly name: string; runOnce(): Promise<{ outcome: string }> }[];
  readonly courier: { runOnce(): Promise<{ worked: number }> };
  readonly inbox: { runOnce(): Promise<{ worked: number }> };
  readonly matcher: { readonly idleMs: number; runOnce(): Promise<boolean> };
  /** Work of its own time; of the scheduler unless it says so. */
  readonly chores: readonly {
    readonly name: string;
    readonly everyMs: number;
    readonly role?: 'sender' | 'scheduler';
    run(): Promise<unknown>;
  }[];
}

/** Between two scans of a chain with nothing new: well under any block time of a public chain's finality. */
const SCAN_IDLE_MS = 1_000;
const LONG_STAY_EVERY_MS = 60_000;
/** One query while there is no doubt; while there is, the same bytes go out this often. */
const RECHECK_EVERY_MS = 5_000;

export function startRoles(deps: RoleDeps, roles: readonly Role[]): Loop[] {
  const loops: Loop[] = [];
  const start = (name: string, idleMs: number, runOnce: () => Promise<boolean>): void => {
    loops.push(startLoop({ name, clock: deps.clock, log: deps.log, idleMs, runOnce: withoutOverlap(runOnce) }));
  };
  const startChores = (role: 'sender' | 'scheduler'): void => {
    for (const chore of deps.chores.filter((one) => (one.role ?? 'scheduler') === role)) {
      start(chore.name, chore.everyMs, async () => {
        await chore.run();
        return false;
      });
    }
  };
  const { engine } = deps;
  for (const role of roles) {
    switch (role) {
      case 'sender':
        for (const rail of engine.rails.values())
          start(`sender ${rail.name}`, limits.WORKER_IDLE_MS, async () => (await sendOnce(engine, rail)) > 0);
        startChores('sender');
        break;
      case 'watcher':
        for (const rail of engine.rails.values()) {
          start(`watcher ${rail.name}`, limits.WORKER_IDLE_MS, async () => {
            const worked = await eachAlone([
              () => watchOnce(engine, rail),
              () => watchReleasedOnce(engine, rail),
              () => reopenOnce(engine),
            ]);
            return worked > 0;
          });
        }
        for (const scanner of deps.scanners)
          start(`scanner ${scanner.name}`, SCAN_IDLE_MS, async () => (await scanner.runOnce()).outcome === 'scanned');
        start('inbox', limits.WORKER_IDLE_MS, async () => (await deps.inbox.runOnce()).worked > 0);
        break;
      case 'courier':
        start('courier', limits.WORKER_IDLE_MS, async () => (await deps.courier.runOnce()).worked > 0);
        break;
      case 'matcher':
        start('matcher', deps.matcher.idleMs, () => deps.matcher.runOnce());
        break;
      case 'scheduler':
        for (const rail of engine.rails.values()) {
          start(`long stays ${rail.name}`, LONG_STAY_EVERY_MS, async () => {
            await leaveQuarantinedOnce(engine, rail);
            await watchLongStays(engine, rail);
            await endWaitAlerts(engine.pool, rail.name);
            await watchWithheld(engine, rail);
            return false;
          });
        }
        for (const rail of engine.rails.values()) {
          start(`settled again ${rail.name}`, RECHECK_EVERY_MS, async () => {
            await recheckSettledOnce(engine, rail);
            return false;
          });
        }
        startChores('scheduler');
        break;
    }
  }
  return loops;
}

/** One step that fails never keeps the next from its turn; the first fault is the loop's. */
async function eachAlone(steps: readonly (() => Promise<number>)[]): Promise<number> {
  let worked = 0;
  const faults: unknown[] = [];
  for (const step of steps) {
    try {
      worked += await step();
    } catch (error) {
      faults.push(error);
    }
  }
  if (faults.length > 0) throw faults[0];
  return worked;
}
