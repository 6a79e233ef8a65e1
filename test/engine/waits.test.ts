/*
 * Goal: a slow answer is waited for under one lease, and what a plan says has to wait does so for as long as the rail says.
 * Method: the engine on the rail where nothing moves, with slow answers and plans of the test's making.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadOpenAlerts, raiseAlert } from '../../src/engine/alerts.ts';
import { advanceOnce, sendOnce, watchOnce } from '../../src/engine/advance.ts';
import { leaseMsOf, sendWindowMs } from '../../src/engine/lease.ts';
import { NOOP_CAPABILITIES } from '../../src/engine/noop.ts';
import type { PlanWait } from '../../src/engine/rail.ts';
import { endWaitAlerts } from '../../src/engine/wait.ts';
import { cancelWithdrawal } from '../../src/flows/withdrawals/index.ts';
import { PLAN_FAILURES_MAX } from '../../src/kernel/limits.ts';
import { PROFILES } from '../../src/rails/bank/index.ts';
import { assertBooksClean } from '../support/books.ts';
import type { World } from '../support/world.ts';
import { effectOf, intendOne, makeDue, makeNoopWorld, railOf } from './noop-scene.ts';

const ANSWER_MS = 600;
const LEASE_MS = 200;

/** A send that is answered after more than the configured lease, and another worker that looks for work meanwhile. */
async function slowSend(answerWithinMs?: number): Promise<{ one: World; id: bigint; taken: number }> {
  const one = await makeNoopWorld(
    {
      async send() {
        await sleep(ANSWER_MS);
        return { kind: 'final_success', objectId: 'paid-1' };
      },
      look: () => Promise.resolve([{ kind: 'not_found' }]),
    },
    {
      world: { leaseMs: LEASE_MS },
      capabilities: { resendAfterMs: 60_000, ...(answerWithinMs === undefined ? {} : { answerWithinMs }) },
    },
  );
  const id = await intendOne(one);
  const sent = sendOnce(one.engine, railOf(one));
  await sleep(LEASE_MS + 150);
  const taken = await watchOnce(one.engine, railOf(one));
  await sent;
  return { one, id, taken };
}

test('a lease outlasts the answers of a slow bank: nobody else takes its effects meanwhile, and the answer counts (req T8)', async () => {
  const { one, id, taken } = await slowSend(ANSWER_MS);
  assert.equal(taken, 0, 'another worker took it while its answer was awaited');
  assert.equal((await effectOf(one, id)).state, 'SETTLED');
  assert.equal(one.engine.counters.sends, 1);
  await assertBooksClean(one.pool);
  await one.end();
  const short = await slowSend();
  assert.equal(short.taken, 1, 'the lease of a rail that does not say how slow it is is the configured one');
  await short.one.end();
});

test('each profile’s lease holds two submissions and an inquiry, and a send begins early in it (req T8)', () => {
  for (const { name, timeoutMs } of PROFILES) {
    const rail = { capabilities: { ...NOOP_CAPABILITIES, answerWithinMs: timeoutMs } };
    const lease = leaseMsOf({ leaseMs: 30_000 }, rail);
    assert.ok(lease >= 3 * timeoutMs + sendWindowMs({ leaseMs: 30_000 }, rail), `${name}: ${lease} ms`);
    assert.ok(lease >= 30_000, name);
  }
});

async function waiting(verdict: Omit<PlanWait, 'verdict' | 'detail' | 'alert'>): Promise<{ one: World; id: bigint }> {
  const one = await makeNoopWorld(
    {},
    {
      change: (rail) => ({
        ...rail,
        plan: (effects) =>
          Promise.resolve(
            effects.map(() => ({ verdict: 'wait', detail: 'told by the test', alert: false, ...verdict })),
          ),
      }),
    },
  );
  return { one, id: await intendOne(one) };
}

interface Left {
  readonly failures: number;
  readonly wait_reason: string | null;
  readonly waits_ms: number;
  readonly cases: number;
}

/** So many passes, each as soon as it may be; what then stands in the row. */
async function passes(one: World, times: number): Promise<Left> {
  for (let time = 0; time < times; time += 1) {
    await makeDue(one);
    await advanceOnce(one.engine, railOf(one));
  }
  const { rows } = await one.pool.query<Left & Record<string, unknown>>(
    `select failures, wait_reason, (extract(epoch from next_at - payonce.now()) * 1000)::float8 as waits_ms,
            (select count(*)::int from payonce.cases where kind = 'plan_fails' and closed_at is null) as cases
     from payonce.effects`,
  );
  return rows[0] ?? assert.fail();
}

