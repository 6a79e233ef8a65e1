/*
 * Goal: of many payouts in one call each has its own end: paid once, payable again with proof, or asked of two persons. Method: a
 * real chain with the multi-send contract, and a rail without a chain for what no contract of ours would show.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeFunctionData } from 'viem';
import { testToken } from '../../sim/contracts/artifacts.ts';
import { sendAndMine } from '../../sim/evm-send.ts';
import type { LineTruth, Observation, SealedEffect } from '../../src/engine/rail.ts';
import { makePayoutBatchVerbs, payWaitingOnce } from '../../src/flows/payouts/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { inOneCall, makePayoutEvm, PAYOUT_UNITS } from '../support/payout-evm.ts';
import { eventsOf, makePayoutWorld, type PayoutWorld } from '../support/payout-scene.ts';
import { balanceOf, type World } from '../support/world.ts';

const statuses = async (world: Pick<World, 'pool'>): Promise<Record<string, number>> => {
  const { rows } = await world.pool.query<{ status: string; many: bigint }>(
    'select v.status, count(*) as many from payonce.payout_states v group by 1 order by 1',
  );
  return Object.fromEntries(rows.map((row) => [row.status, Number(row.many)]));
};

test('a multi-send of 50 in which one payee is barred: 49 creators are paid once, one is listed with its proof and payable again (req P8, cases H10, I2, inv P1)', async () => {
  const world = await makePayoutEvm('payout_batches');
  await world.terms(inOneCall(world));
  const names = Array.from({ length: 50 }, (_, index) => `creator-${index}`);
  const addresses = await world.creators(names);
  const barred = addresses.get('creator-20') ?? '';
  const owner = world.anvil.accounts[9];
  assert.ok(owner);
  const bar = async (listed: boolean): Promise<unknown> =>
    sendAndMine(world.anvil, owner.privateKey, {
      to: world.token,
      data: encodeFunctionData({
        abi: testToken.abi,
        functionName: 'blacklist',
        args: [barred as `0x${string}`, listed],
      }),
    });
  await bar(true);
  const before = await balanceOf(world);
  await world.earn(names);
  assert.deepEqual((await world.pool.query('select subject_type, amount from payonce.effects')).rows, [
    { subject_type: 'payout_batch', amount: 50n * PAYOUT_UNITS },
  ]);
  await world.drain();
  assert.deepEqual(await statuses(world), { confirmed: 49, failed: 1 });
  const paid = await world.paid();
  assert.equal(paid.length, 49);
  assert.equal(new Set(paid.map((one) => one.to)).size, 49);
  assert.ok(paid.every((one) => one.amount === PAYOUT_UNITS && one.to !== barred));
  const after = await balanceOf(world);
  assert.deepEqual([before.balance - after.balance, after.held], [49n * PAYOUT_UNITS, 0n]);
  const { rows } = await world.pool.query<{ creator: string; detail: string; waits: string; payable: bigint }>(
    `select c.external_id as creator, y.end_detail as detail, p.wait_reason as waits, p.payable
     from payonce.payouts y join payonce.creators c on c.id = y.creator_id join payonce.pools p on p.id = y.pool_id
     where y.taken = 'returned'`,
  );
  assert.deepEqual(rows, [
    {
      creator: 'creator-20',
      detail: 'the contract logged it as failed: nothing of it moved',
      waits: 'MOVED_NOTHING',
      payable: PAYOUT_UNITS,
    },
  ]);

  await bar(false);
  assert.equal((await payWaitingOnce(world.deps)).made.length, 1);
  await world.drain();
  assert.deepEqual(await statuses(world), { confirmed: 50, failed: 1 });
  const again = (await world.paid()).filter((one) => one.to === barred);
  assert.deepEqual(
    again.map((one) => one.amount),
    [PAYOUT_UNITS],
  );
  await assertBooksClean(world.pool, { books: await world.books(), wallets: world.wallets });
  await world.end();
});

/** A rail that shows of each payout, by its place in the call, what the test says. */
async function makeScene(outcomes: LineTruth['outcome'][], kind: Observation['kind'] = 'final_success') {
  const look = (sealed: SealedEffect): Promise<readonly Partial<Observation>[]> => {
    const lines = (sealed.lines ?? []).map(
      (line, index): LineTruth => ({
        ref: line.ref,
        outcome: outcomes[index] ?? 'unknown',
        objectId: null,
        detail: 'as the test says',
      }),
    );
    return Promise.resolve([{ kind, objectId: sealed.seal.identity, lines }]);
  };
  const world = await makePayoutWorld({ send: () => Promise.resolve({ kind: 'in_progress' }), look });
  await world.programme('p', {
    pays_by: 'multi_send',
    call: { to: 'contract', data: '0x', value: 'nothing', logs: [] },
  });
  const names = ['ann', 'ben', 'cat'];
  for (const name of names) await world.creator(name);
  return { world, earn: () => world.accrue(names.flatMap((name) => eventsOf(name, '100'))) };
}

