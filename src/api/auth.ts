/** Who calls: the bearer key decides the partner before anything else of a request is looked at. */
import type { FastifyRequest } from 'fastify';
import { PayonceError } from '../kernel/errors.ts';
import type { Caller } from './keys.ts';

declare module 'fastify' {
  interface FastifyRequest {
    caller: { readonly partnerId: string; readonly keyId: string } | null;
  }
}

const BEARER = /^Bearer +(\S+)$/i;

export function makeAuthenticate(
  readKey: (key: string) => Promise<Caller>,
): (request: FastifyRequest) => Promise<void> {
  return async (request) => {
    const key = bearerOf(request);
    const caller: Caller = key === null ? { found: 'unknown' } : await readKey(key);
    switch (caller.found) {
      case 'partner':
        request.caller = { partnerId: caller.partnerId, keyId: caller.keyId };
        return;
      case 'revoked':
        // A payment may have been made with it before: a repeat under its idempotency key is not "not sent".
        throw new PayonceError('PO_AUTH_WRONG', {
          ...WRONG,
          ...(request.headers['idempotency-key'] === undefined ? {} : { moneyState: 'unknown' }),
        });
      case 'unknown':
        throw new PayonceError('PO_AUTH_WRONG', WRONG);
    }
  };
}

/** The key of the header; null where it is none. Throws where there is no header. */
export function bearerOf(request: FastifyRequest): string | null {
  const { authorization } = request.headers;
  if (authorization === undefined || authorization === '')
    throw new PayonceError('PO_AUTH_MISSING', {
      pointer: '/headers/authorization',
      got: 'nothing',
      expected: 'Bearer and a key',
    });
  return BEARER.exec(authorization)?.[1] ?? null;
}

const WRONG = {
  pointer: '/headers/authorization',
  got: 'a key that is not valid',
  expected: 'a key of yours that is not revoked',
};

export function callerOf(request: FastifyRequest): { readonly partnerId: string; readonly keyId: string } {
  if (request.caller === null) throw new PayonceError('PO_AUTH_MISSING');
  return request.caller;
}
