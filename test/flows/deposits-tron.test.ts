/*
 * Goal: customers' TRX and TRC-20 are credited once, from solid blocks alone, by the product as it is configured and wired;
 * and what was credited can be paid out over the same API. Method: the application over the simulated TRON, whose own books
 * judge at the end.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeFunctionData, parseAbi } from 'viem';
import { createApiKey } from '../../src/api/keys.ts';
import { createDepositAddress } from '../../src/flows/deposits/index.ts';
import { systemChance } from '../../src/kernel/ports.ts';
import { startApi } from '../../src/main/api.ts';
import { hexAddress, machineAddress } from '../../src/rails/tron/address.ts';
import { assertBooksClean } from '../support/books.ts';
import { PARTNER, startTronApp, TRX, type TronApp } from '../support/tron-app.ts';

const PAYER_ABI = parseAbi([
  'function pay(address[] to, uint256[] sun) payable',
  'function payToken(address token, address[] to, uint256[] units)',
]);

async function addressFor(one: TronApp, userRef: string): Promise<string> {
  const deps = {
    pool: one.app.pool,
    makeId: one.app.engine.makeId,
    newAddress: () => one.app.newDepositAddress(one.chain.chain),
  };
  const wish = { partnerId: PARTNER, chain: one.chain.chain, userRef, reuse: true };
  return (await createDepositAddress(deps, wish)).address.address;
}

interface Seen extends Record<string, unknown> {
  readonly what: string;
  readonly state: string;
}
/** What partners are shown: amount, asset and state, in order of the amount. */
async function depositsOf(one: TronApp): Promise<string[]> {
  const rows = await one.rows<Seen>(
    `select t.amount || ' ' || a.code as what, d.state
     from payonce.deposits d
     join payonce.chain_transfers t on t.id = d.transfer_id
     join payonce.assets a on a.id = t.asset_id
     order by t.amount, a.code`,
  );
  return rows.map(({ what, state }) => `${what} ${state}`);
}

async function scan(one: TronApp): Promise<void> {
  const result = await one.chain.scanner.runOnce();
  assert.ok(['scanned', 'idle'].includes(result.outcome), result.why ?? result.outcome);
}

async function finish(one: TronApp): Promise<void> {
  await assertBooksClean(one.app.pool, { books: one.tron.books });
  await one.end();
}

test('TRX and a token are shown at once, credited when solid, and once over restarts and rescans (case G3, H11)', async () => {
  let one = await startTronApp({ label: 'deposits_tron' });
  await scan(one);
  const to = await addressFor(one, 'user-1');
  assert.match(to, /^T[1-9A-HJ-NP-Za-km-z]{33}$/);
  one.tron.act(one.stranger, { kind: 'send', to, sun: 3n * TRX });
  one.tron.act(one.stranger, { kind: 'send_token', token: one.token, to, units: 5n * TRX });
  const first = one.tron.head().number + 1;
  one.mine(1);
  await scan(one);
  assert.deepEqual(await depositsOf(one), ['3000000 TRX detected', '5000000 USDT detected']);
  one = await one.reopen();
  one.mine(25);
  await scan(one);
  assert.deepEqual(await depositsOf(one), ['3000000 TRX credited', '5000000 USDT credited']);
  one = await one.reopen();
  await scan(one);
  await one.chain.scanner.rescan(BigInt(first), BigInt(one.tron.solid().number));
  assert.equal(await one.balance(`partner:${PARTNER}`, one.tokenAssetId), 5n * TRX);
  assert.equal(await one.balance(`partner:${PARTNER}`, one.chain.coinAssetId), 3n * TRX);
  await finish(one);
});

test('two transfers in one transaction are two deposits, of tokens and of TRX that a contract passes on (case G8, H5)', async () => {
  const one = await startTronApp({ label: 'deposits_tron_multi' });
  await scan(one);
  const [first, second] = [await addressFor(one, 'user-1'), await addressFor(one, 'user-2')];
  const contract = one.tron.deployPayer();
  one.tron.fundToken(one.token, contract, 100n);
  const to = [first, first, second].map(machineAddress);
  const tokens = encodeFunctionData({
    abi: PAYER_ABI,
    functionName: 'payToken',
    args: [machineAddress(one.token), to, [11n, 11n, 12n]],
  });
  const sun = encodeFunctionData({ abi: PAYER_ABI, functionName: 'pay', args: [to, [21n, 21n, 22n]] });
  one.tron.act(one.stranger, { kind: 'call', contract, data: tokens.slice(2) });
  one.tron.act(one.stranger, { kind: 'call', contract, data: sun.slice(2), sun: 64n });
  one.mine(26);
  await scan(one);
  assert.deepEqual(
    await depositsOf(one),
    ['11 USDT', '11 USDT', '12 USDT', '21 TRX', '21 TRX', '22 TRX'].map((what) => `${what} credited`),
  );
  await finish(one);
});

