/* What the schema refuses whoever asks, and what a matcher that has lost its claim does: nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claimOrders, reclaimOnce } from '../../src/flows/p2p/claim.ts';
import { matchClaimed, type MatchCounts } from '../../src/flows/p2p/match.ts';
import { assertBooksClean } from '../support/books.ts';
import { BUYER, makeP2pScene, ONE, openMarket, SELLER } from '../support/p2p-scene.ts';

const HOUR_MS = 3_600_000;

test('a seller’s order never gives more than its amount, nor a leg without the claim that stands, whoever asks (inv M1, M3)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { pool } = scene.world;
  const sold = await scene.sell({ amount: 10n * ONE });
  const bought = await scene.buy({ amount: 10n * ONE });
  await assert.rejects(
    pool.query('update payonce.p2p_withdraw_orders set reserved = amount + 1 where id = $1', [sold]),
    {
      code: '23514',
    },
  );
  const leg = `insert into payonce.p2p_legs (id, deposit_order_id, ordinal, slot, kind, withdraw_order_id, amount, price, fiat_amount, claim_token)
    values ('leg_x', $1, 1, 1, 'SELLER', $2, 1, 1, 1, 1)`;
  await assert.rejects(pool.query(leg, [bought, sold]), { code: 'P0P02' }, 'it is not claimed');
  const [claimed] = await claimOrders(pool);
  assert.equal(claimed?.token, 1n);
  await assert.rejects(
    pool.query(leg.replace('1, 1)', '1, 7)'), [bought, sold]),
    { code: 'P0P02' },
    'under another token',
  );
  await assert.rejects(
    pool.query("update payonce.p2p_deposit_orders set status = 'COMPLETED' where id = $1", [bought]),
    /p2p_deposit_orders_c|cannot go|complete/,
  );
  await pool.query("update payonce.p2p_deposit_orders set claimed_at = claimed_at - interval '1 hour'");
  await scene.settleDown();
  await assertBooksClean(pool);
  await scene.world.end();
});

test('a matcher whose claim was taken back writes nothing (req M17, case L2)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { pool, engine, log } = scene.world;
  await scene.sell({ amount: 10n * ONE });
  const bought = await scene.buy({ amount: 10n * ONE });
  const [first] = await claimOrders(pool);
  assert.ok(first !== undefined);
  assert.equal(await reclaimOnce(pool, engine, -HOUR_MS), 1);
  await pool.query('update payonce.p2p_deposit_orders set next_at = payonce.now()');
  const [second] = await claimOrders(pool);
  assert.ok(second !== undefined);
  const counts: MatchCounts = { matched: 0, waiting: 0, failed: 0, lost: 0 };
  await matchClaimed({ ...engine, log }, first, counts);
  assert.deepEqual([counts, (await scene.deposit(bought)).legs], [{ matched: 0, waiting: 0, failed: 0, lost: 1 }, []]);
  await matchClaimed({ ...engine, log }, second, counts);
  assert.equal(counts.matched, 1);
  assert.equal((await scene.deposit(bought)).order.attempts, 1, 'a reclaim counts as an attempt (req M7)');
  await assertBooksClean(pool);
  await scene.world.end();
});

test('a match stays inside its group, however cheap the seller next door (req M8)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { world } = scene;
  const stranger = 'par_next_door';
  await world.pool.query("insert into payonce.partners (id, name) values ($1, 'Next door')", [stranger]);
  await openMarket(world, 'europe', [stranger]);
  await world.fund(1_000n * ONE, stranger);
  await scene.sell({ partnerId: stranger, price: 1n });
  const bought = await scene.buy();
  await scene.settleDown();
  assert.equal((await scene.deposit(bought)).order.status, 'PENDING');
  await scene.sell({ partnerId: SELLER });
  await scene.later(5 * 60_000);
  await scene.settleDown();
  assert.equal((await scene.deposit(bought, BUYER)).order.status, 'MATCHED');
  await assertBooksClean(world.pool);
  await world.end();
});
