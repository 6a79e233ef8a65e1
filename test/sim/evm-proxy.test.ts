/*
 * Goal: each fault of the JSON-RPC proxy does to the wire, and leaves on the chain, what its name says, and is counted when
 * and only when it did. Method: a real anvil, real sockets, and the chain asked directly for what really happened.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { keccak256, type Hex } from 'viem';
import { type Anvil, startAnvil } from '../../sim/anvil.ts';
import type { CallFault, FaultRule } from '../../sim/evm-faults.ts';
import { type EvmProxy, startEvmProxy } from '../../sim/evm-proxy.ts';
import { deployToken, mintTokens, sendAndMine, signAs } from '../../sim/evm-send.ts';
import { isObject, type Json, makeRpc, type Rpc } from '../../sim/json-rpc.ts';

let chain: Anvil;
let node: EvmProxy;
let ask: Rpc;

before(async () => {
  chain = await startAnvil();
});
after(async () => chain.stop());
beforeEach(async () => {
  node = await startEvmProxy({ upstream: chain.url });
  ask = singly(node.url);
});
afterEach(async () => node.stop());

/** One request, no batch, as most clients send it. */
function singly(url: string): Rpc {
  return async (method, params) => {
    const { status, text } = await post(url, { jsonrpc: '2.0', id: 7, method, params });
    assert.equal(status, 200, text);
    const answer = JSON.parse(text) as { id: Json; result?: Json; error?: { code: number; message: string } };
    assert.equal(answer.id, 7);
    if (answer.error !== undefined) throw new Error(`${answer.error.code} ${answer.error.message}`);
    return answer.result ?? null;
  };
}

async function post(url: string, body: Json, waitMs = 5_000): Promise<{ status: number; text: string; bytes: Buffer }> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(waitMs),
  });
  const bytes = Buffer.from(await response.arrayBuffer());
  return { status: response.status, text: bytes.toString('utf8'), bytes };
}

async function signedPayment(): Promise<{ raw: Hex; hash: Hex }> {
  const [from, to] = chain.accounts;
  assert.ok(from && to);
  const raw = await signAs(chain, from.privateKey, { to: to.address, value: 1n });
  return { raw, hash: keccak256(raw) };
}

async function onChain(hash: Hex): Promise<boolean> {
  return isObject(await chain.rpc('eth_getTransactionReceipt', [hash]));
}

/** The chain mines within milliseconds, not at once; and a proxy may work on after its caller has gone. */
async function comesOnChain(hash: Hex): Promise<boolean> {
  for (let tries = 0; tries < 200; tries++) {
    if (await onChain(hash)) return true;
    await sleep(25);
  }
  return false;
}

test('without faults the proxy is transparent, batches, errors and nonsense included', async () => {
  assert.equal(await ask('eth_chainId', []), '0x7a69');
  const request = (id: Json, method: string): Json => ({ jsonrpc: '2.0', id, method, params: [] });
  const { text } = await post(node.url, [
    request('a', 'eth_chainId'),
    request('a', 'eth_nope'),
    request(3, 'net_version'),
  ]);
  assert.deepEqual(JSON.parse(text), [
    { jsonrpc: '2.0', id: 'a', result: '0x7a69' },
    { jsonrpc: '2.0', id: 'a', error: { code: -32601, message: 'Method not found' } },
    { jsonrpc: '2.0', id: 3, result: '31337' },
  ]);
  assert.equal((await post(node.url, 'nonsense')).text, (await post(chain.url, 'nonsense')).text);
  assert.deepEqual(node.counts, {});
  assert.equal(node.calls.eth_chainId, 2);
});

test('a lost request never reaches the chain, a lost answer does', async () => {
  const lost = await signedPayment();
  node.script({ method: 'eth_sendRawTransaction', calls: [1], fault: { kind: 'lose_request' } });
  node.script({ method: 'eth_sendRawTransaction', calls: [2], fault: { kind: 'lose_answer' } });
  await assert.rejects(ask('eth_sendRawTransaction', [lost.raw]));
  assert.equal(await onChain(lost.hash), false);
  await assert.rejects(ask('eth_sendRawTransaction', [lost.raw]));
  assert.equal(await comesOnChain(lost.hash), true);
  assert.deepEqual(node.counts, { lose_request: 1, lose_answer: 1 });
});

