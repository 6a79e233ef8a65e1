/*
 * Goal: real transfers on a real chain are credited once, at finality, with every movement at our addresses in one class
 * and custody equal to the chain's own balances. Method: one scene; each test pays to fresh addresses, makes it final,
 * lets scanners run, and reads what the ledger, the events and the chain say.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Address, encodeFunctionData, type Hex } from 'viem';
import { batch, testToken } from '../../sim/contracts/artifacts.ts';
import { deployBatch, deployToken, mintTokens, sendAndMine, sendAs, transferData } from '../../sim/evm-send.ts';
import { bookFinal } from '../../src/flows/deposits/book.ts';
import { readRun } from '../../src/flows/deposits/block-source.ts';
import { findSightings } from '../../src/flows/deposits/sightings.ts';
import { assertBooksClean } from '../support/books.ts';
import {
  assertCustodyMatchesChain,
  type DepositScene,
  startDepositScene,
  textIn,
  UNIT,
} from '../support/deposit-scene.ts';

let scene: DepositScene;
before(async () => {
  scene = await startDepositScene({ label: 'deposits_scan' });
});
after(async () => {
  await assertBooksClean(scene.pool);
  await scene.end();
});

async function depositsAt(
  address: string,
): Promise<{ state: string; amount: bigint; fee: bigint; position: number; partner_id: string }[]> {
  return scene.rows(
    `select d.state, d.amount, d.fee, t.position, d.partner_id from payonce.deposits d
     join payonce.chain_transfers t on t.id = d.transfer_id
     join payonce.addresses a on a.id = d.address_id where a.address = $1 order by t.block_number, t.position`,
    [address],
  );
}
const classesAt = async (address: string): Promise<string[]> =>
  (
    await scene.rows<{ class: string }>(
      'select class from payonce.chain_transfers where to_address = $1 or from_address = $1 order by block_number',
      [address],
    )
  ).map((row) => row.class);

async function eventsOf(address: string): Promise<{ type: string; sequence: bigint; body: string }[]> {
  return scene.rows(
    `select e.type, e.sequence, e.body from payonce.events e join payonce.deposits d on d.id = e.subject_id
     join payonce.addresses a on a.id = d.address_id where a.address = $1 order by e.id`,
    [address],
  );
}

test('a deposit is shown as detected at the head and credited with its fee only at finality', async () => {
  const address = await scene.own('DEPOSIT');
  const scanner = scene.scanner();
  await scanner.runOnce();
  const before = await scene.balance('partner:par_a');
  await scene.pay(address, 10n * UNIT);
  await scanner.runOnce();
  assert.deepEqual(
    (await depositsAt(address)).map((one) => one.state),
    ['detected'],
  );
  assert.equal(await scene.balance('partner:par_a'), before);

  await scene.finalize();
  await scanner.runOnce();
  const [deposit] = await depositsAt(address);
  assert.deepEqual([deposit?.state, deposit?.amount, deposit?.fee], ['credited', 10n * UNIT, 200_000n]);
  assert.equal(await scene.balance('partner:par_a'), before + 9_800_000n);
  const events = await eventsOf(address);
  assert.deepEqual(
    events.map((one) => [one.type, one.sequence]),
    [
      ['deposit.detected', 1n],
      ['deposit.credited', 2n],
    ],
  );
  const told = JSON.parse(events[1]?.body ?? '{}');
  assert.deepEqual(
    [told.data.amount, told.data.fee, told.data.asset, told.data.state],
    ['10', '0.2', 'USDT', 'credited'],
  );
  const keys = await scene.rows<{ idem_key: string }>(
    `select idem_key from payonce.postings where reference = $1 order by id`,
    [told.data.id],
  );
  assert.deepEqual(
    keys.map((row) => row.idem_key),
    [`DEP_CREDIT:${told.data.id}`, `DEP_FEE:${told.data.id}`],
  );
  await assertCustodyMatchesChain(scene);
});

test('twenty monitors that report one deposit at once, and again later, credit it once (req W11)', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  await scene.scanner().runOnce();
  const before = await scene.balance('partner:par_b');
  await scene.pay(address, 3n * UNIT);
  await scene.finalize();
  const monitors = Array.from({ length: 20 }, () => scene.scanner());
  const results = await Promise.all(monitors.map((one) => one.runOnce()));
  await Promise.all(monitors.map((one) => one.runOnce()));
  assert.equal(results.filter((one) => one.credited === 1).length, 1);
  assert.ok(
    results.some((one) => one.outcome === 'lost'),
    'at least one monitor came too late and wrote nothing',
  );
  assert.equal(await scene.balance('partner:par_b'), before + 3n * UNIT);
  assert.equal((await eventsOf(address)).filter((one) => one.type === 'deposit.credited').length, 1);
  await assertCustodyMatchesChain(scene);
});

test('without the cursor the transfers own rows still let one of many book a deposit (req W11, W13)', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  await scene.scanner().runOnce();
  const before = await scene.balance('partner:par_b');
  const receipt = await scene.pay(address, 2n * UNIT);
  await scene.finalize();
  const height = BigInt(textIn(receipt.blockNumber));
  const [node] = scene.deps.nodes;
  assert.ok(node);
  const { blocks } = await readRun(node, height, height);
  const found = await findSightings(scene.pool, scene.deps, blocks);
  const booked = await Promise.all(
    Array.from({ length: 8 }, () => scene.pool.tx('book without a cursor', (tx) => bookFinal(tx, scene.deps, found))),
  );
  assert.equal(
    booked.reduce((sum, one) => sum + one.credited, 0),
    1,
  );
  await scene.scanner().runOnce();
  assert.equal(await scene.balance('partner:par_b'), before + 2n * UNIT);
  assert.equal((await depositsAt(address)).length, 1);
  await assertCustodyMatchesChain(scene);
});

test('a transaction that pays many and reverts at its end credits nobody (case H1)', async () => {
  const addresses = await Promise.all([scene.own('DEPOSIT'), scene.own('DEPOSIT')]);
  const contract = await deployBatch(scene.chain, scene.owner.privateKey);
  const approve = encodeFunctionData({ abi: testToken.abi, functionName: 'approve', args: [contract, 100n * UNIT] });
  await sendAndMine(scene.chain, scene.payer.privateKey, { to: scene.token, data: approve });
  const pay = (failLast: boolean): Hex =>
    encodeFunctionData({
      abi: batch.abi,
      functionName: 'payToken',
      args: [scene.token, addresses, [UNIT, UNIT], failLast],
    });
  const failed = await sendAs(scene.chain, scene.payer.privateKey, { to: contract, data: pay(true) });
  await sendAndMine(scene.chain, scene.payer.privateKey, { to: contract, data: pay(false) });
  await scene.finalize();
  const result = await scene.scanner().runOnce();
  assert.equal(result.credited, 2);
  const hashes = await scene.rows('select 1 from payonce.chain_transfers where tx_hash = $1', [failed]);
  assert.equal(hashes.length, 0);
  await assertCustodyMatchesChain(scene);
});

test('a token that answers false with status 1 and no log credits nothing, whatever its calldata says (case H2)', async () => {
  const address = await scene.own('DEPOSIT');
  const lie = (yes: boolean): Promise<unknown> =>
    sendAndMine(scene.chain, scene.owner.privateKey, {
      to: scene.token,
      data: encodeFunctionData({ abi: testToken.abi, functionName: 'setLies', args: [yes] }),
    });
  await lie(true);
  const receipt = await scene.pay(address, UNIT);
  await lie(false);
  assert.equal(receipt.status, '0x1');
  await scene.finalize();
  await scene.scanner().runOnce();
  assert.deepEqual(await depositsAt(address), []);
});

test('a look-alike token is ignored and counted (case H3)', async () => {
  const address = await scene.own('DEPOSIT');
  const fake = await deployToken(scene.chain, scene.owner.privateKey, { name: 'Tether USD', symbol: 'USDT' });
  await mintTokens(scene.chain, scene.owner.privateKey, fake, address, 1_000n * UNIT);
  await scene.pay(address, UNIT);
  await scene.finalize();
  const result = await scene.scanner().runOnce();
  assert.deepEqual([result.credited, result.skipped.lookAlikes], [1, 1]);
  assert.equal((await depositsAt(address)).length, 1);
  await assertCustodyMatchesChain(scene);
});

/** Code for a receiving address that passes on three transferFrom calls out of its calldata. */
function threeCalls(token: Address): Hex {
  const one = (offset: number): string =>
    `606461${offset.toString(16).padStart(4, '0')}6000376000600060646000600073${token.slice(2)}5af150`;
  return `0x${one(0)}${one(0x64)}${one(0xc8)}00`;
}

