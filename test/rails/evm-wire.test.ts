/*
 * Goal: the wire client says truly how far a request got, matches answers by id, and never asks twice. Method: plain TCP
 * servers that misbehave byte by byte, and a gate that cuts in the middle.
 */
import assert from 'node:assert/strict';
import { createServer, type Server, type Socket } from 'node:net';
import { afterEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import { type Gate, makeGate, systemPorts } from '../../src/kernel/ports.ts';
import { exchange, openLine, readResults, requestText, type RpcNode } from '../../src/rails/evm/rpc.ts';
import { makeSendAgent } from '../../src/rails/http.ts';
import { doorOf } from '../../src/rails/redact.ts';

const LIMITS = { timeoutMs: 400, connectMs: 300 };
const TEXT = requestText([{ method: 'eth_chainId', params: [] }], 1);
const closing: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

interface TcpServer {
  readonly node: RpcNode;
  /** Bytes of each connection. */
  readonly received: string[];
}

async function serve(onData: (socket: Socket, text: string, connection: number) => void): Promise<TcpServer> {
  const received: string[] = [];
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    const connection = received.push('') - 1;
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      received[connection] += chunk.toString();
      onData(socket, received[connection] ?? '', connection);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  closing.push(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return { node: nodeAt(`http://127.0.0.1:${address.port}/rpc?key=secret`), received };
}

function nodeAt(url: string): RpcNode {
  return { url, operator: 'one', source: 'node', credential: doorOf(url) };
}

function http(body: string, head = 'HTTP/1.1 200 OK\r\ncontent-type: application/json'): string {
  return `${head}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

function agent(): Dispatcher {
  const made = makeSendAgent(2, LIMITS);
  closing.push(() => made.destroy());
  return made;
}

function ask(node: RpcNode, gate?: Gate, bytesMax = 1_000) {
  const ports = gate === undefined ? systemPorts() : { ...systemPorts(), gate };
  return exchange(agent(), node, ports, 'eth_chainId', TEXT, { ...LIMITS, bytesMax });
}

test('a refused connection and a name that does not resolve never left', async () => {
  const { node } = await serve(() => {});
  for (const close of closing.splice(0)) await close();
  assert.equal((await ask(node)).reach, 'never_connected');
  assert.equal((await ask(nodeAt('http://does-not-exist.invalid/'))).reach, 'never_connected');
});

test('a failed TLS handshake never left, and not one byte of the request was seen', async () => {
  const server = await serve((socket) => socket.end('this is no TLS'));
  const answer = await ask(nodeAt(server.node.url.replace('http:', 'https:')));
  assert.equal(answer.reach, 'never_connected');
  assert.ok(!server.received.join('').includes('eth_chainId'));
});

test('silence, a reset and a closed connection after the request are unknown, and one request was made', async () => {
  const manners: ((socket: Socket) => void)[] = [
    () => {},
    (socket) => socket.resetAndDestroy(),
    (socket) => socket.end(),
  ];
  for (const manner of manners) {
    const server = await serve((socket, text) => {
      if (text.includes('eth_chainId')) manner(socket);
    });
    assert.equal((await ask(server.node)).reach, 'request_written');
    await sleep(50);
    assert.equal(server.received.join('').split('eth_chainId').length - 1, 1);
  }
});

test('an answer that breaks off is partial and keeps what came', async () => {
  const server = await serve((socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"jsonrpc"'));
  const answer = await ask(server.node);
  assert.deepEqual([answer.reach, answer.status, answer.body, answer.cut], ['partial_answer', 200, '{"jsonrpc"', true]);
});

test('an answer that drips longer than the time-out is given up', async () => {
  const server = await serve((socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n');
    const drip = async () => {
      while (!socket.destroyed) {
        socket.write('x');
        await sleep(20);
      }
    };
    drip().catch(() => {});
  });
  assert.equal((await ask(server.node)).reach, 'partial_answer');
});

test('an answer above the limit is cut and is no answer', async () => {
  const server = await serve((socket) => socket.write(http('y'.repeat(5_000))));
  const answer = await ask(server.node);
  assert.deepEqual([answer.reach, answer.body.length, answer.cut], ['partial_answer', 1_000, true]);
});

test('a redirect is an answer and is not followed', async () => {
  const server = await serve((socket) =>
    socket.write(http('', 'HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere')),
  );
  const answer = await ask(server.node);
  assert.deepEqual([answer.reach, answer.status], ['answer', 307]);
  assert.equal(server.received.length, 1);
});

/** A gate that cuts at the first call and, instead of killing, throws. */
function cuttingGate(mode: 'half_written' | 'half_read'): Gate {
  return {
    counts: () => ({ db: 0, http: 0, signer: 0 }),
    pass: (_kind, _name, call) =>
      call({
        mode,
        die() {
          throw new Error('dead');
        },
      }),
  };
}

test('a cut with half of the request written leaves exactly half of it at the other side', async () => {
  const server = await serve(() => {});
  await assert.rejects(ask(server.node, cuttingGate('half_written')), /dead/);
  await sleep(50);
  const body = server.received[0]?.split('\r\n\r\n')[1];
  assert.equal(body, TEXT.slice(0, Math.ceil(TEXT.length / 2)));
});

test('a cut with half of the answer read comes after the whole request was taken', async () => {
  const server = await serve((socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"half"'));
  await assert.rejects(ask(server.node, cuttingGate('half_read')), /dead/);
  assert.ok(server.received[0]?.endsWith(TEXT));
});

test('every request passes the gate with an ordinal', async () => {
  const names: string[] = [];
  const gate = makeGate(undefined, (ordinal, kind, name) => names.push(`${ordinal} ${kind} ${name}`));
  const server = await serve((socket) => socket.write(http('{"jsonrpc":"2.0","id":1,"result":"0x1"}')));
  await ask(server.node, gate);
  await ask(server.node, gate);
  assert.deepEqual(names, ['1 http eth_chainId', '2 http eth_chainId']);
});

test('answers of a batch are matched by id: missing, doubled and foreign ones spoil only themselves', () => {
  const items = [
    { jsonrpc: '2.0', id: 13, result: '0x3' },
    { jsonrpc: '2.0', id: 10, result: '0x0' },
    { jsonrpc: '2.0', id: 11, result: '0x1' },
    { jsonrpc: '2.0', id: 11, result: '0x9' },
    { jsonrpc: '2.0', id: 99, result: '0x2' },
    { jsonrpc: '2.0', id: 14, error: { code: -32000, message: 'no' } },
    { jsonrpc: '2.0', id: '15', result: '0x5' },
    { jsonrpc: '2.0', id: 16, result: null },
  ];
  const answer = { reach: 'answer', status: 200, body: JSON.stringify(items), cut: false } as const;
  const kinds = readResults(answer, 7, 10).map((result) => (result.kind === 'result' ? result.value : result.kind));
  assert.deepEqual(kinds, ['0x0', 'unreadable', 'unreadable', '0x3', 'error', 'unreadable', null]);
});

test('a line counts its connections, and splits what a node takes at once', async () => {
  const server = await serve((socket, text) => {
    const body = text.split('\r\n\r\n').at(-1) ?? '';
    const asked = JSON.parse(body) as { id: number } | { id: number }[];
    const answers = [asked].flat().map(({ id }) => ({ jsonrpc: '2.0', id, result: id }));
    socket.write(http(JSON.stringify(Array.isArray(asked) ? answers : answers[0])));
  });
  const line = openLine({ ...server.node, batchCallsMax: 2 }, systemPorts(), LIMITS);
  closing.push(() => line.close());
  const calls = Array.from({ length: 5 }, () => ({ method: 'eth_chainId', params: [] }));
  const results = await line.ask(calls);
  assert.deepEqual(
    results.map((result) => result.kind === 'result' && result.value),
    [1, 2, 3, 4, 5],
  );
  assert.equal(line.connections(), 1);
  assert.equal((server.received[0] ?? '').split('POST /rpc').length - 1, 3);
});

test('bytes leave over no connection while a transaction is open (inv E12, req W10)', async () => {
  const { insideTransaction } = await import('../../src/kernel/ports.ts');
  const server = await serve(() => {});
  await assert.rejects(
    insideTransaction('settle', () => ask(server.node)),
    /inside transaction/,
  );
  assert.deepEqual(server.received, []);
});
