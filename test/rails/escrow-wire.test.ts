/*
 * Goal: whatever gets lost between us and a provider, one intent is one trade there, and what is read of it is what stands in the
 * provider's book. Method: the rail against a provider on a real socket with a book of its own; answers lost before and after
 * their effect, lists that lag, cancels that come too late, and a configuration that is not the sealed one.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import type { Observation, SealedEffect } from '../../src/engine/rail.ts';
import { insideTransaction, systemPorts } from '../../src/kernel/ports.ts';
import {
  type EscrowRail,
  type EscrowRailConfig,
  makeEscrowRail,
  readTradeFaults,
} from '../../src/rails/escrow/index.ts';
import { type Manner, type Provider, startProvider, type Trade } from './escrow-provider.ts';
import { intentOf, standard } from './escrow-scene.ts';

const SECRET = 'lp_live_S3cret/+value==';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function configAt(url: string, change: Partial<EscrowRailConfig> = {}): EscrowRailConfig {
  return {
    name: 'escrow:test',
    profile: standard,
    baseUrl: url,
    account: 'lp-account',
    credential: { id: 'cred_1', secret: () => SECRET },
    deployment: 'test',
    ...change,
  };
}

function railAt(url: string, change: Partial<EscrowRailConfig> = {}): EscrowRail {
  const rail = makeEscrowRail(configAt(url, change), {
    ports: systemPorts(),
    http: { timeoutMs: 300, connectMs: 300 },
  });
  closing.push(() => rail.close());
  return rail;
}

interface Scene {
  readonly provider: Provider;
  readonly rail: EscrowRail;
  readonly sealed: SealedEffect;
  readonly send: (sealed?: SealedEffect) => Promise<Observation>;
  /** One observation for each look-up, by its name. */
  readonly look: (sealed?: SealedEffect) => Promise<Record<string, Observation>>;
  readonly trade: () => Trade;
  readonly sealCancel: () => SealedEffect;
}

function sealWith(rail: EscrowRail, intent = intentOf()): SealedEffect {
  return { ...intent, seal: rail.seal(intent, {}, null), plan: {}, variants: [], sealedAt: new Date() };
}

async function makeScene(): Promise<Scene> {
  const provider = await startProvider();
  closing.push(() => provider.stop());
  const rail = railAt(provider.url);
  const sealed = sealWith(rail);
  return {
    provider,
    rail,
    sealed,
    send: async (one = sealed) => rail.read(await rail.send(one, null), one),
    async look(one = sealed) {
      const [answers] = await rail.look([one]);
      return Object.fromEntries(
        (answers ?? []).map((answer) => [answer.source.split(' ')[1] ?? '', rail.read(answer, one)]),
      );
    },
    trade: () => [...provider.trades.values()][0] ?? assert.fail('no trade in the book'),
    sealCancel: () => sealWith(rail, intentOf({ act: 'cancel', tradeId: 'tr_1' }, { subjectType: 'p2p_cancel' })),
  };
}

test('a trade stands from its creation to its release, and then it is ours (req M9)', async () => {
  const { provider, sealed, send, look, trade } = await makeScene();
  const opened = await send();
  assert.deepEqual([opened.kind, opened.objectId], ['accepted', 'tr_1']);
  assert.equal(provider.asked[0]?.headers.authorization, `Bearer ${SECRET}`);
  const known = { ...sealed, acceptedObject: 'tr_1' };
  for (const state of ['escrowed', 'buyer_marked_paid', 'on_hold', 'releasing']) {
    Object.assign(trade(), { state, paid_marked_at: '2030-01-02T03:30:00Z' });
    const seen = await look(known);
    assert.deepEqual(
      Object.entries(seen).map(([name, one]) => `${name} ${one.kind}`),
      ['by_reference accepted', 'by_object accepted'],
    );
  }
  Object.assign(trade(), { state: 'released', released_amount: '100.5' });
  const { by_reference: listed, by_object: shown } = await look(known);
  assert.deepEqual([listed?.kind, shown?.kind], ['final_success', 'final_success']);
  Object.assign(trade(), { state: 'disputed' });
  assert.match(
    (await look(known))['by_object']?.asksPeople ?? '',
    /it is disputed/,
    'an appeal after the release is seen',
  );
});

