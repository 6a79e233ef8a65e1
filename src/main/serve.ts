/**
 * The processes: `serve` (API, and the workers unless told otherwise) and `work` (workers alone, any number).
 *
 * A start that fails takes down again what it had started, and the process ends.
 * SIGTERM drains: no new request is taken, passes in progress finish, then everything is closed; whatever is cut off after
 * that is found by its lease's end (case L16). A second signal ends at once.
 */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeChainWatch } from '../audit/reconcile/chain-watch.ts';
import { startEmbeddedPostgres } from '../db/embedded.ts';
import { makeWakes, type Wakes } from '../db/listen.ts';
import { migrate, schemaFits } from '../db/migrate.ts';
import { collectOnce } from '../flows/collections/index.ts';
import { watchOrders, watchParts } from '../flows/p2p/index.ts';
import { payWaitingOnce, runCuts } from '../flows/payouts/index.ts';
import { judgeNights, runNightly, tickOnce } from '../flows/realizations/index.ts';
import { takeLeftBehindOnce } from '../flows/transfers/batch.ts';
import { PayonceError } from '../kernel/errors.ts';
import type { Loop } from '../worker/loop.ts';
import { type Role, ROLES, startRoles } from '../worker/roles.ts';
import type { Config } from './config.ts';
import { keepDatabaseUrl, makeDataFolder } from './data-folder.ts';
import { examineApp } from './doctor.ts';
import { checkProviders } from './provider-health.ts';
import { checkDatabaseMarks, checkHealth, registerAssets, registerChain } from './register.ts';
import { registerP2p } from './register-p2p.ts';
import { registerWallets } from './register-wallets.ts';
import { type App, wire, type WireOptions } from './wire.ts';
import { reconciledChains } from './wire-reconcile.ts';

/** A worker's pass takes at most a quarter of a lease of sends and one look; an orchestrator should grant this, plus some. */
const DRAIN_MS_MAX = 20_000;
const REGISTER_EVERY_MS = 5_000;
/** A connection to each bank and provider of trades, no request. */
const PROVIDERS_EVERY_MS = 30_000;
/** Whether an asset's cycle is due; the hour itself is the database's. */
const COLLECT_DUE_EVERY_MS = 30_000;
/** As often as the incident's poller came; a loop sleeps after its work, and who finds a claim walks away. */
const REALIZE_EVERY_MS = 10_000;
const VERDICT_EVERY_MS = 60_000;
/** A deposit or an address is seen so soon; nothing due costs two small statements. */
const PAY_WAITING_EVERY_MS = 5_000;
const CUTS_EVERY_MS = 15_000;
const MARKS_EVERY_MS = 10_000;
/** A wallet that has less than the ledger says is compared within this (R14); nothing due costs four small statements. */
const CHAIN_WATCH_EVERY_MS = 5_000;
/** How much coin is left where fees are paid from: a day's warning does not need more, and each wallet costs two questions. */
const LEVELS_EVERY_MS = 60_000;
/** Buyers' orders and payments that wait too long: a minute more does not matter. */
const STAYS_EVERY_MS = 60_000;
/** An uploader that died leaves lines that nobody takes; too long: its payees wait that much longer. */
const FILES_EVERY_MS = 10_000;

export interface Database {
  readonly url: string;
  stop(): Promise<void>;
}

/** The configured database, or an embedded one that lives as long as this process; commands beside it find it then. */
export async function openDatabase(config: Config): Promise<Database> {
  if (config.databaseUrl !== null) return { url: config.databaseUrl, stop: () => Promise.resolve() };
  if (config.dataFolder === null) return startEmbeddedPostgres();
  const folder = await makeDataFolder(config.dataFolder);
  const server = await startEmbeddedPostgres({ dataFolder: `${folder}/postgres` });
  await keepDatabaseUrl(folder, server.url);
  return server;
}

export interface Workers {
  stop(): Promise<void>;
}

