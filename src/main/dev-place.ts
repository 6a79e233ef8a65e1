/**
 * Where a simulated provider of the development start listened before, and how often it was started: with a data folder it keeps
 * its address, so that what was under way goes on, and its ids never repeat, since they come from the count of starts.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';

export interface Place {
  /** `null`: whichever is free. */
  readonly port: number | null;
  /** This start counted. */
  readonly starts: number;
  keep(port: number): Promise<void>;
}

interface Kept {
  readonly port: number;
  readonly starts: number;
}

export async function readPlace(dataFolder: string | null, name: string): Promise<Place> {
  const file = dataFolder === null ? null : join(dataFolder, name);
  const kept = file === null ? null : await readKept(file);
  const starts = (kept?.starts ?? 0) + 1;
  return {
    port: kept !== null && (await isFree(kept.port)) ? kept.port : null,
    starts,
    async keep(port) {
      if (file !== null) await writeFile(file, `${JSON.stringify({ port, starts } satisfies Kept)}\n`);
    },
  };
}

/** A file that is damaged is as none: another address, which the alert `sends_withheld` tells. */
async function readKept(file: string): Promise<Kept | null> {
  try {
    const read: unknown = JSON.parse(await readFile(file, 'utf8'));
    if (typeof read !== 'object' || read === null || !('port' in read) || !('starts' in read)) return null;
    const { port, starts } = read;
    return Number.isSafeInteger(port) && Number.isSafeInteger(starts)
      ? { port: Number(port), starts: Number(starts) }
      : null;
  } catch {
    return null;
  }
}

async function isFree(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const probe = createServer();
  probe.once('error', () => resolve(false));
  probe.listen({ host: '127.0.0.1', port, exclusive: true }, () => probe.close(() => resolve(true)));
  return promise;
}
