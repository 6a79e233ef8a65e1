/**
 * The text in which an answer is kept: the body as received, and how long after the seal it was asked, since a refusal for
 * now means something else when it has been said for long.
 */
import { field, parseJson, textOf } from '../json.ts';

const ANSWER_FORM = 'energy-answer-1';

export interface AnswerBody {
  readonly askedAfterMs: number;
  readonly body: string;
}

export function writeAnswer(answer: AnswerBody): string {
  return JSON.stringify({ form: ANSWER_FORM, ...answer });
}

export function readAnswerBody(text: string): AnswerBody | null {
  const value = parseJson(text);
  const body = textOf(field(value, 'body'));
  const askedAfterMs = field(value, 'askedAfterMs');
  if (field(value, 'form') !== ANSWER_FORM || body === null || typeof askedAfterMs !== 'number') return null;
  return { askedAfterMs, body };
}
