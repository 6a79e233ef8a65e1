/*
 * Goal: what happens to the database's server happens to no money. Method: a durable server of this file's own, crashed (SIGKILL)
 * and stopped at once (SIGQUIT) under load, out of connections, read-only as a standby is, and with its disk full; callers ask
 * again as ours do. Judges: the rail's own book and the invariants.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/db/embedded.ts';
import { sqlState } from '../../src/db/pool.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { PayonceError } from '../../src/kernel/errors.ts';
import { railOf } from '../engine/noop-scene.ts';
import { durableDataFolder, SERVER_VARIABLE } from '../support/postgres.ts';
import { AMOUNT, assertPaid, drain, makeLifeWorld, processOf, takeOne, untilDone } from './faults/life.ts';

const CRASHES = 4;
const LOAD_MS = 600;
const CALLERS = 4;
/** Small enough to be used up, large enough for the server's own. */
const CONNECTIONS_MAX = 24;
const SETTINGS = { max_connections: String(CONNECTIONS_MAX), max_wal_size: '64MB' };

let server: EmbeddedPostgres;
let place: { readonly folder: string; remove(): void };
const given = process.env[SERVER_VARIABLE];

/** On the port that it had: callers' URLs stay good. */
async function start(settings: Readonly<Record<string, string>> = {}): Promise<void> {
  const port = server === undefined ? {} : { port: server.port };
  server = await startEmbeddedPostgres({ dataFolder: place.folder, settings: { ...SETTINGS, ...settings }, ...port });
}

before(async () => {
  place = durableDataFolder();
  await start();
  // The databases of this file are on the server that it breaks, not on the one that all share.
  process.env[SERVER_VARIABLE] = server.url;
});
after(async () => {
  if (given === undefined) delete process.env[SERVER_VARIABLE];
  else process.env[SERVER_VARIABLE] = given;
  await server.stop();
  place.remove();
});

/** Gone for good: its processes follow the first one within moments, and its lock file is no lock any more. */
async function restart(): Promise<void> {
  await server.stop();
  await start();
}

test('the server crashed and stopped at once under load: what was answered is there, and all is paid once (req W12, inv E1, E6, L5, V1)', async (t) => {
  const world = await makeLifeWorld('server crash');
  const taken = new Set<string>();
  const faults: unknown[] = [];
  const over = new AbortController();
  const callers = Array.from({ length: CALLERS }, async () => {
    const caller = processOf(world, world.url, { connectionsMax: 2 });
    while (!over.signal.aborted) {
      const request = world.request({ amount: AMOUNT });
      const [outcome] = await untilDone(faults, () => createWithdrawals(caller.engine, [request]), 50);
      assert.ok(outcome?.outcome === 'created' || outcome?.outcome === 'replayed', JSON.stringify(outcome));
      taken.add(outcome.id);
    }
    await caller.end();
  });
  const worker = processOf(world, world.url);
  const working = (async () => {
    while (!over.signal.aborted) await drain(world, worker.engine, faults, 50);
  })();
  for (let crash = 0; crash < CRASHES; crash += 1) {
    await sleep(LOAD_MS);
    if (crash % 2 === 0) server.kill();
    else process.kill(server.pid, 'SIGQUIT');
    await sleep(100);
    await restart();
  }
  await sleep(LOAD_MS);
  over.abort();
  await Promise.all([...callers, working]);
  await drain(world, worker.engine, faults, 50);
  await worker.end();
  const { rows } = await world.pool.query<{ id: string }>('select id from payonce.withdrawals');
  assert.deepEqual(new Set(rows.map((row) => row.id)), taken, 'each that was answered is there, and none else');
  t.diagnostic(`${CRASHES} ends of the server, ${taken.size} withdrawals, ${faults.length} calls told that it is gone`);
  assert.ok(faults.length > 0 && taken.size > 10);
  await assertPaid(world, taken.size);
  await world.end();
});

test('no connection is free: told as unavailable with nothing sent, and it goes on when there is one (case L10)', async () => {
  const world = await makeLifeWorld('connections');
  const caller = processOf(world, world.url, { connectionsMax: 1 });
  const held: pg.Client[] = [];
  try {
    for (;;) {
      const client = new pg.Client({ connectionString: server.url });
      client.on('error', () => undefined);
      try {
        await client.connect();
      } catch (error) {
        assert.equal(sqlState(error), '53300', String(error));
        break;
      }
      held.push(client);
    }
    assert.ok(held.length > 4);
    const request = world.request({ amount: AMOUNT });
    await assert.rejects(createWithdrawals(caller.engine, [request]), (error: unknown) => {
      assert.ok(error instanceof PayonceError, String(error));
      assert.equal(error.code, 'PO_DB_UNAVAILABLE');
      assert.equal(error.facts.moneyState, 'not_sent');
      return true;
    });
    for (const client of held.splice(0)) await client.end();
    const faults: unknown[] = [];
    await takeOne(caller.engine, request, faults);
    await drain(world, caller.engine, faults);
    await assertPaid(world, 1);
  } finally {
    for (const client of held) await client.end();
    await caller.end();
    await world.end();
  }
});

