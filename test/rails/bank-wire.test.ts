/*
 * Goal: what leaves is the sealed request, once, and what came back is kept whole or not at all. Method: a server on a real
 * socket that records every byte and answers as told, misbehaving where a test says so; a gate that cuts in the middle.
 */
import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { afterEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { compactDecrypt, CompactEncrypt, decodeProtectedHeader } from 'jose';
import { insideTransaction, systemPorts } from '../../src/kernel/ports.ts';
import type { SealedEffect } from '../../src/engine/rail.ts';
import { type BankRail, makeBankRail, type Profile, PROFILES } from '../../src/rails/bank/index.ts';
import { readRequest } from '../../src/rails/bank/seal.ts';
import { intentFor, keyOf, objectOf, wrap } from './bank-scene.ts';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

interface Server {
  readonly url: string;
  readonly seen: Seen[];
}

async function serve(
  answer: (seen: Seen, response: ServerResponse, socket: Socket) => void | Promise<void>,
): Promise<Server> {
  const seen: Seen[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const one = {
        method: request.method ?? '',
        url: request.url ?? '',
        headers: request.headers,
        body: Buffer.concat(chunks).toString(),
      };
      seen.push(one);
      Promise.resolve(answer(one, response, request.socket)).catch((error: unknown) =>
        response.destroy(error as Error),
      );
    });
    request.on('error', () => {});
  });
  server.on('connection', (socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  return { url: `http://127.0.0.1:${address.port}`, seen };
}

function profileOf(name: string): Profile {
  return PROFILES.find((one) => one.name === name) ?? assert.fail(name);
}

function railAt(url: string, profile: Profile, change: { credential?: string; account?: string } = {}): BankRail {
  const rail = makeBankRail(
    {
      name: 'bank:test',
      profile,
      baseUrl: url,
      account: change.account ?? 'acc_1',
      credential: {
        id: change.credential ?? 'cred_1',
        secret: () => 'sk_test',
        encryptionKey: KEY_HEX,
      },
      deployment: 'test',
      direct: true,
    },
    { ports: systemPorts(), http: { timeoutMs: 400, connectMs: 300 } },
  );
  closing.push(() => rail.close());
  return rail;
}

const KEY_HEX = '0123456789abcdef'.repeat(4);

function sealWith(rail: BankRail): SealedEffect {
  const intent = intentFor(rail.profile);
  return { ...intent, seal: rail.seal(intent, {}, null), plan: {}, variants: [], sealedAt: new Date() };
}

const json = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
};

test('a send is the sealed bytes under the sealed key, once, and so is every later send (req T2, req T3, case C1)', async () => {
  for (const profile of PROFILES.filter((one) => one.encryption === 'none')) {
    const server = await serve((_seen, response) => json(response, 200, {}));
    const rail = railAt(server.url, profile);
    const sealed = sealWith(rail);
    await rail.send(sealed, null);
    await rail.send(sealed, null);
    const request = readRequest(sealed);
    assert.equal(server.seen.length, 2);
    for (const one of server.seen) {
      assert.deepEqual([one.method, one.url, one.body], ['POST', request.path, request.body], profile.name);
      assert.equal(one.headers['content-type'], request.headers['content-type']);
      assert.equal(one.headers['idempotency-key'], request.headers['idempotency-key']);
      const shown = { bearer: 'Bearer sk_test', basic: 'Basic c2tfdGVzdDo=', x_api_key: 'sk_test' }[profile.auth];
      assert.equal(profile.auth === 'x_api_key' ? one.headers['x-api-key'] : one.headers.authorization, shown);
    }
  }
});

test('the answer is kept with status, replay mark and body, and reads the same from its stored text', async () => {
  const stripe = profileOf('stripe');
  const refusal = { error: { type: 'invalid_request_error', code: 'balance_insufficient', message: 'no' } };
  const server = await serve((_seen, response) =>
    json(response, 400, refusal, { 'Idempotent-Replayed': 'true', 'request-id': 'req_1', date: 'now' }),
  );
  const rail = railAt(server.url, stripe);
  const sealed = sealWith(rail);
  const answer = await rail.send(sealed, null);
  assert.deepEqual([answer.reach, answer.status], ['answer', 400]);
  assert.equal(rail.read(answer, sealed).refusal?.replayed, true);
  assert.ok(!answer.body.includes('req_1'), 'what differs at each repetition is not kept');
  assert.ok(!answer.body.includes('sk_test'));
});

