/*
 * Goal: many lines in one call over a real chain: each line paid once or failed with the contract's proof, whatever the others do; a
 * call that reverts moves nothing; a swap is bound by the minimum of the quote that was sealed with it. Method: a real anvil with the
 * contracts of sim/contracts behind two nodes; the engine's steps in order; what was paid is read from balances.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { concatHex, encodeFunctionData, numberToHex, pad, stringToHex, toEventSelector, type Address } from 'viem';
import { swapAndAllocate } from '../../sim/contracts/artifacts.ts';
import {
  approveTokens,
  deployBatch,
  deployMultiSend,
  deploySwap,
  deployToken,
  mintTokens,
  nativeBalance,
  setPrice,
  tokenBalance,
} from '../../sim/evm-send.ts';
import type { ContractCall, EffectIntent, PlanContext, SealedEffect } from '../../src/engine/rail.ts';
import { canonicalAddress } from '../../src/rails/evm/address.ts';
import { readPayload, wordOfAddress } from '../../src/rails/evm/payload.ts';
import {
  changeToken,
  finalize,
  intentOf,
  kindsOf,
  nextNonce,
  NOTHING_OPEN,
  observe,
  payOne,
  planOf,
  type Scene,
  sealOne,
  startScene,
  withVariant,
} from './evm-scene.ts';

let scene: Scene;
let multiSend: Address;
let refusing: Address;
let output: Address;
let swap: Address;

before(async () => {
  scene = await startScene();
  const { chain, owner, wallet } = scene;
  multiSend = await deployMultiSend(chain, owner.privateKey);
  // A contract that takes no coin.
  refusing = await deployBatch(chain, owner.privateKey);
  output = await deployToken(chain, owner.privateKey, { symbol: 'OUT' });
  swap = await deploySwap(chain, owner.privateKey, output, 2n * 10n ** 18n);
  await mintTokens(chain, owner.privateKey, output, swap, 10n ** 15n);
  await approveTokens(chain, wallet.privateKey, scene.token, multiSend, 500_000_000n);
  await approveTokens(chain, wallet.privateKey, scene.token, swap, 500_000_000n);
  await chain.mine(3);
});
after(async () => scene.stop());

let named = 0;
function payees(count: number): string[] {
  named += count;
  return Array.from({ length: count }, (_, index) => numberToHex(0x10_0000 + named - index, { size: 20 }));
}

function batchOf(to: readonly string[], change: Partial<EffectIntent> = {}): Partial<EffectIntent> {
  const lines = to.map((one, index) => ({ ref: `pay_${index + 1}`, to: one, amount: BigInt(1_000 + index) }));
  const amount = lines.reduce((sum, line) => sum + line.amount, 0n);
  return { subjectType: 'payout_batch', destination: canonicalAddress(multiSend), lines, amount, ...change };
}

const outcomesOf = async (sealed: SealedEffect): Promise<string[][]> =>
  (await observe(scene, sealed)).map((one) => (one.lines ?? []).map((line) => line.outcome));

test('a multi-send of 50 in which one line fails pays 49 once and proves the one (req P8, cases H10, I2)', async () => {
  const to = payees(50);
  const barred = to[20] ?? '';
  await changeToken(scene, 'blacklist', [barred, true]);
  const { sealed } = await payOne(scene, batchOf(to));
  await scene.chain.mine(1);
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['included', 'included']);
  await finalize(scene);
  const seen = await observe(scene, sealed);
  assert.deepEqual(kindsOf(seen), ['final_success', 'final_success']);
  for (const one of seen) {
    const lines = one.lines ?? [];
    assert.equal(lines.length, 50);
    assert.deepEqual(
      lines.flatMap((line) => (line.outcome === 'paid' ? [] : [`${line.ref} ${line.outcome} ${line.objectId}`])),
      [`pay_21 not_paid ${one.objectId}:pay_21`],
    );
    assert.match(one.detail, /49 lines paid, 1 failed, 0 not clear/);
    assert.ok((one.cost?.units ?? 0n) > 0n);
  }
  for (const [index, one] of to.entries())
    assert.equal(
      await tokenBalance(scene.chain, scene.token, one as Address),
      index === 20 ? 0n : BigInt(1_000 + index),
      one,
    );
});

test('of coin, what a refusing receiver does not take comes back to the wallet in the same call (case H10)', async () => {
  const [first = '', second = ''] = payees(2);
  const before = await nativeBalance(scene.chain, scene.wallet.address);
  const { sealed } = await payOne(scene, batchOf([first, refusing.toLowerCase(), second], { asset: scene.coin }));
  await finalize(scene);
  const [one] = await observe(scene, sealed);
  assert.equal(one?.kind, 'final_success');
  assert.deepEqual(await outcomesOf(sealed), [
    ['paid', 'not_paid', 'paid'],
    ['paid', 'not_paid', 'paid'],
  ]);
  assert.equal(await nativeBalance(scene.chain, first as Address), 1_000n);
  const spent = before - (await nativeBalance(scene.chain, scene.wallet.address));
  assert.equal(spent, 1_000n + 1_002n + (one?.cost?.units ?? 0n));
});

test('a token that lies pays nobody, and the contract says so: all lines failed is a no with proof (cases H2, E8)', async () => {
  const { sealed, signed } = await withVariant(scene, await sealOne(scene, batchOf(payees(3))), 'original');
  await changeToken(scene, 'setLies', [true]);
  await scene.rail.send(sealed, signed);
  await finalize(scene);
  await changeToken(scene, 'setLies', [false]);
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['reverted_final', 'reverted_final']);
  assert.deepEqual((await outcomesOf(sealed))[0], ['not_paid', 'not_paid', 'not_paid']);
});

test('a multi-send with too little gas reverts whole: no line fails for its own part (case E8)', async () => {
  const to = payees(4);
  const full = await sealOne(scene, batchOf(to));
  const short = { ...full, plan: { ...full.plan, gasLimit: '330000' } };
  const { sealed, signed } = await withVariant(scene, short, 'original');
  await scene.rail.send(sealed, signed);
  await finalize(scene);
  const seen = await observe(scene, sealed);
  assert.deepEqual(kindsOf(seen), ['reverted_final', 'reverted_final']);
  assert.equal(seen[0]?.lines, undefined);
  assert.ok((seen[0]?.cost?.units ?? 0n) > 0n);
  for (const one of to) assert.equal(await tokenBalance(scene.chain, scene.token, one as Address), 0n);
});

test('a multi-send waits where the contract may not take the money, where every line would fail, and where its lines do not add up', async () => {
  const reason = async (change: Partial<EffectIntent>): Promise<string> => {
    const [verdict] = await scene.rail.plan([intentOf(scene, change)], NOTHING_OPEN);
    return verdict?.verdict === 'wait' ? verdict.reason : `ready ${JSON.stringify(verdict)}`;
  };
  const [one = ''] = payees(1);
  const other = await deployMultiSend(scene.chain, scene.owner.privateKey);
  assert.equal(await reason(batchOf([one], { destination: canonicalAddress(other) })), 'ALLOWANCE_SHORT');
  assert.equal(await reason(batchOf([one], { amount: 5n })), 'BATCH_REFUSED');
  assert.equal(await reason(batchOf([one], { signer: canonicalAddress(scene.owner.address) })), 'SIGNER_IS_NOT_WALLET');
  await changeToken(scene, 'blacklist', [one, true]);
  assert.equal(await reason(batchOf([one])), 'SIMULATION_REVERTED');
  // One that cannot be planned holds up no neighbour.
  const verdicts = await scene.rail.plan(
    [intentOf(scene, batchOf([one], { amount: 5n })), intentOf(scene, batchOf(payees(1)))],
    NOTHING_OPEN,
  );
  assert.deepEqual(
    verdicts.map((each) => each.verdict),
    ['wait', 'ready'],
  );
});

/** A swap of the wallet's tokens, half of what comes out for each of two. */
function swapOf(to: readonly string[], minimum: bigint, least: bigint, amountIn = 1_000n): Partial<EffectIntent> {
  const shares = concatHex(to.map((one) => concatHex([one as Address, numberToHex(10_000 / to.length, { size: 2 })])));
  const ref = stringToHex('pay_swap', { size: 32 });
  const swapped = toEventSelector('Swapped(bytes32,address,uint256,uint256)');
  const call: ContractCall = {
    to: canonicalAddress(swap),
    data: encodeFunctionData({
      abi: swapAndAllocate.abi,
      functionName: 'swapAndAllocate',
      args: [ref, scene.token, amountIn, minimum, shares],
    }),
    value: 0n,
    logs: [
      {
        address: canonicalAddress(swap),
        topics: [swapped, ref, wordOfAddress(scene.wallet.address)],
        minimumWord: 1,
        minimum,
      },
    ],
    minimum: { word: 3, log: 0, least },
  };
  return { subjectType: 'payout', destination: canonicalAddress(swap), amount: amountIn, call };
}

