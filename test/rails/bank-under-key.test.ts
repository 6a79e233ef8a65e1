/*
 * Goal: where several objects stand under one key of ours, the living one counts, a failed one beside it ends nothing, and
 * two that live are told as a double, whichever look-up shows which. Method: each look-up's answer as a look stores it, with
 * what the look's other answers show beside it; then a provider on a real socket that shows one here and the other there.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { systemPorts } from '../../src/kernel/ports.ts';
import type { Answer, Json, Observation, SealedEffect } from '../../src/engine/rail.ts';
import { makeBankRail, type Profile, PROFILES } from '../../src/rails/bank/index.ts';
import { readAnswerBody, type Shown } from '../../src/rails/answer-body.ts';
import { BANK_KIND } from '../../src/rails/bank/kind.ts';
import { readBankAnswer } from '../../src/rails/bank/read.ts';
import { answerTo, keyOf, objectOf, sealFor } from './bank-scene.ts';

const ID_NAMES: Readonly<Record<string, string>> = { unkeyed: 'transferId' };

function profileOf(name: string): Profile {
  return PROFILES.find((one) => one.name === name) ?? assert.fail(name);
}

/** As the provider wraps a list. */
function listOf(profile: Profile, items: readonly Json[]): Json {
  switch (profile.name) {
    case 'unkeyed':
      return { transfers: items };
    case 'modern-treasury':
      return items;
    case 'toss':
      return { entityBody: { hasNext: false, items } };
    default:
      return { object: 'list', data: items, has_more: false };
  }
}

for (const profile of PROFILES.filter((one) => one.linesMax === 1)) {
  describe(profile.name, () => {
    const sealed = sealFor(profile);
    const state = (wanted: string): string =>
      Object.entries(profile.states).find(([, meaning]) => meaning === wanted)?.[0] ?? assert.fail(wanted);
    const object = (id: string, wanted: string): Json =>
      objectOf(profile, sealed, state(wanted), { [ID_NAMES[profile.name] ?? 'id']: id });
    const shown = (id: string, wanted: string): Shown => ({ id, state: state(wanted) });
    const list = profile.lookUps.find((one) => one.name !== 'by_object')?.name ?? assert.fail();
    const listed = (items: readonly Json[], beside: readonly Shown[] = []): Observation =>
      readBankAnswer(profile, answerTo({ status: 200, body: listOf(profile, items) }, { look: list, beside }), sealed);
    const byId = (id: string, wanted: string, beside: readonly Shown[]): Observation => {
      const body = profile.name === 'toss' ? { entityBody: object(id, wanted) } : object(id, wanted);
      return readBankAnswer(
        profile,
        answerTo({ status: 200, body }, { look: 'by_object', objectId: id, beside }),
        sealed,
      );
    };

    test('one that lives beside failed ones counts, and is the one that is named', () => {
      for (const [wanted, kind] of [
        ['paid', 'final_success'],
        ['accepted', 'accepted'],
      ] as const) {
        for (const items of [
          [object('o1', 'failed'), object('o2', wanted)],
          [object('o2', wanted), object('o1', 'failed')],
        ]) {
          const read = listed(items);
          assert.deepEqual([read.kind, read.objectId, read.doubled], [kind, 'o2', undefined]);
          assert.match(read.detail, /o1/);
        }
      }
    });

    test('one that failed ends nothing while another look-up shows one that lives', () => {
      for (const read of [
        byId('o1', 'failed', [shown('o2', 'accepted')]),
        byId('o1', 'failed', [{ id: 'o2', state: 'brand_new' }]),
        byId('o1', 'failed', [{ id: 'o2', state: null }]),
        listed([object('o1', 'failed')], [shown('o2', 'paid')]),
      ]) {
        assert.deepEqual([read.kind, read.objectId, read.returned], ['unreadable', null, undefined]);
        assert.match(read.detail, /o2/);
      }
    });

    test('two that live are a double, in one answer or in two, and the paid one is named', () => {
      for (const read of [
        listed([object('o1', 'accepted'), object('o2', 'paid')]),
        listed([object('o1', 'accepted'), object('o3', 'failed')], [shown('o2', 'paid')]),
        listed([object('o2', 'paid')], [shown('o1', 'paid')]),
      ]) {
        assert.deepEqual([read.kind, read.doubled, read.objectId], ['key_taken', true, 'o2']);
      }
      // The one that was asked for by its id tells its own life all the same: a yes needs no other.
      assert.equal(byId('o1', 'paid', [shown('o2', 'paid')]).kind, 'final_success');
    });

    test('two that failed free nothing for sure: the key did not stay with the first', () => {
      for (const read of [
        listed([object('o1', 'failed'), object('o2', 'failed')]),
        byId('o1', 'failed', [shown('o2', 'failed')]),
        listed([object('o1', 'failed')], [shown('o2', 'failed')]),
      ]) {
        assert.deepEqual([read.kind, read.keyStaysBound, read.doubled], ['object_failed', false, undefined]);
        // Which of them had been paid before is a person's to say.
        if (profile.paidMayFail !== null) assert.deepEqual(read.returned, []);
      }
    });

    test('an id that is listed twice is one object, and with two states says nothing', () => {
      const twice = listed([object('o1', 'paid'), object('o1', 'paid')]);
      assert.deepEqual([twice.kind, twice.objectId, twice.doubled], ['final_success', 'o1', undefined]);
      assert.equal(listed([object('o1', 'failed'), object('o1', 'paid')]).kind, 'unreadable');
      assert.equal(listed([object('o1', 'failed'), object('o1', 'failed')]).kind, 'object_failed');
    });
  });
}

