/*
 * Goal: a no that turns out to be wrong is on record, whatever was told meanwhile (issue 3, show 4). Method: a real database
 * and a simulated bank that lies, with its own books as the judge.
 */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type Bank, type BankOptions, startBank } from '../../sim/bank/bank.ts';
import { approve, propose } from '../../src/engine/adjudicate.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import { openCase } from '../../src/engine/cases.ts';
import { lookAt, watchReleasedOnce } from '../../src/engine/look.ts';
import { reopenOnce } from '../../src/engine/reopen.ts';
import { loadEffects } from '../../src/engine/store.ts';
import { createTransfers } from '../../src/flows/transfers/index.ts';
import { readTransferById } from '../../src/flows/transfers/store.ts';
import { AMOUNT, type BankWorld, FUNDS, makeBankWorld } from '../support/bank-world.ts';
import { assertBooksClean } from '../support/books.ts';
import { balanceOf } from '../support/world.ts';

interface Scene {
  readonly bank: Bank;
  readonly world: BankWorld;
}

async function scene(
  t: TestContext,
  options: Omit<BankOptions, 'profile'>,
  fundUnits = FUNDS,
  profile: 'generic' | 'stripe' = 'generic',
): Promise<Scene> {
  const bank = await startBank({ profile, ...options });
  const world = await makeBankWorld({
    label: 'after-all',
    profile,
    url: bank.url,
    secret: () => bank.credentials.current(),
    fundUnits,
    config: { capabilities: { resendAfterMs: 0 } },
  });
  t.after(async () => {
    await world.end();
    await bank.stop();
  });
  return { bank, world };
}

async function pass({ world }: Scene, times = 1): Promise<void> {
  for (let time = 0; time < times; time += 1) {
    await world.pool.query('update payonce.effects set next_at = payonce.now() where ended_at is null');
    await advanceOnce(world.engine, world.rail);
  }
}

async function effectsOf({ world }: Scene, subject: string): Promise<{ id: bigint; seq: number; state: string }[]> {
  return (
    await world.pool.query<{ id: bigint; seq: number; state: string }>(
      'select id, seq, state from payonce.effects where subject_id = $1 order by seq',
      [subject],
    )
  ).rows;
}

async function casesOf({ world }: Scene): Promise<{ id: string; kind: string; severity: number }[]> {
  return (
    await world.pool.query<{ id: string; kind: string; severity: number }>(
      'select id, kind, severity from payonce.cases where closed_at is null order by kind',
    )
  ).rows;
}

async function statusOf({ world }: Scene, id: string): Promise<string | undefined> {
  return (await readTransferById(world.pool, world.partnerId, id))?.status;
}

async function eventsOf({ world }: Scene, id: string): Promise<string[]> {
  const { rows } = await world.pool.query<{ type: string }>(
    'select type from payonce.events where subject_id = $1 order by sequence',
    [id],
  );
  return rows.map((row) => row.type.replace('transfer.', ''));
}

async function movements({ bank }: Scene): Promise<number> {
  return (await bank.books.movements()).filter((one) => one.kind === 'out').length;
}

