/**
 * The courier: brings committed events to the partners' endpoints.
 *
 * Promises: each delivery is tried until it is delivered or, after the last back-off, in the dead-letter list (inv N1);
 * the same id and the same bytes at every attempt; per endpoint and subject in order, event n+1 after n was delivered or
 * died; an endpoint that hangs holds up nobody else.
 * Never: a request while a transaction is open (W10); an event before its commit (W9); a redirect followed; a secret
 * stored or logged.
 * Beside it: as many couriers as you like. A lease keeps two from sending one delivery at the same time; a courier that died
 * after its send, or whose lease ran out, makes a repetition, which the receiver knows by the id.
 */
import type { Pool } from '../db/pool.ts';
import { assert } from '../kernel/errors.ts';
import { CLAIM_BATCH, DELIVERY_BACKOFF_MS, DELIVERY_TIMEOUT_MS, LEASE_MS } from '../kernel/limits.ts';
import type { Log } from '../kernel/log.ts';
import type { Ports } from '../kernel/ports.ts';
import { type Attempt, makeSender, nextOf } from './deliver.ts';
import { ROUND_MS, SENDS_PER_ENDPOINT_MAX } from './limits.ts';
import { deriveEndpointSecret, signatureOf } from './signature.ts';
import { type Claimed, claimDeliveries, type Recorded, recordAttempts } from './store.ts';
import type { UrlPolicy } from './url-policy.ts';

export interface CourierOptions {
  readonly pool: Pool;
  readonly ports: Ports;
  readonly log: Log;
  /** At least 32 bytes; endpoint secrets are derived from it. */
  readonly masterSecret: Uint8Array;
  readonly policy: UrlPolicy;
  readonly timing?: Partial<Timing>;
}

interface Timing {
  readonly leaseMs: number;
  readonly timeoutMs: number;
  readonly roundMs: number;
  readonly backoffMs: readonly number[];
}

export interface Courier {
  /** Claims what is due, sends it, records what came back in time; slow sends go on beside and are recorded later. */
  runOnce(): Promise<{ worked: number }>;
  /** Waits until nothing is in the air and everything is recorded. */
  drain(): Promise<void>;
  /** Drains and closes the connections. */
  close(): Promise<void>;
  readonly counts: { delivered: number; failed: number; dead: number; lostLeases: number };
}

const DEFAULTS: Timing = {
  leaseMs: LEASE_MS,
  timeoutMs: DELIVERY_TIMEOUT_MS,
  roundMs: ROUND_MS,
  backoffMs: DELIVERY_BACKOFF_MS,
};
/** As long as the digest: a shorter one would be the weakest part. */
const MASTER_SECRET_BYTES_MIN = 32;

interface Answered {
  readonly delivery: Claimed;
  readonly outcome: Recorded;
}

