/**
 * The inbox: what providers and chain monitors tell us. It is stored as it came, then answered, then worked.
 *
 * Promises: an event is verified over its raw bytes at receipt and by nothing later (a queue makes honest events stale);
 * a missing signature or timestamp is a refusal, never a pass (case D11); it is stored before anybody looks into it, so
 * that no unknown field can lose it (case D5); one row per source and id, a redelivery is counted and answered like the
 * first (W2, case D1), also while the first is being worked.
 * Never: work inside the request; a decision from what an event claims: it may only make us look.
 *
 * Signatures are Standard Webhooks: `webhook-id`, `webhook-timestamp`, `webhook-signature`, over `id.timestamp.body`.
 */
import type { Pool } from '../db/pool.ts';
import { assert } from '../kernel/errors.ts';
import { BODY_BYTES_MAX } from '../kernel/limits.ts';
import type { Log } from '../kernel/log.ts';
import type { Ports } from '../kernel/ports.ts';
import { isSignedBy, secretBytes } from '../outbox/signature.ts';
import { SIGNATURE_AGE_MS_MAX, SIGNATURE_AHEAD_MS_MAX } from './limits.ts';
import { storeArrival } from './store.ts';

export interface Source {
  readonly name: string;
  /** `whsec_…`; two while a secret is being changed. */
  readonly secrets: readonly string[];
}

export type RefusedReason =
  | 'unknown_source'
  | 'too_large'
  | 'no_id'
  | 'bad_id'
  | 'no_timestamp'
  | 'no_signature'
  | 'stale'
  | 'wrong_signature';

export type Received =
  | { readonly kind: 'stored'; readonly id: bigint }
  | { readonly kind: 'already_received'; readonly id: bigint; readonly redeliveries: number }
  | { readonly kind: 'refused'; readonly reason: RefusedReason };

export interface Receiver {
  /**
   * Durable when it answers `stored` or `already_received`: say 2xx. `refused` has stored nothing; `statusOf` says what
   * to answer. Throws where it could not be stored (5xx: the source comes again).
   */
  receive(sourceName: string, headers: Headers, body: Uint8Array): Promise<Received>;
  readonly counts: { stored: number; redeliveries: number; refused: number };
}

export interface ReceiverOptions {
  readonly pool: Pool;
  readonly ports: Ports;
  readonly log: Log;
  readonly sources: readonly Source[];
  /** Called after the commit that stored a new event. */
  readonly wake: () => void;
}

/** As Node gives them: names in lower case. */
export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Never kept: credentials of a connection say nothing about an event. */
const SECRET_HEADERS = new Set(['authorization', 'proxy-authorization', 'cookie']);
const ID_SHAPE = /^[\x21-\x7e]{1,255}$/;

export function makeReceiver(options: ReceiverOptions): Receiver {
  const { pool, ports, log, wake } = options;
  const sources = new Map(options.sources.map((source) => [source.name, source]));
  for (const { name, secrets } of options.sources) {
    assert(secrets.length > 0, `inbound source ${name} has a secret`);
    assert(
      secrets.every((secret) => secretBytes(secret) !== null),
      `the secrets of inbound source ${name} are whsec_ and base64`,
    );
  }
  const counts = { stored: 0, redeliveries: 0, refused: 0 };

  return {
    counts,
    async receive(sourceName, headers, body) {
      const verdict = judgeArrival(sources.get(sourceName), headers, body, ports.clock.now().getTime());
      if (verdict.kind === 'refused') {
        counts.refused += 1;
        log.warn({ source: sourceName, reason: verdict.reason }, 'an inbound event was refused');
        return verdict;
      }
      const { externalId } = verdict;
      const arrival = { source: sourceName, externalId, headers: keptHeaders(headers), body };
      // DURABLE: the event, before anybody looks into it.
      const row = await pool.tx('inbox receive', async (tx) => {
        const stored = await storeArrival(tx, arrival);
        if (stored.redeliveries === 0) tx.afterCommit(wake);
        return stored;
      });
      if (row.redeliveries === 0) {
        counts.stored += 1;
        return { kind: 'stored', id: row.id };
      }
      counts.redeliveries += 1;
      const fields = { source: sourceName, external_id: externalId, redeliveries: row.redeliveries };
      log.info(fields, 'already received');
      if (!row.sameBody)
        log.warn(fields, 'a redelivery has other bytes than the event under its id; the first ones count');
      return { kind: 'already_received', id: row.id, redeliveries: row.redeliveries };
    },
  };
}

type Verdict =
  | { readonly kind: 'genuine'; readonly externalId: string }
  | { readonly kind: 'refused'; readonly reason: RefusedReason };

function judgeArrival(source: Source | undefined, headers: Headers, body: Uint8Array, nowMs: number): Verdict {
  const refused = (reason: RefusedReason): Verdict => ({ kind: 'refused', reason });
  if (source === undefined) return refused('unknown_source');
  if (body.length > BODY_BYTES_MAX) return refused('too_large');
  const externalId = headerOf(headers, 'webhook-id');
  const timestamp = headerOf(headers, 'webhook-timestamp');
  const signatures = headerOf(headers, 'webhook-signature');
  if (externalId === null) return refused('no_id');
  // A point in the id would let one signed text be read in two ways.
  if (!ID_SHAPE.test(externalId) || externalId.includes('.')) return refused('bad_id');
  if (timestamp === null || !/^[1-9]\d{0,11}$/.test(timestamp)) return refused('no_timestamp');
  if (signatures === null) return refused('no_signature');
  if (!isSignedBy(source.secrets, signatures, externalId, timestamp, body)) return refused('wrong_signature');
  const ageMs = nowMs - Number(timestamp) * 1_000;
  if (ageMs > SIGNATURE_AGE_MS_MAX || -ageMs > SIGNATURE_AHEAD_MS_MAX) return refused('stale');
  return { kind: 'genuine', externalId };
}

function headerOf(headers: Headers, name: string): string | null {
  const value = headers[name];
  return typeof value === 'string' && value !== '' ? value : null;
}

function keptHeaders(headers: Headers): Record<string, string> {
  const kept = Object.entries(headers).filter(([name, value]) => value !== undefined && !SECRET_HEADERS.has(name));
  return Object.fromEntries(kept.map(([name, value]) => [name, String(value)]));
}

/** The HTTP status that a source is answered with. */
export function statusOf(received: Received): 200 | 400 | 401 | 404 | 413 {
  if (received.kind !== 'refused') return 200;
  switch (received.reason) {
    case 'unknown_source':
      return 404;
    case 'too_large':
      return 413;
    // The signature may be good: to call it wrong would send its owner after the secret.
    case 'bad_id':
      return 400;
    default:
      return 401;
  }
}