test('redirects are not followed, time-outs, resets and broken answers are unknown, and nothing is tried again', async () => {
  const generic = profileOf('generic');
  const manners: [string, (response: ServerResponse, socket: Socket) => void][] = [
    ['unreadable', (response) => json(response, 307, '', { location: '/elsewhere' })],
    ['unreadable', () => {}],
    ['unreadable', (_response, socket) => socket.resetAndDestroy()],
    [
      'unreadable',
      (response, socket) => {
        response.writeHead(200, { 'content-length': '1000' });
        response.write('{"id":"tr_9"');
        setTimeout(() => socket.destroy(), 20);
      },
    ],
    ['unreadable', (response) => json(response, 200, 'x'.repeat(1_000_000))],
    ['blocked', (response) => json(response, 503, '<html>')],
  ];
  for (const [kind, manner] of manners) {
    const server = await serve((_seen, response, socket) => manner(response, socket));
    const rail = railAt(server.url, generic);
    const sealed = sealWith(rail);
    assert.equal(rail.read(await rail.send(sealed, null), sealed).kind, kind);
    await sleep(30);
    assert.equal(server.seen.length, 1);
  }
  const gone = railAt('http://127.0.0.1:1', generic);
  const sealed = sealWith(gone);
  assert.equal(gone.read(await gone.send(sealed, null), sealed).kind, 'never_left');
});

test('where bodies are encrypted each send is a new ciphertext of the one sealed text, and answers are opened', async () => {
  const toss = profileOf('toss');
  const key = Buffer.from(KEY_HEX, 'hex');
  const server = await serve(async (_seen, response) => {
    const body = JSON.stringify(wrap(toss, objectOf(toss, sealed, 'COMPLETED')));
    const jwe = await new CompactEncrypt(Buffer.from(body))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .encrypt(key);
    response.writeHead(200, { 'content-type': 'text/plain' });
    response.end(jwe);
  });
  const rail = railAt(server.url, toss);
  const sealed = sealWith(rail);
  const answers = [await rail.send(sealed, null), await rail.send(sealed, null)];
  assert.notEqual(server.seen[0]?.body, server.seen[1]?.body);
  for (const one of server.seen) {
    const { plaintext } = await compactDecrypt(one.body, key);
    assert.equal(new TextDecoder().decode(plaintext), readRequest(sealed).body);
    const header = decodeProtectedHeader(one.body);
    assert.match(String(header['iat']), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+09:00$/);
    assert.match(String(header['nonce']), /^[0-9a-f]{32}$/);
    assert.equal(one.headers['tosspayments-api-security-mode'], 'ENCRYPTION');
    assert.equal(one.headers['idempotency-key'], keyOf(sealed));
  }
  for (const answer of answers) assert.equal(rail.read(answer, sealed).kind, 'final_success');
  // Encrypted for somebody else: kept as it came, and it says nothing.
  const stranger = await serve(async (_seen, response) => {
    const jwe = await new CompactEncrypt(Buffer.from('{}'))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      .encrypt(Buffer.alloc(32));
    response.end(jwe);
  });
  const other = railAt(stranger.url, toss);
  const mine = sealWith(other);
  assert.equal(other.read(await other.send(mine, null), mine).kind, 'unreadable');
});

test('a look asks each look-up of the profile once, by what it knows', async () => {
  for (const profile of PROFILES) {
    const server = await serve((_seen, response) => json(response, 404, {}));
    const rail = railAt(server.url, profile);
    const sealed = sealWith(rail);
    const [unknown] = await rail.look([sealed]);
    const byObject = profile.lookUps.filter((one) => one.name === 'by_object').length;
    assert.equal(unknown?.length, profile.lookUps.length - byObject, profile.name);
    const [known] = await rail.look([{ ...sealed, acceptedObject: 'obj/1' }]);
    assert.equal(known?.length, profile.lookUps.length);
    assert.equal(new Set(known?.map((answer) => answer.source)).size, profile.lookUps.length);
    assert.ok(server.seen.every((one) => one.method === 'GET' && one.body === ''));
    assert.ok(server.seen.some((one) => one.url.includes('obj%2F1')));
    for (const answer of known ?? []) assert.equal(answer.operation, 'look');
  }
});

