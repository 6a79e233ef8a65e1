/*
 * A database, a receiver behind a real HTTP server, and a worker over both: what the tests of the inbox start from.
 */
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { makePool, type Pool } from '../../src/db/pool.ts';
import { makeReceiver, type Receiver, statusOf } from '../../src/inbox/receive.ts';
import { type Handler, type InboxWorker, makeInboxWorker, type People } from '../../src/inbox/work.ts';
import { makeLog, silentLog } from '../../src/kernel/log.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { testDatabase } from '../support/postgres.ts';

export const secret = `whsec_${randomBytes(32).toString('base64')}`;

export interface Letter {
  readonly headers: Record<string, string>;
  readonly body: string;
}

/** A signed event. `at` moves the sender's clock. */
export function letter(id: string, body: unknown, options: { secret?: string; at?: Date } = {}): Letter {
  const at = options.at ?? new Date();
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return {
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(options.secret ?? secret).sign(id, at, text),
    },
    body: text,
  };
}

/** The people's side, with the engine's own statements in short. */
export const people: People = {
  openCase: (tx, one) =>
    tx.query('insert into payonce.cases (id, kind, severity, subject_key, summary) values ($1, $2, $3, $4, $5)', [
      `case_${randomBytes(8).toString('hex')}`,
      one.kind,
      one.severity,
      one.subjectKey,
      one.summary,
    ]),
  async raiseAlert(tx, kind, key, message) {
    await tx.query(
      `insert into payonce.alerts (kind, key, message) values ($1, $2, $3)
       on conflict (kind, key) where cleared_at is null do update set times = payonce.alerts.times + 1`,
      [kind, key, message],
    );
  },
  async clearAlert(tx, kind, key) {
    await tx.query('update payonce.alerts set cleared_at = payonce.now() where kind = $1 and key = $2', [kind, key]);
  },
};

export interface InboxRow {
  id: bigint;
  state: string;
  attempts: number;
  redeliveries: number;
  last_error: string | null;
  body: Buffer;
  headers: Record<string, string>;
}

export interface InboxWorld {
  readonly pool: Pool;
  readonly receiver: Receiver;
  /** Lines that the receiver logged. */
  readonly lines: string[];
  /** Wakes that followed a stored event. */
  readonly wakes: () => number;
  /** POSTs over HTTP and answers the status. */
  post(source: string, one: Letter): Promise<number>;
  worker(handlers: Record<string, Handler>, leaseMs?: number): InboxWorker;
  rows(source: string): Promise<InboxRow[]>;
  /** Lets every back-off be over. */
  makeDue(): Promise<void>;
  close(): Promise<void>;
}

export async function makeInboxWorld(label: string, sourceNames: readonly string[]): Promise<InboxWorld> {
  const database = await testDatabase(label);
  const pool = makePool({ url: database.url, ports: systemPorts(), log: silentLog });
  const lines: string[] = [];
  let wakes = 0;
  const receiver = makeReceiver({
    pool,
    ports: systemPorts(),
    log: makeLog('info', { write: (line) => lines.push(line) }),
    sources: sourceNames.map((name) => ({ name, secrets: [secret] })),
    wake: () => {
      wakes += 1;
    },
  });
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      receiver.receive((request.url ?? '').slice(1), request.headers, Buffer.concat(chunks)).then(
        (received) => response.writeHead(statusOf(received)).end(),
        () => response.writeHead(503).end(),
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    pool,
    receiver,
    lines,
    wakes: () => wakes,
    async post(source, one) {
      const answer = await fetch(`http://127.0.0.1:${port}/${source}`, { method: 'POST', ...one });
      return answer.status;
    },
    worker: (handlers, leaseMs) =>
      makeInboxWorker({ pool, log: silentLog, handlers, people, ...(leaseMs === undefined ? {} : { leaseMs }) }),
    async rows(source) {
      const { rows } = await pool.query<InboxRow & Record<string, unknown>>(
        'select id, state, attempts, redeliveries, last_error, body, headers from payonce.inbox where source = $1 order by id',
        [source],
      );
      return rows;
    },
    async makeDue() {
      await pool.query('update payonce.inbox set next_at = payonce.now()');
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await pool.end();
      await database.drop();
    },
  };
}
