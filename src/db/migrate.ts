/**
 * Migrations: numbered SQL files of `migrations/`, forward only, each in one transaction with its checksum.
 *
 * Promises: the file's id is inserted first in its transaction, so that two starters cannot both run it; an edited file
 * that was applied before refuses to start; a schema newer than the code is refused. Runs on a direct connection.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { PayonceError } from '../kernel/errors.ts';

/** In a clone this file is src/db, in the package dist/db: the folder lies two levels up in both. */
const FOLDER = fileURLToPath(new URL('../../migrations', import.meta.url));
/** Waiting longer for a lock would queue every payment behind the migration. */
const LOCK_TIMEOUT_MS = 5_000;

export interface Migration {
  id: string;
  sql: string;
  checksum: string;
}

export function readMigrations(folder = FOLDER): Migration[] {
  return readdirSync(folder)
    .filter((name) => /^\d{4}_.+\.sql$/.test(name))
    .sort()
    .map((name) => {
      const sql = readFileSync(`${folder}/${name}`, 'utf8');
      return { id: name.replace(/\.sql$/, ''), sql, checksum: createHash('sha256').update(sql).digest('hex') };
    });
}

/** Brings the schema `payonce` up to date. `test` marks a new database as one whose clock tests may shift. */
export async function migrate(
  url: string,
  options: { test?: boolean; folder?: string } = {},
): Promise<{ applied: string[] }> {
  const client = new pg.Client({ connectionString: url, application_name: 'payonce-migrate' });
  client.on('error', () => {});
  await client.connect();
  const applied: string[] = [];
  try {
    await client.query('begin');
    await client.query("select pg_advisory_xact_lock(hashtextextended('payonce.migrate', 0))");
    await client.query('create schema if not exists payonce');
    await client.query(`create table if not exists payonce.migrations (
      id text primary key,
      checksum text not null,
      applied_at timestamptz not null default clock_timestamp()
    )`);
    await client.query('commit');
    for (const migration of readMigrations(options.folder)) {
      if (await applyOne(client, migration)) applied.push(migration.id);
    }
    await refuseNewer(client, options.folder);
    if (options.test === true && applied[0]?.startsWith('0001') === true) {
      await client.query("insert into payonce.settings (name, value) values ('test_database', 'true')");
    }
  } finally {
    await client.end();
  }
  return { applied };
}

async function applyOne(client: pg.Client, migration: Migration): Promise<boolean> {
  await client.query('begin');
  try {
    await client.query(`set local lock_timeout = ${LOCK_TIMEOUT_MS}`);
    const inserted = await client.query(
      'insert into payonce.migrations (id, checksum) values ($1, $2) on conflict (id) do nothing',
      [migration.id, migration.checksum],
    );
    if (inserted.rowCount === 0) {
      const { rows } = await client.query<{ checksum: string }>(
        'select checksum from payonce.migrations where id = $1',
        [migration.id],
      );
      await client.query('rollback');
      if (rows[0]?.checksum !== migration.checksum) {
        throw new PayonceError('PO_DB_SCHEMA', { detail: `migration ${migration.id} was edited after it was applied` });
      }
      return false;
    }
    await client.query(migration.sql);
    const done = await client.query('commit');
    if (done.command !== 'COMMIT')
      throw new PayonceError('PO_DB_SCHEMA', { detail: `migration ${migration.id} did not commit` });
    return true;
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  }
}

async function refuseNewer(client: pg.Client, folder?: string): Promise<void> {
  const known = new Set(readMigrations(folder).map((migration) => migration.id));
  const { rows } = await client.query<{ id: string }>('select id from payonce.migrations order by id');
  const newer = rows.map((row) => row.id).filter((id) => !known.has(id));
  if (newer.length > 0) {
    throw new PayonceError('PO_DB_SCHEMA', {
      detail: `the database has migrations that this version does not know: ${newer.join(', ')}`,
    });
  }
}

/** Whether the schema is exactly this version's; for start-up of a server that must not migrate by itself. */
export async function schemaFits(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    const { rows } = await client.query<{ id: string; checksum: string }>(
      'select id, checksum from payonce.migrations order by id',
    );
    const wanted = readMigrations();
    return (
      rows.length === wanted.length &&
      wanted.every((one, index) => rows[index]?.id === one.id && rows[index]?.checksum === one.checksum)
    );
  } catch {
    return false;
  } finally {
    await client.end();
  }
}