test('whatever is lost on the way, the same bytes under the same key are one trade, and nothing of it is a no (req M9, req T2)', async () => {
  const manners: readonly (readonly [Manner, string, number])[] = [
    ['lost', 'unreadable', 1],
    ['dropped', 'unreadable', 0],
    ['silent', 'unreadable', 0],
    [{ status: 500, body: '{"code":"no_liquidity"}', done: true }, 'unreadable', 1],
    [{ status: 504, body: '<html>' }, 'blocked', 0],
    [{ status: 201, body: '{"trade":{"id":"tr_1"' }, 'unreadable', 0],
    [{ status: 409, body: '{"code":"in_progress"}' }, 'in_progress', 0],
    [{ status: 302, body: '' }, 'unreadable', 0],
    [{ status: 201, body: 'x'.repeat(200_000), done: true }, 'unreadable', 1],
  ];
  for (const [manner, kind, made] of manners) {
    const { provider, send, look } = await makeScene();
    provider.next = manner;
    assert.equal((await send()).kind, kind, JSON.stringify(manner).slice(0, 80));
    assert.equal(provider.asked.length, 1, 'nothing is tried again');
    provider.lags = true;
    assert.equal((await look())['by_reference']?.kind, 'not_found', 'a list that lags is no absence');
    provider.lags = false;
    assert.equal((await look())['by_reference']?.kind, made === 1 ? 'accepted' : 'not_found');
    const again = await send();
    assert.deepEqual([again.kind, again.objectId, provider.trades.size], ['accepted', 'tr_1', 1]);
    const [first, second] = provider.asked.filter((one) => one.method === 'POST');
    assert.equal(first?.body, second?.body);
    assert.equal(first?.headers['idempotency-key'], second?.headers['idempotency-key']);
  }
  const nobody = railAt('http://127.0.0.1:9');
  const sealed = sealWith(nobody);
  assert.equal(nobody.read(await nobody.send(sealed, null), sealed).kind, 'never_left');
});

test('a refusal is stored under the key, and is the same later, whatever has changed by then', async () => {
  const { provider, send } = await makeScene();
  provider.refuses = 'no_liquidity';
  const first = await send();
  assert.deepEqual([first.kind, first.refusal?.storedUnderKey, first.refusal?.replayed], ['refused', true, false]);
  provider.refuses = null;
  const again = await send();
  assert.deepEqual([again.kind, again.refusal?.replayed, provider.trades.size], ['refused', true, 0]);
});

test('a key that stands for another body points at its trade, which is looked up and compared (req T4)', async () => {
  const { provider, rail, send, look } = await makeScene();
  await send(sealWith(rail, intentOf({ price: '1400', fiatAmount: '140700' })));
  const taken = await send();
  assert.deepEqual([taken.kind, taken.objectHint], ['key_taken', 'tr_1']);
  const seen = await look({ ...sealWith(rail), objectHints: ['tr_1'] });
  assert.deepEqual([seen['by_object']?.kind, seen['by_object']?.otherContent], ['key_taken', true]);
  assert.equal(provider.trades.size, 1);
});

test('to cancel is an act of its own: its success is the trade’s own state, even where its answer was lost', async () => {
  const { provider, send, look, trade, sealCancel } = await makeScene();
  await send();
  const cancel = sealCancel();
  provider.next = 'lost';
  assert.equal((await send(cancel)).kind, 'unreadable');
  assert.equal(trade()['state'], 'cancelled');
  const seen = await look(cancel);
  assert.deepEqual(Object.keys(seen), ['by_object'], 'asked of that trade alone');
  assert.deepEqual([seen['by_object']?.kind, seen['by_object']?.objectId], ['final_success', 'tr_1']);
  assert.equal((await send(cancel)).kind, 'final_success', 'the same bytes again');
  const opened = (await look())['by_reference'];
  assert.deepEqual(
    [opened?.kind, opened?.keyStaysBound],
    ['object_failed', true],
    'never paid: the trade came to nothing',
  );
  const [open, ...cancels] = provider.asked
    .filter((one) => one.method === 'POST')
    .map((one) => one.headers['idempotency-key']);
  assert.equal(new Set(cancels).size, 1);
  assert.notEqual(open, cancels[0]);
});

test('a cancel that comes too late fails with the trade’s release, and one that comes too early waits', async () => {
  const { send, look, trade, sealCancel } = await makeScene();
  await send();
  const cancel = sealCancel();
  Object.assign(trade(), { state: 'buyer_marked_paid', paid_marked_at: '2030-01-02T03:30:00Z' });
  assert.equal((await send(cancel)).kind, 'in_progress');
  assert.equal((await look(cancel))['by_object']?.kind, 'in_progress');
  Object.assign(trade(), { state: 'released', released_amount: '100.5' });
  assert.equal((await send(cancel)).kind, 'in_progress', 'a refusal to cancel decides nothing');
  const late = (await look(cancel))['by_object'];
  assert.deepEqual([late?.kind, late?.keyStaysBound], ['object_failed', true]);
  assert.equal((await look())['by_reference']?.kind, 'final_success');
});

