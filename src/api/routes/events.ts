/** Events, cases and webhook endpoints over HTTP. An event's text is the very one that is delivered: it is never rebuilt. */
import { PayonceError } from '../../kernel/errors.ts';
import { formatUnits } from '../../kernel/money.ts';
import { deriveEndpointSecret } from '../../outbox/signature.ts';
import { urlRefusal } from '../../outbox/url-policy.ts';
import { callerOf } from '../auth.ts';
import { fromCursor, pageItems, PLACE, toCursor, toPage } from '../cursor.ts';
import type { ApiDeps } from '../deps.ts';
import { ENDPOINTS_MAX } from '../limits.ts';
import * as schemas from '../schemas.ts';
import {
  addEndpoint,
  deleteEndpoint,
  type Endpoint,
  listCases,
  listEndpoints,
  listEvents,
  type PartnerCase,
  readEvent,
} from '../store.ts';
import type { Routes } from './routes.ts';

const JSON_TYPE = 'application/json; charset=utf-8';

export function eventRoutes(app: Routes, deps: ApiDeps): void {
  app.get(
    '/events',
    {
      schema: {
        tags: ['events'],
        operationId: 'listEvents',
        summary: 'Events, newest first',
        description:
          'To follow what happens use a webhook endpoint; to catch up, list until you meet an event that you know. Order by subject and sequence.',
        querystring: schemas.EventQuery,
        response: { 200: schemas.pageOf(schemas.PartnerEvent), ...schemas.problems },
      },
    },
    async (request, reply) => {
      const name = { list: 'events', partnerId: callerOf(request).partnerId };
      const before = fromCursor(name, request.query.cursor, [PLACE.number])?.[0];
      const limit = pageItems(request.query.limit);
      const rows = await listEvents(deps.pool, name.partnerId, {
        before: before === undefined ? null : BigInt(before),
        type: request.query.type ?? null,
        subjectId: request.query.subject ?? null,
        limit: limit + 1,
      });
      const page = toPage(
        rows,
        limit,
        (row) => row.body,
        (row) => toCursor(name, [row.id.toString()]),
      );
      return reply.type(JSON_TYPE).send(`{"items":[${page.items.join(',')}],"next":${JSON.stringify(page.next)}}`);
    },
  );

  app.get(
    '/events/:id',
    {
      schema: {
        tags: ['events'],
        operationId: 'readEvent',
        summary: 'One event, byte for byte as it is delivered',
        params: schemas.IdParams,
        response: { 200: schemas.PartnerEvent, ...schemas.problems },
      },
    },
    async (request, reply) => {
      const body = await readEvent(deps.pool, callerOf(request).partnerId, request.params.id);
      if (body === null) throw new PayonceError('PO_NOT_FOUND');
      return reply.type(JSON_TYPE).send(body);
    },
  );

  app.get(
    '/cases',
    {
      schema: {
        tags: ['events'],
        operationId: 'listCases',
        summary: 'What a person is looking at, newest first',
        querystring: schemas.CaseQuery,
        response: { 200: schemas.pageOf(schemas.CaseItem), ...schemas.problems },
      },
    },
    async (request) => {
      const name = { list: 'cases', partnerId: callerOf(request).partnerId };
      const before = fromCursor(name, request.query.cursor, [PLACE.id])?.[0] ?? null;
      const limit = pageItems(request.query.limit);
      const { status } = request.query;
      const isOpen = status === undefined ? null : status === 'open';
      const rows = await listCases(deps.pool, name.partnerId, { before, isOpen, limit: limit + 1 });
      return toPage(rows, limit, toCase, (row) => toCursor(name, [row.id]));
    },
  );
}

export function endpointRoutes(app: Routes, deps: ApiDeps): void {
  const tags = ['endpoints'];

  app.post(
    '/endpoints',
    {
      schema: {
        tags,
        operationId: 'createEndpoint',
        summary: 'Have events sent to a URL of yours',
        description:
          'The secret is shown here once. Signatures are Standard Webhooks. A URL that has an endpoint keeps it: that one is answered, without its secret.',
        body: schemas.NewEndpoint,
        response: {
          201: { ...schemas.EndpointMade, description: 'Made; the secret is shown this once' },
          200: { ...schemas.EndpointItem, description: 'The endpoint that this URL already has' },
          ...schemas.problems,
        },
      },
    },
    async (request, reply) => {
      const { partnerId } = callerOf(request);
      const { url } = request.body;
      const refusal = urlRefusal(url, deps.webhooks.urlPolicy);
      if (refusal !== null)
        throw new PayonceError('PO_REQUEST_INVALID', {
          detail: `This URL cannot be used: ${refusal}`,
          pointer: '/url',
          got: url,
          expected: 'an https:// URL with a host name of the public internet',
        });
      const id = deps.makeId('ep');
      const added = await deps.pool.tx('add endpoint', (tx) => addEndpoint(tx, { id, partnerId, url }, ENDPOINTS_MAX));
      if (added.outcome === 'full')
        throw new PayonceError('PO_REQUEST_INVALID', {
          detail: 'You have as many endpoints as you may have',
          pointer: '/url',
          got: `${ENDPOINTS_MAX} endpoints and this one`,
          expected: `at most ${ENDPOINTS_MAX}; delete one first`,
        });
      const { endpoint } = added;
      if (added.outcome === 'exists') return reply.code(200).send(toEndpointView(endpoint));
      const secret = deriveEndpointSecret(deps.webhooks.masterSecret, endpoint.id, endpoint.secretVersion);
      return reply.code(201).send({ ...toEndpointView(endpoint), secret });
    },
  );

  app.get(
    '/endpoints',
    {
      schema: {
        tags,
        operationId: 'listEndpoints',
        summary: 'Your webhook endpoints, newest first',
        querystring: schemas.PageQuery,
        response: { 200: schemas.pageOf(schemas.EndpointItem), ...schemas.problems },
      },
    },
    async (request) => {
      const name = { list: 'endpoints', partnerId: callerOf(request).partnerId };
      const before = fromCursor(name, request.query.cursor, [PLACE.id])?.[0] ?? null;
      const limit = pageItems(request.query.limit);
      const rows = await listEndpoints(deps.pool, name.partnerId, { before, limit: limit + 1 });
      return toPage(rows, limit, toEndpointView, (row) => toCursor(name, [row.id]));
    },
  );

  app.delete(
    '/endpoints/:id',
    {
      schema: {
        tags,
        operationId: 'deleteEndpoint',
        summary: 'Send nothing to this URL any more',
        description: 'May be repeated.',
        params: schemas.IdParams,
        response: { 204: schemas.Nothing, ...schemas.problems },
      },
    },
    async (request, reply) => {
      if (!(await deleteEndpoint(deps.pool, callerOf(request).partnerId, request.params.id)))
        throw new PayonceError('PO_NOT_FOUND');
      return reply.code(204).send();
    },
  );
}

function toEndpointView(endpoint: Endpoint): object {
  return {
    id: endpoint.id,
    url: endpoint.url,
    created_at: endpoint.createdAt.toISOString(),
    disabled_at: endpoint.disabledAt?.toISOString() ?? null,
    disabled_reason: endpoint.disabledReason,
  };
}

function toCase(one: PartnerCase): object {
  return {
    id: one.id,
    status: one.closedAt === null ? 'open' : 'closed',
    subject: one.subject,
    asset: one.atRisk?.assetCode ?? null,
    amount: one.atRisk === null ? null : formatUnits(one.atRisk.amount, one.atRisk.decimals),
    opened_at: one.openedAt.toISOString(),
    closed_at: one.closedAt?.toISOString() ?? null,
  };
}
