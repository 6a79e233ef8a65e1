/*
 * Goal: the deposit scanner gets whole blocks or a fault, never a part that looks whole. Method: blocks with several kinds of
 * transfers on a real chain, through a node that leaves things out.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { encodeFunctionData, type Hex } from 'viem';
import { batch } from '../../sim/contracts/artifacts.ts';
import { deployBatch, sendAs, signAs, transferData } from '../../sim/evm-send.ts';
import type { BlockReader } from '../../src/rails/evm/index.ts';
import { bloomOf } from '../../src/rails/evm/bloom.ts';
import { railOn, RECEIVER, type Scene, startScene } from './evm-scene.ts';

let scene: Scene;
let reader: BlockReader;
let other: BlockReader;
/** A block with a token transfer, a native one, and a multi-send that failed as a whole. */
let full: bigint;

before(async () => {
  scene = await startScene();
  const payer = await deployBatch(scene.chain, scene.owner.privateKey);
  const key = scene.wallet.privateKey;
  const nonce = Number(await scene.chain.rpc('eth_getTransactionCount', [scene.wallet.address, 'latest']));
  await sendAs(scene.chain, key, { to: scene.token, data: transferData(RECEIVER, 4n), nonce });
  await sendAs(scene.chain, key, { to: RECEIVER, value: 9n, nonce: nonce + 1 });
  const data = encodeFunctionData({
    abi: batch.abi,
    functionName: 'payNative',
    args: [[RECEIVER, RECEIVER], [1n, 1n], true],
  });
  await sendAs(scene.chain, key, { to: payer, value: 2n, data, nonce: nonce + 2 });
  await scene.chain.mine(1);
  full = BigInt((await scene.chain.rpc('eth_blockNumber', [])) as Hex);
  await scene.chain.mine(3);
  const [first, second] = scene.rail.blocks;
  assert.ok(first && second);
  reader = first;
  other = second;
});
after(async () => scene.stop());
afterEach(() => {
  for (const node of scene.nodes) node.heal();
});

const faultsOf = (reads: readonly { ok: boolean; fault?: string }[]) =>
  reads.map((read) => (read.ok ? 'whole' : (read.fault ?? '')));

test('a block comes whole: transactions in order, each with its own receipt', async () => {
  const [read] = await reader.readBlocks([full]);
  assert.ok(read?.ok);
  const block = read.value;
  assert.equal(block.transactions.length, 3);
  const [token, coin, failed] = block.transactions;
  assert.ok(token && coin && failed);
  assert.deepEqual([token.receipt.succeeded, coin.receipt.succeeded, failed.receipt.succeeded], [true, true, false]);
  assert.deepEqual([coin.to, coin.value, coin.receipt.logs.length], [RECEIVER, 9n, 0]);
  assert.equal(token.receipt.logs[0]?.address, scene.token.toLowerCase());
  assert.equal(BigInt(token.receipt.logs[0]?.data ?? 0), 4n);
  for (const one of block.transactions) {
    assert.equal(one.receipt.hash, one.hash);
    assert.equal(one.receipt.blockHash, block.hash);
    assert.equal(one.from, scene.wallet.address.toLowerCase());
  }
});

test('blocks of a range are linked, in order, and the same from both nodes', async () => {
  const numbers = [full - 1n, full, full + 1n];
  const [mine, theirs] = await Promise.all([reader.readBlocks(numbers), other.readBlocks(numbers)]);
  assert.deepEqual(mine, theirs);
  const blocks = mine.map((read) => (read.ok ? read.value : assert.fail(read.fault)));
  assert.deepEqual(
    blocks.map((block) => block.number),
    numbers,
  );
  assert.equal(blocks[1]?.parentHash, blocks[0]?.hash);
  assert.equal(blocks[2]?.parentHash, blocks[1]?.hash);
});

test('the finalized head is two behind the latest here, and a block that is not there is a fault', async () => {
  const [final, latest] = [await reader.finalizedHead(), await reader.latestHead()];
  assert.ok(final.ok && latest.ok);
  assert.equal(latest.value.number - final.value.number, 2n);
  const reads = await reader.readBlocks([full, latest.value.number + 5n]);
  assert.match(faultsOf(reads)[0] ?? '', /whole/);
  assert.match(faultsOf(reads)[1] ?? '', /no such thing/);
});

