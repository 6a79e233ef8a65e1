/**
 * Which operator calls: a person's own bearer key decides before anything else of a request is looked at. A partner's key is
 * no operator's, and an operator's is no partner's: their shapes differ and each is looked for in its own table.
 *
 * The key carries 255 bits of chance and is looked up by its hash, so the time of a look-up tells a guesser nothing. It is
 * read from the header, never kept and never logged. Disabling an operator counts from the next request on.
 */
import type { FastifyRequest } from 'fastify';
import type { Query } from '../db/pool.ts';
import { loadOperator, type Operator } from '../engine/operators.ts';
import { PayonceError } from '../kernel/errors.ts';
import { bearerOf } from './auth.ts';

declare module 'fastify' {
  interface FastifyRequest {
    operator: Operator | null;
  }
}

const KEY_SHAPE = /^ok_[0-9a-z]{51}$/;

export function makeAuthenticateOperator(query: Query): (request: FastifyRequest) => Promise<void> {
  return async (request) => {
    const key = bearerOf(request);
    if (key === null || !KEY_SHAPE.test(key))
      throw new PayonceError('PO_AUTH_WRONG', {
        detail: 'This is not the key of an operator',
        pointer: '/headers/authorization',
        got: 'a key that is not valid',
        expected: 'the key of an operator who is not disabled',
      });
    request.operator = await loadOperator(query, key);
  };
}

export function operatorOf(request: FastifyRequest): Operator {
  if (request.operator === null) throw new PayonceError('PO_AUTH_MISSING');
  return request.operator;
}
