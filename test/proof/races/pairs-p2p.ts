/* The critical pairs of P2P: who gets a seller's money, and orders that are matched, paid, cancelled or late at once. */
import assert from 'node:assert/strict';
import { confirmLeg } from '../../../src/flows/p2p/index.ts';
import { cancelDepositOrder, cancelLeg, cancelWithdrawOrder } from '../../../src/flows/p2p/cancel.ts';
import { claimOrders } from '../../../src/flows/p2p/claim.ts';
import { matchClaimed, matchOnce } from '../../../src/flows/p2p/match.ts';
import { expireOnce } from '../../../src/flows/p2p/timers.ts';
import { silentLog } from '../../../src/kernel/log.ts';
import { assertBooksClean } from '../../support/books.ts';
import { BUYER, makeP2pScene, ONE, type P2pScene, SELLER } from '../../support/p2p-scene.ts';
import { openStage, type Side, type Stage } from './explore.ts';
import { countOf, engineOf, race, type Race, type Races } from './race.ts';

const PART = 40n * ONE;

export async function p2pRaces(): Promise<Races> {
  const scene = await makeP2pScene({ label: 'races p2p', routes: [], fundUnits: 10n ** 13n });
  const stage = await openStage(scene.world.url);
  return {
    races: [...matches(scene, stage), ...payments(scene, stage)],
    check: () => assertBooksClean(scene.world.pool),
    async end() {
      await stage.end();
      await scene.world.end();
    },
  };
}

/** What earlier orders left: ended, so that only this order's rows are in the queues. */
async function quiet(scene: P2pScene): Promise<void> {
  const { pool, engine } = scene.world;
  const open = await pool.query<{ id: string; partner_id: string; kind: string }>(
    `select id, partner_id, 'buyer' as kind from payonce.p2p_deposit_orders where status = 'PENDING'
     union all
     select id, partner_id, 'seller' from payonce.p2p_withdraw_orders where status = 'OPEN'`,
  );
  for (const { id, partner_id: partnerId, kind } of open.rows) {
    if (kind === 'buyer') await cancelDepositOrder(engine, partnerId, id);
    else await cancelWithdrawOrder(engine, partnerId, id);
  }
}

/** An order's sums as they stand (inv. M1), and its status. */
async function sums(scene: P2pScene, bought: string): Promise<{ status: string; left: bigint; legs: string }> {
  const { order, legs } = await scene.deposit(bought);
  const taken = legs
    .filter((leg) => ['OPEN', 'SETTLED'].includes(leg.state))
    .reduce((sum, leg) => sum + leg.amount, 0n);
  assert.equal(order.amount, taken + order.remaining, 'amount = settled + reserved + remaining');
  return { status: order.status, left: order.remaining, legs: legs.map((leg) => leg.state).join(' ') };
}

function matches(scene: P2pScene, stage: Stage): Race[] {
  const match = (side: Side): Promise<number> =>
    matchOnce(
      { ...engineOf(scene.world.engine, side), log: silentLog },
      { matched: 0, waiting: 0, failed: 0, lost: 0 },
    );
  const matchOne = async (side: Side): Promise<void> => {
    const engine = engineOf(scene.world.engine, side);
    for (const claimed of await claimOrders(side.pool, 1))
      await matchClaimed({ ...engine, log: silentLog }, claimed, { matched: 0, waiting: 0, failed: 0, lost: 0 });
  };
  const legsOfSeller = (sold: string): Promise<number> =>
    countOf(scene.world.pool, "payonce.p2p_legs where withdraw_order_id = $1 and state <> 'VOID'", [sold]);
  const pairUp = async (): Promise<{ sold: string; bought: string }> => {
    await quiet(scene);
    return { sold: await scene.sell({ amount: PART }), bought: await scene.buy({ amount: PART }) };
  };
  return [
    race(stage, {
      name: 'match || match of one order',
      prepare: pairUp,
      left: match,
      right: match,
      async judge({ sold, bought }, left, right) {
        assert.equal(Number(left) + Number(right), 1, 'one claim');
        assert.deepEqual(await sums(scene, bought), { status: 'MATCHED', left: 0n, legs: 'OPEN' });
        assert.equal(await legsOfSeller(sold), 1);
        return 'matched once';
      },
    }),
    race(stage, {
      name: 'match || match of two buyers and one seller (fill || fill)',
      async prepare() {
        await quiet(scene);
        const sold = await scene.sell({ amount: PART });
        const first = await scene.buy({ amount: PART });
        return { sold, first, second: await scene.buy({ amount: PART }) };
      },
      // Each claims one order and no more, as two matchers under load do.
      left: matchOne,
      right: matchOne,
      async judge({ sold, first, second }) {
        const [one, two] = [await sums(scene, first), await sums(scene, second)];
        assert.equal(await legsOfSeller(sold), 1, 'the seller’s amount is given once');
        assert.deepEqual([one.status, two.status].sort(), ['MATCHED', 'PENDING']);
        return one.status === 'MATCHED' ? 'the first buyer has it' : 'the second buyer has it';
      },
    }),
    race(stage, {
      name: 'match || the buyer cancels',
      prepare: pairUp,
      left: match,
      right: (side, { bought }) => cancelDepositOrder(engineOf(scene.world.engine, side), BUYER, bought),
      async judge({ bought }, _left, right) {
        const { status, legs } = await sums(scene, bought);
        assert.equal(status, right === 'cancelled' ? 'CANCELLED' : 'MATCHED', `${status} ${String(right)}`);
        assert.equal(legs, right === 'cancelled' ? '' : 'OPEN');
        return right === 'cancelled' ? 'cancelled, no leg' : 'matched, the cancel is told so';
      },
    }),
    race(stage, {
      name: 'match || the seller cancels',
      prepare: pairUp,
      left: match,
      right: (side, { sold }) => cancelWithdrawOrder(engineOf(scene.world.engine, side), SELLER, sold),
      async judge({ sold, bought }, _left, right) {
        const { status } = await sums(scene, bought);
        const legs = await legsOfSeller(sold);
        assert.equal(legs, right === 'cancelled' ? 0 : 1, `${legs} legs, ${String(right)}`);
        assert.equal(status, right === 'cancelled' ? 'PENDING' : 'MATCHED');
        return right === 'cancelled'
          ? 'the seller is gone, the buyer waits'
          : 'matched, the seller’s order closes after it';
      },
    }),
  ];
}

