/*
 * A real EVM chain on this machine: the anvil binary, started as a direct child.
 *
 * Promises: `startAnvil` returns only when the chain answers with the asked chain id; the chain never outlives this process,
 * even if this process gets SIGKILL; `stop` waits until the child is gone. Memory stays bounded while blocks go by. With a
 * state file and a block time the chain is saved after each of our blocks, whole or not at all, before the next is made: a
 * SIGKILL of everything costs at most what no node had called final yet.
 * Never does: serve a public address (127.0.0.1 only), or stand in for a node with faults; `evm-proxy.ts` does that.
 *
 * Blocks are made by us and not by anvil's own interval: with a block time of a few seconds anvil silently raises its
 * history limit to 1,500 states, which cost 0.9 GB at block 5,000 and 3.4 GB at block 20,000. And after a burst its
 * automining may leave executable transactions in the pool until something else arrives; our tick mines them.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { pbkdf2Sync } from 'node:crypto';
import { once } from 'node:events';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Address, Hex } from 'viem';
import { HDKey, privateKeyToAccount } from 'viem/accounts';
import { makeRpc, type Rpc } from './json-rpc.ts';

/** From spawn to first answer takes 0.1 to 0.5 s; on a loaded machine more. Shorter would fail healthy starts. */
const READY_WAIT_MS = 20_000;
/** SIGKILL ends it within milliseconds; on a loaded machine more. */
const STOP_WAIT_MS = 10_000;
/** A broken connection is seen before the child's exit, by milliseconds. */
const EXIT_SEEN_MS = 200;
const CHAIN_ID = 31_337;
/** Saving takes 40 ms at block 2,000 and grows with the height; the pause grows with it, so that saving never takes more
 *  than a fifth of the time. */
const PAUSE_PER_SAVE = 4;
/** States kept for reads at past blocks. One costs about 0.1 kB × height in memory: 1,000 at height 4,000 is 0.5 GB. */
const HISTORY_BLOCKS = 1_000;
/** The mnemonic every local chain uses: these keys are public, and production refuses them. */
const DEV_MNEMONIC = 'test test test test test test test test test test test junk';

export type DevAccount = { readonly address: Address; readonly privateKey: Hex };

/** `instant`: each transaction gets its block within milliseconds. `ticks`: at the block time. `manual`: only by `mine`. */
export type Mining = 'instant' | 'ticks' | 'manual';

export type AnvilOptions = {
  readonly port?: number;
  readonly chainId?: number;
  /** 1 makes block head − 2 final; the default of a mainnet would be head − 64. */
  readonly slotsInEpoch?: number;
  /** A block at least this often (fractions allowed), so that finality moves on. Absent: only what `mining` says. */
  readonly blockTimeSec?: number;
  readonly mining?: Mining;
  readonly accountCount?: number;
  readonly balanceEther?: number;
  readonly historyBlocks?: number;
  readonly hardfork?: string;
  /** Loaded at start when it exists, written after each block of `blockTimeSec` and at `stop`: blocks, receipts and
   *  balances survive; past states do not. */
  readonly stateFile?: string;
};

export type Anvil = {
  readonly url: string;
  readonly chainId: number;
  readonly pid: number;
  readonly mining: Mining;
  readonly accounts: readonly DevAccount[];
  rpc: Rpc;
  mine(blocks: number): Promise<void>;
  stop(): Promise<void>;
};

