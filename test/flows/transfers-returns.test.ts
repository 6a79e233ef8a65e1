/*
 * Goal: what came back is booked once, never above what went, and what cannot be read is a person's. Method: the engine and
 * the flow on a real database, over a rail that shows returns as a test says.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { approve, propose } from '../../src/engine/adjudicate.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { openCase } from '../../src/engine/cases.ts';
import { watchReleasedOnce } from '../../src/engine/look.ts';
import { makeNoopRail } from '../../src/engine/noop.ts';
import { createOperator, type Operator } from '../../src/engine/operators.ts';
import type { Observation, Rail, Returned } from '../../src/engine/rail.ts';
import { createTransfers, makeTransfers } from '../../src/flows/transfers/index.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { assertBooksClean, findBreaches } from '../support/books.ts';
import { balanceOf, makeWorld, type World } from '../support/world.ts';

const AMOUNT = 10_000n;
const FUNDS = 1_000_000n;
const PAID: Partial<Observation> = { kind: 'final_success', objectId: 'bank-1' };

interface Scene {
  readonly world: World;
  readonly rail: Rail;
  /** What the rail shows from now on, and a look at it. */
  readonly show: (...returned: Returned[]) => Promise<void>;
  readonly showAs: (observation: Partial<Observation>) => Promise<void>;
}

async function paid(flow: 'transfer' | 'withdrawal' = 'transfer'): Promise<Scene> {
  let seen = PAID;
  const noop = makeNoopRail(
    'noop',
    { send: () => Promise.resolve({ kind: 'in_progress' }), look: () => Promise.resolve([PAID]) },
    { returnsWithinMs: 24 * 3_600_000 },
  );
  const rail: Rail = {
    ...noop,
    read: (answer, sealed) => ({ ...noop.read(answer, sealed), ...(answer.operation === 'look' ? seen : {}) }),
  };
  const world = await makeWorld({
    label: 'returns',
    rails: () => [rail],
    fundUnits: FUNDS,
    ...(flow === 'transfer' ? { flows: (chart) => [makeTransfers(chart)] } : {}),
  });
  if (flow === 'withdrawal') await createWithdrawals(world, [world.request({ amount: AMOUNT })]);
  else {
    const payee = { bankCode: '004', accountNumber: '0012', holderName: '홍길동', memo: '' };
    const { assetId, partnerId } = world;
    const order = { partnerId, assetId, idempotencyKey: 'one', fingerprint: 'one', externalId: null, amount: AMOUNT };
    const request = { ...order, payee, holderName: payee.holderName, destination: '004:0012', repays: null };
    const [created] = await createTransfers(world, [request]);
    assert.equal(created?.outcome, 'created');
  }
  for (let pass = 0; pass < 2; pass += 1) {
    await world.pool.query('update payonce.effects set next_at = payonce.now() where ended_at is null');
    await advanceOnce(world.engine, rail);
  }
  const showAs = async (observation: Partial<Observation>): Promise<void> => {
    seen = observation;
    await world.pool.query("update payonce.effects set watch_at = payonce.now() - interval '1 second'");
    assert.equal(await watchReleasedOnce(world.engine, rail), 1);
  };
  return {
    world,
    rail,
    show: (...returned) => showAs({ kind: 'came_back', objectId: 'bank-1', returned }),
    showAs,
  };
}

async function returnsOf(world: World): Promise<bigint[]> {
  const { rows } = await world.pool.query<{ amount: bigint }>('select amount from payonce.returns order by at, id');
  return rows.map((row) => row.amount);
}
async function casesOf(world: World): Promise<string[]> {
  return (await world.pool.query<{ kind: string }>('select kind from payonce.cases')).rows.map((row) => row.kind);
}
const part = (id: string, amount: bigint, fee = 0n): Returned => ({ id, amount, fee, reason: 'account closed' });

test('two parts are two returns, and a part that is kept whole as a fee moves nothing (case M1, inv E17)', async () => {
  const { world, show } = await paid();
  await show(part('a', 4_000n, 100n));
  await show(part('a', 4_000n, 100n), part('b', 500n, 500n));
  await show(part('b', 500n, 500n), part('a', 4_000n, 100n));
  assert.deepEqual(await returnsOf(world), [4_000n, 500n]);
  assert.deepEqual(await balanceOf(world), { balance: FUNDS - AMOUNT + 3_900n, held: 0n });
  assert.deepEqual(await casesOf(world), []);
  await assertBooksClean(world.pool);
  await world.end();
});

