/*
 * Goal: the TCP proxy breaks connections exactly where it says, and never otherwise; before PostgreSQL it can swallow the
 * answer to a COMMIT that happened. Method: a plain echo server, then a real PostgreSQL whose table is read past the proxy.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import pg from 'pg';
import { startTcpProxy, type TcpProxy } from '../../sim/tcp-proxy.ts';
import { isCommitAsked, isCommitDone, makePostgresReader } from '../../sim/wire-frames.ts';
import { testServerUrl } from '../support/postgres.ts';

describe('before an echo server', () => {
  let echo: Server;
  let proxy: TcpProxy;
  const sockets: Socket[] = [];

  before(async () => {
    echo = createServer({ allowHalfOpen: true }, (socket) => {
      socket.on('error', () => undefined);
      socket.pipe(socket);
    }).listen(0, '127.0.0.1');
    await once(echo, 'listening');
  });
  after(() => {
    echo.close();
  });
  beforeEach(async () => {
    proxy = await startTcpProxy({ host: '127.0.0.1', port: (echo.address() as AddressInfo).port });
  });
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await proxy.stop();
  });

  async function dial(): Promise<{ socket: Socket; heard: () => string; closed: Promise<unknown> }> {
    const socket = connect({ host: proxy.host, port: proxy.port });
    sockets.push(socket);
    const chunks: Buffer[] = [];
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    return { socket, heard: () => Buffer.concat(chunks).toString(), closed };
  }

  async function until(done: () => boolean): Promise<void> {
    for (let tries = 0; !done() && tries < 200; tries++) await sleep(10);
    assert.ok(done(), 'it did not happen within two seconds');
  }

  test('bytes and half-closes pass unchanged, large ones too', async () => {
    const { socket, heard, closed } = await dial();
    const large = 'x'.repeat(3_000_000);
    socket.end(`hello ${large}`);
    await closed;
    assert.equal(heard(), `hello ${large}`);
    assert.equal(proxy.counts.cutByRule + proxy.counts.cutByHand + proxy.counts.swallowedFrames, 0);
    await until(() => proxy.openConnections() === 0);
  });

  test('all connections can be cut at once, and new ones work', async () => {
    const [one, two] = [await dial(), await dial()];
    await until(() => proxy.openConnections() === 2);
    proxy.cutAll();
    await Promise.all([one.closed, two.closed]);
    assert.equal(proxy.counts.cutByHand, 2);
    const three = await dial();
    three.socket.write('again');
    await until(() => three.heard() === 'again');
  });

  test('refused connections fail at once while old ones live on, until it listens again', async () => {
    const old = await dial();
    await until(() => proxy.openConnections() === 1);
    await proxy.refuse(true);
    await assert.rejects(dial(), /ECONNREFUSED/);
    old.socket.write('still here');
    await until(() => old.heard() === 'still here');
    await proxy.refuse(false);
    const fresh = await dial();
    fresh.socket.write('back');
    await until(() => fresh.heard() === 'back');
  });

  test('paused bytes arrive after the pause, black-holed ones never', async () => {
    const waiting = await dial();
    await until(() => proxy.openConnections() === 1);
    proxy.pause();
    waiting.socket.write('late');
    await sleep(100);
    assert.equal(waiting.heard(), '');
    proxy.resume();
    await until(() => waiting.heard() === 'late');

    proxy.blackhole(true);
    waiting.socket.write('gone');
    await until(() => proxy.counts.swallowedBytes === 4);
    assert.equal(waiting.socket.closed, false);
    proxy.blackhole(false);
    waiting.socket.write('also gone');
    const fresh = await dial();
    fresh.socket.write('seen');
    await until(() => fresh.heard() === 'seen');
    assert.equal(waiting.heard(), 'late');
    assert.equal(waiting.socket.closed, false);
  });

  test('delayed bytes come late and in order, even when the delay ends meanwhile', async () => {
    const { socket, heard } = await dial();
    proxy.delay(100);
    const startedAt = performance.now();
    socket.write('a');
    await sleep(20);
    proxy.delay(0);
    socket.write('b');
    await until(() => heard() === 'ab');
    assert.ok(performance.now() - startedAt >= 95);
    assert.ok(proxy.counts.delayedFrames >= 1);
  });

  test('a connection is cut after exactly so many bytes of the client, or of the server', async () => {
    proxy.cutAfterServerBytes(5);
    const one = await dial();
    one.socket.write('abcdefgh');
    await one.closed;
    assert.equal(one.heard(), 'abcde');
    proxy.cutAfterClientBytes(3);
    const two = await dial();
    two.socket.write('abcdefgh');
    await two.closed;
    assert.equal(proxy.counts.cutByRule, 2);
  });

  test('a connection is cut before or after the chunk that a test picks, once', async () => {
    proxy.cutWhenServer((frame) => frame.text().includes('secret'), 'before');
    const one = await dial();
    one.socket.write('plain');
    await until(() => one.heard() === 'plain');
    one.socket.write('secret');
    await one.closed;
    assert.equal(one.heard(), 'plain');
    proxy.cutWhenClient((frame) => frame.text() === 'bye', 'after');
    const two = await dial();
    two.socket.write('secret');
    await until(() => two.heard() === 'secret');
    two.socket.write('bye');
    await two.closed;
    assert.deepEqual([proxy.counts.cutByRule, proxy.counts.swallowedFrames], [2, 1]);
  });
});

test('messages cut into single bytes are put together again, the naked answer to an SSL request included', () => {
  const { client, server } = makePostgresReader();
  const bytewise = (read: typeof client, hex: string): string[] =>
    [...Buffer.from(hex, 'hex')].flatMap((byte) => read(Buffer.from([byte]))).map((it) => `${it.type}:${it.text()}`);
  assert.deepEqual(
    bytewise(client, '0000000804d2162f').map((it) => it.slice(0, 6)),
    ['start:'],
  );
  assert.deepEqual(bytewise(server, '4e'), ['naked:N']);
  assert.equal(bytewise(client, '000000080003000000').length, 1);
  assert.deepEqual(bytewise(server, '430000000b434f4d4d4954005a0000000549'), ['C:COMMIT', 'Z:I']);
});

describe('before a real PostgreSQL', () => {
  let proxy: TcpProxy;
  let direct: pg.Client;
  let proxiedUrl: string;
  const TABLE = `sim_tcp_proxy_${process.pid}`;

  before(async () => {
    const url = new URL(await testServerUrl());
    direct = new pg.Client({ connectionString: url.href });
    await direct.connect();
    await direct.query(`CREATE TABLE ${TABLE} (id int PRIMARY KEY)`);
    proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port), protocol: 'postgres' });
    url.port = String(proxy.port);
    proxiedUrl = url.href;
  });
  after(async () => {
    await proxy.stop();
    await direct.query(`DROP TABLE ${TABLE}`);
    await direct.end();
  });

  /** Inserts one row in a transaction through the proxy; says how its COMMIT ended. */
  async function insert(id: number): Promise<string> {
    const client = new pg.Client({ connectionString: proxiedUrl });
    client.on('error', () => undefined);
    await client.connect();
    await client.query('BEGIN');
    await client.query(`INSERT INTO ${TABLE} VALUES ($1)`, [id]);
    const outcome = await client.query('COMMIT').then(
      (result) => result.command,
      (error: Error) => error.message,
    );
    await client.end().catch(() => undefined);
    return outcome;
  }

  async function isThere(id: number): Promise<boolean> {
    // The lost session may still be busy ending; a commit it was asked for has happened or never will once it is gone.
    await sleep(50);
    return (await direct.query(`SELECT 1 FROM ${TABLE} WHERE id = $1`, [id])).rowCount === 1;
  }

  test('queries pass, and nothing is cut without a rule', async () => {
    assert.equal(await insert(1), 'COMMIT');
    assert.equal(await isThere(1), true);
    assert.equal(proxy.counts.cutByRule, 0);
  });

  test('the answer to a COMMIT that happened can be swallowed whole', async () => {
    proxy.cutWhenServer(isCommitDone, 'before');
    assert.match(await insert(2), /terminated|ended|closed|RESET/i);
    assert.equal(await isThere(2), true);
    assert.deepEqual([proxy.counts.cutByRule, proxy.counts.swallowedFrames], [1, 1]);
  });

  test('a connection can break between CommandComplete and ReadyForQuery', async () => {
    proxy.cutWhenServer(isCommitDone, 'after');
    assert.match(await insert(3), /terminated|ended|closed|RESET/i);
    assert.equal(await isThere(3), true);
    assert.deepEqual([proxy.counts.cutByRule, proxy.counts.swallowedFrames], [2, 1]);
  });

  test('a COMMIT that never arrives looks the same to the client and did not happen', async () => {
    proxy.cutWhenClient(isCommitAsked, 'before');
    assert.match(await insert(4), /terminated|ended|closed|RESET/i);
    assert.equal(await isThere(4), false);
    assert.deepEqual([proxy.counts.cutByRule, proxy.counts.swallowedFrames], [3, 2]);
  });

  test('a black-holed session answers nothing and its transaction ends only when it is cut', async () => {
    const client = new pg.Client({ connectionString: proxiedUrl });
    client.on('error', () => undefined);
    await client.connect();
    proxy.blackhole(true);
    const answer = client.query('SELECT 1').then(
      () => 'answered',
      () => 'broken',
    );
    assert.equal(await Promise.race([answer, sleep(200, 'silent')]), 'silent');
    proxy.blackhole(false);
    proxy.cutAll();
    assert.equal(await answer, 'broken');
  });
});
