/*
 * Goal: what our own effects move is theirs and no deposit, except where a partner pays to another partner's deposit
 * address. Method: effects sealed by the real statements, their variants stored before the transfer goes out on a real
 * chain, in every way in which a transaction can be ours.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Address, encodeFunctionData, type Hex } from 'viem';
import type { DevAccount } from '../../sim/anvil.ts';
import { testToken } from '../../sim/contracts/artifacts.ts';
import { sendAndMine, transferData } from '../../sim/evm-send.ts';
import type { JsonObject } from '../../sim/json-rpc.ts';
import { accountName } from '../../src/ledger/accounts.ts';
import { post } from '../../src/ledger/post.ts';
import { assertBooksClean } from '../support/books.ts';
import { CHAIN, type DepositScene, RAIL, startDepositScene, textIn, UNIT } from '../support/deposit-scene.ts';

let scene: DepositScene;
let wallet: DevAccount;
before(async () => {
  scene = await startDepositScene({ label: 'deposits_own' });
  const found = scene.chain.accounts[4];
  assert.ok(found);
  wallet = found;
  await scene.own('MASTER', null, wallet.address);
  await scene.pay(wallet.address, 1_000n * UNIT);
  await scene.pool.query(
    `insert into payonce.signers (rail, address, label, next_nonce) values ('${RAIL}', $1, 'hot', 1000)`,
    [wallet.address.toLowerCase()],
  );
});
after(async () => {
  // Effects are staged by hand here, so only the ledger's and the inflow's invariants are judged.
  await assertBooksClean(scene.pool, { only: ['L1', 'L2', 'L3', 'L4', 'L5', 'L7', 'L8', 'I1', 'N1', 'N2'] });
  await scene.end();
});

let count = 0;
/** An effect that is sealed to pay `units` to `to` at this nonce; with `partner`, out of that partner's held money. */
async function seal(to: Address, units: bigint, nonce: number, partner: boolean): Promise<bigint> {
  count += 1;
  const id = `wd_${count}`;
  const from = wallet.address.toLowerCase();
  return scene.pool.tx('seal', async (tx) => {
    let hold: string | null = null;
    if (partner) {
      hold = `withdrawal:${id}:1`;
      const [account, custody] = await scene.deps.chart.ids(tx, [
        accountName.partner('par_a', 'usdt'),
        accountName.custody(CHAIN, 'opening', 'usdt'),
      ]);
      assert.ok(account !== undefined && custody !== undefined);
      const entries = [
        { accountId: account, amount: units },
        { accountId: custody, amount: -units },
      ];
      await post(tx, [
        { kind: 'post', key: `MIGRATED:${id}`, reference: id, entries },
        { kind: 'hold', holdKey: hold, accountId: account, amount: units },
      ]);
    }
    await tx.query(
      `insert into payonce.subjects (type, id, partner_id, natural_key) values ('withdrawal', $1, 'par_a', $1)`,
      [id],
    );
    const { rows } = await tx.query<{ id: bigint }>(
      `insert into payonce.effects (subject_type, subject_id, seq, partner_id, rail, asset_id, amount, destination, wallet, signer, hold_key)
       values ('withdrawal', $1, 1, 'par_a', '${RAIL}', 'usdt', $2, $3, $4, $4, $5) returning id`,
      [id, units, to.toLowerCase(), from, hold],
    );
    const effectId = rows[0]?.id;
    assert.ok(effectId !== undefined);
    const payload = JSON.stringify({ to: scene.token.toLowerCase(), value: '0', data: transferData(to, units) });
    await tx.query(
      `update payonce.effects
       set state = 'SEALED', identity = $2, payload = convert_to($3, 'UTF8'), expect = '{}', nonce = $4, sealed_at = payonce.now(),
           first_sent_at = payonce.now(), send_count = 1
       where id = $1`,
      [effectId, `evm:${from}:${nonce}`, payload, nonce],
    );
    return effectId;
  });
}

async function storeVariant(effectId: bigint, to: Address, units: bigint, hash: string): Promise<void> {
  await scene.pool.query(
    `insert into payonce.effect_variants (effect_id, kind, hash, raw, to_address, value, data, gas_limit, max_fee, max_priority_fee)
     values ($1, 'original', $2, '\\x00', $3, 0, $4, 100000, 1, 1)`,
    [effectId, hash, scene.token.toLowerCase(), transferData(to, units)],
  );
}

const nextNonce = async (): Promise<number> =>
  Number(await scene.chain.rpc('eth_getTransactionCount', [wallet.address, 'pending']));
async function classOf(receipt: JsonObject): Promise<string[]> {
  const rows = await scene.rows<{ class: string }>(
    'select class from payonce.chain_transfers where tx_hash = $1 order by position',
    [textIn(receipt.transactionHash)],
  );
  return rows.map((row) => row.class);
}
async function scanned(): Promise<void> {
  await scene.finalize();
  await scene.scanner().runOnce();
}

