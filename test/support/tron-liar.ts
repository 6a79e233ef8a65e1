/** A node that lies: a proxy before a simulated one, which may change any answer or hold it up. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after } from 'node:test';
import type { Tron } from '../../sim/tron/tron.ts';

// oxlint-disable-next-line typescript/no-explicit-any -- tests bend JSON of every shape
type Bendable = any;

export interface Liar {
  readonly url: string;
  /** The answer as it is to be; `undefined`: as it is. */
  lie: ((path: string, request: Bendable, answer: Bendable) => Bendable) | null;
  /** Before each answer. */
  delayMs: number;
  stop(): Promise<void>;
}

const open = new Set<Liar>();
after(async () => {
  for (const one of open) await one.stop();
});

export async function startLiar(upstream: string): Promise<Liar> {
  const server = createServer((request, response) => {
    const serve = async (): Promise<void> => {
      const { status, text } = await answer(request.url ?? '/', request);
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(text);
    };
    serve().catch(() => response.destroy());
  });
  async function answer(url: string, request: AsyncIterable<Buffer>): Promise<{ status: number; text: string }> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts).toString();
    if (liar.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, liar.delayMs));
    const said = await fetch(`${upstream}${url}`, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    });
    const text = await said.text();
    const bent = liar.lie?.(url.slice(1), body === '' ? {} : JSON.parse(body), JSON.parse(text));
    return { status: said.status, text: bent === undefined ? text : JSON.stringify(bent) };
  }
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const liar: Liar = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    lie: null,
    delayMs: 0,
    async stop() {
      open.delete(liar);
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  open.add(liar);
  return liar;
}

/** One before each node. */
export function liarsBefore(tron: Tron): Promise<Liar[]> {
  return Promise.all(tron.nodes.map((node) => startLiar(node.url)));
}
