/*
 * Goal: nothing that a provider writes stops a look, blocks the process, or is told as it stands. Method: ids with half
 * characters, amounts of 125 kB, NUL and endless texts in every place where a profile reads one; a real socket for looks.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import type { Json } from '../../src/engine/rail.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { makeBankRail, type Profile, PROFILES } from '../../src/rails/bank/index.ts';
import { readBankAnswer } from '../../src/rails/bank/read.ts';
import { answerTo, keyOf, objectOf, readSend, sealFor, wrap } from './bank-scene.ts';

function profileOf(name: string): Profile {
  return PROFILES.find((one) => one.name === name) ?? assert.fail(name);
}

const single = PROFILES.filter((profile) => profile.linesMax === 1);
// What no database text holds, what ends a line, half a character, and what turns the reading direction.
const UNSHOWN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;
const ODD = `a\u0000b\nc\u001b[31m\ud800 \u202ed${'x'.repeat(5_000)}`;
/** Enough for the slowest machine; with backtracking it took 23 s. */
const AT_ONCE_MS = 1_000;

describe('an amount of 125 kB is no amount, and is seen at once', () => {
  for (const profile of single) {
    test(profile.name, () => {
      const sealed = sealFor(profile);
      const paid = Object.entries(profile.states).find(([, meaning]) => meaning === 'paid')?.[0] ?? '';
      for (const value of [`1.${'0'.repeat(125_000)}1`, '0'.repeat(125_000), `1${'0'.repeat(125_000)}`]) {
        const nested = profile.name === 'generic' || profile.name === 'toss';
        const body = wrap(
          profile,
          objectOf(profile, sealed, paid, { amount: nested ? { currency: 'KRW', value } : value }),
        );
        const started = performance.now();
        const read = readSend(profile, sealed, { status: 200, body });
        assert.equal(read.kind, 'key_taken');
        assert.ok(performance.now() - started < AT_ONCE_MS);
        assert.ok(read.detail.length <= 700);
      }
    });
  }
});

test('idle zeros of an amount count for nothing, up to a length', () => {
  const generic = profileOf('generic');
  const sealed = sealFor(generic);
  const kind = (value: string): string =>
    readSend(generic, sealed, {
      status: 200,
      body: objectOf(generic, sealed, 'paid', { amount: { currency: 'KRW', value } }),
    }).kind;
  assert.equal(kind('12500.'), 'final_success');
  assert.equal(kind('12500.00'), 'final_success');
  assert.equal(kind(`12500.${'0'.repeat(70)}`), 'final_success');
  assert.equal(kind('00'), 'key_taken');
});

describe('no word of a provider is told with control characters, or at length', () => {
  for (const profile of PROFILES) {
    test(profile.name, () => {
      const sealed = sealFor(profile);
      const failed = Object.entries(profile.states).find(([, meaning]) => meaning === 'failed')?.[0] ?? '';
      const bodies: Json[] = [
        wrap(profile, objectOf(profile, sealed, ODD)),
        wrap(
          profile,
          objectOf(profile, sealed, failed, {
            failure: { code: ODD },
            failureReason: ODD,
            failure_message: ODD,
            error: { message: ODD, code: ODD },
            current_return: { reason: ODD, code: ODD, id: ODD },
            return: { return_reason_code: ODD, transaction_id: ODD },
            returns: [{ id: ODD, returnId: ODD, reason: ODD, amount: null }],
          }),
        ),
        { code: ODD, message: ODD, name: ODD, type: ODD, title: ODD, detail: ODD },
        {
          code: 'account_closed',
          type: 'invalid_parameters_error',
          name: 'VALIDATION_ERROR',
          message: ODD,
          detail: ODD,
        },
        { error: { code: 'parameter_missing', message: ODD }, errors: { code: 'parameter_missing', message: ODD } },
        ODD,
      ];
      for (const body of bodies) {
        for (const status of [200, 400, 404, 422, 503]) {
          const read = readSend(profile, sealed, { status, body });
          const told = [read.detail, read.objectId, ...(read.returned ?? []).flatMap((one) => [one.id, one.reason])];
          for (const text of told) {
            if (text === null) continue;
            assert.doesNotMatch(text, UNSHOWN, `${status} ${JSON.stringify(body).slice(0, 60)}`);
            assert.ok(text.length <= 700, `${text.length} characters`);
          }
        }
      }
      const cut = { ...answerTo({ status: 200, body: '' }), reach: 'partial_answer', body: ODD } as const;
      assert.doesNotMatch(readBankAnswer(profile, cut, sealed).detail, UNSHOWN);
    });
  }
});

