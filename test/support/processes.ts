/**
 * Real processes for the proofs: workers started by bin/payonce.js on a database and a chain of their own, killed by
 * themselves at a port call (`cut`) or by us. Never outlive the test: they are killed at its end.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const BIN = fileURLToPath(new URL('../../bin/payonce.js', import.meta.url));

export interface ChainFile {
  readonly chainId: number;
  readonly token: string;
  readonly wallets: readonly string[];
  /** Absent: the token is not collected. */
  readonly collectMin?: string;
  readonly nodes: readonly { readonly url: string; readonly operator: string }[];
}

export interface Worker {
  readonly process: ChildProcess;
  /** Everything that it logged, line by line. */
  readonly lines: string[];
  /** Resolves when the process is gone. */
  readonly gone: Promise<{ signal: string | null; code: number | null }>;
}

export interface WorkerStarter {
  start(options?: { cut?: string; roles?: string; leaseMs?: number; serve?: boolean }): Worker;
  stopAll(): Promise<void>;
}

export async function workersOn(databaseUrl: string, chain: ChainFile): Promise<WorkerStarter> {
  const amounts = { min: '0.000001', max: '1000000', dayMax: '1000000000', feeFlat: '0', feeBasisPoints: 0 };
  return processesOn(databaseUrl, {
    chains: [
      {
        chainId: String(chain.chainId),
        nodes: chain.nodes,
        finality: { tag: 'finalized' },
        feeCapWei: '1000000000000',
        gasLimitCap: '1000000',
        lookEveryMs: 200,
        resendAfterMs: 1_000,
        assets: [
          {
            code: 'USDT',
            contract: chain.token,
            decimals: 6,
            wallet: chain.wallets[0],
            withdrawal: amounts,
            ...(chain.collectMin === undefined ? {} : { collect: { min: chain.collectMin } }),
          },
          { code: 'COIN', contract: null, decimals: 18 },
        ],
      },
    ],
  });
}

/** `file`: the configuration file; `env`: what it names beside it (the secrets of banks). */
export async function processesOn(
  databaseUrl: string,
  file: object,
  env: Readonly<Record<string, string>> = {},
): Promise<WorkerStarter> {
  const folder = await mkdtemp(join(tmpdir(), 'payonce-proof-'));
  const config = join(folder, 'rails.json');
  await writeFile(config, JSON.stringify(file));
  const running = new Set<Worker>();
  return {
    start(options = {}) {
      const child = spawn(
        process.execPath,
        options.serve === true ? [BIN, 'serve'] : [BIN, 'worker', '--only', options.roles ?? 'sender,watcher'],
        {
          env: {
            ...process.env,
            ...env,
            DATABASE_URL: databaseUrl,
            PAYONCE_CONFIG: config,
            PAYONCE_LOG: 'info',
            PAYONCE_PORT: '0',
            PAYONCE_LEASE_MS: String(options.leaseMs ?? 2_000),
            ...(options.cut === undefined ? {} : { PAYONCE_CUT: options.cut }),
          },
          stdio: ['ignore', 'pipe', 'pipe'],
        },
      );
      const lines: string[] = [];
      for (const stream of [child.stdout, child.stderr])
        stream?.on('data', (chunk: Buffer) =>
          lines.push(
            ...chunk
              .toString()
              .split('\n')
              .filter((line) => line !== ''),
          ),
        );
      const gone = once(child, 'exit').then(([code, signal]) => ({
        code: code as number | null,
        signal: signal as string | null,
      }));
      const worker: Worker = { process: child, lines, gone };
      running.add(worker);
      return worker;
    },
    async stopAll() {
      for (const worker of running)
        if (worker.process.exitCode === null && worker.process.signalCode === null) worker.process.kill('SIGKILL');
      await Promise.all([...running].map((worker) => worker.gone));
      await rm(folder, { recursive: true, force: true });
    },
  };
}
