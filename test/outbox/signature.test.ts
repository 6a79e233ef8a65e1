/*
 * Goal: our signatures are Standard Webhooks', to the byte. Method: the package standardwebhooks and the example of its
 * specification.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { judge, nextOf } from '../../src/outbox/deliver.ts';
import { deriveEndpointSecret, isSignedBy, secretBytes, signatureOf } from '../../src/outbox/signature.ts';

test('the specification’s own example has the signature that it says', () => {
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
  const signature = signatureOf(
    secret,
    'msg_p5jXN8AQM9LWM0D4loKWxJek',
    '1614265330',
    Buffer.from('{"test": 2432232314}'),
  );
  assert.equal(signature, 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=');
});

test('the package makes the same signatures as we do, and we accept its own', () => {
  for (let n = 0; n < 50; n += 1) {
    const secret = `whsec_${randomBytes(24 + (n % 41)).toString('base64')}`;
    const body = JSON.stringify({ n, text: '한국어 ✓' });
    const signature = new Webhook(secret).sign('evt_1', new Date(1_700_000_000_000), body);
    assert.equal(signatureOf(secret, 'evt_1', '1700000000', Buffer.from(body)), signature);
    assert.equal(
      isSignedBy([secret], `v1a,other v1,AAAA ${signature}`, 'evt_1', '1700000000', Buffer.from(body)),
      true,
    );
    assert.equal(isSignedBy([secret], signature, 'evt_2', '1700000000', Buffer.from(body)), false);
    assert.equal(isSignedBy([secret], signature, 'evt_1', '1700000001', Buffer.from(body)), false);
    assert.equal(isSignedBy([secret], signature, 'evt_1', '1700000000', Buffer.from(`${body} `)), false);
  }
});

test('an endpoint’s secret is derived: the same for its version, another for every other', () => {
  const master = randomBytes(32);
  const secret = deriveEndpointSecret(master, 'ep_1', 1);
  assert.equal(secretBytes(secret)?.length, 32);
  assert.equal(deriveEndpointSecret(master, 'ep_1', 1), secret);
  const others = [
    deriveEndpointSecret(master, 'ep_1', 2),
    deriveEndpointSecret(master, 'ep_2', 1),
    deriveEndpointSecret(randomBytes(32), 'ep_1', 1),
  ];
  assert(!others.includes(secret));
});

test('a secret that is none is told apart', () => {
  for (const text of [
    '',
    'whsec_',
    'secret',
    `whsec_${randomBytes(8).toString('base64')}`,
    `whsec_${'*'.repeat(40)}`,
  ]) {
    assert.equal(secretBytes(text), null, text);
  }
});

test('only 2xx is a success, and only 410 says that nobody lives there', () => {
  const now = new Date();
  for (const status of [200, 201, 202, 204, 299]) assert.equal(judge(status, undefined, now).kind, 'delivered');
  for (const status of [301, 302, 303, 307, 308, 400, 401, 404, 409, 429, 500, 503])
    assert.equal(judge(status, undefined, now).kind, 'failed');
  assert.equal(judge(410, undefined, now).kind, 'gone');
});

test('Retry-After counts for 429 and 503 alone, within reason', () => {
  const now = new Date('2026-01-01T00:00:00Z');
  const asked = (status: number, header: string | string[] | undefined) => {
    const attempt = judge(status, header, now);
    return attempt.kind === 'failed' ? attempt.retryAfterMs : -1;
  };
  assert.equal(asked(429, '120'), 120_000);
  assert.equal(asked(503, 'Thu, 01 Jan 2026 00:10:00 GMT'), 600_000);
  assert.equal(asked(500, '120'), 0);
  for (const nonsense of ['-5', 'soon', '', undefined, 'Thu, 01 Jan 2025 00:00:00 GMT'])
    assert.equal(asked(429, nonsense), 0);
  assert.equal(asked(429, '999999999'), 86_400_000);
});

test('the pause after an attempt is the schedule’s with jitter, and never shorter than the receiver’s wish', () => {
  const failed = judge(500, undefined, new Date());
  assert.deepEqual(nextOf(failed, 1, [0, 1_000], 0), { state: 'waiting', delayMs: 1_000 });
  assert.deepEqual(nextOf(failed, 1, [0, 1_000], 0.5), { state: 'waiting', delayMs: 1_050 });
  assert.deepEqual(nextOf(failed, 2, [0, 1_000], 0), { state: 'dead', delayMs: 0 });
  assert.deepEqual(nextOf(judge(429, '7', new Date()), 1, [0, 1_000], 0), { state: 'waiting', delayMs: 7_000 });
  assert.deepEqual(nextOf(judge(410, undefined, new Date()), 1, [0, 1_000], 0), { state: 'dead', delayMs: 0 });
});
