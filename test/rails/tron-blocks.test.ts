/*
 * Goal: the deposit scanner reads TRON unchanged: TRX and tokens, inside and outside of contracts, each once, and nothing of
 * a block that is not whole. Method: the simulated chain behind the rail's block readers and the real scanner.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeFunctionData, parseAbi } from 'viem';
import { type Block, makeScanner } from '../../src/flows/deposits/index.ts';
import { readAddress } from '../../src/rails/tron/index.ts';
import { machineAddress } from '../../src/rails/tron/address.ts';
import { makeTronWorld, TRX, type TronWorld } from '../support/tron-world.ts';

const PAYER_ABI = parseAbi([
  'function pay(address[] to, uint256[] sun) payable',
  'function payToken(address token, address[] to, uint256[] units)',
]);

function scannerOf(one: TronWorld) {
  return makeScanner({
    pool: one.pool,
    makeId: one.makeId,
    chart: one.chart,
    log: one.log,
    chain: one.tron.rail,
    rail: one.rail.name,
    nodes: one.rail.blocks,
    canonical(text) {
      const read = readAddress(text);
      return read.ok ? read.address : null;
    },
    onUnknownMovement: () => Promise.resolve(),
    firstBlock: 31n,
  });
}

async function own(one: TronWorld): Promise<string> {
  const address = one.outsider();
  await one.pool.query(
    "insert into payonce.addresses (id, chain, address, kind, partner_id) values ($1, $2, $3, 'DEPOSIT', $4)",
    [one.makeId('adr'), one.tron.rail, address, one.partnerId],
  );
  return address;
}

async function deposits(one: TronWorld): Promise<{ asset_id: string; amount: bigint; position: number }[]> {
  const { rows } = await one.pool.query<{ asset_id: string; amount: bigint; position: number }>(
    "select asset_id, amount, position from payonce.chain_transfers where class = 'DEPOSIT' and final_at is not null order by id",
  );
  return rows;
}

function blockOf(one: TronWorld, number: number): Promise<Block> {
  const [reader] = one.rail.blocks;
  assert.ok(reader);
  return reader.readBlocks([BigInt(number)]).then(([read]) => {
    assert.ok(read?.ok === true, read?.ok === false ? read.fault : 'nothing');
    return read.value;
  });
}

test('TRX, tokens and what a contract passes on are deposits, each once, when they are solid (case G8, H5)', async () => {
  const one = await makeTronWorld();
  const to = await own(one);
  const [payer, payerContract] = [one.outsider(), one.tron.deployPayer()];
  one.tron.fund(payer, 10_000n * TRX);
  one.tron.fundToken(one.token, payer, 1_000n);
  one.tron.act(payer, { kind: 'send', to, sun: 7n });
  one.tron.act(payer, { kind: 'send_token', token: one.token, to, units: 11n });
  const data = encodeFunctionData({
    abi: PAYER_ABI,
    functionName: 'pay',
    args: [
      [machineAddress(to), machineAddress(to)],
      [3n, 4n],
    ],
  });
  one.tron.act(payer, { kind: 'call', contract: payerContract, data: data.slice(2), sun: 7n });
  one.mine(1);
  const scanner = scannerOf(one);
  await scanner.runOnce();
  assert.deepEqual(await deposits(one), [], 'not solid yet');
  one.mine(25);
  const result = await scanner.runOnce();
  assert.equal(result.outcome, 'scanned', result.why ?? '');
  const coin = one.coinAssetId;
  const seen = (await deposits(one)).map(({ asset_id, amount }) => `${amount} ${asset_id === coin ? 'TRX' : 'USDT'}`);
  assert.deepEqual(new Set(seen), new Set(['3 TRX', '4 TRX', '7 TRX', '11 USDT']));
  await scanner.rescan(31n, 60n);
  assert.equal((await deposits(one)).length, 4);
  await one.end();
});

test('a look-alike token, and transfers inside of a call that reverts, credit nobody (case H1, H3)', async () => {
  const one = await makeTronWorld();
  const to = await own(one);
  const payer = one.outsider();
  one.tron.fund(payer, 10_000n * TRX);
  const fake = one.tron.deployToken({ symbol: 'USDT' });
  one.tron.fundToken(fake, payer, 1_000n);
  one.tron.act(payer, { kind: 'send_token', token: fake, to, units: 9n });
  const reverting = one.tron.deployPayer({ revertsAtEnd: true });
  const data = encodeFunctionData({ abi: PAYER_ABI, functionName: 'pay', args: [[machineAddress(to)], [5n]] });
  one.tron.act(payer, { kind: 'call', contract: reverting, data: data.slice(2), sun: 5n });
  one.mine(26);
  const result = await scannerOf(one).runOnce();
  assert.equal(result.outcome, 'scanned');
  assert.equal(result.skipped.lookAlikes, 1);
  assert.deepEqual(await deposits(one), []);
  await one.end();
});

test('a block without its receipts is not whole, a node without history gives none (case F3, H10)', async () => {
  const one = await makeTronWorld();
  assert.equal((await blockOf(one, 20)).transactions.length, 1);
  one.tron.node('a').settings.history = false;
  const [reader] = one.rail.blocks;
  const [read] = (await reader?.readBlocks([20n])) ?? [];
  assert.match(read?.ok === false ? read.fault : '', /0 receipts for 1 transactions/);
  one.tron.node('a').settings.lite = true;
  const [closed] = (await reader?.readBlocks([20n])) ?? [];
  assert.match(closed?.ok === false ? closed.fault : '', /lite fullnode/);
  await one.end();
});

test('blocks hang together, and balances are those of the solid head or none', async () => {
  const one = await makeTronWorld();
  const [reader] = one.rail.blocks;
  assert.ok(reader);
  const solid = await reader.finalizedHead();
  assert.ok(solid.ok);
  const number = Number(solid.value.number);
  const [first, second] = [await blockOf(one, number - 1), await blockOf(one, number)];
  assert.equal(second.parentHash, first.hash);
  assert.equal(second.hash, solid.value.hash);
  const holders = [
    { address: one.wallet, contract: null },
    { address: one.wallet, contract: one.token },
  ];
  const shown = await reader.readBalances(solid.value, holders);
  assert.deepEqual(
    shown.map((balance) => (balance.ok ? balance.value : balance.fault)),
    [1_000n * TRX, 1_000_000_000_000n],
  );
  const older = await reader.readBalances({ hash: first.hash }, holders);
  assert.ok(older.every((balance) => !balance.ok));
  const known = first.transactions[0]?.hash ?? '';
  assert.deepEqual(await reader.findTransactions([known, 'ab'.repeat(32)]), [
    { ok: true, value: first.number },
    { ok: true, value: null },
  ]);
  await one.end();
});

test('decimals are checked at every node before money moves (case H9)', async () => {
  const one = await makeTronWorld();
  const asset = { id: 'x', code: 'USDT', decimals: 6, chain: one.tron.rail, contract: one.token };
  assert.deepEqual(await one.rail.checkAsset(asset), { ok: true });
  const wrong = await one.rail.checkAsset({ ...asset, decimals: 18 });
  assert.equal(wrong.ok ? null : wrong.reason, 'DECIMALS_DIFFER');
  const nobody = await one.rail.checkAsset({ ...asset, contract: one.wallet });
  assert.equal(nobody.ok ? null : nobody.reason, 'NO_CONTRACT');
  await one.end();
});

test('a block of 450 transfers is read whole, by blocks and not by pages of an event API that may lose its cursor (case G4)', async () => {
  const one = await makeTronWorld();
  // The event API would end after its first page; nothing here asks it.
  one.tron.script({ on: 'events', fault: { kind: 'no_fingerprint' } });
  const payer = one.outsider();
  one.tron.fund(payer, 100_000n * TRX);
  one.tron.fundToken(one.token, payer, 1_000_000n);
  const addresses = await Promise.all(Array.from({ length: 3 }, () => own(one)));
  for (let index = 0; index < 450; index += 1)
    one.tron.act(payer, { kind: 'send_token', token: one.token, to: addresses[index % 3] ?? '', units: 1n });
  const block = one.tron.mine(1);
  assert.equal((await blockOf(one, block.number)).transactions.length, 450);
  one.tron.solidify();
  const scanner = scannerOf(one);
  while ((await scanner.runOnce()).outcome === 'scanned');
  const found = await deposits(one);
  assert.equal(found.length, 450);
  assert.equal(
    found.reduce((sum, each) => sum + each.amount, 0n),
    450n,
  );
  await one.end();
});
