/*
 * Goal: the seal is the whole request, the same for the same intent and never made again. Method: sealing twice, with each
 * ingredient changed in turn; random intents; a rail whose credential, address or account is not the sealed one.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { makeBankRail, PROFILES } from '../../src/rails/bank/index.ts';
import { readRequest } from '../../src/rails/bank/seal.ts';
import type { Scope } from '../../src/rails/keyed-request.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { intentFor, keyOf, SCOPE, sealFor } from './bank-scene.ts';

const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

test('one intent has one seal, byte for byte, whatever is configured around it later (case C1, req T3)', () => {
  for (const profile of PROFILES) {
    const first = sealFor(profile);
    const again = sealFor(profile);
    assert.equal(first.seal.identity, again.seal.identity);
    assert.deepEqual(first.seal.payload, again.seal.payload);
    assert.deepEqual(first.seal.expect, again.seal.expect);
    // Where the profile builds another body tomorrow, what is read from an old seal stays what was sealed.
    const request = readRequest(first);
    const changed = sealFor({ ...profile, request: (facts) => ({ ...profile.request(facts), body: 'v2' }) });
    assert.notEqual(textOf(changed.seal.payload), textOf(first.seal.payload));
    assert.equal(readRequest(first).body, request.body);
    assert.ok(!textOf(first.seal.payload).toLowerCase().includes('authorization'));
  }
});

test('whatever tells one request from another is in the identity: attempt, deployment, account, credential, address', () => {
  for (const profile of PROFILES) {
    const scopes: Partial<Scope>[] = [
      { deployment: 'other' },
      { account: 'acc_2' },
      { credentialId: 'cred_2' },
      { baseUrl: 'https://eu.bank.invalid' },
    ];
    const identities = new Set([
      sealFor(profile).seal.identity,
      sealFor(profile, { seq: 2 }).seal.identity,
      sealFor(profile, { naturalKey: '5:par_13:two' }).seal.identity,
      ...scopes.map((change) => sealFor(profile, {}, { ...SCOPE, ...change }).seal.identity),
    ]);
    assert.equal(identities.size, 7, profile.name);
  }
});

test('the key fits every provider by construction and stands where the provider looks for it (case M2)', () => {
  for (const profile of PROFILES) {
    const sealed = sealFor(profile);
    const key = keyOf(sealed);
    assert.match(key, /^[0-9a-z]{32}$/);
    const request = readRequest(sealed);
    if (profile.key === null) {
      assert.equal(request.headers['idempotency-key'], undefined);
      continue;
    }
    assert.ok(key.length <= profile.key.charactersMax && profile.key.charset.test(key));
    if (profile.key.header === null) assert.ok(request.body.includes(`"sender_batch_id":"${key}"`));
    else assert.equal(request.headers['idempotency-key'], profile.key.quoted ? `"${key}"` : key);
    const tight = { ...profile, key: { ...profile.key, charactersMax: 31 } };
    assert.throws(() => sealFor(tight), /cannot carry the key/);
  }
});

test('the body carries amounts as digits and texts as they are, leading zeros too', () => {
  const body = (name: string): string => {
    const profile = PROFILES.find((one) => one.name === name) ?? assert.fail(name);
    return readRequest(sealFor(profile)).body;
  };
  assert.match(
    body('generic'),
    /"amount":\{"currency":"KRW","value":"12500"\},"creditor":\{"account_number":"1101230456","bank_code":"004"/,
  );
  assert.match(body('unkeyed'), /"accountNumber":"1101230456","amount":"12500","bankCode":"004","currency":"KRW"/);
  assert.match(body('toss'), /^\[\{"amount":\{"currency":"KRW","value":12500\},"destination":"sel_a1"/);
  assert.match(body('stripe'), /^amount=12500&currency=usd&destination=ba_1&metadata%5Bpayonce_key%5D=[0-9a-z]{32}/);
  assert.match(body('increase'), /"account_number":"0987654321","amount":12500,/);
  assert.match(body('modern-treasury'), /"account_number":"0987654321"/);
  assert.match(body('paypal-payouts'), /"amount":\{"currency":"USD","value":"125"\}/);
});

test('any text that may be sealed reads back unchanged, and lines must add up', () => {
  const profile = PROFILES.find((one) => one.name === 'generic') ?? assert.fail();
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.bigInt({ min: 1n, max: 10n ** 30n }), (memo, amount) => {
      fc.pre(memo.isWellFormed());
      const payee = { bankCode: '004', accountNumber: '0012', holderName: memo, memo };
      const request = readRequest(sealFor(profile, { payee, amount }));
      const body = JSON.parse(request.body) as { memo?: string; amount: { value: string } };
      assert.equal(body.memo ?? '', memo);
      assert.equal(body.amount.value, amount.toString());
    }),
    { numRuns: 200 },
  );
  const paypal = PROFILES.find((one) => one.name === 'paypal-payouts') ?? assert.fail();
  const payee = intentFor(paypal).payee ?? assert.fail();
  assert.throws(() => sealFor(paypal, { lines: [{ ref: 'a', payee, amount: 1n }] }), /add up/);
});

test('a rail whose credential, address or account is not the sealed one withholds its sends (rails.md §0.4)', async () => {
  const generic = PROFILES.find((one) => one.name === 'generic') ?? assert.fail();
  const sealed = sealFor(generic);
  const rail = (scope: Scope) =>
    makeBankRail(
      {
        name: 'bank:test',
        profile: generic,
        baseUrl: scope.baseUrl,
        account: scope.account,
        credential: { id: scope.credentialId, secret: () => 'sk' },
        deployment: scope.deployment,
      },
      { ports: systemPorts() },
    );
  const same = rail(SCOPE);
  assert.equal(same.withholds?.(sealed), null);
  await same.close();
  for (const change of [{ credentialId: 'cred_2' }, { baseUrl: 'https://eu.bank.invalid' }, { account: 'acc_2' }]) {
    const other = rail({ ...SCOPE, ...change });
    assert.match(other.withholds?.(sealed) ?? '', /Configure the sealed one again/);
    const answer = await other.send(sealed, null);
    assert.equal(answer.reach, 'withheld');
    assert.equal(other.read(answer, sealed).kind, 'blocked');
    await other.close();
  }
});

test('what the edge would refuse today is not sealed, and closed hours wait (case M2)', async () => {
  const clock = { ...systemPorts().clock, now: () => new Date('2030-01-01T15:00:00Z') };
  const generic = PROFILES.find((one) => one.name === 'generic') ?? assert.fail();
  const toss = PROFILES.find((one) => one.name === 'toss') ?? assert.fail();
  const make = (profile: typeof generic, maintenance: { from: string; until: string; timeZone: string }[] = []) =>
    makeBankRail(
      {
        name: 'bank:test',
        profile,
        baseUrl: 'https://bank.invalid',
        account: 'acc_1',
        credential: { id: 'c', secret: () => 'sk', encryptionKey: 'ab'.repeat(32) },
        deployment: 'test',
        maintenance,
      },
      { ports: { ...systemPorts(), clock } },
    );
  const context = { inFlight: [], openPerSigner: new Map<string, number>() };
  const rail = make(generic);
  const payee = intentFor(generic).payee ?? assert.fail();
  const verdicts = await rail.plan(
    [
      intentFor(generic),
      intentFor(generic, { payee: { ...payee, memo: 'x'.repeat(141) } }),
      intentFor(generic, { payee: { ...payee, accountNumber: '1.1E+11' } }),
      intentFor(generic, { payee: null }),
      intentFor(generic, { amount: 0n }),
    ],
    context,
  );
  assert.deepEqual(
    verdicts.map((one) => (one.verdict === 'wait' ? one.reason : 'ready')),
    ['ready', 'PAYEE_REFUSED', 'PAYEE_REFUSED', 'PAYEE_REFUSED', 'AMOUNT_REFUSED'],
  );
  // None of these is otherwise tomorrow: each becomes a case, with nothing sealed.
  assert.ok(verdicts.every((one) => one.verdict === 'ready' || (one.lasts === 'for_good' && one.alert)));
  await rail.close();
  const korean = make(toss);
  const usd = { id: 'usd', code: 'USD', decimals: 2, chain: 'b', contract: null };
  const [won, dollars, huge] = await korean.plan(
    [intentFor(toss), intentFor(toss, { asset: usd }), intentFor(toss, { amount: 2n ** 53n })],
    context,
  );
  assert.equal(won?.verdict, 'ready');
  assert.equal(dollars?.verdict === 'wait' && dollars.reason, 'ASSET_REFUSED');
  assert.equal(huge?.verdict === 'wait' && huge.reason, 'AMOUNT_REFUSED');
  await korean.close();
  // 15:00 UTC is midnight in Seoul.
  const window = { from: '23:30', until: '00:30', timeZone: 'Asia/Seoul' };
  for (const [maintenance, reason] of [
    [window, 'MAINTENANCE'],
    [{ ...window, until: '00:00' }, false],
    [{ ...window, from: '00:01' }, false],
    [{ ...window, timeZone: 'UTC' }, false],
  ] as const) {
    const closing = make(generic, [maintenance]);
    const [verdict] = await closing.plan([intentFor(generic)], context);
    assert.equal(verdict?.verdict === 'wait' && verdict.reason, reason, JSON.stringify(maintenance));
    if (verdict?.verdict !== 'wait') continue;
    // It is midnight: half an hour to go, and no failure of the transfer's.
    assert.deepEqual([verdict.lasts, verdict.waitMs, verdict.alert], ['a_while', 30 * 60_000, false]);
    await closing.close();
  }
});

test('a configuration that would promise more than the profile, or leave in the clear, does not start', () => {
  const generic = PROFILES.find((one) => one.name === 'generic') ?? assert.fail();
  const toss = PROFILES.find((one) => one.name === 'toss') ?? assert.fail();
  const good = {
    name: 'bank:test',
    profile: generic,
    baseUrl: 'https://bank.invalid',
    account: 'acc_1',
    credential: { id: 'c', secret: () => 'sk' },
    deployment: 'test',
  };
  for (const change of [
    { baseUrl: 'http://bank.invalid' },
    { baseUrl: 'http://127.evil.invalid' },
    { baseUrl: 'https://user:pass@bank.invalid' },
    { narrower: { retentionMs: 48 * 3_600_000 } },
    { narrower: { latenessMs: 60_000 } },
    { profile: { ...generic, latenessMs: 60_000 } },
    { profile: toss },
    { profile: PROFILES.find((one) => one.name === 'unkeyed') ?? assert.fail() },
    { maintenance: [{ from: '24:00', until: '01:00', timeZone: 'UTC' }] },
    { maintenance: [{ from: '23:00', until: '01:00', timeZone: 'Mars/Olympus' }] },
  ]) {
    assert.throws(
      () => makeBankRail({ ...good, ...change }, { ports: systemPorts() }),
      Error,
      Object.keys(change).join(),
    );
  }
});
