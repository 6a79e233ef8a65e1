/*
 * Goal: blocks, forks, expirations, fees and the faults of inclusion leave in the books what their names say. Method: signed
 * transactions over HTTP; the chain's own steering between them; the books are asked for what moved.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { encodeFunctionData } from 'viem';
import { addressOf, toEvm } from '../../sim/tron/address.ts';
import type { TronFault } from '../../sim/tron/faults.ts';
import { PAYER_ABI } from '../../sim/tron/programs.ts';
import { startTron, type Tron, type TronOptions } from '../../sim/tron/tron.ts';
import { broadcast, makePerson, post } from './tron-client.ts';

const running: Tron[] = [];
afterEach(async () => {
  for (const tron of running.splice(0)) await tron.stop();
});

async function scene(options: TronOptions = {}) {
  const tron = await startTron(options);
  running.push(tron);
  const payer = makePerson(tron, '1');
  const payee = makePerson(tron, '2');
  tron.fund(payer.address, 1_000_000_000n);
  tron.fund(payee.address, 1n);
  const usdt = tron.deployToken();
  tron.fundToken(usdt, payer.address, 50_000_000n);
  return { tron, payer, payee, usdt };
}

const onBroadcast = (fault: TronFault): TronOptions => ({ faults: [{ on: 'broadcast', calls: [1], fault }] });

async function receiptOf(tron: Tron, value: string, side: 'wallet' | 'walletsolidity' = 'wallet') {
  return (await post(tron.url, `/${side}/gettransactioninfobyid`, { value })).json;
}

test('a fork puts what it took back into the pool, and the next block has it again', async () => {
  const { tron, payer, payee } = await scene();
  const signed = await payer.trx(payee.address, 5);
  await broadcast(tron, signed);
  tron.mine(2);
  const before = await receiptOf(tron, signed.txID);
  tron.fork(2);
  assert.deepEqual(await receiptOf(tron, signed.txID), {});
  assert.equal(await tron.books.balance(payee.address, 'native'), 1n);
  tron.mine();
  assert.equal((await receiptOf(tron, signed.txID)).blockNumber, before.blockNumber + 2);
  assert.deepEqual(
    tron.books.inclusions(signed.txID).map(({ rolledBack }) => rolledBack),
    [true, false],
  );
  assert.throws(() => tron.fork(19), /solid/);
});

test('what was in the left branch and is in no pool any more stays away, until its bytes come again', async () => {
  const { tron, payer, payee } = await scene(onBroadcast({ kind: 'fork_out', afterBlocks: 3, comesBack: false }));
  const signed = await payer.trx(payee.address, 5);
  await broadcast(tron, signed);
  tron.mine(4);
  assert.deepEqual(await receiptOf(tron, signed.txID), {});
  assert.equal(tron.counts.fork_out, 1);
  tron.mine(2);
  assert.deepEqual(await tron.books.movements(), []);
  assert.match(await broadcast(tron, signed), /SUCCESS|P2P broadcast failed/);
  tron.mine();
  assert.equal((await tron.books.movements()).length, 1);
});

test('a dropped transaction was accepted and is nowhere', async () => {
  const { tron, payer, payee } = await scene(onBroadcast({ kind: 'drop' }));
  const signed = await payer.trx(payee.address, 5);
  assert.equal(await broadcast(tron, signed), 'SUCCESS');
  tron.mine(30);
  assert.deepEqual(await tron.books.movements(), []);
  assert.deepEqual({ ...tron.counts }, { drop: 1 });
});

test('a transaction is taken in the last block that may hold it, and in none when it is never taken', async () => {
  for (const kind of ['include_at_last', 'never_include'] as const) {
    const { tron, payer, payee } = await scene(onBroadcast({ kind }));
    const expiration = tron.head().timeMs + 91_000;
    const signed = await payer.trx(payee.address, 5, { expiration });
    assert.equal(await broadcast(tron, signed), 'SUCCESS');
    tron.mine(29);
    assert.deepEqual(await tron.books.movements(), []);
    tron.mine(5);
    const [moved] = tron.books.inclusions(signed.txID);
    if (kind === 'never_include') assert.equal(moved, undefined);
    else assert.ok(moved !== undefined && expiration - moved.timeMs >= 0 && expiration - moved.timeMs < 3_000);
    assert.equal(tron.counts[kind], 1);
  }
});

test('a block may hold a transaction whose expiration is its own slot, and no earlier one', async () => {
  const { tron, payer, payee } = await scene();
  const atSlot = await payer.trx(payee.address, 5, { expiration: tron.head().timeMs + 3_000 });
  assert.equal(await broadcast(tron, atSlot), 'SUCCESS');
  const missed = await payer.trx(payee.address, 6, { expiration: tron.head().timeMs + 5_999 });
  assert.equal(await broadcast(tron, missed), 'SUCCESS');
  tron.skipSlots(1);
  tron.mine();
  assert.deepEqual(await tron.books.movements(), []);
  assert.match(await broadcast(tron, missed), /^TRANSACTION_EXPIRATION_ERROR/);
});

test('a refusal that lies has moved, and one that does not has not', async () => {
  for (const kind of ['lie', 'refuse'] as const) {
    const { tron, payer, payee } = await scene(onBroadcast({ kind, code: 'CONTRACT_VALIDATE_ERROR' }));
    assert.match(await broadcast(tron, await payer.trx(payee.address, 5)), /^CONTRACT_VALIDATE_ERROR/);
    tron.mine();
    assert.equal((await tron.books.movements()).length, kind === 'lie' ? 1 : 0);
    assert.equal(tron.counts[kind], 1);
  }
});

test('too little for the energy burns the fee limit and moves nothing', async () => {
  const { tron, payer, payee, usdt } = await scene();
  const signed = await payer.token(usdt, payee.address, '1000000', { feeLimit: 5_000_000 });
  assert.equal(await broadcast(tron, signed), 'SUCCESS');
  tron.mine();
  const receipt = await receiptOf(tron, signed.txID);
  assert.equal(receipt.result, 'FAILED');
  assert.equal(receipt.receipt.result, 'OUT_OF_ENERGY');
  assert.equal(receipt.receipt.energy_fee, 5_000_000);
  assert.equal(receipt.log, undefined);
  assert.match(Buffer.from(receipt.resMessage, 'hex').toString('utf8'), /^Not enough energy/);
  assert.deepEqual(await tron.books.movements(), []);
});

test('staked energy pays first, and the rest is burnt', async () => {
  const { tron, payer, payee, usdt } = await scene();
  tron.stake(payer.address, { energy: 100_000n, bandwidth: 5_000n });
  const energy = tron.energyOf(payer.address);
  const signed = await payer.token(usdt, payee.address, '1000000');
  await broadcast(tron, signed);
  tron.mine();
  const { receipt } = await receiptOf(tron, signed.txID);
  assert.equal(BigInt(receipt.energy_usage), energy);
  assert.equal(receipt.energy_fee, Number(130_285n - energy) * 100);
  assert.ok(tron.energyOf(payer.address) < 10n);
  tron.advance(86_400_000);
  assert.equal(tron.energyOf(payer.address), energy);
});

test('a call that reverts burns what it used', async () => {
  const { tron, payer, payee, usdt } = await scene();
  const signed = await payer.token(usdt, payee.address, '50000001');
  assert.equal(await broadcast(tron, signed), 'SUCCESS');
  tron.mine();
  const receipt = await receiptOf(tron, signed.txID);
  assert.equal(receipt.receipt.result, 'REVERT');
  assert.equal(Buffer.from(receipt.resMessage, 'hex').toString('utf8'), 'REVERT opcode executed');
  assert.deepEqual(await tron.books.movements(), []);
});

test('a token that says false without reverting moves nothing, though the receipt says SUCCESS', async () => {
  const { tron, payer, payee } = await scene();
  const silent = tron.deployToken({ symbol: 'FALSE', moves: false });
  tron.fundToken(silent, payer.address, 100n);
  const signed = await payer.token(silent, payee.address, '50');
  await broadcast(tron, signed);
  tron.mine();
  const receipt = await receiptOf(tron, signed.txID);
  assert.equal(receipt.receipt.result, 'SUCCESS');
  assert.equal(receipt.log, undefined);
  assert.equal(await tron.books.balance(payee.address, silent), 0n);
});

test('one transaction pays many in tokens and TRX, and none when its last call reverts', async () => {
  const { tron, payee, usdt } = await scene();
  const to = [payee.address, payee.address].map((one) => toEvm(addressOf(one)));
  for (const revertsAtEnd of [false, true]) {
    const sender = makePerson(tron, revertsAtEnd ? '4' : '5');
    const contract = tron.deployPayer({ revertsAtEnd });
    tron.fund(sender.address, 1_000_000_000n);
    tron.fundToken(usdt, contract, 100n);
    const token = toEvm(addressOf(usdt));
    const inTokens = encodeFunctionData({ abi: PAYER_ABI, functionName: 'payToken', args: [token, to, [7n, 7n]] });
    const inTrx = encodeFunctionData({ abi: PAYER_ABI, functionName: 'pay', args: [to, [3n, 4n]] });
    const before = (await tron.books.movements()).length;
    tron.act(sender.address, { kind: 'call', contract, data: inTokens.slice(2) });
    const id = tron.act(sender.address, { kind: 'call', contract, data: inTrx.slice(2), sun: 7n });
    tron.mine();
    const moved = (await tron.books.movements()).slice(before);
    assert.equal(moved.filter(({ to }) => to === payee.address).length, revertsAtEnd ? 0 : 4);
    assert.equal((await receiptOf(tron, id)).internal_transactions?.length, revertsAtEnd ? undefined : 2);
  }
});

test('with a pace blocks come by themselves', async () => {
  const { tron } = await scene({ pace: 5 });
  const { number } = tron.head();
  const untilMs = Date.now() + 5_000;
  while (tron.head().number < number + 5 && Date.now() < untilMs) await new Promise((done) => setTimeout(done, 10));
  assert.ok(tron.head().number >= number + 5);
});
