/*
 * Compares schema.sql with the schema that the migrations make (on an embedded PostgreSQL, or on DATABASE_URL's server in
 * a database of its own), or writes it with --write. So a migration's effect is a diff that a reviewer reads.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { diff } from 'node:util';
import pg from 'pg';
import { startEmbeddedPostgres } from '../src/db/embedded.ts';
import { migrate } from '../src/db/migrate.ts';
import { root } from './copy-tree.ts';
import { printSchema } from './schema-catalog.ts';

const PAGE = join(root, 'schema.sql');
const DATABASE = `payonce_schema_${process.pid}`;

/** More lines than this say no more than "run npm run schema". */
const DIFFERING_LINES_MAX = 40;

async function onServer<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

async function printFrom(server: string): Promise<string> {
  const target = new URL(server);
  target.pathname = `/${DATABASE}`;
  await onServer(server, async (client) => await client.query(`create database ${DATABASE}`));
  try {
    await migrate(target.href, { test: true });
    return await onServer(target.href, async (client) => await printSchema(client, 'payonce'));
  } finally {
    await onServer(server, async (client) => await client.query(`drop database ${DATABASE} with (force)`));
  }
}

async function migratedSchema(): Promise<string> {
  const given = process.env['DATABASE_URL'];
  if (given !== undefined && given !== '') return await printFrom(given);
  // Nothing here outlives this process, so nothing needs to reach the disk.
  const server = await startEmbeddedPostgres({ settings: { fsync: 'off', synchronous_commit: 'off' } });
  try {
    return await printFrom(server.url);
  } finally {
    await server.stop();
  }
}

function differingLines(before: string, after: string): string[] {
  const changed = diff(before.split('\n'), after.split('\n')).filter(([operation]) => operation !== 0);
  const shown = changed
    .slice(0, DIFFERING_LINES_MAX)
    .map(([operation, line]) => `${operation > 0 ? '+' : '-'} ${line}`);
  return changed.length > shown.length ? [...shown, `… ${changed.length - shown.length} more`] : shown;
}

const text = await migratedSchema();
if (process.argv.includes('--write')) writeFileSync(PAGE, text);
const committed = existsSync(PAGE) ? readFileSync(PAGE, 'utf8') : '';
if (committed === text) {
  console.log(`schema.sql is what the migrations make (${text.split('\n').length} lines)`);
} else {
  console.error(differingLines(committed, text).join('\n'));
  console.error(
    'schema.sql differs from what the migrations make: run `npm run schema` and commit it with the migration',
  );
  process.exitCode = 1;
}
