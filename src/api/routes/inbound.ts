/**
 * What chain monitors and providers tell us, over its raw bytes: 2xx says that it is stored and nothing more (case D5).
 * No API key: the signature is the credential.
 */
import { type RefusedReason, statusOf } from '../../inbox/receive.ts';
import { PayonceError } from '../../kernel/errors.ts';
import { BODY_BYTES_MAX } from '../../kernel/limits.ts';
import type { ApiDeps } from '../deps.ts';
import { toGot } from '../problems.ts';
import * as schemas from '../schemas.ts';
import type { Routes } from './routes.ts';

const WHY: Record<RefusedReason, string> = {
  unknown_source: 'There is no such source',
  too_large: 'The body is too large',
  no_id: 'webhook-id is missing',
  bad_id: 'webhook-id is not valid',
  no_timestamp: 'webhook-timestamp is missing, or not a count of seconds',
  no_signature: 'webhook-signature is missing',
  stale: 'webhook-timestamp is too old or ahead',
  wrong_signature: 'The signature does not fit the body',
};

export function inboundRoutes(app: Routes, deps: ApiDeps): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: BODY_BYTES_MAX }, (_request, body, done) => {
    done(null, body);
  });

  app.post(
    '/inbound/:source',
    {
      schema: {
        tags: ['inbound'],
        operationId: 'receiveInbound',
        summary: 'For chain monitors and providers',
        description: 'Standard Webhooks over the raw body. 200: stored, or stored before. Anything else: come again.',
        security: [],
        params: schemas.SourceParams,
        response: { 200: schemas.InboundStored, ...schemas.problems },
      },
    },
    async (request) => {
      const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
      const received = await deps.inbox.receive(request.params.source, request.headers, body);
      if (received.kind !== 'refused') return { status: received.kind };
      const detail = WHY[received.reason];
      switch (statusOf(received)) {
        case 404:
          throw new PayonceError('PO_NOT_FOUND');
        case 400:
          throw new PayonceError('PO_REQUEST_INVALID', {
            detail,
            pointer: '/headers/webhook-id',
            got: toGot(request.headers['webhook-id']),
            expected: '1 to 255 visible ASCII characters without a point',
          });
        case 413:
          throw new PayonceError('PO_REQUEST_TOO_LARGE', { detail });
        default:
          throw new PayonceError('PO_SIGNATURE_INVALID', { detail });
      }
    },
  );
}
