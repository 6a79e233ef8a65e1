/*
 * Goal: the oracle tells what really moved on the chain: nothing invented, nothing left out, nothing twice. Method: known
 * acts on a real anvil, then the books compared line by line, and their sums with the chain's own balances.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Address, encodeFunctionData } from 'viem';
import { type Anvil, startAnvil } from '../../sim/anvil.ts';
import { batch, testToken } from '../../sim/contracts/artifacts.ts';
import { type EvmMovement, makeEvmBooks } from '../../sim/evm-books.ts';
import { deployBatch, deployToken, mintTokens, sendAndMine, sendAs, signAs, transferData } from '../../sim/evm-send.ts';
import { netOf, type RailBooks } from '../../sim/oracle.ts';

const START_WEI = 10_000n * 10n ** 18n;
let chain: Anvil;
let token: Address;
let stranger: Address;
let contract: Address;
let books: RailBooks<EvmMovement>;

function account(index: number): Anvil['accounts'][number] {
  const found = chain.accounts[index];
  assert.ok(found);
  return found;
}
const lower = (index: number): string => account(index).address.toLowerCase();

before(async () => {
  chain = await startAnvil({ historyBlocks: 4 });
  const owner = account(0).privateKey;
  token = await deployToken(chain, owner);
  stranger = await deployToken(chain, owner);
  contract = await deployBatch(chain, owner);
  books = await makeEvmBooks({ url: chain.url, tokens: [token] });
});
after(async () => chain.stop());

test('tokens, native value and value inside a contract call are all in the books, once', async () => {
  const owner = account(0).privateKey;
  await mintTokens(chain, owner, token, account(1).address, 100n);
  await mintTokens(chain, owner, stranger, account(1).address, 100n);
  await sendAndMine(chain, account(1).privateKey, { to: token, data: transferData(account(2).address, 30n) });
  await sendAndMine(chain, account(1).privateKey, { to: account(3).address, value: 7n });
  const to = [account(4).address, account(5).address];
  const pay = encodeFunctionData({ abi: batch.abi, functionName: 'payNative', args: [to, [1n, 2n], false] });
  await sendAndMine(chain, account(1).privateKey, { to: contract, value: 3n, data: pay });
  await chain.mine(10);

  const lines = (await books.movements()).map(({ from, to, asset, amount, nonce }) => [from, to, asset, amount, nonce]);
  const [one, two, usdt, box] = [lower(1), lower(2), token.toLowerCase(), contract.toLowerCase()];
  assert.deepEqual(lines, [
    [`0x${'0'.repeat(40)}`, one, usdt, 100n, 3],
    [one, two, usdt, 30n, 0],
    [one, lower(3), 'native', 7n, 1],
    [one, box, 'native', 3n, 2],
    [box, lower(4), 'native', 1n, 2],
    [box, lower(5), 'native', 2n, 2],
  ]);
  const all = await books.movements();
  assert.equal(new Set(all.map((movement) => movement.id)).size, all.length);
  assert.ok(all.every((movement) => movement.final && movement.rail === 'eip155:31337'));
});

test('reverted and lying transactions move nothing and still cost gas', async () => {
  const had = (await books.movements()).length;
  const costs = (await books.costs()).length;
  const owner = account(0).privateKey;
  const fail = encodeFunctionData({
    abi: batch.abi,
    functionName: 'payNative',
    args: [[account(4).address], [3n], true],
  });
  await assert.rejects(sendAndMine(chain, account(1).privateKey, { to: contract, value: 3n, data: fail }), /reverted/);
  const lie = (yes: boolean): `0x${string}` =>
    encodeFunctionData({ abi: testToken.abi, functionName: 'setLies', args: [yes] });
  await sendAndMine(chain, owner, { to: token, data: lie(true) });
  await sendAndMine(chain, account(1).privateKey, { to: token, data: transferData(account(2).address, 30n) });
  await sendAndMine(chain, owner, { to: token, data: lie(false) });
  assert.equal((await books.movements()).length, had);
  assert.equal((await books.costs()).length, costs + 4);
});

test('the sums of the books are the balances of the chain, to the unit (inv I2)', async () => {
  const [movements, costs] = [await books.movements(), await books.costs()];
  for (const index of [0, 1, 2, 3, 4, 5]) {
    const holder = lower(index);
    assert.equal(START_WEI + netOf(movements, costs, holder, 'native'), await books.balance(holder, 'native'));
    const asset = token.toLowerCase();
    assert.equal(netOf(movements, costs, holder, asset), await books.balance(holder, asset));
  }
});

test('a movement is not final in a fresh block, becomes final, and is gone after a reorg', async () => {
  const watched = await makeEvmBooks({ url: chain.url, tokens: [token], watch: [account(7).address] });
  const finals = async (): Promise<boolean[]> => (await watched.movements()).map((movement) => movement.final);
  assert.deepEqual(await finals(), []);
  await sendAndMine(chain, account(6).privateKey, { to: account(7).address, value: 1n });
  assert.deepEqual(await finals(), [false]);
  await chain.mine(2);
  assert.deepEqual(await finals(), [true]);

  await sendAndMine(chain, account(6).privateKey, { to: account(7).address, value: 2n });
  await chain.mine(1);
  assert.deepEqual(await finals(), [true, false]);
  await chain.rpc('anvil_reorg', [2, []]);
  assert.deepEqual(await finals(), [true]);
});

test('two transactions of one nonce: only the one that was mined is in the books', async () => {
  const slow = await startAnvil({ mining: 'manual' });
  const own = await makeEvmBooks({ url: slow.url, tokens: [] });
  const [payer, receiver] = [account(1), account(2)];
  const gwei = 1_000_000_000n;
  const bump = { to: receiver.address, value: 5n, nonce: 0, maxFeePerGas: 40n * gwei, maxPriorityFeePerGas: 4n * gwei };
  await sendAs(slow, payer.privateKey, { to: receiver.address, value: 5n, nonce: 0 });
  await slow.rpc('eth_sendRawTransaction', [await signAs(slow, payer.privateKey, bump)]);
  await slow.mine(1);
  assert.deepEqual(
    (await own.movements()).map(({ amount, signer, nonce }) => [amount, signer, nonce]),
    [[5n, lower(1), 0]],
  );
  await slow.stop();
});