export function startWorkers(app: App, roles: readonly Role[]): Workers {
  const registered = new Set<string>();
  const chainWatch = makeChainWatch(app, reconciledChains(app));
  const loops: Loop[] = startRoles(
    {
      clock: app.ports.clock,
      log: app.log,
      engine: app.engine,
      scanners: app.chains.map((chain) => ({ name: chain.chain, runOnce: () => chain.scanner.runOnce() })),
      courier: app.courier,
      inbox: app.inbox,
      matcher: app.matcher,
      chores: [
        {
          name: 'register chains',
          everyMs: REGISTER_EVERY_MS,
          async run() {
            for (const chain of app.chains) {
              if (registered.has(chain.chain)) await checkHealth(app, chain);
              else if ((await registerChain(app, chain)) === 'registered') registered.add(chain.chain);
            }
          },
        },
        { name: 'providers reached', everyMs: PROVIDERS_EVERY_MS, run: () => checkProviders(app) },
        // What is waited for is nobody's request any more: the uploader's process died.
        { name: 'files left behind', everyMs: FILES_EVERY_MS, run: () => takeLeftBehindOnce(app.engine) },
        {
          name: 'collections',
          everyMs: COLLECT_DUE_EVERY_MS,
          async run() {
            for (const chain of app.chains) await collectOnce(app.engine, chain.chain);
          },
        },
        { name: 'levels of wallets', everyMs: LEVELS_EVERY_MS, run: () => app.supplies.checkLevels() },
        { name: 'wallets against their chains', everyMs: CHAIN_WATCH_EVERY_MS, run: () => chainWatch.runOnce() },
        { name: 'long stays of orders', everyMs: STAYS_EVERY_MS, run: () => watchOrders(app.engine) },
        { name: 'long stays of parts of payments', everyMs: STAYS_EVERY_MS, run: () => watchParts(app.engine) },
        ...realizationChores(app),
        // What was due and could not be made, once it can be; and the cut, whose hour is the database's.
        { name: 'payouts that wait', everyMs: PAY_WAITING_EVERY_MS, run: () => payWaitingOnce(app.payouts) },
        { name: 'daily cuts', everyMs: CUTS_EVERY_MS, run: () => runCuts(app.payouts) },
        { name: 'database marks', everyMs: MARKS_EVERY_MS, run: () => checkDatabaseMarks(app) },
      ],
    },
    roles,
  );
  const wake = (): void => {
    for (const loop of loops) if (!loop.name.startsWith('long stays')) loop.wake();
  };
  app.wakes.add(wake);
  const wakes: Wakes = makeWakes(app.pool.url, app.ports.clock, app.log);
  wakes.on('work', wake);
  return {
    async stop() {
      app.wakes.delete(wake);
      await Promise.all([wakes.stop(), ...loops.map((loop) => loop.stop())]);
    },
  };
}

/** Made by the scheduler; come for by senders, which have the keys; judged when the chain is final. */
function realizationChores({ engine, config, log }: App): Parameters<typeof startRoles>[0]['chores'] {
  const { pool, makeId } = engine;
  const timeZone = config.realizationsZone;
  const night: Parameters<typeof startRoles>[0]['chores'] =
    timeZone === null
      ? []
      : [
          {
            name: 'realizations of the night',
            everyMs: REALIZE_EVERY_MS,
            run: () => runNightly({ pool, makeId, log, timeZone }),
          },
        ];
  return [
    ...night,
    { name: 'realizations', everyMs: REALIZE_EVERY_MS, role: 'sender', run: () => tickOnce(engine) },
    { name: 'verdict of the night', everyMs: VERDICT_EVERY_MS, run: () => judgeNights(pool, log) },
  ];
}

