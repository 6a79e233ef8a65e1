/** Starts the API over a wired app. */
import { readTradePayment } from '../rails/escrow/payment.ts';
import type { FastifyInstance } from 'fastify';
import { makeApi } from '../api/server.ts';
import { version } from './version.ts';
import type { App } from './wire.ts';

export interface RunningApi {
  readonly url: string;
  stop(): Promise<void>;
}

/** Listens; `extend` adds routes before that (the development start's). */
export async function startApi(app: App, extend?: (server: FastifyInstance) => void): Promise<RunningApi> {
  const server = await makeApi({
    pool: app.pool,
    ports: app.ports,
    log: app.log,
    makeId: app.engine.makeId,
    chart: app.engine.chart,
    engine: app.engine,
    version,
    readDestination: (chain, text) => app.readDestination(chain, text),
    readPayee: (assetId) => app.readPayee(assetId),
    readTradePayment,
    wordOf: app.payouts.wordOf,
    mayCall: app.payouts.mayCall,
    batchLinesMax: (assetId) => app.batchLinesMax(assetId),
    depositChains: app.chains.map((chain) => chain.chain),
    newDepositAddress: (chain) => app.newDepositAddress(chain),
    inbox: app.receiver,
    webhooks: { masterSecret: app.config.masterSecret, urlPolicy: { allowPrivate: !app.config.production } },
    wake: () => app.wake(),
    railHealth: () => [...app.health].map(([rail, status]) => ({ rail, status })),
    ...(app.config.metricsToken === null ? {} : { metricsToken: app.config.metricsToken }),
    fatal(error) {
      app.log.error({ err: error }, 'a broken invariant: the process stops');
      process.exit(70);
    },
  });
  extend?.(server);
  await server.listen({ host: app.config.host, port: app.config.port });
  const address = server.server.address();
  const port = typeof address === 'object' && address !== null ? address.port : app.config.port;
  return {
    url: `http://${app.config.host.includes(':') ? `[${app.config.host}]` : app.config.host}:${port}`,
    stop: () => server.close(),
  };
}
