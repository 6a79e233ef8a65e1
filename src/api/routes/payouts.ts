/** Creators' payouts over HTTP: programmes, creators' addresses, events of volume, payouts and statements. */
import { loadHistory } from '../../engine/order-store.ts';
import {
  accrue,
  ACCRUALS_BYTES_MAX,
  cancelPayout,
  listPayouts,
  listProgrammes,
  putCreator,
  putProgramme,
  readPayout,
  readStatement,
  type TermsRequest,
  toPayoutDetail,
  toPayoutView,
  toProgrammeView,
  toStatementCsv,
} from '../../flows/payouts/index.ts';
import type { Static } from 'typebox';
import { PayonceError } from '../../kernel/errors.ts';
import { callerOf } from '../auth.ts';
import { fromCursor, pageItems, PLACE, toCursor, toPage } from '../cursor.ts';
import type { ApiDeps } from '../deps.ts';
import { assetOf, type FindAsset } from '../look-ups.ts';
import { answerCancel, loadDetail, nudge, type OrderResource } from '../orders.ts';
import * as shapes from '../payout-schemas.ts';
import { answerError, sendProblem } from '../problems.ts';
import * as schemas from '../schemas.ts';
import type { Asset } from '../store.ts';
import type { Routes } from './routes.ts';

/** A file for people and their tools: more lines than a page, as many as one answer of the database should hold. */
const CSV_LINES_MAX = 10_000;

