/**
 * LISTEN: wake-ups across processes on one direct connection (a pooler in transaction mode cannot carry it).
 *
 * A notification is a hint and nothing more: it may be lost, and every loop polls anyway. NOTIFY in each commit costs
 * more than half of all commits, so senders notify once per batch.
 */
import pg from 'pg';
import type { Log } from '../kernel/log.ts';
import type { Clock } from '../kernel/ports.ts';

export const CHANNEL = 'payonce_wake';
const RECONNECT_MS = 2_000;

export interface Wakes {
  /** Calls `wake` for each hint on this topic until stopped. */
  on(topic: string, wake: () => void): void;
  stop(): Promise<void>;
}

export function makeWakes(url: string, clock: Clock, log: Log): Wakes {
  const listeners = new Map<string, (() => void)[]>();
  const stopping = new AbortController();
  let client: pg.Client | undefined;
  const running = (async () => {
    while (!stopping.signal.aborted) {
      try {
        await listenOnce();
      } catch (error) {
        log.warn({ err: error }, 'the wake-up connection was lost; polling goes on');
      }
      await clock.sleep(RECONNECT_MS, stopping.signal);
    }
  })();

  async function listenOnce(): Promise<void> {
    const one = new pg.Client({ connectionString: url, application_name: 'payonce-listen' });
    client = one;
    const ended = new Promise<void>((resolve) => {
      one.on('error', () => resolve());
      one.on('end', () => resolve());
    });
    one.on('notification', (message) => {
      for (const wake of listeners.get(message.payload ?? '') ?? []) wake();
    });
    await one.connect();
    await one.query(`listen ${CHANNEL}`);
    await ended;
  }

  return {
    on(topic, wake) {
      listeners.set(topic, [...(listeners.get(topic) ?? []), wake]);
    },
    async stop() {
      stopping.abort();
      await client?.end().catch(() => {});
      await running;
    },
  };
}
