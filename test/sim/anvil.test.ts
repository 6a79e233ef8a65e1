/*
 * Goal: the test chain can be trusted as a scene. It starts as a direct child, mines when told, keeps its past, and dies
 * with its parent whatever kills that. Method: real chains, and a parent process that is really killed.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, test } from 'node:test';
import { encodeFunctionData } from 'viem';
import { type Anvil, startAnvil } from '../../sim/anvil.ts';
import { batch, testToken } from '../../sim/contracts/artifacts.ts';
import {
  deployBatch,
  deployToken,
  mintTokens,
  nativeBalance,
  sendAndMine,
  sendAs,
  tokenBalance,
  transferData,
  waitForReceipt,
} from '../../sim/evm-send.ts';
import { isObject } from '../../sim/json-rpc.ts';

const UNIT = 1_000_000n;
let chain: Anvil;

function account(index: number): Anvil['accounts'][number] {
  const found = chain.accounts[index];
  assert.ok(found);
  return found;
}

before(async () => {
  chain = await startAnvil();
});
after(async () => chain.stop());

test('the chain answers with its id, final is two blocks behind, and past nonces can be read', async () => {
  assert.equal(await chain.rpc('eth_chainId', []), '0x7a69');
  const past = await chain.rpc('eth_blockNumber', []);
  await sendAndMine(chain, account(9).privateKey, { to: account(8).address, value: 1n });
  await chain.mine(200);
  const [head, final] = await Promise.all(
    ['latest', 'finalized'].map(async (tag) => chain.rpc('eth_getBlockByNumber', [tag, false])),
  );
  assert.ok(isObject(head) && isObject(final));
  assert.equal(Number(head.number) - Number(final.number), 2);
  assert.equal(await chain.rpc('eth_getTransactionCount', [account(9).address, past ?? null]), '0x0');
  assert.equal(await chain.rpc('eth_getTransactionCount', [account(9).address, 'finalized']), '0x1');
});

test('the test token returns nothing or a bool, reverts for listed addresses, and lies on request', async () => {
  const owner = account(0);
  const [holder, receiver] = [account(1), account(2)];
  const token = await deployToken(chain, owner.privateKey, { decimals: 6 });
  await mintTokens(chain, owner.privateKey, token, holder.address, 10n * UNIT);
  const ask = async (): Promise<unknown> =>
    chain.rpc('eth_call', [{ from: holder.address, to: token, data: transferData(receiver.address, UNIT) }, 'latest']);
  const tell = async (name: 'setReturnsBool' | 'setLies', yes: boolean): Promise<unknown> => {
    const data = encodeFunctionData({ abi: testToken.abi, functionName: name, args: [yes] });
    return sendAndMine(chain, owner.privateKey, { to: token, data });
  };
  assert.equal(await ask(), '0x');
  await tell('setReturnsBool', true);
  assert.equal(Number(await ask()), 1);

  await tell('setLies', true);
  assert.equal(Number(await ask()), 0);
  const lie = await sendAndMine(chain, holder.privateKey, { to: token, data: transferData(receiver.address, UNIT) });
  assert.deepEqual([lie.status, lie.logs], ['0x1', []]);
  await tell('setLies', false);
  await sendAndMine(chain, holder.privateKey, { to: token, data: transferData(receiver.address, UNIT) });
  assert.equal(await tokenBalance(chain, token, receiver.address), UNIT);

  const data = encodeFunctionData({ abi: testToken.abi, functionName: 'blacklist', args: [receiver.address, true] });
  await sendAndMine(chain, owner.privateKey, { to: token, data });
  await assert.rejects(ask, /blacklisted/);
});

test('the batch contract pays everyone or, told to fail at its last step, nobody', async () => {
  const payer = account(3);
  const contract = await deployBatch(chain, payer.privateKey);
  const to = [account(4).address, account(5).address];
  const native = (failLast: boolean): `0x${string}` =>
    encodeFunctionData({ abi: batch.abi, functionName: 'payNative', args: [to, [1n, 2n], failLast] });
  const had = await nativeBalance(chain, account(5).address);
  await assert.rejects(
    sendAndMine(chain, payer.privateKey, { to: contract, value: 3n, data: native(true) }),
    /reverted/,
  );
  assert.equal(await nativeBalance(chain, account(5).address), had);
  await sendAndMine(chain, payer.privateKey, { to: contract, value: 3n, data: native(false) });
  assert.equal(await nativeBalance(chain, account(5).address), had + 2n);

  const token = await deployToken(chain, payer.privateKey);
  await mintTokens(chain, payer.privateKey, token, payer.address, 10n);
  const allow = encodeFunctionData({ abi: testToken.abi, functionName: 'approve', args: [contract, 10n] });
  await sendAndMine(chain, payer.privateKey, { to: token, data: allow });
  const pay = encodeFunctionData({ abi: batch.abi, functionName: 'payToken', args: [token, to, [3n, 4n], false] });
  await sendAndMine(chain, payer.privateKey, { to: contract, data: pay });
  assert.equal(await tokenBalance(chain, token, account(5).address), 4n);
});

test('a transaction waits for the block that is mined by hand', async () => {
  const slow = await startAnvil({ mining: 'manual' });
  try {
    const hash = await sendAs(slow, account(6).privateKey, { to: account(7).address, value: 5n });
    assert.equal(await slow.rpc('eth_getTransactionReceipt', [hash]), null);
    await slow.mine(1);
    assert.equal((await waitForReceipt(slow, hash)).blockNumber, '0x1');
  } finally {
    await slow.stop();
  }
});

test('with ticks a transaction is mined by time, and blocks come without transactions', async () => {
  const ticking = await startAnvil({ mining: 'ticks', blockTimeSec: 0.2, chainId: 4_242 });
  try {
    assert.equal(await ticking.rpc('eth_chainId', []), '0x1092');
    const hash = await sendAs(ticking, account(6).privateKey, { to: account(7).address, value: 5n });
    const mined = Number((await waitForReceipt(ticking, hash)).blockNumber);
    const height = async (): Promise<number> => Number(await ticking.rpc('eth_blockNumber', []));
    for (let tries = 0; (await height()) < mined + 2 && tries < 100; tries++) await sleep(50);
    assert.ok((await height()) >= mined + 2);
  } finally {
    await ticking.stop();
  }
});

test('a chain with a state file continues where it was stopped', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'payonce-anvil-'));
  try {
    const stateFile = join(folder, 'chain.json');
    const first = await startAnvil({ stateFile });
    const receipt = await sendAndMine(first, account(6).privateKey, { to: account(7).address, value: 5n });
    await first.stop();
    const second = await startAnvil({ stateFile });
    const again = await second.rpc('eth_getTransactionReceipt', [receipt.transactionHash ?? null]);
    assert.ok(isObject(again));
    assert.equal(again.blockHash, receipt.blockHash);
    await second.stop();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('a chain with a state file and a block time goes on from a final block after a SIGKILL, also a big one', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'payonce-anvil-'));
  try {
    const stateFile = join(folder, 'chain.gz');
    const first = await startAnvil({ stateFile, mining: 'ticks', blockTimeSec: 0.05 });
    // More than the 2 MB that a request may have by itself.
    await first.rpc('anvil_setCode', [account(5).address, `0x${randomBytes(1_500_000).toString('hex')}`]);
    const hash = await sendAs(first, account(6).privateKey, { to: account(7).address, value: 5n });
    const receipt = await waitForReceipt(first, hash);
    const isFinal = async (): Promise<boolean> => {
      const final = await first.rpc('eth_getBlockByNumber', ['finalized', false]);
      return isObject(final) && Number(final.number) >= Number(receipt.blockNumber);
    };
    while (!(await isFinal())) await sleep(10);
    process.kill(first.pid, 'SIGKILL');
    await first.stop();
    const second = await startAnvil({ stateFile });
    const again = await second.rpc('eth_getTransactionReceipt', [hash]);
    assert.ok(isObject(again));
    assert.equal(again.blockHash, receipt.blockHash);
    await second.stop();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('the chain dies with a parent that got SIGKILL', async () => {
  const anvil = new URL('../../sim/anvil.ts', import.meta.url).href;
  const script = `import { startAnvil } from ${JSON.stringify(anvil)};
    console.log((await startAnvil()).pid);
    setTimeout(() => {}, 60_000);`;
  const parent = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = (await once(parent.stdout, 'data')) as [Buffer];
  const pid = Number(line.toString());
  assert.ok(isAlive(pid));
  parent.kill('SIGKILL');
  await once(parent, 'exit');
  for (let tries = 0; isAlive(pid) && tries < 100; tries++) await sleep(50);
  assert.equal(isAlive(pid), false);
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

test('an unreachable port is said, with what to do', async () => {
  const taken = Number(new URL(chain.url).port);
  await assert.rejects(startAnvil({ port: taken }), /in use.*choose another one/);
});