test('a look-alike token, a failed transaction and a call that reverts credit nobody (case H1, H3)', async () => {
  const one = await startTronApp({ label: 'deposits_tron_nothing' });
  await scan(one);
  const to = await addressFor(one, 'user-1');
  const fake = one.tron.deployToken({ symbol: 'USDT' });
  one.tron.fundToken(fake, one.stranger, 1_000n);
  one.tron.act(one.stranger, { kind: 'send_token', token: fake, to, units: 9n });
  // More than there is: in a block, and failed there.
  one.tron.act(one.stranger, { kind: 'send_token', token: one.token, to, units: 10n ** 30n });
  const reverting = one.tron.deployPayer({ revertsAtEnd: true });
  const data = encodeFunctionData({ abi: PAYER_ABI, functionName: 'pay', args: [[machineAddress(to)], [5n]] });
  one.tron.act(one.stranger, { kind: 'call', contract: reverting, data: data.slice(2), sun: 5n });
  one.mine(26);
  const result = await one.chain.scanner.runOnce();
  assert.equal(result.skipped.lookAlikes, 1);
  assert.deepEqual(await depositsOf(one), []);
  await finish(one);
});

test('what a fork takes back before it is solid is withdrawn, and credited where it comes again (case F1, G3)', async () => {
  const one = await startTronApp({ label: 'deposits_tron_fork' });
  await scan(one);
  const to = await addressFor(one, 'user-1');
  one.tron.act(one.stranger, { kind: 'send_token', token: one.token, to, units: 7n });
  one.tron.act(one.stranger, { kind: 'send', to, sun: 8n });
  one.mine(3);
  await scan(one);
  assert.deepEqual(await depositsOf(one), ['7 USDT detected', '8 TRX detected']);
  const lost = (await one.tron.books.movements()).find((movement) => movement.amount === 7n)?.tx ?? '';
  one.tron.fork(5, { lost: [lost] });
  one.mine(30);
  await scan(one);
  assert.deepEqual(await depositsOf(one), ['7 USDT vanished', '8 TRX credited']);
  await finish(one);
});

test('over HTTP: an address in base58, its deposit, and a withdrawal to any spelling of an address (case H11)', async (t) => {
  const one = await startTronApp({ label: 'deposits_tron_http', config: { port: 0 } });
  await scan(one);
  const { key } = await one.app.pool.tx('key', (tx) =>
    createApiKey(tx, { makeId: one.app.engine.makeId, chance: systemChance }, PARTNER, 'test'),
  );
  const api = await startApi(one.app);
  t.after(() => api.stop());
  let count = 0;
  const ask = async (method: string, path: string, body?: object): Promise<{ status: number; body: Told }> => {
    count += 1;
    const answer = await fetch(`${api.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        'idempotency-key': `key-${count}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: (await answer.json()) as Told };
  };
  const made = await ask('POST', '/v1/addresses', { chain: one.chain.chain, user_ref: 'user-1' });
  assert.equal(made.status, 201);
  const address = made.body.address ?? '';
  one.tron.act(one.stranger, { kind: 'send_token', token: one.token, to: address, units: 100n * TRX });
  one.mine(26);
  await scan(one);
  const to = one.tron.deployPayer();
  const other = one.stranger;
  for (const destination of [other, hexAddress(other), `0x${hexAddress(other)}`, machineAddress(other)]) {
    const paid = await ask('POST', '/v1/withdrawals', { asset: one.tokenAssetId, amount: '1', destination });
    assert.equal(paid.status, 201, JSON.stringify(paid.body));
    assert.equal(paid.body.destination, other);
  }
  const mistyped = `${other.slice(0, 10)}${other[10] === 'x' ? 'y' : 'x'}${other.slice(11)}`;
  const refused = await ask('POST', '/v1/withdrawals', { asset: 'USDT', amount: '1', destination: mistyped });
  assert.equal(refused.status, 400);
  assert.match(JSON.stringify(refused.body), /PO_ADDRESS_INVALID.*a character is wrong/);
  const contract = await ask('POST', '/v1/withdrawals', { asset: 'USDT', amount: '1', destination: to });
  assert.equal(contract.status, 201);
  await one.drain();
  const { body } = await ask('GET', '/v1/withdrawals');
  assert.deepEqual(
    body.items?.map(({ status }) => status),
    Array.from({ length: 5 }, () => 'confirmed'),
  );
  const paid = (await one.tron.books.movements()).filter((movement) => movement.from === one.master);
  assert.deepEqual(
    paid.map((movement) => movement.amount),
    Array.from({ length: 5 }, () => TRX),
  );
  await finish(one);
});

interface Told {
  readonly address?: string;
  readonly destination?: string;
  readonly items?: readonly { readonly status: string }[];
}
