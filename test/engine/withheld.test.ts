/*
 * Goal: payments that a changed configuration holds back are told, counted and let go again; nothing of them is sent. Method: a
 * real database and a simulated bank; the same engine works over a rail of the changed configuration.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startBank } from '../../sim/bank/bank.ts';
import { loadUndecided } from '../../src/audit/undecided.ts';
import { advanceOnce, sendOnce } from '../../src/engine/advance.ts';
import { loadOpenAlerts } from '../../src/engine/alerts.ts';
import { countWithheld, watchWithheld } from '../../src/engine/withheld.ts';
import { type BankRailConfig, makeBankRail, PROFILES } from '../../src/rails/bank/index.ts';
import { makeBankWorld } from '../support/bank-world.ts';
import { assertBooksClean } from '../support/books.ts';

test('what was sealed for another address is told once per rail, counted as in doubt, and let go when the address is back', async (t) => {
  const bank = await startBank({ profile: 'generic', faults: [{ on: 'create', fault: { kind: 'lose_answer' } }] });
  const world = await makeBankWorld({
    label: 'withheld',
    profile: 'generic',
    url: bank.url,
    secret: () => bank.credentials.current(),
  });
  const profile = PROFILES.find((one) => one.name === 'generic') ?? assert.fail();
  const changed = (change: Partial<BankRailConfig>): ReturnType<typeof makeBankRail> =>
    makeBankRail(
      {
        name: world.rail.name,
        profile,
        baseUrl: bank.url,
        account: 'acc_1',
        credential: { id: 'cred_1', secret: () => bank.credentials.current() },
        deployment: 'test',
        ...change,
      },
      { ports: world.ports },
    );
  const moved = changed({ baseUrl: `${bank.url}/v2` });
  t.after(async () => {
    await moved.close();
    await world.end();
    await bank.stop();
  });
  for (const key of ['one', 'two']) await world.take(key);
  await sendOnce(world.engine, world.rail);
  const asked = bank.calls.create;
  const pass = async (rail: typeof world.rail): Promise<void> => {
    await world.pool.query('update payonce.effects set next_at = payonce.now() where ended_at is null');
    await advanceOnce(world.engine, rail);
    await watchWithheld(world.engine, rail);
  };
  assert.deepEqual(await countWithheld(world.pool, [world.rail]), []);
  const [found] = await countWithheld(world.pool, [moved]);
  assert.deepEqual([found?.rail, found?.count], ['bank:main', 2], 'the doctor knows before anything was looked at');
  await pass(moved);
  await pass(moved);
  assert.equal(bank.calls.create, asked, 'nothing was sent');
  const alerts = (await loadOpenAlerts(world.pool)).filter((one) => one.kind === 'sends_withheld');
  assert.deepEqual(
    alerts.map((one) => one.key),
    ['bank:main'],
  );
  assert.match(alerts[0]?.message ?? '', /sealed for base URL .*neither sent nor looked at/);
  assert.equal((await loadUndecided(world.pool))[0]?.in_doubt.count, 2);
  bank.heal();
  await pass(world.rail);
  await pass(world.rail);
  assert.deepEqual(
    (await loadOpenAlerts(world.pool)).filter((one) => one.kind === 'sends_withheld'),
    [],
  );
  assert.equal((await loadUndecided(world.pool))[0]?.in_doubt.count ?? 0, 0);
  assert.equal((await bank.books.movements()).length, 2);
  await assertBooksClean(world.pool);
});