test('what would take back more than went, has two amounts or cannot be read is a case, and nothing of it is booked (case M1, inv E17)', async () => {
  const { world, show } = await paid();
  await show(part('a', 6_000n));
  for (const odd of [[part('b', 6_000n)], [part('a', 5_000n)], [part('c', 1n), part('c', 2n)], []]) {
    await world.pool.query(
      "update payonce.cases set closed_at = payonce.now(), closed_how = 'seen' where closed_at is null",
    );
    await show(...odd);
    const open = await world.pool.query('select 1 from payonce.cases where closed_at is null');
    assert.equal(open.rowCount, 1, JSON.stringify(odd.map((one) => one.id)));
  }
  assert.deepEqual(new Set(await casesOf(world)), new Set(['return_unclear']));
  assert.deepEqual(await returnsOf(world), [6_000n]);
  assert.deepEqual(await balanceOf(world), { balance: FUNDS - AMOUNT + 6_000n, held: 0n });
  await assertBooksClean(world.pool);
  await world.end();
});

test('an object that fails after success is a return where the profile tells what came back, else a case (case M1)', async () => {
  const told = await paid();
  await told.showAs({ kind: 'object_failed', objectId: 'bank-1', returned: [part('bank-1:failed', AMOUNT)] });
  assert.deepEqual(await returnsOf(told.world), [AMOUNT]);
  assert.deepEqual(await casesOf(told.world), []);
  await assertBooksClean(told.world.pool);
  await told.world.end();

  const untold = await paid();
  for (let look = 0; look < 2; look += 1) await untold.showAs({ kind: 'object_failed', objectId: 'bank-1' });
  assert.deepEqual(await returnsOf(untold.world), []);
  assert.deepEqual(await casesOf(untold.world), ['return_unclear']);
  assert.deepEqual(await balanceOf(untold.world), { balance: FUNDS - AMOUNT, held: 0n });
  await assertBooksClean(untold.world.pool);
  await untold.world.end();
});

test('a second object under one key, seen long after the first settled, is the highest case, and nothing is booked', async () => {
  const { world, showAs } = await paid();
  await showAs({ kind: 'key_taken', objectId: 'bank-2', detail: 'two carry our key: bank-1, bank-2', doubled: true });
  const { rows } = await world.pool.query<{ kind: string; severity: number; summary: string }>(
    'select kind, severity, summary from payonce.cases',
  );
  assert.deepEqual(
    rows.map((row) => [row.kind, row.severity]),
    [['contradiction', 3]],
  );
  assert.match(rows[0]?.summary ?? '', /may have been paid twice: two carry our key: bank-1, bank-2/);
  assert.deepEqual(await balanceOf(world), { balance: FUNDS - AMOUNT, held: 0n });
  await assertBooksClean(world.pool);
  await world.end();
});

test('after it settled, other content under our key is the highest case, and closed by people it is not opened by the same again', async () => {
  const { world, showAs } = await paid();
  const other = {
    kind: 'key_taken',
    objectId: 'bank-1',
    otherContent: true,
    detail: 'under our key, but its amount is 1250000',
  } as const;
  await showAs(other);
  assert.deepEqual(await casesOf(world), ['contradiction']);
  await world.pool.query("update payonce.cases set closed_at = payonce.now(), closed_how = 'two persons saw it'");
  await showAs(other);
  assert.deepEqual(await casesOf(world), ['contradiction'], 'the same again opens nothing');
  await showAs({ ...other, detail: 'under our key, but its amount is 7' });
  assert.deepEqual(await casesOf(world), ['contradiction', 'contradiction'], 'something new does');
  await assertBooksClean(world.pool);
  await world.end();
});

test('what came back and is shown as paid again, or came with another fee, is a person’s, and nothing is booked (case M1)', async () => {
  const { world, show, showAs } = await paid();
  await show(part('a', AMOUNT));
  await showAs(PAID);
  assert.deepEqual(await casesOf(world), ['return_unclear']);
  await world.pool.query("update payonce.cases set closed_at = payonce.now(), closed_how = 'seen'");
  await show(part('a', AMOUNT, 2_500n));
  assert.deepEqual(await casesOf(world), ['return_unclear', 'return_unclear']);
  assert.deepEqual(await returnsOf(world), [AMOUNT]);
  assert.deepEqual(await balanceOf(world), { balance: FUNDS, held: 0n });
  await assertBooksClean(world.pool);
  await world.end();
});

test('what came back is not unwound as a whole: it would be credited twice (case M1)', async () => {
  const { world, show } = await paid();
  await show(part('a', AMOUNT));
  const { rows } = await world.pool.query<{ id: bigint }>('select id from payonce.effects');
  const effectId = rows[0]?.id ?? -1n;
  const caseId = await openCase(world.pool, world.makeId, {
    kind: 'broken_finality',
    severity: 3,
    subjectKey: `effect:${effectId}`,
    effectId,
    summary: 'given by the test',
  });
  const person = async (name: string): Promise<Operator> =>
    (await world.pool.tx('who', (tx) => createOperator(tx, world.makeId, world.ports.chance, name, 'approver', 'test')))
      .operator;
  const [ann, bob] = [await person('ann'), await person('bob')];
  const { proposalId } = await propose(world.engine, ann, caseId, 'unwind', { reason: 'it never went' });
  const outcome = await approve(world.engine, bob, proposalId);
  assert.equal(outcome.outcome, 'void');
  assert.match(outcome.outcome === 'void' ? outcome.why : '', /credit it twice/);
  assert.deepEqual(await balanceOf(world), { balance: FUNDS, held: 0n });
  await assertBooksClean(world.pool);
  await world.end();
});

