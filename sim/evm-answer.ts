/*
 * How a JSON-RPC answer travels back, or breaks on the way. By now the chain has done what it was asked; here only the
 * caller's knowledge is at stake.
 */
import type { ServerResponse } from 'node:http';
import type { CallFault } from './evm-faults.ts';
import type { Json, JsonObject } from './json-rpc.ts';

const PAGE = `<!DOCTYPE html><html><head><title>Error</title></head><body><h1>Something went wrong</h1>
<p>The server encountered a temporary error. Please try again in 30 seconds.</p></body></html>`;
const RETRY_AFTER_SEC = 1;
/** Begins no valid UTF-8 sequence. */
const BAD_BYTE = 0xff;

export function respond(
  response: ServerResponse,
  fault: CallFault | undefined,
  answers: JsonObject[],
  batch: boolean,
): void {
  const text = JSON.stringify(batch ? answers : (answers[0] ?? null));
  switch (fault?.kind) {
    case 'lose_request':
    case 'lose_answer':
      // `hang` leaves the connection open and silent; it ends when the caller gives up or the proxy stops.
      if (fault.how !== 'hang') response.socket?.destroy();
      return;
    case 'half_answer':
      response.setHeader('content-length', Buffer.byteLength(text));
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write(text.slice(0, Math.ceil(text.length / 2)), () => response.socket?.destroy());
      return;
    case 'http':
      if (fault.status === 429) response.setHeader('retry-after', RETRY_AFTER_SEC);
      response.writeHead(fault.status, { 'content-type': 'text/html' }).end(PAGE);
      return;
    case 'garble':
      garble(response, fault.how, text, answers, batch);
      return;
    default:
      response.writeHead(200, { 'content-type': 'application/json' }).end(text);
  }
}

type How = Extract<CallFault, { kind: 'garble' }>['how'];

/** All with status 200: what a careless reader would take for an answer. */
function garble(response: ServerResponse, how: How, text: string, answers: JsonObject[], batch: boolean): void {
  const type = how === 'html' ? 'text/html' : 'application/json';
  response.writeHead(200, { 'content-type': type });
  switch (how) {
    case 'truncated':
      response.end(text.slice(0, Math.ceil(text.length / 2)));
      return;
    case 'html':
      response.end(PAGE);
      return;
    case 'empty':
      response.end();
      return;
    case 'bad_utf8': {
      // Inside the last string: a lenient decoder still finds JSON, with one character of the result replaced.
      const bytes = Buffer.from(text);
      bytes[bytes.lastIndexOf('"') - 1] = BAD_BYTE;
      response.end(bytes);
      return;
    }
    case 'wrong_id':
      response.end(
        toText(
          answers.map((answer) => ({ ...answer, id: foreignId(answer.id ?? null) })),
          batch,
        ),
      );
      return;
    case 'not_an_answer':
      response.end(
        toText(
          answers.map((answer) => ({ jsonrpc: '2.0', id: answer.id ?? null })),
          batch,
        ),
      );
      return;
  }
}

function toText(answers: JsonObject[], batch: boolean): string {
  return JSON.stringify(batch ? answers : answers[0]);
}

/** An id that this caller has not used: numbers far away, strings with a tail. */
export function foreignId(id: Json): Json {
  return typeof id === 'number' ? id + 1_000_003 : `${JSON.stringify(id)}-foreign`;
}
