/*
 * What the provider tells about its trades: one signed message for each change, by the rules of Standard Webhooks. A hint: it
 * names the trade, and says nothing of how it stands.
 *
 * Promises: a few at once, in the order of the changes; what was not answered with a success is sent again, the same id and body,
 * after each of the pauses on the provider's clock, and then given up. `sent` tells what became of each.
 * Never does: hold up a trade because nobody listens.
 */
import { createHmac } from 'node:crypto';
import type { TaskClock } from '../bank/clock.ts';

export type WebhookTarget = { readonly url: string /** `whsec_…` */; readonly secret: string };

/** `forged`: signed with another secret. `lost`: counted as sent, and never on the wire. */
export type WebhookMode = 'once' | 'twice' | 'lost' | 'forged';

export type SentWebhook = {
  readonly id: string;
  readonly tradeId: string;
  readonly reference: string;
  readonly at: Date;
  readonly tries: number;
  /** Of the last try; `null` where there was no answer, or no try yet. */
  readonly status: number | null;
  readonly outcome: 'waiting' | 'delivered' | 'lost' | 'given_up';
};

export type Webhooks = {
  readonly sent: () => readonly SentWebhook[];
  /** Where to from now on; `null`: nobody. Throws for a secret that is none. */
  readonly sendTo: (target: WebhookTarget | null) => void;
  readonly mode: (mode: WebhookMode) => void;
  /** Until nothing is on the wire or about to be; what waits for the clock is not waited for. */
  readonly idle: () => Promise<void>;
};

/** At once on the wire: a load of trades must not open a socket for each. */
const LANES = 8;
/** The first pauses that Standard Webhooks recommends. */
const PAUSES_MS = [5_000, 300_000, 1_800_000];
/** A listener that hangs must not hold a lane for ever. */
const ANSWER_WITHIN_MS = 15_000;
const SECRET = /^whsec_([A-Za-z0-9+/]+={0,2})$/;
const SECRET_BYTES_MIN = 24;
const SECRET_BYTES_MAX = 64;

type Message = { -readonly [Name in keyof SentWebhook]: SentWebhook[Name] } & { readonly body: string };
type Told = { readonly id: string; readonly reference: string };

export function makeWebhooks(
  clock: TaskClock,
  makeId: () => string,
): Webhooks & { readonly tell: (trade: Told) => void; readonly stop: () => Promise<void> } {
  const messages: Message[] = [];
  const queue: Message[] = [];
  const onTheWire = new Set<Promise<void>>();
  const stopping = new AbortController();
  let target: WebhookTarget | null = null;
  let mode: WebhookMode = 'once';

  const attempt = async (message: Message, to: WebhookTarget): Promise<void> => {
    message.tries += 1;
    const key = mode === 'forged' ? Buffer.from(`not ${to.secret}`) : keyOf(to.secret);
    message.status = await post(to.url, key, message, clock.now(), stopping.signal);
    if (message.status !== null && message.status >= 200 && message.status < 300) {
      message.outcome = 'delivered';
      return;
    }
    const pauseMs = PAUSES_MS[message.tries - 1];
    if (pauseMs === undefined) message.outcome = 'given_up';
    else clock.after(pauseMs, () => enqueue(message));
  };
  const fill = (): void => {
    const to = target;
    if (to === null || stopping.signal.aborted) return;
    while (onTheWire.size < LANES) {
      const message = queue.shift();
      if (message === undefined) return;
      const lane: Promise<void> = attempt(message, to).finally(() => {
        onTheWire.delete(lane);
        fill();
      });
      onTheWire.add(lane);
    }
  };
  const enqueue = (message: Message): void => {
    queue.push(message);
    fill();
  };
  const idle = async (): Promise<void> => {
    while (onTheWire.size > 0) await Promise.all(onTheWire);
  };

  return {
    sent: () => messages,
    sendTo(next) {
      if (next !== null) keyOf(next.secret);
      target = next;
      fill();
    },
    mode(next) {
      mode = next;
    },
    idle,
    tell({ id: tradeId, reference }) {
      if (target === null) return;
      const body = JSON.stringify({ type: 'trade.updated', trade_id: tradeId, reference });
      const id = makeId();
      const [at, lost] = [clock.now(), mode === 'lost'];
      const outcome = lost ? 'lost' : 'waiting';
      const message: Message = { id, tradeId, reference, at, tries: 0, status: null, outcome, body };
      messages.push(message);
      if (lost) return;
      enqueue(message);
      if (mode === 'twice') enqueue(message);
    },
    async stop() {
      stopping.abort();
      queue.length = 0;
      await idle();
    },
  };
}

/** The status, or `null` for no answer. */
async function post(
  url: string,
  key: Buffer,
  { id, body }: Message,
  now: Date,
  stop: AbortSignal,
): Promise<number | null> {
  const seconds = String(Math.floor(now.getTime() / 1_000));
  const signature = createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64');
  try {
    const response = await fetch(url, {
      method: 'POST',
      redirect: 'manual',
      signal: AbortSignal.any([stop, AbortSignal.timeout(ANSWER_WITHIN_MS)]),
      headers: {
        'content-type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': seconds,
        'webhook-signature': `v1,${signature}`,
      },
      body,
    });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return null;
  }
}

function keyOf(secret: string): Buffer {
  const key = Buffer.from(SECRET.exec(secret)?.[1] ?? '', 'base64');
  if (key.length < SECRET_BYTES_MIN || key.length > SECRET_BYTES_MAX)
    throw new RangeError(
      `a webhook secret is whsec_ and base64 of ${SECRET_BYTES_MIN} to ${SECRET_BYTES_MAX} bytes: write one`,
    );
  return key;
}
