/**
 * The database port: a pool of connections, single statements, and `tx`.
 *
 * Promises: a transaction runs at READ COMMITTED whatever the host's default (W14); 40001 and 40P01 re-run it whole, so
 * its work must be repeatable and must leave no trace outside the database; the COMMIT's tag is checked (`COMMIT` of an
 * aborted transaction *resolves* with `ROLLBACK`); an unanswered COMMIT is resolved by asking PostgreSQL for the
 * transaction's fate (`pg_xact_status`), which is exact as long as the server is the same one, and else reported as
 * PO_DB_COMMIT_UNKNOWN. No transaction inside a transaction, no second connection while one is held (case L10), and no
 * wire call in between (W10; the gate of `kernel/ports.ts` refuses it).
 * Never: session state that outlives a statement, named statements, session locks (PgBouncer in transaction mode).
 */
import type { Socket } from 'node:net';
import pg from 'pg';
import { InvariantBroken, PayonceError } from '../kernel/errors.ts';
import * as limits from '../kernel/limits.ts';
import type { Log } from '../kernel/log.ts';
import { insideTransaction, type Ports, transactionInContext } from '../kernel/ports.ts';

export type Row = Record<string, unknown>;
export interface Result<R extends Row = Row> {
  readonly rows: R[];
  readonly rowCount: number;
}
export interface Query {
  query<R extends Row = Row>(sql: string, values?: readonly unknown[]): Promise<Result<R>>;
}
/** A transaction in progress: the first argument of every statement in a `store.ts`. */
export interface Tx extends Query {
  readonly name: string;
  /** Runs after the COMMIT is known to have happened: in-process wake-ups, log lines, counters. */
  afterCommit(act: () => void): void;
}

export interface Pool extends Query {
  tx<T>(name: string, work: (tx: Tx) => Promise<T>): Promise<T>;
  /**
   * One statement as a transaction of its own, in one round trip: BEGIN, the statement and COMMIT leave together. Only for
   * a statement that is whole by itself (should BEGIN be refused, it has run without one) and that may be asked again: when
   * its answer is lost, a second run tells what the first one left.
   */
  one<R extends Row = Row>(name: string, sql: string, values?: readonly unknown[]): Promise<Result<R>>;
  readonly counts: { commits: number; statements: number; reruns: number; unknownCommits: number };
  readonly url: string;
  end(): Promise<void>;
}

export interface PoolOptions {
  url: string;
  ports: Ports;
  log: Log;
  connectionsMax?: number;
  applicationName?: string;
}

const types: { getTypeParser: typeof pg.types.getTypeParser } = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') => {
    if (oid === 20) return (text: string) => BigInt(text);
    // numeric: money is whole units; anything else is kept as text and fails loudly where it is decoded.
    if (oid === 1700) return (text: string) => (/^-?\d+$/.test(text) ? BigInt(text) : text);
    if (oid === 1231)
      return (text: string) =>
        text === '{}'
          ? []
          : text
              .slice(1, -1)
              .split(',')
              .map((part) => BigInt(part));
    return pg.types.getTypeParser(oid, format) as (text: string) => unknown;
  }) as typeof pg.types.getTypeParser,
};

interface CodedError extends Error {
  code?: string;
  constraint?: string;
}

export function sqlState(error: unknown): string | undefined {
  return error instanceof Error ? (error as CodedError).code : undefined;
}
export function constraintOf(error: unknown): string | undefined {
  return error instanceof Error ? (error as CodedError).constraint : undefined;
}

/** 5-character SQLSTATEs come from the server; everything else (ECONNRESET, "Connection terminated …") is a lost connection. */
function isConnectionLost(error: unknown): boolean {
  const state = sqlState(error);
  if (state !== undefined && /^[0-9A-Z]{5}$/.test(state)) return state.startsWith('57P') || state.startsWith('08');
  return (
    !(error instanceof InvariantBroken) &&
    !(error instanceof PayonceError) &&
    error instanceof Error &&
    (state !== undefined ||
      /[Cc]onnection|timeout exceeded when trying to connect|^Query read timeout$/.test(error.message))
  );
}

