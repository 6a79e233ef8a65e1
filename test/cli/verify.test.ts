/*
 * Goal: `payonce verify` finds whole books whole and names what was altered behind its back. Method: a world with one settled
 * withdrawal; then its owner edits one entry with the triggers off, as only a superuser can.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { advanceOnce } from '../../src/engine/advance.ts';
import { makeNoopRail } from '../../src/engine/noop.ts';
import { createWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeWorld } from '../support/world.ts';
import { payonceOn } from './cli-scene.ts';

test('whole books are called whole, and an entry altered behind its back is found and named', async () => {
  const rail = makeNoopRail('noop');
  const world = await makeWorld({ label: 'cli verify', rails: () => [rail] });
  await createWithdrawals(world, [world.request()]);
  await advanceOnce(world.engine, rail);
  await assertBooksClean(world.pool);
  const run = payonceOn(world.url);
  const whole = await run(['verify']);
  assert.equal(whole.code, 0, whole.stdout);
  assert.match(
    whole.stdout,
    /^4 entries of \d accounts in 2 postings, and \d+ invariants: [\d.]+ s, \d+ MB at most\.\nThe books are whole\.\n$/,
  );
  assert.equal(whole.stderr, '', 'a progress bar belongs on a terminal only');

  await world.pool.query('alter table payonce.ledger_entries disable trigger user');
  await world.pool.query(
    "update payonce.ledger_entries e set amount = amount + 7 from payonce.accounts a where a.id = e.account_id and a.code = 'partner:par_test' and e.seq = 2",
  );
  const broken = await run(['verify']);
  assert.equal(broken.code, 1);
  assert.match(
    broken.stdout,
    /ledger broken_link at account \d+, seq 2, posting \d+: expected balance_after \d+, got balance_after \d+/,
  );
  assert.match(broken.stdout, /^L1 posting \d+: sums to 7 in \S+$/m);
  assert.match(broken.stdout, /^L2 account \d+ seq 2: /m);
  assert.match(broken.stdout, /^next {2}Stop new seals/m);
  const json = (await run(['verify', '--json'])).json<{
    ok: boolean;
    breaches: { invariant: string }[];
    entries: string;
  }>();
  assert.equal(json.ok, false);
  assert.equal(json.entries, '4');
  assert.ok(json.breaches.some((breach) => breach.invariant === 'L3'));
  await world.end();
});

test('alerts show what is open, and nothing where nothing is', async () => {
  const world = await makeWorld({ label: 'cli alerts', rails: () => [makeNoopRail('noop')] });
  const run = payonceOn(world.url);
  assert.match((await run(['alerts'])).stdout, /No open alert/);
  await world.pool.query(
    "insert into payonce.alerts (kind, key, message, times) values ('rail_degraded', 'noop', 'no node answers', 3)",
  );
  const { alerts } = (await run(['alerts', '--json'])).json<{
    alerts: { kind: string; times: string; first_at: string }[];
  }>();
  assert.deepEqual(
    alerts.map((one) => [one.kind, one.times]),
    [['rail_degraded', '3']],
  );
  assert.match(alerts[0]?.first_at ?? '', /^\d{4}-/);
  await world.end();
});
