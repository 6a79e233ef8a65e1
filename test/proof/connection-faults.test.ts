/*
 * Goal: whatever happens to a connection, money moves once and every caller is told the truth. Method: the life of a withdrawal
 * on a real PostgreSQL, with its backend killed at each statement, each COMMIT's answer cut in two, servers that are gone
 * without a word, clocks that jump, pools of one and two, and PgBouncer in transaction mode between. Judges: the rail's own book
 * and the invariants.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { startTcpProxy, type TcpProxy } from '../../sim/tcp-proxy.ts';
import { isCommitDone } from '../../sim/wire-frames.ts';
import { claimSealed } from '../../src/engine/claims.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import type { Gate } from '../../src/kernel/ports.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { railOf } from '../engine/noop-scene.ts';
import { AMOUNT, assertPaid, drain, type LifeWorld, makeLifeWorld, processOf, takeOne } from './faults/life.ts';

/** Should a life have more calls than anybody thinks. */
const ORDINALS_MAX = 500;

/** Somebody else's connection: what faults and onlookers use, who are in no transaction of ours. */
async function outsider(t: TestContext, world: LifeWorld): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: world.url });
  // The database is dropped before it ends: that is no fault.
  client.on('error', () => undefined);
  await client.connect();
  t.after(() => client.end());
  return client;
}

/** A gate that does something right before the database call of this number. */
function gateAt(ordinal: number, act: (name: string) => Promise<void>): Gate & { readonly calls: () => number } {
  const counts = { db: 0, http: 0, signer: 0 };
  return {
    counts: () => counts,
    calls: () => counts.db,
    async pass(kind, name, call) {
      counts[kind] += 1;
      if (kind === 'db' && counts.db === ordinal) await act(name);
      return call(null);
    },
  };
}

async function proxied(t: TestContext, world: LifeWorld): Promise<{ proxy: TcpProxy; url: string }> {
  const url = new URL(world.url);
  const proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port), protocol: 'postgres' });
  t.after(() => proxy.stop());
  url.port = String(proxy.port);
  return { proxy, url: url.href };
}

for (const connectionsMax of [1, 2]) {
  test(`a backend killed before each statement of a withdrawal’s life, pool of ${connectionsMax}: paid once each (req W12, case L10, inv E1, E6, L5)`, async (t) => {
    const world = await makeLifeWorld(`killed ${connectionsMax}`);
    t.after(() => world.end());
    const killer = await outsider(t, world);
    let [taken, refused, killed] = [0, 0, 0];
    for (let ordinal = 1; ; ordinal += 1) {
      assert.ok(ordinal < ORDINALS_MAX);
      let fired = '';
      const gate = gateAt(ordinal, async (name) => {
        fired = name;
        const { rowCount } = await killer.query(
          "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and application_name = 'victim'",
        );
        killed += rowCount ?? 0;
      });
      const victim = processOf(world, world.url, { connectionsMax, gate, applicationName: 'victim' });
      const faults: unknown[] = [];
      await takeOne(victim.engine, world.request({ amount: AMOUNT }), faults);
      taken += 1;
      await drain(world, victim.engine, faults);
      await victim.end();
      refused += faults.length;
      if (fired === '') {
        t.diagnostic(
          `${ordinal - 1} statements, ${killed} backends killed; ${refused} times the caller was told and asked again`,
        );
        assert.ok(ordinal > 20, 'a life has more statements than that');
        // All but the very first one, which finds no connection yet.
        assert.ok(killed >= ordinal - 2, `${killed} backends killed at ${ordinal - 1} statements`);
        break;
      }
    }
    await assertPaid(world, taken);
  });
}

test('the answer to each COMMIT of a life cut between CommandComplete and ReadyForQuery, pools of one and two: nothing twice, nothing lost (req W12, case L10, inv E1, E15)', async (t) => {
  const world = await makeLifeWorld('commit cut');
  t.after(() => world.end());
  const { proxy, url } = await proxied(t, world);
  let taken = 0;
  for (const connectionsMax of [1, 2]) {
    let resolved = 0;
    for (let nth = 1; ; nth += 1) {
      assert.ok(nth < ORDINALS_MAX);
      let seen = 0;
      const withdraw = proxy.cutWhenServer((frame) => isCommitDone(frame) && (seen += 1) === nth, 'after');
      const before = proxy.counts.cutByRule;
      const caller = processOf(world, url, { connectionsMax });
      const faults: unknown[] = [];
      await takeOne(caller.engine, world.request({ amount: AMOUNT }), faults);
      taken += 1;
      await drain(world, caller.engine, faults);
      resolved += caller.pool.counts.unknownCommits;
      await caller.end();
      withdraw();
      if (proxy.counts.cutByRule > before) continue;
      assert.ok(nth > 4, 'a life has more commits than that');
      t.diagnostic(`pool of ${connectionsMax}: ${nth - 1} COMMITs cut, ${resolved} asked for their fate`);
      assert.equal(resolved, nth - 1);
      break;
    }
  }
  await assertPaid(world, taken);
});

