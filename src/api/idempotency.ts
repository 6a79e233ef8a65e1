/**
 * Idempotency keys at the edge (design §3): demanded on every route that moves money, before anything else of the request
 * is judged, and bound to method, path and body by a fingerprint. Reordered JSON is the same body; "1.0" and "1.00" are two.
 */
import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import type { FastifyRequest } from 'fastify';
import { type MoneyState, PayonceError } from '../kernel/errors.ts';
import { toGot } from './problems.ts';

const KEY = /^[\x21-\x7e]{1,255}$/;

export function idempotencyKeyOf(request: FastifyRequest): string {
  const key = request.headers['idempotency-key'];
  if (key === undefined || key === '')
    throw new PayonceError('PO_KEY_MISSING', {
      pointer: '/headers/idempotency-key',
      got: 'nothing',
      expected: 'a key of your own, 1 to 255 visible ASCII characters',
    });
  if (typeof key !== 'string' || !KEY.test(key))
    throw new PayonceError('PO_KEY_INVALID', {
      pointer: '/headers/idempotency-key',
      got: toGot(key),
      expected: '1 to 255 visible ASCII characters, one header',
    });
  return key;
}

/** RFC 8785 over method, path and body, hashed. */
export function fingerprintOf(request: FastifyRequest): string {
  const text = canonicalize({ method: request.method, path: request.url.split('?', 1)[0], body: request.body });
  if (text === undefined) throw new TypeError('a body that is no JSON passed the schema');
  return createHash('sha256').update(text).digest('hex');
}

/** What a partner may conclude from a withdrawal's status: only `not_sent` is a reason to pay another way. */
export function moneyStateOf(status: string): MoneyState {
  switch (status) {
    case 'pending':
    case 'failed':
    case 'cancelled':
      return 'not_sent';
    case 'sent':
    case 'confirmed':
    case 'returned':
      return 'sent';
    default:
      return 'unknown';
  }
}
