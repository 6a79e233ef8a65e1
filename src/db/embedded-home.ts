/*
 * The folder of one embedded server: `cluster` (PostgreSQL's data folder, with our password file in it) and the server's
 * log beside it. A cluster is made aside and renamed into place, so that a killed or parallel start leaves a whole one
 * or none. No folder that holds anything else is touched, and no persistent data is ever deleted.
 */
import { randomBytes } from 'node:crypto';
import {
  chown,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
  unlink,
  writeFile,
} from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import {
  type Account,
  canEnter,
  ownerState,
  ownToken,
  ownUid,
  run,
  systemCode,
  temporaryRoot,
  unprivilegedAccount,
} from './embedded-host.ts';
import type { Binaries } from './embedded-binaries.ts';

export interface Home {
  readonly folder: string;
  readonly account: Account;
}

export const SUPERUSER = 'postgres';
const TEMPORARY_PREFIX = 'payonce-postgres-';
const PASSWORD_FILE = 'payonce.password';
/** Where root puts persistent data that the account cannot reach where it was asked for: the place that the file system
 *  hierarchy standard keeps for the state of programs. */
const STATE_FOLDER = '/var/lib/payonce';

export function clusterOf(home: Home): string {
  return join(home.folder, 'cluster');
}

export async function makeTemporaryHome(): Promise<Home> {
  const account = await unprivilegedAccount();
  const folder = await mkdtemp(join(temporaryRoot(account), `${TEMPORARY_PREFIX}${ownToken()}-`));
  await give(account, folder);
  return { folder, account };
}

/** Temporary folders whose owner died together with its watchdog (a machine out of memory, a container killed whole). */
export async function abandonedHomes(account: Account): Promise<string[]> {
  const root = temporaryRoot(account);
  const found: string[] = [];
  for (const name of await readdir(root)) {
    const token = /^payonce-postgres-(\d+-\w+-\w+)-/.exec(name)?.[1];
    if (token === undefined || ownerState(token) !== 'dead') continue;
    const path = join(root, name);
    const uid = await lstat(path).then(
      (entry) => entry.uid,
      () => -1,
    );
    // Anybody may make a folder of this name in /tmp; only what is ours or the account's is deleted.
    if (uid === ownUid() || uid === account?.uid) found.push(path);
  }
  return found;
}

/**
 * The folder asked for, made if need be. Where the account cannot enter it (root's clone under /root), the data goes to
 * /var/lib/payonce and the folder asked for becomes a link to it, which also tells a reader where the data is.
 */
export async function openPersistentHome(asked: string, log: (line: string) => void): Promise<Home> {
  try {
    return await openOrMake(asked, log);
  } catch (error) {
    if (systemCode(error) === undefined) throw error;
    throw new Error(
      `The data folder ${asked} cannot be used (${String(error)}). ` +
        'Choose a folder that this user may write, start as its owner, or set DATABASE_URL.',
      { cause: error },
    );
  }
}

async function openOrMake(asked: string, log: (line: string) => void): Promise<Home> {
  const held = await existingFolder(asked);
  const owner = held === undefined ? undefined : await clusterOwner(held);
  // Root takes the data on as whoever made it: PostgreSQL insists that its data belong to it.
  const account = ownUid() === 0 && owner !== undefined && owner.uid !== 0 ? owner : await unprivilegedAccount();

  if (held !== undefined) {
    const names = await readdir(held);
    if (names.length > 0 && !names.some((name) => name.startsWith('cluster'))) {
      throw new Error(`The data folder ${asked} holds other things. Choose an empty or a new one.`);
    }
    if (canEnter(account, dirname(held))) {
      if (owner === undefined) await give(account, held);
      return { folder: held, account };
    }
    if (owner !== undefined) {
      throw new Error(
        `User ${account?.uid} owns the data in ${held} and cannot enter that folder any more. Make the folders above it passable (chmod o+x).`,
      );
    }
    if (names.length === 0) await rmdir(held);
  }
  await mkdir(dirname(asked), { recursive: true });
  if (canEnter(account, await realpath(dirname(asked)))) {
    await mkdir(asked, { mode: 0o700 }).catch(ignoreExisting);
    await give(account, asked);
    return { folder: await realpath(asked), account };
  }
  return { folder: await makeLinkedFolder(asked, account, log), account };
}

