/*
 * Goal: whatever becomes of a transaction on a real chain, the rail shows it as what it is, and shows nothing more.
 * Method: a real anvil behind two nodes with operators of their own; the engine's steps in order; blocks are mined by
 * hand, and block head − 2 is final.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { signAs, tokenBalance, transferData } from '../../sim/evm-send.ts';
import { encodeFunctionData, keccak256, type Address } from 'viem';
import { testToken } from '../../sim/contracts/artifacts.ts';
import { startEvmProxy } from '../../sim/evm-proxy.ts';
import {
  changeToken,
  finalize,
  GWEI,
  kindsOf,
  observe,
  payOne,
  railOn,
  RECEIVER,
  type Scene,
  sealOne,
  startScene,
  withVariant,
} from './evm-scene.ts';

let scene: Scene;

before(async () => {
  scene = await startScene();
});
after(async () => scene.stop());
afterEach(() => {
  for (const node of scene.nodes) node.heal();
});

test('a payment goes from the pool to included to final success, with its gas as cost', async () => {
  const before = await tokenBalance(scene.chain, scene.token, RECEIVER);
  const { sealed, signed, answer } = await payOne(scene);
  assert.equal(scene.rail.read(answer, sealed).kind, 'in_progress');
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['not_found', 'not_found']);

  await scene.chain.mine(1);
  const seen = await observe(scene, sealed);
  assert.deepEqual(kindsOf(seen), ['included', 'included']);
  assert.deepEqual(
    seen.map((one) => [one.objectId, one.cost]),
    [
      [signed.hash, null],
      [signed.hash, null],
    ],
  );

  await scene.chain.mine(3);
  const final = await observe(scene, sealed);
  assert.deepEqual(kindsOf(final), ['final_success', 'final_success']);
  assert.deepEqual(
    final.map((one) => one.operator),
    ['operator-1', 'operator-2'],
  );
  for (const one of final) {
    assert.equal(one.witness, true);
    assert.equal(one.objectId, signed.hash);
    const receipt = (await scene.chain.rpc('eth_getTransactionReceipt', [signed.hash])) as Record<string, string>;
    const units = BigInt(receipt['gasUsed'] ?? 0) * BigInt(receipt['effectiveGasPrice'] ?? 0);
    assert.deepEqual(one.cost, { assetId: 'coin', payer: sealed.signer, units });
  }
  assert.equal((await tokenBalance(scene.chain, scene.token, RECEIVER)) - before, 1_000_000n);
});

test('a native payment is final success by status 1 of our own transaction', async () => {
  const { sealed } = await payOne(scene, { asset: scene.coin, amount: 5n });
  await finalize(scene);
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['final_success', 'final_success']);
});

test('an own mined transaction sent again answers "nonce too low" and is no failure (case E1)', async () => {
  const { sealed, signed } = await payOne(scene);
  await finalize(scene);
  const again = await scene.rail.send(sealed, signed);
  assert.match(again.body, /nonce too low/i);
  assert.equal(scene.rail.read(again, sealed).kind, 'in_progress');
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['final_success', 'final_success']);
});

test('the same bytes sent again while pending are known, and move money once', async () => {
  const { sealed, signed } = await payOne(scene);
  const again = await scene.rail.send(sealed, signed);
  assert.match(again.body, /already imported|already known/i);
  assert.equal(scene.rail.read(again, sealed).kind, 'in_progress');
  await finalize(scene);
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['final_success', 'final_success']);
});

test('each send of one effect goes to the next node, and is one request', async () => {
  const counts = () => scene.nodes.map((node) => node.calls['eth_sendRawTransaction'] ?? 0);
  const start = counts();
  const { sealed, signed } = await payOne(scene);
  await scene.rail.send(sealed, signed);
  assert.deepEqual(
    counts().map((count, index) => count - (start[index] ?? 0)),
    [1, 1],
  );
  await finalize(scene);
});

test('a send whose answer is lost is unreadable, is not sent again below us, and is found by a look', async () => {
  const { sealed, signed } = await withVariant(scene, await sealOne(scene), 'original');
  for (const node of scene.nodes) node.script({ method: 'eth_sendRawTransaction', fault: { kind: 'lose_answer' } });
  const start = scene.nodes.map((node) => node.calls['eth_sendRawTransaction'] ?? 0);
  const answer = await scene.rail.send(sealed, signed);
  assert.equal(answer.reach, 'request_written');
  assert.equal(scene.rail.read(answer, sealed).kind, 'unreadable');
  const sends = scene.nodes.map((node, index) => (node.calls['eth_sendRawTransaction'] ?? 0) - (start[index] ?? 0));
  assert.deepEqual(
    sends.sort((a, b) => a - b),
    [0, 1],
  );
  await finalize(scene);
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['final_success', 'final_success']);
});

test('a node that is down never got the request', async () => {
  const { sealed, signed } = await withVariant(scene, await sealOne(scene), 'original');
  for (const node of scene.nodes) await node.down();
  // A request into a connection that is just being closed may have been read: only a refused one surely was not.
  await sleep(50);
  const answer = await scene.rail.send(sealed, signed);
  assert.equal(answer.reach, 'never_connected');
  assert.equal(scene.rail.read(answer, sealed).kind, 'never_left');
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['unreadable', 'unreadable']);
  for (const node of scene.nodes) await node.up();
  await scene.rail.send(sealed, signed);
  await finalize(scene);
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['final_success', 'final_success']);
});

for (const winner of ['original', 'bump'] as const) {
  test(`after a bump the ${winner} may be the one that is mined, and either is success`, async () => {
    const first = await payOne(scene);
    const { sealed, signed } = await withVariant(scene, first.sealed, 'bump');
    assert.equal(signed.to, first.signed.to);
    assert.equal(signed.data, first.signed.data);
    assert.notEqual(signed.hash, first.signed.hash);
    if (winner === 'bump') {
      assert.equal(scene.rail.read(await scene.rail.send(sealed, signed), sealed).kind, 'in_progress');
    }
    await finalize(scene);
    const seen = await observe(scene, sealed);
    assert.deepEqual(kindsOf(seen), ['final_success', 'final_success']);
    assert.equal(seen[0]?.objectId, winner === 'bump' ? signed.hash : first.signed.hash);
  });
}

test('a mined cancel is shown as such, with its cost, and pays nobody', async () => {
  const before = await tokenBalance(scene.chain, scene.token, RECEIVER);
  const first = await payOne(scene);
  const { sealed, signed } = await withVariant(scene, first.sealed, 'cancel');
  assert.deepEqual([signed.to, signed.value, signed.data], [sealed.signer, '0', '0x']);
  assert.equal(signed.gasLimit, '21000');
  await scene.rail.send(sealed, signed);
  await scene.chain.mine(1);
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['in_progress', 'in_progress']);
  await scene.chain.mine(3);
  const seen = await observe(scene, sealed);
  assert.deepEqual(kindsOf(seen), ['cancel_mined', 'cancel_mined']);
  assert.ok((seen[0]?.cost?.units ?? 0n) > 0n);
  assert.equal(await tokenBalance(scene.chain, scene.token, RECEIVER), before);
});

test('a foreign transaction at our nonce is named by two witnesses once it is final', async () => {
  const { sealed } = await withVariant(scene, await sealOne(scene), 'original');
  const foreign = await signAs(scene.chain, scene.wallet.privateKey, {
    to: RECEIVER,
    value: 7n,
    nonce: Number(sealed.seal.nonce),
  });
  await scene.chain.rpc('eth_sendRawTransaction', [foreign]);
  await scene.chain.mine(1);
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['not_found', 'not_found']);
  await scene.chain.mine(30);
  const seen = await observe(scene, sealed);
  assert.deepEqual(kindsOf(seen), ['spent_by_other', 'spent_by_other']);
  assert.deepEqual(
    seen.map((one) => [one.objectId, one.witness]),
    [
      [keccak256(foreign), true],
      [keccak256(foreign), true],
    ],
  );
});

test('our own cancel is no foreign use of the nonce, also when the node first shows no receipt of it', async () => {
  const first = await payOne(scene);
  const { sealed, signed } = await withVariant(scene, first.sealed, 'cancel');
  await scene.rail.send(sealed, signed);
  await finalize(scene);
  // The receipts of both variants are asked first; the one of whoever spent the nonce comes after, and is there.
  const method = 'eth_getTransactionReceipt';
  for (const node of scene.nodes) node.script({ method, hitsMax: 2, fault: { kind: 'forget' } });
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['unreadable', 'unreadable']);
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['cancel_mined', 'cancel_mined']);
});

test('our payload under a foreign hash is judged like our own variant', async () => {
  const { sealed } = await withVariant(scene, await sealOne(scene), 'original');
  const data = transferData(RECEIVER, 1_000_000n);
  const nonce = Number(sealed.seal.nonce);
  const copy = await signAs(scene.chain, scene.wallet.privateKey, {
    to: scene.token,
    data,
    nonce,
    maxFeePerGas: 33n * GWEI,
  });
  await scene.chain.rpc('eth_sendRawTransaction', [copy]);
  await finalize(scene);
  const seen = await observe(scene, sealed);
  assert.deepEqual(kindsOf(seen), ['final_success', 'final_success']);
  assert.equal(seen[0]?.objectId, keccak256(copy));
});

test('our payload under a foreign hash that reverted is a revert, never a success', async () => {
  const { sealed } = await withVariant(scene, await sealOne(scene), 'original');
  const data = transferData(RECEIVER, 1_000_000n);
  const nonce = Number(sealed.seal.nonce);
  const copy = await signAs(scene.chain, scene.wallet.privateKey, { to: scene.token, data, nonce, gas: 24_000n });
  await scene.chain.rpc('eth_sendRawTransaction', [copy]);
  await finalize(scene);
  const seen = await observe(scene, sealed);
  assert.deepEqual(kindsOf(seen), ['reverted_final', 'reverted_final']);
  assert.equal(seen[0]?.objectId, keccak256(copy));
});

test('a reorganisation makes an included payment vanish, and the same bytes go again (case F7)', async () => {
  const { sealed, signed } = await payOne(scene);
  await scene.chain.mine(1);
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['included', 'included']);
  await scene.chain.rpc('anvil_reorg', [1, []]);
  await scene.chain.rpc('anvil_dropTransaction', [signed.hash]);
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['not_found', 'not_found']);
  assert.equal(scene.rail.read(await scene.rail.send(sealed, signed), sealed).kind, 'in_progress');
  await finalize(scene);
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['final_success', 'final_success']);
});

test('a payee that is blacklisted after the seal reverts: in progress first, final then, with the cause (case E8)', async () => {
  const { sealed } = await payOne(scene);
  await scene.chain.rpc('anvil_dropTransaction', [sealed.variants[0]?.hash ?? '']);
  await changeToken(scene, 'blacklist', [RECEIVER, true]);
  const [variant] = sealed.variants;
  assert.ok(variant);
  await scene.rail.send(sealed, variant);
  await scene.chain.mine(1);
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['in_progress', 'in_progress']);
  await scene.chain.mine(3);
  const seen = await observe(scene, sealed);
  assert.deepEqual(kindsOf(seen), ['reverted_final', 'reverted_final']);
  assert.match(seen[0]?.detail ?? '', /blacklisted/);
  assert.ok((seen[0]?.cost?.units ?? 0n) > 0n);
  await changeToken(scene, 'blacklist', [RECEIVER, false]);
});

test('a payment that ran out of gas says so', async () => {
  const sealed = await sealOne(scene);
  const short = { ...sealed, plan: { ...sealed.plan, gasLimit: '24000' } };
  const { sealed: signedEffect, signed } = await withVariant(scene, short, 'original');
  await scene.rail.send(signedEffect, signed);
  await finalize(scene);
  const seen = await observe(scene, signedEffect);
  assert.deepEqual(kindsOf(seen), ['reverted_final', 'reverted_final']);
  assert.match(seen[0]?.detail ?? '', /out of gas/);
});

test('a token that answers false moved nothing: status 1 is not success (case H2)', async () => {
  const { sealed, signed } = await withVariant(scene, await sealOne(scene), 'original');
  await changeToken(scene, 'setLies', [true]);
  await scene.rail.send(sealed, signed);
  await finalize(scene);
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['moved_otherwise', 'moved_otherwise']);
  await changeToken(scene, 'setLies', [false]);
});

test('a node behind the seal is no witness, and a lagging answer is never absence (case F1)', async () => {
  await scene.chain.mine(6);
  const { sealed } = await payOne(scene);
  await finalize(scene);
  scene.nodes[1].lagBy(8);
  const seen = await observe(scene, sealed);
  assert.deepEqual(kindsOf(seen), ['final_success', 'not_found']);
  assert.deepEqual(
    seen.map((one) => one.witness),
    [true, false],
  );
  assert.match(seen[1]?.detail ?? '', /behind/);
});

test('a node of another chain is not used, and what it shows is unreadable', async () => {
  const liar = await startEvmProxy({ upstream: scene.chain.url });
  liar.claimChain(1);
  const rail = railOn([liar.url]);
  const { sealed } = await payOne(scene);
  await finalize(scene);
  assert.deepEqual(kindsOf(await observe(scene, sealed, rail)), ['unreadable']);
  const verdicts = await rail.plan([sealed], { inFlight: [], openPerSigner: new Map() });
  assert.deepEqual(
    verdicts.map((one) => one.verdict === 'wait' && [one.reason, one.alert]),
    [['WRONG_CHAIN', true]],
  );
  await rail.close();
  await liar.stop();
});

test('a wrong genesis makes a node unusable although the chain id is right', async () => {
  const rail = railOn([scene.nodes[0].url], { genesisHash: `0x${'11'.repeat(32)}` });
  const { sealed } = await payOne(scene);
  await finalize(scene);
  assert.deepEqual(kindsOf(await observe(scene, sealed, rail)), ['unreadable']);
  await rail.close();
});

test('stale, HTML, garbled, throttled and indexing nodes say nothing', async () => {
  const { sealed } = await payOne(scene);
  await finalize(scene);
  const [node] = scene.nodes;
  const faults = [
    [{ kind: 'garble', how: 'html' }, 'unreadable'],
    [{ kind: 'garble', how: 'truncated' }, 'unreadable'],
    [{ kind: 'garble', how: 'wrong_id' }, 'unreadable'],
    [{ kind: 'garble', how: 'empty' }, 'unreadable'],
    [{ kind: 'half_answer' }, 'unreadable'],
    [{ kind: 'lose_answer' }, 'unreadable'],
    [{ kind: 'http', status: 429 }, 'blocked'],
    [{ kind: 'http', status: 403 }, 'blocked'],
    [{ kind: 'http', status: 502 }, 'blocked'],
  ] as const;
  for (const [fault, expected] of faults) {
    node.script({ fault });
    assert.equal((await observe(scene, sealed))[0]?.kind, expected, JSON.stringify(fault));
    node.heal();
  }
  const method = 'eth_getTransactionReceipt';
  node.script({ method, fault: { kind: 'rpc_error', code: -32000, message: 'transaction indexing is in progress' } });
  assert.equal((await observe(scene, sealed))[0]?.kind, 'unreadable');
  node.heal();
  node.script({ method, fault: { kind: 'forget' } });
  const forgetful = (await observe(scene, sealed))[0];
  assert.equal(forgetful?.kind, 'unreadable');
  assert.match(forgetful?.detail ?? '', /index has gaps/);
  node.heal();
  node.script({ method, fault: { kind: 'drop_item_answer' } });
  assert.equal((await observe(scene, sealed))[0]?.kind, 'unreadable');
});

test('a node without finalized blocks shows nothing: there is no falling back to the head', async () => {
  const { sealed } = await payOne(scene);
  await finalize(scene);
  scene.nodes[0].script({
    method: 'eth_getBlockByNumber',
    when: (params) => Array.isArray(params) && params[0] === 'finalized',
    fault: { kind: 'rpc_error', code: -39001, message: 'finalized block not found' },
  });
  assert.deepEqual(kindsOf(await observe(scene, sealed)), ['unreadable', 'final_success']);
});

test('finality by depth counts blocks', async () => {
  const rail = railOn([scene.nodes[0].url], { finality: { depth: 10 } });
  const { sealed } = await payOne(scene);
  await finalize(scene);
  assert.deepEqual(kindsOf(await observe(scene, sealed, rail)), ['included']);
  await scene.chain.mine(10);
  assert.deepEqual(kindsOf(await observe(scene, sealed, rail)), ['final_success']);
  await rail.close();
});

test('many effects are looked at in one go, each for itself', async () => {
  const first = await payOne(scene);
  await scene.chain.mine(1);
  const second = await payOne(scene);
  await finalize(scene);
  const third = await withVariant(scene, await sealOne(scene), 'original');
  const all = [first.sealed, second.sealed, third.sealed];
  const answers = await scene.rail.look(all);
  const kinds = all.map((sealed, index) =>
    kindsOf((answers[index] ?? []).map((answer) => scene.rail.read(answer, sealed))),
  );
  assert.deepEqual(kinds, [
    ['final_success', 'final_success'],
    ['final_success', 'final_success'],
    ['not_found', 'not_found'],
  ]);
});

test('a contract call succeeds by the logs that were named', async () => {
  const spender: Address = '0x00000000000000000000000000000000000000be';
  const data = encodeFunctionData({ abi: testToken.abi, functionName: 'approve', args: [spender, 5n] });
  const topics = ['0x8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925', null, null];
  const log = { address: scene.token.toLowerCase(), topics, minimumWord: 0, minimum: 5n };
  const call = { to: scene.token.toLowerCase(), data, value: 0n, logs: [log] };
  const good = await payOne(scene, { call });
  await scene.chain.mine(1);
  const asked = await payOne(scene, { call: { ...call, logs: [{ ...log, minimum: 6n }] } });
  await finalize(scene);
  assert.deepEqual(kindsOf(await observe(scene, good.sealed)), ['final_success', 'final_success']);
  assert.deepEqual(kindsOf(await observe(scene, asked.sealed)), ['moved_otherwise', 'moved_otherwise']);
});

test('the survey shows the highest count of any node', async () => {
  scene.nodes[0].lagBy(40);
  const count = await scene.chain.rpc('eth_getTransactionCount', [scene.wallet.address, 'latest']);
  const survey = await scene.rail.survey?.([scene.wallet.address.toLowerCase()]);
  assert.deepEqual(survey, [{ signer: scene.wallet.address.toLowerCase(), nonceHead: BigInt(count as string) }]);
});
