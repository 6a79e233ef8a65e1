/** Deposit addresses over HTTP. A repeat with the same `user_ref` answers the address that this user has. */
import {
  createDepositAddress,
  type DepositAddress,
  listDepositAddresses,
  readDepositAddress,
} from '../../flows/deposits/index.ts';
import { PayonceError } from '../../kernel/errors.ts';
import { callerOf } from '../auth.ts';
import { cursorInvalid, fromCursor, pageItems, PLACE, toCursor } from '../cursor.ts';
import type { ApiDeps } from '../deps.ts';
import * as schemas from '../schemas.ts';
import type { Routes } from './routes.ts';

export function addressRoutes(app: Routes, deps: ApiDeps): void {
  const tags = ['addresses'];
  const makeAddress = {
    pool: deps.pool,
    makeId: deps.makeId,
    newAddress: (chain: string) => deps.newDepositAddress(chain),
  };

  app.post(
    '/addresses',
    {
      schema: {
        tags,
        operationId: 'createAddress',
        summary: 'An address for deposits',
        description:
          'With a user_ref: the address of that user on that chain, made once, so that a repetition is safe. Without: a new address each time.',
        body: schemas.NewAddress,
        response: {
          201: schemas.Address,
          200: { ...schemas.Address, description: 'The address that this user already has' },
          ...schemas.problems,
        },
      },
    },
    async (request, reply) => {
      const { chain, user_ref: userRef } = request.body;
      if (!deps.depositChains.includes(chain))
        throw new PayonceError('PO_REQUEST_INVALID', {
          detail: 'No deposit addresses can be made on this chain',
          pointer: '/chain',
          got: chain,
          expected: deps.depositChains.length === 0 ? 'none: no chain is set up' : deps.depositChains.join(' or '),
        });
      const { outcome, address } = await createDepositAddress(makeAddress, {
        partnerId: callerOf(request).partnerId,
        chain,
        userRef: userRef ?? null,
        reuse: userRef !== undefined,
      });
      reply.header('location', `/v1/addresses/${address.id}`);
      return reply.code(outcome === 'created' ? 201 : 200).send(toView(address));
    },
  );

  app.get(
    '/addresses/:id',
    {
      schema: {
        tags,
        operationId: 'readAddress',
        summary: 'One deposit address',
        params: schemas.IdParams,
        response: { 200: schemas.Address, ...schemas.problems },
      },
    },
    async (request) => {
      const address = await readDepositAddress(deps.pool, callerOf(request).partnerId, request.params.id);
      if (address === null) throw new PayonceError('PO_NOT_FOUND');
      return toView(address);
    },
  );

  app.get(
    '/addresses',
    {
      schema: {
        tags,
        operationId: 'listAddresses',
        summary: 'Deposit addresses, newest first',
        querystring: schemas.AddressQuery,
        response: { 200: schemas.pageOf(schemas.Address), ...schemas.problems },
      },
    },
    async (request) => {
      const { partnerId } = callerOf(request);
      const name = { list: 'addresses', partnerId };
      const place = fromCursor(name, request.query.cursor, [PLACE.text]);
      const page = await listDepositAddresses(deps.pool, partnerId, {
        userRef: request.query.user_ref,
        cursor: place?.[0],
        limit: pageItems(request.query.limit),
      });
      if (page.outcome === 'cursor_invalid') throw cursorInvalid();
      return { items: page.items.map(toView), next: page.next === null ? null : toCursor(name, [page.next]) };
    },
  );
}

function toView(address: DepositAddress): {
  id: string;
  chain: string;
  address: string;
  user_ref: string | null;
  created_at: string;
} {
  return {
    id: address.id,
    chain: address.chain,
    address: address.address,
    user_ref: address.userRef,
    created_at: address.createdAt.toISOString(),
  };
}
