/*
 * What the embedded server needs to know about the machine: as whom it may run, which folders that account can reach,
 * and whether a process named in an old file is still the same process. Reads and spawns only; it changes nothing.
 */
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { accessSync, constants, readFileSync, readlinkSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname } from 'node:path';

/** As whom the binaries run; undefined: as this process does. */
export type Account = { readonly uid: number; readonly gid: number } | undefined;

/** No variable of ours reaches the binaries (PGDATA, PGPORT, LD_…), and their messages are English: some are read. */
export const CHILD_ENV: Readonly<Record<string, string>> = { LC_ALL: 'C', PATH: '/usr/bin:/bin:/usr/sbin:/sbin' };

/** Tried in this order when we are root. Both exist where PostgreSQL or any base system is installed; none is made, for
 *  an account that outlives the package is more than a start may leave behind. */
const UNPRIVILEGED_ACCOUNTS = ['postgres', 'nobody'];

export function ownUid(): number {
  return process.getuid?.() ?? -1;
}

/** PostgreSQL refuses root: root lends it an account, everybody else runs it as themselves. */
export async function unprivilegedAccount(): Promise<Account> {
  if (ownUid() !== 0) return undefined;
  for (const name of UNPRIVILEGED_ACCOUNTS) {
    const uid = await run('id', ['-u', name], undefined);
    const gid = await run('id', ['-g', name], undefined);
    const account = { uid: Number(uid.output), gid: Number(gid.output) };
    if (uid.code === 0 && gid.code === 0 && account.uid > 0) return account;
  }
  throw new Error(
    `PostgreSQL does not run as root, and there is no account ${UNPRIVILEGED_ACCOUNTS.join(' or ')} to lend it. ` +
      'Make one (useradd --system postgres), start as an ordinary user, or set DATABASE_URL.',
  );
}

/** True if the account can pass through the folder and all above it. */
export function canEnter(account: Account, folder: string): boolean {
  for (let at = folder; ; at = dirname(at)) {
    if (!mayPass(account, at)) return false;
    if (at === dirname(at)) return true;
  }
}

function mayPass(account: Account, folder: string): boolean {
  try {
    if (account === undefined) {
      accessSync(folder, constants.X_OK);
      return true;
    }
    const stat = statSync(folder);
    if (stat.uid === account.uid) return (stat.mode & 0o100) !== 0;
    if (stat.gid === account.gid) return (stat.mode & 0o010) !== 0;
    return (stat.mode & 0o001) !== 0;
  } catch {
    return false;
  }
}

/** The folder for temporary things. Root's TMPDIR may be its own; /var/tmp is the same everywhere. */
export function temporaryRoot(account: Account): string {
  const found = [tmpdir(), '/tmp', '/var/tmp'].find((folder) => canEnter(account, folder));
  if (found !== undefined) return found;
  throw new Error(
    'No temporary folder can be entered by the account that runs PostgreSQL; set TMPDIR to one that can.',
  );
}

export function run(
  command: string,
  args: readonly string[],
  account: Account,
): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve) => {
    const pieces: Buffer[] = [];
    // The folder we stand in may be closed to the account; initdb and postgres ask for theirs.
    const child = spawn(command, args, { ...account, cwd: '/', env: CHILD_ENV, stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.on('data', (piece: Buffer) => pieces.push(piece));
    child.stderr.on('data', (piece: Buffer) => pieces.push(piece));
    child.on('error', (error) => resolve({ code: null, output: error.message }));
    child.on('close', (code) => resolve({ code, output: Buffer.concat(pieces).toString('utf8').trim() }));
  });
}

/**
 * A name for one process that no later process bears: pid, the machine's boot and pid namespace, the instant of birth.
 * A bare pid is taken again after a restart, within seconds in a container. Undefined: there is no such process.
 */
export function processToken(pid: number): string | undefined {
  const born = bornAt(pid);
  return born === undefined ? undefined : `${pid}-${hostToken()}-${born}`;
}

/** `foreign`: the token is of another boot or container, of whose processes nothing can be known here. */
export function ownerState(token: string): 'alive' | 'dead' | 'foreign' {
  const [pid, host] = token.split('-');
  if (host !== hostToken()) return 'foreign';
  return processToken(Number(pid)) === token ? 'alive' : 'dead';
}

export function ownToken(): string {
  return processToken(process.pid) ?? `${process.pid}-${hostToken()}-0`;
}

/** The whole command line, arguments parted by spaces; empty if the process is gone. */
export function processCommand(pid: number): string {
  try {
    if (process.platform === 'linux') return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
    return execFileSync('ps', ['-ww', '-o', 'command=', '-p', String(pid)], { encoding: 'utf8', env: CHILD_ENV });
  } catch {
    return '';
  }
}

function bornAt(pid: number): string | undefined {
  try {
    if (process.platform !== 'linux') {
      const text = execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8', env: CHILD_ENV });
      return digest(text.trim());
    }
    // proc(5): the name in parentheses may hold anything; after it come the state (field 3) and the birth (field 22).
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

let hostTokenRead: string | undefined;

function hostToken(): string {
  hostTokenRead ??=
    process.platform === 'linux'
      ? digest(readFileSync('/proc/sys/kernel/random/boot_id', 'utf8') + readlinkSync('/proc/self/ns/pid'))
      : 'host';
  return hostTokenRead;
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 8);
}

/** The code of a failed system call (`ENOENT`), else undefined. */
export function systemCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