test('a server that became a standby takes no order and seals nothing; what was sealed is paid once when it leads again (req W12, inv E6)', async () => {
  const world = await makeLifeWorld('standby');
  const caller = processOf(world, world.url);
  const faults: unknown[] = [];
  await takeOne(caller.engine, world.request({ amount: AMOUNT }), faults);
  await server.stop();
  writeFileSync(join(place.folder, 'cluster', 'standby.signal'), '');
  chmodSync(join(place.folder, 'cluster', 'standby.signal'), 0o644);
  await start();
  const request = world.request({ amount: AMOUNT });
  const told = await createWithdrawals(caller.engine, [request]).then(
    () => 'taken',
    (error: unknown) => (error instanceof PayonceError ? error.code : String(error)),
  );
  await assert.rejects(
    advanceOnce(caller.engine, railOf(world)),
    (error: unknown) => error instanceof PayonceError && error.code === 'PO_DB_UNAVAILABLE',
  );
  assert.equal(told, 'PO_DB_UNAVAILABLE');
  assert.equal(world.book.size, 0, 'nothing was sent');
  await untilDone(faults, () => world.pool.query('select pg_promote()'), 50);
  await takeOne(caller.engine, request, faults);
  await drain(world, caller.engine, faults, 50);
  await assertPaid(world, 2);
  await caller.end();
  await world.end();
});

const mounts = canMount();

test('a full disk: callers are told, nothing is half-done, and it goes on when there is room (req W12, inv E6, L1)', {
  skip: mounts ? false : 'a file system of its own needs root and the right to mount',
}, async (t) => {
  await onSmallDisk(t, async (folder, fill, free) => {
    const before = process.env[SERVER_VARIABLE];
    const small = await startEmbeddedPostgres({
      dataFolder: folder,
      settings: { max_wal_size: '32MB', min_wal_size: '32MB', wal_recycle: 'off', shared_buffers: '16MB' },
    });
    process.env[SERVER_VARIABLE] = small.url;
    try {
      const world = await makeLifeWorld('full disk');
      const faults: unknown[] = [];
      let taken = 0;
      const caller = processOf(world, world.url);
      for (; taken < 20; taken += 1) await takeOne(caller.engine, world.request({ amount: AMOUNT }), faults);
      await drain(world, caller.engine, faults);
      assert.deepEqual(faults, []);
      fill();
      let request = world.request({ amount: AMOUNT });
      let refusal: unknown;
      for (let tries = 0; tries < 3_000 && refusal === undefined; tries += 1) {
        try {
          await createWithdrawals(caller.engine, [request]);
          taken += 1;
          request = world.request({ amount: AMOUNT });
        } catch (error) {
          refusal = error;
        }
      }
      t.diagnostic(`${taken} taken, then: ${String(refusal)}`);
      assert.ok(refusal !== undefined, 'the disk never was full');
      free();
      // Out of room for its log the server stops itself and recovers; whoever asks meanwhile is told.
      await untilDone(faults, () => world.pool.query('select 1'), 100);
      await untilDone(faults, () => takeOne(caller.engine, request, []), 100);
      taken += 1;
      await drain(world, caller.engine, faults, 100);
      await assertPaid(world, taken);
      await caller.end();
      await world.end();
    } finally {
      await small.stop();
      if (before !== undefined) process.env[SERVER_VARIABLE] = before;
    }
  });
});

function canMount(): boolean {
  if (process.getuid?.() !== 0 || process.platform !== 'linux') return false;
  const folder = mkdtempSync(join(tmpdir(), 'payonce-mount-'));
  try {
    if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder]).status !== 0) return false;
    return spawnSync('umount', [folder]).status === 0;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A disk of its own, which can be filled to its last page and given room again. */
async function onSmallDisk(
  t: TestContext,
  work: (folder: string, fill: () => void, free: () => void) => Promise<void>,
): Promise<void> {
  const mount = mkdtempSync(join(tmpdir(), 'payonce-disk-'));
  assert.equal(spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=200m,mode=755', 'tmpfs', mount]).status, 0);
  t.after(() => {
    spawnSync('umount', ['-l', mount]);
    rmSync(mount, { recursive: true, force: true });
  });
  chmodSync(mount, 0o755);
  const ballast = join(mount, 'ballast');
  await work(
    join(mount, 'data'),
    () => {
      spawnSync('dd', ['if=/dev/zero', `of=${ballast}`, 'bs=64k']);
    },
    () => rmSync(ballast, { force: true }),
  );
}
