/**
 * The HTTP API for partners: JSON in and out, OpenAPI 3.1 at /openapi.json, made of the very schemas that judge requests.
 *
 * Promises: a request is taken whole or refused whole, and a refusal has written nothing; every refusal, of whatever layer,
 * is problem+json with a code of the one table and tells what to do next; nothing of the inside is shown; a partner sees
 * only what is its own, and what is another's is answered like what never was; what is committed is answered as done.
 * Never: a value that is coerced, a field that is dropped, an amount that is a JSON number, work that waits for a rail.
 *
 * Any number of these may run beside each other and beside the workers: nothing is remembered between requests.
 */
import helmet from '@fastify/helmet';
import swagger, { type FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import { toProblem } from '../kernel/errors.ts';
import { toBase32 } from '../kernel/ids.ts';
import { BODY_BYTES_MAX } from '../kernel/limits.ts';
import { callerOf, makeAuthenticate } from './auth.ts';
import type { ApiDeps } from './deps.ts';
import { assertUtf8, readJson } from './json.ts';
import { EVENT_TYPES } from './event-types.ts';
import { makeKeyReader } from './keys.ts';
import { GOT_CHARACTERS_MAX, REQUEST_TIMEOUT_MS } from './limits.ts';
import { makeFindAsset } from './look-ups.ts';
import { makeMetrics } from './metrics.ts';
import { OPS } from './ops-schemas.ts';
import { answerError, PROBLEM_TYPE, sendProblem } from './problems.ts';
import { limitRequests } from './rate-limit.ts';
import { addressRoutes } from './routes/addresses.ts';
import { depositRoutes } from './routes/deposits.ts';
import { endpointRoutes, eventRoutes } from './routes/events.ts';
import { healthRoutes } from './routes/health.ts';
import { inboundRoutes } from './routes/inbound.ts';
import { ledgerRoutes } from './routes/ledger.ts';
import { operatorRoutes } from './routes/ops.ts';
import { payoutRoutes } from './routes/payouts.ts';
import { p2pRoutes } from './routes/p2p.ts';
import type { Routes } from './routes/routes.ts';
import { transferBatchRoutes } from './routes/transfer-batches.ts';
import { transferRoutes } from './routes/transfers.ts';
import { withdrawalRoutes } from './routes/withdrawals.ts';
import { PartnerEvent, type TypeBoxProvider } from './schemas.ts';

export type { ApiDeps } from './deps.ts';

/** 80 bits: enough to find one request in a log. */
const REQUEST_ID_BYTES = 10;

/** Not listening yet: `listen` it, or `inject` requests in a test. Closing it lets open requests end and drains the intake. */
export async function makeApi(deps: ApiDeps): Promise<FastifyInstance> {
  const app = fastify({
    logger: false,
    bodyLimit: BODY_BYTES_MAX,
    requestTimeout: REQUEST_TIMEOUT_MS,
    // Open connections get their answer while we stop; a 503 of the framework's own would tell them nothing.
    return503OnClosing: false,
    forceCloseConnections: 'idle',
    exposeHeadRoutes: false,
    genReqId: () => `req_${toBase32(deps.ports.chance.bytes(REQUEST_ID_BYTES), 16)}`,
    ajv: {
      customOptions: {
        coerceTypes: false,
        removeAdditional: false,
        useDefaults: false,
        allErrors: false,
        verbose: true,
      },
    },
    frameworkErrors: (error, request, reply) => {
      sendProblem(reply, answerError(deps, error, request));
    },
    clientErrorHandler(_error, socket) {
      if (!socket.writable) return;
      const problem = toProblem('PO_REQUEST_INVALID', { detail: 'This is not an HTTP request that can be read' });
      const body = JSON.stringify(problem);
      socket.end(
        `HTTP/1.1 ${problem.status} Bad Request\r\ncontent-type: ${PROBLEM_TYPE}\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
      );
    },
  });
  // Answers are written as they are: a serializer that fails or drops fields would turn a stored payment into an error.
  app.setSerializerCompiler(() => (answer) => JSON.stringify(answer));
  app.setErrorHandler((error, request, reply) => sendProblem(reply, answerError(deps, error, request)));
  answerUnknownRoutes(app);
  readJsonStrictly(app);

  const metrics = makeMetrics(deps);
  app.decorateRequest('caller', null);
  app.decorateRequest('operator', null);
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id);
    reply.header('cache-control', 'no-store');
  });
  // A connection that was busy when we began to stop would be kept alive, and hold the stop up, for minutes.
  let isClosing = false;
  app.addHook('preClose', async () => {
    isClosing = true;
  });
  app.addHook('onSend', async (_request, reply) => {
    if (isClosing) reply.header('connection', 'close');
  });
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'none';
    metrics.answered(route, request.method, reply.statusCode, reply.elapsedTime / 1000);
    const fields = {
      request_id: request.id,
      method: request.method,
      route,
      status: reply.statusCode,
      partner: request.caller?.partnerId,
      operator: request.operator?.id,
      ms: Math.round(reply.elapsedTime),
    };
    deps.log.debug(fields, 'answered');
  });

  await app.register(helmet);
  // Partners see nothing of what operators have; that is told in a document of its own.
  await app.register(swagger, { openapi: documentOf(deps), hiddenTag: OPS });
  const typed = app.withTypeProvider<TypeBoxProvider>();
  await typed.register(async (open: Routes) => healthRoutes(open, deps, metrics));
  await typed.register(async (inbound: Routes) => inboundRoutes(inbound, deps), { prefix: '/v1' });
  await typed.register(async (own: Routes) => partnerRoutes(own, deps), { prefix: '/v1' });
  await typed.register(async (ops: Routes) => operatorRoutes(ops, deps), { prefix: '/ops' });
  app.get('/openapi.json', { schema: { hide: true } }, () => app.swagger());
  return app;
}

async function partnerRoutes(app: Routes, deps: ApiDeps): Promise<void> {
  app.addHook('onRequest', makeAuthenticate(makeKeyReader(deps.pool)));
  await limitRequests(app, deps, (request) => callerOf(request).keyId);
  const findAsset = makeFindAsset(deps.pool);
  withdrawalRoutes(app, deps, findAsset);
  transferRoutes(app, deps, findAsset);
  await app.register(async (files: Routes) => transferBatchRoutes(files, deps, findAsset));
  p2pRoutes(app, deps, findAsset);
  payoutRoutes(app, deps, findAsset);
  addressRoutes(app, deps);
  depositRoutes(app, deps);
  ledgerRoutes(app, deps, findAsset);
  eventRoutes(app, deps);
  endpointRoutes(app, deps);
}

/** A path that exists under other methods is told apart from one that does not; neither says whose ids exist. */
function answerUnknownRoutes(app: FastifyInstance): void {
  const routes: { pattern: RegExp; methods: readonly string[] }[] = [];
  app.addHook('onRoute', ({ url, method }) => {
    const pattern = new RegExp(`^${url.replaceAll('.', '\\.').replaceAll(/:[a-z]+/g, '[^/]+')}$`);
    routes.push({ pattern, methods: [method].flat() });
  });
  app.setNotFoundHandler((request, reply) => {
    const [path = ''] = request.url.split('?', 1);
    const methods = routes.filter((route) => route.pattern.test(path)).flatMap((route) => route.methods);
    const said = `${request.method} ${path.slice(0, GOT_CHARACTERS_MAX)}`;
    if (methods.length > 0) {
      reply.header('allow', methods.join(', '));
      const detail = `There is no ${said}; this path has ${methods.join(' and ')}`;
      return sendProblem(reply, toProblem('PO_METHOD_UNKNOWN', { detail }));
    }
    const problem = toProblem('PO_NOT_FOUND', { detail: `There is no route ${said}` });
    return sendProblem(reply, { ...problem, hint: 'GET /openapi.json lists every route.' });
  });
}

/** JSON and nothing else. */
function readJsonStrictly(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async (request: FastifyRequest, bytes: Buffer) => {
      // A client that always names a media type sends it with a cancel too, which has no body.
      if (bytes.length === 0) return undefined;
      assertUtf8(request.headers['content-type'] ?? '');
      return readJson(bytes);
    },
  );
}

const SIGNED_BY = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => ({
  name,
  in: 'header',
  required: true,
  schema: { type: 'string' as const },
}));

function documentOf(deps: ApiDeps): NonNullable<FastifyDynamicSwaggerOptions['openapi']> {
  const types = Object.entries(EVENT_TYPES).map(([type, meaning]) => `\`${type}\`: ${meaning}`);
  const shape: object = PartnerEvent;
  return {
    openapi: '3.1.0',
    info: {
      title: 'Payonce',
      version: deps.version,
      description:
        'Amounts are decimal strings. Lists are pages: give `next` back as `cursor`. Refusals are problem+json; `money_state` says whether money may have moved.',
    },
    components: {
      securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'pk_test_… or sk_live_…' } },
    },
    security: [{ key: [] }],
    // What the courier sends: told here, since no route of ours makes it.
    webhooks: {
      event: {
        post: {
          operationId: 'event',
          summary: 'An event is sent to your endpoint',
          description: `Signed by Standard Webhooks. Types: ${types.join('; ')}.`,
          security: [],
          parameters: SIGNED_BY,
          requestBody: { required: true, content: { 'application/json': { schema: shape } } },
          responses: { '2XX': { description: 'Received' }, 410: { description: 'Nobody lives here: send no more' } },
        },
      },
    },
  };
}