test('a hanging answer stays silent until the caller gives up, and the payment is on the chain', async () => {
  const { raw, hash } = await signedPayment();
  node.script({ method: 'eth_sendRawTransaction', fault: { kind: 'lose_answer', how: 'hang' } });
  const body = { jsonrpc: '2.0', id: 1, method: 'eth_sendRawTransaction', params: [raw] };
  await assert.rejects(post(node.url, body, 300), { name: 'TimeoutError' });
  assert.equal(await comesOnChain(hash), true);
  assert.equal(node.counts.lose_answer, 1);
});

test('a delayed request arrives even after its caller has gone', async () => {
  const { raw, hash } = await signedPayment();
  node.script({ method: 'eth_sendRawTransaction', fault: { kind: 'delay', ms: 1_000 } });
  const body = { jsonrpc: '2.0', id: 1, method: 'eth_sendRawTransaction', params: [raw] };
  await assert.rejects(post(node.url, body, 100), { name: 'TimeoutError' });
  assert.equal(await onChain(hash), false);
  assert.equal(await comesOnChain(hash), true);

  node.script({ method: 'eth_chainId', fault: { kind: 'delay', ms: 150, what: 'answer' } });
  const startedAt = performance.now();
  assert.equal(await ask('eth_chainId', []), '0x7a69');
  assert.ok(performance.now() - startedAt >= 140);
  assert.equal(node.counts.delay, 2);
});

test('a duplicated send reaches the chain twice and the second answer comes back', async () => {
  const { raw, hash } = await signedPayment();
  node.script({ method: 'eth_sendRawTransaction', fault: { kind: 'duplicate' } });
  await assert.rejects(ask('eth_sendRawTransaction', [raw]), /already imported|nonce too low|already known/i);
  assert.equal(await comesOnChain(hash), true);
  assert.equal(node.counts.duplicate, 1);
});

test('garbled answers come with status 200 and are no answers', async () => {
  const garbled = async (how: Extract<CallFault, { kind: 'garble' }>['how']): ReturnType<typeof post> => {
    const withdraw = node.script({ fault: { kind: 'garble', how } });
    const answer = await post(node.url, { jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] });
    withdraw();
    assert.equal(answer.status, 200);
    assert.equal(node.counts[`garble_${how}`], 1);
    return answer;
  };
  const truncated = (await garbled('truncated')).text;
  assert.throws(() => JSON.parse(truncated) as Json);
  assert.match((await garbled('html')).text, /^<!DOCTYPE html>/);
  assert.equal((await garbled('empty')).text, '');
  const { bytes } = await garbled('bad_utf8');
  assert.throws(() => new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  assert.match((await garbled('wrong_id')).text, /"id":1000004/);
  assert.equal((await garbled('not_an_answer')).text, '{"jsonrpc":"2.0","id":1}');
});

test('an answer that breaks off in the middle is an error of the connection', async () => {
  const { raw, hash } = await signedPayment();
  node.script({ method: 'eth_sendRawTransaction', fault: { kind: 'half_answer' } });
  await assert.rejects(ask('eth_sendRawTransaction', [raw]), /terminated/);
  assert.equal(await comesOnChain(hash), true);
  assert.equal(node.counts.half_answer, 1);
});

test('gateway answers carry HTML, and say nothing of what happened behind them', async () => {
  const { raw, hash } = await signedPayment();
  const body = { jsonrpc: '2.0', id: 1, method: 'eth_sendRawTransaction', params: [raw] };
  for (const status of [429, 500, 502, 503] as const) {
    const withdraw = node.script({ fault: { kind: 'http', status } });
    const answer = await post(node.url, body);
    assert.equal(answer.status, status);
    assert.match(answer.text, /<html>/);
    assert.equal(node.counts[`http_${status}`], 1);
    withdraw();
  }
  assert.equal(await onChain(hash), false);
  node.script({ fault: { kind: 'http', status: 504, forwarded: true } });
  assert.equal((await post(node.url, body)).status, 504);
  assert.equal(await comesOnChain(hash), true);
});

