/*
 * A provider of trades on a real socket, as small as the contract of `standard` allows: a book of trades by id, what each key was
 * used for, and manners that a test sets for the next request. For the rail's own tests; the simulated provider has the rest.
 */
import assert from 'node:assert/strict';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

export interface Asked {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export type Trade = { [field: string]: string | null | object };

/** `lost`: done, and the connection is cut; `dropped`: cut before anything; otherwise a whole answer in its place. */
export type Manner =
  | 'lost'
  | 'dropped'
  | 'silent'
  | { readonly status: number; readonly body: string; readonly done?: true };

export interface Provider {
  readonly url: string;
  readonly asked: Asked[];
  readonly trades: Map<string, Trade>;
  /** Of the next request; later ones are answered as they should be. */
  next: Manner | null;
  /** Of every request, until it is set back. */
  broken: Manner | null;
  /** Codes with which a new trade is refused. */
  refuses: string | null;
  /** Lists show nothing yet. */
  lags: boolean;
  stop(): Promise<void>;
}

interface Reply {
  readonly status: number;
  readonly body: object;
  readonly headers?: Record<string, string>;
}

export async function startProvider(): Promise<Provider> {
  const keys = new Map<string, { readonly body: string; readonly reply: Reply; readonly id: string | null }>();
  const sockets = new Set<Socket>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('error', () => {});
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      const one = { method: request.method ?? '', url: request.url ?? '', headers: request.headers, body };
      provider.asked.push(one);
      const manner = provider.next ?? provider.broken;
      provider.next = null;
      if (manner === 'silent') return;
      if (manner === 'dropped') return void request.socket.destroy();
      const isWhole = manner === null || manner === 'lost' || manner.done === true;
      const reply = isWhole ? replyTo(one) : { status: 0, body: {} };
      if (manner === 'lost') return void request.socket.destroy();
      if (manner !== null) return write(response, manner.status, manner.body);
      write(response, reply.status, JSON.stringify(reply.body), reply.headers);
    });
  });
  server.on('connection', (socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const provider: Provider = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: [],
    trades: new Map(),
    next: null,
    broken: null,
    refuses: null,
    lags: false,
    async stop() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return provider;

  function replyTo({ method, url, headers, body }: Asked): Reply {
    const { pathname, searchParams } = new URL(url, provider.url);
    const [, id, act] = /^\/v1\/trades(?:\/([^/]+))?(?:\/(cancel))?$/.exec(pathname) ?? [];
    if (method === 'GET') {
      if (id === undefined) {
        const all = provider.lags ? [] : [...provider.trades.values()];
        return {
          status: 200,
          body: { trades: all.filter((one) => one['reference'] === searchParams.get('reference')) },
        };
      }
      const trade = provider.trades.get(id);
      return trade === undefined ? { status: 404, body: { code: 'not_found' } } : { status: 200, body: { trade } };
    }
    const key = headers['idempotency-key'];
    assert.ok(typeof key === 'string' && key !== '', 'a request without its key');
    const known = keys.get(key);
    if (known !== undefined && known.body !== url + body)
      return { status: 409, body: { code: 'idempotency_mismatch', trade_id: known.id } };
    if (known !== undefined) {
      const trade = known.id === null ? null : provider.trades.get(known.id);
      return {
        status: known.reply.status,
        body: trade === null || trade === undefined ? known.reply.body : { trade },
        headers: { 'idempotent-replayed': 'true' },
      };
    }
    const reply = act === 'cancel' ? cancel(id ?? '') : open(body);
    const made = (reply.body as { trade?: Trade }).trade?.['id'];
    // What could not be cancelled yet may be tried again.
    if (reply.status !== 409) keys.set(key, { body: url + body, reply, id: typeof made === 'string' ? made : null });
    return reply;
  }

  function open(body: string): Reply {
    if (provider.refuses !== null) return { status: 422, body: { code: provider.refuses } };
    const { side, ...wanted } = JSON.parse(body) as Trade;
    assert.equal(side, 'buy');
    const id = `tr_${provider.trades.size + 1}`;
    const trade: Trade = { id, ...wanted, state: 'created', paid_marked_at: null, released_amount: null };
    provider.trades.set(id, trade);
    return { status: 201, body: { trade } };
  }

  function cancel(id: string): Reply {
    const trade = provider.trades.get(id);
    if (trade === undefined) return { status: 404, body: { code: 'not_found' } };
    if (trade['state'] !== 'created') return { status: 409, body: { code: 'not_cancellable', trade } };
    trade['state'] = 'cancelled';
    return { status: 200, body: { trade } };
  }
}

function write(response: ServerResponse, status: number, body: string, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(body);
}