test('a provider’s NUL and half characters stop nobody: they are kept as such, and the neighbours settle', async () => {
  const { world, showAs } = await paid();
  await showAs({
    kind: 'came_back',
    objectId: 'bank\u0000-1',
    detail: 'a\u0000b \ud800',
    returned: [{ id: 'r\u0000', amount: 4_000n, reason: 'x\u0000\udfff' }],
  });
  assert.deepEqual(await returnsOf(world), [4_000n]);
  await assertBooksClean(world.pool);
  await world.end();
});

test('the database takes no return above what went (inv E17)', async () => {
  const { world, show } = await paid();
  await show(part('a', 6_000n));
  const insert = (amount: bigint): Promise<unknown> =>
    world.pool.query(
      "insert into payonce.returns (id, effect_id, provider_return_id, amount) select 'ret_x', id, 'x', $1::numeric from payonce.effects",
      [amount],
    );
  await assert.rejects(insert(4_001n), /no part of it/);
  await world.end();
});

test('where nothing is ever returned, money that comes back is a case and its testimony is kept', async () => {
  const { world, show } = await paid('withdrawal');
  await show(part('a', AMOUNT));
  assert.deepEqual(await casesOf(world), ['return_unclear']);
  assert.deepEqual(await returnsOf(world), []);
  const { rows } = await world.pool.query<{ kind: string }>(
    "select kind from payonce.effect_evidence where kind = 'CAME_BACK'",
  );
  assert.equal(rows.length, 1);
  await assertBooksClean(world.pool);
  await world.end();
});

test('what settled is looked at until nothing can come back any more, then no longer', async () => {
  const { world, rail } = await paid();
  const due = async (): Promise<boolean | null> =>
    (
      await world.pool.query<{ due: boolean | null }>(
        "select watch_at > payonce.now() + interval '59 minutes' as due from payonce.effects",
      )
    ).rows[0]?.due ?? null;
  assert.equal(await due(), true);
  await world.pool.query("update payonce.effects set watch_at = payonce.now() - interval '1 second'");
  await watchReleasedOnce(world.engine, rail);
  assert.equal(await due(), true);
  const over = makeNoopRail('noop', { look: () => Promise.resolve([PAID]) }, { returnsWithinMs: 0 });
  await world.pool.query("update payonce.effects set watch_at = payonce.now() - interval '1 second'");
  await watchReleasedOnce(world.engine, over);
  assert.equal(await due(), null);
  await world.end();
});

test('the judge sees a transfer that is booked wrong, untold, or answers under another key (inv E3, E15, E17, L5, L6, N1, V2)', async () => {
  const { world, show } = await paid();
  await show(part('a', 4_000n));
  const breaches: [sql: string, name: string, said: RegExp][] = [
    ["update payonce.postings set idem_key = 'TRF_CONFIRM:tr_x' where idem_key like 'TRF%'", 'L5', /names no transfer/],
    ['update payonce.transfers set amount = amount + 1', 'L5', /not -10001 for/],
    ['update payonce.transfers set fee = 1', 'L6', /holds 10000/],
    ['update payonce.returns set fee = 1', 'L5', /gives 4000 back to par_test, not 3999/],
    ["update payonce.postings set effect_id = null where idem_key like 'TRF%'", 'E3', /SETTLED with 0 confirmations/],
    ["update payonce.postings set idem_key = 'RETURN:x' where idem_key like 'RETURN%'", 'E17', /of 4000 is not booked/],
    ['delete from payonce.idempotency_keys', 'E15', /answers nothing/],
    ["delete from payonce.events where type = 'transfer.confirmed'", 'N1', /is settled and no event/],
    ["delete from payonce.events where type = 'transfer.returned'", 'N1', /came back and no event/],
    ["update payonce.effects set subject_id = 'tr_y'", 'V2', /has no effect/],
  ];
  for (const [sql, name, said] of breaches) {
    await assert.rejects(
      world.pool.tx('breach', async (tx) => {
        await tx.query('set local session_replication_role = replica');
        await tx.query(sql);
        const found = await findBreaches(tx);
        assert.ok(
          found.some((one) => one.invariant === name && said.test(one.detail)),
          `${sql}: ${found.map((one) => `${one.invariant} ${one.detail}`).join('; ')}`,
        );
        throw new Error('undone');
      }),
      /undone/,
    );
  }
  await assertBooksClean(world.pool);
  await world.end();
});