test('a scripted JSON-RPC error is answered with or without the work being done', async () => {
  const { raw, hash } = await signedPayment();
  const nonceTooLow = { kind: 'rpc_error', code: -32_000, message: 'nonce too low' } as const;
  node.script({ method: 'eth_sendRawTransaction', calls: [1], fault: nonceTooLow });
  node.script({ method: 'eth_sendRawTransaction', calls: [2], fault: { ...nonceTooLow, forwarded: true } });
  await assert.rejects(ask('eth_sendRawTransaction', [raw]), /-32000 nonce too low/);
  assert.equal(await onChain(hash), false);
  await assert.rejects(ask('eth_sendRawTransaction', [raw]), /-32000 nonce too low/);
  assert.equal(await comesOnChain(hash), true);
  node.script({ method: 'eth_blockNumber', fault: { kind: 'invent', result: '0xffff' } });
  assert.equal(await ask('eth_blockNumber', []), '0xffff');
  assert.deepEqual(node.counts, { rpc_error: 2, invent: 1 });
});

test('a lagging node knows no newer block, receipt, nonce or log, and its tags lag with it', async () => {
  const [owner, payer, receiver] = chain.accounts;
  assert.ok(owner && payer && receiver);
  const token = await deployToken(chain, owner.privateKey);
  await chain.mine(5);
  const head = Number(await chain.rpc('eth_blockNumber', []));
  const nonce = await chain.rpc('eth_getTransactionCount', [payer.address, 'latest']);
  const paid = await sendAndMine(chain, payer.privateKey, { to: receiver.address, value: 3n });
  await mintTokens(chain, owner.privateKey, token, payer.address, 5n);
  const hash = paid.transactionHash ?? null;
  const numberOf = (block: Json): number => Number(isObject(block) ? block.number : Number.NaN);

  for (const lag of [() => node.lagBy(2), () => node.freezeAt(head)]) {
    lag();
    assert.equal(Number(await ask('eth_blockNumber', [])), head);
    assert.equal(numberOf(await ask('eth_getBlockByNumber', ['latest', false])), head);
    assert.equal(numberOf(await ask('eth_getBlockByNumber', ['finalized', false])), head - 2);
    assert.equal(await ask('eth_getBlockByNumber', [`0x${(head + 1).toString(16)}`, false]), null);
    assert.equal(await ask('eth_getTransactionReceipt', [hash]), null);
    assert.equal(await ask('eth_getTransactionByHash', [hash]), null);
    assert.equal(await ask('eth_getBlockByHash', [paid.blockHash ?? null, false]), null);
    assert.equal(await ask('eth_getTransactionCount', [payer.address, 'latest']), nonce);
    assert.equal(await ask('eth_getTransactionCount', [payer.address]), nonce);
    assert.deepEqual(await ask('eth_getLogs', [{ address: token, fromBlock: '0x0', toBlock: 'latest' }]), []);
    await assert.rejects(ask('eth_getBalance', [payer.address, `0x${(head + 1).toString(16)}`]), /header not found/);
  }
  assert.ok((node.counts.stale ?? 0) >= 22);
  node.lagBy(0);
  const before = node.counts.stale;
  assert.ok(isObject(await ask('eth_getTransactionReceipt', [hash])));
  assert.equal(node.counts.stale, before);

  node.script({ method: 'eth_getTransactionReceipt', hitsMax: 1, fault: { kind: 'stale', blocks: 2 } });
  assert.equal(await ask('eth_getTransactionReceipt', [hash]), null);
  assert.ok(isObject(await ask('eth_getTransactionReceipt', [hash])));
});

