/*
 * Goal: whatever echoes the key of a node or a market, nothing that is handed back has it, on every rail; bank-redact.test.ts
 * has the spellings. Method: a server on a real socket that says what it was sent, in a body, in headers, cut; and the
 * application over a simulated TRON, all of whose tables are searched.
 */
import assert from 'node:assert/strict';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { systemPorts } from '../../src/kernel/ports.ts';
import { energyMarket, makeEnergyRail } from '../../src/rails/energy/index.ts';
import { openLine as openEvmLine } from '../../src/rails/evm/rpc.ts';
import { exchangeOnce, makeSendAgent, WIRE_LIMITS } from '../../src/rails/http.ts';
import { nameNodes } from '../../src/rails/node-list.ts';
import { doorOf } from '../../src/rails/redact.ts';
import { openLine as openTronLine } from '../../src/rails/tron/wire.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { PARTNER, startTronApp, TRX } from '../support/tron-app.ts';

const KEY = 'sk-7f3d9a41c0/SECRET+5b';
const PATH_KEY = 'a41c0e5b7f3d9a41c0e5b7f3d9';
/** Of a URL's user and password. */
const PAIR = { user: 'payonce', password: 'p4ss-w0rd-of-ours' };

type Say = (request: IncomingMessage) => { readonly status?: number; readonly body: string; readonly cut?: boolean };

