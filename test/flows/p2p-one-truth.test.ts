/*
 * Where the truth of P2P stands: an order's status is the queue, a leg's trade is its effect, and what a partner's lock once guarded
 * is guarded by the rows that are changed. Method: the schema as it is, and a transaction of another process that holds one order of
 * each partner while others of the same partners go through.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { assertBooksClean } from '../support/books.ts';
import { makeP2pScene, ONE } from '../support/p2p-scene.ts';

test('no table is a queue beside the orders, and no leg holds a second link to its trade (req M2)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { pool } = scene.world;
  const { rows: tables } = await pool.query<{ name: string }>(
    "select relname as name from pg_class where relnamespace = 'payonce'::regnamespace and relkind = 'r' and relname like 'p2p%' order by 1",
  );
  assert.deepEqual(
    tables.map((row) => row.name).filter((name) => !name.startsWith('p2p_import')),
    [
      'p2p_deposit_orders',
      'p2p_edges',
      'p2p_groups',
      'p2p_legs',
      'p2p_markets',
      'p2p_members',
      'p2p_payments',
      'p2p_routes',
      'p2p_withdraw_orders',
    ],
  );
  const { rows: links } = await pool.query<{ name: string }>(
    "select attname as name from pg_attribute where attrelid = 'payonce.p2p_legs'::regclass and attnum > 0 and not attisdropped and attname ~ 'effect|trade'",
  );
  assert.deepEqual(links, []);
  await scene.world.end();
});

test('orders of one partner hold up no other of its orders: while two are held by another process the rest is taken in and matched (req M16)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { pool } = scene.world;
  const heldSeller = await scene.sell({ amount: 5n * ONE });
  const heldBuyer = await scene.buy({ amount: 5n * ONE });
  const client = new pg.Client({ connectionString: scene.world.url });
  await client.connect();
  await client.query('begin');
  await client.query('select 1 from payonce.p2p_withdraw_orders where id = $1 for update', [heldSeller]);
  await client.query('select 1 from payonce.p2p_deposit_orders where id = $1 for update', [heldBuyer]);
  const sold = await scene.sell({ amount: 10n * ONE });
  const bought = await scene.buy({ amount: 10n * ONE });
  await scene.settleDown();
  const { order, legs } = await scene.deposit(bought);
  assert.deepEqual([order.status, legs.map((leg) => leg.withdrawOrderId)], ['MATCHED', [sold]]);
  await client.end();
  await scene.settleDown();
  assert.equal((await scene.deposit(heldBuyer)).order.status, 'MATCHED');
  await assertBooksClean(pool);
  await scene.world.end();
});
