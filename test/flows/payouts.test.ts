/*
 * Goal: what a creator's volume earned is paid once, whoever crosses the threshold at once and however a payout ends; what could
 * not be made stays due. Method: the flow on the engine, on a rail whose book keeps what moved and may fail as the test likes.
 */
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import type { Observation } from '../../src/engine/rail.ts';
import { cancelPayout, payWaitingOnce } from '../../src/flows/payouts/index.ts';
import { assertBooksClean } from '../support/books.ts';
import {
  eventsOf,
  lineOf,
  makePayoutWorld,
  type PayoutSceneOptions,
  type PayoutWorld,
} from '../support/payout-scene.ts';
import { balanceOf } from '../support/world.ts';

let world: PayoutWorld;
const begin = async (options: PayoutSceneOptions = {}): Promise<PayoutWorld> => {
  world = await makePayoutWorld(options);
  await world.programme('p');
  return world;
};
afterEach(async () => {
  await assertBooksClean(world.pool);
  await world.end();
});

async function eventTypes(): Promise<string[]> {
  const { rows } = await world.pool.query<{ type: string }>('select type from payonce.events order by id');
  return rows.map((row) => row.type);
}

test('crossing the threshold makes the payout in the same transaction, and the remainder carries over (req P1, P6, P7)', async () => {
  await begin();
  await world.creator('ann');
  await world.accrue(eventsOf('ann', '33.3333333'.slice(0, 9), 2));
  assert.equal((await world.payouts()).length, 0);
  await world.accrue(eventsOf('ann', '33.333339'));
  const [payout] = await world.payouts();
  assert.deepEqual([payout?.status, payout?.amount, payout?.origin], ['pending', 10_000_000n, 'threshold']);
  assert.equal((await balanceOf(world)).held, 10_000_000n);
  await world.pass();
  assert.deepEqual(
    world.book.map((one) => [one.to, one.amount]),
    [['at-ann', 10_000_000n]],
  );
  const line = lineOf(await world.statement(), 'ann');
  assert.deepEqual(
    [line.accrued, line.paid, line.in_flight, line.carried, line.volume_carried],
    ['10', '10', '0', '0', '0'],
  );
  await world.accrue(eventsOf('ann', '0.000009', 1));
  await world.accrue(eventsOf('ann', '100.000001', 1));
  assert.deepEqual(
    (await world.payouts()).map((one) => one.amount),
    [10_000_000n, 10_000_001n],
    'nothing of a unit is lost',
  );
  await world.pass();
  assert.deepEqual(await eventTypes(), ['payout.created', 'payout.confirmed', 'payout.created', 'payout.confirmed']);
});

test('five accruals over the threshold at once make one payout, the next crossing the next (req P5, P6)', async () => {
  await begin();
  await world.creator('ann');
  await Promise.all(Array.from({ length: 5 }, () => world.accrue(eventsOf('ann', '90'))));
  const first = await world.payouts();
  // Whoever came first is under it; of the others each pair crosses, and nothing is in two.
  assert.deepEqual(
    first.map((one) => one.amount),
    [18_000_000n, 18_000_000n],
  );
  assert.equal(lineOf(await world.statement(), 'ann').volume_carried, '90');
  await world.accrue(eventsOf('ann', '5'));
  assert.equal((await world.payouts()).length, 2, 'what is in flight counts no more');
  await world.accrue(eventsOf('ann', '5'));
  assert.equal((await world.payouts()).at(-1)?.amount, 10_000_000n);
  await Promise.all(Array.from({ length: 5 }, () => world.accrue(eventsOf('ben', '100'))));
  await world.creator('ben');
  await Promise.all([payWaitingOnce(world.deps), payWaitingOnce(world.deps), payWaitingOnce(world.deps)]);
  assert.deepEqual(
    (await world.payouts()).filter((one) => one.creator === 'ben').map((one) => one.amount),
    [50_000_000n],
  );
  await world.pass();
  assert.equal(world.book.length, 4);
});