test('one transaction with two equal logs to one user, one to another, and a value is four deposits (case H5)', async () => {
  const [first, second, contract] = [
    await scene.own('DEPOSIT'),
    await scene.own('DEPOSIT', 'par_b'),
    await scene.own('DEPOSIT'),
  ];
  await scene.chain.rpc('anvil_setCode', [contract, threeCalls(scene.token)]);
  const approve = encodeFunctionData({ abi: testToken.abi, functionName: 'approve', args: [contract, 100n * UNIT] });
  await sendAndMine(scene.chain, scene.payer.privateKey, { to: scene.token, data: approve });
  const move = (to: Address): string =>
    encodeFunctionData({
      abi: testToken.abi,
      functionName: 'transferFrom',
      args: [scene.payer.address, to, UNIT],
    }).slice(2);
  const data: Hex = `0x${move(first)}${move(first)}${move(second)}`;
  await sendAndMine(scene.chain, scene.payer.privateKey, { to: contract, value: 5n, data });
  await scene.finalize();
  const result = await scene.scanner().runOnce();
  assert.equal(result.credited, 4);
  assert.deepEqual(
    (await depositsAt(first)).map((one) => [one.position, one.amount]),
    [
      [0, UNIT],
      [1, UNIT],
    ],
  );
  assert.deepEqual(
    (await depositsAt(second)).map((one) => [one.position, one.partner_id]),
    [[2, 'par_b']],
  );
  assert.deepEqual(
    (await depositsAt(contract)).map((one) => [one.position, one.amount]),
    [[-1, 5n]],
  );
  await assertCustodyMatchesChain(scene);
});

