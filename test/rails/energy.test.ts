/*
 * Goal: an order of energy leaves as it was sealed and is told apart by our own id, and each answer of a market is read as
 * what it proves and no more (req R16). Method: the rail against a simulated market over HTTP, whose own books say what was
 * paid; and stored answers, read again.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { type EnergyFault, type EnergyMarket, startEnergyMarket } from '../../sim/tron/energy-market.ts';
import { startTron, type Tron } from '../../sim/tron/tron.ts';
import type { Answer, EffectIntent, Observation, PlanContext, SealedEffect } from '../../src/engine/rail.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { energyMarket, type EnergyRail, type EnergyRailConfig, makeEnergyRail } from '../../src/rails/energy/index.ts';

const ACCOUNT = 'prepaid-1';
const RECEIVER = 'TQn9Y2khEsLJW1ChVWFMSMeRDow5KcbLSE';
const NOTHING_OPEN: PlanContext = { inFlight: [], openPerSigner: new Map() };
/** What the simulated market takes for the energy of the intent, for an hour. */
const PRICE = 390_000n;

interface Scene {
  readonly tron: Tron;
  readonly market: EnergyMarket;
  readonly rail: EnergyRail;
  readonly sealed: SealedEffect;
  /** Blocks, and the time that they take. */
  pass(): void;
  send(): Promise<Observation>;
  look(): Promise<Observation>;
}

const running: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of running.splice(0)) await one.stop();
});

function intentOf(change: Partial<EffectIntent> = {}): EffectIntent {
  return {
    effectId: 7n,
    subjectType: 'energy',
    subjectId: 'nrg_1',
    seq: 1,
    partnerId: 'par_own',
    naturalKey: '7:par_own3:one',
    rail: 'energy:test',
    asset: { id: 'coin', code: 'TRX', decimals: 6, chain: 'tron:test', contract: null },
    amount: 650_000n,
    destination: `${RECEIVER}:65000:3600`,
    wallet: ACCOUNT,
    signer: ACCOUNT,
    call: null,
    payee: null,
    ...change,
  };
}

function railAt(url: string, secret: string, change: Partial<EnergyRailConfig> = {}): EnergyRail {
  const rail = makeEnergyRail(
    {
      name: 'energy:test',
      profile: energyMarket,
      baseUrl: url,
      account: ACCOUNT,
      secret: () => secret,
      deployment: 'test',
      ...change,
    },
    { ports: systemPorts(), http: { timeoutMs: 500 } },
  );
  running.push({ stop: () => rail.close() });
  return rail;
}

function sealedBy(rail: EnergyRail, intent: EffectIntent, sealedAt = new Date()): SealedEffect {
  return { ...intent, seal: rail.seal(intent, {}, null), plan: {}, variants: [], sealedAt };
}

async function makeScene(fault?: EnergyFault, sealedAt?: Date): Promise<Scene> {
  const tron = await startTron();
  const faults = fault === undefined ? [] : [{ on: 'create' as const, calls: [1], fault }];
  const market = await startEnergyMarket({ tron, faults });
  running.push(market, tron);
  tron.fund(RECEIVER, 1n);
  const rail = railAt(market.url, market.apiKey);
  const sealed = sealedBy(rail, intentOf(), sealedAt);
  return {
    tron,
    market,
    rail,
    sealed,
    pass: () => void tron.mine(3),
    send: async () => rail.read(await rail.send(sealed, null), sealed),
    async look() {
      const [answers] = await rail.look([sealed]);
      return rail.read(answers?.[0] ?? assert.fail(), sealed);
    },
  };
}

