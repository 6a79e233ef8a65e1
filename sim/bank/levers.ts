/* Levers over HTTP: what another process may do with a simulator. One call, one lever; what a lever throws is answered as 409. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { closeServer, readBody, respond } from './respond.ts';
import { parseWire, printWire, type Wire } from './wire-json.ts';

export type SteeringDoor = { readonly url: string; stop(): Promise<void> };

/** `what` is the method and the path. */
export async function openLevers(steer: (what: string, body: Wire) => Wire): Promise<SteeringDoor> {
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const headers = { 'content-type': 'application/json' };
    const text = (await readBody(request)).toString('utf8');
    try {
      const done = steer(`${request.method ?? ''} ${request.url ?? ''}`, parseWire(text) ?? null);
      respond(response, { status: 200, headers, body: printWire(done) });
    } catch (error) {
      respond(response, { status: 409, headers, body: printWire({ error: String(error) }) });
    }
  };
  const server = createServer((request, response) => {
    serve(request, response).catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    stop: () => closeServer(server),
  };
}
