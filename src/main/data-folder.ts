/**
 * The folder of PAYONCE_DATA: made or found before anything is started in it, and every fault told with the setting's name.
 *
 * Promises: a folder that holds other things is refused, never written to; what cannot be read is told as that and not as missing.
 * Never: `mkdir -p`, which on some file systems tries for ever.
 */
import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { PayonceError } from '../kernel/errors.ts';

/** Written while a database runs in the folder, mode 0600: commands beside it use that one. Stale when it runs no more. */
export const URL_FILE = 'database-url';
/** What a start leaves there, `postgres` the first of them; keys may be made before it. */
const OURS = ['postgres', URL_FILE, 'keys'];

/** The folder with its absolute path, made if need be. Throws PO_CONFIG_INVALID. */
export async function makeDataFolder(asked: string): Promise<string> {
  const folder = resolve(asked);
  if ((await readDataFolder(folder)) === 'missing') await make(folder);
  return folder;
}

/** Reads only: whether data of ours is in it. Throws PO_CONFIG_INVALID where nobody could work with it. */
export async function readDataFolder(folder: string): Promise<'ours' | 'empty' | 'missing'> {
  let names: string[];
  try {
    names = await readdir(folder);
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENOENT') return 'missing';
    if (code === 'ENOTDIR') throw invalid(`${folder} is a file, or lies under one. Give a folder`);
    throw invalid(`${folder} cannot be read (${code}). Start as the user whose it is, or give another folder`);
  }
  if (names.length === 0) return 'empty';
  if (names.some((name) => OURS.includes(name))) return 'ours';
  throw invalid(`${folder} holds other things (${names.slice(0, 3).join(', ')}). Give an empty folder or a new one`);
}

async function make(folder: string): Promise<void> {
  const missing: string[] = [];
  for (let at = folder; !(await exists(at)); at = dirname(at)) missing.unshift(at);
  for (const one of missing) {
    try {
      await mkdir(one);
    } catch (error) {
      if (codeOf(error) === 'EEXIST') continue;
      throw invalid(
        `${one} cannot be made (${codeOf(error)}). Give a folder that this user may write, or make it first`,
      );
    }
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT' && dirname(path) !== path) return false;
    throw invalid(`${path} cannot be reached (${codeOf(error)}). Give another folder`);
  }
}

/** What `payonce up` runs with, as a file that PAYONCE_CONFIG could name: commands beside it reach its chains by it. */
const RUNNING_FILE = 'running-config.json';

/** Durable on return; `drop` takes it away again when those chains end. */
export async function keepRunning(folder: string, file: object): Promise<{ drop(): Promise<void> }> {
  const path = join(folder, RUNNING_FILE);
  await writeFile(path, `${JSON.stringify(file, null, 2)}\n`, { mode: 0o600 });
  return { drop: () => rm(path, { force: true }) };
}

/** `null`: nothing keeps one there. */
export async function findRunning(folder: string): Promise<string | null> {
  const path = join(folder, RUNNING_FILE);
  return (await exists(path)) ? path : null;
}

export async function keepDatabaseUrl(folder: string, url: string): Promise<void> {
  await writeFile(join(folder, URL_FILE), url, { mode: 0o600 });
}

function codeOf(error: unknown): string {
  const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : null;
  return typeof code === 'string' ? code : String(error);
}

function invalid(detail: string): PayonceError {
  return new PayonceError('PO_CONFIG_INVALID', { detail: `PAYONCE_DATA: ${detail}` });
}