test('an order is taken, then lent: asked again it is the same order, paid once, and its price is what the market took (req R16)', async () => {
  const scene = await makeScene();
  const taken = await scene.send();
  const [order] = scene.market.books.orders();
  assert.deepEqual([taken.kind, taken.objectId], ['accepted', order?.orderId]);
  scene.pass();
  for (const seen of [await scene.look(), await scene.send()]) {
    assert.deepEqual([seen.kind, seen.objectId], ['final_success', order?.orderId]);
    assert.deepEqual(seen.cost, { assetId: 'coin', payer: ACCOUNT, units: PRICE });
  }
  assert.equal(scene.market.books.orders().length, 1);
  assert.equal(scene.market.books.paidSun(), PRICE);
  scene.tron.advance(3_700_000);
  assert.equal((await scene.look()).kind, 'final_success', 'its time is over: it was lent');
});

test('the seal is one text for one intent, and another try, another payment or another account has another id', () => {
  const rail = railAt('http://127.0.0.1:9', 'secret');
  const seal = (change: Partial<EffectIntent>) => rail.seal(intentOf(change), {}, null);
  assert.deepEqual(seal({}), seal({ effectId: 8n, subjectId: 'nrg_2' }), 'a restored intent meets the same order');
  const others = [seal({}), seal({ seq: 2 }), seal({ naturalKey: '7:par_own3:two' })];
  assert.equal(new Set(others.map((one) => one.identity)).size, 3);
  const elsewhere = railAt('http://127.0.0.1:9', 'secret', { account: 'other' }).seal(
    intentOf({ wallet: 'other' }),
    {},
    null,
  );
  assert.notEqual(elsewhere.identity, seal({}).identity);
  const text = new TextDecoder().decode(seal({}).payload);
  assert.ok(!text.includes('secret'));
  assert.match(text, /"body":"\{\\"client_order_id\\":\\"[0-9a-z]{32}\\",\\"duration_s\\":3600,\\"energy\\":65000/);
});

test('what got lost on the way is unknown until the look by our id tells, and nothing of it is a no', async () => {
  for (const [fault, seen, paid] of [
    [{ kind: 'lose_answer' }, 'accepted', PRICE],
    [{ kind: 'lose_request' }, 'not_found', 0n],
    [{ kind: 'slow', ms: 900 }, 'accepted', PRICE],
    [{ kind: 'http', status: 502, effect: true }, 'accepted', PRICE],
    [{ kind: 'http', status: 500 }, 'not_found', 0n],
  ] as const) {
    const scene = await makeScene(fault);
    assert.ok(['unreadable', 'blocked'].includes((await scene.send()).kind), fault.kind);
    assert.equal((await scene.look()).kind, seen, fault.kind);
    assert.equal(scene.market.books.paidSun(), paid);
    assert.equal((await scene.send()).kind, 'accepted', 'the same bytes again');
    assert.equal(scene.market.books.paidSun(), PRICE, `${fault.kind}: paid once`);
  }
  const nobody = railAt('http://127.0.0.1:9', 'secret');
  const sealed = sealedBy(nobody, intentOf());
  assert.equal(nobody.read(await nobody.send(sealed, null), sealed).kind, 'never_left');
});

test('refused for now it is asked again; refused for long, or for its own sake, it is believed and never more: a market may lie (req R16)', async () => {
  const longAgo = new Date(Date.now() - 11 * 60_000);
  const refusal = async (reason: 'no_supply' | 'insufficient_balance' | 'receiver_invalid', sealedAt?: Date) => {
    const scene = await makeScene({ kind: 'refuse', reason }, sealedAt);
    const seen = await scene.send();
    assert.equal(scene.market.books.paidSun(), 0n);
    assert.equal(seen.kind, 'refused');
    return seen.refusal;
  };
  const now = { stage: 'after_key_check', storedUnderKey: false, replayed: false, final: false, atOnce: false };
  assert.deepEqual(await refusal('no_supply'), now);
  assert.deepEqual(await refusal('insufficient_balance'), now);
  assert.deepEqual(await refusal('no_supply', longAgo), { ...now, final: true });
  assert.deepEqual(await refusal('receiver_invalid'), { ...now, final: true });
  const liar = await makeScene({ kind: 'lie', reason: 'no_supply' });
  assert.equal((await liar.send()).kind, 'refused');
  assert.equal((await liar.look()).kind, 'accepted');
  assert.equal((await liar.send()).kind, 'accepted');
  assert.equal(liar.market.books.orders().length, 1);
});

test('an order that failed keeps its id and was paid back; two under one id are two, and what is not shown is no absence yet', async () => {
  const failing = await makeScene({ kind: 'fail_later', ms: 1 });
  await failing.send();
  failing.pass();
  const seen = await failing.look();
  assert.deepEqual(
    [seen.kind, seen.keyStaysBound, (await failing.send()).kind],
    ['object_failed', true, 'object_failed'],
  );
  assert.equal(failing.market.books.paidSun(), 0n);

  const doubled = await makeScene({ kind: 'double' });
  await doubled.send();
  const two = await doubled.look();
  assert.deepEqual([two.kind, two.doubled], ['key_taken', true]);

  const never = await makeScene({ kind: 'never_lend' });
  await never.send();
  never.pass();
  assert.equal((await never.look()).kind, 'accepted', 'paid, and not lent: a person decides in the end');
});

/** A stored answer to an order of the scene's, with what a market might show. */
function stored(operation: Answer['operation'], status: number, body: unknown): Answer {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return {
    operation,
    source: 'energy:test',
    operator: 'energy-market',
    reach: 'answer',
    status,
    body: JSON.stringify({ form: 'energy-answer-1', askedAfterMs: 5, body: text }),
    variantHash: null,
  };
}

test('whatever is not shown, not ours, or not known is unreadable, and content that differs bars every no', () => {
  const rail = railAt('http://127.0.0.1:9', 'secret');
  const sealed = sealedBy(rail, intentOf());
  const id = (sealed.seal.expect as { clientOrderId: string }).clientOrderId;
  const order = {
    order_id: 'eo_1',
    client_order_id: id,
    receiver: RECEIVER,
    energy: 65000,
    duration_s: 3600,
    price_sun: '390000',
    status: 'lent',
  };
  const read = (answer: Answer): string => rail.read(answer, sealed).kind;
  const rows: readonly (readonly [string, Answer, string])[] = [
    ['as ordered', stored('send', 200, order), 'final_success'],
    ['in a list', stored('look', 200, { orders: [order] }), 'final_success'],
    ['another’s', stored('send', 200, { ...order, client_order_id: 'x' }), 'unreadable'],
    ['without an id', stored('send', 200, { ...order, client_order_id: null }), 'unreadable'],
    ['another receiver', stored('look', 200, { orders: [{ ...order, receiver: 'T1' }] }), 'key_taken'],
    ['less energy', stored('send', 200, { ...order, energy: 64999 }), 'key_taken'],
    ['no energy shown', stored('send', 200, { ...order, energy: undefined }), 'key_taken'],
    ['a shorter time', stored('send', 200, { ...order, duration_s: 60 }), 'key_taken'],
    ['an unknown state', stored('send', 200, { ...order, status: 'LENT' }), 'unreadable'],
    ['a state of objects', stored('send', 200, { ...order, status: 'constructor' }), 'unreadable'],
    ['more sun than can be', stored('look', 200, { ...order, price_sun: (2n ** 63n).toString() }), 'accepted'],
    ['a price of 90 digits', stored('look', 200, { ...order, price_sun: '9'.repeat(90) }), 'accepted'],
    ['no price', stored('send', 200, { ...order, price_sun: undefined }), 'accepted'],
    ['a price that is none', stored('send', 200, { ...order, price_sun: '-1' }), 'accepted'],
    ['no order', stored('send', 200, {}), 'unreadable'],
    ['an empty list to a send', stored('send', 200, { orders: [] }), 'unreadable'],
    ['an empty list to a look', stored('look', 200, { orders: [] }), 'not_found'],
    ['a list of others', stored('look', 200, { orders: [{ ...order, client_order_id: 'x' }] }), 'unreadable'],
    ['a page', stored('send', 200, '<html>'), 'unreadable'],
    ['the id of another content', stored('send', 409, { error: 'client_order_id_used', order }), 'key_taken'],
    [
      'about another id',
      stored('send', 409, { error: 'client_order_id_used', order: { client_order_id: 'x' } }),
      'unreadable',
    ],
    ['an unknown code', stored('send', 422, { error: 'later' }), 'unreadable'],
    ['a code at another status', stored('send', 400, { error: 'no_supply' }), 'unreadable'],
    ['a refusal by a broken server', stored('send', 500, { error: 'no_supply' }), 'unreadable'],
    ['a refusal of a look', stored('look', 422, { error: 'no_supply' }), 'unreadable'],
    ['not found by a look', stored('look', 404, { error: 'not_found' }), 'unreadable'],
    ['the door', stored('send', 401, { error: 'unauthorized' }), 'blocked'],
    ['a gateway', stored('send', 503, 'busy'), 'blocked'],
    ['half an answer', { ...stored('send', 200, order), reach: 'partial_answer' }, 'unreadable'],
    ['of another rail', { ...stored('send', 200, order), body: JSON.stringify(order) }, 'unreadable'],
  ];
  assert.deepEqual(
    rows.map(([name, answer]) => `${name}: ${read(answer)}`),
    rows.map(([name, , kind]) => `${name}: ${kind}`),
  );
});

test('what is too dear, or more than the balance, is not sealed, and a market that is down is waited for (req R7)', async () => {
  const { market, rail } = await makeScene();
  const reasons = async (intents: readonly EffectIntent[], context = NOTHING_OPEN): Promise<string[]> =>
    (await rail.plan(intents, context)).map((one) => (one.verdict === 'wait' ? one.reason : one.verdict));
  assert.deepEqual(await reasons([intentOf(), intentOf({ amount: PRICE }), intentOf({ amount: PRICE - 1n })]), [
    'ready',
    'ready',
    'ENERGY_TOO_DEAR',
  ]);
  market.setBalance(2n * PRICE);
  assert.deepEqual(await reasons([intentOf(), intentOf(), intentOf()]), ['ready', 'ready', 'MARKET_BALANCE_SHORT']);
  const inFlight = [{ wallet: ACCOUNT, assetId: 'coin', amount: 2n * PRICE }];
  assert.deepEqual(await reasons([intentOf()], { ...NOTHING_OPEN, inFlight }), ['MARKET_BALANCE_SHORT']);
  assert.deepEqual(await reasons([intentOf({ destination: 'T1' }), intentOf({ wallet: 'other' })]), [
    'ORDER_REFUSED',
    'ORDER_REFUSED',
  ]);
  const nobody = railAt('http://127.0.0.1:9', 'secret');
  assert.deepEqual(
    (await nobody.plan([intentOf()], NOTHING_OPEN)).map((one) => one.verdict === 'wait' && [one.reason, one.lasts]),
    [['MARKET_DOWN', 'a_while']],
  );
  assert.equal(market.books.paidSun(), 0n, 'asking buys nothing');
});

test('an order is withheld from another market or account than the sealed one, and without its secret', async () => {
  const { market, sealed } = await makeScene();
  const elsewhere = railAt(market.url, market.apiKey, { account: 'other' });
  assert.match(elsewhere.withholds?.(sealed) ?? '', /sealed for account prepaid-1/);
  assert.match(railAt('http://127.0.0.1:9', 'secret').withholds?.(sealed) ?? '', /sealed for base URL/);
  const secretless = railAt(market.url, '');
  for (const rail of [elsewhere, secretless]) {
    const answer = await rail.send(sealed, null);
    assert.deepEqual([answer.reach, rail.read(answer, sealed).kind], ['withheld', 'blocked']);
  }
  assert.equal(market.books.orders().length, 0);
  assert.throws(() => railAt('http://market.example', 'secret'), /baseUrl: the base URL must be https/);
  assert.throws(() => railAt('https://market.example/?key=1', 'secret'), /neither query nor credentials/);
});