const STANDBY_REFUSES_WRITES = '0A000';

/** A server that became a standby refuses to begin: its connection is given up, for another server may lead by now. */
function unlessStandby(error: unknown): never {
  if (sqlState(error) !== STANDBY_REFUSES_WRITES) throw error;
  throw new PayonceError('PO_DB_UNAVAILABLE', { moneyState: 'not_sent', internal: error });
}
function isUnavailable(error: unknown): boolean {
  return error instanceof PayonceError && error.code === 'PO_DB_UNAVAILABLE';
}

/** Ends with the transaction's id, by which the fate of an unanswered COMMIT is asked. */
const BEGIN = `begin isolation level read committed read write;
set local statement_timeout = ${limits.STATEMENT_TIMEOUT_MS};
set local lock_timeout = ${limits.LOCK_TIMEOUT_MS};
set local idle_in_transaction_session_timeout = ${limits.IDLE_IN_TRANSACTION_MS};
select pg_current_xact_id()::text as xid`;

/** A statement whose answer is waited for so long and no longer: then its connection is given up. */
function withLimit(
  text: string,
  answerMs: number | null,
  values?: readonly unknown[],
): pg.QueryConfig & { query_timeout?: number } {
  const asked = { text, ...(values === undefined ? {} : { values: [...values] }) };
  return answerMs === null ? asked : { ...asked, query_timeout: answerMs };
}

/** A connection that is given back once, whoever says so first. */
interface Held {
  readonly client: pg.PoolClient;
  release(broken: boolean): void;
}

function notCommitted(name: string, tag: string): PayonceError {
  return new PayonceError('PO_INTERNAL', { internal: `COMMIT of "${name}" answered ${tag}` });
}

