/*
 * Goal: an order of energy is paid once and lent on the chain, and its faults leave in the market's books what they say. Method: plain
 * HTTP calls of a market beside a simulated chain.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { type EnergyFault, startEnergyMarket } from '../../sim/tron/energy-market.ts';
import { startTron } from '../../sim/tron/tron.ts';
import { get, makePerson, post } from './tron-client.ts';

const running: { stop(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of running.splice(0)) await one.stop();
});

async function scene(fault?: EnergyFault) {
  const tron = await startTron();
  const faults = fault === undefined ? [] : [{ on: 'create' as const, calls: [1], fault }];
  const market = await startEnergyMarket({ tron, faults });
  running.push(market, tron);
  const { address } = makePerson(tron, '1');
  tron.fund(address, 1n);
  const headers = { authorization: `Bearer ${market.apiKey}` };
  const order = async (clientOrderId: string, energy = 130_000) => {
    const wanted = { client_order_id: clientOrderId, receiver: address, energy, duration_s: 3_600 };
    return post(market.url, '/v1/orders', wanted, headers);
  };
  const look = async (clientOrderId: string) =>
    (await get(`${market.url}/v1/orders?client_order_id=${clientOrderId}`, headers)).json.orders;
  return { tron, market, address, order, look };
}

test('an order is paid once under its id, lent with the next blocks and taken back when its time is over', async () => {
  const { tron, market, address, order, look } = await scene();
  const first = await order('a');
  assert.equal(first.status, 201);
  assert.equal((await order('a')).status, 200);
  assert.equal((await order('a', 70_000)).status, 409);
  assert.equal(market.books.orders().length, 1);
  assert.equal(market.books.paidSun(), BigInt(first.json.price_sun));
  tron.mine(2);
  assert.ok(tron.energyOf(address) >= 130_000n);
  const [found] = await look('a');
  assert.equal(found.status, 'lent');
  assert.equal(tron.books.inclusions(found.delegate_txid).length, 1);
  tron.advance(3_700_000);
  assert.equal(tron.energyOf(address), 0n);
  assert.deepEqual(await look('b'), []);
});

test('what was used of energy goes with it when it is taken back: the next loan is there in full', async () => {
  const { tron, address, order } = await scene();
  const token = tron.deployToken();
  tron.fundToken(token, address, 10n);
  await order('a');
  tron.mine(2);
  const lent = tron.energyOf(address);
  tron.act(address, { kind: 'send_token', token, to: address, units: 1n });
  tron.mine();
  const left = tron.energyOf(address);
  assert.ok(left < lent);
  tron.advance(3_700_000);
  assert.equal(tron.energyOf(address), 0n);
  await order('b');
  tron.mine(2);
  assert.ok(tron.energyOf(address) >= 130_000n, `${tron.energyOf(address)} of ${lent}`);
});

test('a balance that is too small is refused, and nothing is paid', async () => {
  const { market, order } = await scene();
  market.setBalance(1n);
  assert.equal((await order('a')).status, 402);
  assert.equal(market.books.paidSun(), 0n);
});

test('a lost answer has paid and a lost request has not; the look by our id tells which', async () => {
  for (const kind of ['lose_answer', 'lose_request'] as const) {
    const { market, order, look } = await scene({ kind });
    await assert.rejects(order('a'));
    assert.equal((await look('a')).length, kind === 'lose_answer' ? 1 : 0);
    assert.equal((await order('a')).status, kind === 'lose_answer' ? 200 : 201);
    assert.equal(market.books.orders().length, 1);
  }
});

test('refused, lied, delayed, failed and doubled orders are what the books say', async () => {
  const paid: Record<string, [number, bigint]> = {};
  for (const fault of [
    { kind: 'refuse', reason: 'no_supply' },
    { kind: 'lie', reason: 'no_supply' },
    { kind: 'delay', ms: 60_000 },
    { kind: 'never_lend' },
    { kind: 'fail_later', ms: 5_000 },
    { kind: 'double' },
    { kind: 'take_back', afterMs: 6_000 },
  ] as const satisfies EnergyFault[]) {
    const { tron, market, address, order } = await scene(fault);
    await order('a');
    tron.mine(10);
    const standing = market.books.orders().filter(({ state }) => state !== 'failed').length;
    paid[fault.kind] = [standing, tron.energyOf(address) / 100_000n];
    assert.equal(market.counts[fault.kind], 1);
    tron.mine(15);
    if (fault.kind === 'delay') assert.ok(tron.energyOf(address) >= 130_000n);
  }
  assert.deepEqual(paid, {
    refuse: [0, 0n],
    lie: [1, 1n],
    delay: [1, 0n],
    never_lend: [1, 0n],
    fail_later: [0, 0n],
    double: [2, 2n],
    take_back: [1, 0n],
  });
});
