/*
 * Goal: a provider that echoes our headers puts the credential into nothing that is kept or told: stored bodies and headers,
 * details, transport errors. Method: a server on a real socket that echoes what it got, for each kind of credential, raw, in
 * base64, in the spellings of JSON, URLs and HTML, and cut in the middle.
 */
import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import type { SealedEffect } from '../../src/engine/rail.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { type BankRail, makeBankRail, type Profile, PROFILES } from '../../src/rails/bank/index.ts';
import { credentialOf } from '../../src/rails/redact.ts';
import { objectOf, sealFor } from './bank-scene.ts';

const SECRETS = {
  bearer: 'sk_live_T0p/Secret+1234567890==',
  basic: 'org_4711:api-Key/Secret+1234567890',
  x_api_key: 'K3y"Secret\\1234567890',
} as const;

/** All in which the secret half could be read again. */
function traces(auth: keyof typeof SECRETS): readonly string[] {
  const secret = SECRETS[auth];
  const half = auth === 'basic' ? secret.slice(secret.indexOf(':') + 1) : secret;
  const base64 = [secret, half].map((text) => Buffer.from(text).toString('base64').replaceAll('=', ''));
  const plain = [half, ...base64];
  return [...plain, ...plain.map((one) => one.slice(0, 12)), ...plain.map((one) => one.slice(-12))];
}

async function railAt(
  t: TestContext,
  profile: Profile,
  secret: string,
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<{ readonly rail: BankRail; readonly sealed: SealedEffect }> {
  const server = createServer((request, response) => {
    request.resume();
    request.on('end', () => answer(request, response));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const rail = makeBankRail(
    {
      name: 'bank:test',
      profile,
      baseUrl,
      account: 'acc_1',
      credential: { id: 'cred_1', secret: () => secret },
      deployment: 'test',
      direct: true,
    },
    { ports: systemPorts() },
  );
  t.after(async () => {
    await rail.close();
    server.closeAllConnections();
    server.close();
  });
  const scope = { deployment: 'test', account: 'acc_1', credentialId: 'cred_1', baseUrl };
  return { rail, sealed: { ...sealFor(profile, {}, scope), acceptedObject: 'tr_9' } };
}

const generic = PROFILES.find((one) => one.name === 'generic') ?? assert.fail();

for (const auth of ['bearer', 'basic', 'x_api_key'] as const) {
  const profile: Profile = { ...generic, auth };
  const secret = SECRETS[auth];

  describe(auth, () => {
    const echoes: Readonly<Record<string, (sent: string) => string>> = {
      'in a refusal': (sent) => JSON.stringify({ code: 'account_closed', detail: `who is ${sent}?` }),
      'in JSON with everything escaped': (sent) =>
        `{"code":"account_closed","detail":"${Array.from(sent, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')}"}`,
      'in JSON with escaped slashes': (sent) =>
        JSON.stringify({ code: 'account_closed', detail: sent }).replaceAll('/', '\\/'),
      'in a URL': (sent) => JSON.stringify({ code: 'account_closed', detail: encodeURIComponent(sent) }),
      'in a page': (sent) => `<html>${sent.replaceAll('"', '&#34;').replaceAll('+', '&#x2B;')}</html>`,
      'the secret itself': () => JSON.stringify({ code: 'account_closed', detail: secret }),
      'its base64': () => JSON.stringify({ code: 'account_closed', detail: Buffer.from(secret).toString('base64url') }),
    };
    for (const [how, echo] of Object.entries(echoes)) {
      test(`${how}: it is neither stored nor told, of sends and looks`, async (t) => {
        const { rail, sealed } = await railAt(t, profile, secret, (request, response) => {
          const sent = String(request.headers.authorization ?? request.headers['x-api-key']);
          const headers = { 'content-type': 'application/json', link: sent };
          response.writeHead(request.method === 'POST' ? 422 : 400, headers).end(echo(sent));
        });
        const answers = [await rail.send(sealed, null), ...((await rail.look([sealed]))[0] ?? [])];
        assert.equal(answers.length, 4);
        for (const answer of answers) {
          const kept = [
            answer.body,
            JSON.stringify(JSON.parse(answer.body)),
            JSON.stringify(rail.read(answer, sealed)),
          ];
          // As people would read it: spelled out again.
          const spelled = kept.flatMap((text) => [text, plainly(text), plainly(plainly(text))]);
          for (const text of spelled)
            for (const trace of traces(auth))
              assert.ok(!text.includes(trace), `${how}: ${trace} in ${text.slice(0, 400)}`);
        }
      });
    }

    test('a beginning of it at the end of an answer that was cut is taken out too', async (t) => {
      const { rail, sealed } = await railAt(t, profile, secret, (request, response) => {
        const sent = String(request.headers.authorization ?? request.headers['x-api-key']);
        response.writeHead(200, { 'content-type': 'text/plain', 'content-length': '100000' });
        response.write(`headers: ${sent.slice(0, sent.length - 3)}`, () => setTimeout(() => response.destroy(), 20));
      });
      const answer = await rail.send(sealed, null);
      assert.equal(answer.reach, 'partial_answer');
      for (const trace of traces(auth)) assert.ok(!answer.body.includes(trace));
    });

    test('an answer without it is kept as it is', async (t) => {
      const { rail, sealed } = await railAt(t, profile, secret, (_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify(objectOf(generic, sealed, 'paid')));
      });
      assert.equal(rail.read(await rail.send(sealed, null), sealed).kind, 'final_success');
    });
  });
}

test('a short secret is found with its scheme, and tears nothing else apart', () => {
  const short = credentialOf('bearer', 's');
  assert.deepEqual(short.headers, { authorization: 'Bearer s' });
  assert.equal(short.redact('success, says Bearer s'), 'success, says [redacted]');
});

test('a long token is taken out of a long answer at once', () => {
  const token = `ey${'aA1+/'.repeat(800)}`;
  const credential = credentialOf('bearer', token);
  const started = performance.now();
  for (const text of [token.repeat(30), token.slice(0, -1).repeat(30), 'eyaA1+'.repeat(20_000)])
    credential.redact(text, true);
  assert.ok(performance.now() - started < 3_000, `${performance.now() - started} ms`);
});

function plainly(text: string): string {
  return text
    .replaceAll(/\\u([0-9a-fA-F]{4})/g, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replaceAll(/\\(["\\/])/g, '$1')
    .replaceAll(/%([0-9a-fA-F]{2})/g, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replaceAll(/&#x([0-9a-fA-F]+);/g, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replaceAll(/&#([0-9]+);/g, (_all, code: string) => String.fromCharCode(Number(code)));
}