test('an id that cannot be stored whole and asked by is no id', () => {
  const generic = profileOf('generic');
  const sealed = sealFor(generic);
  const seen = (id: string) =>
    readSend(generic, sealed, { status: 200, body: objectOf(generic, sealed, 'paid', { id }) });
  for (const id of ['tr_\u0000', 'tr_\ud800', '', '..', '.', 'x'.repeat(5_000), 'tr\n1'])
    assert.deepEqual([seen(id).kind, seen(id).objectId], ['final_success', null], JSON.stringify(id.slice(0, 20)));
  assert.equal(seen('tr_김').objectId, 'tr_김');
  const line = (id: string): Json => ({
    payout_item_id: id,
    transaction_status: 'SUCCESS',
    payout_item: {
      sender_item_id: keyOf(paypalSealed),
      receiver: 'a@example.invalid',
      amount: { currency: 'USD', value: '125.00' },
    },
  });
  const body = objectOf(paypal, paypalSealed, 'SUCCESS', { items: [line('i\u0000')] });
  const batch = readBankAnswer(
    paypal,
    answerTo({ status: 200, body }, { look: 'by_object', objectId: 'BATCH1' }),
    paypalSealed,
  );
  assert.deepEqual([batch.kind, batch.lines?.[0]?.objectId], ['final_success', null]);
});

const paypal = profileOf('paypal-payouts');
const paypalSealed = sealFor(paypal);

test('half a character in somebody’s id stops no look, and an accepted object that is no id is not asked for', async (t) => {
  const toss: Profile = { ...profileOf('toss'), encryption: 'none' };
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    const items = Array.from({ length: 100 }, (_, index) => `{"refPayoutId":"x${index}","id":"\\ud800"}`).join(',');
    response.end(`{"entityBody":{"hasNext":true,"items":[${items}]}}`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const rail = makeBankRail(
    {
      name: 'bank:toss',
      profile: toss,
      baseUrl,
      account: 'acc_1',
      credential: { id: 'cred_1', secret: () => 'sk_test' },
      deployment: 'test',
    },
    { ports: systemPorts() },
  );
  t.after(async () => {
    await rail.close();
    server.closeAllConnections();
    server.close();
  });
  const scope = { deployment: 'test', account: 'acc_1', credentialId: 'cred_1', baseUrl };
  const one = sealFor(toss, {}, scope);
  const odd = ['..', '.', '\ud800', 'a\nb', 'x'.repeat(10_000)].map((acceptedObject) => ({ ...one, acceptedObject }));
  const looked = await rail.look([one, ...odd]);
  assert.deepEqual(
    looked.map((answers) => answers.map((answer) => rail.read(answer, one).kind)),
    [one, ...odd].map(() => ['unreadable']),
  );
  assert.ok(
    asked.every((path) => path.startsWith('/v2/payouts?')),
    asked.join(' '),
  );
  for (const profile of PROFILES)
    for (const lookUp of profile.lookUps) {
      const facts = { key: 'k', account: 'a', currency: 'USD', objectId: '\ud800', sealedAt: new Date(0) };
      assert.ok(lookUp.path(facts)?.isWellFormed(), profile.name);
    }
});

test('a return whose id cannot be kept is a person’s, and is not booked under another', () => {
  const generic = profileOf('generic');
  const sealed = sealFor(generic);
  const returns = [{ id: 'ret\u0000', amount: { currency: 'KRW', value: '12000' }, reason: null }];
  const read = readSend(generic, sealed, { status: 200, body: objectOf(generic, sealed, 'paid', { returns }) });
  assert.deepEqual([read.kind, read.returned], ['came_back', []]);
});