test('answers that were stored before looks noted what stands beside read as they did', () => {
  const generic = profileOf('generic');
  const sealed = sealFor(generic);
  const answer = answerTo(
    { status: 200, body: objectOf(generic, sealed, 'failed') },
    { look: 'by_object', objectId: 'tr_9' },
  );
  const old = { ...answer, body: answer.body.replace(',"beside":[]', '') };
  assert.notEqual(old.body, answer.body);
  assert.equal(readBankAnswer(generic, old, sealed).kind, 'object_failed');
});

async function looked(
  t: TestContext,
  profile: Profile,
  answer: (path: string) => Json | null,
  more: Partial<SealedEffect>,
): Promise<readonly (Observation & { readonly body: string })[]> {
  const server = createServer((request, response) => {
    const body = answer(request.url ?? '');
    response.writeHead(body === null ? 503 : 200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const scope = { deployment: 'test', account: 'acc_1', credentialId: 'cred_1', baseUrl: url };
  const rail = makeBankRail(
    {
      name: 'bank:test',
      profile,
      baseUrl: url,
      account: 'acc_1',
      credential: { id: 'cred_1', secret: () => 'sk_test' },
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
  const sealed = { ...sealFor(profile, {}, scope), ...more };
  const [answers = []] = await rail.look([sealed]);
  return answers.map((one: Answer) => ({ ...rail.read(one, sealed), source: one.source, body: one.body }));
}

test('a look notes in each answer what the others show under our key: the failed one of two is never the object', async (t) => {
  const stripe = profileOf('stripe');
  const item = (id: string, state: string): Json => objectOf(stripe, sealFor(stripe), state, { id });
  const answers = await looked(
    t,
    stripe,
    (path) =>
      path.includes('/po_1')
        ? item('po_1', 'failed')
        : { object: 'list', data: [item('po_2', 'pending'), item('po_1', 'failed')], has_more: false },
    { acceptedObject: 'po_1' },
  );
  assert.deepEqual(
    answers.map(({ source, kind, objectId }) => [source, kind, objectId]),
    [
      ['bank:test by_reference', 'accepted', 'po_2'],
      ['bank:test by_object', 'unreadable', null],
    ],
  );
  assert.deepEqual(readAnswerBody(BANK_KIND.answerForm, answers[1]?.body ?? '')?.beside, [
    { id: 'po_2', state: 'pending' },
  ]);
});

test('two paid objects in two look-ups of one look are a double', async (t) => {
  const generic = profileOf('generic');
  const item = (id: string): Json => objectOf(generic, sealFor(generic), 'paid', { id });
  const answers = await looked(
    t,
    generic,
    (path) =>
      path.endsWith('/tr_1') ? item('tr_1') : path.includes('idempotency_key=') ? { data: [item('tr_2')] } : null,
    { acceptedObject: 'tr_1' },
  );
  assert.deepEqual(
    answers.map(({ kind, doubled }) => [kind, doubled]),
    [
      ['key_taken', true],
      ['blocked', undefined],
      ['final_success', undefined],
    ],
  );
});

test('what a refusal pointed at is asked for beside the rest while nothing is accepted, and counts only with our key', async (t) => {
  const paypal = profileOf('paypal-payouts');
  const sealed = sealFor(paypal);
  const key = keyOf(sealed);
  const asked: string[] = [];
  const answer = (path: string): Json => {
    const id = /payouts\/([^?]+)/.exec(path)?.[1] ?? '';
    asked.push(id);
    const batch = {
      payout_batch_id: id,
      batch_status: 'PENDING',
      sender_batch_header: { sender_batch_id: id === 'B_MINE' ? key : 'x' },
    };
    const item = {
      payout_item_id: 'i1',
      transaction_status: 'PENDING',
      payout_item: { sender_item_id: key, receiver: 'a@example.invalid', amount: { currency: 'USD', value: '125.00' } },
    };
    return { batch_header: batch, items: [item] };
  };
  const hinted = await looked(t, paypal, answer, { objectHints: ['B_OTHER', 'B_MINE', 'B_OTHER', '..', 'a', 'b'] });
  assert.deepEqual(asked, ['B_OTHER', 'B_MINE', 'a']);
  assert.deepEqual(
    hinted.slice(0, 2).map(({ source, kind, objectId }) => [source, kind, objectId]),
    [
      ['bank:test by_object B_OTHER', 'unreadable', null],
      ['bank:test by_object B_MINE', 'accepted', 'B_MINE'],
    ],
  );
  const known = await looked(t, paypal, answer, { acceptedObject: 'B_MINE', objectHints: ['B_OTHER'] });
  assert.deepEqual(
    known.map(({ source, objectId }) => [source, objectId]),
    [['bank:test by_object', 'B_MINE']],
  );
});
