/**
 * Works stored events: one handler per source, each event in a transaction of its own.
 *
 * What the handler writes and the mark that the event was worked are one commit: a crash between them is not possible,
 * and an event cannot be marked without its effect or take effect twice (cases C6, D10). A handler that throws keeps its
 * event, with back-off, and people are told after a while (case D5). An event that came before its record stays unmatched
 * and is tried again (case D4); after ten minutes it is a case, and a person's (design §3).
 */
import type { Pool, Tx } from '../db/pool.ts';
import { InvariantBroken } from '../kernel/errors.ts';
import { INBOX_UNMATCHED_MS, LEASE_MS } from '../kernel/limits.ts';
import type { Log } from '../kernel/log.ts';
import {
  EVENT_BACKOFF_MS,
  EVENT_BACKOFF_MS_MAX,
  EVENTS_AT_ONCE,
  EVENTS_CLAIM_BATCH,
  FAILURES_BEFORE_ALERT,
} from './limits.ts';
import { claimEvents, type InboxEvent, markEvent } from './store.ts';

export type { InboxEvent } from './store.ts';

/**
 * `unmatched`: what it speaks of is not known here (yet); then the handler has written nothing. A handler that needs the
 * rail wakes whoever reads it, after the commit; it calls nobody itself.
 */
export type Handler = (event: InboxEvent, tx: Tx) => Promise<'done' | 'unmatched'>;

/** The people's side, given by the engine. */
export interface People {
  openCase(
    tx: Tx,
    one: { kind: 'unmatched_inbound'; severity: 2; subjectKey: string; summary: string },
  ): Promise<unknown>;
  raiseAlert(tx: Tx, kind: string, key: string, message: string): Promise<void>;
  clearAlert(tx: Tx, kind: string, key: string): Promise<void>;
}

export interface InboxWorkerOptions {
  readonly pool: Pool;
  readonly log: Log;
  readonly handlers: Readonly<Record<string, Handler>>;
  readonly people: People;
  readonly leaseMs?: number;
  /**
   * Reads the truth from the rail before the event is worked, with no transaction open (W10). What it finds is booked by
   * its own transactions; if it throws, the event is kept and tried again.
   */
  readonly readTruth?: (event: InboxEvent) => Promise<void>;
}

export interface InboxWorker {
  runOnce(): Promise<{ worked: number }>;
  readonly counts: { done: number; unmatched: number; failed: number; takenOver: number };
}

const ALERT_STUCK = 'inbox_event_stuck';

export function makeInboxWorker(options: InboxWorkerOptions): InboxWorker {
  const { pool, log, handlers, people } = options;
  const leaseMs = options.leaseMs ?? LEASE_MS;
  const counts = { done: 0, unmatched: 0, failed: 0, takenOver: 0 };

  async function workOne(event: InboxEvent): Promise<void> {
    try {
      await options.readTruth?.(event);
      counts[await pool.tx('inbox work', (tx) => handle(tx, event))] += 1;
    } catch (error) {
      if (error instanceof TakenOver) {
        counts.takenOver += 1;
        log.warn(named(event), 'another worker took this inbound event over; nothing of this attempt was kept');
        return;
      }
      await keep(event, error);
      if (error instanceof InvariantBroken) throw error;
    }
  }

  async function handle(tx: Tx, event: InboxEvent): Promise<'done' | 'unmatched'> {
    const handler = Object.hasOwn(handlers, event.source) ? handlers[event.source] : undefined;
    if (handler === undefined) throw new Error(`no handler is configured for source "${event.source}"`);
    const outcome = await handler(event, tx);
    const waits = outcome === 'unmatched' && event.ageMs < INBOX_UNMATCHED_MS;
    if (outcome === 'unmatched' && !waits) await openCaseFor(tx, event);
    if (event.attempts > FAILURES_BEFORE_ALERT) await people.clearAlert(tx, ALERT_STUCK, keyOf(event));
    const marked = await markEvent(tx, event, {
      state: outcome === 'done' || waits ? outcome : 'dead',
      error: outcome === 'done' ? null : 'it belongs to nothing we know',
      // Not past the moment when it becomes a case.
      againInMs: waits ? Math.min(backoffMs(event.attempts), INBOX_UNMATCHED_MS - event.ageMs) : 0,
    });
    if (!marked) throw new TakenOver();
    return outcome;
  }

  async function openCaseFor(tx: Tx, event: InboxEvent): Promise<void> {
    const minutes = Math.floor(event.ageMs / 60_000);
    await people.openCase(tx, {
      kind: 'unmatched_inbound',
      severity: 2,
      subjectKey: `inbox:${keyOf(event)}`,
      summary: `An event of ${event.source} (id ${event.externalId}) has belonged to nothing we know for ${minutes} minutes. See whether its record is missing here, then have it worked again or close the case.`,
    });
  }

  /** The event stays; only its next attempt is put off. */
  async function keep(event: InboxEvent, error: unknown): Promise<void> {
    counts.failed += 1;
    const reason = error instanceof Error ? error.message : String(error);
    log.error(
      { ...named(event), attempt: event.attempts, err: error },
      'an inbound event could not be worked; it is kept and tried again',
    );
    await pool.tx('inbox keep', async (tx) => {
      await markEvent(tx, event, { state: 'new', error: reason, againInMs: backoffMs(event.attempts) });
      if (event.attempts < FAILURES_BEFORE_ALERT) return;
      await people.raiseAlert(
        tx,
        ALERT_STUCK,
        keyOf(event),
        `inbound event ${keyOf(event)} fails again and again: ${reason}`,
      );
    });
  }

  return {
    counts,
    async runOnce() {
      const events = await pool.tx('inbox claim', (tx) => claimEvents(tx, leaseMs, EVENTS_CLAIM_BATCH));
      const queue = events.values();
      const lanes = Array.from({ length: Math.min(EVENTS_AT_ONCE, events.length) }, async () => {
        for (const event of queue) await workOne(event);
      });
      const ends = await Promise.allSettled(lanes);
      // Neighbours were finished first; what is thrown here is for the process to stop at.
      for (const end of ends) if (end.status === 'rejected') throw end.reason;
      return { worked: events.length };
    },
  };
}

class TakenOver extends Error {}

function keyOf(event: InboxEvent): string {
  return `${event.source}:${event.externalId}`;
}

function named(event: InboxEvent): { source: string; external_id: string } {
  return { source: event.source, external_id: event.externalId };
}

function backoffMs(attempts: number): number {
  return Math.min(EVENT_BACKOFF_MS_MAX, EVENT_BACKOFF_MS * 2 ** Math.min(attempts - 1, 20));
}