export function payoutRoutes(app: Routes, deps: ApiDeps, findAsset: FindAsset): void {
  const tags = ['payouts'];
  const kind: OrderResource = {
    type: 'payout',
    path: '/v1/payouts',
    async readDetail(partnerId, id) {
      const found = await readPayout(deps.pool, partnerId, id);
      return found === null ? null : toPayoutDetail(found, await loadHistory(deps.pool, 'payout', found.batchId ?? id));
    },
    cancel: (partnerId, id, by) => cancelPayout(deps.engine, partnerId, id, by),
  };

  app.put(
    '/programmes/:name',
    {
      schema: {
        tags,
        operationId: 'putProgramme',
        summary: 'Make a programme, or give it other terms from now on',
        description:
          'What was accrued before stays by the terms of its moment; a payout that is made keeps its own. Asset and volume_decimals never change. The same terms again change nothing.',
        params: shapes.ProgrammeParams,
        body: shapes.PutProgramme,
        response: { 200: shapes.ProgrammeItem, 201: shapes.ProgrammeItem, ...schemas.problems },
      },
    },
    async (request, reply) => {
      const { asset: named, ...terms } = request.body;
      const asset = await chainAssetOf(deps, findAsset, named);
      const { partnerId } = callerOf(request);
      const put = await putProgramme(deps, partnerId, request.params.name, asset, withAddresses(deps, asset, terms));
      nudge(deps);
      return reply.code(put.outcome === 'made' ? 201 : 200).send(toProgrammeView(put.programme));
    },
  );

  app.get(
    '/programmes',
    {
      schema: {
        tags,
        operationId: 'listProgrammes',
        summary: 'Programmes, the oldest first',
        querystring: schemas.PageQuery,
        response: { 200: schemas.pageOf(shapes.ProgrammeItem), ...schemas.problems },
      },
    },
    async (request) => {
      const name = { list: 'programmes', partnerId: callerOf(request).partnerId };
      const [after = null] = fromCursor(name, request.query.cursor, [PLACE.id]) ?? [];
      const limit = pageItems(request.query.limit);
      const rows = await listProgrammes(deps.pool, name.partnerId, after, limit + 1);
      return toPage(rows, limit, toProgrammeView, (row) => toCursor(name, [row.id]));
    },
  );

  app.put(
    '/creators/:creator',
    {
      schema: {
        tags,
        operationId: 'putCreator',
        summary: 'Where a creator is paid on a chain, from its next payout on',
        description: 'A payout that is made keeps the address that it was made with. May be repeated.',
        params: shapes.CreatorParams,
        body: shapes.PutCreator,
        response: { 200: shapes.Creator, ...schemas.problems },
      },
    },
    async (request) => {
      const asset = await chainAssetOf(deps, findAsset, request.body.asset);
      const to = { chain: asset.chain, address: addressOf(deps, asset, '/address', request.body.address) };
      const { creator } = request.params;
      const put = await putCreator(deps, callerOf(request).partnerId, creator, to);
      nudge(deps);
      return { id: put.id, creator, ...to, changed: put.changed };
    },
  );

  app.post(
    '/accruals',
    {
      bodyLimit: ACCRUALS_BYTES_MAX,
      errorHandler(error, request, reply) {
        const told =
          error.statusCode === 413
            ? new PayonceError('PO_REQUEST_TOO_LARGE', {
                pointer: '',
                expected: `at most ${ACCRUALS_BYTES_MAX} bytes: send fewer items at once`,
              })
            : error;
        sendProblem(reply, answerError(deps, told, request));
      },
      schema: {
        tags,
        operationId: 'createAccruals',
        summary: 'Events of volume: each counts once for ever, by its source_id',
        description:
          'Durable when answered, and may be repeated: the same items get the same answer. Another content under a source_id is refused and listed. Crossing the threshold makes the payout in the same transaction.',
        body: shapes.NewAccruals,
        response: { 200: shapes.Accruals, ...schemas.problems },
      },
    },
    async (request, reply) => {
      const { accrued, fresh, refused } = await accrue(deps, callerOf(request).partnerId, request.body.items);
      if (fresh > 0) nudge(deps);
      else if (accrued > 0) reply.header('idempotent-replayed', 'true');
      return { accrued, refused: refused.map(({ sourceId, ...fault }) => ({ ...fault, source_id: sourceId })) };
    },
  );

  app.get(
    '/payouts/:id',
    {
      schema: {
        tags,
        operationId: 'readPayout',
        summary: 'One payout, with its history',
        params: schemas.IdParams,
        response: { 200: shapes.PayoutFull, ...schemas.problems },
      },
    },
    async (request) => loadDetail(kind, callerOf(request).partnerId, request.params.id),
  );

  app.get(
    '/payouts',
    {
      schema: {
        tags,
        operationId: 'listPayouts',
        summary: 'Payouts, newest first',
        querystring: shapes.PayoutQuery,
        response: { 200: schemas.pageOf(shapes.PayoutItem), ...schemas.problems },
      },
    },
    async (request) => {
      const name = { list: 'payouts', partnerId: callerOf(request).partnerId };
      const place = fromCursor(name, request.query.cursor, [PLACE.time, PLACE.id]);
      const limit = pageItems(request.query.limit);
      const rows = await listPayouts(deps.pool, {
        partnerId: name.partnerId,
        before: place === null ? null : { at: place[0] ?? '', id: place[1] ?? '' },
        status: request.query.status ?? null,
        programme: request.query.programme ?? null,
        creator: request.query.creator ?? null,
        limit: limit + 1,
      });
      return toPage(
        rows,
        limit,
        (row) => toPayoutView(row, row.status),
        (row) => toCursor(name, [row.place, row.id]),
      );
    },
  );

  app.post(
    '/payouts/:id/cancel',
    {
      schema: {
        tags,
        operationId: 'cancelPayout',
        summary: 'Cancel before anything left',
        description:
          'Its volume is in no payout then, and comes with the creator’s next accrual or cut; pause the programme to hold that up. Once it may have left: 409.',
        params: schemas.IdParams,
        response: { 200: shapes.PayoutFull, ...schemas.problems },
      },
    },
    async (request) => answerCancel(deps, kind, callerOf(request), request.params.id),
  );

  app.get(
    '/payout-statement',
    {
      schema: {
        tags,
        operationId: 'readPayoutStatement',
        summary: 'Accrued, paid, in flight and carried, for each creator of each programme',
        querystring: shapes.StatementQuery,
        response: {
          200: {
            description: 'A page',
            content: {
              'application/json': { schema: schemas.pageOf(shapes.StatementItem) },
              'text/csv': { schema: { type: 'string', description: 'RFC 4180, with a header' } },
            },
          },
          ...schemas.problems,
        },
      },
    },
    async (request, reply) => {
      const { query } = request;
      const name = { list: 'payout-statement', partnerId: callerOf(request).partnerId };
      const [after = '0'] = fromCursor(name, query.cursor, [PLACE.number]) ?? [];
      const isCsv = query.format === 'csv';
      const limit = isCsv && query.limit === undefined ? CSV_LINES_MAX : pageItems(query.limit);
      const rows = await readStatement(deps.pool, {
        partnerId: name.partnerId,
        programme: query.programme ?? null,
        creator: query.creator ?? null,
        waiting: query.waiting === 'true',
        after: BigInt(after),
        limit: limit + 1,
      });
      const page = toPage(
        rows,
        limit,
        (row) => row.line,
        (row) => toCursor(name, [row.place.toString()]),
      );
      if (!isCsv) return reply.send(page);
      if (page.next !== null) reply.header('next-cursor', page.next);
      return reply.type('text/csv; charset=utf-8').send(toStatementCsv(page.items));
    },
  );
}

async function chainAssetOf(deps: ApiDeps, findAsset: FindAsset, name: string): Promise<Asset> {
  const asset = await assetOf(findAsset, name, '/asset');
  if (deps.readPayee(asset.id) !== null)
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: `${asset.code} is paid through a bank`,
      pointer: '/asset',
      got: asset.code,
      expected: 'an asset of a chain',
    });
  return asset;
}

function addressOf(deps: ApiDeps, asset: Asset, pointer: string, text: string): string {
  const read = deps.readDestination(asset.chain, text);
  if (!read.ok) throw new PayonceError('PO_ADDRESS_INVALID', { pointer, got: text, expected: read.expected });
  return read.address;
}

/** Contracts in the chain's one spelling, as everything that is stored. */
function withAddresses(deps: ApiDeps, asset: Asset, terms: Static<typeof shapes.ProgrammeTerms>): TermsRequest {
  const { call, ...rest } = terms;
  if (call === undefined) return rest;
  const { data = '0x', value = 'nothing', logs = [] } = call;
  return {
    ...rest,
    call: {
      to: addressOf(deps, asset, '/call/to', call.to),
      data,
      value,
      logs: logs.map((log, index) => ({
        ...log,
        address: addressOf(deps, asset, `/call/logs/${index}/address`, log.address),
      })),
    },
  };
}