/** Opens the database, brings or checks the schema, wires. Production never migrates by itself. */
export async function openApp(
  config: Config,
  database: Database,
  options: Omit<WireOptions, 'url'> = {},
): Promise<App> {
  if (!config.production) await migrate(database.url);
  else if (!(await schemaFits(database.url)))
    throw new PayonceError('PO_DB_SCHEMA', { detail: 'The schema is not that of this version' });
  const app = await wire(config, { url: database.url, ...options });
  try {
    await registerAssets(app);
    await registerWallets(app);
    await registerP2p(app);
    await checkDatabaseMarks(app);
    // Development databases need no fsync; where money moves, one that may forget a commit seals nothing.
    if (config.production) await examineApp(app);
  } catch (error) {
    await app.close();
    throw error;
  }
  return app;
}

const noSuchHost = ({ host }: Config): string =>
  `PAYONCE_HOST: ${host} is no address of this machine; 0.0.0.0 stands for all of them`;
const FAULTS_OF_LISTENING: Readonly<Record<string, ((config: Config) => string) | undefined>> = {
  EACCES: ({ port }) => `PAYONCE_PORT: this user may not listen on port ${port}; take one above 1023`,
  EADDRNOTAVAIL: noSuchHost,
  ENOTFOUND: noSuchHost,
  EAI_AGAIN: noSuchHost,
};

/** Before anything is started: a taken port is told at once, not after a database, a chain and a migration. */
export async function needFreePort(config: Config): Promise<void> {
  if (config.port === 0) return;
  const probe = createServer();
  probe.listen({ host: config.host, port: config.port, exclusive: true });
  try {
    await once(probe, 'listening');
  } catch (error) {
    const told = FAULTS_OF_LISTENING[(error as { code?: string }).code ?? '']?.(config);
    throw told === undefined ? error : new PayonceError('PO_CONFIG_INVALID', { detail: told });
  }
  probe.close();
  await once(probe, 'close');
}

export async function serve(config: Config): Promise<void> {
  const { startApi } = await import('./api.ts');
  await runUntilStopped(async (standing) => {
    await needFreePort(config);
    const database = standing.adopt(await openDatabase(config), (one) => one.stop());
    const app = standing.adopt(await openApp(config, database), (one) => one.close());
    standing.adopt(startWorkers(app, ROLES), (one) => one.stop());
    const api = standing.adopt(await startApi(app), (one) => one.stop());
    app.log.info({ url: api.url }, 'payonce serves');
  });
}

export async function work(config: Config, roles: readonly Role[]): Promise<void> {
  await runUntilStopped(async (standing) => {
    const database = standing.adopt(await openDatabase(config), (one) => one.stop());
    const app = standing.adopt(await openApp(config, database), (one) => one.close());
    standing.adopt(startWorkers(app, roles), (one) => one.stop());
    app.log.info({ roles }, 'payonce works');
  });
}

const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** Resolves at the first signal; from then on a second one ends the process at once. */
async function stopAsked(): Promise<void> {
  await Promise.race(STOP_SIGNALS.map((signal) => once(process, signal)));
  for (const signal of STOP_SIGNALS) process.once(signal, () => process.exit(1));
}

/**
 * Starts, waits for SIGTERM, SIGINT or the end of the terminal, then stops within the drain time, the last started first. A
 * start that throws is taken down the same way before its error is told.
 */
export async function runUntilStopped(
  start: (standing: AsyncDisposableStack) => Promise<void>,
  drainMsMax = DRAIN_MS_MAX,
): Promise<void> {
  const standing = new AsyncDisposableStack();
  const asked = stopAsked();
  try {
    await start(standing);
  } catch (error) {
    // What fails while it is taken down is a consequence; the first fault is the one to tell.
    // What never ends is not waited for, and must not let the process end as if nothing had been wrong.
    const over = new AbortController();
    await Promise.race([
      standing.disposeAsync().catch(() => undefined),
      sleep(drainMsMax, undefined, { signal: over.signal }).catch(() => undefined),
    ]);
    over.abort();
    throw error;
  }
  await asked;
  const timer = setTimeout(() => process.exit(1), drainMsMax);
  timer.unref();
  await standing.disposeAsync();
  clearTimeout(timer);
}
