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
    if (oid === 1231) return (text: string) => (text === '{}' ? [] : text.slice(1, -1).split(',').map((part) => BigInt(part)));
    return pg.types.getTypeParser(oid, format as 'text');
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
  return !(error instanceof InvariantBroken) && !(error instanceof PayonceError) && error instanceof Error && (state !== undefined || /[Cc]onnection|timeout exceeded when trying to connect/.test(error.message));
}

const BEGIN = `begin isolation level read committed read write;
set local statement_timeout = ${limits.STATEMENT_TIMEOUT_MS};
set local lock_timeout = ${limits.LOCK_TIMEOUT_MS};
set local idle_in_transaction_session_timeout = ${limits.IDLE_IN_TRANSACTION_MS}`;

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
  } as pg.PoolConfig);
  pool.on('error', (error) => log.warn({ err: error }, 'an idle database connection was lost'));
  const counts = { commits: 0, statements: 0, reruns: 0, unknownCommits: 0 };

  function run<R extends Row>(client: pg.PoolClient, sql: string, values?: readonly unknown[]): Promise<Result<R>> {
    counts.statements += 1;
    return ports.gate.pass('db', firstWords(sql), async (half) => {
      if (half !== null) cutSocket(client, half);
      const result = await client.query(sql, values === undefined ? undefined : [...values]);
      return { rows: result.rows as R[], rowCount: result.rowCount ?? 0 };
    });
  }

  async function acquire(): Promise<pg.PoolClient> {
    const open = transactionInContext();
    if (open !== undefined) throw new InvariantBroken(`a second connection was asked for inside transaction "${open}" (case L10)`);
    try {
      const client = await pool.connect();
      if (client.listenerCount('error') === 0) client.on('error', (error) => log.warn({ err: error }, 'a database connection was lost'));
      return client;
    } catch (error) {
      throw new PayonceError('PO_DB_UNAVAILABLE', { moneyState: 'not_sent', internal: error });
    }
  }

  async function runOnce<T>(name: string, work: (tx: Tx) => Promise<T>): Promise<T> {
    const client = await acquire();
    let broken = false;
    const after: (() => void)[] = [];
    try {
      const begun = run(client, BEGIN);
      const named = run<{ xid: string }>(client, 'select pg_current_xact_id()::text as xid');
      begun.catch(() => {});
      named.catch(() => {});
      const tx: Tx = {
        name,
        query: (sql, values) => run(client, sql, values),
        afterCommit: (act) => after.push(act),
      };
      let value: T;
      try {
        value = await insideTransaction(name, async () => {
          await begun;
          return work(tx);
        });
      } catch (error) {
        broken = isConnectionLost(error);
        if (!broken) {
          await run(client, 'rollback').catch(() => {
            broken = true;
          });
        }
        throw error;
      }
      const xid = (await named).rows[0]?.xid;
      await commit(client, name, xid).catch((error: unknown) => {
        broken = true;
        throw error;
      });
      counts.commits += 1;
      for (const act of after) act();
      return value;
    } finally {
      client.release(broken);
    }
  }

  async function commit(client: pg.PoolClient, name: string, xid: string | undefined): Promise<void> {
    let tag: string;
    try {
      counts.statements += 1;
      tag = await ports.gate.pass('db', 'commit', async (half) => {
        if (half !== null) cutSocket(client, half);
        return (await client.query('commit')).command;
      });
    } catch (error) {
      if (!isConnectionLost(error)) throw error;
      counts.unknownCommits += 1;
      log.warn({ transaction: name, err: error }, 'a COMMIT was not answered; asking for its fate');
      const fate = await fateOf(xid);
      if (fate === 'committed') return;
      if (fate === 'aborted') throw new LostTransaction(name);
      throw new PayonceError('PO_DB_COMMIT_UNKNOWN', { internal: error });
    }
    if (tag !== 'COMMIT') throw new PayonceError('PO_INTERNAL', { internal: `COMMIT of "${name}" answered ${tag}` });
  }

  /** Asks the server what became of a transaction, on a new connection; waits while it is still in progress. */
  async function fateOf(xid: string | undefined): Promise<'committed' | 'aborted' | 'unknown'> {
    if (xid === undefined) return 'unknown';
    for (let attempt = 0; attempt < limits.TRANSACTION_RUNS_MAX; attempt += 1) {
      await ports.clock.sleep(attempt === 0 ? 0 : 50 * 2 ** attempt);
      let client: pg.PoolClient | undefined;
      try {
        client = await pool.connect();
        const { rows } = await run<{ status: string | null }>(client, 'select pg_xact_status($1::xid8) as status', [xid]);
        client.release();
        const status = rows[0]?.status;
        if (status === 'committed' || status === 'aborted') return status;
        if (status === null) return 'unknown';
      } catch (error) {
        client?.release(true);
        // A server that does not know this id (another timeline) cannot tell; one that is down may come back.
        if (!isConnectionLost(error)) return 'unknown';
      }
    }
    return 'unknown';
  }

  return {
    counts,
    url: options.url,
    end: () => pool.end(),
    async query(sql, values) {
      const client = await acquire();
      let broken = false;
      try {
        return await run(client, sql, values);
      } catch (error) {
        broken = isConnectionLost(error);
        throw error;
      } finally {
        client.release(broken);
      }
    },
    async tx(name, work) {
      for (let runs = 1; ; runs += 1) {
        try {
          return await runOnce(name, work);
        } catch (error) {
          const state = sqlState(error);
          const again = state === '40001' || state === '40P01' || state === '55P03' || error instanceof LostTransaction;
          if (!again || runs >= limits.TRANSACTION_RUNS_MAX) throw error;
          counts.reruns += 1;
          log.debug({ transaction: name, state, runs }, 'a transaction is run again');
          await ports.clock.sleep(ports.chance.fraction() * 5 * 2 ** runs);
        }
      }
    },
  };
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
  connection?: { stream?: import('node:net').Socket };
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
  socket.write = ((chunk: Uint8Array | string) => {
    const bytes = Buffer.from(chunk as Uint8Array);
    write(bytes.subarray(0, Math.max(1, bytes.length >> 1)), () => half.die());
    return true;
  }) as typeof socket.write;
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
