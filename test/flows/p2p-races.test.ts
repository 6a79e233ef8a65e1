/*
 * Matchers that want the same seller at the same time. The race is made: a transaction of the test's own holds the seller's row until
 * every matcher has come to it, or past it; what each then got is on the legs.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { claimOrders } from '../../src/flows/p2p/claim.ts';
import { matchClaimed, type MatchCounts } from '../../src/flows/p2p/match.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeP2pScene, ONE, type P2pScene, PRICE } from '../support/p2p-scene.ts';

const HELD = 'select 1 from payonce.p2p_withdraw_orders where id = any ($1::text[]) for update';
const WAITING =
  "select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%p2p_withdraw_orders%'";

/** Holds sellers' rows as another process would, while `act` runs. */
async function holding<T>(scene: P2pScene, sellers: readonly string[], act: () => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: scene.world.url });
  await client.connect();
  await client.query('begin');
  await client.query(HELD, [sellers]);
  try {
    return await act();
  } finally {
    await client.end();
  }
}

/** Matches all that is claimed at once, while the sellers are held; lets go when each matcher waits or is through. */
async function raceFor(scene: P2pScene, sellers: readonly string[]): Promise<MatchCounts> {
  const { pool, engine, log } = scene.world;
  const counts: MatchCounts = { matched: 0, waiting: 0, failed: 0, lost: 0 };
  const claimed = await claimOrders(pool);
  let through = 0;
  const all = await holding(scene, sellers, async () => {
    const racing = claimed.map(async (one) => {
      await matchClaimed({ ...engine, log }, one, counts);
      through += 1;
    });
    const deadline = Date.now() + 10_000;
    for (let waiting = 0; waiting + through < claimed.length; ) {
      assert.ok(Date.now() < deadline, `${waiting} wait, ${through} are through`);
      await new Promise((resolve) => setTimeout(resolve, 20));
      waiting = (await pool.query<{ n: number }>(WAITING)).rows[0]?.n ?? 0;
    }
    return racing;
  });
  await Promise.all(all);
  return counts;
}

/** `[seller, amount]` of each leg of an order. */
async function legsOf(scene: P2pScene, id: string): Promise<[string | null, bigint][]> {
  return (await scene.deposit(id)).legs.map((leg) => [leg.withdrawOrderId, leg.amount / ONE]);
}

test('who loses a race for a seller is given to another one that is free, and no provider’s liquidity is taken (req M8)', async () => {
  const scene = await makeP2pScene();
  const sellers = [
    await scene.sell({ amount: 50n * ONE }),
    await scene.sell({ amount: 50n * ONE, price: PRICE - 1n }),
    await scene.sell({ amount: 50n * ONE, price: PRICE - 2n }),
  ];
  const bought = [await scene.buy({ amount: 50n * ONE }), await scene.buy({ amount: 50n * ONE })];
  // Both want the cheapest and wait for it; for the one who does not get it the next in price is there.
  const counts = await raceFor(scene, [sellers[2] ?? '']);
  assert.deepEqual(counts, { matched: 2, waiting: 0, failed: 0, lost: 0 });
  const legs = (await Promise.all(bought.map((id) => legsOf(scene, id)))).flat();
  // No leg is a provider's: both name a seller.
  assert.deepEqual(new Set(legs.map(([id]) => id)), new Set([sellers[2], sellers[1]]));
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
});

test('who wants the whole or nothing finds a free seller after a lost race, at once and not as one without liquidity (req M8, M19)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const [first, second] = [
    await scene.sell({ amount: 50n * ONE, price: PRICE - 1n }),
    await scene.sell({ amount: 50n * ONE }),
  ];
  const bought = [
    await scene.buy({ amount: 50n * ONE, takesPart: false }),
    await scene.buy({ amount: 50n * ONE, takesPart: false }),
  ];
  assert.deepEqual(await raceFor(scene, [first]), { matched: 2, waiting: 0, failed: 0, lost: 0 });
  const legs = (await Promise.all(bought.map((id) => legsOf(scene, id)))).flat();
  assert.deepEqual(new Set(legs.map(([id]) => id)), new Set([first, second]));
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
});

test('a seller that another matcher holds is passed over for one of the same price without waiting, and waited for before a dearer one (req M3, M8)', async () => {
  const scene = await makeP2pScene();
  const cheap = await scene.sell({ amount: 50n * ONE, price: PRICE - 1n });
  const same = await scene.sell({ amount: 50n * ONE, price: PRICE - 1n });
  const dear = await scene.sell({ amount: 50n * ONE });
  const bought = await scene.buy({ amount: 50n * ONE });
  const { pool, engine, log } = scene.world;
  const counts: MatchCounts = { matched: 0, waiting: 0, failed: 0, lost: 0 };
  const [claimed] = await claimOrders(pool);
  assert.ok(claimed !== undefined);
  await holding(scene, [cheap], () =>
    Promise.race([
      matchClaimed({ ...engine, log }, claimed, counts),
      new Promise((_, reject) =>
        setTimeout(() => reject(new Error('it waits for a seller that is held')), 5_000).unref(),
      ),
    ]),
  );
  assert.deepEqual(await legsOf(scene, bought), [[same, 50n]]);
  const next = await scene.buy({ amount: 50n * ONE });
  assert.equal((await raceFor(scene, [cheap])).matched, 1);
  assert.deepEqual(await legsOf(scene, next), [[cheap, 50n]], 'not the dearer one');
  assert.equal((await scene.withdraw(dear)).order.reserved, 0n);
  await assertBooksClean(pool);
  await scene.world.end();
});

test('a matcher that holds one seller and wants another’s never makes two wait for each other, and both are matched (req M3, case L10)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { pool, engine, log } = scene.world;
  const [first, second] = [
    await scene.sell({ amount: 100n * ONE, price: PRICE - 1n }),
    await scene.sell({ amount: 100n * ONE, price: PRICE - 2n }),
  ].toSorted((one, other) => (one < other ? -1 : 1));
  await scene.sell({ amount: 100n * ONE });
  assert.ok(first !== undefined && second !== undefined);
  // Each wants more than one of the cheaper two has.
  const bought = [
    await scene.buy({ amount: 150n * ONE, takesPart: false }),
    await scene.buy({ amount: 120n * ONE, takesPart: false }),
  ];
  const counts: MatchCounts = { matched: 0, waiting: 0, failed: 0, lost: 0 };
  assert.equal((await claimOrders(pool)).length, 2);
  const match = (place: number): Promise<void> =>
    matchClaimed({ ...engine, log }, { id: bought[place] ?? '', token: 1n }, counts);
  const untilWaiting = async (n: number): Promise<void> => {
    const deadline = Date.now() + 10_000;
    while (((await pool.query<{ n: number }>(WAITING)).rows[0]?.n ?? 0) < n) {
      assert.ok(Date.now() < deadline, `not ${n} wait`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const racing: Promise<void>[] = [];
  await holding(scene, [first], async () => {
    await holding(scene, [second], async () => {
      racing.push(match(0));
      await untilWaiting(1);
    });
    // The one waits for the first by its id, before the second; the other comes, is given the second, and wants the first too.
    racing.push(match(1));
    await new Promise((resolve) => setTimeout(resolve, 500));
  });
  await Promise.all(racing);
  assert.deepEqual([counts.matched, counts.failed], [2, 0]);
  for (const id of bought) assert.equal((await scene.deposit(id)).order.status, 'MATCHED');
  assert.equal(pool.counts.reruns, 0, 'nobody waited for each other');
  await assertBooksClean(pool);
  await scene.world.end();
});
