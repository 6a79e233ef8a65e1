/*
 * Setting the scene on a test chain: deploy the test contracts, move coins and tokens as somebody. Always straight to the
 * chain, never through a fault proxy, so that what a test prepares is certain. No part of Payonce sends this way: here the
 * nonce is the node's and a failure throws.
 */
import { type Address, encodeDeployData, encodeFunctionData, getContractAddress, type Hex, hexToBigInt } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Anvil } from './anvil.ts';
import { batch, multiSend, swapAndAllocate, testToken } from './contracts/artifacts.ts';
import { isObject, type JsonObject } from './json-rpc.ts';

/** Twice the longest block time that anyone sets. */
const RECEIPT_WAIT_MS = 30_000;
const RECEIPT_POLL_MS = 20;
/** Enough for every test contract's deployment and for a batch of 100. */
const GAS_LIMIT = 6_000_000n;
const GWEI = 1_000_000_000n;

export type PlainTransaction = {
  readonly to?: Address;
  readonly value?: bigint;
  readonly data?: Hex;
  readonly nonce?: number;
  readonly gas?: bigint;
  readonly maxFeePerGas?: bigint;
  readonly maxPriorityFeePerGas?: bigint;
};

/** The signed bytes, for tests that send them where and when they like. */
export async function signAs(chain: Anvil, privateKey: Hex, plain: PlainTransaction): Promise<Hex> {
  const account = privateKeyToAccount(privateKey);
  const nonce = plain.nonce ?? Number(await chain.rpc('eth_getTransactionCount', [account.address, 'pending']));
  return account.signTransaction({
    type: 'eip1559',
    chainId: chain.chainId,
    nonce,
    gas: plain.gas ?? GAS_LIMIT,
    maxFeePerGas: plain.maxFeePerGas ?? 20n * GWEI,
    maxPriorityFeePerGas: plain.maxPriorityFeePerGas ?? GWEI,
    ...(plain.to === undefined ? {} : { to: plain.to }),
    ...(plain.value === undefined ? {} : { value: plain.value }),
    ...(plain.data === undefined ? {} : { data: plain.data }),
  });
}

/** Sends and returns the hash at once; the transaction may not be in a block yet. */
export async function sendAs(chain: Anvil, privateKey: Hex, plain: PlainTransaction): Promise<Hex> {
  return (await chain.rpc('eth_sendRawTransaction', [await signAs(chain, privateKey, plain)])) as Hex;
}

/** Sends and waits for the receipt; throws when it says that the transaction reverted. */
export async function sendAndMine(chain: Anvil, privateKey: Hex, plain: PlainTransaction): Promise<JsonObject> {
  const hash = await sendAs(chain, privateKey, plain);
  if (chain.mining === 'manual') await chain.mine(1);
  const receipt = await waitForReceipt(chain, hash);
  if (receipt.status !== '0x1') throw new Error(`${hash} reverted; ask the chain for its trace`);
  return receipt;
}

export async function waitForReceipt(chain: Anvil, hash: Hex): Promise<JsonObject> {
  const startedAt = performance.now();
  while (performance.now() - startedAt < RECEIPT_WAIT_MS) {
    const receipt = await chain.rpc('eth_getTransactionReceipt', [hash]);
    if (isObject(receipt)) return receipt;
    await sleep(RECEIPT_POLL_MS);
  }
  throw new Error(`no receipt of ${hash} within ${RECEIPT_WAIT_MS} ms: is anything mining?`);
}

export type TokenWords = { readonly name?: string; readonly symbol?: string; readonly decimals?: number };

export async function deployToken(chain: Anvil, owner: Hex, words: TokenWords = {}): Promise<Address> {
  const args = [words.name ?? 'Test Tether', words.symbol ?? 'USDT', words.decimals ?? 6] as const;
  return deploy(chain, owner, encodeDeployData({ ...testToken, args }));
}

export async function deployBatch(chain: Anvil, owner: Hex): Promise<Address> {
  return deploy(chain, owner, encodeDeployData({ ...batch }));
}

export async function deployMultiSend(chain: Anvil, owner: Hex): Promise<Address> {
  return deploy(chain, owner, encodeDeployData({ ...multiSend }));
}

/** `price`: units of `tokenOut` for 10^18 units of what comes in. */
export async function deploySwap(chain: Anvil, owner: Hex, tokenOut: Address, price: bigint): Promise<Address> {
  return deploy(chain, owner, encodeDeployData({ ...swapAndAllocate, args: [tokenOut, price] }));
}

export async function setPrice(chain: Anvil, owner: Hex, swap: Address, price: bigint): Promise<void> {
  const data = encodeFunctionData({ abi: swapAndAllocate.abi, functionName: 'setPrice', args: [price] });
  await sendAndMine(chain, owner, { to: swap, data });
}

export async function approveTokens(
  chain: Anvil,
  holder: Hex,
  token: Address,
  spender: Address,
  value: bigint,
): Promise<void> {
  const data = encodeFunctionData({ abi: testToken.abi, functionName: 'approve', args: [spender, value] });
  await sendAndMine(chain, holder, { to: token, data });
}

async function deploy(chain: Anvil, owner: Hex, data: Hex): Promise<Address> {
  const from = privateKeyToAccount(owner).address;
  const nonce = BigInt(Number(await chain.rpc('eth_getTransactionCount', [from, 'pending'])));
  await sendAndMine(chain, owner, { data, nonce: Number(nonce) });
  return getContractAddress({ from, nonce });
}

export async function mintTokens(chain: Anvil, owner: Hex, token: Address, to: Address, value: bigint): Promise<void> {
  const data = encodeFunctionData({ abi: testToken.abi, functionName: 'mint', args: [to, value] });
  await sendAndMine(chain, owner, { to: token, data });
}

export function transferData(to: Address, value: bigint): Hex {
  return encodeFunctionData({ abi: testToken.abi, functionName: 'transfer', args: [to, value] });
}

export async function tokenBalance(chain: Anvil, token: Address, holder: Address): Promise<bigint> {
  const data = encodeFunctionData({ abi: testToken.abi, functionName: 'balanceOf', args: [holder] });
  return hexToBigInt((await chain.rpc('eth_call', [{ to: token, data }, 'latest'])) as Hex);
}

export async function nativeBalance(chain: Anvil, holder: Address): Promise<bigint> {
  return hexToBigInt((await chain.rpc('eth_getBalance', [holder, 'latest'])) as Hex);
}
