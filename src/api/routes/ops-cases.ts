/** Cases over HTTP: the list, the whole story with what can be done now, proposals and approvals of two persons, notes. */
import { countOpenCases, listCases, type ListedCase } from '../../audit/case-list.ts';
import { readCase } from '../../audit/case-story.ts';
import { approve, type Detail, note, propose } from '../../engine/adjudicate.ts';
import { CASE_KINDS, type CaseKind } from '../../engine/cases.ts';
import { actsNow, missingIn, verbsNow } from '../../engine/possible.ts';
import { loadEffects } from '../../engine/store.ts';
import { withdraw } from '../../engine/withdraw.ts';
import { PayonceError } from '../../kernel/errors.ts';
import { fromCursor, pageItems, PLACE, toCursor, toPage } from '../cursor.ts';
import type { ApiDeps } from '../deps.ts';
import { STORY_ANSWER_CHARACTERS_MAX } from '../limits.ts';
import { operatorOf } from '../operator-auth.ts';
import * as ops from '../ops-schemas.ts';
import { problems } from '../schemas.ts';
import { nudge } from '../orders.ts';
import type { Routes } from './routes.ts';

const IS_OPEN = /^[01]$/;
const SEVERITY = /^[1-3]$/;

export function caseRoutes(app: Routes, deps: ApiDeps): void {
  const tags = [ops.OPS];

  app.get(
    '/cases',
    {
      schema: {
        tags,
        operationId: 'listCases',
        summary: 'Cases, the most urgent first, with how many are open and how old the oldest is',
        querystring: ops.CaseQuery,
        response: { 200: ops.CasePage, ...problems },
      },
    },
    async (request) => {
      const { status, kind, partner, severity, cursor } = request.query;
      const filter = { kind, partnerId: partner, severity: severity === undefined ? undefined : Number(severity) };
      const name = { list: 'ops cases', partnerId: operatorOf(request).id };
      const place = fromCursor(name, cursor, [IS_OPEN, SEVERITY, PLACE.time, PLACE.id]);
      const limit = pageItems(request.query.limit);
      const rows = await listCases(deps.pool, {
        ...filter,
        all: status === 'all',
        limit: limit + 1,
        after: place === null ? null : [place[0] ?? '', place[1] ?? '', place[2] ?? '', place[3] ?? ''],
      });
      const page = toPage(
        rows,
        limit,
        ({ place: _place, ...one }) => ({ ...one, means: meaningOf(one) }),
        (row) => toCursor(name, row.place),
      );
      return { open: await countOpenCases(deps.pool, filter), ...page };
    },
  );

  app.get(
    '/cases/:id',
    {
      schema: {
        tags,
        operationId: 'readCase',
        summary: 'The whole story of a case, and what can be done now',
        description: `Every answer as it came and how it was read; each is cut after ${STORY_ANSWER_CHARACTERS_MAX} characters, see GET /ops/answers/{id}.`,
        params: ops.IdParams,
        response: { 200: ops.CaseFull, ...problems },
      },
    },
    async (request) => {
      const one = await readCase(deps.pool, request.params.id, STORY_ANSWER_CHARACTERS_MAX);
      const effectId = one.effect_id === null ? null : BigInt(one.effect_id);
      const verbs = await verbsNow(deps.engine, {
        id: one.id,
        kind: one.kind,
        subjectKey: one.subject,
        effectId,
        closed: one.closed_at !== null,
      });
      const [effect] = effectId === null ? [] : await loadEffects(deps.pool, [effectId]);
      return {
        ...one,
        means: meaningOf(one),
        verbs,
        effect: one.effect === null || effect === undefined ? null : { ...one.effect, acts: actsNow(effect) },
      };
    },
  );

  app.post(
    '/cases/:id/proposals',
    {
      schema: {
        tags,
        operationId: 'propose',
        summary: 'Propose what a second person shall approve (operator)',
        description:
          'It is bound to the evidence as it stands now. A newer proposal of the same verb makes this one void.',
        params: ops.IdParams,
        body: ops.NewProposal,
        response: { 201: ops.ProposalMade, ...problems },
      },
    },
    async (request, reply) => {
      const { verb, reason, evidence_id: evidenceId, ...named } = request.body;
      const detail: Detail = { reason, ...named, ...(evidenceId === undefined ? {} : { evidenceId }) };
      const missing = missingIn(verb, detail);
      if (missing !== null) {
        const field = missing === 'evidenceId' ? 'evidence_id' : missing;
        throw new PayonceError('PO_REQUEST_INVALID', {
          detail: `${verb} needs ${field}`,
          pointer: `/${field}`,
          got: 'nothing',
          expected: `${field}, see GET /ops/cases/{id}`,
        });
      }
      const { id } = request.params;
      const made = await propose(deps.engine, operatorOf(request), id, verb, detail);
      return reply
        .code(201)
        .send({ proposal_id: made.proposalId, case_id: id, verb, evidence_version: made.evidenceVersion });
    },
  );

  app.post(
    '/proposals/:id/approve',
    {
      schema: {
        tags,
        operationId: 'approve',
        summary: 'Carry out what another person proposed (approver)',
        description:
          'If the evidence is still what they saw; else 409 PO_STALE: the proposal is void and nothing was done.',
        params: ops.IdParams,
        response: { 200: ops.Approved, ...problems },
      },
    },
    async (request) => {
      const { id } = request.params;
      const approval = await approve(deps.engine, operatorOf(request), id);
      if (approval.outcome === 'void')
        throw new PayonceError('PO_STALE', { detail: `Void, nothing was done: ${approval.why}` });
      nudge(deps);
      return { proposal_id: id, ...approval };
    },
  );

  app.post(
    '/proposals/:id/withdraw',
    {
      schema: {
        tags,
        operationId: 'withdraw',
        summary: 'Take back what you proposed, while nobody has decided it (operator)',
        params: ops.IdParams,
        response: { 200: ops.Withdrawn, ...problems },
      },
    },
    async (request) => {
      const { id } = request.params;
      const done = await withdraw(deps.engine, operatorOf(request), id);
      if (done.outcome === 'too_late')
        throw new PayonceError('PO_TOO_LATE', { detail: `The proposal is ${done.state}` });
      return { proposal_id: id, outcome: done.outcome };
    },
  );

  app.post(
    '/cases/:id/notes',
    {
      schema: {
        tags,
        operationId: 'note',
        summary: 'Leave a remark for whoever looks next (operator)',
        params: ops.IdParams,
        body: ops.NewNote,
        response: { 201: ops.Noted, ...problems },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      await note(deps.engine, operatorOf(request), id, request.body.note);
      return reply.code(201).send({ case_id: id, note: request.body.note });
    },
  );
}

function meaningOf(one: Pick<ListedCase, 'kind'>): string | null {
  return Object.hasOwn(CASE_KINDS, one.kind) ? CASE_KINDS[one.kind as CaseKind] : null;
}
