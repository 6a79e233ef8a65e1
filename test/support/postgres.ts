/*
 * A database per test file, copied from a template that is migrated once per server. The server is the run's own
 * (global-setup.ts); a file that is run alone starts one, which ends with its process.
 */
import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/db/embedded.ts';
import { migrate } from '../../src/db/migrate.ts';

export interface TestDatabase {
  readonly url: string;
  /** Ends its connections and drops it. Not needed for tidiness: the server's data is deleted after the run. */
  drop(): Promise<void>;
}

export const SERVER_VARIABLE = 'PAYONCE_TEST_POSTGRES_URL';

/** Without fsync a commit survives SIGKILL of every process, only not the machine: enough for tests of logic, and several
 *  times faster. Tests of crashes start a durable server of their own; PAYONCE_TEST_DURABLE=1 makes this one durable. */
const FAST_SETTINGS = { fsync: 'off', full_page_writes: 'off' };

const TEMPLATE = 'payonce_template';
const TEMPLATE_UNFINISHED = 'payonce_template_unfinished';
/** Advisory lock under which the template is made. */
const TEMPLATE_LOCK = 7_236_001;
/** PostgreSQL cuts names at 63 bytes; the random part must stay. */
const LABEL_LENGTH_MAX = 40;

let ownServer: Promise<EmbeddedPostgres> | undefined;

export function startTestServer(): Promise<EmbeddedPostgres> {
  return startEmbeddedPostgres({ settings: process.env['PAYONCE_TEST_DURABLE'] === '1' ? {} : FAST_SETTINGS });
}

/** Superuser's URL of the server that the tests share. */
export async function testServerUrl(): Promise<string> {
  const given = process.env[SERVER_VARIABLE];
  if (given !== undefined) return given;
  ownServer ??= startTestServer();
  return (await ownServer).url;
}

/** A migrated database of its own. `label` makes it recognizable in the server's log. */
export async function testDatabase(label = 'test'): Promise<TestDatabase> {
  const serverUrl = await testServerUrl();
  const name = `${label
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .slice(0, LABEL_LENGTH_MAX)}_${randomBytes(6).toString('hex')}`;
  await asSuperuser(serverUrl, async (client) => {
    await readyTemplate(client, serverUrl);
    await client.query(`CREATE DATABASE "${name}" TEMPLATE ${TEMPLATE}`);
  });
  return {
    url: databaseUrl(serverUrl, name),
    drop: () =>
      asSuperuser(serverUrl, async (client) => {
        await client.query(`DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`);
      }),
  };
}

/** A folder for a durable server that a test starts itself and crashes. Passable by others: from a closed one root's
 *  server would move its data to /var/lib/payonce, where nobody would delete it after the test. */
export function durableDataFolder(): { readonly folder: string; remove(): void } {
  const parent = mkdtempSync(join(tmpdir(), 'payonce-test-data-'));
  chmodSync(parent, 0o755);
  return { folder: join(parent, 'data'), remove: () => rmSync(parent, { recursive: true, force: true }) };
}

/**
 * Made under another name and renamed when migrated, so that a killed run leaves no half-migrated template. Nobody can
 * connect to it afterwards: a copy of a database that somebody uses is refused.
 */
async function readyTemplate(client: pg.Client, serverUrl: string): Promise<void> {
  await client.query('SELECT pg_advisory_lock($1)', [TEMPLATE_LOCK]);
  try {
    const found = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [TEMPLATE]);
    if (found.rowCount !== 0) return;
    await client.query(`DROP DATABASE IF EXISTS ${TEMPLATE_UNFINISHED} WITH (FORCE)`);
    await client.query(`CREATE DATABASE ${TEMPLATE_UNFINISHED}`);
    await migrate(databaseUrl(serverUrl, TEMPLATE_UNFINISHED), { test: true });
    await client.query(`ALTER DATABASE ${TEMPLATE_UNFINISHED} ALLOW_CONNECTIONS false`);
    await client.query(`ALTER DATABASE ${TEMPLATE_UNFINISHED} RENAME TO ${TEMPLATE}`);
  } finally {
    await client.query('SELECT pg_advisory_unlock($1)', [TEMPLATE_LOCK]);
  }
}

async function asSuperuser(serverUrl: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

function databaseUrl(serverUrl: string, name: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}
