/**
 * The processes: `serve` (API, and the workers unless told otherwise) and `work` (workers alone, any number).
 *
 * SIGTERM drains: no new request is taken, passes in progress finish, then everything is closed; whatever is cut off after
 * that is found by its lease's end (case L16). A second signal ends at once.
 */
import { once } from 'node:events';
import { startEmbeddedPostgres } from '../db/embedded.ts';
import { makeWakes, type Wakes } from '../db/listen.ts';
import { migrate, schemaFits } from '../db/migrate.ts';
import { PayonceError } from '../kernel/errors.ts';
import type { Loop } from '../worker/loop.ts';
import { type Role, ROLES, startRoles } from '../worker/roles.ts';
import type { Config } from './config.ts';
import { examineApp } from './doctor.ts';
import { checkDatabaseMarks, checkHealth, registerAssets, registerChain } from './register.ts';
import { type App, wire, type WireOptions } from './wire.ts';

/** A worker's pass takes at most a quarter of a lease of sends and one look; an orchestrator should grant this, plus some. */
const DRAIN_MS_MAX = 20_000;
const REGISTER_EVERY_MS = 5_000;
const MARKS_EVERY_MS = 10_000;

export interface Database {
  readonly url: string;
  stop(): Promise<void>;
}

/** The configured database, or an embedded one that lives as long as this process. */
export async function openDatabase(config: Config): Promise<Database> {
  if (config.databaseUrl !== null) return { url: config.databaseUrl, stop: () => Promise.resolve() };
  return startEmbeddedPostgres(config.dataFolder === null ? {} : { dataFolder: `${config.dataFolder}/postgres` });
}

export interface Workers {
  stop(): Promise<void>;
}

export function startWorkers(app: App, roles: readonly Role[]): Workers {
  const registered = new Set<string>();
  const loops: Loop[] = startRoles(
    {
      clock: app.ports.clock,
      log: app.log,
      engine: app.engine,
      scanners: app.chains.map((chain) => ({ name: chain.chain, runOnce: () => chain.scanner.runOnce() })),
      courier: app.courier,
      inbox: app.inbox,
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
  await registerAssets(app);
  await checkDatabaseMarks(app);
  // Development databases need no fsync; where money moves, one that may forget a commit seals nothing.
  if (config.production) await examineApp(app);
  return app;
}

export async function serve(config: Config): Promise<void> {
  const { startApi } = await import('./api.ts');
  const database = await openDatabase(config);
  const app = await openApp(config, database);
  const api = await startApi(app);
  const workers = startWorkers(app, ROLES);
  app.log.info({ url: api.url }, 'payonce serves');
  await untilStopped(async () => {
    await api.stop();
    await workers.stop();
    await app.close();
    await database.stop();
  });
}

export async function work(config: Config, roles: readonly Role[]): Promise<void> {
  const database = await openDatabase(config);
  const app = await openApp(config, database);
  const workers = startWorkers(app, roles);
  app.log.info({ roles }, 'payonce works');
  await untilStopped(async () => {
    await workers.stop();
    await app.close();
    await database.stop();
  });
}

/** Waits for SIGTERM or SIGINT, then stops within the drain time. */
export async function untilStopped(stop: () => Promise<void>): Promise<void> {
  await Promise.race([once(process, 'SIGTERM'), once(process, 'SIGINT')]);
  for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => process.exit(1));
  const timer = setTimeout(() => process.exit(1), DRAIN_MS_MAX);
  timer.unref();
  await stop();
  clearTimeout(timer);
}