test('a server that is gone without a word holds nobody for ever: a transaction is given up, and its COMMIT asked for its fate (req W12, case L10)', async (t) => {
  const world = await makeLifeWorld('half open');
  t.after(() => world.end());
  const { proxy, url } = await proxied(t, world);
  const caller = processOf(world, url, { connectionsMax: 1 });
  t.after(() => caller.end());
  const faults: unknown[] = [];
  await takeOne(caller.engine, world.request({ amount: AMOUNT }), faults);
  const request = world.request({ amount: AMOUNT });
  proxy.blackhole(true);
  const began = performance.now();
  const lost = createWithdrawals(caller.engine, [request]);
  // Old connections stay black; whoever comes anew is served.
  await sleep(500);
  proxy.blackhole(false);
  await assert.rejects(lost, /Query read timeout/);
  const waited = performance.now() - began;
  t.diagnostic(`given up after ${(waited / 1_000).toFixed(1)} s; ${proxy.counts.swallowedFrames} frames swallowed`);
  assert.ok(proxy.counts.swallowedFrames > 0, 'the fault never fired');
  await takeOne(caller.engine, request, faults);
  await drain(world, caller.engine, faults);
  assert.deepEqual(faults, []);
  await assertPaid(world, 2);
});

test('a COMMIT that is swallowed with its server half open is asked for its fate, and the work is done once (req W12)', async (t) => {
  const world = await makeLifeWorld('half open commit');
  t.after(() => world.end());
  const { proxy, url } = await proxied(t, world);
  const counts = { db: 0, http: 0, signer: 0 };
  let fired = 0;
  const gate: Gate = {
    counts: () => counts,
    async pass(_kind, name, call) {
      if (name.startsWith('commit withdrawal') && fired === 0) {
        fired += 1;
        proxy.blackhole(true);
        setTimeout(() => proxy.blackhole(false), 500);
      }
      return call(null);
    },
  };
  const caller = processOf(world, url, { connectionsMax: 1, gate });
  t.after(() => caller.end());
  const faults: unknown[] = [];
  await takeOne(caller.engine, world.request({ amount: AMOUNT }), faults);
  assert.equal(fired, 1);
  assert.equal(caller.pool.counts.unknownCommits, 1);
  await drain(world, caller.engine, faults);
  await assertPaid(world, 1);
});

test('the database’s clock an hour ahead and an hour back at each step of a life: paid once each, and leases in the future end (req R12, inv E1, E14)', async (t) => {
  const world = await makeLifeWorld('clock jumps');
  t.after(() => world.end());
  await world.pool.query('create table public.jumped (ms bigint not null)');
  await world.pool.query('insert into public.jumped values (0)');
  await world.pool.query(
    `create or replace function payonce.now() returns timestamptz language sql volatile
     as $$ select clock_timestamp() + make_interval(secs => ms::float8 / 1000) from public.jumped $$`,
  );
  const jumper = await outsider(t, world);
  const HOUR_MS = 3_600_000;
  let [taken, jumps] = [0, 0];
  for (const first of [HOUR_MS, -HOUR_MS]) {
    for (let ordinal = 1; ; ordinal += 1) {
      assert.ok(ordinal < ORDINALS_MAX);
      let fired = false;
      const gate = gateAt(ordinal, async () => {
        fired = true;
        jumps += 1;
        await jumper.query('update public.jumped set ms = ms + $1', [first]);
      });
      const worker = processOf(world, world.url, { gate });
      const faults: unknown[] = [];
      await takeOne(worker.engine, world.request({ amount: AMOUNT }), faults);
      taken += 1;
      await drain(world, worker.engine, faults);
      await worker.end();
      assert.deepEqual(faults, []);
      await world.pool.query('update public.jumped set ms = 0');
      if (!fired) break;
      // Every statement in one direction; in the other one in three is enough.
      if (first < 0) ordinal += 2;
    }
  }
  t.diagnostic(`${jumps} jumps of an hour`);
  // E6 is told by times: after a clock was set back, an answer looks older than its seal. That alarm is people's to look at.
  await assertPaid(world, taken, { without: ['E6'] });
});

