/*
 * Goal: nothing is sealed that would surely fail or cost too much, and why something waits is said. Method: the rail's plan
 * against a real chain, one reason after the other, alone and within a batch.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { startEvmProxy } from '../../sim/evm-proxy.ts';
import { deployToken, mintTokens } from '../../sim/evm-send.ts';
import type { EffectIntent, PlanContext, PlanVerdict } from '../../src/engine/rail.ts';
import {
  changeToken,
  GWEI,
  intentOf,
  NOTHING_OPEN,
  planOf,
  railOn,
  RECEIVER,
  type Scene,
  startScene,
} from './evm-scene.ts';

let scene: Scene;

before(async () => {
  scene = await startScene();
});
after(async () => scene.stop());
afterEach(() => {
  for (const node of scene.nodes) node.heal();
});

const reasonOf = (verdict: PlanVerdict | undefined) =>
  verdict?.verdict === 'wait' ? verdict.reason : verdict?.verdict;
const alertOf = (verdict: PlanVerdict | undefined) => verdict?.verdict === 'wait' && verdict.alert;

async function plan(changes: readonly Partial<EffectIntent>[], context: PlanContext = NOTHING_OPEN) {
  return scene.rail.plan(
    changes.map((change) => intentOf(scene, change)),
    context,
  );
}

test('a plan names gas, fees and a finalized reference block', async () => {
  const [verdict] = await plan([{}]);
  const ready = planOf(verdict);
  const final = (await scene.chain.rpc('eth_getBlockByNumber', ['finalized', false])) as Record<string, string>;
  assert.deepEqual(ready['reference'], { number: BigInt(final['number'] ?? 0).toString(), hash: final['hash'] });
  assert.ok(BigInt(ready['gasLimit'] as string) > 21_000n);
  assert.ok(BigInt(ready['maxFeePerGas'] as string) >= BigInt(ready['maxPriorityFeePerGas'] as string));
});

test('a token that returns a bool, or nothing, can be planned', async () => {
  await changeToken(scene, 'setReturnsBool', [true]);
  assert.equal(reasonOf((await plan([{}]))[0]), 'ready');
  await changeToken(scene, 'setReturnsBool', [false]);
  assert.equal(reasonOf((await plan([{}]))[0]), 'ready');
});

test('an amount above the wallet on chain waits and alerts, less what is in flight and what the batch takes', async () => {
  const whole = 1_000_000_000n;
  const [all, tooMuch] = await plan([{ amount: whole }, { amount: 1n }]);
  assert.deepEqual([reasonOf(all), reasonOf(tooMuch), alertOf(tooMuch)], ['ready', 'ONCHAIN_INSUFFICIENT', true]);
  const inFlight = [{ wallet: scene.wallet.address, assetId: 'usdt', amount: whole - 5n }];
  const verdicts = await plan([{ amount: 6n }, { amount: 5n }, { amount: 1n }], { ...NOTHING_OPEN, inFlight });
  assert.deepEqual(verdicts.map(reasonOf), ['ONCHAIN_INSUFFICIENT', 'ready', 'ONCHAIN_INSUFFICIENT']);
});

test('one bad item never fails its neighbours', async () => {
  await changeToken(scene, 'blacklist', ['0x00000000000000000000000000000000000bad00', true]);
  const verdicts = await plan([{}, { destination: '0x00000000000000000000000000000000000bad00' }, {}]);
  assert.deepEqual(verdicts.map(reasonOf), ['ready', 'SIMULATION_REVERTED', 'ready']);
  assert.match(verdicts[1]?.verdict === 'wait' ? verdicts[1].detail : '', /blacklisted/);
});

test('a wallet that cannot pay its gas says what is missing, to the unit; a coin that pays for itself needs no help (req R16)', async () => {
  const poor = scene.chain.accounts[3];
  assert.ok(poor);
  const address = poor.address.toLowerCase();
  await mintTokens(scene.chain, scene.owner.privateKey, scene.token, poor.address, 5_000_000n);
  await scene.chain.rpc('anvil_setBalance', [address, '0x1']);
  const [short, coin] = await plan([
    { wallet: address, signer: address },
    { wallet: address, signer: address, asset: scene.coin, amount: 1n },
  ]);
  assert.deepEqual([reasonOf(short), reasonOf(coin)], ['GAS_SHORT', 'GAS_SHORT']);
  assert.ok(short?.verdict === 'wait' && short.needs?.kind === 'gas' && coin?.verdict === 'wait');
  assert.equal(coin.needs, undefined);
  assert.deepEqual([short.needs.address, short.needs.assetId], [address, 'coin']);
  await scene.chain.rpc('anvil_setBalance', [address, `0x${(short.needs.units + 1n).toString(16)}`]);
  assert.equal(reasonOf((await plan([{ wallet: address, signer: address }]))[0]), 'ready');
});

test('nothing is sealed for an address whose key is not at hand', async () => {
  const stranger = '0x00000000000000000000000000000000000feed1';
  const verdicts = await plan([{ wallet: stranger, signer: stranger }, {}]);
  assert.deepEqual(verdicts.map(reasonOf), ['NO_KEY', 'ready']);
  assert.deepEqual(
    verdicts.map((one) => one.verdict === 'wait' && one.lasts),
    ['for_good', false],
  );
});

test('a token that answers false in the simulation is not sent (case H2)', async () => {
  await changeToken(scene, 'setLies', [true]);
  assert.equal(reasonOf((await plan([{}]))[0]), 'SIMULATION_REVERTED');
  await changeToken(scene, 'setLies', [false]);
});

test('a signer without coin for gas waits and alerts', async () => {
  const before = await scene.chain.rpc('eth_getBalance', [scene.wallet.address, 'latest']);
  await scene.chain.rpc('anvil_setBalance', [scene.wallet.address, '0x1']);
  const [token, coin] = await plan([{}, { asset: scene.coin, amount: 2n }]);
  assert.deepEqual([reasonOf(token), alertOf(token)], ['GAS_SHORT', true]);
  assert.deepEqual([reasonOf(coin), alertOf(coin)], ['ONCHAIN_INSUFFICIENT', true]);
  await scene.chain.rpc('anvil_setBalance', [scene.wallet.address, before]);
});

test('gas that open transactions may burn is set aside', async () => {
  const before = await scene.chain.rpc('eth_getBalance', [scene.wallet.address, 'latest']);
  const ready = planOf((await plan([{}]))[0]);
  const once = BigInt(ready['gasLimit'] as string) * BigInt(ready['maxFeePerGas'] as string);
  await scene.chain.rpc('anvil_setBalance', [scene.wallet.address, `0x${(once + once / 2n).toString(16)}`]);
  assert.deepEqual((await plan([{}, {}])).map(reasonOf), ['ready', 'GAS_SHORT']);
  const open = new Map([[scene.wallet.address.toLowerCase(), 1]]);
  assert.deepEqual((await plan([{}], { inFlight: [], openPerSigner: open })).map(reasonOf), ['GAS_SHORT']);
  await scene.chain.rpc('anvil_setBalance', [scene.wallet.address, before]);
});

test('a signer takes sixteen open transactions and no more', async () => {
  const open = new Map([[scene.wallet.address.toLowerCase(), 14]]);
  const verdicts = await plan([{}, {}, {}], { inFlight: [], openPerSigner: open });
  assert.deepEqual(verdicts.map(reasonOf), ['ready', 'ready', 'SIGNER_FULL']);
});

test('a coin leaves its signer alone, and a token another’s wallet only by its allowance (req R15)', async () => {
  const signer = scene.owner.address.toLowerCase();
  const [coin, token] = await plan([{ signer, asset: scene.coin, amount: 1n }, { signer }]);
  assert.deepEqual([reasonOf(coin), alertOf(coin)], ['SIGNER_IS_NOT_WALLET', true]);
  assert.deepEqual([reasonOf(token), alertOf(token)], ['ALLOWANCE_SHORT', true]);
});

test('a market above the cap, less room for bumps and a cancel, waits', async () => {
  const rail = railOn([scene.chain.url], { feeCapWei: 2n * GWEI });
  const [verdict] = await rail.plan([intentOf(scene)], NOTHING_OPEN);
  assert.deepEqual([reasonOf(verdict), alertOf(verdict)], ['FEE_ABOVE_CAP', true]);
  await rail.close();
});

test('gas above the cap waits', async () => {
  const rail = railOn([scene.chain.url], { gasLimitCap: 22_000n });
  const verdicts = await rail.plan([intentOf(scene), intentOf(scene, { asset: scene.coin, amount: 1n })], NOTHING_OPEN);
  assert.deepEqual(verdicts.map(reasonOf), ['GAS_ABOVE_CAP', 'ready']);
  await rail.close();
});

test('with one node down the plan asks the other, with all down it waits', async () => {
  await scene.nodes[0].down();
  assert.equal(reasonOf((await plan([{}]))[0]), 'ready');
  await scene.nodes[1].down();
  assert.equal(reasonOf((await plan([{}]))[0]), 'NODE_DOWN');
  for (const node of scene.nodes) await node.up();
  assert.equal(reasonOf((await plan([{}]))[0]), 'ready');
});

test('a node that answers nonsense is left for the next one', async () => {
  scene.nodes[0].script({ fault: { kind: 'garble', how: 'html' } });
  assert.equal(reasonOf((await plan([{}]))[0]), 'ready');
});

test('an error of the node is not taken for a revert', async () => {
  for (const node of scene.nodes) {
    node.script({ method: 'eth_estimateGas', fault: { kind: 'rpc_error', code: -32005, message: 'rate limited' } });
  }
  assert.equal(reasonOf((await plan([{}]))[0]), 'NODE_DOWN');
});

test('decimals that differ on chain are found at the start (case H9)', async () => {
  const eighteen = await deployToken(scene.chain, scene.owner.privateKey, { decimals: 18 });
  assert.deepEqual(await scene.rail.checkAsset(scene.usdt), { ok: true });
  assert.deepEqual(await scene.rail.checkAsset(scene.coin), { ok: true });
  const check = async (contract: string) => {
    const result = await scene.rail.checkAsset({ ...scene.usdt, contract });
    return result.ok ? 'ok' : result.reason;
  };
  assert.equal(await check(eighteen), 'DECIMALS_DIFFER');
  assert.equal(await check(RECEIVER), 'NO_CONTRACT');
  for (const node of scene.nodes) node.script({ fault: { kind: 'http', status: 503 } });
  assert.equal(await check(scene.token), 'NODE_DOWN');
});

test('a chain that changes behind a URL is noticed after the next connection', async () => {
  const node = await startEvmProxy({ upstream: scene.chain.url });
  const rail = railOn([node.url]);
  assert.equal(reasonOf((await rail.plan([intentOf(scene)], NOTHING_OPEN))[0]), 'ready');
  await node.down();
  await node.up();
  node.claimChain(1);
  // The first request may still meet the closed connection.
  assert.notEqual(reasonOf((await rail.plan([intentOf(scene)], NOTHING_OPEN))[0]), 'ready');
  assert.equal(reasonOf((await rail.plan([intentOf(scene)], NOTHING_OPEN))[0]), 'WRONG_CHAIN');
  await rail.close();
  await node.stop();
});