test('a swap is bound by the minimum of the quote at its plan; below it the call reverts, gas is spent, nothing moves (req P8, case E8)', async () => {
  const to = payees(2);
  const intent = intentOf(scene, swapOf(to, 1n, 1_500n));
  const quoted: PlanContext = { ...NOTHING_OPEN, minimums: new Map([[intent.effectId, 1_990n]]) };
  const plan = planOf((await scene.rail.plan([intent], quoted))[0]);
  assert.equal(plan['minimum'], '1990');
  const allotment = { signer: intent.signer, nonce: await nextNonce(scene) };
  const seal = scene.rail.seal(intent, plan, allotment);
  const sealedWord = pad(numberToHex(1_990n), { size: 32 }).slice(2);
  assert.ok(readPayload(seal.payload).data.includes(sealedWord));

  // The market falls before it is mined.
  const { sealed, signed } = await withVariant(
    scene,
    { ...intent, seal, plan, variants: [], sealedAt: new Date() },
    'original',
  );
  await setPrice(scene.chain, scene.owner.privateKey, swap, 19n * 10n ** 17n);
  await scene.rail.send(sealed, signed);
  await finalize(scene);
  const seen = await observe(scene, sealed);
  assert.deepEqual(kindsOf(seen), ['reverted_final', 'reverted_final']);
  assert.match(seen[0]?.detail ?? '', /output below minimum/);
  assert.ok((seen[0]?.cost?.units ?? 0n) > 0n);
  for (const one of to) assert.equal(await tokenBalance(scene.chain, output, one as Address), 0n);

  // The successor: the same frozen call under today's quote.
  const next: EffectIntent = { ...intent, effectId: intent.effectId + 1_000n, seq: 2 };
  const newer = planOf(
    (await scene.rail.plan([next], { ...NOTHING_OPEN, minimums: new Map([[next.effectId, 1_890n]]) }))[0],
  );
  const again = scene.rail.seal(next, newer, { signer: next.signer, nonce: await nextNonce(scene) });
  const second = await withVariant(
    scene,
    { ...next, seal: again, plan: newer, variants: [], sealedAt: new Date() },
    'original',
  );
  await scene.rail.send(second.sealed, second.signed);
  await finalize(scene);
  assert.deepEqual(kindsOf(await observe(scene, second.sealed)), ['final_success', 'final_success']);
  for (const one of to) assert.equal(await tokenBalance(scene.chain, output, one as Address), 950n);
});

test('a quote below the least that is accepted is not sealed; one that the market does not give waits for another quote', async () => {
  const to = payees(2);
  const intent = intentOf(scene, swapOf(to, 1n, 1_500n));
  const at = async (minimum: bigint): Promise<string> => {
    const [verdict] = await scene.rail.plan([intent], {
      ...NOTHING_OPEN,
      minimums: new Map([[intent.effectId, minimum]]),
    });
    return verdict?.verdict === 'wait' ? `${verdict.reason} ${verdict.lasts}` : 'ready';
  };
  assert.equal(await at(1_499n), 'QUOTE_TOO_LOW until_mended');
  assert.equal(await at(1_901n), 'SIMULATION_REVERTED until_mended');
  assert.equal(await at(1_900n), 'ready');
});
