/*
 * One side of a race: the product's own functions over a pool whose gate holds every statement until it is told to go on.
 *
 * The pool is `makePool` as it ships, with one connection; only its gate is ours. It insists on READ COMMITTED (req W14), so
 * REPEATABLE READ is put in on the wire. Pauses between re-runs are taken out: which order things come in is the
 * explorer's business, not the clock's.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { startTcpProxy } from '../../../sim/tcp-proxy.ts';
import type { Frame } from '../../../sim/wire-frames.ts';
import { makePool, type Pool } from '../../../src/db/pool.ts';
import { silentLog } from '../../../src/kernel/log.ts';
import { type Gate, type Ports, systemPorts } from '../../../src/kernel/ports.ts';

export type Level = 'read committed' | 'repeatable read';

/** A statement answers within this or is asked whether it waits for a lock. Shorter asks more often than needed. */
const ANSWER_MS = 2;
/** A statement that neither answers nor waits for a lock for so long: the machine is stuck, or the driver is wrong. */
const STUCK_MS_MAX = 60_000;

export interface Session {
  readonly level: Level;
  readonly pool: Pool;
  readonly ports: Ports;
  /** Runs `work` under the explorer; without `begin`, calls pass at once. */
  begin(work: () => Promise<unknown>): void;
  /** Waits until it stands before a statement, has ended, or waits for a lock of the other one. */
  stable(): Promise<'ready' | 'ended' | 'blocked'>;
  /** The statement that it stands before, in its first words. */
  next(): string;
  /** Lets that statement go; once more at once where a transaction only begins at READ COMMITTED, which reads nothing. */
  step(): void;
  outcome(): Outcome;
  end(): Promise<void>;
}

export type Outcome = { readonly value: unknown } | { readonly error: unknown };

interface Waiting {
  readonly name: string;
  go(): void;
}

const FROM = 'isolation level read committed read write';
const TO = 'isolation level repeatable read          ';

/** How many transactions were given the other level. */
export interface LevelCount {
  raised: number;
}

export async function openSession(url: string, level: Level, monitor: pg.Client, count: LevelCount): Promise<Session> {
  const target = new URL(url);
  const proxy =
    level === 'read committed'
      ? undefined
      : await startTcpProxy({
          host: target.hostname,
          port: Number(target.port),
          protocol: 'postgres',
          rewriteClient: (frame: Frame) => {
            if (frame.type !== 'Q' || !frame.bytes.includes(FROM)) return frame.bytes;
            count.raised += 1;
            return Buffer.from(frame.bytes.toString('latin1').replace(FROM, TO), 'latin1');
          },
        });
  if (proxy !== undefined) target.port = String(proxy.port);

  const queue: Waiting[] = [];
  let isHeld = false;
  let isRunning = false;
  let running = Promise.resolve();
  let ended: Outcome | undefined;
  let changed = Promise.withResolvers<void>();
  const tell = (): void => {
    changed.resolve();
    changed = Promise.withResolvers<void>();
  };
  const counts = { db: 0, http: 0, signer: 0 };
  const gate: Gate = {
    counts: () => counts,
    async pass(kind, name, call) {
      counts[kind] += 1;
      if (!isHeld || kind !== 'db') return call(null);
      await new Promise<void>((go) => {
        queue.push({ name, go });
        tell();
      });
      try {
        return await call(null);
      } finally {
        isRunning = false;
        tell();
      }
    },
  };
  const ports: Ports = {
    ...systemPorts(),
    gate,
    clock: { ...systemPorts().clock, sleep: () => Promise.resolve() },
  };
  const pool = makePool({ url: target.href, ports, log: silentLog, connectionsMax: 1, applicationName: 'race' });
  const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid');
  const pid = rows[0]?.pid ?? 0;
  assert.ok(pid > 0);

  /** What it does after its last statement's answer takes turns of the loop, not time: no statement runs then. */
  async function settled(): Promise<void> {
    const until = performance.now() + STUCK_MS_MAX;
    const isBetween = (): boolean => ended === undefined && queue.length === 0 && !isRunning;
    while (isBetween()) {
      await Promise.race([changed.promise, sleep(100)]);
      assert.ok(performance.now() < until, 'a session neither asks for anything nor ends');
    }
  }

  return {
    level,
    pool,
    ports,
    begin(work) {
      isHeld = true;
      ended = undefined;
      running = (async () => {
        try {
          ended = { value: await work() };
        } catch (error) {
          ended = { error };
        }
        tell();
      })();
    },
    async stable() {
      const until = performance.now() + STUCK_MS_MAX;
      for (;;) {
        await settled();
        if (!isRunning && queue.length > 0) return 'ready';
        if (!isRunning && ended !== undefined) {
          isHeld = false;
          return 'ended';
        }
        await Promise.race([changed.promise, sleep(ANSWER_MS)]);
        if (!isRunning) continue;
        const asked = await monitor.query<{ waits: boolean }>('select cardinality(pg_blocking_pids($1)) > 0 as waits', [
          pid,
        ]);
        if (isRunning && asked.rows[0]?.waits === true) return 'blocked';
        assert.ok(performance.now() < until, 'a statement neither answers nor waits for a lock');
      }
    },
    next: () => queue[0]?.name ?? '',
    step() {
      const waiting = queue.shift();
      assert.ok(waiting !== undefined && !isRunning);
      isRunning = true;
      waiting.go();
    },
    outcome() {
      assert.ok(ended !== undefined);
      return ended;
    },
    async end() {
      await running;
      await pool.end();
      await proxy?.stop();
    },
  };
}
