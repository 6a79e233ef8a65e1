/** Withdrawals over HTTP: what leaves over a chain. */
import { loadHistory } from '../../engine/order-store.ts';
import { cancelWithdrawal, createWithdrawals, type WithdrawalRequest } from '../../flows/withdrawals/index.ts';
import { listWithdrawals, readWithdrawal } from '../../flows/withdrawals/store.ts';
import { toDetail, toPartnerView } from '../../flows/withdrawals/view.ts';
import { PayonceError } from '../../kernel/errors.ts';
import { callerOf } from '../auth.ts';
import { fromCursor, pageItems, PLACE, toCursor, toPage } from '../cursor.ts';
import type { ApiDeps } from '../deps.ts';
import { fingerprintOf, idempotencyKeyOf } from '../idempotency.ts';
import { assetOf, type FindAsset } from '../look-ups.ts';
import { amountOf, answerCancel, answerIntake, loadDetail, makeIntake, type OrderResource } from '../orders.ts';
import * as schemas from '../schemas.ts';
import type { Asset } from '../store.ts';
import type { Routes } from './routes.ts';

export function withdrawalRoutes(app: Routes, deps: ApiDeps, findAsset: FindAsset): void {
  const intake = makeIntake<WithdrawalRequest>(deps, createWithdrawals);
  app.addHook('onClose', () => intake.drain());
  const tags = ['withdrawals'];
  const kind: OrderResource = {
    type: 'withdrawal',
    path: '/v1/withdrawals',
    async readDetail(partnerId, id) {
      const found = await readWithdrawal(deps.pool, partnerId, id);
      return found === null ? null : toDetail(found, await loadHistory(deps.pool, 'withdrawal', id));
    },
    cancel: (partnerId, id, by) => cancelWithdrawal(deps.engine, partnerId, id, by),
  };

  app.post(
    '/withdrawals',
    {
      schema: {
        tags,
        operationId: 'createWithdrawal',
        summary: 'Pay out',
        description:
          'Durable when answered. The same Idempotency-Key and body give the same withdrawal for ever; another body under a key is refused with 422.',
        headers: schemas.KeyHeader,
        body: schemas.NewWithdrawal,
        response: {
          201: schemas.WithdrawalFull,
          200: { ...schemas.WithdrawalFull, description: 'A repetition: the withdrawal as it is now' },
          202: schemas.OrderStored,
          ...schemas.problems,
        },
      },
      // Before the body is judged: without a key nothing else matters (case A8).
      preValidation: async (request) => {
        idempotencyKeyOf(request);
      },
    },
    async (request, reply) => {
      const { partnerId } = callerOf(request);
      const { body } = request;
      const asset = await assetOf(findAsset, body.asset, '/asset');
      const outcome = await intake.submit({
        partnerId,
        idempotencyKey: idempotencyKeyOf(request),
        fingerprint: fingerprintOf(request),
        externalId: body.external_id ?? null,
        purpose: body.purpose ?? 'customer',
        assetId: asset.id,
        amount: amountOf(body.amount, asset.decimals),
        destination: destinationOf(deps, asset, body.destination),
        reference: body.reference ?? null,
      });
      return answerIntake(deps, kind, reply, partnerId, outcome);
    },
  );

  app.get(
    '/withdrawals/:id',
    {
      schema: {
        tags,
        operationId: 'readWithdrawal',
        summary: 'One withdrawal, with its history',
        params: schemas.IdParams,
        response: { 200: schemas.WithdrawalFull, ...schemas.problems },
      },
    },
    async (request) => loadDetail(kind, callerOf(request).partnerId, request.params.id),
  );

  app.get(
    '/withdrawals',
    {
      schema: {
        tags,
        operationId: 'listWithdrawals',
        summary: 'Withdrawals, newest first',
        querystring: schemas.OrderQuery,
        response: { 200: schemas.pageOf(schemas.WithdrawalItem), ...schemas.problems },
      },
    },
    async (request) => {
      const name = { list: 'withdrawals', partnerId: callerOf(request).partnerId };
      const place = fromCursor(name, request.query.cursor, [PLACE.time, PLACE.id]);
      const limit = pageItems(request.query.limit);
      const rows = await listWithdrawals(deps.pool, name.partnerId, {
        before: place === null ? null : { at: place[0] ?? '', id: place[1] ?? '' },
        status: request.query.status ?? null,
        externalId: request.query.external_id ?? null,
        limit: limit + 1,
      });
      return toPage(
        rows,
        limit,
        (row) => toPartnerView(row, row.status),
        (row) => toCursor(name, [row.place, row.id]),
      );
    },
  );

  app.post(
    '/withdrawals/:id/cancel',
    {
      schema: {
        tags,
        operationId: 'cancelWithdrawal',
        summary: 'Cancel before anything left',
        description: 'May be repeated. Once it may have left: 409, and its status decides.',
        params: schemas.IdParams,
        response: { 200: schemas.WithdrawalFull, ...schemas.problems },
      },
    },
    async (request) => answerCancel(deps, kind, callerOf(request), request.params.id),
  );
}

function destinationOf(deps: ApiDeps, asset: Asset, text: string): string {
  if (deps.readPayee(asset.id) !== null)
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: `${asset.code} is paid through a bank`,
      pointer: '/asset',
      got: asset.code,
      expected: 'an asset of a chain; a bank transfer is POST /v1/transfers',
    });
  const read = deps.readDestination(asset.chain, text);
  if (!read.ok && read.fault === 'no_chain')
    throw new PayonceError('PO_ASSET_UNKNOWN', {
      detail: `${asset.code} is an asset of ${asset.chain}, which is not configured any more`,
      pointer: '/asset',
      got: asset.id,
      expected: read.expected,
    });
  if (!read.ok)
    throw new PayonceError('PO_ADDRESS_INVALID', { pointer: '/destination', got: text, expected: read.expected });
  return read.address;
}