async function echo(t: TestContext, say: Say): Promise<string> {
  const server = createServer((request, response) => {
    request.resume();
    request.on('end', () => {
      const { status = 200, body, cut = false } = say(request);
      const headers = { 'content-type': 'application/json', 'x-seen': JSON.stringify(request.headers) };
      response.writeHead(status, cut ? { ...headers, 'content-length': '100000' } : headers);
      if (cut) response.write(body, () => setTimeout(() => response.destroy(), 20));
      else response.end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const seen: Say = ({ url, headers }) => ({ status: 403, body: JSON.stringify({ Error: { url, headers } }) });

function keptNowhere(kept: unknown): void {
  const text = JSON.stringify(kept);
  const secrets = [KEY, PATH_KEY, PAIR.password];
  for (const secret of [...secrets, ...secrets.map((one) => Buffer.from(one).toString('base64').replaceAll('=', ''))])
    assert.ok(!text.includes(secret), `${secret} in ${text.slice(0, 600)}`);
  assert.match(text, /\[redacted\]/);
}

test('a node that says what it was sent says nothing of our key: headers, password, and what stands in its URL', async (t) => {
  const host = await echo(t, seen);
  const url = `http://${PAIR.user}:${PAIR.password}@${host}/v2/${PATH_KEY}?token=${encodeURIComponent(KEY)}`;
  const headers = { 'x-node-key': KEY, 'x-bearer': `Bearer ${KEY}` };
  const [node] = nameNodes([{ url, operator: 'one', headers }]);
  assert.ok(node !== undefined);
  assert.equal(node.source, host);
  const evm = openEvmLine(node, systemPorts());
  const tron = openTronLine({ ...node, credential: doorOf(url, headers) }, systemPorts());
  t.after(() => Promise.all([evm.close(), tron.close()]));
  keptNowhere(await evm.ask([{ method: 'eth_chainId', params: [] }]));
  keptNowhere(await tron.ask('wallet/getnowblock'));
});

test('neither headers nor the end of an answer that was cut hold a key, and what holds none is kept as it is', async (t) => {
  const agent = makeSendAgent(2, WIRE_LIMITS);
  t.after(() => agent.destroy());
  const ask = (host: string) =>
    exchangeOnce(
      agent,
      systemPorts(),
      'ask',
      {
        method: 'GET',
        url: new URL(`http://${host}/`),
        headers: {},
        credential: doorOf(`http://${host}/`, { 'x-node-key': KEY }),
        body: null,
      },
      { ...WIRE_LIMITS, bytesMax: 10_000 },
    );
  const cut = await ask(await echo(t, () => ({ body: `who is ${KEY.slice(0, -4)}`, cut: true })));
  assert.equal(cut.reach, 'partial_answer');
  assert.equal(cut.body, 'who is [redacted]');
  keptNowhere(cut.headers);
  const plain = JSON.stringify({ result: '0x1', note: 'sk-7f3d9a41c1' });
  assert.equal((await ask(await echo(t, () => ({ body: plain })))).body, plain);
});

test('a market that echoes our key has it in no stored answer, no evidence and no balance', async (t) => {
  const host = await echo(t, ({ headers }) => ({
    status: 422,
    body: JSON.stringify({ error: headers.authorization }),
  }));
  const rail = makeEnergyRail(
    {
      name: 'energy:test',
      profile: energyMarket,
      baseUrl: `http://${host}`,
      account: 'prepaid-1',
      secret: () => KEY,
      deployment: 'test',
    },
    { ports: systemPorts() },
  );
  t.after(() => rail.close());
  const intent = {
    effectId: 7n,
    subjectType: 'energy',
    subjectId: 'nrg_1',
    seq: 1,
    partnerId: 'par_own',
    naturalKey: '7:par_own3:one',
    rail: 'energy:test',
    asset: { id: 'coin', code: 'TRX', decimals: 6, chain: 'tron:test', contract: null },
    amount: 650_000n,
    destination: 'TQn9Y2khEsLJW1ChVWFMSMeRDow5KcbLSE:65000:3600',
    wallet: 'prepaid-1',
    signer: 'prepaid-1',
    call: null,
    payee: null,
  };
  const sealed = { ...intent, seal: rail.seal(intent, {}, null), plan: {}, variants: [], sealedAt: new Date() };
  const answers = [await rail.send(sealed, null), ...((await rail.look([sealed]))[0] ?? [])];
  assert.equal(answers.length, 2);
  for (const answer of answers) keptNowhere([answer, rail.read(answer, sealed).detail]);
  keptNowhere(await rail.balance());
});

test('a gateway before the nodes that names our key in its errors: it stands in no table', async (t) => {
  let refusing = false;
  const gateways: { url: string; close(): void }[] = [];
  const one = await startTronApp({
    label: 'keys_echoed',
    prepare: async (tron) => {
      for (const { url } of tron.nodes) gateways.push(await gateway(url, () => refusing));
      return {
        nodes: gateways.map((each, index) => ({ url: each.url, operator: `operator-${index}`, key: () => KEY })),
      };
    },
  });
  t.after(async () => {
    for (const each of gateways) each.close();
    await one.end();
  });
  await one.fund(100n * TRX);
  const pay = (key: string) =>
    createWithdrawals(one.app.engine, [
      {
        partnerId: PARTNER,
        idempotencyKey: key,
        fingerprint: key,
        externalId: null,
        purpose: 'customer',
        assetId: one.tokenAssetId,
        amount: TRX,
        destination: one.stranger,
        reference: null,
      },
    ]);
  await pay('sealed');
  await one.pass();
  refusing = true;
  await pay('waiting');
  for (let time = 0; time < 4; time += 1) {
    await new Promise((resolve) => setTimeout(resolve, 150));
    await one.pass();
    await one.chain.scanner.runOnce();
  }
  const kept = await one.rows<{ row: string }>(
    `select row_to_json(x)::text as row from payonce.effect_answers x
     union all select row_to_json(x)::text from payonce.effect_evidence x
     union all select row_to_json(x)::text from payonce.effects x
     union all select row_to_json(x)::text from payonce.alerts x
     union all select row_to_json(x)::text from payonce.cases x
     union all select row_to_json(x)::text from payonce.events x`,
  );
  const told = kept.filter(({ row }) => row.includes('over its limit'));
  assert.ok(told.length > 2, 'it is told what the gateway said');
  keptNowhere(told);
  keptNowhere(kept);
});

/** Passes everything on, until it says that our key is over its limit. */
async function gateway(upstream: string, refuses: () => boolean): Promise<{ url: string; close(): void }> {
  const server = createServer((request, response) => {
    const serve = async (): Promise<void> => {
      const parts: Buffer[] = [];
      for await (const part of request as AsyncIterable<Buffer>) parts.push(part);
      const key = String(request.headers['tron-pro-api-key']);
      const text = refuses()
        ? JSON.stringify({ Error: `the key ${key} is over its limit` })
        : await (await fetch(`${upstream}${request.url ?? ''}`, { method: 'POST', body: Buffer.concat(parts) })).text();
      response.writeHead(200, { 'content-type': 'application/json' }).end(text);
    };
    serve().catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
