/**
 * The ports: time, chance and the gate that every call to the outside (database, HTTP, signer) passes.
 *
 * The gate gives each call an ordinal and can cut the process at it from outside: before the call, after it but before
 * its answer is seen, with half of the request written, with half of the answer read, or stop it there. The crash proofs run a scenario
 * once to count the ordinals and then once more for each ordinal and mode. In production nobody sets a cut and the gate
 * is a counter.
 * The gate also refuses a wire call while the async context holds a transaction (W10, inv E12).
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';

export interface Clock {
  /** Wall time, for display and for ids. What decides is the database's `payonce.now()`. */
  now(): Date;
  /** Milliseconds that also count suspend (CLOCK_BOOTTIME where there is one), for `send_by`. */
  monotonicMs(): number;
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export interface Chance {
  bytes(count: number): Uint8Array;
  /** A number in [0, 1): jitter only, never money or identity. */
  fraction(): number;
}

export type PortKind = 'db' | 'http' | 'signer';
/** `stop`: after the call the process is stopped (SIGSTOP) and goes on from there when somebody continues it. */
export type CutMode = 'before' | 'after' | 'half_written' | 'half_read' | 'stop';
export interface Cut {
  ordinal: number;
  mode: CutMode;
  /** Counts only calls of this kind, and with this in their name, when given. */
  kind?: PortKind;
  name?: string;
  /** Counts only once a call with this in its name has passed. */
  after?: string;
}

/** What a wire client does with a half cut: it calls `die` once half of its bytes are out, or in. */
export interface HalfCut {
  mode: 'half_written' | 'half_read';
  die(): never;
}

export interface Gate {
  /** Runs one call through the port; `name` says which, for the log of ordinals. */
  pass<T>(kind: PortKind, name: string, call: (half: HalfCut | null) => Promise<T>): Promise<T>;
  /** Calls so far, per kind. */
  counts(): Readonly<Record<PortKind, number>>;
}

export interface Ports {
  clock: Clock;
  chance: Chance;
  gate: Gate;
}

const openTransaction = new AsyncLocalStorage<string>();

/** Runs `work` with the mark that a transaction is open in this async context. */
export function insideTransaction<T>(name: string, work: () => Promise<T>): Promise<T> {
  return openTransaction.run(name, work);
}

/** The name of the transaction that this async context holds, if any. */
export function transactionInContext(): string | undefined {
  return openTransaction.getStore();
}

function dieNow(): never {
  process.kill(process.pid, 'SIGKILL');
  // SIGKILL is delivered before the next instruction that matters; this line keeps the type honest.
  throw new Error('killed at a port');
}

export function makeGate(cut?: Cut, onPass?: (ordinal: number, kind: PortKind, name: string) => void): Gate {
  const counts: Record<PortKind, number> = { db: 0, http: 0, signer: 0 };
  let total = 0;
  let matching = 0;
  let armed = cut?.after === undefined;
  return {
    counts: () => counts,
    async pass(kind, name, call) {
      const open = openTransaction.getStore();
      if (kind !== 'db' && open !== undefined) {
        throw new Error(`${kind} call "${name}" inside transaction "${open}": no wire inside a transaction (W10)`);
      }
      counts[kind] += 1;
      total += 1;
      onPass?.(total, kind, name);
      if (cut === undefined) return call(null);
      if (!armed) armed = name.includes(cut.after ?? '');
      if (!armed || (cut.kind ?? kind) !== kind || !name.includes(cut.name ?? '')) return call(null);
      matching += 1;
      if (matching !== cut.ordinal) return call(null);
      if (cut.mode === 'stop') {
        const answer = await call(null);
        process.kill(process.pid, 'SIGSTOP');
        return answer;
      }
      if (cut.mode === 'before') dieNow();
      if (cut.mode === 'half_written' || cut.mode === 'half_read') await call({ mode: cut.mode, die: dieNow });
      else await call(null);
      return dieNow();
    },
  };
}

export const systemClock: Clock = {
  now: () => new Date(),
  // Linux' CLOCK_BOOTTIME is not offered by Node; hrtime stops in suspend, wall time may jump back: the later one wins.
  monotonicMs: (() => {
    const wallStart = Date.now();
    const steadyStart = process.hrtime.bigint();
    return () => {
      const steady = Number((process.hrtime.bigint() - steadyStart) / 1_000_000n);
      return Math.max(steady, Date.now() - wallStart);
    };
  })(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted === true) return resolve();
      const timer = setTimeout(done, ms);
      function done(): void {
        clearTimeout(timer);
        signal?.removeEventListener('abort', done);
        resolve();
      }
      signal?.addEventListener('abort', done, { once: true });
    }),
};

export const systemChance: Chance = {
  bytes: (count) => randomBytes(count),
  fraction: () => randomBytes(4).readUInt32BE() / 2 ** 32,
};

export function systemPorts(cut?: Cut, onPass?: (ordinal: number, kind: PortKind, name: string) => void): Ports {
  return { clock: systemClock, chance: systemChance, gate: makeGate(cut, onPass) };
}
