/** One effect over HTTP: its story, a look or an ask now, a bump or a cancel by the next worker. Same identity always. */
import { findEffects, readEffects, readEvents } from '../../audit/story.ts';
import { readAnswer } from '../../audit/story-answers.ts';
import { type Acted, type ActNow, actNow } from '../../engine/act-now.ts';
import { type Wish, wish } from '../../engine/adjudicate.ts';
import { actsNow } from '../../engine/possible.ts';
import { loadEffects } from '../../engine/store.ts';
import { PayonceError } from '../../kernel/errors.ts';
import type { ApiDeps } from '../deps.ts';
import { STORY_ANSWER_CHARACTERS_MAX } from '../limits.ts';
import { nudge } from '../orders.ts';
import { operatorOf } from '../operator-auth.ts';
import * as ops from '../ops-schemas.ts';
import { problems } from '../schemas.ts';
import type { Routes } from './routes.ts';

const NOW: Readonly<Record<ActNow, { summary: string; description: string }>> = {
  look: {
    summary: 'Look again at the rail, now (operator)',
    description: 'Nothing is sent. Answers when the look was had; 409 PO_BUSY at once where somebody else is at it.',
  },
  ask: {
    summary: 'Look, and send the same bytes again, now (operator)',
    description:
      'Asking and retrying are one: it can happen once at most. 409 PO_BUSY at once where somebody else is at it: then nothing was done.',
  },
};
const LATER: Readonly<Record<Exclude<Wish, ActNow>, { summary: string; happens: string }>> = {
  bump: {
    summary: 'The same nonce and payload with higher fees (operator; chains)',
    happens: 'The next worker signs it with higher fees and sends it; only one of its variants can be mined.',
  },
  cancel: {
    summary: 'A transfer of nothing with the same nonce (operator; chains)',
    happens:
      'The next worker signs and sends the cancel. Either the payment is mined or the cancel, never both; the money is freed when the cancel is final.',
  },
};

export function effectRoutes(app: Routes, deps: ApiDeps): void {
  const tags = [ops.OPS];

  app.get(
    '/effects/:id',
    {
      schema: {
        tags,
        operationId: 'readEffect',
        summary: 'The story of an effect, or of every try of a withdrawal or transfer',
        params: ops.EffectParams,
        response: { 200: ops.Effects, ...problems },
      },
    },
    async (request) => {
      const ids = await findEffects(deps.pool, request.params.id);
      const rows = await loadEffects(deps.pool, ids);
      const stories = await readEffects(deps.pool, ids, STORY_ANSWER_CHARACTERS_MAX);
      const effects = stories.map((story) => {
        const row = rows.find((one) => one.id.toString() === story.id);
        return { ...story, acts: row === undefined ? [] : actsNow(row) };
      });
      const [first] = effects;
      return {
        effects,
        events: first === undefined ? [] : await readEvents(deps.pool, first.subject_type, first.subject_id),
      };
    },
  );

  app.get(
    '/answers/:id',
    {
      schema: {
        tags,
        operationId: 'readAnswer',
        summary: 'One raw answer, whole',
        params: ops.AnswerParams,
        response: { 200: ops.Answer, ...problems },
      },
    },
    async (request) => readAnswer(deps.pool, BigInt(request.params.id)),
  );

  for (const act of ['look', 'ask'] as const) {
    app.post(
      `/effects/:id/${act}`,
      {
        schema: {
          tags,
          operationId: act,
          ...NOW[act],
          params: ops.EffectParams,
          response: { 200: ops.ActedNow, 202: ops.ActLeft, ...problems },
        },
      },
      async (request, reply) => {
        const id = await newestEffect(deps, request.params.id);
        const acted = await actNow(deps.engine, operatorOf(request), id, act);
        if (acted.outcome === 'hurried' || acted.outcome === 'wished') {
          nudge(deps);
          reply.code(202);
        }
        return toActed(id, act, acted);
      },
    );
  }

  for (const act of ['bump', 'cancel'] as const) {
    app.post(
      `/effects/:id/${act}`,
      {
        schema: {
          tags,
          operationId: `${act}Effect`,
          summary: LATER[act].summary,
          description: 'It is noted and 202 answered: the next worker does it under its lease.',
          params: ops.EffectParams,
          response: { 202: ops.ActLeft, ...problems },
        },
      },
      async (request, reply) => {
        const id = await newestEffect(deps, request.params.id);
        if ((await wish(deps.engine, operatorOf(request), id, act)) === 'ended')
          throw new PayonceError('PO_EVIDENCE_REFUSED', {
            detail: `Effect ${id} is not open for that: nothing to ${act}`,
          });
        nudge(deps);
        return reply.code(202).send({
          effect_id: id,
          act,
          outcome: 'wished',
          what_happens: `Nothing was sent yet. ${LATER[act].happens}`,
        });
      },
    );
  }
}

/** The last try of a withdrawal or transfer is the only one that can still be open. */
async function newestEffect(deps: ApiDeps, asked: string): Promise<bigint> {
  return (await findEffects(deps.pool, asked)).at(-1) ?? 0n;
}

function toActed(id: bigint, act: ActNow, acted: Acted): object {
  switch (acted.outcome) {
    case 'advanced': {
      const { outcome, state, evidenceVersion, sent, withheld } = acted;
      return { effect_id: id, act, outcome, state, evidence_version: evidenceVersion, sent, withheld };
    }
    case 'hurried':
      return {
        effect_id: id,
        act,
        outcome: acted.outcome,
        what_happens: `It is not sealed: nothing has left, so there is nothing to ${act}. The next worker plans it at once.`,
      };
    case 'wished':
      return {
        effect_id: id,
        act,
        outcome: acted.outcome,
        what_happens: `Its rail is not configured in this process: nothing was done yet. The next worker that has it will ${act}.`,
      };
    case 'busy':
      throw new PayonceError('PO_BUSY', {
        detail: `Somebody else is at effect ${id}${acted.until === null ? '' : `, until ${acted.until.toISOString()} at the latest`}. Nothing was done, and nothing is left behind.`,
      });
    case 'gone':
      throw new PayonceError('PO_EVIDENCE_REFUSED', { detail: `Effect ${id}: ${acted.why}` });
  }
}
