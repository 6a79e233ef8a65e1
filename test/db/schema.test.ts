/*
 * Goal: what no single statement shows but the catalog does: NULLs that slip through uniqueness, clocks that are not the
 * database's, money in types that lose digits. Method: questions to pg_catalog of a migrated database.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import pg from 'pg';
import { migrate } from '../../src/db/migrate.ts';
import { type TestDatabase, testDatabase, testServerUrl } from '../support/postgres.ts';

let database: TestDatabase;
let client: pg.Client;
before(async () => {
  database = await testDatabase('db schema');
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});
after(async () => {
  await client.end();
  await database.drop();
});

/** Columns of unique indexes that may be NULL, in indexes where NULLs are distinct and whose predicate does not say IS NOT NULL. */
const NULLS_THAT_PASS = `
  select i.indexrelid::regclass::text as index, a.attname as column
  from pg_index i
  join pg_class t on t.oid = i.indrelid
  join pg_namespace n on n.oid = t.relnamespace and n.nspname = $1
  cross join lateral unnest(i.indkey::int2[]) with ordinality as k (attnum, position)
  left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
  where i.indisunique
    and k.position <= i.indnkeyatts
    and not i.indnullsnotdistinct
    and (a.attnum is null or a.attnum = 0 or not a.attnotnull)
    and coalesce(pg_get_expr(i.indpred, i.indrelid), '') not like '%' || coalesce(a.attname, 'an expression') || ' IS NOT NULL%'
  order by 1, 2`;

test('case L12: no NULL slips through a unique index', async () => {
  assert.deepEqual((await client.query(NULLS_THAT_PASS, ['payonce'])).rows, []);
});

test('case L12: two NULL keys do go into an index that this test would name', async () => {
  await client.query('create schema careless; create table careless.keys (key text unique, place int)');
  await client.query('create unique index keys_place on careless.keys (place) where place is not null');
  await client.query('insert into careless.keys (key) values (null), (null)');
  const { rows } = await client.query(NULLS_THAT_PASS, ['careless']);
  assert.deepEqual(rows, [{ index: 'careless.keys_key_key', column: 'key' }]);
});

test('case K1: no amount stands in a type that cannot hold it', async () => {
  const { rows } = await client.query(`
    select c.relname || '.' || a.attname as column, format_type(a.atttypid, a.atttypmod) as type
    from pg_attribute a
    join pg_class c on c.oid = a.attrelid and c.relkind = 'r'
    join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'payonce'
    where a.attnum > 0 and not a.attisdropped
      and (a.atttypid in ('float4'::regtype, 'float8'::regtype, 'money'::regtype)
           or a.atttypid = 'numeric'::regtype and a.atttypmod <> ((78 << 16) | 0) + 4)`);
  assert.deepEqual(rows, []);
});

test("case L13: the time that decides is the database's, goes on inside a transaction, and is no session's to move", async () => {
  const { rows } = await client.query<{ first: Date; frozen: boolean; later: boolean }>(
    `select count(*) filter (where false), now() = transaction_timestamp() as frozen,
            payonce.now() <= clock_timestamp() as later from pg_sleep(0)`,
  );
  assert.deepEqual([rows[0]?.frozen, rows[0]?.later], [true, true]);

  await client.query('begin');
  const times = [];
  for (let nth = 0; nth < 2; nth += 1) {
    times.push((await client.query<{ now: Date; ours: Date }>('select now(), payonce.now() as ours')).rows[0]);
    await client.query('select pg_sleep(0.01)');
  }
  await client.query('commit');
  assert.equal(times[0]?.now.getTime(), times[1]?.now.getTime());
  assert.ok((times[1]?.ours.getTime() ?? 0) > (times[0]?.ours.getTime() ?? 0));

  const shifted = 'select extract(epoch from payonce.now() - clock_timestamp())::int as seconds';
  await client.query("set payonce.clock_shift_ms = '300000'");
  assert.equal((await client.query(shifted)).rows[0].seconds, 300, 'a test database may be shifted');
});

test('case L13: in a database that is no test database a shifted session clock is not believed', async () => {
  const server = new pg.Client({ connectionString: await testServerUrl() });
  await server.connect();
  const name = `real_clock_${process.pid}`;
  await server.query(`create database ${name}`);
  const url = new URL(await testServerUrl());
  url.pathname = `/${name}`;
  await migrate(url.href);
  const real = new pg.Client({ connectionString: url.href });
  await real.connect();
  for (const shift of ['300000', '-300000']) {
    await real.query(`set payonce.clock_shift_ms = '${shift}'`);
    const { rows } = await real.query('select abs(extract(epoch from payonce.now() - clock_timestamp())) < 1 as same');
    assert.equal(rows[0].same, true);
  }
  await real.end();
  await server.query(`drop database ${name} with (force)`);
  await server.end();
});

test("case L13: no column of ours takes its time from a transaction's frozen clock", async () => {
  const { rows } = await client.query(`
    select d.adrelid::regclass::text || '.' || a.attname as column, pg_get_expr(d.adbin, d.adrelid) as default
    from pg_attrdef d
    join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
    join pg_class c on c.oid = d.adrelid
    join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'payonce'
    where pg_get_expr(d.adbin, d.adrelid) ~* '(^|[^.])\\m(now\\(\\)|current_timestamp|transaction_timestamp|statement_timestamp)'`);
  assert.deepEqual(rows, []);
});