test('testimony against a released try whose next try lives is a contradiction: the highest case, a loss of ours, no new seals (case I1, inv E13, req T6)', async (t) => {
  // The bank pays and says "not enough money", keeps that under the key, and hides the payment from look-ups for a while.
  const one = await scene(
    t,
    {
      faults: [
        { on: 'create', calls: [1], fault: { kind: 'lie', reason: 'insufficient_funds', stored: true } },
        { on: 'look', fault: { kind: 'blind' } },
      ],
    },
    FUNDS,
    'stripe',
  );
  const { world } = one;
  const [ann, bob] = [await world.person('ann'), await world.person('bob')];
  const id = await world.take('one');
  await pass(one, 3);
  const [first] = await effectsOf(one, id);
  assert.equal(first?.state, 'RELEASED', 'a stored refusal is a proof, as far as the bank keeps its word');
  assert.equal(await statusOf(one, id), 'in_review');
  const [review] = await casesOf(one);
  assert.equal(review?.kind, 'after_release');
  const { proposalId } = await propose(world.engine, ann, review.id, 'next_try', { reason: 'we topped up' });
  assert.equal((await approve(world.engine, bob, proposalId)).outcome, 'done');
  await pass(one, 1);
  const second = (await effectsOf(one, id))[1];
  assert.ok(second !== undefined && second.state !== 'PENDING', 'the next try has left');

  one.bank.heal();
  await lookAt(world.engine, world.rail, await loadEffects(world.pool, [first.id]));
  assert.equal(await reopenOnce(world.engine), 1);
  assert.deepEqual(
    (await casesOf(one)).map(({ kind, severity }) => [kind, severity]),
    [['contradiction', 3]],
  );
  await pass(one, 2);
  assert.deepEqual(
    (await effectsOf(one, id)).map((effect) => effect.state),
    ['RELEASED', 'SETTLED'],
  );
  assert.equal(await movements(one), 2, 'the bank lied, and it is on record');
  assert.equal((await balanceOf(world, 'loss')).balance, -AMOUNT);
  assert.deepEqual(await balanceOf(world), { balance: FUNDS - AMOUNT, held: 0n }, 'the partner pays once');
  // No new seals for this partner on this rail until two persons close it.
  const next = await world.take('two');
  await pass(one, 2);
  assert.deepEqual(
    (await effectsOf(one, next)).map((effect) => effect.state),
    ['PENDING'],
  );
  assert.equal(await movements(one), 2);
  const [contradiction] = await casesOf(one);
  const close = await propose(world.engine, ann, contradiction?.id ?? '', 'close', { reason: 'the bank pays it back' });
  assert.equal((await approve(world.engine, bob, close.proposalId)).outcome, 'done');
  await pass(one, 3);
  assert.deepEqual(
    (await effectsOf(one, next)).map((effect) => effect.state),
    ['SETTLED'],
  );
  await assertBooksClean(world.pool);
});

test('a believed no is told only after lateness and a fresh look; what comes after it re-opens with its hold, or a deficit where the money is gone (case B1, B4, req T6, inv E11, E13)', async (t) => {
  const one = await scene(t, {}, AMOUNT);
  const { world } = one;
  const [ann, bob] = [await world.person('ann'), await world.person('bob')];
  const drop = one.bank.script({ on: 'create', fault: { kind: 'deliver_later', ms: 7_200_000 } });
  const id = await world.take('one');
  await pass(one);
  drop();
  const effects = await effectsOf(one, id);
  const effectId = effects[0]?.id ?? -1n;
  await world.pool.query(
    "insert into payonce.cases (id, kind, severity, subject_key, effect_id, summary) values ('case_1', 'undecided', 2, 'given', $1, 'given')",
    [effectId],
  );
  const unsent = one.bank.script({ on: 'create', fault: { kind: 'lose_request' } });
  const { proposalId } = await propose(world.engine, ann, 'case_1', 'absent', { reason: 'not there' });
  assert.equal((await approve(world.engine, bob, proposalId)).outcome, 'done');
  unsent();
  assert.equal(await statusOf(one, id), 'in_review');
  const told = await world.pool.query<{ body: string }>(
    "select body from payonce.events where type = 'transfer.processing'",
  );
  assert.equal(told.rows.length, 1);
  const { data } = JSON.parse(told.rows[0]?.body ?? '{}') as { data: Record<string, string> };
  assert.ok(Date.parse(data['final_at'] ?? '') > Date.now() + 29 * 60_000, 'at least half an hour');
  assert.deepEqual(await balanceOf(world), { balance: AMOUNT, held: AMOUNT });
  await pass(one, 2);
  assert.equal((await effectsOf(one, id))[0]?.state, 'SEALED');
  await world.pool.query("update payonce.effects set lateness_until = payonce.now() - interval '1 second'");
  await pass(one);
  assert.equal(await statusOf(one, id), 'failed');
  assert.deepEqual(await balanceOf(world), { balance: AMOUNT, held: 0n });
  // The partner spends the money on another transfer; two hours later the bank executes what it was asked.
  const other = await world.take('two');
  await pass(one, 2);
  assert.equal(await statusOf(one, other), 'confirmed');
  assert.deepEqual(await balanceOf(world), { balance: 0n, held: 0n });
  one.bank.clock.advance(7_200_001);
  await world.pool.query('update payonce.effects set watch_at = payonce.now() where id = $1', [effectId]);
  assert.equal(await watchReleasedOnce(world.engine, world.rail), 1);
  assert.equal(await reopenOnce(world.engine), 1);
  assert.deepEqual((await casesOf(one)).map((found) => found.kind).includes('told_failed'), true);
  await pass(one, 3);
  const mine = (await eventsOf(one, id)).join();
  assert.equal(mine, 'created,processing,failed,reopened,confirmed');
  assert.equal(await movements(one), 2, 'one for each transfer');
  assert.deepEqual(await balanceOf(world), { balance: -AMOUNT, held: 0n });
  const accounts = await world.pool.query<{ deficit: bigint }>(
    'select deficit from payonce.accounts where partner_id = $1 and deficit > 0',
    [world.partnerId],
  );
  assert.deepEqual(accounts.rows, [{ deficit: AMOUNT }]);
  await assertBooksClean(world.pool);
});

