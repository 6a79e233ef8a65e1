/*
 * Goal: tronweb, unmodified, takes the simulated node for a real one: it builds, signs, sends and reads back TRX and TRC-20 through it,
 * and finds in the books what it was told. Method: tronweb's own public calls over HTTP.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { TronWeb } from 'tronweb';
import { netOf } from '../../sim/oracle.ts';
import { startTron, type Tron } from '../../sim/tron/tron.ts';

const running: Tron[] = [];
afterEach(async () => {
  for (const tron of running.splice(0)) await tron.stop();
});

async function scene() {
  const tron = await startTron();
  running.push(tron);
  const web = new TronWeb({ fullHost: tron.url, privateKey: '11'.repeat(32) });
  const me = web.defaultAddress.base58;
  const you = TronWeb.address.fromPrivateKey('22'.repeat(32));
  assert.ok(typeof me === 'string' && typeof you === 'string');
  tron.fund(me, 1_000_000_000n);
  return { tron, web, me, you };
}

test('tronweb sends TRX and reads it back, first at the head, then as confirmed', async () => {
  const { tron, web, me, you } = await scene();
  const made = await web.transactionBuilder.sendTrx(you, 1_500_000, me);
  const signed = await web.trx.sign(made);
  const sent = await web.trx.sendRawTransaction(signed);
  assert.equal(sent.result, true);
  assert.equal(sent.txid, signed.txID);
  await assert.rejects(web.trx.getTransaction(signed.txID), /not found/i);
  tron.mine();
  const seen = await web.trx.getTransaction(signed.txID);
  assert.deepEqual(seen.ret, [{ contractRet: 'SUCCESS' }]);
  assert.equal(seen.raw_data_hex, signed.raw_data_hex);
  const receipt = await web.trx.getUnconfirmedTransactionInfo(signed.txID);
  // A new account: 0.1 TRX for the bandwidth of making it, 1 TRX for the account.
  assert.equal(receipt.fee, 1_100_000);
  assert.deepEqual(await web.trx.getTransactionInfo(signed.txID), {});
  await assert.rejects(web.trx.getConfirmedTransaction(signed.txID), /not found/i);
  tron.solidify();
  assert.equal((await web.trx.getTransactionInfo(signed.txID)).blockNumber, receipt.blockNumber);
  assert.equal(await web.trx.getBalance(you), 1_500_000);
  assert.equal(await web.trx.getBalance(me), 1_000_000_000 - 1_500_000 - 1_100_000);
});

test('tronweb moves USDT, which answers false, and the receipt and the events tell the transfer', async () => {
  const { tron, web, me, you } = await scene();
  const usdt = tron.deployToken();
  tron.fundToken(usdt, me, 5_000_000n);
  const parameters = [
    { type: 'address', value: you },
    { type: 'uint256', value: '1234567' },
  ];
  const selector = 'transfer(address,uint256)';
  const estimate = await web.transactionBuilder.estimateEnergy(usdt, selector, {}, parameters, me);
  assert.equal(estimate.energy_required, 130_285);
  const built = await web.transactionBuilder.triggerSmartContract(
    usdt,
    selector,
    { feeLimit: 30_000_000 },
    parameters,
    me,
  );
  const signed = await web.trx.sign(built.transaction);
  assert.equal((await web.trx.sendRawTransaction(signed)).result, true);
  tron.mine();
  tron.solidify();
  const receipt = await web.trx.getTransactionInfo(signed.txID);
  assert.equal(receipt.receipt.result, 'SUCCESS');
  assert.equal(receipt.result, undefined);
  assert.deepEqual(receipt.contractResult, ['0'.repeat(64)]);
  assert.equal(receipt.log.length, 1);
  const contract = await web.contract().at(usdt);
  assert.equal(await contract.methods.balanceOf(you).call(), 1_234_567n);
  const events = await web.event.getEventsByContractAddress(usdt, { eventName: 'Transfer' });
  assert.equal(events.data?.[0]?.result.value, '1234567');

  const movements = await tron.books.movements();
  assert.deepEqual(
    movements.map(({ from, to, asset, amount, tx, logIndex, final }) => ({
      from,
      to,
      asset,
      amount,
      tx,
      logIndex,
      final,
    })),
    [{ from: me, to: you, asset: usdt, amount: 1_234_567n, tx: signed.txID, logIndex: 0, final: true }],
  );
  const costs = await tron.books.costs();
  assert.equal(1_000_000_000n + netOf(movements, costs, me, 'native'), await tron.books.balance(me, 'native'));
  assert.equal(5_000_000n + netOf(movements, costs, me, usdt), await tron.books.balance(me, usdt));
});

test('what tronweb signs with another key gets SIGERROR and is in no block', async () => {
  const { tron, web, me, you } = await scene();
  const made = await web.transactionBuilder.sendTrx(you, 1_000_000, me);
  const signed = await web.trx.sign(made, '33'.repeat(32), false, false).catch(() => null);
  const forged = signed ?? { ...made, signature: [`${'ab'.repeat(64)}1b`] };
  const sent = await web.trx.sendRawTransaction(forged);
  assert.equal(sent.code, 'SIGERROR');
  tron.mine(3);
  assert.deepEqual(await tron.books.movements(), []);
});
