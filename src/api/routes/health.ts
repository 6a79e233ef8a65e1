/** For those who run it: is it alive, is it ready, how is it. Nothing here names a partner or an amount. */
import { timingSafeEqual } from 'node:crypto';
import { type Attention, loadAttention } from '../../audit/attention.ts';
import { PayonceError } from '../../kernel/errors.ts';
import type { ApiDeps } from '../deps.ts';
import type { Metrics } from '../metrics.ts';
import { describeProblem, isErrorCode } from '../problem-pages.ts';
import * as schemas from '../schemas.ts';
import type { Routes } from './routes.ts';

export function healthRoutes(app: Routes, deps: ApiDeps, metrics: Metrics): void {
  const schema = { tags: ['operation'], security: [] };

  app.get(
    '/livez',
    { schema: { ...schema, operationId: 'live', summary: 'The process answers', response: { 200: schemas.Alive } } },
    () => ({ status: 'alive', version: deps.version }),
  );

  app.get(
    '/readyz',
    {
      schema: {
        ...schema,
        operationId: 'ready',
        summary: 'It can take requests',
        description:
          'A degraded or stopped rail does not make it unready: payments are taken and wait. `attention` shows what waits for a person.',
        response: { 200: schemas.Ready, 503: schemas.Ready },
      },
    },
    async (_request, reply) => {
      const rails = deps.railHealth?.() ?? [];
      try {
        const seen = await loadAttention(deps.pool);
        return { status: 'ready', database: 'ok', rails, attention: toAttention(seen) };
      } catch (error) {
        deps.log.warn({ err: error }, 'not ready: the database does not answer');
        return reply.code(503).send({ status: 'not_ready', database: 'down', rails });
      }
    },
  );

  app.get('/metrics', { schema: { ...schema, hide: true } }, async (request, reply) => {
    if (deps.metricsToken !== undefined && !isBearer(deps.metricsToken, request.headers.authorization))
      throw new PayonceError('PO_AUTH_WRONG');
    return reply.type(metrics.contentType).send(await metrics.print());
  });

  app.get(
    '/problems/:code',
    {
      schema: {
        ...schema,
        operationId: 'readProblem',
        summary: 'What a problem means, whether money is at risk, and what to do',
        params: schemas.CodeParams,
        response: { 200: schemas.ProblemPage, ...schemas.problems },
      },
    },
    (request) => {
      const { code } = request.params;
      if (!isErrorCode(code)) throw new PayonceError('PO_NOT_FOUND');
      return describeProblem(code);
    },
  );
}

/** Names and counts; the reasons are for people with access to the database. */
function toAttention(seen: Attention) {
  return {
    rails_stopped: seen.railsStopped.map((one) => one.name),
    scans_halted: seen.scansHalted.map((one) => one.name),
    alerts: [...seen.grave],
    long_stays: seen.longStays,
    wallets_short: seen.walletsShort.length,
  };
}

function isBearer(token: string, authorization: string | undefined): boolean {
  const expected = Buffer.from(`Bearer ${token}`);
  const given = Buffer.from(authorization ?? '');
  return given.length === expected.length && timingSafeEqual(given, expected);
}