interface Leg {
  readonly sold: string;
  readonly bought: string;
  readonly legId: string;
  readonly before: bigint;
}

function payments(scene: P2pScene, stage: Stage): Race[] {
  const matched = async (): Promise<Leg> => {
    await quiet(scene);
    const sold = await scene.sell({ amount: PART });
    const bought = await scene.buy({ amount: PART });
    await matchOnce({ ...scene.world.engine, log: silentLog }, { matched: 0, waiting: 0, failed: 0, lost: 0 });
    const [leg] = (await scene.deposit(bought)).legs;
    assert.ok(leg !== undefined);
    return { sold, bought, legId: leg.id, before: await scene.available(BUYER) };
  };
  const confirm = async (side: Side, { legId }: Leg): Promise<string> => {
    const { rows } = await side.pool.query<{ fiat: bigint }>(
      'select fiat_amount as fiat from payonce.p2p_legs where id = $1',
      [legId],
    );
    const engine = engineOf(scene.world.engine, side);
    return (await confirmLeg(side.pool, engine, { partnerId: SELLER, legId, fiatAmount: String(rows[0]?.fiat) }))
      .outcome;
  };
  const credited = async ({ before }: Leg): Promise<bigint> => (await scene.available(BUYER)) - before;
  return [
    race(stage, {
      name: 'leg paid || leg paid (confirm || confirm)',
      prepare: matched,
      left: confirm,
      right: confirm,
      async judge(leg, left, right) {
        assert.deepEqual([left, right].map(String).sort(), ['already', 'settled']);
        assert.equal(await credited(leg), PART);
        return 'credited once';
      },
    }),
    race(stage, {
      name: 'leg paid || leg expires',
      async prepare() {
        const leg = await matched();
        await scene.world.pool.query(
          "update payonce.p2p_legs set pay_by = payonce.now() - interval '1 second' where id = $1",
          [leg.legId],
        );
        return leg;
      },
      left: confirm,
      right: (side) => expireOnce(engineOf(scene.world.engine, side)),
      async judge(leg, left) {
        assert.equal(left, 'settled', 'what was paid is credited, also after the deadline');
        assert.equal(await credited(leg), PART);
        const { status } = await sums(scene, leg.bought);
        const { order } = await scene.deposit(leg.bought);
        return `${status} ${order.closeReason}`;
      },
    }),
    race(stage, {
      name: 'leg paid || the buyer gives the leg up',
      prepare: matched,
      left: confirm,
      right: (side, { legId }) => cancelLeg(engineOf(scene.world.engine, side), BUYER, legId),
      async judge(leg, left, right) {
        assert.equal(left, 'settled', 'what was paid is credited');
        assert.equal(await credited(leg), PART);
        return right === 'cancelled' ? 'given up, then paid late' : 'paid, the cancel is told so';
      },
    }),
  ];
}