test('five over the threshold in parallel, each alone enough: one payout for each volume, none twice (req P6)', async () => {
  await begin();
  await world.creator('ann');
  const lists = Array.from({ length: 5 }, () => eventsOf('ann', '20'));
  await Promise.all(lists.map((list) => world.accrue(list)));
  assert.deepEqual(
    (await world.payouts()).map((one) => one.amount),
    [10_000_000n],
  );
  await Promise.all(lists.map((list) => world.accrue(list)));
  assert.equal((await world.payouts()).length, 1);
  await world.pass();
});

test('a creator without an address accrues, waits and is listed; with one it is paid, and a change is for the next (req P6)', async () => {
  await begin();
  await world.accrue(eventsOf('ann', '150'));
  assert.equal((await world.payouts()).length, 0);
  const waiting = lineOf(await world.statement(), 'ann');
  assert.deepEqual([waiting.waits_for, waiting.carried, waiting.address], ['NO_ADDRESS', '15', null]);
  assert.deepEqual((await payWaitingOnce(world.deps)).made, []);
  await world.creator('ann', 'old');
  assert.equal((await payWaitingOnce(world.deps)).made.length, 1);
  await world.creator('ann', 'new');
  await world.pass();
  await world.accrue(eventsOf('ann', '100'));
  await world.pass();
  assert.deepEqual(
    world.book.map((one) => one.to),
    ['old', 'new'],
  );
  assert.equal(lineOf(await world.statement(), 'ann').waits_for, null);
  await assert.rejects(world.creator('ben', world.wallet), /an address of this system/);
});

test('where the partner’s money is short the payout is not made, is told once, and comes with the money (req P6)', async () => {
  await begin({ fundUnits: 12_000_000n });
  for (const name of ['ann', 'ben', 'cat']) await world.creator(name);
  await world.accrue([...eventsOf('ann', '100'), ...eventsOf('ben', '120'), ...eventsOf('cat', '110')]);
  assert.deepEqual(
    (await world.payouts()).map((one) => one.creator),
    ['ann'],
  );
  assert.equal(lineOf(await world.statement(), 'ben').waits_for, 'INSUFFICIENT_FUNDS');
  await world.accrue(eventsOf('ben', '1'));
  assert.deepEqual((await payWaitingOnce(world.deps)).made, []);
  assert.deepEqual(
    (await eventTypes()).filter((type) => type.startsWith('programme')),
    ['programme.unfunded'],
  );
  const alerts = await world.pool.query(
    "select 1 from payonce.alerts where kind = 'payouts_unfunded' and cleared_at is null",
  );
  assert.equal(alerts.rowCount, 1);
  await world.fund(9_000_000n);
  assert.equal((await payWaitingOnce(world.deps)).made.length, 1, 'what it covers');
  await world.fund(50_000_000n);
  assert.equal((await payWaitingOnce(world.deps)).made.length, 1);
  await world.pass();
  assert.deepEqual(new Set(world.book.map((one) => one.amount)), new Set([10_000_000n, 11_000_000n, 12_100_000n]));
  assert.deepEqual(
    (await eventTypes()).filter((type) => type.startsWith('programme')),
    ['programme.unfunded', 'programme.funded'],
  );
});

test('what a payout consumed goes back only after a dead release: reverted, its volume is payable again and paid once (req P8, case E8)', async () => {
  let reverts = 1;
  const seen: Partial<Observation>[] = [];
  await begin({
    send: () => Promise.resolve({ kind: 'in_progress' }),
    look: (sealed) => {
      const kind = reverts > 0 ? 'reverted_final' : 'final_success';
      reverts -= 1;
      seen.push({ kind });
      return Promise.resolve([{ kind, objectId: sealed.seal.identity }]);
    },
  });
  await world.creator('ann', 'old');
  await world.accrue(eventsOf('ann', '100'));
  await world.creator('ann', 'new');
  await world.pass();
  const [first] = await world.payouts();
  assert.equal(first?.status, 'failed');
  const line = lineOf(await world.statement(), 'ann');
  assert.deepEqual(
    [line.carried, line.in_flight, line.waits_for, line.volume_carried],
    ['10', '0', 'MOVED_NOTHING', '100'],
  );
  assert.equal((await balanceOf(world)).held, 0n);
  await world.accrue(eventsOf('ann', '1'));
  assert.equal((await world.payouts()).length, 2, 'with the next accrual');
  await world.pass();
  const [, second] = await world.payouts();
  assert.deepEqual([second?.status, second?.amount], ['confirmed', 10_100_000n]);
  assert.deepEqual(
    (await world.pool.query<{ destination: string }>('select destination from payonce.payouts order by id')).rows.map(
      (row) => row.destination,
    ),
    ['old', 'new'],
  );
  assert.deepEqual(
    seen.map((one) => one.kind),
    ['reverted_final', 'final_success'],
  );
});