test('what pays a failed transfer again is not sealed once that one moved after all (case B4, req T6)', async (t) => {
  const one = await scene(t, {
    faults: [{ on: 'create', calls: [1], fault: { kind: 'deliver_later', ms: 7_200_000 } }],
  });
  const { world } = one;
  const [ann, bob] = [await world.person('ann'), await world.person('bob')];
  const id = await world.take('one');
  await pass(one);
  const effectId = (await effectsOf(one, id))[0]?.id ?? -1n;
  const caseId = await openCase(world.pool, world.makeId, {
    kind: 'undecided',
    severity: 2,
    subjectKey: `effect:${effectId}`,
    effectId,
    summary: 'given by the test',
  });
  const unsent = one.bank.script({ on: 'create', fault: { kind: 'lose_request' } });
  const { proposalId } = await propose(world.engine, ann, caseId, 'absent', { reason: 'not there' });
  assert.equal((await approve(world.engine, bob, proposalId)).outcome, 'done');
  unsent();
  await world.pool.query("update payonce.effects set lateness_until = payonce.now() - interval '1 second'");
  await pass(one);
  assert.equal(await statusOf(one, id), 'failed');
  const [again] = await createTransfers(world, [{ ...world.transferRequest('two'), repays: id }]);
  assert.equal(again?.outcome, 'created');
  const repayer = again.outcome === 'created' ? again.id : '';
  one.bank.clock.advance(7_200_001);
  await lookAt(world.engine, world.rail, await loadEffects(world.pool, [effectId]));
  // Before the re-open and after it: testimony alone bars the seal.
  await pass(one);
  assert.equal((await effectsOf(one, repayer))[0]?.state, 'PENDING');
  await reopenOnce(world.engine);
  await pass(one, 3);
  assert.deepEqual(
    [(await effectsOf(one, id))[0]?.state, (await effectsOf(one, repayer))[0]?.state],
    ['SETTLED', 'PENDING'],
  );
  assert.equal(await movements(one), 1);
  const waits = await world.pool.query<{ wait_reason: string }>(
    'select wait_reason from payonce.effects where subject_id = $1',
    [repayer],
  );
  assert.match(waits.rows[0]?.wait_reason ?? '', /^BARRED: .*moved after all/);
  await assertBooksClean(world.pool);
});
