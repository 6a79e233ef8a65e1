/**
 * What operators have: cases with their whole story, the safe verbs, what is undecided, the audit log. Thin over the very
 * functions that the command line uses.
 *
 * Promises: every route wants the key of an operator, and each act the role that it takes; answers show no key and no secret
 * of a rail; what strangers answered goes out as plain JSON text that no browser reads as anything else. The routes stand in
 * a document of their own, /ops/openapi.json, for operators; the partners' document does not name them.
 * Never: a verb that the engine does not have; a wait for somebody else's lease.
 */
import swagger from '@fastify/swagger';
import { PayonceError } from '../../kernel/errors.ts';
import { toJsonText } from '../../kernel/json-text.ts';
import type { ApiDeps } from '../deps.ts';
import { makeAuthenticateOperator, operatorOf } from '../operator-auth.ts';
import * as ops from '../ops-schemas.ts';
import { limitRequests } from '../rate-limit.ts';
import { problems } from '../schemas.ts';
import { caseRoutes } from './ops-cases.ts';
import { effectRoutes } from './ops-effects.ts';
import { watchRoutes } from './ops-watch.ts';
import type { Routes } from './routes.ts';

declare module 'fastify' {
  interface FastifyInstance {
    opsDocument?: () => object;
  }
}

export async function operatorRoutes(app: Routes, deps: ApiDeps): Promise<void> {
  app.addHook('onRequest', makeAuthenticateOperator(deps.pool));
  // A tag in a stranger's answer is data to us; to a browser that is shown it by mistake it must be data too.
  app.setReplySerializer((answer) => escapeMarkup(toJsonText(answer)));
  await limitRequests(app, deps, (request) => operatorOf(request).id);
  await app.register(swagger, {
    decorator: 'opsDocument',
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Payonce for operators',
        version: deps.version,
        description:
          'Cases, the safe verbs, and what is undecided. Amounts and ages are decimal text. Refusals are problem+json.',
      },
      components: {
        securitySchemes: { operator: { type: 'http', scheme: 'bearer', description: 'ok_…, one key for each person' } },
      },
      security: [{ operator: [] }],
    },
  });
  caseRoutes(app, deps);
  effectRoutes(app, deps);
  watchRoutes(app, deps);
  app.get(
    '/me',
    {
      schema: {
        tags: [ops.OPS],
        operationId: 'whoAmI',
        summary: 'Whose key this is',
        response: { 200: ops.Me, ...problems },
      },
    },
    (request) => operatorOf(request),
  );
  app.get('/openapi.json', { schema: { hide: true } }, () => {
    if (app.opsDocument === undefined) throw new PayonceError('PO_NOT_FOUND');
    return app.opsDocument();
  });
}

const MARKUP = /[<>&\u2028\u2029]/g;

/** The same JSON, without a character that opens markup: outside of strings JSON has none of these. */
function escapeMarkup(json: string): string {
  return json.replaceAll(MARKUP, (one) => `\\u${(one.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`);
}
