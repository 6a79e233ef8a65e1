/*
 * Goal: a schema is exactly what its files say, or the start is refused. Method: folders of small migrations on empty
 * databases, and the real ones by two starters at once.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { migrate, readMigrations, schemaFits } from '../../src/db/migrate.ts';
import { PayonceError } from '../../src/kernel/errors.ts';
import { testServerUrl } from '../support/postgres.ts';

let serverUrl: string;
let admin: pg.Client;
let folder: string;
const databases: string[] = [];

before(async () => {
  serverUrl = await testServerUrl();
  admin = new pg.Client({ connectionString: serverUrl });
  await admin.connect();
  folder = await mkdtemp(join(tmpdir(), 'payonce-migrations-'));
  await write('0001_first.sql', 'create table payonce.first (id int primary key);');
  await write('0002_second.sql', 'create table payonce.second (id int primary key);');
});
after(async () => {
  for (const name of databases) await admin.query(`drop database if exists "${name}" with (force)`);
  await admin.end();
  await rm(folder, { recursive: true });
});

const write = (name: string, sql: string): Promise<void> => writeFile(join(folder, name), sql);

async function emptyDatabase(): Promise<string> {
  const name = `migrate_${process.pid}_${databases.length}`;
  databases.push(name);
  await admin.query(`create database "${name}"`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

async function rowsOf(url: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

const isSchemaFault =
  (text: RegExp) =>
  (error: unknown): boolean =>
    error instanceof PayonceError && error.code === 'PO_DB_SCHEMA' && text.test(error.message);

test('migrations are applied in order, once', async () => {
  const url = await emptyDatabase();
  assert.deepEqual(await migrate(url, { folder }), { applied: ['0001_first', '0002_second'] });
  assert.deepEqual(await migrate(url, { folder }), { applied: [] });
  assert.equal((await rowsOf(url, 'select * from payonce.migrations')).length, 2);
});

test('a file that was edited after it was applied refuses to start', async () => {
  const url = await emptyDatabase();
  await migrate(url, { folder });
  await write('0002_second.sql', 'create table payonce.second (id bigint primary key);');
  await assert.rejects(migrate(url, { folder }), isSchemaFault(/0002_second was edited/));
  await write('0002_second.sql', 'create table payonce.second (id int primary key);');
  await migrate(url, { folder });
});

test('a schema that is newer than the code refuses to start', async () => {
  const url = await emptyDatabase();
  await write('0003_third.sql', 'create table payonce.third (id int primary key);');
  await migrate(url, { folder });
  await rm(join(folder, '0003_third.sql'));
  await assert.rejects(migrate(url, { folder }), isSchemaFault(/does not know: 0003_third/));
});

test('a migration that fails leaves nothing of itself, and those before it stay', async () => {
  const url = await emptyDatabase();
  await write('0003_broken.sql', 'create table payonce.third (id int primary key); select 1 / 0;');
  await assert.rejects(migrate(url, { folder }), /division by zero/);
  await rm(join(folder, '0003_broken.sql'));
  assert.deepEqual(await rowsOf(url, 'select id from payonce.migrations order by id'), [
    { id: '0001_first' },
    { id: '0002_second' },
  ]);
  assert.deepEqual(await rowsOf(url, "select to_regclass('payonce.third') as third"), [{ third: null }]);
});

test('four starters at once bring one schema, each migration by one of them', async () => {
  const url = await emptyDatabase();
  const results = await Promise.all(Array.from({ length: 4 }, () => migrate(url)));
  const applied = results.flatMap((result) => result.applied);
  assert.deepEqual(
    applied.toSorted(),
    readMigrations().map((migration) => migration.id),
  );
  assert.equal(await schemaFits(url), true);
});

test('a server that must not migrate by itself sees whether the schema is its own', async () => {
  const url = await emptyDatabase();
  assert.equal(await schemaFits(url), false);
  await migrate(url, { folder });
  assert.equal(await schemaFits(url), false);
});

test('only a new database becomes a test database', async () => {
  const url = await emptyDatabase();
  await migrate(url);
  await migrate(url, { test: true });
  assert.deepEqual(await rowsOf(url, 'select name from payonce.settings'), []);
});
