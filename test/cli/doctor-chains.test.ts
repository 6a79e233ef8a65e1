/*
 * Goal: the doctor says which nodes of a chain are no witnesses, which wallets run dry, and what stands prepaid at a market.
 * Method: what it asks of a chain, over the wired application and the simulated TRON.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeFunctionData } from 'viem';
import { askChains } from '../../src/main/doctor-chains.ts';
import { machineAddress } from '../../src/rails/tron/address.ts';
import { startEnergyMarket } from '../../sim/tron/energy-market.ts';
import { PAYER_ABI } from '../../sim/tron/programs.ts';
import { startTronApp, TRX, type TronApp } from '../support/tron-app.ts';

async function told(one: TronApp, name: string): Promise<{ ok: boolean; found: string }> {
  const asked = askChains(one.app).find((each) => each.name === name);
  assert.ok(asked, name);
  return asked.ask();
}

test('a node that lags, one without history and one of another chain are told apart; wallets below their level and an empty market too (req R7, R18)', async (t) => {
  let market: Awaited<ReturnType<typeof startEnergyMarket>> | undefined;
  const one = await startTronApp({
    label: 'doctor_tron',
    gasWallet: true,
    async prepare(tron) {
      market = await startEnergyMarket({ tron });
      const { url: baseUrl, apiKey } = market;
      const terms = { name: 'main', baseUrl, account: 'prepaid-1', priceMaxSun: '60', secret: () => apiKey };
      return { energy: { market: terms }, gas: { level: '5', topUpMax: '50', warnBelow: '10000' } };
    },
  });
  t.after(() => market?.stop());
  assert.match((await told(one, 'tron:test')).found, /^2 of 2 nodes answer/);
  assert.ok((await told(one, 'tron:test')).ok);
  const b = one.tron.node('b').settings;
  Object.assign(b, { lagBlocks: 21 });
  one.mine(30);
  assert.match((await told(one, 'tron:test')).found, /21 blocks behind/);
  Object.assign(b, { lagBlocks: 0, history: false });
  const closed = await told(one, 'tron:test');
  assert.ok(!closed.ok);
  assert.match(closed.found, /and is no witness: block \d+: 0 receipts/);
  Object.assign(b, { history: true });
  const [full, spent] = [await told(one, `wallet ${one.gas}`), await told(one, 'energy:main')];
  assert.deepEqual([full.ok, full.found.slice(0, 17)], [true, 'it has 10000 TRX ']);
  assert.deepEqual([spent.ok, spent.found], [true, '10000 TRX stand prepaid at prepaid-1']);
  one.tron.act(one.gas, { kind: 'send', to: one.stranger, sun: 9_000n * TRX });
  one.mine(25);
  market?.setBalance(0n);
  assert.equal((await told(one, `wallet ${one.gas}`)).ok, false);
  assert.equal((await told(one, 'energy:main')).ok, false);
  await one.end();
});

test('a node that keeps nothing of what contracts pay is told: deposits of TRX are missed there (case G8)', async () => {
  const one = await startTronApp({ label: 'doctor_tron_inside' });
  one.tron.node('b').settings.saveInternalTx = false;
  const contract = one.tron.deployPayer();
  const args = [[machineAddress(one.stranger)], [7n]] as const;
  const data = encodeFunctionData({ abi: PAYER_ABI, functionName: 'pay', args }).slice(2);
  one.tron.act(one.stranger, { kind: 'call', contract, data, sun: 7n });
  one.tron.mine(1);
  one.tron.solidify();
  const { ok, found } = await told(one, 'tron:test');
  assert.ok(!ok);
  assert.equal(found.match(/shows no coin that contracts pay/g)?.length, 1);
  one.tron.node('b').settings.saveInternalTx = true;
  assert.ok((await told(one, 'tron:test')).ok);
  await one.end();
});

test('nodes of another chain than the configured one are told, and nothing is registered by them (case G10)', async () => {
  const one = await startTronApp({ label: 'doctor_tron_wrong', network: { genesisId: 'ab'.repeat(32) } });
  const wrong = await told(one, 'tron:test');
  assert.ok(!wrong.ok);
  assert.match(wrong.found, /0 of 2 nodes answer.*another chain/);
  assert.equal(one.app.health.get('tron:test'), 'degraded');
  await one.end();
});
