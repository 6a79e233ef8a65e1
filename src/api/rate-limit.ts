/** How many requests one caller may make in a minute: a loop gone wild is stopped before it costs others. */
import rateLimit from '@fastify/rate-limit';
import type { FastifyRequest } from 'fastify';
import { PayonceError } from '../kernel/errors.ts';
import type { ApiDeps } from './deps.ts';
import { REQUESTS_PER_MINUTE_MAX } from './limits.ts';
import type { Routes } from './routes/routes.ts';

/** On every route of this scope, after the caller is known; `keyOf` names the caller. */
export async function limitRequests(
  app: Routes,
  deps: Pick<ApiDeps, 'requestsPerMinuteMax'>,
  keyOf: (request: FastifyRequest) => string,
): Promise<void> {
  const requestsMax = deps.requestsPerMinuteMax ?? REQUESTS_PER_MINUTE_MAX;
  if (requestsMax === 0) return;
  await app.register(rateLimit, {
    max: requestsMax,
    timeWindow: 60_000,
    keyGenerator: keyOf,
    errorResponseBuilder: (_request, context) =>
      new PayonceError('PO_RATE_LIMITED', {
        got: `more than ${context.max} requests in a minute`,
        expected: `a pause of ${Math.ceil(context.ttl / 1000)} seconds`,
      }),
  });
}
