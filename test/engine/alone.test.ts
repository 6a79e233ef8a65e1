/*
 * Goal: one payment that cannot be planned, sealed or given back never stops its neighbours, and is told to people; words of
 * the other side that the database cannot keep stop nothing. Method: the engine on the rail where nothing moves, which fails
 * for one receiver; and a contract on a real chain that reverts with a NUL.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { advanceOnce } from '../../src/engine/advance.ts';
import type { EngineDeps } from '../../src/engine/deps.ts';
import type { EffectIntent, PlanVerdict, Rail } from '../../src/engine/rail.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeEvmWorld } from '../support/evm-world.ts';
import type { World } from '../support/world.ts';
import { makeDue, makeNoopWorld, railOf } from './noop-scene.ts';

const BAD = 'nobody-can-plan-this';

async function intendFor(one: World, destination: string): Promise<string> {
  const [made] = await createWithdrawals(one, [one.request({ destination })]);
  assert.equal(made?.outcome, 'created');
  return made.outcome === 'created' ? made.id : '';
}

interface Left extends Record<string, unknown> {
  readonly destination: string;
  readonly state: string;
  readonly why: string | null;
}
/** Five passes, each as soon as it may be. */
async function afterPasses(
  one: World,
  engine: EngineDeps,
): Promise<{ effects: Left[]; cases: string[]; alerts: number }> {
  for (let round = 0; round < 5; round += 1) {
    await makeDue(one);
    await advanceOnce(engine, railOf(one));
  }
  const effects = await one.pool.query<Left>(
    'select destination, state, wait_reason as why from payonce.effects order by id',
  );
  const cases = await one.pool.query<{ kind: string }>('select kind from payonce.cases where closed_at is null');
  const alerts = await one.pool.query('select 1 from payonce.alerts where cleared_at is null');
  return { effects: effects.rows, cases: cases.rows.map(({ kind }) => kind), alerts: alerts.rowCount ?? 0 };
}

const isBad = (effect: EffectIntent): boolean => effect.destination === BAD;

const FAULTS: readonly (readonly [what: string, change: (rail: Rail) => Partial<Rail>])[] = [
  [
    'whose plan throws',
    (rail) => ({
      plan: (effects, context) => {
        if (effects.some(isBad)) throw new TypeError('no plan for it');
        return rail.plan(effects, context);
      },
    }),
  ],
  [
    'whose seal throws',
    (rail) => ({
      seal: (effect, plan, allotment) => {
        if (isBad(effect)) throw new RangeError('no bytes for it');
        return rail.seal(effect, plan, allotment);
      },
    }),
  ],
  [
    'whose need the database cannot keep',
    (rail) => ({
      async plan(effects, context) {
        const verdicts = await rail.plan(effects, context);
        return effects.map((effect, index): PlanVerdict => {
          const units = 10n ** 90n;
          const needs = { kind: 'energy' as const, address: effect.wallet, units };
          const wait = { reason: 'ENERGY_SHORT', detail: 'too much', alert: true, lasts: 'until_mended' as const };
          return isBad(effect) ? { verdict: 'wait', ...wait, needs } : (verdicts[index] ?? assert.fail());
        });
      },
    }),
  ],
];

for (const [what, change] of FAULTS) {
  test(`a payment ${what} goes back alone, is a case, and its neighbours are paid`, async () => {
    const one = await makeNoopWorld(
      { look: () => Promise.resolve([{ kind: 'final_success', objectId: 'paid' }]) },
      { change: (rail) => ({ ...rail, ...change(rail) }) },
    );
    const beforeBatch = () => Promise.resolve({ burnUpTo: new Map() });
    const engine = { ...one.engine, supply: { supply: () => Promise.resolve([]), beforeBatch } };
    for (const destination of ['first', BAD, 'second']) await intendFor(one, destination);
    const { effects, cases } = await afterPasses(one, engine);
    assert.deepEqual(
      effects.map(({ state }) => state),
      ['SETTLED', 'PENDING', 'SETTLED'],
    );
    assert.match(effects[1]?.why ?? '', /^(PLAN|SEAL|WAIT)_FAILED: /);
    assert.deepEqual(cases, ['plan_fails']);
    await assertBooksClean(one.pool);
    await one.end();
  });
}

test('a receiver whose contract reverts with a NUL in its reason stops nobody, and becomes a case like any other revert', async (t) => {
  const one = await makeEvmWorld({ label: 'alone_nul', leaseMs: 1_000 });
  t.after(() => one.end());
  const chain = `eip155:${one.anvil.chainId}`;
  const coin = 10n ** 18n;
  await one.pool.query(
    `insert into payonce.asset_policies (asset_id, rail, wallet, withdrawal_max, withdrawal_day_max, withdrawal_fee_flat)
     values ($1, $2, $3, 1000000000000000000000, 1000000000000000000000, 0)`,
    [one.coinAssetId, one.rail.name, one.wallet],
  );
  await one.fund(10n * coin, one.partnerId, { assetId: one.coinAssetId, chain, wallet: one.wallet });
  const bad = `0x${'bad0'.repeat(10)}`;
  // revert Error("\0"): selector, offset 32, length 1, and a byte of zero.
  await one.anvil.rpc('anvil_setCode', [bad, `0x6308c379a060e01b6000526020600452600160245260646000fd`]);
  const requests = [
    one.request({ assetId: one.coinAssetId, amount: coin, destination: bad }),
    one.request({ destination: one.outsider() }),
  ];
  assert.deepEqual(
    (await createWithdrawals(one, requests)).map(({ outcome }) => outcome),
    ['created', 'created'],
  );
  for (let round = 0; round < 8; round += 1) {
    await makeDue(one);
    await one.pass();
    await one.anvil.mine(4);
  }
  const { rows } = await one.pool.query<{ state: string; why: string | null }>(
    'select state, wait_reason as why from payonce.effects order by id',
  );
  assert.deepEqual(
    rows.map(({ state }) => state),
    ['PENDING', 'SETTLED'],
  );
  assert.match(rows[0]?.why ?? '', /^SIMULATION_REVERTED: .*\uFFFD/);
  const cases = await one.pool.query<{ kind: string }>('select kind from payonce.cases where closed_at is null');
  assert.deepEqual(
    cases.rows.map(({ kind }) => kind),
    ['plan_fails'],
  );
});
