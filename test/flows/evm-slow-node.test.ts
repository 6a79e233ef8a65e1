/*
 * Goal: one slow node of an EVM chain holds up nothing of its rail, neither a plan nor a yes nor a no (design §2: nothing is
 * proved by silence, and nothing waits for it). Method: a real chain behind three nodes, one of which answers late; the clock.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { type EvmWorld, makeEvmWorld } from '../support/evm-world.ts';

const LEASE_MS = 3_000;
const WITHIN_MS = 500;

async function slowFirst(t: TestContext, label: string, nodeCount: number, ms: number): Promise<EvmWorld> {
  const world = await makeEvmWorld({ label, nodeCount, leaseMs: LEASE_MS, askWithinMs: WITHIN_MS });
  t.after(() => world.end());
  world.nodes[0]?.script({ fault: { kind: 'delay', ms, what: 'answer' } });
  return world;
}

async function pay(world: EvmWorld): Promise<void> {
  const [made] = await createWithdrawals(world, [world.request({ destination: world.outsider() })]);
  assert.equal(made?.outcome, 'created');
}

async function timed(work: () => Promise<void>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

const states = async (world: EvmWorld): Promise<string[]> =>
  (await world.pool.query<{ state: string }>('select state from payonce.effects order by id')).rows.map(
    (row) => row.state,
  );

test('a node that is slow holds up neither a plan nor a look: what the quick ones show is recorded within the lease (req R4)', async (t) => {
  const world = await slowFirst(t, 'evm_slow', 3, 2_000);
  await pay(world);
  const planned = await timed(() => world.pass());
  assert.deepEqual(await states(world), ['SEALED']);
  await world.anvil.mine(4);
  await new Promise((resolve) => setTimeout(resolve, 250));
  const looked = await timed(() => world.pass());
  assert.deepEqual(await states(world), ['SETTLED']);
  // A send asks each node in turn, and its answer may be waited for: that is bounded by the send's own limits.
  assert.ok(
    planned < LEASE_MS && looked < LEASE_MS,
    `a pass took ${planned} and ${looked} ms of a lease of ${LEASE_MS}`,
  );
  const told = await world.pool.query<{ body: string }>(
    "select body from payonce.effect_answers where operation = 'look' and body like 'it had not answered after%'",
  );
  assert.ok(told.rows.length > 0, 'what the slow one did not show is on record as unread');
  assert.equal((await world.paid()).length, 1);
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
});

test('where the only node is slow it is waited for: slow is better than never (req R4)', async (t) => {
  const world = await slowFirst(t, 'evm_slow_alone', 1, 700);
  await pay(world);
  await world.pass();
  await world.anvil.mine(4);
  for (let pass = 0; pass < 4 && (await states(world))[0] !== 'SETTLED'; pass += 1) {
    await world.pass();
    await world.anvil.mine(2);
  }
  assert.deepEqual(await states(world), ['SETTLED']);
  assert.equal((await world.paid()).length, 1);
});
