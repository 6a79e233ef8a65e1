/*
 * Goal: the recorded answers of anvil are what it really says. Method: variants that a pool refuses, each for its own reason,
 * sent to a running node.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { keccak256, type Hex } from 'viem';
import { generatePrivateKey } from 'viem/accounts';
import { type PlainTransaction, signAs } from '../../sim/evm-send.ts';
import { postRpcRaw } from '../../sim/json-rpc.ts';
import { readSendAnswer } from '../../src/rails/evm/answers.ts';
import { RECEIVER, type Scene, startScene } from './evm-scene.ts';

let scene: Scene;

before(async () => {
  scene = await startScene();
});
after(async () => scene.stop());

async function send(raw: Hex): Promise<string> {
  const [outcome] = await postRpcRaw(scene.chain.url, [{ method: 'eth_sendRawTransaction', params: [raw] }]);
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, ...outcome });
  const reading = readSendAnswer({ reach: 'answer', status: 200, body }, keccak256(raw));
  return `${reading.kind}, ${reading.advice}`;
}

const pay = (plain: PlainTransaction, key = scene.wallet.privateKey) =>
  signAs(scene.chain, key, { to: RECEIVER, value: 1n, nonce: 0, gas: 21_000n, ...plain });

test('anvil says of each refused variant what is recorded of it', async () => {
  const first = await pay({});
  assert.equal(await send(first), 'in_progress, wait');
  assert.equal(await send(first), 'in_progress, wait');
  assert.equal(await send(await pay({ value: 2n })), 'in_progress, bump');
  assert.equal(await send(await pay({ nonce: 1, maxFeePerGas: 1n, maxPriorityFeePerGas: 1n })), 'blocked, bump');
  assert.equal(await send(await pay({ nonce: 1, gas: 20_000n })), 'blocked, bump');
  assert.equal(await send(await pay({ nonce: 0 }, generatePrivateKey())), 'blocked, fund');
  await scene.chain.mine(1);
  assert.equal(await send(first), 'in_progress, wait');
});
