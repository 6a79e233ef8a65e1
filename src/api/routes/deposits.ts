/** Deposits over HTTP: read only, the chain alone makes them. */
import { listDeposits, readDeposit, toDepositData } from '../../flows/deposits/index.ts';
import { PayonceError } from '../../kernel/errors.ts';
import { callerOf } from '../auth.ts';
import { cursorInvalid, fromCursor, pageItems, PLACE, toCursor } from '../cursor.ts';
import type { ApiDeps } from '../deps.ts';
import * as schemas from '../schemas.ts';
import type { Routes } from './routes.ts';

export function depositRoutes(app: Routes, deps: ApiDeps): void {
  const tags = ['deposits'];

  app.get(
    '/deposits/:id',
    {
      schema: {
        tags,
        operationId: 'readDeposit',
        summary: 'One deposit',
        params: schemas.IdParams,
        response: { 200: schemas.Deposit, ...schemas.problems },
      },
    },
    async (request) => {
      const deposit = await readDeposit(deps.pool, callerOf(request).partnerId, request.params.id);
      if (deposit === null) throw new PayonceError('PO_NOT_FOUND');
      return toDepositData(deposit);
    },
  );

  app.get(
    '/deposits',
    {
      schema: {
        tags,
        operationId: 'listDeposits',
        summary: 'Deposits, newest first',
        querystring: schemas.DepositQuery,
        response: { 200: schemas.pageOf(schemas.Deposit), ...schemas.problems },
      },
    },
    async (request) => {
      const { partnerId } = callerOf(request);
      const name = { list: 'deposits', partnerId };
      const place = fromCursor(name, request.query.cursor, [PLACE.text]);
      const page = await listDeposits(deps.pool, partnerId, {
        state: request.query.state,
        addressId: request.query.address_id,
        cursor: place?.[0],
        limit: pageItems(request.query.limit),
      });
      if (page.outcome === 'cursor_invalid') throw cursorInvalid();
      return { items: page.items.map(toDepositData), next: page.next === null ? null : toCursor(name, [page.next]) };
    },
  );
}