test('many transfers that look equal are all real, also with empty blocks between them (case H13)', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  for (let index = 0; index < 3; index += 1) {
    await scene.pay(address, UNIT);
    await scene.chain.mine(7);
  }
  await scene.finalize();
  const result = await scene.scanner({ batchBlocks: 2 }).runOnce();
  assert.equal(result.credited, 3);
  assert.equal((await depositsAt(address)).length, 3);
  await assertCustodyMatchesChain(scene);
});

test('the value of a plain transaction is a deposit of the chain own coin', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  await sendAndMine(scene.chain, scene.payer.privateKey, { to: address, value: 12_345n });
  await scene.finalize();
  await scene.scanner().runOnce();
  assert.deepEqual(
    (await depositsAt(address)).map((one) => [one.position, one.amount]),
    [[-1, 12_345n]],
  );
  assert.equal(-(await scene.balance(`custody:eip155:31337:${address}`, 'coin')), 12_345n);
});

test('a contract that is registered with a checksummed spelling is found, and a row that is none is left out alone (case H11)', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  const other = await deployToken(scene.chain, scene.owner.privateKey, { symbol: 'USDX' });
  assert.notEqual(other, other.toLowerCase());
  await scene.pool.query(
    `insert into payonce.assets (id, code, chain, contract, decimals) values ('usdx', 'USDX', 'eip155:31337', $1, 6), ('odd', 'ODD', 'eip155:31337', 'not a contract', 6)`,
    [other],
  );
  await mintTokens(scene.chain, scene.owner.privateKey, other, address, UNIT);
  await scene.finalize();
  await scene.scanner().runOnce();
  assert.equal(await scene.balance('partner:par_b', 'usdx'), UNIT);
  const alerts = await scene.rows(
    `select 1 from payonce.alerts where kind = 'deposit_unreadable' and key = 'eip155:31337:odd'`,
  );
  assert.equal(alerts.length, 1);
});

test('a token that was listed later is found by a rescan, and credited once', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  const later = await deployToken(scene.chain, scene.owner.privateKey, { symbol: 'LATER' });
  const from = BigInt(textIn(await scene.chain.rpc('eth_blockNumber', [])));
  await mintTokens(scene.chain, scene.owner.privateKey, later, address, UNIT);
  await scene.chain.mine(12);
  await scene.scanner().runOnce();
  await scene.pool.query(
    `insert into payonce.assets (id, code, chain, contract, decimals) values ('later', 'LATER', 'eip155:31337', $1, 6)`,
    [later],
  );
  await scene.scanner().runOnce();
  assert.equal(await scene.balance('partner:par_b', 'later'), 0n);
  const results = [await scene.scanner().rescan(from, from + 50n), await scene.scanner().rescan(from, from + 50n)];
  assert.deepEqual(
    results.map((one) => [one.outcome, one.credited]),
    [
      ['scanned', 1],
      ['scanned', 0],
    ],
  );
  assert.equal(await scene.balance('partner:par_b', 'later'), UNIT);
});

