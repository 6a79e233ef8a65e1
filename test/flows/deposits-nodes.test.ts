/*
 * Goal: nodes that lag, disagree, leave out or take back what was final never make a wrong credit, and never a lost one.
 * Method: proxies with faults before one real chain, snapshots of that chain for reorganisations, and after each fault the
 * same deposit credited once when the nodes are well again.
 */
import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { type Address, encodeFunctionData, type Hex } from 'viem';
import { testToken } from '../../sim/contracts/artifacts.ts';
import { sendAndMine, signAs, transferData } from '../../sim/evm-send.ts';
import { isObject, type JsonObject } from '../../sim/json-rpc.ts';
import { REVERSE_DEPOSIT, resumeScan, reverseDeposit } from '../../src/flows/deposits/index.ts';
import { accountName } from '../../src/ledger/accounts.ts';
import { post } from '../../src/ledger/post.ts';
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
  scene = await startDepositScene({ label: 'deposits_nodes', nodeCount: 2 });
});
after(async () => {
  // One test moves a floor to stage a deficit, which no posting explains (L4).
  await assertBooksClean(scene.pool, { without: ['L4'] });
  await scene.end();
});
beforeEach(() => {
  for (const node of scene.nodes) node.heal();
});

interface Row extends Record<string, unknown> {
  id: string;
  state: string;
  amount: bigint;
}
const depositsAt = (address: string): Promise<Row[]> =>
  scene.rows<Row>(
    `select d.id, d.state, d.amount from payonce.deposits d join payonce.addresses a on a.id = d.address_id where a.address = $1`,
    [address],
  );
const statesAt = async (address: string): Promise<string[]> => (await depositsAt(address)).map((one) => one.state);
async function eventsAt(address: string): Promise<string[]> {
  const rows = await scene.rows<{ type: string }>(
    `select e.type from payonce.events e join payonce.deposits d on d.id = e.subject_id
     join payonce.addresses a on a.id = d.address_id where a.address = $1 order by e.id`,
    [address],
  );
  return rows.map((row) => row.type);
}
const openAlerts = async (): Promise<string[]> =>
  (await scene.rows<{ kind: string }>('select kind from payonce.alerts where cleared_at is null order by kind')).map(
    (row) => row.kind,
  );
const nodeAt = (index: number) => {
  const node = scene.nodes[index];
  assert.ok(node);
  return node;
};

test('a node whose receipts are incomplete at the head detects and credits nothing until they are whole (case F3)', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  await scene.chain.mine(8);
  await scene.scanner().runOnce();
  for (const node of scene.nodes)
    node.script({ method: 'eth_getBlockReceipts', fault: { kind: 'empty_at_head', blocks: 100 } });
  await scene.pay(address, UNIT);
  const scanner = scene.scanner();
  const early = await scanner.runOnce();
  assert.deepEqual([early.outcome, early.detected, early.credited], ['scanned', 0, 0]);
  await scene.finalize();
  const blind = await scanner.runOnce();
  assert.deepEqual([blind.outcome, blind.credited], ['waiting', 0]);
  assert.deepEqual(await statesAt(address), []);
  assert.ok((nodeAt(0).counts.empty_at_head ?? 0) > 0, 'the fault fired');

  for (const node of scene.nodes) node.heal();
  assert.equal((await scanner.runOnce()).credited, 1);
  assert.deepEqual(await statesAt(address), ['credited']);
  await assertCustodyMatchesChain(scene);
});

test('a receipt with a status word that is neither success nor revert credits nothing and holds the scan (case H10)', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  await scene.scanner().runOnce();
  const receipt = await scene.pay(address, UNIT);
  await scene.finalize();
  const receipts = await scene.chain.rpc('eth_getBlockReceipts', [textIn(receipt.blockHash)]);
  assert.ok(Array.isArray(receipts) && isObject(receipts[0]));
  const odd = [{ ...receipts[0], status: '0x2' }];
  for (const node of scene.nodes) {
    node.script({
      method: 'eth_getBlockReceipts',
      when: (params) => Array.isArray(params) && params[0] === receipt.blockHash,
      fault: { kind: 'invent', result: odd },
    });
  }
  const scanner = scene.scanner();
  for (let run = 0; run < 3; run += 1) await scanner.runOnce();
  assert.deepEqual(await statesAt(address), []);
  assert.deepEqual(await openAlerts(), ['deposit_scan_waits']);

  for (const node of scene.nodes) node.heal();
  assert.equal((await scanner.runOnce()).credited, 1);
  assert.deepEqual(await openAlerts(), []);
});

