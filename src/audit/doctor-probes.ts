/**
 * The semantics that everything stands on, each shown by two transactions at once. A row of `payonce.settings` is the
 * stage: made, raced for, and deleted again. Every probe has a time limit, so that a wait is an answer.
 */
import { type Pool, sqlState, type Tx } from '../db/pool.ts';
import type { Ports } from '../kernel/ports.ts';
import type { Finding } from './finding.ts';

const NAME_PREFIX = 'doctor:';
/** A killed doctor leaves a row; the next one after this takes it away, and never a live one's. */
const LEFT_OVER_MS = 3_600_000;
/** What should not wait at all has failed when it waits so long. */
const PROBE_LOCK_MS = 2_000;
/** What should wait is believed to wait after this; too short and a slow server passes for a right one. */
const SHOULD_WAIT_MS = 100;

const INSERT = 'insert into payonce.settings (name, value) values ($1, $2)';
const DELETE = 'delete from payonce.settings where name = $1';

/** Runs `second` while the transaction of `first` is open, then ends that one. */
async function during<T>(pool: Pool, first: (tx: Tx) => Promise<unknown>, second: () => Promise<T>): Promise<T> {
  const ready = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  const open = pool.tx('doctor, first', async (tx) => {
    await first(tx);
    ready.resolve();
    await over.promise;
  });
  try {
    await Promise.race([ready.promise, open]);
    return await second();
  } finally {
    over.resolve();
    await open;
  }
}

function second<T>(pool: Pool, work: (tx: Tx) => Promise<T>): Promise<T> {
  return pool.tx('doctor, second', async (tx) => {
    await tx.query(`set local lock_timeout = ${PROBE_LOCK_MS}`);
    return work(tx);
  });
}

export async function probeSemantics(pool: Pool, ports: Ports): Promise<Finding[]> {
  await sweep(pool, ports);
  const stem = `${NAME_PREFIX}${ports.clock.now().getTime()}:${Buffer.from(ports.chance.bytes(8)).toString('hex')}`;
  const findings: Finding[] = [];
  try {
    findings.push(
      await probe('skip_locked', 'SKIP LOCKED skips a locked row and finds it again after', () =>
        skipLocked(pool, `${stem}:row`),
      ),
      await probe('unique', 'a second copy of a key is refused, after waiting for the first', () =>
        unique(pool, ports, `${stem}:key`),
      ),
      await probe('advisory_lock', 'an advisory lock excludes and is given back at the end of its transaction', () =>
        advisory(pool, stem),
      ),
      await probe('read_committed', 'READ COMMITTED sees what others have committed meanwhile', () =>
        readCommitted(pool, `${stem}:seen`),
      ),
    );
  } finally {
    for (const part of ['row', 'key', 'seen']) await pool.query(DELETE, [`${stem}:${part}`]);
  }
  return findings;
}

/** `run` answers what is wrong, or null. */
async function probe(name: string, right: string, run: () => Promise<string | null>): Promise<Finding> {
  let wrong: string | null;
  try {
    wrong = await run();
  } catch (error) {
    wrong = error instanceof Error ? error.message : 'unknown fault';
  }
  if (wrong === null) return { name, level: 'ok', found: right, hint: '' };
  return {
    name,
    level: 'refuse',
    found: wrong,
    hint: 'Payments would be made twice on this. Use PostgreSQL 16 or newer, directly or behind a pooler in transaction mode.',
  };
}

async function sweep(pool: Pool, ports: Ports): Promise<void> {
  const { rows } = await pool.query<{ name: string }>('select name from payonce.settings where name like $1', [
    `${NAME_PREFIX}%`,
  ]);
  const before = ports.clock.now().getTime() - LEFT_OVER_MS;
  for (const { name } of rows) {
    const made = /^doctor:(\d{1,15}):/.exec(name)?.[1];
    if (made !== undefined && Number(made) < before) await pool.query(DELETE, [name]);
  }
}

const LOCK_ROW = 'select name from payonce.settings where name = $1 for update';

async function skipLocked(pool: Pool, name: string): Promise<string | null> {
  await pool.query(INSERT, [name, 'row']);
  const take = (): Promise<number> =>
    second(pool, async (tx) => (await tx.query(`${LOCK_ROW} skip locked`, [name])).rowCount);
  const locked = await during(pool, (tx) => tx.query(LOCK_ROW, [name]), take);
  if (locked !== 0) return 'SKIP LOCKED gave a row that another transaction holds';
  return (await take()) === 1 ? null : 'a row stays locked after its transaction has ended';
}

async function unique(pool: Pool, ports: Ports, name: string): Promise<string | null> {
  const insert = (): Promise<string | undefined> =>
    second(pool, (tx) => tx.query(INSERT, [name, 'second'])).then(
      () => undefined,
      (error: unknown) => sqlState(error) ?? 'no code',
    );
  // While the first is open the second can only wait; it is let go on by the first one's commit.
  const waiting = await during(
    pool,
    (tx) => tx.query(INSERT, [name, 'first']),
    async () => {
      const state = insert();
      const outcome = await Promise.race([state, ports.clock.sleep(SHOULD_WAIT_MS).then(() => 'waits')]);
      return { outcome, state };
    },
  );
  const state = await waiting.state;
  if (waiting.outcome !== 'waits') return 'a second copy of a key did not wait for the first transaction';
  if (state !== '23505')
    return `a second copy of a key was ${state === undefined ? 'taken' : `answered with ${state}`}`;
  return (await insert()) === '23505' ? null : 'a second copy of a committed key was taken';
}

async function advisory(pool: Pool, name: string): Promise<string | null> {
  const lock = 'select pg_advisory_xact_lock(hashtextextended($1, 0))';
  const take = (): Promise<boolean> =>
    second(pool, async (tx) => {
      const sql = 'select pg_try_advisory_xact_lock(hashtextextended($1, 0)) as got';
      return (await tx.query<{ got: boolean }>(sql, [name])).rows[0]?.got === true;
    });
  const both = await during(pool, (tx) => tx.query(lock, [name]), take);
  if (both) return 'two transactions hold one advisory lock';
  return (await take()) ? null : 'an advisory lock stays after its transaction has ended';
}

async function readCommitted(pool: Pool, name: string): Promise<string | null> {
  return second(pool, async (tx) => {
    const { rows } = await tx.query<{ level: string }>("select current_setting('transaction_isolation') as level");
    return rows[0]?.level ?? 'unknown';
  }).then(async (level) => {
    if (level !== 'read committed') return `transactions run at ${level}`;
    const seen = await seesCommit(pool, name);
    return seen ? null : 'a statement does not see what was committed before it began';
  });
}

async function seesCommit(pool: Pool, name: string): Promise<boolean> {
  const began = Promise.withResolvers<void>();
  const written = Promise.withResolvers<void>();
  const sql = 'select 1 from payonce.settings where name = $1';
  const reader = pool.tx('doctor, reader', async (tx) => {
    const before = (await tx.query(sql, [name])).rowCount;
    began.resolve();
    await written.promise;
    return before === 0 && (await tx.query(sql, [name])).rowCount === 1;
  });
  try {
    await Promise.race([began.promise, reader]);
    await pool.query(INSERT, [name, 'seen']);
  } finally {
    written.resolve();
    await Promise.allSettled([reader]);
  }
  return reader;
}
