/**
 * Transfers over HTTP: what leaves over a bank. The rules for a payee are those of the bank that will pay, and everything
 * that it would cut, round or refuse is refused here, by field; what is only odd is a warning.
 */
import { loadHistory } from '../../engine/order-store.ts';
import { cancelTransfer, createTransfers, readTransfer, type TransferRequest } from '../../flows/transfers/index.ts';
import { listTransfers, loadFate, readTransferById } from '../../flows/transfers/store.ts';
import { toDetail, toPartnerView } from '../../flows/transfers/view.ts';
import { type FieldFault, PayonceError } from '../../kernel/errors.ts';
import { callerOf } from '../auth.ts';
import { fromCursor, pageItems, PLACE, toCursor, toPage } from '../cursor.ts';
import type { ApiDeps } from '../deps.ts';
import { fingerprintOf, idempotencyKeyOf } from '../idempotency.ts';
import { assetOf, type FindAsset } from '../look-ups.ts';
import { amountOf, answerCancel, answerIntake, loadDetail, makeIntake, type OrderResource } from '../orders.ts';
import { toGot } from '../problems.ts';
import * as schemas from '../schemas.ts';
import type { Asset } from '../store.ts';
import type { Routes } from './routes.ts';

export function transferRoutes(app: Routes, deps: ApiDeps, findAsset: FindAsset): void {
  const intake = makeIntake<TransferRequest>(deps, createTransfers);
  app.addHook('onClose', () => intake.drain());
  const tags = ['transfers'];
  const kind: OrderResource = {
    type: 'transfer',
    path: '/v1/transfers',
    async readDetail(partnerId, id) {
      const found = await readTransferById(deps.pool, partnerId, id);
      if (found === null) return null;
      const detail = toDetail(found, await loadHistory(deps.pool, 'transfer', id), await loadFate(deps.pool, id));
      // By the rules of now: a bank that was founded since is no warning any more.
      const read = deps.readPayee(found.assetId)?.(found);
      return { ...detail, warnings: read?.ok === true ? read.warnings.map(toFieldFault) : [] };
    },
    cancel: (partnerId, id, by) => cancelTransfer(deps.engine, partnerId, id, by),
  };

  app.post(
    '/transfers',
    {
      schema: {
        tags,
        operationId: 'createTransfer',
        summary: 'Pay to an account at a bank',
        description:
          'Durable when answered. The same Idempotency-Key and body give the same transfer for ever; another body under a key is refused with 422. A correction is a new transfer; `repays` names the one that failed, was cancelled or came back.',
        headers: schemas.KeyHeader,
        body: schemas.NewTransfer,
        response: {
          201: schemas.TransferFull,
          200: { ...schemas.TransferFull, description: 'A repetition: the transfer as it is now' },
          202: schemas.TransferStored,
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
      const check = payeeCheckOf(deps, asset);
      const amount = amountOf(body.amount, asset.decimals);
      const read = readTransfer(check, {
        partnerId,
        idempotencyKey: idempotencyKeyOf(request),
        fingerprint: fingerprintOf(request),
        externalId: body.external_id ?? null,
        assetId: asset.id,
        amount,
        bankCode: body.bank_code,
        accountNumber: body.account_number,
        holderName: body.holder_name,
        memo: body.memo,
        repays: body.repays ?? null,
      });
      if (!read.ok) throw payeeInvalid(read.faults.map(toFieldFault));
      const outcome = await intake.submit(read.request);
      return answerIntake(deps, kind, reply, partnerId, outcome, { warnings: read.warnings.map(toFieldFault) });
    },
  );

  app.get(
    '/transfers/:id',
    {
      schema: {
        tags,
        operationId: 'readTransfer',
        summary: 'One transfer, with its history and what came back of it',
        params: schemas.IdParams,
        response: { 200: schemas.TransferFull, ...schemas.problems },
      },
    },
    async (request) => loadDetail(kind, callerOf(request).partnerId, request.params.id),
  );

  app.get(
    '/transfers',
    {
      schema: {
        tags,
        operationId: 'listTransfers',
        summary: 'Transfers, newest first',
        querystring: schemas.OrderQuery,
        response: { 200: schemas.pageOf(schemas.TransferItem), ...schemas.problems },
      },
    },
    async (request) => {
      const name = { list: 'transfers', partnerId: callerOf(request).partnerId };
      const place = fromCursor(name, request.query.cursor, [PLACE.time, PLACE.id]);
      const limit = pageItems(request.query.limit);
      const rows = await listTransfers(deps.pool, name.partnerId, {
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
    '/transfers/:id/cancel',
    {
      schema: {
        tags,
        operationId: 'cancelTransfer',
        summary: 'Cancel before anything left',
        description: 'May be repeated. Once it may have left: 409, and its status decides.',
        params: schemas.IdParams,
        response: { 200: schemas.TransferFull, ...schemas.problems },
      },
    },
    async (request) => answerCancel(deps, kind, callerOf(request), request.params.id),
  );
}

/** What the bank that pays this asset asks of a payee; an asset of a chain is refused. */
export function payeeCheckOf(deps: ApiDeps, asset: Asset): NonNullable<ReturnType<ApiDeps['readPayee']>> {
  const check = deps.readPayee(asset.id);
  if (check === null)
    throw new PayonceError('PO_REQUEST_INVALID', {
      detail: `${asset.code} is not paid through a bank`,
      pointer: '/asset',
      got: asset.code,
      expected: 'an asset that a bank pays; one of a chain is POST /v1/withdrawals',
    });
  return check;
}

function toFieldFault(fault: { readonly field: string; readonly got: string; readonly expected: string }): FieldFault {
  return { pointer: `/${fault.field}`, got: toGot(fault.got), expected: fault.expected };
}

function payeeInvalid(faults: readonly FieldFault[]): PayonceError {
  const [first] = faults;
  return new PayonceError('PO_PAYEE_INVALID', {
    ...(first === undefined ? {} : { pointer: first.pointer, got: first.got, expected: first.expected }),
    ...(faults.length > 1 ? { faults } : {}),
  });
}