test('one node down or far behind leaves too few witnesses: nothing is credited, and everything is when it is back', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  await scene.scanner().runOnce();
  nodeAt(1).lagBy(50);
  await scene.pay(address, UNIT);
  await scene.finalize();
  assert.equal((await scene.scanner().runOnce()).credited, 0);
  await nodeAt(1).down();
  assert.equal((await scene.scanner().runOnce()).outcome, 'waiting');
  await nodeAt(1).up();
  nodeAt(1).heal();
  assert.equal((await scene.scanner().runOnce()).credited, 1);
  assert.deepEqual(await statesAt(address), ['credited']);
});

test('two nodes that show different hashes of a final block stop credits until they agree (case F5)', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  await scene.scanner().runOnce();
  await scene.pay(address, UNIT);
  await scene.finalize();
  const final = await scene.chain.rpc('eth_getBlockByNumber', ['finalized', false]);
  assert.ok(isObject(final));
  const minority: JsonObject = { ...final, hash: `0x${'ab'.repeat(32)}` };
  nodeAt(1).script({
    method: 'eth_getBlockByNumber',
    when: asksFor('finalized', textIn(final.number)),
    fault: { kind: 'invent', result: minority },
  });
  const scanner = scene.scanner();
  assert.deepEqual([(await scanner.runOnce()).outcome, (await scanner.runOnce()).outcome], ['halted', 'halted']);
  assert.deepEqual(await statesAt(address), []);
  assert.deepEqual(await openAlerts(), ['deposit_scan_halted', 'seals_stopped']);
  const [cursor] = await scene.rows<{ halted_reason: string }>('select halted_reason from payonce.scan_cursors');
  assert.match(cursor?.halted_reason ?? '', /^nodes_disagree: /);

  nodeAt(1).heal();
  assert.equal((await scanner.runOnce()).credited, 1);
  assert.deepEqual(await openAlerts(), []);
  await assertCustodyMatchesChain(scene);
});

function asksFor(...blocks: string[]): (params: unknown) => boolean {
  return (params) => Array.isArray(params) && blocks.includes(String(params[0]));
}

test('a detected deposit vanishes with its block, comes back with the same transaction, and is credited once', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  const scanner = scene.scanner();
  await scene.chain.mine(3);
  await scanner.runOnce();
  const raw = await signAs(scene.chain, scene.payer.privateKey, { to: scene.token, data: transferData(address, UNIT) });
  const snapshot = await scene.chain.rpc('evm_snapshot', []);
  await scene.chain.rpc('eth_sendRawTransaction', [raw]);
  await scanner.runOnce();
  assert.deepEqual(await statesAt(address), ['detected']);

  await scene.chain.rpc('evm_revert', [snapshot ?? null]);
  await scanner.runOnce();
  assert.deepEqual(await statesAt(address), ['detected'], 'a head without the block proves nothing yet');
  await scene.chain.rpc('evm_increaseTime', [60]);
  await scene.chain.mine(1);
  await scanner.runOnce();
  assert.deepEqual(await statesAt(address), ['vanished']);
  await scene.chain.rpc('eth_sendRawTransaction', [raw]);
  await scanner.runOnce();
  assert.deepEqual(await statesAt(address), ['detected']);
  await scene.finalize();
  await scanner.runOnce();
  assert.deepEqual(await statesAt(address), ['credited']);
  assert.deepEqual(await eventsAt(address), [
    'deposit.detected',
    'deposit.vanished',
    'deposit.detected',
    'deposit.credited',
  ]);
  await assertCustodyMatchesChain(scene);
});

/** Pays `storage[0]` units to `storage[1]`: mined again it may do something else. */
function payByStorage(token: Address): Hex {
  const call = `6000600060446000600073${token.slice(2)}5af15000`;
  return `0x63a9059cbb60e01b600052600154600452600054602452${call}`;
}

test('a transaction that is mined again with another amount is credited as it stands in the final block', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  const paid = await mineTwice(address, UNIT, address, 2n * UNIT);
  assert.deepEqual(
    paid.map((one) => [one.state, one.amount]),
    [['credited', 2n * UNIT]],
  );
  await assertCustodyMatchesChain(scene);
});

test('a transaction that is mined again with another receiver goes to suspense and to a person', async () => {
  const [shown, final] = [await scene.own('DEPOSIT', 'par_b'), await scene.own('DEPOSIT', 'par_a')];
  const before = [await scene.balance('partner:par_a'), await scene.balance('partner:par_b')];
  const paid = await mineTwice(shown, UNIT, final, UNIT);
  assert.deepEqual(
    paid.map((one) => one.state),
    ['vanished'],
  );
  assert.deepEqual(await statesAt(final), []);
  assert.deepEqual([await scene.balance('partner:par_a'), await scene.balance('partner:par_b')], before);
  const cases = await scene.rows(
    `select 1 from payonce.cases where kind = 'unmatched_inbound' and subject_key like $1`,
    [`%${final}%`],
  );
  assert.equal(cases.length, 1);
  await assertCustodyMatchesChain(scene);
});