export async function startAnvil(options: AnvilOptions = {}): Promise<Anvil> {
  // A process group of its own: Ctrl-C and a closed terminal are for us, who still need the chain while we drain and save.
  const child = spawn(anvilBinary(), toArguments(options), { stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  const release = tieToThisProcess(child);
  try {
    const url = `http://${await listeningAt(child)}`;
    const rpc = makeRpc(url);
    await rpc('anvil_setLoggingEnabled', [false]);
    if (options.stateFile !== undefined) await load(rpc, options.stateFile);
    return handle(child, release, url, rpc, options);
  } catch (error) {
    await endChild(child);
    release();
    throw error;
  }
}

/** The executable of this platform itself: a wrapper between would survive its own SIGKILL with the chain running. */
export function anvilBinary(): string {
  const machine = { x64: 'amd64', arm64: 'arm64' }[process.arch as string];
  const name = `@foundry-rs/anvil-${process.platform}-${machine}`;
  try {
    const wrapper = createRequire(import.meta.url).resolve('@foundry-rs/anvil/package.json');
    return createRequire(wrapper).resolve(`${name}/bin/anvil${process.platform === 'win32' ? '.exe' : ''}`);
  } catch {
    throw new Error(`${name} is not installed: run npm ci without --omit=optional on a platform that anvil supports.`);
  }
}

function toArguments(options: AnvilOptions): string[] {
  const list = ['--color', 'never', '--host', '127.0.0.1'];
  const add = (flag: string, value: number | string): number => list.push(flag, String(value));
  add('--port', options.port ?? 0);
  add('--chain-id', options.chainId ?? CHAIN_ID);
  add('--slots-in-an-epoch', options.slotsInEpoch ?? 1);
  add('--accounts', options.accountCount ?? 10);
  add('--mnemonic', DEV_MNEMONIC);
  add('--prune-history', options.historyBlocks ?? HISTORY_BLOCKS);
  if (options.balanceEther !== undefined) add('--balance', options.balanceEther);
  if (options.hardfork !== undefined) add('--hardfork', options.hardfork);
  // The state comes back as one request; more than 2 MB of it would be refused after some hours of blocks.
  if (options.stateFile !== undefined) list.push('--no-request-size-limit');
  if (options.mining === 'ticks' || options.mining === 'manual') list.push('--no-mining');
  return list;
}

function handle(child: ChildProcess, release: () => void, url: string, rpc: Rpc, options: AnvilOptions): Anvil {
  const ticking = new AbortController();
  const { blockTimeSec, stateFile } = options;
  const ticks = blockTimeSec === undefined ? undefined : tick(rpc, blockTimeSec * 1000, stateFile, ticking.signal);
  return {
    url,
    chainId: options.chainId ?? CHAIN_ID,
    pid: child.pid ?? 0,
    mining: options.mining ?? 'instant',
    accounts: devAccounts(options.accountCount ?? 10),
    rpc,
    mine: async (blocks) => {
      await rpc('anvil_mine', [`0x${blocks.toString(16)}`]);
    },
    stop: async () => {
      ticking.abort();
      await ticks;
      try {
        if (stateFile !== undefined && isRunning(child)) await save(rpc, stateFile);
      } catch (error) {
        // A chain that was killed at this moment has left what the last block saved.
        await sleep(EXIT_SEEN_MS, undefined, { ref: false });
        if (isRunning(child)) throw error;
      } finally {
        await endChild(child);
        release();
      }
    },
  };
}

/** Sleeps after its work. Ends by the signal, or when the chain is gone. */
async function tick(rpc: Rpc, waitMs: number, stateFile: string | undefined, signal: AbortSignal): Promise<void> {
  let pauseMs = waitMs;
  for (;;) {
    try {
      await sleep(pauseMs, undefined, { signal, ref: false });
      await rpc('evm_mine', []);
    } catch {
      // Stopped, or the chain was killed under us: there is nothing left to mine on.
      return;
    }
    if (stateFile === undefined) continue;
    const beganAt = performance.now();
    // A chain that cannot be saved goes on; whoever starts on the older file has to compare, so it is said.
    await save(rpc, stateFile).catch((error: unknown) => {
      if (!signal.aborted) process.emitWarning(`the chain cannot be saved in ${stateFile}: ${String(error)}`);
    });
    pauseMs = Math.max(waitMs, PAUSE_PER_SAVE * (performance.now() - beganAt));
  }
}

/** The file holds what anvil dumps: packed bytes. Written aside and renamed, so that a kill leaves the old one or the new. */
async function save(rpc: Rpc, file: string): Promise<void> {
  const dumped = await rpc('anvil_dumpState', []);
  if (typeof dumped !== 'string') throw new Error('the chain does not tell its state');
  const aside = `${file}.unfinished`;
  await writeFile(aside, Buffer.from(dumped.slice(2), 'hex'), { flush: true });
  await rename(aside, file);
}

async function load(rpc: Rpc, file: string): Promise<void> {
  const bytes = await readFile(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (bytes === null) return;
  try {
    await rpc('anvil_loadState', [`0x${bytes.toString('hex')}`]);
  } catch (error) {
    throw new Error(`${file} holds no state of a chain that can be loaded: put a copy back, or remove its folder.`, {
      cause: error,
    });
  }
}

/** Node's own PBKDF2 makes the seed once; a derivation from the words takes 50 ms for each account. */
export function devAccounts(count: number): DevAccount[] {
  const root = HDKey.fromMasterSeed(pbkdf2Sync(DEV_MNEMONIC, 'mnemonic', 2048, 64, 'sha512'));
  return Array.from({ length: count }, (_, index) => {
    const { privateKey } = root.derive(`m/44'/60'/0'/0/${index}`);
    if (privateKey === null || privateKey === undefined) throw new Error(`no private key at index ${index}`);
    const hex: Hex = `0x${Buffer.from(privateKey).toString('hex')}`;
    return { address: privateKeyToAccount(hex).address, privateKey: hex };
  });
}

/**
 * SIGKILL runs no exit handler, so a tiny shell waits for the end of a pipe that only this process holds open, and then
 * ends the chain. Exit by other means closes the same pipe.
 */
function tieToThisProcess(child: ChildProcess): () => void {
  const now = (): unknown => child.kill('SIGKILL');
  process.once('exit', now);
  const watcher =
    process.platform === 'win32' || child.pid === undefined
      ? undefined
      : spawn('/bin/sh', ['-c', 'read _; kill -KILL "$1"', 'sh', String(child.pid)], {
          stdio: ['pipe', 'ignore', 'ignore'],
          detached: true,
        });
  watcher?.unref();
  const release = (): void => {
    process.off('exit', now);
    watcher?.kill('SIGKILL');
  };
  // A chain that died by itself gives its process id back; the watcher must not aim at whoever gets it next.
  child.once('exit', release);
  return release;
}

/**
 * The address that this very child bound, in its own words. Asking a port for its chain id instead could find a stranger:
 * any other local chain answers the same.
 */
async function listeningAt(child: ChildProcess): Promise<string> {
  const said: string[] = [];
  const deadline = AbortSignal.timeout(READY_WAIT_MS);
  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('close', (code, signal) => resolve(`it ended with ${code ?? signal}`));
    deadline.addEventListener('abort', () => resolve(`it was not ready within ${READY_WAIT_MS} ms`));
  });
  const bound = new Promise<string>((resolve) => {
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      const place = /Listening on (\S+)/.exec(said.concat(text).join(''))?.[1];
      if (place === undefined) said.push(text);
      else resolve(place);
    });
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => said.push(text));
  const outcome = await Promise.race([bound, ended.then((reason) => ({ reason }))]);
  if (typeof outcome === 'string') {
    forget(child);
    return outcome;
  }
  const tail = said.join('').trim().split('\n').slice(-3).join(' ');
  throw new Error(
    `anvil did not start: ${outcome.reason}; it said: ${tail}. If the port is taken, choose another one or none.`,
  );
}

/** Whatever it still prints is read away, or a full pipe would stop the chain; and it keeps nobody's process alive. */
function forget(child: ChildProcess): void {
  for (const stream of [child.stdout, child.stderr]) {
    stream?.removeAllListeners('data').resume();
    if (stream instanceof Socket) stream.unref();
  }
  child.unref();
}

function isRunning(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null;
}

async function endChild(child: ChildProcess): Promise<void> {
  if (!isRunning(child)) return;
  // While it runs it keeps nobody's process alive; its end is worth waiting for.
  child.ref();
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await Promise.race([gone, sleep(STOP_WAIT_MS, undefined, { ref: false })]);
}