test('one that reverts for ever burns gas three times, and then once a day at most (case E8)', async () => {
  await begin({
    send: () => Promise.resolve({ kind: 'in_progress' }),
    look: (sealed) => Promise.resolve([{ kind: 'reverted_final', objectId: sealed.seal.identity }]),
  });
  await world.creator('ann');
  await world.accrue(eventsOf('ann', '100'));
  for (let round = 0; round < 6; round += 1) {
    await world.pass();
    await world.accrue(eventsOf('ann', '1'));
    await world.pool.query(
      "update payonce.pools set next_at = now() where due_since is not null and next_at < 'infinity'",
    );
    await payWaitingOnce(world.deps);
  }
  assert.deepEqual(
    (await world.payouts()).map((one) => one.status),
    ['failed', 'failed', 'failed'],
  );
  assert.equal(lineOf(await world.statement(), 'ann').carried, '10.6');
});

test('a payout that is cancelled before its seal gives its volume back, once, and the next accrual pays it (req P7)', async () => {
  await begin();
  await world.creator('ann');
  await world.accrue(eventsOf('ann', '100'));
  const [payout] = await world.payouts();
  const outcomes = await Promise.all(
    [1, 2].map(() => cancelPayout(world.engine, world.partnerId, payout?.id ?? '', 'key')),
  );
  assert.deepEqual(outcomes, ['cancelled', 'cancelled']);
  assert.deepEqual((await payWaitingOnce(world.deps)).made, []);
  await world.accrue(eventsOf('ann', '1'));
  await world.pass();
  assert.deepEqual(
    (await world.payouts()).map((one) => [one.status, one.amount]),
    [
      ['cancelled', 10_000_000n],
      ['confirmed', 10_100_000n],
    ],
  );
});

test('nobody with a connection pays a volume twice, frees what is live or takes what is not there (inv P1, req P7)', async () => {
  await begin();
  await world.creator('ann');
  await world.accrue(eventsOf('ann', '100'));
  const again = `insert into payonce.payouts (id, partner_id, programme_id, creator_id, pool_id, ordinal, asset_id, amount, volume, consumed, destination, origin)
    select 'pay_x', partner_id, programme_id, creator_id, pool_id, $1, asset_id, amount, volume, consumed, destination, origin from payonce.payouts limit 1`;
  const subject =
    "insert into payonce.subjects (type, id, partner_id, natural_key) values ('payout', 'pay_x', 'par_test', 'x')";
  const refused: [string, string, unknown[]?][] = [
    [again, 'payouts_take', [2]],
    [again, 'payouts_ordinal', [1]],
    ["update payonce.payouts set taken = 'returned', ended_at = now()", 'payouts_returned'],
    ["update payonce.payouts set taken = 'paid', ended_at = now()", 'payouts_paid'],
    ['update payonce.payouts set amount = 1', 'payouts_append_only'],
    ['update payonce.pools set in_flight = in_flight + 1', 'pools_carried'],
    ['update payonce.pools set volume_taken = volume + 1', 'pools_volume'],
    ['delete from payonce.pools', 'pools_append_only'],
  ];
  for (const [sql, constraint, values] of refused) {
    await assert.rejects(
      world.pool.tx('attack', async (tx) => {
        await tx.query(subject);
        await tx.query(sql, values);
      }),
      { constraint },
      sql,
    );
  }
  await world.pass();
  await assert.rejects(world.pool.query("update payonce.payouts set taken = 'returned'"), {
    constraint: 'payouts_edge',
  });
});
