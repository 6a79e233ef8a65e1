/**
 * Raw answers as they came, for people. An effect that stays open for days gathers many, and a stranger decides how long each
 * is: of each effect the first and the last ones are shown, each cut where the reader says; one alone can be read whole.
 */
import type { Query } from '../db/pool.ts';
import { PayonceError } from '../kernel/errors.ts';
import { ANSWER_BYTES_MAX } from '../kernel/limits.ts';

export interface StoryAnswer {
  readonly id: string;
  readonly operation: 'send' | 'look';
  readonly send_number: number;
  readonly source: string;
  readonly operator: string;
  readonly reach: string;
  readonly status: number | null;
  readonly body: string;
  /** Of the whole body, which `body` may be the beginning of. */
  readonly body_characters: number;
  readonly variant_hash: string | null;
  readonly repeats: number;
  readonly received_at: Date;
  readonly last_received_at: Date;
  readonly read_as: string | null;
  readonly why: string | null;
}

/** The first ones tell how it began, the last ones how it stands; what lies between repeats them. */
const FIRST_ANSWERS = 50;
const LAST_ANSWERS = 150;

const ANSWERS = `select a.effect_id, a.id::text, a.operation, a.send_number, a.source, a.operator, a.reach, a.status,
       left(a.body, $2) as body, char_length(a.body) as body_characters, a.variant_hash, a.repeats,
       a.received_at, a.last_received_at, a.observed as read_as, a.observed_why as why, n.of_all
from (
  select id,
         row_number() over (partition by effect_id order by id) as nth,
         count(*) over (partition by effect_id) as of_all
  from payonce.effect_answers
  where effect_id = any ($1::bigint[])) n
join payonce.effect_answers a on a.id = n.id
where n.nth <= ${FIRST_ANSWERS}
  or n.nth > n.of_all - ${LAST_ANSWERS}
order by a.id`;

const ANSWER = `select id::text, operation, send_number, source, operator, reach, status, body, char_length(body) as body_characters,
       variant_hash, repeats, received_at, last_received_at, observed as read_as, observed_why as why
from payonce.effect_answers
where id = $1`;

export interface StoryAnswers {
  readonly answers: readonly StoryAnswer[];
  /** Between the first and the last ones. */
  readonly answers_left_out: number;
}

export async function loadAnswers(
  query: Query,
  effectIds: readonly bigint[],
  bodyCharactersMax = ANSWER_BYTES_MAX,
): Promise<Map<bigint, StoryAnswers>> {
  const { rows } = await query.query<StoryAnswer & { effect_id: bigint; of_all: bigint } & Record<string, unknown>>(
    ANSWERS,
    [effectIds, bodyCharactersMax],
  );
  return new Map(
    [...Map.groupBy(rows, (row) => row.effect_id)].map(([id, of]) => [
      id,
      {
        answers: of.map(({ effect_id: _effect, of_all: _all, ...answer }) => answer),
        answers_left_out: Number(of[0]?.of_all ?? 0n) - of.length,
      },
    ]),
  );
}

/** One, whole. */
export async function readAnswer(query: Query, id: bigint): Promise<StoryAnswer> {
  const row = (await query.query<StoryAnswer & Record<string, unknown>>(ANSWER, [id])).rows[0];
  if (row === undefined) throw new PayonceError('PO_NOT_FOUND', { detail: `There is no answer ${id}` });
  return row;
}