test('a withdrawal of one partner to the deposit address of another is a deposit for that one', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  const effectId = await seal(address, 5n * UNIT, await nextNonce(), true);
  const receipt = await scene.pay(address, 5n * UNIT, wallet);
  await storeVariant(effectId, address, 5n * UNIT, textIn(receipt.transactionHash));
  const master = await scene.balance(`custody:${CHAIN}:${wallet.address.toLowerCase()}`);
  await scanned();
  assert.deepEqual(await classOf(receipt), ['DEPOSIT']);
  assert.equal(await scene.balance('partner:par_b'), 5n * UNIT);
  assert.equal(await scene.balance(`custody:${CHAIN}:${address}`), -5n * UNIT);
  assert.equal(
    await scene.balance(`custody:${CHAIN}:${wallet.address.toLowerCase()}`),
    master - 1_000n * UNIT,
    "the wallet's side is the effect's",
  );
});

test('our payload under a hash that we have not signed is still our effect, and no alarm', async () => {
  const nonce = await nextNonce();
  await seal(scene.owner.address, 3n * UNIT, nonce, true);
  const receipt = await scene.pay(scene.owner.address, 3n * UNIT, wallet);
  await scanned();
  assert.deepEqual(await classOf(receipt), ['OWN_EFFECT']);
});

test('another payload at our sealed nonce is an outflow without a record', async () => {
  const nonce = await nextNonce();
  await seal(scene.owner.address, 3n * UNIT, nonce, true);
  const receipt = await scene.pay(scene.owner.address, 4n * UNIT, wallet);
  await scanned();
  assert.deepEqual(await classOf(receipt), ['UNKNOWN_OUTBOUND']);
});

test('a movement of ours that takes no partner money credits nobody, whoever receives it (inv I1)', async () => {
  const address = await scene.own('DEPOSIT', 'par_b');
  const before = await scene.balance('partner:par_b');
  const effectId = await seal(address, 2n * UNIT, await nextNonce(), false);
  const data: Hex = transferData(address, 2n * UNIT);
  const receipt = await sendAndMine(scene.chain, wallet.privateKey, { to: scene.token, data });
  await storeVariant(effectId, address, 2n * UNIT, textIn(receipt.transactionHash));
  await scanned();
  assert.deepEqual(await classOf(receipt), ['OWN_EFFECT']);
  assert.equal(await scene.balance('partner:par_b'), before);
});

/** Calls the token with three times 100 bytes of what it is called with. */
function threeCalls(token: Address): Hex {
  const one = (offset: number): string =>
    `606461${offset.toString(16).padStart(4, '0')}6000376000600060646000600073${token.slice(2)}5af150`;
  return `0x${one(0)}${one(0x64)}${one(0xc8)}00`;
}

test('an effect owns what leaves its own wallet: whatever else moves in its transaction is what it would be without it (inv I1)', async () => {
  const [address, customer] = [await scene.own('DEPOSIT', 'par_b'), scene.owner.address];
  const other = scene.chain.accounts[5];
  assert.ok(other);
  await scene.own('MASTER', null, other.address);
  await scene.pay(other.address, 50n * UNIT);
  const contract: Address = `0x${'f0'.repeat(20)}`;
  await scene.chain.rpc('anvil_setCode', [contract, threeCalls(scene.token)]);
  for (const holder of [scene.payer, other, wallet]) {
    const data = encodeFunctionData({ abi: testToken.abi, functionName: 'approve', args: [contract, 1_000n * UNIT] });
    await sendAndMine(scene.chain, holder.privateKey, { to: scene.token, data });
  }
  await scanned();
  const move = (from: Address, to: Address, units: bigint): string =>
    encodeFunctionData({ abi: testToken.abi, functionName: 'transferFrom', args: [from, to, units] }).slice(2);
  const effectId = await seal(customer, 2n * UNIT, await nextNonce(), true);
  const before = await scene.balance('partner:par_b');
  // A stranger pays a customer of ours, an old allowance takes from another wallet of ours, and what was meant goes.
  const moves = [
    move(scene.payer.address, address, 7n * UNIT),
    move(other.address, customer, 9n * UNIT),
    move(wallet.address, customer, 2n * UNIT),
  ];
  const receipt = await sendAndMine(scene.chain, wallet.privateKey, { to: contract, data: `0x${moves.join('')}` });
  await storeVariant(effectId, customer, 2n * UNIT, textIn(receipt.transactionHash));
  await scanned();
  assert.deepEqual(await classOf(receipt), ['DEPOSIT', 'UNKNOWN_OUTBOUND', 'OWN_EFFECT']);
  assert.equal(await scene.balance('partner:par_b'), before + 7n * UNIT);
  const told = await scene.rows<{ kind: string }>(
    "select kind from payonce.cases where closed_at is null and subject_key like '%' || $1 || ':1'",
    [textIn(receipt.transactionHash)],
  );
  assert.deepEqual(told, [{ kind: 'unknown_movement' }]);
});
