/*
 * Goal: at the command line, what lies at deposit addresses is seen, swept now, and a sweep is called off, by people and by
 * scripts. Method: the real program over a database with addresses of each sort; no rail is asked.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { makeNoopRail } from '../../src/engine/noop.ts';
import { makeCollections } from '../../src/flows/collections/index.ts';
import { makeWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { depositAt, ownAddress, sweepAbove } from '../support/collect-scene.ts';
import { makeWorld } from '../support/world.ts';
import { addOperator, firstAdmin, payonceOn } from './cli-scene.ts';

interface Dust {
  assets: { asset: string; min: string; total: string; left: { address: string; amount: string; why: string }[] }[];
}

test('dust is listed with its reason and total, a cycle is run now, and a sweep is called off once (req R9)', async () => {
  const world = await makeWorld({
    label: 'cli_collect',
    rails: () => [makeNoopRail('noop')],
    flows: (chart) => [makeWithdrawals(chart), makeCollections(chart)],
  });
  const run = payonceOn(world.url);
  const admin = await firstAdmin(run);
  const otto = await addOperator(run, admin, 'Otto', 'operator');
  const viewer = await addOperator(run, admin, 'Vera', 'viewer');
  assert.match((await run(['collect', 'dust'])).stdout, /No asset is collected/);

  await sweepAbove(world, 'noop', { assetId: world.assetId, min: 10_000_000n });
  const holding = [
    { address: 'rich', units: 25_500_000n },
    { address: 'poor', units: 2_000_001n },
  ];
  for (const { address } of holding) await ownAddress(world, 'noop', address, 'DEPOSIT', world.partnerId);
  await depositAt(world, 'noop', world.assetId, holding);
  const left = (await run(['collect', 'dust', '--json'])).json<Dust>().assets[0];
  assert.deepEqual([left?.asset, left?.min, left?.total], ['USDT', '10', '27.500001']);
  assert.deepEqual(left?.left.map((one) => [one.address, one.amount, one.why]).sort(), [
    ['poor', '2.000001', 'below_min'],
    ['rich', '25.5', 'due'],
  ]);
  assert.match(
    (await run(['collect', 'dust'])).stdout,
    /27\.500001 USDT at 2 addresses.*\n.*\nrich .*next cycle\npoor .*dust/s,
  );

  assert.equal((await run(['collect', 'run', '--json'], viewer)).problem().code, 'PO_OPERATOR_FORBIDDEN');
  assert.match(
    (await run(['collect', 'run', '--chain', 'elsewhere', '--json'], otto)).problem().detail,
    /there are: noop/,
  );
  const ran = (await run(['collect', 'run', '--json'], otto)).json<{ cycles: { made: number; left: object }[] }>();
  assert.deepEqual([ran.cycles[0]?.made, ran.cycles[0]?.left], [1, { below_min: 1 }]);

  const listed = (await run(['collect', 'list', '--json'])).json<{
    collections: { id: string; status: string; amount: string; address: string }[];
  }>().collections;
  assert.deepEqual(
    listed.map((one) => [one.status, one.amount, one.address]),
    [['waiting', '25.5', 'rich']],
  );
  assert.match((await run(['collect', 'list', '--status', 'swept'])).stdout, /No sweep/);
  const cancel = await run(['collect', 'cancel', listed[0]?.id ?? ''], otto);
  assert.deepEqual([cancel.code, /nothing of it has left/.test(cancel.stdout)], [0, true]);
  assert.equal((await run(['collect', 'cancel', 'col_none', '--json'], otto)).code, 3);
  assert.match((await run(['collect', 'list'])).stdout, /cancelled/);
  await assertBooksClean(world.pool);
  await world.end();
});
