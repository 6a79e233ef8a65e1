/*
 * Goal: a call that a quote binds is planned by today's quote, each time anew until it is sealed, and never asked for one after that;
 * what was taken in stays as it is. Method: the engine over a rail that writes down what each plan is told.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { advanceOnce } from '../../src/engine/advance.ts';
import { intend } from '../../src/engine/intend.ts';
import { makeNoopRail } from '../../src/engine/noop.ts';
import type { ContractCall, Rail } from '../../src/engine/rail.ts';
import { makeWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { makeWorld } from '../support/world.ts';

const CALL: ContractCall = {
  to: 'contract',
  data: `0x00000000${'0'.repeat(64)}`,
  value: 0n,
  logs: [{ address: 'contract', topics: [null], minimumWord: 0, minimum: 1n }],
  minimum: { word: 0, log: 0, least: 5n },
};

test('a quote is asked at each plan and never after the seal; a call without one is not asked about (req P8)', async () => {
  const told: (bigint | undefined)[][] = [];
  let isMarketShut = true;
  let quote = 10n;
  const asked: bigint[][] = [];
  const inner = makeNoopRail('noop', {
    send: () => Promise.resolve({ kind: 'in_progress' }),
    look: () => Promise.resolve([{ kind: 'in_progress' }]),
  });
  const rail: Rail = {
    ...inner,
    async plan(effects, context) {
      told.push(effects.map((one) => context.minimums?.get(one.effectId)));
      if (!isMarketShut) return inner.plan(effects, context);
      return effects.map(() => ({ verdict: 'wait', reason: 'SHUT', detail: '', alert: false, lasts: 'a_while' }));
    },
  };
  const world = await makeWorld({
    label: 'quotes',
    rails: () => [rail],
    flows: (chart) => [
      {
        ...makeWithdrawals(chart),
        minimums(_query, effects) {
          asked.push(effects.map((one) => one.id));
          return Promise.resolve(new Map(effects.map((one) => [one.id, quote])));
        },
      },
    ],
  });
  const common = { subjectType: 'withdrawal', partnerId: world.partnerId, rail: 'noop', assetId: world.assetId };
  const paid = { amount: 1n, destination: 'somebody', wallet: world.wallet, signer: world.wallet };
  await world.pool.tx('take in', (tx) =>
    intend(
      tx,
      [
        { ...common, ...paid, subjectId: 'wd_bound', naturalKey: 'bound', call: CALL },
        { ...common, ...paid, subjectId: 'wd_free', naturalKey: 'free' },
      ],
      () => Promise.resolve(),
    ),
  );
  const pass = async (): Promise<void> => {
    await world.pool.query(
      "update payonce.effects set next_at = payonce.now() - interval '1 second' where lease_until is null",
    );
    await advanceOnce(world.engine, rail);
  };
  await pass();
  quote = 9n;
  isMarketShut = false;
  await pass();
  quote = 8n;
  await pass();
  assert.deepEqual(told, [
    [10n, undefined],
    [9n, undefined],
  ]);
  assert.deepEqual(
    asked.map((ids) => ids.length),
    [1, 1],
  );
  const { rows } = await world.pool.query<{ state: string; call: { data: string; minimum: object } }>(
    "select state, call from payonce.effects where subject_id = 'wd_bound'",
  );
  assert.deepEqual(
    rows.map((row) => [row.state, row.call.data, row.call.minimum]),
    [['SEALED', CALL.data, { word: 0, log: 0, least: '5' }]],
  );
  await world.end();
});
