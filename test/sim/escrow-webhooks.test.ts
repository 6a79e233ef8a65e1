/* What the simulated liquidity provider tells about its trades: signed as our inbound sources expect, and unreliable by choice. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import type { Escrow } from '../../sim/escrow/escrow.ts';
import { isSignedBy } from '../../src/outbox/signature.ts';
import { open, openMany, withEscrow } from './escrow-client.ts';

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;

interface Heard {
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

interface Listener {
  readonly url: string;
  readonly heard: readonly Heard[];
  readonly answer: (status: number) => void;
  readonly atOnceMax: () => number;
}

async function withListener(act: (listener: Listener, escrow: Escrow) => Promise<void>): Promise<void> {
  const heard: Heard[] = [];
  let [status, now, most] = [204, 0, 0];
  const server = createServer((request, response) => {
    most = Math.max(most, ++now);
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      heard.push({ headers: request.headers, body: Buffer.concat(pieces) });
      now -= 1;
      response.writeHead(status).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const answer = (next: number): void => {
    status = next;
  };
  try {
    await withEscrow({ clock: { ticking: false } }, async (escrow) => {
      escrow.webhooks.sendTo({ url, secret: SECRET });
      await act({ url, heard, answer, atOnceMax: () => most }, escrow);
    });
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

function isGenuine({ headers, body }: Heard): boolean {
  const [id, at, signatures] = ['id', 'timestamp', 'signature'].map((name) => String(headers[`webhook-${name}`]));
  return isSignedBy([SECRET], signatures ?? '', id ?? '', at ?? '', body);
}

test('each change of a trade is told once, by its id and reference alone, with a signature that our sources take', () =>
  withListener(async ({ heard }, escrow) => {
    const { id } = (await open(escrow, 'k1')).body.trade;
    escrow.trades.markPaid(id);
    escrow.trades.release(id);
    await escrow.webhooks.idle();
    assert.deepEqual(
      heard.map((one) => JSON.parse(one.body.toString())),
      Array.from({ length: 3 }, () => ({ type: 'trade.updated', trade_id: id, reference: 'leg_1' })),
    );
    assert.ok(heard.every(isGenuine));
    assert.equal(new Set(heard.map((one) => one.headers['webhook-id'])).size, 3);
    assert.deepEqual(
      escrow.webhooks.sent().map(({ outcome, tries, status }) => [outcome, tries, status]),
      Array.from({ length: 3 }, () => ['delivered', 1, 204]),
    );
  }));

test('what is not taken is sent again under the same id, as its clock goes on, and given up in the end', () =>
  withListener(async ({ heard, answer }, escrow) => {
    answer(503);
    await open(escrow, 'k1');
    await escrow.webhooks.idle();
    assert.equal(escrow.webhooks.sent()[0]?.outcome, 'waiting');
    answer(200);
    escrow.clock.advance(5_000);
    await escrow.webhooks.idle();
    assert.deepEqual([escrow.webhooks.sent()[0]?.outcome, heard.length], ['delivered', 2]);
    assert.equal(heard[0]?.headers['webhook-id'], heard[1]?.headers['webhook-id']);
    // Signed anew: a listener that looks at the age would refuse the old time.
    assert.notEqual(heard[0]?.headers['webhook-timestamp'], heard[1]?.headers['webhook-timestamp']);
    assert.ok(heard.every(isGenuine));

    answer(400);
    await open(escrow, 'k2');
    await escrow.webhooks.idle();
    for (const ms of [5_000, 300_000, 1_800_000]) {
      escrow.clock.advance(ms);
      await escrow.webhooks.idle();
    }
    assert.deepEqual([escrow.webhooks.sent()[1]?.outcome, escrow.webhooks.sent()[1]?.tries], ['given_up', 4]);
  }));

test('messages come twice, are lost or forged when that is asked for', () =>
  withListener(async ({ heard }, escrow) => {
    escrow.webhooks.mode('twice');
    await open(escrow, 'k1');
    await escrow.webhooks.idle();
    assert.deepEqual([heard.length, new Set(heard.map((one) => one.headers['webhook-id'])).size], [2, 1]);
    escrow.webhooks.mode('lost');
    await open(escrow, 'k2');
    await escrow.webhooks.idle();
    assert.deepEqual([heard.length, escrow.webhooks.sent()[1]?.outcome], [2, 'lost']);
    escrow.webhooks.mode('forged');
    await open(escrow, 'k3');
    await escrow.webhooks.idle();
    assert.deepEqual(heard.map(isGenuine), [true, true, false]);
  }));

test('nobody listens: trades go on; a secret that is none is refused', () =>
  withListener(async (_, escrow) => {
    assert.throws(() => escrow.webhooks.sendTo({ url: escrow.url, secret: 'hush' }), /whsec_/);
    escrow.webhooks.sendTo({ url: 'http://127.0.0.1:9/', secret: SECRET });
    assert.equal((await open(escrow, 'k1')).status, 201);
    await escrow.webhooks.idle();
    assert.deepEqual([escrow.webhooks.sent()[0]?.outcome, escrow.webhooks.sent()[0]?.status], ['waiting', null]);
    escrow.webhooks.sendTo(null);
    await open(escrow, 'k2');
    assert.equal(escrow.webhooks.sent().length, 1);
  }));

test('a load of trades is told a few messages at a time', () =>
  withListener(async ({ heard, atOnceMax }, escrow) => {
    await openMany(escrow, 500);
    await escrow.webhooks.idle();
    assert.equal(heard.length, 500);
    assert.ok(atOnceMax() <= 8, `${atOnceMax()} at once`);
  }));
