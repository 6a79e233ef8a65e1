/**
 * The one JSON text in which an answer is kept: each page with its status, the headers that say something (a replay mark, an
 * echoed key), and the body as received. So a stored answer can be read again years later, without the wire. Its form names
 * the rail that wrote it.
 */
import type { Json } from '../engine/rail.ts';
import { ANSWER_BYTES_MAX } from '../kernel/limits.ts';
import { field, isArray, isObject, parseJson, textOf } from './json.ts';
import type { LookFacts, LookUp } from './keyed-profile.ts';

/** Kept of every answer. `Date`, request ids and the like would make each repetition look new. */
const HEADERS_KEPT = ['content-type', 'idempotency-key', 'idempotent-replayed', 'link'];

export interface Page {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The body is not whole. */
  readonly cut: boolean;
}

/** An object under our key, as far as it matters beside another. */
export interface Shown {
  readonly id: string | null;
  readonly state: string | null;
}

export interface AnswerBody {
  /** `null`: the answer to a send. */
  readonly look: LookUp<LookFacts>['name'] | null;
  /** What a look by object asked for. */
  readonly objectId: string | null;
  /** The credential (its name, not its secret) under which was asked. */
  readonly credential: string;
  readonly pages: readonly Page[];
  /** `false`: more pages than were read, or a page that does not tell whether there are more. */
  readonly whole: boolean;
  /** What the other answers of the same look show under our key, each id once: one answer alone may show the wrong one. */
  readonly beside: readonly Shown[];
}

export function keptHeaders(
  headers: Readonly<Record<string, string>>,
  more: readonly string[],
): Record<string, string> {
  const kept = [...new Set([...HEADERS_KEPT, ...more])].sort();
  return Object.fromEntries(kept.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]]])));
}

export function writeAnswer(form: string, body: AnswerBody): string {
  const text = JSON.stringify({ form, ...body });
  if (text.length <= ANSWER_BYTES_MAX) return text;
  // Escaped, it is longer than the engine keeps: a beginning, marked as such, reads as unreadable and never as less than it was.
  const share = Math.floor(ANSWER_BYTES_MAX / (8 * body.pages.length));
  return JSON.stringify({
    form,
    ...body,
    whole: false,
    pages: body.pages.map((page) => ({ ...page, body: page.body.slice(0, share), cut: true })),
  });
}

export function readAnswerBody(form: string, text: string): AnswerBody | null {
  const value = parseJson(text);
  const pages = field(value, 'pages');
  const look = field(value, 'look');
  if (field(value, 'form') !== form || !isArray(pages)) return null;
  const read = pages.flatMap((page): Page[] => {
    const status = field(page, 'status');
    const headers = field(page, 'headers');
    const body = textOf(field(page, 'body'));
    if (typeof status !== 'number' || !isObject(headers) || body === null) return [];
    return [
      {
        status,
        headers: Object.fromEntries(
          Object.entries(headers).flatMap(([name, one]) => (typeof one === 'string' ? [[name, one]] : [])),
        ),
        body,
        cut: field(page, 'cut') === true,
      },
    ];
  });
  if (read.length !== pages.length || read.length === 0) return null;
  return {
    look: look === 'by_key' || look === 'by_reference' || look === 'by_object' ? look : null,
    objectId: textOf(field(value, 'objectId')),
    credential: textOf(field(value, 'credential')) ?? '',
    pages: read,
    whole: field(value, 'whole') === true,
    beside: shownIn(field(value, 'beside')),
  };
}

/** Answers that were stored before a look noted it have none. */
function shownIn(value: Json | undefined): readonly Shown[] {
  if (!isArray(value)) return [];
  return value.map((one) => ({ id: textOf(field(one, 'id')), state: textOf(field(one, 'state')) }));
}