const takenOf = async (world: PayoutWorld): Promise<string[]> =>
  (await world.pool.query<{ taken: string }>('select taken from payonce.payouts order by id')).rows.map(
    (row) => row.taken,
  );

test('of a payout that the logs do not show the money is in suspense until two persons decide it, once (req P8, case I2)', async () => {
  const { world, earn } = await makeScene(['paid', 'not_paid', 'unknown']);
  const before = await balanceOf(world);
  await earn();
  await world.pass();
  assert.deepEqual(await takenOf(world), ['paid', 'returned', 'unknown']);
  const held = async (): Promise<bigint> =>
    (
      await world.pool.query<{ sum: bigint }>(
        "select coalesce(sum(balance), 0)::numeric(78,0) as sum from payonce.accounts where code like 'suspense%'",
      )
    ).rows[0]?.sum ?? 0n;
  assert.equal(await held(), 10_000_000n);
  assert.equal(before.balance - (await balanceOf(world)).balance, 20_000_000n);
  const [open] = (
    await world.pool.query<{ subject_key: string; kind: string }>(
      'select kind, subject_key from payonce.cases where closed_at is null',
    )
  ).rows;
  assert.equal(open?.kind, 'lines_unknown');
  const { decide_line: decide, close } = makePayoutBatchVerbs(world.pool, world);
  const about = { kind: 'lines_unknown', subjectKey: open.subject_key } as Parameters<typeof close.objection>[0];
  assert.match((await close.objection(about, {})) ?? '', /the money of 1 payouts is in suspense \(3\)/);
  const act = (line: string, fate: string) =>
    world.pool.tx(
      'decide',
      (tx) =>
        decide.carryOut?.(tx, { id: 'prop_1', about, detail: { line, fate, reason: 'seen' } }) ?? Promise.reject(),
    );
  assert.match(JSON.stringify(await act('1', 'paid')), /only an unknown one is decided/);
  assert.deepEqual(await act('3', 'not_paid'), {
    did: `payout ${(await world.payouts())[2]?.id} is not paid; 0 are unknown still`,
    closesCase: true,
  });
  assert.match(JSON.stringify(await act('3', 'paid')), /only an unknown one is decided/);
  assert.deepEqual(await takenOf(world), ['paid', 'returned', 'returned']);
  assert.equal(await held(), 0n);
  assert.equal(before.balance - (await balanceOf(world)).balance, 10_000_000n);
  await assertBooksClean(world.pool);
  await world.end();
});

test('a call that reverts is released whole: all volumes are payable again, and the next call pays them once (req P8, case E8)', async () => {
  const { world, earn } = await makeScene([], 'reverted_final');
  await earn();
  await world.pass();
  assert.deepEqual(await takenOf(world), ['returned', 'returned', 'returned']);
  assert.equal((await balanceOf(world)).held, 0n);
  assert.equal((await payWaitingOnce(world.deps)).made.length, 3);
  assert.deepEqual(
    (
      await world.pool.query<{ type: string }>(
        "select type from payonce.events where subject_type = 'payout_batch' order by id",
      )
    ).rows.map((row) => row.type),
    ['payout_batch.created', 'payout_batch.failed', 'payout_batch.created'],
  );
  await assertBooksClean(world.pool);
  await world.end();
});

test('where the money is short for all of a call, each payout goes in one of its own as long as there is some (req P6)', async () => {
  const { world, earn } = await makeScene([]);
  const { balance } = await balanceOf(world);
  await world.fund(25_000_000n - balance);
  await earn();
  const { rows } = await world.pool.query<{ amount: bigint }>('select amount from payonce.effects order by id');
  assert.deepEqual(
    rows.map((row) => row.amount),
    [10_000_000n, 10_000_000n],
  );
  const waiting = await world.pool.query("select 1 from payonce.pools where wait_reason = 'INSUFFICIENT_FUNDS'");
  assert.equal(waiting.rowCount, 1);
  await assertBooksClean(world.pool);
  await world.end();
});