export function makePool(options: PoolOptions): Pool {
  const { ports, log } = options;
  const pool = new pg.Pool({
    connectionString: options.url,
    max: options.connectionsMax ?? limits.POOL_CONNECTIONS,
    connectionTimeoutMillis: limits.POOL_ACQUIRE_MS,
    application_name: options.applicationName ?? 'payonce',
    types,
    pipeline: true,
    keepAlive: true,
    keepAliveInitialDelayMillis: limits.KEEP_ALIVE_AFTER_MS,
  });
  pool.on('error', (error) => log.warn({ err: error }, 'an idle database connection was lost'));
  const counts = { commits: 0, statements: 0, reruns: 0, unknownCommits: 0 };

  /** `answerMs` null: a statement outside a transaction, which may take its time. */
  function run<R extends Row>(
    client: pg.PoolClient,
    sql: string,
    values?: readonly unknown[],
    answerMs: number | null = limits.DATABASE_ANSWER_MS,
  ): Promise<Result<R>> {
    counts.statements += 1;
    return ports.gate.pass('db', firstWords(sql), async (half) => {
      if (half !== null) cutSocket(client, half);
      const result = await client.query(withLimit(sql, answerMs, values));
      return { rows: result.rows as R[], rowCount: result.rowCount ?? 0 };
    });
  }

  async function acquire(): Promise<Held> {
    const open = transactionInContext();
    if (open !== undefined)
      throw new InvariantBroken(`a second connection was asked for inside transaction "${open}" (case L10)`);
    try {
      const client = await pool.connect();
      if (client.listenerCount('error') === 0)
        client.on('error', (error) => log.warn({ err: error }, 'a database connection was lost'));
      let isHeld = true;
      return {
        client,
        release: (broken) => {
          if (isHeld) client.release(broken);
          isHeld = false;
        },
      };
    } catch (error) {
      throw new PayonceError('PO_DB_UNAVAILABLE', { moneyState: 'not_sent', internal: error });
    }
  }

  /** Answers the transaction's id. */
  async function begin(client: pg.PoolClient): Promise<string> {
    counts.statements += 1;
    const results = await ports.gate.pass('db', 'begin', async (half) => {
      if (half !== null) cutSocket(client, half);
      // Several statements in one text give several results, which the declared type does not know.
      const asked = client.query(withLimit(BEGIN, limits.DATABASE_ANSWER_MS)).catch(unlessStandby);
      return (await asked) as unknown as pg.QueryResult<{ xid: string }>[];
    });
    return toText(results.at(-1)?.rows[0]?.xid, 'xid');
  }

  async function runOnce<T>(name: string, work: (tx: Tx) => Promise<T>): Promise<T> {
    const held = await acquire();
    const { client } = held;
    const after: (() => void)[] = [];
    try {
      const tx: Tx = {
        name,
        query: (sql, values) => run(client, sql, values),
        afterCommit: (act) => after.push(act),
      };
      let xid: string;
      let value: T;
      try {
        xid = await begin(client);
        value = await insideTransaction(name, () => work(tx));
      } catch (error) {
        if (isConnectionLost(error) || isUnavailable(error)) held.release(true);
        else await run(client, 'rollback').catch(() => held.release(true));
        throw error;
      }
      const tag = await commit(client, name).catch((error: unknown) => fateOf(held, name, xid, error));
      if (tag !== 'COMMIT') {
        held.release(true);
        throw tag === 'aborted' ? new LostTransaction(name) : notCommitted(name, tag);
      }
      counts.commits += 1;
      for (const act of after) act();
      return value;
    } finally {
      held.release(false);
    }
  }

  async function oneOnce<R extends Row>(name: string, sql: string, values?: readonly unknown[]): Promise<Result<R>> {
    const held = await acquire();
    const { client } = held;
    try {
      const [begun, result, committed] = await Promise.allSettled([
        begin(client),
        run<R>(client, sql, values),
        commit(client, name),
      ]);
      if (begun.status === 'fulfilled' && result.status === 'fulfilled' && committed.status === 'fulfilled') {
        if (committed.value !== 'COMMIT') throw notCommitted(name, committed.value);
        counts.commits += 1;
        return result.value;
      }
      if (begun.status === 'rejected' && isUnavailable(begun.reason)) {
        held.release(true);
        throw begun.reason;
      }
      // The statement's own error: the COMMIT was answered with ROLLBACK.
      if (result.status === 'rejected' && !isConnectionLost(result.reason)) throw result.reason;
      const lost: unknown = [committed, result, begun].find((one) => one.status === 'rejected')?.reason;
      if (begun.status === 'rejected') {
        held.release(true);
        throw isConnectionLost(begun.reason)
          ? new PayonceError('PO_DB_COMMIT_UNKNOWN', { internal: lost })
          : begun.reason;
      }
      const fate = await fateOf(held, name, begun.value, lost);
      if (fate === 'COMMIT' && result.status === 'fulfilled') {
        counts.commits += 1;
        return result.value;
      }
      // Nothing of it is there, or all of it and only the answer is lost: in both cases it is asked again.
      throw new LostTransaction(name);
    } finally {
      held.release(false);
    }
  }

  /** Answers the COMMIT's tag. */
  function commit(client: pg.PoolClient, name: string): Promise<string> {
    counts.statements += 1;
    return ports.gate.pass('db', `commit ${name}`, async (half) => {
      if (half !== null) cutSocket(client, half);
      return (await client.query(withLimit('commit', limits.DATABASE_ANSWER_MS))).command;
    });
  }

  /**
   * What became of a transaction whose COMMIT was not answered: asked on a new connection (the lost one is given up first,
   * it may be the pool's only one), waiting while the server still works on it.
   */
  async function fateOf(held: Held, name: string, xid: string, error: unknown): Promise<'COMMIT' | 'aborted'> {
    if (!isConnectionLost(error)) throw error;
    held.release(true);
    counts.unknownCommits += 1;
    log.warn({ transaction: name, err: error }, 'a COMMIT was not answered; asking for its fate');
    for (let attempt = 0; attempt < limits.TRANSACTION_RUNS_MAX; attempt += 1) {
      await ports.clock.sleep(attempt === 0 ? 0 : 50 * 2 ** attempt);
      let client: pg.PoolClient | undefined;
      try {
        client = await pool.connect();
        const { rows } = await run<{ status: string | null }>(client, 'select pg_xact_status($1::xid8) as status', [
          xid,
        ]);
        client.release();
        const status = rows[0]?.status;
        if (status === 'committed') return 'COMMIT';
        if (status === 'aborted') return status;
        if (status === null) break;
      } catch (failure) {
        client?.release(true);
        // A server that does not know this id (another timeline) cannot tell; one that is down may come back.
        if (!isConnectionLost(failure)) break;
      }
    }
    throw new PayonceError('PO_DB_COMMIT_UNKNOWN', { internal: error });
  }

  return {
    counts,
    url: options.url,
    end: () => pool.end(),
    async query(sql, values) {
      const held = await acquire();
      try {
        return await run(held.client, sql, values, null);
      } catch (error) {
        held.release(isConnectionLost(error));
        throw error;
      } finally {
        held.release(false);
      }
    },
    tx: (name, work) => untilDecided(name, () => runOnce(name, work)),
    one: (name, sql, values) => untilDecided(name, () => oneOnce(name, sql, values)),
  };

  /** Serialization failures and dead-locks run the whole again; nothing of a lost transaction is left. */
  async function untilDecided<T>(name: string, once: () => Promise<T>): Promise<T> {
    for (let runs = 1; ; runs += 1) {
      try {
        return await once();
      } catch (error) {
        const state = sqlState(error);
        const again = state === '40001' || state === '40P01' || state === '55P03' || error instanceof LostTransaction;
        if (!again || runs >= limits.TRANSACTION_RUNS_MAX) throw error;
        counts.reruns += 1;
        log.debug({ transaction: name, state, runs }, 'a transaction is run again');
        await ports.clock.sleep(ports.chance.fraction() * 5 * 2 ** runs);
      }
    }
  }
}

