/*
 * Goal: a partner's URL makes us call nothing but a server of the public internet. Method: a list of spellings, the
 * addresses of the special-purpose registry, and real sockets with a resolver that changes its mind.
 */
import assert from 'node:assert/strict';
import type { LookupAddress } from 'node:dns';
import { after, before, test } from 'node:test';
import { insideTransaction, systemPorts } from '../../src/kernel/ports.ts';
import { type Attempt, makeSender } from '../../src/outbox/deliver.ts';
import { isPublicAddress, type UrlPolicy, urlRefusal } from '../../src/outbox/url-policy.ts';
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts';

let hook: WebhookReceiver;
before(async () => {
  hook = await startWebhookReceiver();
});
after(() => hook.close());

const REFUSED = [
  'not a url',
  'ftp://hooks.example.com/',
  'file:///etc/passwd',
  'javascript:alert(1)',
  'http://hooks.example.com/',
  'https://user:secret@hooks.example.com/',
  'https://localhost/',
  'https://LOCALHOST/',
  'https://localhost./',
  'https://api.localhost/',
  'https://127.0.0.1/',
  'https://127.1/',
  'https://0x7f.0.0.1/',
  'https://0177.0.0.1/',
  'https://2130706433/',
  'https://１２７.0.0.1/',
  'https://127。0。0。1/',
  'https://0/',
  'https://8.8.8.8/',
  'https://169.254.169.254/latest/meta-data/',
  'https://[::1]/',
  'https://[::]/',
  'https://[::ffff:127.0.0.1]/',
  'https://[fe80::1]/',
  'https://[64:ff9b::7f00:1]/',
  'https://[2606:4700::1111]/',
  'https://metadata.google.internal/',
  'https://printer.local/',
  'https://intranet/',
  'https://hooks.example.com./',
  'https://1.0.0.127.in-addr.arpa/',
];

test('every odd or inward spelling of a URL is refused with a reason', () => {
  for (const url of REFUSED) assert.equal(typeof urlRefusal(url, { allowPrivate: false }), 'string', url);
});

test('an ordinary https URL is allowed, with a port and a path', () => {
  for (const url of [
    'https://hooks.example.com/',
    'https://hooks.example.com:8443/a?b=c',
    'https://xn--bcher-kva.example/',
  ]) {
    assert.equal(urlRefusal(url, { allowPrivate: false }), null, url);
  }
});

test('a local start allows loopback and http, and still no credentials or other schemes', () => {
  const local = { allowPrivate: true };
  assert.equal(urlRefusal('http://127.0.0.1:8080/hook', local), null);
  assert.equal(urlRefusal('http://localhost:8080/hook', local), null);
  assert.equal(typeof urlRefusal('http://a:b@127.0.0.1/', local), 'string');
  assert.equal(typeof urlRefusal('gopher://127.0.0.1/', local), 'string');
});

test('no address of the special-purpose registries is public', () => {
  const special = `0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.8
    192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255
    :: ::1 ::ffff:8.8.8.8 64:ff9b::808:808 100::1 2001::1 2001:db8::1 2002:7f00:1::1 3fff::1 fc00::1 fd00::1 fe80::1 ff02::1 nonsense`;
  for (const address of special.split(/\s+/)) assert.equal(isPublicAddress(address), false, address);
  for (const address of [
    '8.8.8.8',
    '172.15.0.1',
    '172.32.0.1',
    '100.128.0.1',
    '2606:4700::1111',
    '2a00:1450:4001::1',
  ]) {
    assert.equal(isPublicAddress(address), true, address);
  }
});

async function sendTo(url: string, policy: UrlPolicy): Promise<Attempt> {
  const sender = makeSender(systemPorts(), policy, 2_000);
  try {
    return await sender.send({
      url,
      eventId: 'evt_1',
      timestampSeconds: '1',
      signatures: 'v1,x',
      body: Buffer.from('{}'),
    });
  } finally {
    await sender.close();
  }
}

/** Answers with the next list at each question; the last one stays. */
function resolver(...answers: string[][]) {
  const asked: string[] = [];
  const resolve = (hostname: string): Promise<LookupAddress[]> => {
    const found = answers[Math.min(asked.length, answers.length - 1)] ?? [];
    asked.push(hostname);
    return Promise.resolve(found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })));
  };
  return { asked, resolve };
}

const port = () => new URL(hook.url).port;

test('a public name that resolves inward is refused before a socket opens', async () => {
  for (const answer of [['127.0.0.1'], ['::1'], ['8.8.8.8', '127.0.0.1'], ['127.0.0.1', '8.8.8.8']]) {
    const { resolve } = resolver(answer);
    const attempt = await sendTo(`https://hooks.example.com:${port()}/`, { allowPrivate: false, resolve });
    assert.equal(attempt.kind, 'failed');
    assert.match(attempt.kind === 'failed' ? attempt.reason : '', /not public/);
  }
  assert.equal(hook.hits.length, 0);
});

test('nothing is sent while a transaction is open (req W10, inv E12)', async () => {
  const sent = insideTransaction('settle', () => sendTo(hook.url, { allowPrivate: true }));
  await assert.rejects(sent, /no wire inside a transaction/);
});

test('a refused URL is not even resolved', async () => {
  const { resolve, asked } = resolver(['8.8.8.8']);
  const attempt = await sendTo('https://localhost/', { allowPrivate: false, resolve });
  assert.match(attempt.kind === 'failed' ? attempt.reason : '', /the URL is refused/);
  assert.deepEqual(asked, []);
});

test('the address that was judged is the one that is connected to: rebinding finds no second question', async () => {
  // Judged: 127.0.0.1. Had the socket asked again, it would have gone to an address where nobody listens.
  const { resolve, asked } = resolver(['127.0.0.1'], ['127.0.0.2']);
  const attempt = await sendTo(`http://rebinding.example:${port()}/pin`, { allowPrivate: true, resolve });
  assert.equal(attempt.kind, 'delivered');
  assert.deepEqual(asked, ['rebinding.example']);
  assert.equal(hook.hits.at(-1)?.headers.host, `rebinding.example:${port()}`);
});

test('a name that turns inward after its first answer is refused at the next connection', async () => {
  const { resolve } = resolver(['8.8.8.8'], ['127.0.0.1']);
  const policy = { allowPrivate: false, resolve };
  await resolve('the question at registration');
  const before = hook.hits.length;
  const attempt = await sendTo(`https://rebinding.example:${port()}/`, policy);
  assert.match(attempt.kind === 'failed' ? attempt.reason : '', /not public/);
  assert.equal(hook.hits.length, before);
});