export function makeCourier(options: CourierOptions): Courier {
  const { pool, ports, log, masterSecret } = options;
  const timing: Timing = { ...DEFAULTS, ...options.timing };
  assert(timing.leaseMs > timing.timeoutMs, 'the lease of a delivery outlasts its send');
  assert(
    masterSecret.length >= MASTER_SECRET_BYTES_MIN,
    `the webhook master secret has at least ${MASTER_SECRET_BYTES_MIN} bytes`,
  );
  const sender = makeSender(ports, options.policy, timing.timeoutMs);
  const counts = { delivered: 0, failed: 0, dead: 0, lostLeases: 0 };
  const flying = new Map<Claimed, Promise<void>>();
  let answered: Answered[] = [];
  let recording: Promise<void> = Promise.resolve();
  let afterEndpoint = '';

  async function attempt(delivery: Claimed): Promise<void> {
    const result = delivery.disabled ? undefined : await sender.send(messageOf(delivery));
    answered.push({ delivery, outcome: outcomeOf(delivery, result) });
  }

  function messageOf(delivery: Claimed) {
    const body = Buffer.from(delivery.body);
    // For one version after a turn both secrets sign, so that the receiver can change over without losing an event.
    const versions =
      delivery.secretVersion > 1 ? [delivery.secretVersion, delivery.secretVersion - 1] : [delivery.secretVersion];
    const signatures = versions
      .map((version) => deriveEndpointSecret(masterSecret, delivery.endpointId, version))
      .map((secret) => signatureOf(secret, delivery.eventId, delivery.timestampSeconds, body))
      .join(' ');
    const { url, eventId, timestampSeconds } = delivery;
    return { url, eventId, timestampSeconds, signatures, body };
  }

  function outcomeOf(delivery: Claimed, result: Attempt | undefined): Recorded {
    const { id, token } = delivery;
    if (result === undefined) {
      return { id, token, state: 'dead', delayMs: 0, status: null, error: 'the endpoint is disabled', gone: false };
    }
    const next = nextOf(result, delivery.attempts, timing.backoffMs, ports.chance.fraction());
    const error = result.kind === 'delivered' ? null : result.reason;
    return { id, token, ...next, status: result.status, error, gone: result.kind === 'gone' };
  }

  /** One statement at a time; what is answered meanwhile goes with the next. */
  function record(): Promise<void> {
    recording = recording.then(recordNow, recordNow);
    return recording;
  }

  async function recordNow(): Promise<void> {
    const batch = answered;
    answered = [];
    if (batch.length === 0) return;
    const kept = await pool.tx('courier record', (tx) =>
      recordAttempts(
        tx,
        batch.map(({ outcome }) => outcome),
      ),
    );
    for (const one of batch) tell(one, kept.has(one.delivery.id));
  }

  function tell({ delivery, outcome }: Answered, kept: boolean): void {
    const fields = {
      event: delivery.eventId,
      endpoint: delivery.endpointId,
      attempt: delivery.attempts,
      status: outcome.status,
    };
    if (!kept) {
      counts.lostLeases += 1;
      log.warn(fields, 'a delivery was answered after its lease had gone to another courier');
    } else if (outcome.state === 'delivered') {
      counts.delivered += 1;
      log.debug(fields, 'an event was delivered');
    } else if (outcome.state === 'waiting') {
      counts.failed += 1;
      log.info(
        { ...fields, reason: outcome.error, again_in_ms: outcome.delayMs },
        'a delivery failed and will be tried again',
      );
    } else {
      counts.dead += 1;
      log.warn(
        { ...fields, reason: outcome.error },
        'a delivery went to the dead-letter list; replay it when the endpoint is well',
      );
    }
  }

  function begin(delivery: Claimed): Promise<void> {
    const sending = attempt(delivery)
      .catch((error: unknown) => {
        // Nothing is recorded: the lease runs out and the delivery comes back.
        log.error({ err: error, event: delivery.eventId }, 'an attempt to deliver broke');
      })
      .finally(() => flying.delete(delivery));
    flying.set(delivery, sending);
    return sending;
  }

  function flyingByEndpoint(): Map<string, number> {
    const byEndpoint = new Map<string, number>();
    for (const { endpointId } of flying.keys()) byEndpoint.set(endpointId, (byEndpoint.get(endpointId) ?? 0) + 1);
    return byEndpoint;
  }

  async function runOnce(): Promise<{ worked: number }> {
    const claimed = await pool.tx('courier claim', (tx) =>
      claimDeliveries(tx, {
        leaseMs: timing.leaseMs,
        deliveriesMax: Math.max(0, CLAIM_BATCH - flying.size),
        afterEndpoint,
        perEndpointMax: SENDS_PER_ENDPOINT_MAX,
        flying: flyingByEndpoint(),
      }),
    );
    afterEndpoint = lastServed(claimed, afterEndpoint);
    const sendings = claimed.map(begin);
    await within(Promise.all(sendings), sendings.length === 0 ? 0 : timing.roundMs);
    await record();
    // The stragglers of this round record themselves.
    for (const delivery of claimed) {
      flying
        .get(delivery)
        ?.then(record)
        .catch((error: unknown) =>
          log.warn({ err: error }, 'outcomes of deliveries were not recorded; they will be sent again'),
        );
    }
    return { worked: claimed.length };
  }

  async function within(work: Promise<unknown>, ms: number): Promise<void> {
    const stop = new AbortController();
    await Promise.race([work, ports.clock.sleep(ms, stop.signal)]);
    stop.abort();
  }

  async function drain(): Promise<void> {
    while (flying.size > 0) await Promise.all(flying.values());
    await record();
  }

  return {
    counts,
    runOnce,
    drain,
    async close() {
      await drain();
      await sender.close();
    },
  };
}

/** The last in the claim's own order: those after the former one come first, then it begins again. */
function lastServed(claimed: readonly Claimed[], former: string): string {
  const ids = claimed.map(({ endpointId }) => endpointId).sort();
  return ids.findLast((id) => id <= former) ?? ids.at(-1) ?? former;
}