test('without a finalized block there is no finalized head', async () => {
  scene.nodes[0].script({
    method: 'eth_getBlockByNumber',
    when: (params) => Array.isArray(params) && params[0] === 'finalized',
    fault: { kind: 'invent', result: null },
  });
  const final = await reader.finalizedHead();
  assert.equal(final.ok, false);
});

test('receipts that a node leaves out make the block a fault, not an empty block (case F3)', async () => {
  scene.nodes[0].script({ method: 'eth_getBlockReceipts', fault: { kind: 'invent', result: [] } });
  assert.match(faultsOf(await reader.readBlocks([full]))[0] ?? '', /0 receipts for 3/);
});

test('a log that a node leaves out is missed in the bloom (case F3)', async () => {
  const whole = (await scene.chain.rpc('eth_getBlockReceipts', [`0x${full.toString(16)}`])) as Record<string, Hex>[];
  const result = whole.map((receipt, index) => (index === 0 ? { ...receipt, logs: [] } : receipt));
  scene.nodes[0].script({ method: 'eth_getBlockReceipts', fault: { kind: 'invent', result } });
  assert.match(faultsOf(await reader.readBlocks([full]))[0] ?? '', /bloom/);
});

test('receipts of another block are not taken for this one', async () => {
  const result = await scene.chain.rpc('eth_getBlockReceipts', [`0x${full.toString(16)}`]);
  const raw = await signAs(scene.chain, scene.wallet.privateKey, { to: RECEIVER, value: 1n });
  await scene.chain.rpc('eth_sendRawTransaction', [raw]);
  await scene.chain.mine(1);
  const next = BigInt((await scene.chain.rpc('eth_blockNumber', [])) as Hex);
  assert.ok(Array.isArray(result));
  scene.nodes[0].script({ method: 'eth_getBlockReceipts', fault: { kind: 'invent', result: result.slice(0, 1) } });
  assert.match(faultsOf(await reader.readBlocks([next]))[0] ?? '', /another transaction or block/);
});

test('a node without receipts by block is read transaction by transaction', async () => {
  scene.nodes[1].script({
    method: 'eth_getBlockReceipts',
    fault: {
      kind: 'rpc_error',
      code: -32601,
      message: 'the method eth_getBlockReceipts does not exist/is not available',
    },
  });
  const rail = railOn([scene.nodes[1].url]);
  const [single] = rail.blocks;
  const numbers = [full - 1n, full];
  assert.deepEqual(await single?.readBlocks(numbers), await reader.readBlocks(numbers));
  await rail.close();
});

test('a batch that a node refuses is halved, and one bad block spoils only itself', async () => {
  const numbers = [full - 1n, full, full + 1n];
  scene.nodes[0].script({ fault: { kind: 'http', status: 502 }, method: 'eth_getBlockByNumber', hitsMax: 1 });
  assert.deepEqual(faultsOf(await reader.readBlocks(numbers)), ['whole', 'whole', 'whole']);
  scene.nodes[0].heal();
  scene.nodes[0].script({
    method: 'eth_getBlockByNumber',
    when: (params) => Array.isArray(params) && params[0] === `0x${full.toString(16)}`,
    fault: { kind: 'rpc_error', code: -32000, message: 'block is pruned' },
  });
  const faults = faultsOf(await reader.readBlocks(numbers));
  assert.deepEqual([faults[0], faults[2]], ['whole', 'whole']);
  assert.match(faults[1] ?? '', /pruned/);
});

test('a node that is down, or of another chain, gives faults and no blocks', async () => {
  scene.nodes[0].script({ fault: { kind: 'garble', how: 'html' } });
  assert.match(faultsOf(await reader.readBlocks([full]))[0] ?? '', /./);
  assert.equal((await reader.readBlocks([full]))[0]?.ok, false);
  scene.nodes[0].heal();
  const rail = railOn([scene.nodes[0].url], { chainId: 1n });
  assert.match(faultsOf((await rail.blocks[0]?.readBlocks([full])) ?? [])[0] ?? '', /another chain/);
  await rail.close();
});

test('the bloom of no logs is empty', () => {
  assert.equal(bloomOf([]), `0x${'00'.repeat(256)}`);
});
