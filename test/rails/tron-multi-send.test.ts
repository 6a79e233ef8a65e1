/*
 * Goal: many lines in one call over TRON, and a swap that its quote binds: the same truths as on an EVM chain, from solid receipts.
 * Method: two simulated nodes of one chain with a token that answers false on success, as USDT does; the engine's steps in order.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { concatHex, encodeFunctionData, numberToHex, stringToHex, toEventSelector } from 'viem';
import { swapAndAllocate, testToken } from '../../sim/contracts/artifacts.ts';
import type { ContractCall, EffectIntent, Observation, PlanContext, SealedEffect } from '../../src/engine/rail.ts';
import { canonicalAddress, machineAddress, wordOfAddress } from '../../src/rails/tron/address.ts';
import { makeStage, NOTHING_OPEN, type Stage } from './tron-stage.ts';

interface Scene extends Stage {
  readonly token: string;
  readonly intent: EffectIntent;
  readonly wallet: string;
}

async function makeScene(t: TestContext): Promise<Scene> {
  const stage = await makeStage(t, 1);
  const [first] = stage.intents;
  assert.ok(first);
  const token = stage.tron.deployToken();
  stage.tron.fundToken(token, first.wallet, 1_000_000n);
  stage.tron.stake(first.wallet, { energy: 50_000_000n, bandwidth: 100_000n });
  const asset = { ...first.asset, id: 'usdt', code: 'USDT', contract: token };
  return { ...stage, token, wallet: first.wallet, intent: { ...first, asset } };
}

function allow(scene: Scene, spender: string): void {
  const data = encodeFunctionData({
    abi: testToken.abi,
    functionName: 'approve',
    args: [machineAddress(spender), 10n ** 9n],
  });
  scene.tron.act(scene.wallet, { kind: 'call', contract: scene.token, data: data.slice(2) });
  scene.tron.mine(1);
}

async function sealOne(scene: Scene, intent: EffectIntent, context: PlanContext = NOTHING_OPEN): Promise<SealedEffect> {
  const [verdict] = await scene.rail.plan([intent], context);
  assert.equal(verdict?.verdict, 'ready', JSON.stringify(verdict));
  const seal = scene.rail.seal(intent, verdict.plan, null);
  const sealed = { ...intent, seal, plan: verdict.plan, variants: [], sealedAt: new Date() };
  const spec = await scene.rail.specify?.(sealed, 'original');
  assert.ok(spec);
  const signed = await scene.rail.sign?.(sealed, spec);
  assert.ok(signed);
  return { ...sealed, variants: [signed] };
}

async function send(scene: Scene, sealed: SealedEffect): Promise<Observation[]> {
  await scene.rail.send(sealed, sealed.variants[0] ?? null);
  scene.tron.mine(1);
  scene.tron.solidify();
  const [answers] = await scene.rail.look([sealed]);
  return (answers ?? []).map((answer) => scene.rail.read(answer, sealed));
}

const payee = (index: number): string => canonicalAddress(numberToHex(0xb0_0000 + index, { size: 20 }));

function batchOf(scene: Scene, contract: string, count: number): EffectIntent {
  const lines = Array.from({ length: count }, (_, index) => ({
    ref: `pay_${index + 1}`,
    to: payee(index),
    amount: BigInt(100 + index),
  }));
  const amount = lines.reduce((sum, line) => sum + line.amount, 0n);
  return { ...scene.intent, subjectType: 'payout_batch', destination: contract, lines, amount };
}

test('over TRON one line of a multi-send fails with proof and the others are paid once (req P8, case H10)', async (t) => {
  const scene = await makeScene(t);
  const contract = scene.tron.deployMultiSend();
  const batch = batchOf(scene, contract, 6);
  const [short] = await scene.rail.plan([batch], NOTHING_OPEN);
  assert.equal(short?.verdict === 'wait' && short.reason, 'ALLOWANCE_SHORT');
  allow(scene, contract);
  const sealed = await sealOne(scene, batch);
  // A line that moves somewhere between plan and block: its payee has more than the wallet could give it.
  const rest = 1_000_000n - batch.amount + 102n;
  scene.tron.act(scene.wallet, { kind: 'send_token', token: scene.token, to: payee(99), units: rest });
  scene.tron.mine(1);
  const seen = await send(scene, sealed);
  for (const one of seen) {
    assert.equal(one.kind, 'final_success', one.detail);
    assert.deepEqual(
      one.lines?.map((line) => line.outcome),
      ['paid', 'paid', 'paid', 'paid', 'paid', 'not_paid'],
    );
    assert.match(one.detail, /5 lines paid, 1 failed, 0 not clear/);
  }
  assert.deepEqual(
    batch.lines?.map((_, index) => scene.tron.books.balanceAt(payee(index), scene.token)),
    [100n, 101n, 102n, 103n, 104n, 0n],
  );
});

test('over TRON a swap below its minimum fails in a solid block; under another quote the same call goes (req P8, case E8)', async (t) => {
  const scene = await makeScene(t);
  const output = scene.tron.deployToken({ symbol: 'OUT' });
  const swap = scene.tron.deploySwap(output, 2n * 10n ** 18n);
  scene.tron.fundToken(output, swap, 10n ** 12n);
  allow(scene, swap);
  const ref = stringToHex('pay_swap', { size: 32 });
  const call: ContractCall = {
    to: swap,
    data: encodeFunctionData({
      abi: swapAndAllocate.abi,
      functionName: 'swapAndAllocate',
      args: [
        ref,
        machineAddress(scene.token),
        1_000n,
        1n,
        concatHex([machineAddress(payee(1)), numberToHex(10_000, { size: 2 })]),
      ],
    }),
    value: 0n,
    logs: [
      {
        address: swap,
        topics: [toEventSelector('Swapped(bytes32,address,uint256,uint256)'), ref, wordOfAddress(scene.wallet)],
        minimumWord: 1,
        minimum: 1n,
      },
    ],
    minimum: { word: 3, log: 0, least: 1_500n },
  };
  const intent: EffectIntent = { ...scene.intent, subjectType: 'payout', destination: payee(1), amount: 1_000n, call };
  const quoted = (minimum: bigint): PlanContext => ({
    ...NOTHING_OPEN,
    minimums: new Map([[intent.effectId, minimum]]),
  });
  const [low] = await scene.rail.plan([intent], quoted(1_499n));
  assert.equal(low?.verdict === 'wait' && low.reason, 'QUOTE_TOO_LOW');
  const [high] = await scene.rail.plan([intent], quoted(2_001n));
  assert.equal(high?.verdict === 'wait' && `${high.reason} ${high.lasts}`, 'SIMULATION_REVERTED until_mended');

  const first = await sealOne(scene, intent, quoted(2_000n));
  scene.tron.setPrice(swap, 19n * 10n ** 17n);
  for (const one of await send(scene, first)) assert.equal(one.kind, 'reverted_final', one.detail);
  const second = await sealOne(scene, { ...intent, seq: 2 }, quoted(1_900n));
  for (const one of await send(scene, second)) assert.equal(one.kind, 'final_success', one.detail);
});
