/**
 * One attempt to deliver one event: a POST of the stored bytes, judged by its status alone (rails.md §5.1).
 *
 * Only 2xx is success. A redirect is a failure, not a journey; 410 says that nobody lives there any more; 429 and 503 may
 * say when to come back. Whatever else happens, a time-out included, is a failure that will be tried again: the id lets the
 * receiver recognise a repetition. The answer's text is not kept: the URL is an outsider's choice, and what stands behind
 * it is not ours to show.
 */
import { Readable } from 'node:stream';
import { Agent, type Dispatcher } from 'undici';
import type { HalfCut, Ports } from '../kernel/ports.ts';
import {
  CONNECT_MS,
  HALF_FLUSH_MS,
  JITTER_SHARE,
  KEEP_ALIVE_MS,
  READ_BYTES_MAX,
  RETRY_AFTER_MS_MAX,
} from './limits.ts';
import { makeLookup, type UrlPolicy, urlRefusal } from './url-policy.ts';

export interface Message {
  readonly url: string;
  readonly eventId: string;
  /** Unix seconds of this attempt. */
  readonly timestampSeconds: string;
  readonly signatures: string;
  readonly body: Uint8Array;
}

export type Attempt =
  | { readonly kind: 'delivered'; readonly status: number }
  | { readonly kind: 'gone'; readonly status: number; readonly reason: string }
  | { readonly kind: 'failed'; readonly status: number | null; readonly reason: string; readonly retryAfterMs: number };

export interface Sender {
  /** Never throws for what the other side did. */
  send(message: Message): Promise<Attempt>;
  close(): Promise<void>;
}

export function makeSender(ports: Ports, policy: UrlPolicy, timeoutMs: number): Sender {
  const agent = new Agent({
    // No limit per host here: two endpoints may share one host, and one of them must not queue behind the other.
    pipelining: 1,
    connect: { timeout: Math.min(CONNECT_MS, timeoutMs), lookup: makeLookup(policy) },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    keepAliveTimeout: KEEP_ALIVE_MS,
  });
  return {
    async send(message) {
      const refusal = urlRefusal(message.url, policy);
      if (refusal !== null) return failed(`the URL is refused: ${refusal}`);
      return ports.gate.pass('http', 'webhook', (half) => post(agent, message, ports, timeoutMs, half));
    },
    close: () => agent.destroy(),
  };
}

function failed(reason: string): Attempt {
  return { kind: 'failed', status: null, reason, retryAfterMs: 0 };
}

function post(agent: Agent, message: Message, ports: Ports, timeoutMs: number, half: HalfCut | null): Promise<Attempt> {
  return new Promise((resolve, reject) => {
    const url = new URL(message.url);
    let request: Dispatcher.DispatchController | null = null;
    let ended = false;
    let size = 0;
    const finish = (attempt: Attempt): void => {
      ended = true;
      clearTimeout(timer);
      resolve(attempt);
    };
    const timer = setTimeout(() => {
      finish(failed(`no answer within ${timeoutMs} ms`));
      request?.abort(new Error('too late'));
    }, timeoutMs);
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart(controller) {
        request = controller;
        // LEAVES: undici writes the request to its socket right after this returns.
        if (ended) controller.abort(new Error('abandoned before it was written'));
      },
      onResponseStart(_controller, status, headers) {
        if (half?.mode === 'half_read') dieIn(half, reject);
        finish(judge(status, headers['retry-after'], ports.clock.now()));
      },
      onResponseData(controller, chunk) {
        size += chunk.length;
        if (size > READ_BYTES_MAX) controller.abort(new Error('more answer than anybody reads'));
      },
      onResponseEnd() {},
      onResponseError(_controller, error) {
        finish(failed(describe(error)));
      },
    };
    const body = Buffer.from(message.body);
    const wish: Dispatcher.DispatchOptions = {
      origin: url.origin,
      path: url.pathname + url.search,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'content-length': String(body.length),
        'user-agent': 'Payonce',
        'webhook-id': message.eventId,
        'webhook-timestamp': message.timestampSeconds,
        'webhook-signature': message.signatures,
      },
      body: half?.mode === 'half_written' ? Readable.from(halfOf(body, half, reject)) : body,
    };
    try {
      agent.dispatch(wish, handler);
    } catch (error) {
      finish(failed(describe(error)));
    }
  });
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

/** What a status says. */
export function judge(status: number, retryAfter: string | string[] | undefined, now: Date): Attempt {
  if (status >= 200 && status <= 299) return { kind: 'delivered', status };
  if (status === 410) return { kind: 'gone', status, reason: 'answered 410 Gone' };
  const asked = status === 429 || status === 503 ? readRetryAfter(retryAfter, now) : 0;
  const reason =
    status >= 300 && status <= 399 ? `answered ${status}; redirects are not followed` : `answered ${status}`;
  return { kind: 'failed', status, reason, retryAfterMs: asked };
}

/** Seconds or an HTTP date; anything else is no wish. */
function readRetryAfter(value: string | string[] | undefined, now: Date): number {
  const text = (Array.isArray(value) ? value[0] : value)?.trim() ?? '';
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - now.getTime();
  return Number.isFinite(ms) && ms > 0 ? Math.min(ms, RETRY_AFTER_MS_MAX) : 0;
}

export type Next =
  | { readonly state: 'delivered'; readonly delayMs: 0 }
  | { readonly state: 'dead'; readonly delayMs: 0 }
  | { readonly state: 'waiting'; readonly delayMs: number };

/** What becomes of a delivery after its n-th attempt (the first is 1). `fraction` in [0, 1) is the jitter. */
export function nextOf(attempt: Attempt, attempts: number, backoffMs: readonly number[], fraction: number): Next {
  if (attempt.kind === 'delivered') return { state: 'delivered', delayMs: 0 };
  const pause = backoffMs[attempts];
  if (attempt.kind === 'gone' || pause === undefined) return { state: 'dead', delayMs: 0 };
  const spread = Math.round(pause * (1 + JITTER_SHARE * fraction));
  return { state: 'waiting', delayMs: Math.max(spread, attempt.retryAfterMs) };
}
