/**
 * The life of an effect on a rail where nothing moves: intake, hold, seal, answer, settle, release, successor, and the
 * races between them. Method: the engine's own functions on a real database; the rail answers as each test likes.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { advanceEffect, advanceOnce } from '../../src/engine/advance.ts';
import { makeNoopRail, type NoopBehaviour } from '../../src/engine/noop.ts';
import { record } from '../../src/engine/record.ts';
import type { Capabilities, Rail } from '../../src/engine/rail.ts';
import { reopenOnce } from '../../src/engine/reopen.ts';
import { loadEffects } from '../../src/engine/store.ts';
import { cancelWithdrawal, createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { readWithdrawal } from '../../src/flows/withdrawals/store.ts';
import { assertBooksClean } from '../support/books.ts';
import { balanceOf, collectingLog, makeWorld, type World, type WorldOptions } from '../support/world.ts';

async function world(
  behave: NoopBehaviour = {},
  capabilities: Partial<Capabilities> = {},
  options: Partial<WorldOptions> = {},
): Promise<World> {
  return makeWorld({ label: 'life', rails: () => [makeNoopRail('noop', behave, capabilities)], ...options });
}
function railOf(one: World): Rail {
  const rail = one.engine.rails.get('noop');
  assert.ok(rail);
  return rail;
}
async function createOne(one: World): Promise<string> {
  const [created] = await createWithdrawals(one, [one.request()]);
  assert.equal(created?.outcome, 'created');
  return created.outcome === 'created' ? created.id : '';
}
async function statusOf(one: World, id: string): Promise<string | undefined> {
  return (await readWithdrawal(one.pool, one.partnerId, id))?.status;
}
async function dueNow(one: World): Promise<void> {
  await one.pool.query(
    "update payonce.effects set next_at = payonce.now() - interval '1 second', lease_until = null where ended_at is null",
  );
}

test('a withdrawal is held, sealed, sent and settled with one DEBIT and one event each (req P1, W7)', async () => {
  const one = await world();
  const id = await createOne(one);
  assert.equal(await statusOf(one, id), 'pending');
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n, held: 1_000_000n });
  assert.deepEqual(await advanceOnce(one.engine, railOf(one)), { pending: 1, sealed: 0 });
  assert.equal(await statusOf(one, id), 'confirmed');
  assert.deepEqual(await balanceOf(one), { balance: 999_000_000n, held: 0n });
  const events = await one.pool.query<{ type: string; sequence: bigint }>(
    'select type, sequence from payonce.events where subject_id = $1 order by sequence',
    [id],
  );
  assert.deepEqual(
    events.rows.map((row) => row.type),
    ['withdrawal.created', 'withdrawal.confirmed'],
  );
  await assertBooksClean(one.pool);
  await one.end();
});

test('twenty confirmations at once make one transition; nineteen say already transitioned (req W1, W2, W3, case D1)', async () => {
  const log = collectingLog();
  const one = await world({ send: () => Promise.resolve({ kind: 'in_progress' }) }, {}, { log });
  const id = await createOne(one);
  await advanceOnce(one.engine, railOf(one));
  const [effect] = (await one.pool.query<{ id: bigint }>('select id from payonce.effects')).rows;
  assert.ok(effect);
  const confirm = {
    operation: 'look' as const,
    operator: 'noop',
    reach: 'answer' as const,
    status: 200,
    variantHash: null,
  };
  await Promise.all(
    Array.from({ length: 20 }, (_, index) => {
      const answer = {
        ...confirm,
        source: `monitor-${index}`,
        body: JSON.stringify({ kind: 'final_success', objectId: '0x1' }),
      };
      return record(one.engine, railOf(one), [
        {
          effectId: effect.id,
          token: 0n,
          found: [
            {
              answer,
              observation: {
                kind: 'final_success',
                source: answer.source,
                operator: 'noop',
                witness: true,
                objectId: '0x1',
                detail: 'confirmed',
                cost: null,
              },
              sendNumber: 1,
            },
          ],
          nextAfterMs: null,
        },
      ]);
    }),
  );
  assert.equal(log.lines.filter((line) => line.message === 'already transitioned').length, 19);
  const debits = await one.pool.query('select 1 from payonce.postings where idem_key = $1', [`WDR_CONFIRM:${id}`]);
  assert.equal(debits.rowCount, 1);
  const confirmed = await one.pool.query("select 1 from payonce.events where type = 'withdrawal.confirmed'");
  assert.equal(confirmed.rowCount, 1);
  await assertBooksClean(one.pool);
  await one.end();
});

test('thirty rounds of eight claimers give one winner each; an ended effect is never claimed (req R1, R12, case L1)', async () => {
  const one = await world({
    send: () => Promise.resolve({ kind: 'in_progress' }),
    look: () => Promise.resolve([{ kind: 'not_found' }]),
  });
  await createOne(one);
  const rail = railOf(one);
  for (let round = 0; round < 30; round += 1) {
    await dueNow(one);
    const results = await Promise.all(Array.from({ length: 8 }, () => advanceOnce(one.engine, rail)));
    assert.equal(
      results.reduce((sum, result) => sum + result.pending + result.sealed, 0),
      1,
      `round ${round}`,
    );
  }
  const [effect] = (await one.pool.query<{ id: bigint }>('select id from payonce.effects')).rows;
  assert.ok(effect);
  const busy = await Promise.all(Array.from({ length: 8 }, () => advanceEffect(one.engine, effect.id)));
  assert.ok(busy.filter((answer) => answer === 'advanced').length >= 1);
  await assertBooksClean(one.pool);
  await one.end();
});

test('a claim never takes more than it asked for, even under the worst plan (case L1)', async () => {
  const one = await world();
  await createWithdrawals(
    one,
    Array.from({ length: 50 }, () => one.request()),
  );
  const claimed = await one.pool.tx('bad plan', async (tx) => {
    for (const setting of ['hashjoin', 'mergejoin', 'material', 'hashagg', 'sort'])
      await tx.query(`set local enable_${setting} = off`);
    const { claimPending } = await import('../../src/engine/claims.ts');
    return claimPending(tx, 'noop', [{ signer: one.wallet, room: 3 }], 30_000);
  });
  assert.equal(claimed.length, 3);
  await assertBooksClean(one.pool);
  await one.end();
});

test('a cancel and a claim have one winner, and a cancel after the seal is too late (case A3)', async () => {
  const one = await world();
  const ids = (
    await createWithdrawals(
      one,
      Array.from({ length: 20 }, () => one.request()),
    )
  ).map((created) => (created.outcome === 'created' ? created.id : ''));
  const rail = railOf(one);
  const [, ...cancels] = await Promise.all([
    advanceOnce(one.engine, rail),
    ...ids.map((id) => cancelWithdrawal(one.engine, one.partnerId, id, 'partner')),
  ]);
  for (let index = 0; index < 3; index += 1) {
    await dueNow(one);
    await advanceOnce(one.engine, rail);
  }
  for (const [index, id] of ids.entries()) {
    assert.equal(await statusOf(one, id), cancels[index] === 'cancelled' ? 'cancelled' : 'confirmed');
    assert.equal(await cancelWithdrawal(one.engine, one.partnerId, id, 'partner'), cancels[index]);
  }
  const cancelled = BigInt(cancels.filter((answer) => answer === 'cancelled').length);
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n - (20n - cancelled) * 1_000_000n, held: 0n });
  await assertBooksClean(one.pool);
  await one.end();
});

test('silence and not-found free nothing, however often; past the time to decide it is a case (case A1, B4, F1, inv E10)', async () => {
  const one = await world(
    {
      send: () => Promise.resolve({ kind: 'unreadable' }),
      look: () => Promise.resolve([{ kind: 'not_found' }, { kind: 'unreadable', source: 'other' }]),
    },
    { decideWithinMs: 0 },
  );
  const id = await createOne(one);
  for (let tick = 0; tick < 10; tick += 1) {
    await dueNow(one);
    await advanceOnce(one.engine, railOf(one));
  }
  assert.equal(await statusOf(one, id), 'in_review');
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n, held: 1_000_000n });
  const cases = await one.pool.query<{ kind: string }>('select kind from payonce.cases');
  assert.deepEqual(
    cases.rows.map((row) => row.kind),
    ['undecided'],
  );
  assert.equal((await one.pool.query('select 1 from payonce.effects')).rowCount, 1);
  await assertBooksClean(one.pool);
  await one.end();
});

test('a dead release gives the hold back and the successor holds anew; the second revert tells failed (case E8, req T7)', async () => {
  const one = await world({
    send: () => Promise.resolve({ kind: 'in_progress' }),
    look: () => Promise.resolve([{ kind: 'reverted_final', objectId: '0xdead' }]),
  });
  const id = await createOne(one);
  for (let tick = 0; tick < 4; tick += 1) {
    await dueNow(one);
    await advanceOnce(one.engine, railOf(one));
  }
  assert.equal(await statusOf(one, id), 'failed');
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n, held: 0n });
  const effects = await one.pool.query<{ seq: number; state: string }>(
    'select seq, state from payonce.effects order by seq',
  );
  assert.deepEqual(effects.rows, [
    { seq: 1, state: 'RELEASED' },
    { seq: 2, state: 'RELEASED' },
  ]);
  const holds = await one.pool.query<{ state: string }>('select state from payonce.holds order by id');
  assert.deepEqual(
    holds.rows.map((row) => row.state),
    ['voided', 'voided'],
  );
  await assertBooksClean(one.pool);
  await one.end();
});

test('testimony after a release re-opens it with its hold, never to be sent again (inv E13, req T6)', async () => {
  let seen: 'reverted_final' | 'final_success' = 'reverted_final';
  const one = await world({
    send: () => Promise.resolve({ kind: 'in_progress' }),
    look: () => Promise.resolve([{ kind: seen, objectId: '0xabc' }]),
  });
  const id = await createOne(one);
  for (let tick = 0; tick < 4; tick += 1) {
    await dueNow(one);
    await advanceOnce(one.engine, railOf(one));
  }
  assert.equal(await statusOf(one, id), 'failed');
  seen = 'final_success';
  const [, second] = (await one.pool.query<{ id: bigint }>('select id from payonce.effects order by seq')).rows;
  assert.ok(second);
  // The partner spent the balance meanwhile: the re-opened hold takes the account under its floor, on record as deficit.
  const spend = await createWithdrawals(one, [one.request({ amount: 999_500_000n })]);
  assert.equal(spend[0]?.outcome, 'created');
  assert.equal(await advanceEffect(one.engine, second.id), 'advanced');
  assert.equal(await reopenOnce(one.engine), 1);
  const [reopened] = await loadEffects(one.pool, [second.id]);
  assert.equal(reopened?.state, 'SEALED');
  assert.equal(reopened.noSend, true);
  const deficit = await one.pool.query<{ deficit: bigint }>('select deficit from payonce.accounts where code = $1', [
    `partner:${one.partnerId}`,
  ]);
  assert.equal(deficit.rows[0]?.deficit, 500_000n);
  assert.equal(await statusOf(one, id), 'in_review');
  const sendsBefore = one.engine.counters.sends;
  await advanceEffect(one.engine, second.id);
  assert.equal((await loadEffects(one.pool, [second.id]))[0]?.state, 'SETTLED');
  assert.equal(one.engine.counters.sends, sendsBefore);
  assert.equal(
    (await one.pool.query("select 1 from payonce.cases where kind = 'told_failed' and closed_at is null")).rowCount,
    1,
  );
  await assertBooksClean(one.pool);
  await one.end();
});

test('testimony against a released effect with a sealed successor is a contradiction, booked as a loss (inv E13)', async () => {
  const states: ('reverted_final' | 'final_success' | 'not_found')[] = ['reverted_final'];
  const one = await world({
    send: () => Promise.resolve({ kind: 'in_progress' }),
    look: (sealed) =>
      Promise.resolve([{ kind: sealed.seq === 1 ? (states[0] ?? 'not_found') : 'not_found', objectId: '0xabc' }]),
  });
  const id = await createOne(one);
  for (let tick = 0; tick < 3; tick += 1) {
    await dueNow(one);
    await advanceOnce(one.engine, railOf(one));
  }
  states[0] = 'final_success';
  const [first, second] = (
    await one.pool.query<{ id: bigint; state: string }>('select id, state from payonce.effects order by seq')
  ).rows;
  assert.equal(first?.state, 'RELEASED');
  assert.equal(second?.state, 'SEALED');
  assert.ok(first);
  await advanceEffect(one.engine, first.id);
  assert.equal(await reopenOnce(one.engine), 1);
  assert.equal(await reopenOnce(one.engine), 0);
  const [contradicted] = await loadEffects(one.pool, [first.id]);
  assert.equal(contradicted?.state, 'RELEASED');
  assert.notEqual(contradicted.contradictedAt, null);
  assert.equal((await balanceOf(one, 'loss')).balance, -1_000_000n);
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000_000n, held: 1_000_000n });
  assert.equal(await statusOf(one, id), 'in_review');
  // No new seals of this partner on the rail until two persons close it.
  await createOne(one);
  const sealed = one.engine.counters.sealed;
  await advanceOnce(one.engine, railOf(one));
  assert.equal(one.engine.counters.sealed, sealed);
  await assertBooksClean(one.pool);
  await one.end();
});

test('a worker whose lease ran out writes no verdict but a yes, and its no waits (case L2, L3, inv E11)', async () => {
  const one = await world({
    send: () => Promise.resolve({ kind: 'in_progress' }),
    look: () => Promise.resolve([{ kind: 'not_found' }]),
  });
  const id = await createOne(one);
  await advanceOnce(one.engine, railOf(one));
  await dueNow(one);
  await advanceOnce(one.engine, railOf(one));
  const [effect] = await loadEffects(
    one.pool,
    (await one.pool.query<{ id: bigint }>('select id from payonce.effects')).rows.map((row) => row.id),
  );
  assert.ok(effect);
  const pass = (kind: 'reverted_final' | 'final_success') => {
    const answer = {
      operation: 'look' as const,
      source: 'late',
      operator: 'late',
      reach: 'answer' as const,
      status: 200,
      body: '{}',
      variantHash: null,
    };
    return [
      {
        effectId: effect.id,
        token: effect.leaseToken - 1n,
        found: [
          {
            answer,
            observation: {
              kind,
              source: 'late',
              operator: 'late',
              witness: true,
              objectId: '0x1',
              detail: '',
              cost: null,
            },
            sendNumber: 1,
          },
        ],
        nextAfterMs: 0,
      },
    ];
  };
  await record(one.engine, railOf(one), pass('reverted_final'));
  assert.equal((await loadEffects(one.pool, [effect.id]))[0]?.state, 'SEALED');
  await record(one.engine, railOf(one), pass('final_success'));
  assert.equal(await statusOf(one, id), 'confirmed');
  await assertBooksClean(one.pool);
  await one.end();
});

test('the same key and body answer the same withdrawal; another body names it; a refusal is replayed (inv E15, case C4, C8)', async () => {
  const one = await world();
  const request = one.request({ idempotencyKey: 'k' });
  const answers = (await Promise.all(Array.from({ length: 50 }, () => createWithdrawals(one, [request])))).flat();
  assert.equal(answers.filter((answer) => answer.outcome === 'created').length, 1);
  assert.equal(answers.filter((answer) => answer.outcome === 'replayed').length, 49);
  const [reused] = await createWithdrawals(one, [{ ...request, fingerprint: 'other' }]);
  assert.equal(reused?.outcome, 'key_reused');
  const big = one.request({ idempotencyKey: 'big', amount: 10_000_000_000n });
  const [refused] = await createWithdrawals(one, [big]);
  assert.equal(refused?.outcome === 'refused' && refused.problem.code, 'PO_INSUFFICIENT_FUNDS');
  await one.fund(100_000_000_000n);
  const [replayed] = await createWithdrawals(one, [big]);
  assert.equal(replayed?.outcome === 'refused' && replayed.replayed, true);
  assert.equal((await one.pool.query('select 1 from payonce.effects')).rowCount, 1);
  await assertBooksClean(one.pool);
  await one.end();
});

test('one bad withdrawal of a batch leaves its neighbours alone, and honest repeats all go (case C9, I6)', async () => {
  const one = await world({}, {}, { fundUnits: 100_000_000n });
  const requests = Array.from({ length: 100 }, () => one.request({ amount: 1_000_000n }));
  requests[6] = one.request({ amount: 99_000_000_000n });
  const outcomes = await createWithdrawals(one, requests);
  assert.equal(outcomes.filter((outcome) => outcome.outcome === 'created').length, 99);
  assert.equal(outcomes[6]?.outcome, 'refused');
  await advanceOnce(one.engine, railOf(one));
  assert.deepEqual(await balanceOf(one), { balance: 1_000_000n, held: 0n });
  await assertBooksClean(one.pool);
  await one.end();
});

test('a word that comes after a release re-opens once; the final no said again ends it again, and the day counts once (req T6)', async () => {
  let word = false;
  const one = await world({
    send: () => Promise.resolve({ kind: 'in_progress' }),
    look: () =>
      Promise.resolve(
        word
          ? [
              { kind: 'accepted', objectId: 'o', source: 'bank' },
              { kind: 'cancel_mined', objectId: 'c' },
            ]
          : [{ kind: 'cancel_mined', objectId: 'c' }],
      ),
  });
  const id = await createOne(one);
  const other = await createOne(one);
  const { rows } = await one.pool.query<{ id: bigint }>('select id from payonce.effects where subject_id = $1', [id]);
  await one.pool.query("update payonce.effects set next_at = payonce.now() + interval '1 hour' where subject_id = $1", [
    other,
  ]);
  const effect = rows[0];
  assert.ok(effect);
  for (let pass = 0; pass < 2; pass += 1) {
    await one.pool.query(
      'update payonce.effects set next_at = payonce.now(), lease_until = null where subject_id = $1 and ended_at is null',
      [id],
    );
    await advanceOnce(one.engine, railOf(one));
  }
  assert.equal(await statusOf(one, id), 'failed');
  const day = async (): Promise<bigint | undefined> =>
    (await one.pool.query<{ amount: bigint }>('select amount from payonce.day_totals')).rows[0]?.amount;
  assert.equal(await day(), 1_000_000n);
  word = true;
  for (let round = 0; round < 3; round += 1) {
    await advanceEffect(one.engine, effect.id);
    await reopenOnce(one.engine);
  }
  assert.equal(await reopenOnce(one.engine), 0, 'it is not re-opened for ever');
  assert.ok((await loadEffects(one.pool, [effect.id]))[0]?.reopens === 1);
  assert.equal(await day(), 1_000_000n);
  await assertBooksClean(one.pool);
  await one.end();
});

test('testimony about an effect that was never sealed is a case, and stands before nobody else (inv E13)', async () => {
  const one = await world();
  const id = await createOne(one);
  assert.equal(await cancelWithdrawal(one.engine, one.partnerId, id, 'partner'), 'cancelled');
  const { rows } = await one.pool.query<{ id: bigint }>('select id from payonce.effects');
  await one.pool.query(
    "insert into payonce.effect_evidence (effect_id, kind, rank, source, operator, detail, send_number, lease_token) values ($1, 'ACCEPTED', 'word', 'x', 'x', 'somebody says so', 0, 0)",
    [rows[0]?.id],
  );
  assert.equal(await reopenOnce(one.engine), 1);
  assert.equal(await reopenOnce(one.engine), 0);
  assert.equal(await statusOf(one, id), 'in_review');
  assert.deepEqual((await one.pool.query<{ kind: string }>('select kind from payonce.cases')).rows, [
    { kind: 'contradiction' },
  ]);
  await assertBooksClean(one.pool);
  await one.end();
});