test('a sealed trade is withheld from another place, account or credential, and only another credential still looks', async () => {
  const { provider, sealed } = await makeScene();
  const other = await startProvider();
  closing.push(() => other.stop());
  const rows: readonly (readonly [EscrowRail, RegExp, string])[] = [
    [railAt(other.url), /sealed for base URL/, 'blocked'],
    [railAt(provider.url, { account: 'other' }), /sealed for account lp-account, configured is other/, 'blocked'],
    [
      railAt(provider.url, { credential: { id: 'cred_2', secret: () => SECRET } }),
      /sealed for credential cred_1/,
      'unreadable',
    ],
  ];
  for (const [rail, why, looked] of rows) {
    assert.match(rail.withholds?.(sealed) ?? '', why);
    const answer = await rail.send(sealed, null);
    assert.deepEqual([answer.reach, rail.read(answer, sealed).kind], ['withheld', 'blocked']);
    const [answers] = await rail.look([sealed]);
    assert.deepEqual(
      answers?.map((one) => rail.read(one, sealed).kind),
      [looked],
      why.source,
    );
  }
  assert.equal(railAt(provider.url).withholds?.(sealed), null);
  const locked = railAt(provider.url, {
    credential: { id: 'cred_1', secret: () => Promise.reject(new Error('vault')) },
  });
  assert.equal((await locked.send(sealed, null)).reach, 'withheld');
  assert.deepEqual([provider.trades.size, other.asked.length], [0, 0]);
});

test('no byte leaves while a transaction is open (req W10)', async () => {
  const { provider, rail, sealed } = await makeScene();
  await assert.rejects(
    insideTransaction('open', async () => void (await rail.send(sealed, null))),
    /no wire inside a transaction/,
  );
  assert.equal(provider.asked.length, 0);
});

test('a provider that echoes our headers puts the secret into nothing that is kept', async () => {
  const { provider, rail, sealed } = await makeScene();
  for (const body of [
    `{"code":"debug","message":"Bearer ${SECRET}"}`,
    `<pre>${encodeURIComponent(SECRET)}</pre>`,
    JSON.stringify({ SECRET }),
  ]) {
    for (const ask of [
      () => rail.send(sealed, null),
      async () => (await rail.look([sealed]))[0]?.[0] ?? assert.fail(),
    ]) {
      provider.next = { status: 400, body };
      const answer = await ask();
      for (const text of [answer.body, rail.read(answer, sealed).detail]) assert.ok(!text.includes('S3cret'), text);
      assert.match(answer.body, /\[redacted\]/);
    }
  }
});

test('what the rail promises is what its profile says, or less', () => {
  const { capabilities } = railAt('https://lp.invalid');
  const day = 24 * 3_600_000;
  assert.deepEqual(
    [capabilities.keyed, capabilities.keyRetentionMs, capabilities.latenessMs, capabilities.decideWithinMs],
    [true, 2 * day, 1_800_000, day],
  );
  assert.equal(capabilities.returnsWithinMs, day, 'appeals of a released trade are looked for');
  assert.deepEqual(
    [capabilities.lookUp, capabilities.sequenced, capabilities.refusedAtOnceCounts],
    [true, false, false],
  );
  assert.equal(railAt('https://lp.invalid', { direct: true }).capabilities.refusedAtOnceCounts, true);
  const narrow = railAt('https://lp.invalid', { narrower: { retentionMs: day, latenessMs: 3_600_000 } }).capabilities;
  assert.deepEqual([narrow.keyRetentionMs, narrow.latenessMs], [day, 3_600_000]);
});

test('a configuration that cannot work is told field by field, without its secrets, and stops the start', () => {
  const faults = (change: Partial<EscrowRailConfig>): string[] =>
    readTradeFaults(configAt('https://lp.invalid', change)).map(({ field, why }) => `${field}: ${why}`);
  assert.deepEqual(faults({}), []);
  assert.deepEqual(faults({ baseUrl: 'nowhere' }), ['baseUrl: it is no URL']);
  assert.deepEqual(faults({ baseUrl: 'http://lp.invalid' }), ['baseUrl: the base URL must be https']);
  assert.match(
    faults({ baseUrl: `https://u:${encodeURIComponent(SECRET)}@lp.invalid?key=1` }).join(),
    /neither query nor credentials$/,
  );
  assert.deepEqual(faults({ account: '' }), ['account: name the account that pays']);
  assert.deepEqual(faults({ credential: { id: '', secret: () => SECRET } }), ['credential.id: name the credential']);
  assert.match(faults({ narrower: { retentionMs: 30 * 86_400_000 } }).join(), /a longer retention/);
  assert.match(faults({ narrower: { latenessMs: 60_000 } }).join(), /a shorter lateness/);
  assert.match(faults({ profile: { ...standard, latenessMs: 60_000 } }).join(), /under 30 minutes/);
  assert.throws(() => railAt('http://lp.invalid'), /escrow:test: baseUrl: the base URL must be https/);
});