test('a claim locks no more rows than it takes, under whatever plan, also when it has to sort them (case L17)', async (t) => {
  const world = await makeLifeWorld('claim locks');
  t.after(() => world.end());
  const many = 30;
  await createWithdrawals(
    world,
    Array.from({ length: many }, () => world.request({ amount: AMOUNT })),
  );
  await advanceOnce(world.engine, railOf(world));
  await world.pool.query(
    "update payonce.effects set next_at = payonce.now() - interval '1 second', lease_until = null",
  );
  const onlooker = await outsider(t, world);
  for (const off of [[], ['indexscan', 'bitmapscan', 'indexonlyscan'], ['seqscan'], ['hashjoin', 'mergejoin']]) {
    await world.pool.tx('claim', async (tx) => {
      for (const one of off) await tx.query(`set local enable_${one} = off`);
      assert.equal((await claimSealed(tx, 'noop', 3, 30_000)).length, 3);
      const free = await onlooker.query("select id from payonce.effects where state = 'SEALED' for update skip locked");
      assert.equal(free.rowCount, many - 3, `plans without ${off.join(', ') || 'nothing'}`);
    });
    await world.pool.query(
      "update payonce.effects set next_at = payonce.now() - interval '1 second', lease_until = null",
    );
  }
  const faults: unknown[] = [];
  await drain(world, world.engine, faults);
  await assertPaid(world, many);
});

const hasBouncer = spawnSync('pgbouncer', ['--version']).status === 0;

test('PgBouncer in transaction mode: the whole life through it, many callers on two server connections, and no session state is left or needed (case L9, L10, req W12)', {
  skip: hasBouncer ? false : 'pgbouncer is not installed',
}, async (t) => {
  const world = await makeLifeWorld('bouncer');
  t.after(() => world.end());
  const url = await startBouncer(t, world.url);
  const caller = processOf(world, url, { connectionsMax: 8 });
  t.after(() => caller.end());
  const faults: unknown[] = [];
  const many = 40;
  await Promise.all(
    Array.from({ length: many }, () => takeOne(caller.engine, world.request({ amount: AMOUNT }), faults)),
  );
  await Promise.all([drain(world, caller.engine, faults), drain(world, caller.engine, faults)]);
  assert.deepEqual(faults, []);
  const locks = await world.pool.query(
    "select 1 from pg_locks l join pg_database d on d.oid = l.database where l.locktype = 'advisory' and d.datname = current_database()",
  );
  assert.equal(locks.rowCount, 0, 'no lock of a session is left on a backend of somebody else');
  const { rows } = await world.pool.query<{ n: number }>(
    "select count(*)::int as n from pg_stat_activity where datname = current_database() and application_name = 'payonce' and backend_type = 'client backend'",
  );
  t.diagnostic(`${many} lives through PgBouncer; ${rows[0]?.n} backends`);
  // A setting that a transaction makes is its own: the next one on the same backend has none of it.
  const limits = await caller.pool.query("select current_setting('statement_timeout') as limit");
  assert.equal(limits.rows[0]?.['limit'], '0');
  await assertPaid(world, many);
});

/** PgBouncer before the database, two server connections; root's runs as nobody. Answers the URL through it. */
async function startBouncer(t: TestContext, target: string): Promise<string> {
  const { hostname, port, pathname, username, password } = new URL(target);
  const folder = mkdtempSync(join(tmpdir(), 'payonce-bouncer-'));
  chmodSync(folder, 0o755);
  const listenPort = await freePort();
  writeFileSync(
    join(folder, 'pgbouncer.ini'),
    `[databases]
* = host=${hostname} port=${port} user=${username} password=${decodeURIComponent(password)}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${listenPort}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
max_client_conn = 100
`,
    { mode: 0o644 },
  );
  const asRoot = process.getuid?.() === 0;
  const child = spawn('pgbouncer', [...(asRoot ? ['-u', 'nobody'] : []), join(folder, 'pgbouncer.ini')], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const lines: string[] = [];
  child.stderr.on('data', (chunk: Buffer) => lines.push(chunk.toString('utf8')));
  t.after(async () => {
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await gone;
    rmSync(folder, { recursive: true, force: true });
  });
  for (let tries = 0; !lines.join('').includes('process up'); tries += 1) {
    assert.ok(tries < 200 && child.exitCode === null, `PgBouncer did not start:\n${lines.join('')}`);
    await sleep(50);
  }
  return `postgres://${username}@127.0.0.1:${listenPort}${pathname}`;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}