test('movements that are no deposits credit nobody, and custody follows the chain', async () => {
  const partnerUnits = await scene.balance('partner:par_a');
  const gas = scene.chain.accounts[5];
  const master = scene.chain.accounts[6];
  assert.ok(gas && master);
  await scene.own('GAS', null, gas.address);
  await scene.own('MASTER', null, master.address);
  const deposit = await scene.own('DEPOSIT');
  await scene.pool.query(
    `insert into payonce.signers (rail, address, label, next_nonce) values ('evm:31337', $1, 'hot', 0)`,
    [master.address.toLowerCase()],
  );
  const suspense = await scene.balance('suspense');
  await scene.pay(gas.address, 100n * UNIT);
  await scene.pay(master.address, 50n * UNIT);
  await scene.pay(deposit, 10n * UNIT, gas);
  await scene.pay(master.address, 10n * UNIT, gas);
  await scene.pay(deposit, 4n * UNIT, master);
  await scene.pay(scene.owner.address, 7n * UNIT, master);
  await scene.finalize();
  await scene.scanner().runOnce();

  assert.deepEqual(await classesAt(gas.address.toLowerCase()), ['UNKNOWN_INBOUND', 'FUNDING', 'FUNDING']);
  assert.deepEqual(await classesAt(master.address.toLowerCase()), [
    'UNKNOWN_INBOUND',
    'FUNDING',
    'UNKNOWN_INTERNAL',
    'UNKNOWN_OUTBOUND',
  ]);
  assert.deepEqual(await depositsAt(deposit), []);
  assert.equal(await scene.balance('partner:par_a'), partnerUnits);
  assert.equal(await scene.balance('suspense'), suspense + 150n * UNIT - 7n * UNIT);
  const alerts = await scene.rows<{ kind: string }>(
    `select distinct kind from payonce.alerts where kind like 'unknown%' order by 1`,
  );
  assert.deepEqual(
    alerts.map((row) => row.kind),
    ['unknown_inbound', 'unknown_internal', 'unknown_outbound'],
  );
  const cases = await scene.rows<{ kind: string }>(`select kind from payonce.cases order by kind`);
  assert.deepEqual(
    cases.map((row) => row.kind),
    ['signer_quarantined', 'unknown_movement', 'unknown_movement', 'unmatched_inbound', 'unmatched_inbound'],
  );
  const [signer] = await scene.rows<{ quarantined_at: Date | null }>(
    'select quarantined_at from payonce.signers where address = $1',
    [master.address.toLowerCase()],
  );
  assert.notEqual(signer?.quarantined_at, null);
  await assertCustodyMatchesChain(scene);
});

test('a deposit smaller than the fee pays no more fee than it has', async () => {
  const address = await scene.own('DEPOSIT');
  const before = await scene.balance('partner:par_a');
  await scene.pay(address, 40_000n);
  await scene.finalize();
  await scene.scanner().runOnce();
  assert.deepEqual(
    (await depositsAt(address)).map((one) => one.fee),
    [40_000n],
  );
  assert.equal(await scene.balance('partner:par_a'), before);
  await assertCustodyMatchesChain(scene);
});

test('a block in which two transfers cross, one malformed log of our token among them, books the good ones', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  // A contract of ours that was replaced: it still emits Transfer, in another form.
  const odd = await scene.own('ADMIN');
  await scene.chain.rpc('anvil_setCode', [
    odd,
    `0x7fddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef60606000a100`,
  ]);
  await scene.pool.query(
    `insert into payonce.assets (id, code, chain, contract, decimals) values ('changed', 'CHANGED', 'eip155:31337', $1, 6)`,
    [odd],
  );
  await sendAndMine(scene.chain, scene.payer.privateKey, { to: odd, data: transferData(address, UNIT) });
  await scene.pay(address, UNIT);
  await scene.finalize();
  const result = await scene.scanner().runOnce();
  assert.deepEqual([result.credited, result.skipped.malformed], [1, 1]);
  await assertCustodyMatchesChain(scene);
});
