/*
 * A second door of the bank, as sandboxes have one beside their API: over HTTP it moves the clock, empties and fills the
 * account, tells its balance, and makes a transfer fail before it left. Amounts are decimal text in smallest units.
 *
 *   POST /clock    { "ms": 3600000 }     time goes on by so much
 *   POST /drain    {}                    the account is empty
 *   POST /top-up   { "units": "5000" }   so much comes in
 *   GET  /balance                        { "units": "5000" }
 *   POST /fail     { "key": "…" }        what was accepted under this key fails
 *
 * Never does: tell how the bank was set up.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Bank } from './bank.ts';
import { readBody, respond } from './respond.ts';
import { parseWire, printWire, textAt, wholeAt, type Wire } from './wire-json.ts';

export type SteeringDoor = { readonly url: string; stop(): Promise<void> };

export type DoorOptions = {
  /** A bank that frees the key of what failed: the next request under it is a new one. */
  readonly failFreesKey?: boolean;
};

export async function openSteeringDoor(bank: Bank, options: DoorOptions = {}): Promise<SteeringDoor> {
  const steer = (what: string, body: Wire): Wire => {
    switch (what) {
      case 'POST /clock':
        bank.clock.advance(Number(wholeAt(body, 'ms') ?? 0n));
        return {};
      case 'POST /drain':
        bank.balance.set(0n);
        return {};
      case 'POST /top-up':
        bank.balance.set(bank.balance.get() + BigInt(textAt(body, 'units') ?? '0'));
        return {};
      case 'GET /balance':
        return { units: bank.balance.get().toString() };
      case 'POST /fail':
        bank.transfers.fail({ key: textAt(body, 'key') ?? '' });
        if (options.failFreesKey === true) bank.script({ on: 'create', fault: { kind: 'forget_key' }, hitsMax: 1 });
        return {};
      default:
        throw new RangeError(`${what}: no such lever`);
    }
  };
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
    async stop() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
