/*
 * How an answer reaches the caller, or does not: connections that break, bodies that are not what they say.
 */
import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BankFault, Break } from './faults.ts';
import type { Answer, BankRequest } from './profile.ts';

/** 10 MB: more than any answer of a bank, less than what makes a test slow. */
const HUGE_BODY_BYTES = 10 * 1024 * 1024;
/** Larger requests are no payment orders. */
const REQUEST_BYTES_MAX = 20 * 1024 * 1024;
const DRIP_MS = 2_000;
const DRIP_PIECES = 20;

const GATEWAY_PAGE =
  '<html><head><title>Bad Gateway</title></head><body><h1>The service is unavailable</h1></body></html>';

export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of request as AsyncIterable<Buffer>) {
    bytes += piece.length;
    if (bytes > REQUEST_BYTES_MAX) throw new RangeError('request too large');
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

export function toRequest(incoming: IncomingMessage, body: Buffer): BankRequest {
  const target = new URL(incoming.url ?? '/', 'http://here');
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(incoming.headers)) {
    if (value !== undefined) headers[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return { method: incoming.method ?? 'GET', path: target.pathname, query: target.searchParams, headers, body };
}

/** Refuses connections from here, and cuts those that are open. */
export async function closeServer(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await closed;
}

export function breakOff(response: ServerResponse, how: Break): void {
  const { socket } = response;
  if (how === 'hang' || socket === null) return;
  if (how === 'reset') socket.resetAndDestroy();
  else socket.destroy();
}

export function respond(response: ServerResponse, answer: Answer): void {
  const body = Buffer.from(answer.body, 'utf8');
  response.writeHead(answer.status, { ...answer.headers, 'content-length': body.length });
  response.end(body);
}

export function gatewayPage(status: number, retryAfterS: number | undefined): Answer {
  return {
    status,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      ...(retryAfterS === undefined ? {} : { 'retry-after': String(retryAfterS) }),
    },
    body: GATEWAY_PAGE,
  };
}

export async function respondGarbled(
  response: ServerResponse,
  answer: Answer,
  fault: Extract<BankFault, { kind: 'garble' }>,
): Promise<void> {
  const status = fault.status ?? answer.status;
  const body = Buffer.from(answer.body, 'utf8');
  switch (fault.how) {
    case 'html':
      return respond(response, gatewayPage(status, undefined));
    case 'empty':
      return respond(response, { ...answer, status, body: '' });
    case 'not_json':
      return respond(response, { ...answer, status, body: `${answer.body.slice(0, -1)},,` });
    case 'truncated':
      response.writeHead(status, { ...answer.headers, 'content-length': body.length });
      response.write(body.subarray(0, Math.floor(body.length / 2)), () => breakOff(response, fault.end ?? 'fin'));
      return;
    case 'huge': {
      // Blanks are JSON too: only a reader with a limit is safe from it.
      response.writeHead(status, { ...answer.headers, 'content-length': HUGE_BODY_BYTES + body.length });
      response.write(Buffer.alloc(HUGE_BODY_BYTES, ' '));
      response.end(body);
      return;
    }
    case 'bad_utf8': {
      const half = Math.floor(body.length / 2);
      const bytes = Buffer.concat([body.subarray(0, half), Buffer.from([0xc3, 0x28, 0xff]), body.subarray(half)]);
      response.writeHead(status, { ...answer.headers, 'content-length': bytes.length });
      response.end(bytes);
      return;
    }
    case 'drip': {
      const step = Math.max(1, Math.ceil(body.length / DRIP_PIECES));
      const pauseMs = (fault.ms ?? DRIP_MS) / DRIP_PIECES;
      response.writeHead(status, { ...answer.headers, 'content-length': body.length });
      for (let from = 0; from < body.length && !response.destroyed; from += step) {
        response.write(body.subarray(from, from + step));
        await sleep(pauseMs);
      }
      response.end();
    }
  }
}