test('a list is read page by page until our transfer is found, and absence needs all of it', async () => {
  const stripe = profileOf('stripe');
  let pages = 3;
  let ours = 2;
  const server = await serve((seen, response) => {
    const page = Number(new URLSearchParams(seen.url.split('?')[1]).get('starting_after')?.slice(3) ?? '0') + 1;
    const object = objectOf(stripe, sealed, 'paid', page === ours ? {} : { id: `po_${page}`, metadata: {} });
    json(response, 200, {
      object: 'list',
      data: [object, { ...object, id: `po_${page}`, metadata: {} }],
      has_more: page < pages,
    });
  });
  const rail = railAt(server.url, stripe);
  const sealed = sealWith(rail);
  const look = async () => {
    server.seen.length = 0;
    const answer = (await rail.look([sealed]))[0]?.[0] ?? assert.fail();
    return [rail.read(answer, sealed).kind, server.seen.length];
  };
  assert.deepEqual(await look(), ['final_success', 2]);
  ours = 0;
  assert.deepEqual(await look(), ['not_found', 3]);
  pages = 100;
  assert.deepEqual(await look(), ['unreadable', 5], 'more than is read in one look');
});

test('a rotated credential still looks, and its hit counts while its miss does not; elsewhere nothing is asked', async () => {
  const generic = profileOf('generic');
  let found = true;
  const server = await serve((_seen, response) =>
    json(response, 200, { data: found ? [objectOf(generic, sealed, 'paid')] : [] }),
  );
  const sealed = sealWith(railAt(server.url, generic));
  const rotated = railAt(server.url, generic, { credential: 'cred_2' });
  const kinds = async (rail: BankRail) => {
    const [answers] = await rail.look([sealed]);
    return answers?.map((answer) => rail.read(answer, sealed).kind);
  };
  assert.deepEqual(await kinds(rotated), ['final_success', 'final_success']);
  found = false;
  assert.deepEqual(await kinds(rotated), ['unreadable', 'unreadable']);
  const asked = server.seen.length;
  assert.equal((await rotated.send(sealed, null)).reach, 'withheld');
  assert.deepEqual(await kinds(railAt(server.url, generic, { account: 'acc_2' })), ['blocked', 'blocked']);
  assert.equal(server.seen.length, asked, 'not one request more');
});

test('one effect that cannot be asked leaves its neighbours’ answers in order', async () => {
  const generic = profileOf('generic');
  const server = await serve((seen, response, socket) => {
    if (seen.url.includes('tr_2')) socket.destroy();
    else json(response, 404, { code: 'not_found' });
  });
  const rail = railAt(server.url, generic);
  const sealed = sealWith(rail);
  const many = ['tr_1', 'tr_2', 'tr_3'].map((acceptedObject) => ({ ...sealed, acceptedObject }));
  const answers = await rail.look(many);
  const byObject = answers.map((list) => list.at(-1) ?? assert.fail());
  assert.deepEqual(
    byObject.map((answer) => rail.read(answer, sealed).kind),
    ['not_found', 'unreadable', 'not_found'],
  );
});

test('a secret that cannot be read withholds the send, and no byte leaves while a transaction is open (req W10)', async () => {
  const server = await serve((_seen, response) => json(response, 200, {}));
  const generic = profileOf('generic');
  const rail = railAt(server.url, generic);
  const sealed = sealWith(rail);
  const locked = makeBankRail(
    {
      name: 'bank:test',
      profile: generic,
      baseUrl: server.url,
      account: 'acc_1',
      credential: { id: 'cred_1', secret: () => Promise.reject(new Error('vault')) },
      deployment: 'test',
      direct: true,
    },
    { ports: systemPorts() },
  );
  closing.push(() => locked.close());
  assert.equal((await locked.send(sealed, null)).reach, 'withheld');
  await assert.rejects(
    insideTransaction('open', async () => {
      await rail.send(sealed, null);
    }),
    /no wire inside a transaction/,
  );
  assert.equal(server.seen.length, 0);
});
