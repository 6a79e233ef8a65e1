/*
 * Goal: every movement of a watched address has one class for each side that is ours, with its reason on record; what has no
 * record of ours stops the wallet that it left, whoever signs for that wallet. Method: the whole table, sender × receiver ×
 * effect, against the requirement in other words; then a real chain, a real scanner and the rows that they leave.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Hex } from 'viem';
import { advanceOnce } from '../../src/engine/advance.ts';
import { makeNoopRail } from '../../src/engine/noop.ts';
import { quarantineWallet } from '../../src/engine/quarantine.ts';
import { classifySides, type OwnEffect, type Side } from '../../src/flows/deposits/classify-transfer.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { sendAndMine } from '../../sim/evm-send.ts';
import { assertBooksClean } from '../support/books.ts';
import {
  assertCustodyMatchesChain,
  type DepositScene,
  RAIL,
  startDepositScene,
  textIn,
  UNIT,
} from '../support/deposit-scene.ts';
import { makeWorld } from '../support/world.ts';

const SIDES: Side[] = ['OUTSIDE', 'MASTER', 'PARTNER_MASTER', 'DEPOSIT', 'SETTLEMENT', 'GAS', 'RELAYER', 'ADMIN'];
const INFRASTRUCTURE: Side[] = ['SETTLEMENT', 'GAS', 'RELAYER', 'ADMIN'];
const EFFECTS: OwnEffect[] = ['none', 'partner_pays', 'own'];

const isOurs = (side: Side): boolean => side !== 'OUTSIDE';

function senderSide(from: Side, to: Side, effect: OwnEffect): string | null {
  if (!isOurs(from)) return null;
  if (effect !== 'none') return 'OWN_EFFECT';
  if (!isOurs(to)) return 'UNKNOWN_OUTBOUND';
  return INFRASTRUCTURE.includes(from) ? 'FUNDING' : 'UNKNOWN_INTERNAL';
}

function receiverSide(from: Side, to: Side, effect: OwnEffect): string | null {
  if (!isOurs(to)) return null;
  if (effect === 'partner_pays' && isOurs(from) && to === 'DEPOSIT') return 'DEPOSIT';
  if (effect !== 'none') return 'OWN_EFFECT';
  if (isOurs(from)) return INFRASTRUCTURE.includes(from) ? 'FUNDING' : 'UNKNOWN_INTERNAL';
  return to === 'DEPOSIT' || to === 'PARTNER_MASTER' ? 'DEPOSIT' : 'UNKNOWN_INBOUND';
}

test('each side that is ours has the one class that the requirement gives it, and a side outside has none (req R10, inv I1)', () => {
  let combinations = 0;
  for (const from of SIDES) {
    for (const to of SIDES) {
      for (const effect of EFFECTS) {
        const sides = classifySides({ from, to, effect });
        const what = `${from} to ${to}, effect ${effect}`;
        // A transaction of ours that moves money between two strangers moves none of ours.
        const none = !isOurs(from) && !isOurs(to);
        assert.equal(sides.sender?.class ?? null, none ? null : senderSide(from, to, effect), `${what}: sender`);
        assert.equal(sides.receiver?.class ?? null, none ? null : receiverSide(from, to, effect), `${what}: receiver`);
        for (const side of [sides.sender, sides.receiver])
          if (side !== null) assert.match(side.reason, /^[a-z_]+$/, `${what}: its reason`);
        combinations += 1;
      }
    }
  }
  assert.equal(combinations, 192);
});

test('what a settlement wallet sends to ourselves is funding, whoever receives it, without exception (req R10, R13)', () => {
  for (const to of SIDES.filter(isOurs)) {
    const { sender, receiver } = classifySides({ from: 'SETTLEMENT', to, effect: 'none' });
    assert.deepEqual([sender?.class, receiver?.class], ['FUNDING', 'FUNDING'], to);
  }
});

let scene: DepositScene;
before(async () => {
  scene = await startDepositScene({ label: 'classify' });
});
after(async () => {
  await assertBooksClean(scene.pool);
  await scene.end();
});

const sidesOf = (txHash: string) =>
  scene.rows<{ class: string; class_reason: string; sender_class: string | null; sender_reason: string | null }>(
    'select class, class_reason, sender_class, sender_reason from payonce.chain_transfers where tx_hash = $1',
    [txHash],
  );
async function scanned(): Promise<void> {
  await scene.finalize();
  await scene.scanner().runOnce();
}

test('a return of 508.554238 from the settlement wallet credits nobody, and both sides say why (req R13)', async () => {
  const settlement = scene.chain.accounts[5];
  assert.ok(settlement);
  await scene.own('SETTLEMENT', null, settlement.address);
  const master = await scene.own('MASTER', 'par_a');
  await scene.pay(settlement.address, 1_000n * UNIT);
  await scanned();
  const receipt = await scene.pay(master, 508_554_238n, settlement);
  await scanned();
  assert.deepEqual(await sidesOf(textIn(receipt.transactionHash)), [
    {
      class: 'FUNDING',
      class_reason: 'infrastructure_sends_to_ourselves',
      sender_class: 'FUNDING',
      sender_reason: 'infrastructure_sends_to_ourselves',
    },
  ]);
  assert.equal(await scene.balance('partner:par_a'), 0n);
  assert.equal(await scene.balance(`custody:${scene.deps.chain}:${master}`), -508_554_238n);
  await assertCustodyMatchesChain(scene);
});

test('an orphan sweep between own wallets credits nobody, alarms, and stops the wallet that it left (req R10, case N6)', async () => {
  const deposit = scene.chain.accounts[6];
  const stranger = scene.chain.accounts[7];
  assert.ok(deposit && stranger);
  await scene.own('DEPOSIT', 'par_b', deposit.address);
  const master = await scene.own('MASTER', 'par_b');
  await scene.pay(deposit.address, 30n * UNIT);
  await scanned();
  assert.equal(await scene.balance('partner:par_b'), 30n * UNIT, 'the deposit itself is credited');
  const receipt = await scene.pay(master, 30n * UNIT, deposit);
  await scanned();
  const [row] = await sidesOf(textIn(receipt.transactionHash));
  assert.deepEqual([row?.sender_class, row?.class], ['UNKNOWN_INTERNAL', 'UNKNOWN_INTERNAL']);
  assert.equal(await scene.balance('partner:par_b'), 30n * UNIT, 'credited once');
  const stopped = await scene.rows<{ address: string; reason: string }>(
    'select address, quarantine_reason as reason from payonce.signers where rail = $1 and quarantined_at is not null',
    [RAIL],
  );
  assert.deepEqual(
    stopped.map((one) => one.address),
    [deposit.address.toLowerCase()],
    'the wallet, which had never signed; not the receiver',
  );
  const alerts = await scene.rows<{ kind: string }>(
    "select kind from payonce.alerts where cleared_at is null and kind in ('unknown_internal', 'signer_quarantined') order by 1",
  );
  assert.deepEqual(
    alerts.map((one) => one.kind),
    ['signer_quarantined', 'unknown_internal'],
  );
  await assertCustodyMatchesChain(scene);
});

test('a stranger who moves our tokens by an allowance stops the wallet, and no row is made for the stranger (req R10)', async () => {
  const owner = scene.chain.accounts[8];
  const thief = scene.chain.accounts[9] ?? scene.chain.accounts[7];
  assert.ok(owner && thief);
  await scene.own('MASTER', null, owner.address);
  await scene.pay(owner.address, 20n * UNIT);
  const word = (text: string): string => text.replace(/^0x/, '').toLowerCase().padStart(64, '0');
  const amount = word((20n * UNIT).toString(16));
  await sendAndMine(scene.chain, owner.privateKey, {
    to: scene.token,
    data: `0x095ea7b3${word(thief.address)}${amount}` as Hex,
  });
  const receipt = await sendAndMine(scene.chain, thief.privateKey, {
    to: scene.token,
    data: `0x23b872dd${word(owner.address)}${word(thief.address)}${amount}` as Hex,
  });
  await scanned();
  const [row] = await sidesOf(textIn(receipt.transactionHash));
  assert.deepEqual([row?.sender_class, row?.class], ['UNKNOWN_OUTBOUND', 'UNKNOWN_OUTBOUND']);
  const signers = await scene.rows<{ address: string }>('select address from payonce.signers where rail = $1', [RAIL]);
  assert.equal(
    signers.some((one) => one.address === thief.address.toLowerCase()),
    false,
  );
  assert.equal(
    signers.some((one) => one.address === owner.address.toLowerCase()),
    true,
  );
  await assertCustodyMatchesChain(scene);
});

test('a wallet in quarantine seals nothing new, though another key signs for it (req R10, R15)', async () => {
  const rail = makeNoopRail('noop', { look: () => Promise.resolve([{ kind: 'final_success', objectId: 'done' }]) });
  const world = await makeWorld({ label: 'classify_lent', rails: () => [rail], wallets: ['wallet-1', 'relayer'] });
  await createWithdrawals(world, [world.request()]);
  await world.pool.tx('quarantine', (tx) =>
    quarantineWallet(tx, world, { rail: 'noop', wallet: 'wallet-2', sender: 'somebody', reason: 'a test' }),
  );
  // Taken in for a wallet that a relayer signs for: what such an intake writes.
  await world.pool.tx('stage', async (tx) => {
    await tx.query('set local session_replication_role = replica');
    await tx.query("update payonce.effects set wallet = 'wallet-2', signer = 'relayer'");
    await tx.query("update payonce.asset_policies set wallet = 'wallet-2', relayers = '{relayer}'");
  });
  for (let pass = 0; pass < 3; pass += 1) {
    await world.pool.query('update payonce.effects set next_at = payonce.now()');
    await advanceOnce(world.engine, rail);
  }
  const { rows } = await world.pool.query<{ state: string; wait_reason: string }>(
    'select state, wait_reason from payonce.effects',
  );
  assert.deepEqual(rows, [{ state: 'PENDING', wait_reason: 'WALLET_QUARANTINED' }]);
  await world.end();
});