/** The same signed bytes in two blocks that do different things; what the ledger then has at the first address. */
async function mineTwice(first: Address, firstUnits: bigint, second: Address, secondUnits: bigint): Promise<Row[]> {
  const { chain, payer } = scene;
  const contract: Address = `0x${'c0de'.repeat(9)}${first.slice(-4)}`;
  const slot = (value: bigint): Hex => `0x${value.toString(16).padStart(64, '0')}`;
  const set = async (to: Address, units: bigint): Promise<void> => {
    await chain.rpc('anvil_setStorageAt', [contract, '0x0', slot(units)]);
    await chain.rpc('anvil_setStorageAt', [contract, '0x1', slot(BigInt(to))]);
  };
  await chain.rpc('anvil_setCode', [contract, payByStorage(scene.token)]);
  await scene.pay(contract, 10n * UNIT);
  await chain.mine(3);
  const scanner = scene.scanner();
  await scanner.runOnce();
  const snapshot = await chain.rpc('evm_snapshot', []);
  const raw = await signAs(chain, payer.privateKey, { to: contract });
  await set(first, firstUnits);
  await chain.rpc('eth_sendRawTransaction', [raw]);
  await scanner.runOnce();
  assert.deepEqual(await statesAt(first), ['detected']);
  await chain.rpc('evm_revert', [snapshot ?? null]);
  await chain.rpc('evm_increaseTime', [60]);
  await set(second, secondUnits);
  await chain.rpc('eth_sendRawTransaction', [raw]);
  await scene.finalize();
  await scanner.runOnce();
  return depositsAt(first);
}

test('a credited deposit whose final block is gone stops the scan, and two persons reverse it by new entries (case F5)', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  const scanner = scene.scanner();
  await scene.chain.mine(10);
  await scanner.runOnce();
  const common = BigInt(textIn(await scene.chain.rpc('eth_blockNumber', [])));
  const snapshot = await scene.chain.rpc('evm_snapshot', []);
  await scene.pay(address, 5n * UNIT);
  await scene.finalize();
  await scanner.runOnce();
  assert.deepEqual(await statesAt(address), ['credited']);
  await spendAll('par_b');

  await scene.chain.rpc('evm_revert', [snapshot ?? null]);
  await scene.chain.rpc('evm_increaseTime', [60]);
  await scene.chain.mine(6);
  const broken = await scanner.runOnce();
  assert.deepEqual([broken.outcome, broken.credited], ['halted', 0]);
  assert.equal((await scanner.runOnce()).outcome, 'halted', 'no timer lets it go on');
  const cases = await scene.rows<{ id: string }>(
    `select id from payonce.cases where kind = 'broken_finality' and closed_at is null`,
  );
  assert.equal(cases.length, 1);

  const [deposit] = await depositsAt(address);
  assert.ok(deposit);
  const proposalId = await approved(cases[0]?.id ?? '', deposit.id);
  const wrong = await scene.pool.tx('reverse', (tx) =>
    reverseDeposit(tx, scene.deps, { depositId: deposit.id, proposalId: 'none' }),
  );
  assert.equal(wrong.outcome, 'not_approved');
  const reverse = () =>
    scene.pool.tx('reverse', (tx) => reverseDeposit(tx, scene.deps, { depositId: deposit.id, proposalId }));
  assert.deepEqual(await reverse(), { outcome: 'reversed', missing: 5n * UNIT });
  assert.deepEqual(await reverse(), { outcome: 'already_reversed' });
  assert.equal(await scene.balance('partner:par_b'), -5n * UNIT);
  assert.equal((await eventsAt(address)).at(-1), 'deposit.reversed');

  assert.equal(await scene.pool.tx('resume', (tx) => resumeScan(tx, scene.deps.chain, common + 1n)), 'resumed');
  assert.equal((await scanner.runOnce()).outcome, 'scanned');
  const fresh = await scene.own('DEPOSIT', 'par_b');
  await scene.pay(fresh, 2n * UNIT);
  await scene.finalize();
  assert.equal((await scanner.runOnce()).credited, 1);
  const [account] = await scene.rows<{ balance: bigint; deficit: bigint }>(
    `select balance, deficit from payonce.accounts where code = 'partner:par_b' and asset_id = 'usdt'`,
  );
  assert.deepEqual([account?.balance, account?.deficit], [-3n * UNIT, 3n * UNIT], 'later credits lower the deficit');
  await assertCustodyMatchesChain(scene);
});

