/**
 * What the command line needs, from a configuration: each command opens what it uses and closes it again.
 *
 * A command that only reads rows opens no key and no rail. Without DATABASE_URL the database of PAYONCE_DATA is used: the
 * one that `payonce up` runs now (it says so in a file that only its owner may read), or one started for this command.
 */
import { readFile } from 'node:fs/promises';
import { createApiKey, revokeApiKey } from '../api/keys.ts';
import type { CliDeps, Database, Wired } from '../cli/deps.ts';
import { startEmbeddedPostgres } from '../db/embedded.ts';
import { migrate } from '../db/migrate.ts';
import { makePool, type Pool } from '../db/pool.ts';
import { PayonceError } from '../kernel/errors.ts';
import { makeIds } from '../kernel/ids.ts';
import { makeLog, silentLog, type Log } from '../kernel/log.ts';
import { type Ports, systemPorts } from '../kernel/ports.ts';
import { ROLES } from '../worker/roles.ts';
import { type Config, configReference, readConfig, readConfigOf, shownSettings } from './config.ts';
import { findRunning, makeDataFolder, readDataFolder, URL_FILE } from './data-folder.ts';
import { version } from './version.ts';

const CONNECTIONS = 2;

interface Opened {
  readonly url: string;
  close(): Promise<void>;
}

/** `mayMake`: a mistyped folder must not become a new, empty database that then answers "nothing is open". */
async function openDatabase(config: Config, mayMake = false): Promise<Opened> {
  if (config.databaseUrl !== null) return { url: config.databaseUrl, close: () => Promise.resolve() };
  if (config.dataFolder === null) {
    throw new PayonceError('PO_CONFIG_INVALID', {
      detail: 'DATABASE_URL: needed by this command, or PAYONCE_DATA with the data folder of payonce up',
    });
  }
  const found = await readDataFolder(config.dataFolder);
  const running = await readFile(`${config.dataFolder}/${URL_FILE}`, 'utf8').catch(() => null);
  if (running !== null && (await answers(running.trim())))
    return { url: running.trim(), close: () => Promise.resolve() };
  if (!mayMake && found !== 'ours') {
    throw new PayonceError('PO_CONFIG_INVALID', {
      detail: `PAYONCE_DATA: there is no payonce data in ${config.dataFolder}. Correct it; up, serve, worker and migrate make a new one`,
    });
  }
  if (mayMake) await makeDataFolder(config.dataFolder);
  const server = await startEmbeddedPostgres({ dataFolder: `${config.dataFolder}/postgres` });
  // Who may make it migrates it, and says what that did.
  if (!mayMake) await migrate(server.url);
  return { url: server.url, close: () => server.stop() };
}

async function answers(url: string): Promise<boolean> {
  const pool = makePool({ url, ports: systemPorts(), log: silentLog, connectionsMax: 1 });
  try {
    await pool.query('select 1');
    return true;
  } catch {
    return false;
  } finally {
    await pool.end();
  }
}

/** At the command line only what is wrong is told; `PAYONCE_LOG` says more. */
function cliLog(config: Config): Log {
  return config.logLevel === 'info' || config.logLevel === 'silent'
    ? silentLog
    : makeLog(config.logLevel, { write: (line) => void process.stderr.write(line) });
}

async function withPool<T>(
  work: (one: { config: Config; url: string; pool: Pool; ports: Ports; log: Log }) => Promise<T>,
): Promise<T> {
  const config = readConfig();
  const opened = await openDatabase(config);
  const ports = systemPorts(config.cut ?? undefined);
  const log = cliLog(config);
  const pool = makePool({ url: opened.url, ports, log, connectionsMax: CONNECTIONS, applicationName: 'payonce-cli' });
  try {
    return await work({ config, url: opened.url, pool, ports, log });
  } finally {
    await pool.end();
    await opened.close();
  }
}

function databaseOf(config: Config, pool: Pool, ports: Ports): Database {
  return {
    pool,
    makeId: makeIds(ports.clock, ports.chance),
    chance: ports.chance,
    realizationsZone: config.realizationsZone,
    operatorKey: config.operatorKey,
  };
}