async function makeLinkedFolder(asked: string, account: Account, log: (line: string) => void): Promise<string> {
  await mkdir(STATE_FOLDER, { recursive: true, mode: 0o755 });
  const place = await mkdtemp(join(STATE_FOLDER, `${basename(asked)}-`));
  await give(account, place);
  try {
    await symlink(place, asked);
    log(
      `the data is in ${place}: user ${account?.uid ?? ownUid()}, who runs PostgreSQL, cannot enter ${dirname(asked)}`,
    );
  } catch (error) {
    await rmdir(place);
    ignoreExisting(error);
  }
  return realpath(asked);
}

/** The real path of the folder; undefined if there is none, or a link to one that was deleted. */
async function existingFolder(asked: string): Promise<string | undefined> {
  try {
    return await realpath(asked);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
    await unlink(asked).catch((missing: unknown) => {
      if (systemCode(missing) !== 'ENOENT') throw missing;
    });
    return undefined;
  }
}

async function clusterOwner(folder: string): Promise<{ uid: number; gid: number } | undefined> {
  try {
    const { uid, gid } = await stat(join(folder, 'cluster'));
    return { uid, gid };
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Makes the cluster if there is none, and returns the password of its superuser. `synced`: it must outlive a power cut. */
export async function readyCluster(home: Home, binaries: Binaries, synced: boolean): Promise<string> {
  const cluster = clusterOf(home);
  if ((await clusterOwner(home.folder)) === undefined) await makeCluster(home, binaries, synced);
  return (await readFile(join(cluster, PASSWORD_FILE), 'utf8')).trim();
}

async function makeCluster(home: Home, binaries: Binaries, synced: boolean): Promise<void> {
  await sweepUnfinished(home.folder);
  const aside = await mkdtemp(join(home.folder, `cluster-unfinished-${ownToken()}-`));
  await give(home.account, aside);
  const passwordFile = join(aside, 'password');
  await writeFile(passwordFile, `${randomBytes(24).toString('base64url')}\n`, { mode: 0o600 });
  await give(home.account, passwordFile);
  const made = await run(
    binaries.initdb,
    [
      `--pgdata=${join(aside, 'cluster')}`,
      `--username=${SUPERUSER}`,
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale=C',
      '--no-instructions',
      ...(synced ? [] : ['--no-sync']),
    ],
    home.account,
  );
  if (made.code !== 0) {
    await rm(aside, { recursive: true, force: true });
    throw new Error(`initdb failed: ${made.output}. Look for free disk space, or set DATABASE_URL.`);
  }
  await rename(passwordFile, join(aside, 'cluster', PASSWORD_FILE));
  await rename(join(aside, 'cluster'), clusterOf(home)).catch((error: unknown) => {
    // Another start was first: its cluster and its password count.
    if (systemCode(error) !== 'ENOTEMPTY' && systemCode(error) !== 'EEXIST') throw error;
  });
  await rm(aside, { recursive: true, force: true });
}

async function sweepUnfinished(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const token = /^cluster-unfinished-(\d+-\w+-\w+)-/.exec(name)?.[1];
    if (token !== undefined && ownerState(token) === 'dead') {
      await rm(join(folder, name), { recursive: true, force: true });
    }
  }
}

async function give(account: Account, path: string): Promise<void> {
  if (account !== undefined) await chown(path, account.uid, account.gid);
}

function ignoreExisting(error: unknown): void {
  if (systemCode(error) !== 'EEXIST') throw error;
}
