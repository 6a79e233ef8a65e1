/*
 * Goal: over TRON as it is configured and wired, a relayer signs for the wallet (R15), and sweeps of deposit addresses get the
 * TRX and the energy that they lack before anything of them is sealed (R9, R16). Method: the application over the simulated
 * chain and the simulated energy market, whose own books judge.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeFunctionData, erc20Abi } from 'viem';
import { collectOnce } from '../../src/flows/collections/index.ts';
import { createDepositAddress } from '../../src/flows/deposits/index.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { machineAddress } from '../../src/rails/tron/address.ts';
import { type EnergyMarket, startEnergyMarket } from '../../sim/tron/energy-market.ts';
import { assertBooksClean } from '../support/books.ts';
import { PARTNER, RELAYER, startTronApp, TRX, type TronApp, type TronAppOptions } from '../support/tron-app.ts';

const ENERGY_OF_A_TRANSFER = 65_000n;

async function pay(one: TronApp, key: string): Promise<string> {
  const { engine } = one.app;
  const [created] = await createWithdrawals(engine, [
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
  assert.equal(created?.outcome, 'created');
  return created.outcome === 'created' ? created.id : '';
}

function allow(one: TronApp, relayer: string, units: bigint): void {
  const data = encodeFunctionData({ abi: erc20Abi, functionName: 'approve', args: [machineAddress(relayer), units] });
  one.tron.act(one.master, { kind: 'call', contract: one.token, data: data.slice(2) });
  one.mine(1);
}

async function effectsOf(one: TronApp): Promise<string[]> {
  const rows = await one.rows<{ subject_type: string; state: string; wait_reason: string | null }>(
    'select subject_type, state, wait_reason from payonce.effects order by subject_type, id',
  );
  return rows.map(({ subject_type, state, wait_reason }) =>
    state === 'PENDING' ? `${subject_type} ${state} ${wait_reason?.split(':')[0] ?? ''}` : `${subject_type} ${state}`,
  );
}

async function withMarket(options: TronAppOptions): Promise<{ one: TronApp; market: EnergyMarket }> {
  let market: EnergyMarket | undefined;
  const one = await startTronApp({
    ...options,
    async prepare(tron) {
      const made = await startEnergyMarket({ tron });
      market = made;
      const terms = {
        name: 'main',
        baseUrl: made.url,
        account: 'prepaid-1',
        priceMaxSun: '60',
        secret: () => made.apiKey,
      };
      return { energy: { market: terms }, gas: { level: '5', topUpMax: '50' } };
    },
  });
  if (market === undefined) throw new Error('no market was started');
  return { one, market };
}

test('a relayer signs and pays for the wallet, by the allowance that the wallet gave it (req R15)', async () => {
  const relayer = RELAYER;
  const one = await startTronApp({ label: 'relayers_tron', asset: { relayers: [relayer] } });
  one.tron.fund(relayer, 1_000n * TRX);
  await one.fund(100n * TRX);
  await pay(one, 'first');
  await one.pass();
  assert.deepEqual(await effectsOf(one), ['withdrawal PENDING ALLOWANCE_SHORT']);
  allow(one, relayer, 10n * TRX);
  const before = await one.tron.books.balance(one.master, 'native');
  await one.drain();
  assert.deepEqual(await effectsOf(one), ['withdrawal SETTLED']);
  const [moved] = (await one.tron.books.movements()).filter(
    ({ asset, from }) => asset === one.token && from === one.master,
  );
  assert.deepEqual([moved?.amount, moved?.to, moved?.signer], [TRX, one.stranger, relayer]);
  assert.equal(await one.tron.books.balance(one.master, 'native'), before);
  const spent = (await one.tron.books.costs()).filter(({ payer }) => payer === relayer);
  const booked = await one.balance(`custody:${one.chain.chain}:${relayer}`, one.chain.coinAssetId);
  assert.equal(
    booked,
    spent.reduce((sum, { amount }) => sum + amount, 0n),
  );
  await assertBooksClean(one.app.pool, { books: one.tron.books });
  await one.end();
});

test('a sweep waits for TRX, then for energy, each bought once; the address is emptied into the master (req R9, R16)', async (t) => {
  const { one, market } = await withMarket({ label: 'sweeps_tron', asset: { collect: { min: '2' } }, gasWallet: true });
  t.after(() => market.stop());
  await one.chain.scanner.runOnce();
  const deps = {
    pool: one.app.pool,
    makeId: one.app.engine.makeId,
    newAddress: () => one.app.newDepositAddress(one.chain.chain),
  };
  const addresses: string[] = [];
  for (const userRef of ['a', 'b', 'dust']) {
    const made = await createDepositAddress(deps, { partnerId: PARTNER, chain: one.chain.chain, userRef, reuse: true });
    const to = made.address.address;
    addresses.push(to);
    one.tron.act(one.stranger, { kind: 'send_token', token: one.token, to, units: userRef === 'dust' ? 1n : 5n * TRX });
  }
  one.mine(26);
  await one.chain.scanner.runOnce();
  const cycle = await collectOnce(one.app.engine, one.chain.chain, { now: true });
  assert.deepEqual([cycle.made, cycle.left], [2, { below_min: 1 }]);
  await one.pass();
  assert.deepEqual(
    (await effectsOf(one)).filter((text) => text.startsWith('collection')),
    ['collection PENDING GAS_SHORT', 'collection PENDING GAS_SHORT'],
  );
  await one.drain(100);
  assert.deepEqual(await effectsOf(one), [
    'collection SETTLED',
    'collection SETTLED',
    'energy SETTLED',
    'energy SETTLED',
    'topup SETTLED',
    'topup SETTLED',
  ]);
  for (const address of addresses.slice(0, 2)) assert.equal(await one.tron.books.balance(address, one.token), 0n);
  assert.equal(market.books.orders().length, 2);
  assert.ok(market.books.orders().every(({ energy }) => energy >= ENERGY_OF_A_TRANSFER));
  assert.equal(
    await one.balance(`custody:${one.chain.chain}:prepaid-1`, one.chain.coinAssetId),
    market.books.paidSun(),
  );
  // Credited once, by the deposit; what was swept is the same money at another address.
  assert.equal(await one.balance(`partner:${PARTNER}`, one.tokenAssetId), 10n * TRX + 1n);
  await one.chain.scanner.runOnce();
  assert.equal(await one.balance(`partner:${PARTNER}`, one.tokenAssetId), 10n * TRX + 1n);
  await assertBooksClean(one.app.pool, { books: one.tron.books });
  await one.end();
});
