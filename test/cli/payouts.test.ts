/*
 * Goal: people see what creators accrued, what was paid and what waits, and can make a cut by hand. Method: the real bin over a
 * database in which a world of payouts was played.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { assertBooksClean } from '../support/books.ts';
import { eventsOf, makePayoutWorld, type PayoutWorld } from '../support/payout-scene.ts';
import { addOperator, firstAdmin, payonceOn } from './cli-scene.ts';

let world: PayoutWorld;
let run: ReturnType<typeof payonceOn>;
before(async () => {
  world = await makePayoutWorld({ label: 'cli_payouts', endedByHook: true });
  await world.programme('p', { cut_min: '1' });
  await world.creator('ann');
  await world.accrue([...eventsOf('ann', '120'), ...eventsOf('ben', '150')]);
  run = payonceOn(world.url);
});
after(async () => {
  await assertBooksClean(world.pool);
  await world.end();
});

test('programmes, payouts, statement and who waits are shown, as tables, JSON and CSV (req P6, P7)', async () => {
  const programmes = await run(['payouts', 'programmes', '--json']);
  assert.equal(programmes.json<{ programmes: { name: string }[] }>().programmes[0]?.name, 'p', programmes.stderr);
  const list = await run(['payouts', 'list', '--creator', 'ann', '--json']);
  assert.deepEqual(
    list.json<{ payouts: { amount: string; status: string }[] }>().payouts.map((one) => [one.amount, one.status]),
    [['12', 'pending']],
  );
  const statement = await run(['payouts', 'statement', '--csv']);
  assert.match(statement.stdout, /^programme,creator,asset/);
  assert.equal(statement.stdout.trim().split(/\r?\n/).length, 3);
  const waiting = await run(['payouts', 'waiting']);
  assert.match(waiting.stdout, /ben[^\n]*NO_ADDRESS/);
  assert.doesNotMatch(waiting.stdout, /ann/);
});

test('a cut by hand needs an operator, is written down, and pays what waits (req P6)', async () => {
  const { id } = await world.programme('p', { cut_min: '1' });
  assert.notEqual((await run(['payouts', 'cut', id])).code, 0);
  const admin = await firstAdmin(run);
  const operator = await addOperator(run, admin, 'Olga', 'operator');
  await world.creator('ben');
  const cut = await run(['payouts', 'cut', id, '--json'], operator);
  assert.equal(cut.code, 0, cut.stderr);
  assert.equal(cut.json<{ payouts: number }>().payouts, 1);
  const again = await run(['payouts', 'cut', id, '--json'], operator);
  assert.equal(again.json<{ payouts: number }>().payouts, 0);
  // All was paid: something is accrued, and nothing of it waits.
  assert.match((await run(['payouts', 'waiting'])).stdout, /^No payout waits for this choice/);
  assert.match(
    (await run(['payouts', 'statement', '--creator', 'nobody'])).stdout,
    /^Nothing is accrued for this choice/,
  );
  const { rowCount } = await world.pool.query("select 1 from payonce.audit_log where action = 'payouts.cut'");
  assert.equal(rowCount, 2);
  const byName = await run(['payouts', 'cut', 'p'], operator);
  assert.equal(byName.code, 3);
  assert.match(byName.stderr, /no programme with the id p and a daily cut.*a name is not an id/s);
  assert.match(byName.stderr, /next.*payouts programmes/);
});