test('what no time mends becomes a case after so many plans, nothing is sealed, and it may be cancelled (req R4)', async () => {
  for (const reason of ['PAYEE_REFUSED', 'SIMULATION_REVERTED']) {
    const { one, id } = await waiting({ reason, lasts: 'for_good' });
    assert.equal((await passes(one, PLAN_FAILURES_MAX - 1)).cases, 0);
    const left = await passes(one, 1);
    assert.deepEqual(
      [left.failures, left.cases, left.wait_reason],
      [PLAN_FAILURES_MAX, 1, `${reason}: told by the test`],
    );
    assert.equal((await passes(one, 1)).cases, 1, 'one case, however often');
    const effect = await effectOf(one, id);
    assert.deepEqual([effect.state, effect.identity], ['PENDING', null]);
    const { rows } = await one.pool.query<{ id: string }>('select id from payonce.withdrawals');
    assert.equal(await cancelWithdrawal(one.engine, one.partnerId, rows[0]?.id ?? '', 'partner'), 'cancelled');
    await assertBooksClean(one.pool);
    await one.end();
  }
});

test('closed hours wait until they end and count no failure; what somebody must mend backs off and is no case', async () => {
  const closed = await waiting({ reason: 'MAINTENANCE', lasts: 'a_while', waitMs: 3_600_000 });
  const hour = await passes(closed.one, PLAN_FAILURES_MAX + 1);
  assert.deepEqual([hour.failures, hour.cases], [0, 0]);
  assert.ok(hour.waits_ms > 3_590_000 && hour.waits_ms <= 3_600_000, `${hour.waits_ms}`);
  await assertBooksClean(closed.one.pool);
  await closed.one.end();
  const short = await waiting({ reason: 'GAS_SHORT', lasts: 'until_mended' });
  const backed = await passes(short.one, PLAN_FAILURES_MAX + 1);
  assert.deepEqual([backed.failures, backed.cases], [PLAN_FAILURES_MAX + 1, 0]);
  assert.ok(backed.waits_ms > 20_000, `${backed.waits_ms}`);
  await assertBooksClean(short.one.pool);
  await short.one.end();
});

test('what was told of a payment that waits is over when none waits for it, and the next shortage is told anew (req R4, R14)', async () => {
  const told: { verdict: 'wait'; reason: string; detail: string; alert: boolean; lasts: 'until_mended' } = {
    verdict: 'wait',
    reason: 'ENERGY_SHORT',
    detail: 'told by the test',
    alert: true,
    lasts: 'until_mended',
  };
  let now = told;
  const one = await makeNoopWorld(
    {},
    { change: (rail) => ({ ...rail, plan: (effects) => Promise.resolve(effects.map(() => now)) }) },
  );
  const open = async (): Promise<string[]> => {
    await makeDue(one);
    await advanceOnce(one.engine, railOf(one));
    await endWaitAlerts(one.pool, 'noop');
    return (await loadOpenAlerts(one.pool)).map((alert) => alert.kind);
  };
  await intendOne(one);
  assert.deepEqual(await open(), ['energy_short']);
  now = { ...told, reason: 'NODE_DOWN', alert: false };
  assert.deepEqual(await open(), ['energy_short'], 'a node that is down says nothing of energy');
  now = { ...told, reason: 'ALLOWANCE_SHORT' };
  assert.deepEqual(await open(), ['allowance_short']);
  await raiseAlert(one.pool, 'no_relayer', 'noop:wallet-1', 'nobody relays');
  await raiseAlert(one.pool, 'gas_not_supplied', 'noop:wallet-1', 'it lacks gas');
  await raiseAlert(one.pool, 'energy_unavailable', 'energy:test', 'no energy');
  await raiseAlert(one.pool, 'wallet_short', 'noop:wallet-1', 'not told by a plan');
  const { rows } = await one.pool.query<{ id: string }>('select id from payonce.withdrawals');
  assert.equal(await cancelWithdrawal(one.engine, one.partnerId, rows[0]?.id ?? '', 'partner'), 'cancelled');
  assert.deepEqual(await open(), ['wallet_short'], 'what waited was called off');
  await intendOne(one);
  assert.deepEqual((await open()).toSorted(), ['allowance_short', 'wallet_short'], 'and told anew');
  await assertBooksClean(one.pool);
  await one.end();
});