test('a node can forget a transaction, leave out the newest logs, and claim another chain', async () => {
  const [owner, holder] = chain.accounts;
  assert.ok(owner && holder);
  const token = await deployToken(chain, owner.privateKey);
  await mintTokens(chain, owner.privateKey, token, holder.address, 5n);
  const filter = { address: token, fromBlock: '0x0', toBlock: 'latest' };
  const logs = await ask('eth_getLogs', [filter]);
  assert.ok(Array.isArray(logs) && logs.length === 1 && isObject(logs[0]));
  const hash = logs[0].transactionHash as Hex;

  node.hide(hash);
  assert.equal(await ask('eth_getTransactionReceipt', [hash]), null);
  assert.equal(await ask('eth_getTransactionByHash', [hash]), null);
  node.script({ method: 'eth_getLogs', hitsMax: 1, fault: { kind: 'empty_at_head', blocks: 1 } });
  assert.deepEqual(await ask('eth_getLogs', [filter]), []);
  assert.deepEqual(await ask('eth_getLogs', [filter]), logs);
  node.script({ method: 'eth_getBlockReceipts', hitsMax: 1, fault: { kind: 'empty_at_head', blocks: 1 } });
  assert.deepEqual(await ask('eth_getBlockReceipts', ['latest']), []);
  node.claimChain(1);
  assert.equal(await ask('eth_chainId', []), '0x1');
  node.heal();
  assert.equal(await ask('eth_chainId', []), '0x7a69');
  node.script({ method: 'eth_getTransactionReceipt', calls: [2], fault: { kind: 'forget' } });
  assert.equal(await ask('eth_getTransactionReceipt', [hash]), null);
  assert.ok(isObject(await ask('eth_getTransactionReceipt', [hash])));
  assert.deepEqual(node.counts, { hide: 2, empty_at_head: 2, wrong_chain: 1, forget: 1 });
});

test('in a batch a fault hits one item, or the whole call', async () => {
  const { raw, hash } = await signedPayment();
  const batch = [
    { jsonrpc: '2.0', id: 1, method: 'eth_chainId', params: [] },
    { jsonrpc: '2.0', id: 2, method: 'eth_sendRawTransaction', params: [raw] },
    { jsonrpc: '2.0', id: 3, method: 'net_version', params: [] },
  ];
  const idsAnswered = async (rule: FaultRule): Promise<Json[]> => {
    const withdraw = node.script(rule);
    const answers = JSON.parse((await post(node.url, batch)).text) as { id: Json }[];
    withdraw();
    return answers.map((answer) => answer.id);
  };
  const method = 'eth_sendRawTransaction';
  assert.deepEqual(await idsAnswered({ method, fault: { kind: 'drop_item' } }), [1, 3]);
  assert.equal(await onChain(hash), false);
  assert.deepEqual(await idsAnswered({ method, fault: { kind: 'drop_item_answer' } }), [1, 3]);
  assert.equal(await comesOnChain(hash), true);
  assert.deepEqual(await idsAnswered({ method, fault: { kind: 'wrong_item_id' } }), [1, 1_000_005, 3]);
  assert.deepEqual(await idsAnswered({ fault: { kind: 'reorder' } }), [3, 2, 1]);
  node.script({ method, fault: { kind: 'lose_answer' } });
  await assert.rejects(post(node.url, batch));
  assert.deepEqual(node.counts, { drop_item: 1, drop_item_answer: 1, wrong_item_id: 1, reorder: 1, lose_answer: 1 });
});

test('the same seed strikes the same calls, whatever other methods run in between', async () => {
  const struck = async (seed: number, between: boolean): Promise<number[]> => {
    const rule: FaultRule = {
      method: 'eth_chainId',
      chance: 0.3,
      fault: { kind: 'rpc_error', code: -1, message: 'x' },
    };
    const own = await startEvmProxy({ upstream: chain.url, seed, faults: [rule] });
    const rpc = makeRpc(own.url);
    for (let call = 0; call < 40; call++) {
      if (between) await rpc('net_version', []);
      await rpc('eth_chainId', []).catch(() => null);
    }
    await own.stop();
    return own.log.map((record) => record.ordinal);
  };
  const first = await struck(11, false);
  assert.ok(first.length > 4 && first.length < 24);
  assert.deepEqual(await struck(11, true), first);
  assert.notDeepEqual(await struck(12, false), first);
});

test('two nodes over one chain fail apart, and one that is down refuses connections until it is up', async () => {
  const other = await startEvmProxy({ upstream: chain.url });
  other.lagBy(1);
  await chain.mine(1);
  assert.equal(Number(await ask('eth_blockNumber', [])) - Number(await singly(other.url)('eth_blockNumber', [])), 1);
  await other.down();
  await assert.rejects(singly(other.url)('eth_chainId', []), (error: Error) => {
    return error.cause instanceof Error && /ECONNREFUSED/.test(error.cause.message);
  });
  assert.equal(await ask('eth_chainId', []), '0x7a69');
  await other.up();
  assert.equal(await singly(other.url)('eth_chainId', []), '0x7a69');
  await other.stop();
});