/** The server says that the transaction did not commit: it is safe to run it again. */
class LostTransaction extends Error {
  constructor(name: string) {
    super(`transaction "${name}" was aborted with its connection`);
    this.name = 'LostTransaction';
  }
}

function firstWords(sql: string): string {
  return sql.trimStart().slice(0, 60).replace(/\s+/g, ' ');
}

interface SocketOf {
  connection?: { stream?: Socket };
}

/** Crash proofs: die with half of the next request out, or at the first bytes of its answer. */
function cutSocket(client: pg.PoolClient, half: { mode: 'half_written' | 'half_read'; die(): never }): void {
  const socket = (client as unknown as SocketOf).connection?.stream;
  if (socket === undefined) half.die();
  if (half.mode === 'half_read') {
    socket.prependOnceListener('data', () => half.die());
    return;
  }
  const write = socket.write.bind(socket);
  socket.write = (chunk: Uint8Array | string) => {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : Buffer.from(chunk);
    write(bytes.subarray(0, Math.max(1, bytes.length >> 1)), () => half.die());
    return true;
  };
}

/** Decodes a numeric or bigint column loudly: anything that is no whole number stops the process. */
export function toUnits(value: unknown, column: string): bigint {
  if (typeof value === 'bigint') return value;
  throw new InvariantBroken(`column ${column} should hold whole units, got ${String(value)}`);
}
export function toText(value: unknown, column: string): string {
  if (typeof value === 'string') return value;
  throw new InvariantBroken(`column ${column} should hold text, got ${String(value)}`);
}
