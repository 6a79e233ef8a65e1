/**
 * The one way in which a rail's request leaves: one HTTP request through the gate, no retry, no redirect, a size limit, and
 * a report of how far it got.
 *
 * `never_connected` is said only where undici never handed the request to a connected socket: names that do not resolve,
 * refused connections, failed TLS. From the moment a socket has the request, silence is unknown.
 * What lets us in comes as a `Credential`, and nothing of it is in what is handed back (`redact.ts`).
 * Never: decides what an answer is worth, follows a redirect, tries again, throws for what the other side did.
 */
import { Readable } from 'node:stream';
import { Agent, type Client, type Dispatcher } from 'undici';
import type { Reach } from '../engine/rail.ts';
import { RAIL_TIMEOUT_MS } from '../kernel/limits.ts';
import type { HalfCut, Ports } from '../kernel/ports.ts';
import type { Credential } from './redact.ts';

/** Establishing TCP and TLS; a server that needs longer will not answer in time either. */
const CONNECT_MS = 5_000;
/** An idle connection is kept over several looks, so that a look's questions go to one machine. */
const KEEP_ALIVE_MS = 30_000;
/** With half of a request out, a cut waits so long that the kernel has surely taken the bytes. */
const HALF_FLUSH_MS = 50;

export interface WireLimits {
  readonly timeoutMs: number;
  readonly connectMs: number;
}

export const WIRE_LIMITS: WireLimits = { timeoutMs: RAIL_TIMEOUT_MS, connectMs: CONNECT_MS };

export interface Outgoing {
  readonly method: 'GET' | 'POST' | 'PUT';
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly credential: Credential;
  /** `null`: no body. */
  readonly body: Uint8Array | null;
}

export interface Exchange {
  readonly reach: Reach;
  readonly status: number | null;
  /** Names in lower case; a header that came several times is joined. Without the credential, as the body. */
  readonly headers: Readonly<Record<string, string>>;
  /** As received up to the limit, or the transport's error. */
  readonly body: string;
  readonly cut: boolean;
}

export function wireOptions(limits: WireLimits): Client.Options {
  return {
    pipelining: 1,
    connect: { timeout: limits.connectMs },
    headersTimeout: limits.timeoutMs,
    bodyTimeout: limits.timeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
  };
}

/** The dispatcher of a rail's sends: many at once, each a request of its own. */
export function makeSendAgent(connections: number, limits: WireLimits): Agent {
  return new Agent({ ...wireOptions(limits), connections });
}

/** One request. `name` is what the gate calls it; never a secret. */
export function exchangeOnce(
  wire: Dispatcher,
  ports: Ports,
  name: string,
  outgoing: Outgoing,
  limits: WireLimits & { readonly bytesMax: number },
): Promise<Exchange> {
  return ports.gate.pass('http', name, (half) => dispatch(wire, outgoing, limits, half));
}

function dispatch(
  wire: Dispatcher,
  outgoing: Outgoing,
  limits: WireLimits & { readonly bytesMax: number },
  half: HalfCut | null,
): Promise<Exchange> {
  return new Promise((resolve, reject) => {
    const { url, credential } = outgoing;
    const chunks: Buffer[] = [];
    let size = 0;
    let reach: Reach = 'never_connected';
    let status: number | null = null;
    let headers: Record<string, string> = {};
    let ended = false;
    let request: Dispatcher.DispatchController | null = null;

    const finish = (final: Reach, body: string, cut: boolean): void => {
      if (ended) return;
      ended = true;
      clearTimeout(timer);
      resolve({ reach: final, status, headers, body: credential.redact(body, cut), cut });
    };
    const giveUp = (reason: string): void => {
      // Before `onRequestStart` nothing was written, and the abort in it keeps it so.
      finish(reach, reason, false);
      request?.abort(new Error(reason));
    };
    const timer = setTimeout(() => giveUp(`no whole answer within ${limits.timeoutMs} ms`), limits.timeoutMs);

    const handler: Dispatcher.DispatchHandler = {
      onRequestStart(controller) {
        // Started twice would be a retry below us; started after our time-out would be a send nobody waits for.
        if (ended || request !== null) {
          controller.abort(new Error('abandoned before it was written'));
          return;
        }
        request = controller;
        // LEAVES: undici writes the request to its socket right after this returns.
        reach = 'request_written';
      },
      onResponseStart(_controller, code, received) {
        reach = 'partial_answer';
        status = code;
        headers = plainHeaders(received, credential);
      },
      onResponseData(_controller, chunk) {
        if (half?.mode === 'half_read') dieIn(half, reject);
        size += chunk.length;
        if (size <= limits.bytesMax) {
          chunks.push(chunk);
          return;
        }
        chunks.push(chunk.subarray(0, chunk.length - (size - limits.bytesMax)));
        finish('partial_answer', Buffer.concat(chunks).toString('utf8'), true);
        request?.abort(new Error('answer too large'));
      },
      onResponseEnd() {
        finish('answer', Buffer.concat(chunks).toString('utf8'), false);
      },
      onResponseError(_controller, error) {
        finish(reach, reach === 'partial_answer' ? Buffer.concat(chunks).toString('utf8') : describe(error), true);
      },
    };
    const bytes = outgoing.body === null ? null : Buffer.from(outgoing.body);
    try {
      wire.dispatch(
        {
          origin: url.origin,
          path: url.pathname + url.search,
          method: outgoing.method,
          headers: {
            ...outgoing.headers,
            ...credential.headers,
            ...(bytes === null ? {} : { 'content-length': String(bytes.length) }),
          },
          body: bytes !== null && half?.mode === 'half_written' ? Readable.from(halfOf(bytes, half, reject)) : bytes,
        },
        handler,
      );
    } catch (error) {
      finish(reach, describe(error), false);
    }
  });
}

function plainHeaders(
  received: Record<string, string | string[] | undefined>,
  credential: Credential,
): Record<string, string> {
  const plain: Record<string, string> = {};
  for (const [name, value] of Object.entries(received)) {
    if (value !== undefined)
      plain[name.toLowerCase()] = credential.redact(Array.isArray(value) ? value.join(', ') : value);
  }
  return plain;
}

/** Gives undici the first half, waits until the kernel has it, and dies. */
async function* halfOf(bytes: Buffer, half: HalfCut, reject: (error: unknown) => void): AsyncGenerator<Buffer> {
  yield bytes.subarray(0, Math.ceil(bytes.length / 2));
  await new Promise((resolve) => setTimeout(resolve, HALF_FLUSH_MS));
  dieIn(half, reject);
}

/** In production `die` does not return; a test's may throw, which must reach the caller and not undici. */
function dieIn(half: HalfCut, reject: (error: unknown) => void): void {
  try {
    half.die();
  } catch (error) {
    reject(error);
    throw error;
  }
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error && typeof error.code === 'string' ? `${error.code}: ` : '';
  return code + error.message;
}