/** Beside a running `payonce up`, which has no file, what it runs with. */
async function reachable(config: Config): Promise<Config> {
  if (config.file !== null || config.databaseUrl !== null || config.dataFolder === null) return config;
  const running = await findRunning(config.dataFolder);
  return running === null ? config : readConfigOf(running);
}

async function withEngine<T>(work: (wired: Wired) => Promise<T>): Promise<T> {
  const config = await reachable(readConfig());
  const opened = await openDatabase(config);
  try {
    const { wire } = await import('./wire.ts');
    const app = await wire(
      { ...config, logLevel: config.logLevel === 'info' ? 'silent' : config.logLevel },
      { url: opened.url },
    );
    try {
      const { reconciledChains } = await import('./wire-reconcile.ts');
      return await work({
        ...databaseOf(config, app.pool, app.ports),
        engine: app.engine,
        payouts: app.payouts,
        chains: reconciledChains(app),
        rescan: async (chain, from, to) => {
          const found = app.chains.find((one) => one.chain === chain);
          if (found === undefined)
            throw new PayonceError('PO_NOT_FOUND', { detail: `There is no chain ${chain} here` });
          return found.scanner.rescan(from, to);
        },
      });
    } finally {
      await app.close();
    }
  } finally {
    await opened.close();
  }
}

export const cliDeps: CliDeps = {
  version,
  workerRoles: ROLES,
  configReference,
  shownConfig() {
    const config = readConfig();
    return {
      settings: shownSettings(),
      chains: [
        ...config.chains.map((chain) => `eip155:${chain.chainId}`),
        ...config.tron.map((chain) => `tron:${chain.network} (tron:0x${chain.genesisId.slice(-8)})`),
      ],
      banks: [
        ...config.banks.map((bank) => `bank:${bank.name} (${bank.profile} at ${bank.baseUrl})`),
        ...config.escrows.map((one) => `escrow:${one.name} (${one.profile} at ${one.baseUrl})`),
      ],
    };
  },
  checkConfig: async () => (await import('./doctor.ts')).checkConfig(readConfig()),
  async migrate() {
    const opened = await openDatabase(readConfig(), true);
    try {
      return await migrate(opened.url);
    } finally {
      await opened.close();
    }
  },
  async doctor() {
    const config = readConfig();
    const opened = await openDatabase(config);
    try {
      const { examine } = await import('./doctor.ts');
      return await examine(config, opened.url, cliLog(config));
    } finally {
      await opened.close();
    }
  },
  withDatabase: (work) => withPool(({ config, pool, ports }) => work(databaseOf(config, pool, ports))),
  withEngine,
  async createApiKey(tx, partnerId) {
    const { chance, clock } = systemPorts();
    return createApiKey(
      tx,
      { makeId: makeIds(clock, chance), chance },
      partnerId,
      readConfig().production ? 'live' : 'test',
    );
  },
  revokeApiKey,
  async createWallet() {
    const { keystore } = readConfig();
    if (keystore === null) {
      throw new PayonceError('PO_CONFIG_INVALID', {
        detail: 'PAYONCE_KEYSTORE and PAYONCE_PASSPHRASE: needed to make a wallet',
      });
    }
    const { openKeyFiles } = await import('../rails/keystore.ts');
    const { canonicalAddress } = await import('../rails/tron/index.ts');
    const files = await openKeyFiles(keystore.folder, keystore.passphrase, systemPorts().chance);
    const evm = await files.createAddress();
    return { evm, tron: canonicalAddress(evm) };
  },
  serve: async () => (await import('./serve.ts')).serve(readConfig()),
  work: async (roles) =>
    (await import('./serve.ts')).work(
      readConfig(),
      ROLES.filter((role) => roles.includes(role)),
    ),
  up: async () => (await import('./up.ts')).up(readConfig()),
  offerProbe: async (asked) => (await import('./probe.ts')).offerProbe(asked),
};
