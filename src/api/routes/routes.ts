/**
 * The routes of the API, a file per resource: each checks its request, calls the flow or the reader that does the work, and
 * shows the answer as the partner sees it.
 * Never: a rule about money, a statement of SQL beside the stores, an answer about another partner's things.
 */
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from 'fastify';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TypeBoxProvider } from '../schemas.ts';

export type Routes = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  TypeBoxProvider
>;
