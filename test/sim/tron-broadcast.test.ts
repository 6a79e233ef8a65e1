/*
 * Goal: each answer to a broadcast comes when java-tron gives it, before and after the inclusion, and in its order of checks.
 * Method: signed transactions over plain HTTP against nodes in the state that the answer needs.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
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
  return { tron, payer, payee };
}

test('the same bytes again are a duplicate in pending and in a block, and expired once they are expired', async () => {
  const { tron, payer, payee } = await scene();
  const signed = await payer.trx(payee.address, 5);
  assert.equal(await broadcast(tron, signed), 'SUCCESS');
  assert.equal(await broadcast(tron, signed), 'DUP_TRANSACTION_ERROR Dup transaction.');
  tron.mine();
  assert.equal(await broadcast(tron, signed), 'DUP_TRANSACTION_ERROR Dup transaction.');
  tron.mine(20);
  // Included, and the answer is the one of a transaction that never was.
  assert.equal(await broadcast(tron, signed), 'TRANSACTION_EXPIRATION_ERROR Transaction expired');
  assert.equal((await tron.books.movements()).length, 1);
});

test('an expiration too far ahead has the same code as one that is past', async () => {
  const { tron, payer, payee } = await scene();
  const far = await payer.trx(payee.address, 5, { expiration: tron.head().timeMs + 86_400_000 + 3_000 });
  assert.match(await broadcast(tron, far), /^TRANSACTION_EXPIRATION_ERROR/);
  const past = await payer.trx(payee.address, 5, { expiration: tron.head().timeMs });
  assert.match(await broadcast(tron, past), /^TRANSACTION_EXPIRATION_ERROR/);
});

test('a reference to a block that a fork has left, or that the node has not yet, is a TAPOS error', async () => {
  const { tron, payer, payee } = await scene({ nodes: [{ name: 'main' }, { name: 'slow', lagBlocks: 5 }] });
  const onHead = await payer.trx(payee.address, 5, { from: 'head' });
  assert.equal(await broadcast(tron.node('slow'), onHead), 'TAPOS_ERROR Tapos check error.');
  tron.fork(1);
  assert.equal(await broadcast(tron, onHead), 'TAPOS_ERROR Tapos check error.');
  const onSolid = await payer.trx(payee.address, 6);
  assert.equal(await broadcast(tron, onSolid), 'SUCCESS');
});

test('what cannot be paid is refused by validation, what has no bandwidth by its own code', async () => {
  const { tron, payer, payee } = await scene();
  const much = await payer.trx(payee.address, 2_000_000_000);
  assert.match(await broadcast(tron, much), /^CONTRACT_VALIDATE_ERROR .*balance is not sufficient/);
  const nobody = makePerson(tron, '7');
  assert.match(await broadcast(tron, await nobody.trx(payee.address, 5)), /^CONTRACT_VALIDATE_ERROR .*does not exist/);
  const poor = makePerson(tron, '8');
  tron.fund(poor.address, 10n);
  assert.equal(await broadcast(tron, await poor.trx(payee.address, 1)), 'SUCCESS');
  assert.equal(await broadcast(tron, await poor.trx(payee.address, 2)), 'SUCCESS');
  // Two transfers have used the 600 free bytes, and ten sun pay for none.
  assert.equal(
    await broadcast(tron, await poor.trx(payee.address, 3)),
    'BANDWITH_ERROR Account resource insufficient error.',
  );
});

test('a permission that changes makes right signatures wrong', async () => {
  const { tron, payer, payee } = await scene();
  const signed = await payer.trx(payee.address, 5);
  tron.setPermission(payer.address, [payee.address]);
  assert.match(await broadcast(tron, signed), /^SIGERROR .*not contained of permission/);
  tron.setPermission(payer.address, [payer.address, payee.address], 2);
  assert.match(await broadcast(tron, signed), /^SIGERROR .*sig error/);
  assert.match(await broadcast(tron, { ...signed, signature: [] }), /^SIGERROR .*miss sig or contract/);
});

test('a node without peers, with too much to do or whose chain is not solid any more takes nothing', async () => {
  const { tron, payer, payee } = await scene();
  const { settings } = tron.nodes[0] ?? assert.fail('no node');
  const signed = await payer.trx(payee.address, 5);
  settings.peers = 0;
  assert.equal(await broadcast(tron, signed), 'NO_CONNECTION No connection.');
  settings.unsyncedPeers = 3;
  assert.match(await broadcast(tron, signed), /^NOT_ENOUGH_EFFECTIVE_CONNECTION Effective connection:0 lt/);
  settings.peers = 5;
  settings.pendingMax = -1;
  assert.equal(await broadcast(tron, signed), 'SERVER_BUSY Server busy.');
  settings.pendingMax = 2_000;
  tron.stallSolidity(true);
  tron.mine(54 - 18);
  assert.equal(await broadcast(tron, signed), 'BLOCK_UNSOLIDIFIED Block unsolidified.');
  assert.deepEqual(await tron.books.movements(), []);
});

test('a failed spread is said after the transaction was taken', async () => {
  const { tron, payer, payee } = await scene();
  const { settings } = tron.nodes[0] ?? assert.fail('no node');
  const signed = await payer.trx(payee.address, 5, { expiration: tron.head().timeMs + 600_000 });
  settings.isolated = true;
  assert.equal(await broadcast(tron, signed), 'NOT_ENOUGH_EFFECTIVE_CONNECTION P2P broadcast failed.');
  assert.deepEqual(tron.node('main').pending(), [signed.txID]);
  tron.mine(3);
  assert.deepEqual(await tron.books.movements(), []);
  // A minute later the node has forgotten it; connected again, it takes the same bytes, and all its peers have had them.
  tron.mine(20);
  assert.deepEqual(tron.node('main').pending(), []);
  settings.isolated = false;
  assert.equal(await broadcast(tron, signed), 'NOT_ENOUGH_EFFECTIVE_CONNECTION P2P broadcast failed.');
  tron.mine();
  assert.equal((await tron.books.movements()).length, 1);
});

test('with its cache on, a node calls what it refused a duplicate', async () => {
  const { tron, payer, payee } = await scene({ nodes: [{ transactionCache: true }] });
  const signed = await payer.trx(payee.address, 2_000_000_000);
  assert.match(await broadcast(tron, signed), /^CONTRACT_VALIDATE_ERROR/);
  assert.equal(await broadcast(tron, signed), 'DUP_TRANSACTION_ERROR Transaction already exists.');
});

test('with visible, addresses are base58 and messages are text; a mistyped address leaves no contract', async () => {
  const { tron, payer, payee } = await scene();
  const made = await post(tron.url, '/wallet/createtransaction', {
    owner_address: payer.address,
    to_address: payee.address,
    amount: 7,
    visible: true,
  });
  assert.equal(made.json.raw_data.contract[0].parameter.value.to_address, payee.address);
  const unsigned = await post(tron.url, '/wallet/broadcasttransaction', made.json);
  assert.equal(unsigned.json.message, 'Validate signature error: miss sig or contract');
  assert.equal(unsigned.json.txid, made.json.txID);
  made.json.raw_data.contract[0].parameter.value.to_address = `${payee.address.slice(0, -1)}1`;
  const mistyped = await post(tron.url, '/wallet/broadcasttransaction', made.json);
  assert.equal(mistyped.json.message, 'Contract validate error : No contract!');
  assert.notEqual(mistyped.json.txid, made.json.txID);
  const nothing = await post(tron.url, '/wallet/broadcasttransaction', {});
  assert.deepEqual(nothing, {
    status: 200,
    text: '{"Error":"class java.lang.NullPointerException : null"}\n',
    json: { Error: 'class java.lang.NullPointerException : null' },
  });
});
