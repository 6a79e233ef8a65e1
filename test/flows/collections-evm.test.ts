/*
 * Goal: sweeps on a real chain move what lies there into the master wallet, and no kind of movement between our own addresses
 * credits anybody who did not get money (issue 4, show 6). Method: the engine, the EVM rail, the scanner and supplies over anvil;
 * the chain's own balances and logs are the judge.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { sendAndMine, transferData } from '../../sim/evm-send.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { type CollectScene, makeCollectScene } from '../support/collect-evm.ts';
import { heldAt, sweepAbove, sweepsOf } from '../support/collect-scene.ts';
import { balanceOf } from '../support/world.ts';

const UNIT = 1_000_000n;
const scenes = new Set<CollectScene>();
after(async () => {
  for (const scene of scenes) await scene.end();
});

async function stage(label: string): Promise<CollectScene> {
  const scene = await makeCollectScene(label);
  scenes.add(scene);
  await sweepAbove(scene, scene.chain, { assetId: scene.assetId, min: 10n * UNIT });
  return scene;
}
async function finish(scene: CollectScene, deposits: readonly string[]): Promise<void> {
  for (const address of deposits)
    assert.equal(
      await heldAt(scene, scene.chain, address, scene.assetId),
      await scene.tokens(address),
      'custody is what the chain shows (inv I2)',
    );
  await assertBooksClean(scene.pool, { books: await scene.books(), wallets: [...scene.wallets, ...deposits] });
  scenes.delete(scene);
  await scene.end();
}
async function classesAt(scene: CollectScene, address: string): Promise<string[]> {
  const { rows } = await scene.pool.query<{ class: string }>(
    'select class from payonce.chain_transfers where $1 in (from_address, to_address) order by id',
    [address],
  );
  return rows.map((row) => row.class);
}
const available = async (scene: CollectScene, partner: string): Promise<bigint> =>
  (await balanceOf(scene, `partner:${partner}`)).balance;

test('a deposit is credited once, swept with its own key, and the sweep is seen as ours (req R9, R10, inv I1, I2)', async () => {
  const scene = await stage('collect_evm');
  const [first, second] = [await scene.deposit(), await scene.deposit()];
  const before = await available(scene, scene.partnerId);
  await scene.payIn(first.lower, 25n * UNIT);
  await scene.payIn(second.lower, 3n * UNIT);
  const master = await scene.tokens(scene.master);
  assert.deepEqual([(await scene.collect()).made, (await scene.collect()).made], [1, 0]);
  await scene.work();
  assert.deepEqual(
    (await sweepsOf(scene)).map((one) => [one.address, one.amount, one.status]),
    [[first.lower, 25n * UNIT, 'swept']],
  );
  assert.equal(await scene.tokens(scene.master), master + 25n * UNIT);
  assert.equal(await available(scene, scene.partnerId), before + 28n * UNIT);
  assert.deepEqual(await classesAt(scene, first.lower), ['DEPOSIT', 'OWN_EFFECT']);
  // The address is used again: its next sweep goes on in its own sequence.
  await scene.payIn(first.lower, 11n * UNIT);
  await scene.collect();
  await scene.work();
  assert.equal(await scene.tokens(first.lower), 0n);
  const nonces = await scene.pool.query<{ nonce: bigint }>(
    'select nonce from payonce.effects where signer = $1 order by id',
    [first.lower],
  );
  assert.deepEqual(
    nonces.rows.map((row) => row.nonce),
    [0n, 1n],
  );
  await finish(scene, [first.lower, second.lower]);
});

test('an orphan sweep by hand alarms, credits nobody, and the sweep that it overtook is called off (req R10)', async () => {
  const scene = await stage('collect_orphan');
  const address = await scene.deposit();
  await scene.payIn(address.lower, 40n * UNIT);
  const credited = await available(scene, scene.partnerId);
  await scene.collect();
  const data = transferData(scene.master as `0x${string}`, 35n * UNIT);
  await sendAndMine(scene.anvil, address.privateKey, { to: scene.token, data });
  await scene.work(2);
  await scene.finalize();
  assert.deepEqual(await classesAt(scene, address.lower), ['DEPOSIT', 'UNKNOWN_INTERNAL']);
  assert.equal(await available(scene, scene.partnerId), credited);
  const alarms = await scene.pool.query(
    "select 1 from payonce.cases where kind in ('unknown_movement', 'signer_quarantined') and closed_at is null",
  );
  assert.ok((alarms.rowCount ?? 0) >= 1);
  await scene.pool.query('update payonce.effects set failures = 1 where ended_at is null');
  const collected = await scene.collect();
  assert.deepEqual([collected.calledOff, collected.made, collected.left], [1, 0, { below_min: 1 }]);
  assert.equal(await scene.tokens(address.lower), 5n * UNIT);
  await finish(scene, [address.lower]);
});

test("partner A's withdrawal to partner B's deposit address credits B once, stays A's withdrawal, and is swept (req R10)", async () => {
  const scene = await stage('collect_partners');
  await scene.pool.query("insert into payonce.partners (id, name) values ('par_b', 'B')");
  const address = await scene.deposit('par_b');
  const before = await available(scene, scene.partnerId);
  const [created] = await createWithdrawals(scene, [scene.request({ destination: address.lower, amount: 30n * UNIT })]);
  assert.equal(created?.outcome, 'created');
  await scene.work();
  assert.equal(await available(scene, scene.partnerId), before - 30n * UNIT);
  assert.equal(await available(scene, 'par_b'), 30n * UNIT);
  assert.deepEqual(await classesAt(scene, address.lower), ['DEPOSIT']);
  await scene.collect();
  await scene.work();
  await scene.scanner.runOnce();
  assert.equal(await available(scene, 'par_b'), 30n * UNIT, 'the sweep credits nobody again');
  assert.deepEqual(await classesAt(scene, address.lower), ['DEPOSIT', 'OWN_EFFECT']);
  const events = await scene.pool.query<{ subject_type: string; type: string }>(
    "select subject_type, type from payonce.events where type in ('withdrawal.confirmed', 'deposit.credited')",
  );
  assert.deepEqual(events.rows.map((row) => row.type).sort(), ['deposit.credited', 'withdrawal.confirmed']);
  await finish(scene, [address.lower]);
});

test('the coin is swept but for the most that its sweep can burn; what was not burned stays ours, to the wei', async () => {
  const scene = await stage('collect_coin');
  const keep = 21_000n * 10n ** 12n;
  await sweepAbove(scene, scene.chain, { assetId: scene.coinAssetId, min: 10n ** 17n, keep });
  const address = await scene.deposit();
  await scene.anvil.rpc('anvil_setBalance', [address.lower, '0x0']);
  const outsider = scene.anvil.accounts[9];
  assert.ok(outsider);
  const paid = 10n ** 18n + 7n;
  await sendAndMine(scene.anvil, outsider.privateKey, { to: address.address, value: paid });
  await scene.finalize();
  assert.equal(await heldAt(scene, scene.chain, address.lower, scene.coinAssetId), paid);
  const master = await scene.coins(scene.master);
  assert.equal((await scene.collect()).made, 1);
  await scene.work();
  assert.equal(await scene.coins(scene.master), master + paid - keep);
  const left = await scene.coins(address.lower);
  assert.ok(left > 0n && left < keep);
  assert.equal(await heldAt(scene, scene.chain, address.lower, scene.coinAssetId), left, 'gas is booked, to the wei');
  assert.deepEqual((await scene.collect()).left, { below_min: 1 });
  await finish(scene, [address.lower]);
});

test('gas comes first: an address that cannot pay is topped up once, then swept (req R9, R16)', async () => {
  const scene = await stage('collect_gas');
  const address = await scene.deposit();
  await scene.anvil.rpc('anvil_setBalance', [address.lower, '0x0']);
  await scene.payIn(address.lower, 50n * UNIT);
  await scene.collect();
  await scene.work(1);
  const waiting = await scene.pool.query<{ wait_reason: string }>(
    "select wait_reason from payonce.effects where subject_type = 'collection'",
  );
  assert.match(waiting.rows[0]?.wait_reason ?? '', /^GAS_SHORT/);
  await scene.work(20);
  assert.equal((await sweepsOf(scene))[0]?.status, 'swept');
  const topups = await scene.pool.query("select 1 from payonce.effects where subject_type = 'topup'");
  assert.equal(topups.rowCount, 1);
  assert.equal(
    await heldAt(scene, scene.chain, address.lower, scene.coinAssetId),
    await scene.coins(address.lower),
    'what is left of the gas is in our books',
  );
  await finish(scene, [address.lower]);
});

test('an address that is blocked, or whose key is not at hand, becomes a case and stops no other, sweep or payout: each has a key of its own (req R9, case N1, N4)', async () => {
  const scene = await stage('collect_poison');
  const [good, blocked] = [await scene.deposit(), await scene.deposit()];
  const keyless = '0x00000000000000000000000000000000000feed1';
  await scene.pool.query(
    "insert into payonce.addresses (id, chain, address, kind, partner_id) values ('adr_keyless', $1, $2, 'DEPOSIT', $3)",
    [scene.chain, keyless, scene.partnerId],
  );
  for (const one of [keyless, blocked.lower, good.lower]) await scene.payIn(one, 20n * UNIT);
  await scene.tokenSays('blacklist', [blocked.address, true]);
  assert.equal((await scene.collect()).made, 3);
  await scene.work(8);
  const status = new Map((await sweepsOf(scene)).map((one) => [one.address, one.status]));
  assert.equal(status.get(good.lower), 'swept');
  assert.deepEqual([status.get(blocked.lower), status.get(keyless)], ['in_review', 'in_review']);
  const cases = await scene.pool.query<{ summary: string }>(
    "select summary from payonce.cases where kind = 'plan_fails' and closed_at is null order by summary",
  );
  assert.equal(cases.rowCount, 2);
  assert.ok(cases.rows.some((row) => /blacklisted/.test(row.summary)));
  assert.ok(cases.rows.some((row) => /no key for/.test(row.summary)));
  const nonces = await scene.pool.query('select 1 from payonce.signers where next_nonce > 0 and address = any ($1)', [
    [blocked.lower, keyless],
  ]);
  assert.equal(nonces.rowCount, 0, 'nothing was sealed for them');
  const [paid] = await createWithdrawals(scene, [
    scene.request({ amount: UNIT, destination: '0x00000000000000000000000000000000000beef1' }),
  ]);
  assert.equal(paid?.outcome, 'created');
  await scene.work(6);
  const payouts = await scene.pool.query<{ status: string }>('select status from payonce.withdrawal_states');
  assert.deepEqual(payouts.rows, [{ status: 'confirmed' }], 'a payout does not wait for stuck sweeps');
  // Unblocked, it goes by itself.
  await scene.tokenSays('blacklist', [blocked.address, false]);
  await scene.work(6);
  assert.equal((await sweepsOf(scene)).find((one) => one.address === blocked.lower)?.status, 'swept');
  await finish(scene, [good.lower, blocked.lower, keyless]);
});