test('a booked deposit that a person did not reverse is told when the scan has gone on without it', async () => {
  const address = await scene.own('DEPOSIT', 'par_a');
  const scanner = scene.scanner();
  await scene.chain.mine(10);
  await scanner.runOnce();
  const common = BigInt(textIn(await scene.chain.rpc('eth_blockNumber', [])));
  const snapshot = await scene.chain.rpc('evm_snapshot', []);
  await scene.pay(address, 5n * UNIT);
  await scene.finalize();
  await scanner.runOnce();
  await scene.chain.rpc('evm_revert', [snapshot ?? null]);
  await scene.chain.rpc('evm_increaseTime', [60]);
  await scene.chain.mine(6);
  assert.equal((await scanner.runOnce()).outcome, 'halted');
  await scene.pool.tx('resume', (tx) => resumeScan(tx, scene.deps.chain, common + 1n));
  await scanner.runOnce();
  const told = await scene.rows<{ summary: string }>(
    `select summary from payonce.cases where kind = 'broken_finality' and partner_id = 'par_a'`,
  );
  const [deposit] = await depositsAt(address);
  assert.equal(told.length, 1);
  assert.ok(told[0]?.summary.includes(deposit?.id ?? 'none'));
});

/** The partner uses what it has. */
async function spendAll(partnerId: string): Promise<void> {
  const spent = await scene.balance(`partner:${partnerId}`);
  await scene.pool.tx('spend', async (tx) => {
    const [from, to] = await scene.deps.chart.ids(tx, [
      accountName.partner(partnerId, 'usdt'),
      accountName.suspense('usdt'),
    ]);
    assert.ok(from !== undefined && to !== undefined);
    await post(tx, [
      {
        kind: 'post',
        key: 'MIGRATED:spend',
        reference: 'spend',
        entries: [
          { accountId: from, amount: -spent },
          { accountId: to, amount: spent },
        ],
      },
    ]);
  });
}
/** A proposal by one person, approved by another. */
async function approved(caseId: string, depositId: string): Promise<string> {
  await scene.pool.query(
    `insert into payonce.operators (id, name, key_hash, role) values ('op_1', 'One', 'h1', 'operator'), ('op_2', 'Two', 'h2', 'approver')`,
  );
  await scene.pool.query(
    `insert into payonce.proposals (id, case_id, verb, detail, evidence_version, proposed_by, approved_by, decided_at, state)
     values ('prop_1', $1, $2, jsonb_build_object('deposit_id', $3::text), 0, 'op_1', 'op_2', payonce.now(), 'approved')`,
    [caseId, REVERSE_DEPOSIT, depositId],
  );
  return 'prop_1';
}

test('a fee on a deposit to an account in deficit is paid from that deposit', async () => {
  const address = await scene.own('DEPOSIT', 'par_a');
  const before = await scene.balance('partner:par_a');
  await scene.pool.query(
    `update payonce.accounts set floor = $1, deficit = 0 where code = 'partner:par_a' and asset_id = 'usdt'`,
    [before],
  );
  await scene.pool.query(
    `update payonce.accounts set floor = $1, deficit = $2 where code = 'partner:par_a' and asset_id = 'usdt'`,
    [before + 50n * UNIT, 50n * UNIT],
  );
  await scene.pay(address, 10n * UNIT);
  await scene.finalize();
  await scene.scanner().runOnce();
  const [account] = await scene.rows<{ balance: bigint; deficit: bigint }>(
    `select balance, deficit from payonce.accounts where code = 'partner:par_a' and asset_id = 'usdt'`,
  );
  assert.deepEqual([account?.balance, account?.deficit], [before + 9_800_000n, 50n * UNIT - 9_800_000n]);
});

test('nodes that refuse large answers are read in halves', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  await scene.scanner().runOnce();
  await scene.pay(address, UNIT);
  await scene.chain.mine(30);
  let asked = 0;
  const wrapped = scene.deps.nodes.map((node) => ({
    ...node,
    readBlocks: async (numbers: readonly bigint[]) => {
      asked += 1;
      if (numbers.length > 3) return numbers.map(() => ({ ok: false as const, fault: 'range too large' }));
      return node.readBlocks(numbers);
    },
  }));
  const result = await scene.scanner({ nodes: wrapped }).runOnce();
  assert.deepEqual([result.outcome, result.credited], ['scanned', 1]);
  assert.ok(asked > 10);
});

test('an approve call and other logs of our token are no transfers', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  const approve = encodeFunctionData({ abi: testToken.abi, functionName: 'approve', args: [address, UNIT] });
  await sendAndMine(scene.chain, scene.payer.privateKey, { to: scene.token, data: approve });
  await scene.finalize();
  const result = await scene.scanner().runOnce();
  assert.deepEqual([result.credited, result.skipped.malformed], [0, 0]);
});
