/*
 * A partner's webhook endpoint: a real HTTP server on loopback that keeps what it got and answers as it is told.
 */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Hit {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface Reply {
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly afterMs?: number;
}

export interface WebhookReceiver {
  readonly url: string;
  readonly hits: Hit[];
  /** Requests being answered right now, and the most there ever were, per event id. */
  readonly mostAtOnce: Map<string, number>;
  /** `null` never answers. */
  answer: (hit: Hit) => Reply | null;
  ids(): string[];
  close(): Promise<void>;
}

export async function startWebhookReceiver(): Promise<WebhookReceiver> {
  const inside = new Map<string, number>();
  const receiver: WebhookReceiver = {
    url: '',
    hits: [],
    mostAtOnce: new Map(),
    answer: () => ({ status: 200 }),
    ids: () => receiver.hits.map((hit) => String(hit.headers['webhook-id'])),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const hit = { path: request.url ?? '', headers: request.headers, body: Buffer.concat(chunks).toString() };
      const id = String(hit.headers['webhook-id']);
      receiver.hits.push(hit);
      inside.set(id, (inside.get(id) ?? 0) + 1);
      receiver.mostAtOnce.set(id, Math.max(receiver.mostAtOnce.get(id) ?? 0, inside.get(id) ?? 0));
      const reply = receiver.answer(hit);
      if (reply === null) return;
      setTimeout(() => {
        inside.set(id, (inside.get(id) ?? 1) - 1);
        response.writeHead(reply.status, reply.headers).end('thank you');
      }, reply.afterMs ?? 0);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(receiver, { url: `http://127.0.0.1:${port}/hook` });
}
