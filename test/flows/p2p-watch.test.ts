/*
 * Goal: nothing of P2P waits for ever without somebody being told. Method: a market, watched by a database whose clock is ahead; alerts
 * and cases are read as people read them, and the watch is asked again to see that it tells once and takes back what is over.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makePool, type Pool } from '../../src/db/pool.ts';
import { type Alert, clearAlert, loadOpenAlerts, raiseAlert } from '../../src/engine/alerts.ts';
import { openCase } from '../../src/engine/cases.ts';
import { claimOrders, reclaimOnce } from '../../src/flows/p2p/claim.ts';
import {
  countPayment,
  makePaymentHandler,
  markPaid,
  PAYMENT_SOURCE,
  switchMatching,
  watchOrders,
  watchParts,
} from '../../src/flows/p2p/index.ts';
import { makeInboxWorker } from '../../src/inbox/work.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { assertBooksClean } from '../support/books.ts';
import { BUYER, makeP2pScene, ONE, type P2pScene } from '../support/p2p-scene.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** Does something on the database as it will be after so many minutes. */
async function after<T>({ world }: P2pScene, minutes: number, act: (pool: Pool) => Promise<T>): Promise<T> {
  const url = new URL(world.url);
  url.searchParams.set('options', `-c payonce.clock_shift_ms=${minutes * MINUTE_MS}`);
  const pool = makePool({ url: url.href, ports: systemPorts(), log: world.log, connectionsMax: 2 });
  try {
    return await act(pool);
  } finally {
    await pool.end();
  }
}

/** Watches after so many minutes, and answers what is told then: the states. */
async function watchedAfter(scene: P2pScene, minutes: number): Promise<string[]> {
  await after(scene, minutes, (pool) => watchOrders({ ...scene.world.engine, pool }));
  return (await stays(scene)).map(({ key }) => key.slice(0, key.indexOf(' '))).toSorted();
}

async function stays({ world }: P2pScene): Promise<Alert[]> {
  return (await loadOpenAlerts(world.pool)).filter(({ kind }) => kind === 'p2p_orders_stay');
}

async function unclear({ world }: P2pScene): Promise<string[]> {
  const { rows } = await world.pool.query<{ summary: string }>(
    "select summary from payonce.cases where kind = 'payment_unclear' and closed_at is null order by opened_at",
  );
  return rows.map((row) => row.summary);
}

async function end({ world }: P2pScene): Promise<void> {
  await assertBooksClean(world.pool);
  await world.end();
}

test('orders that stay PENDING or MATCHING too long are told once per market and state, and no more when they move on (req M22, R5)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { pool, engine } = scene.world;
  const bought = [await scene.buy(), await scene.buy()];
  assert.deepEqual(await watchedAfter(scene, 0), [], 'they have only come');
  assert.deepEqual(await watchedAfter(scene, 2), ['unclaimed'], 'due, and nobody takes them');
  await scene.settleDown();
  assert.deepEqual(await watchedAfter(scene, 0), [], 'looked at, and there is nobody yet');

  await pool.query("update payonce.p2p_deposit_orders set next_at = payonce.now() + interval '1 hour'");
  for (let times = 0; times < 2; times += 1) assert.deepEqual(await watchedAfter(scene, 11), ['pending']);
  const [alert] = await stays(scene);
  assert.equal(alert?.times, 1n, 'told once');
  assert.match(alert?.message ?? '', /^2 buyers’ orders of asia .* KRW have found nobody/);
  assert.ok(
    bought.some((id) => alert?.message.includes(id)),
    'it names the oldest',
  );
  assert.equal(await switchMatching(pool, BUYER, true), true);
  assert.deepEqual(await watchedAfter(scene, 11), [], 'they wait because a person said so');
  assert.equal(await switchMatching(pool, BUYER, false), true);

  await pool.query('update payonce.p2p_deposit_orders set next_at = payonce.now()');
  assert.equal((await claimOrders(pool)).length, 2);
  assert.deepEqual(await watchedAfter(scene, 5), [], 'a matcher takes back what another left');
  assert.deepEqual(await watchedAfter(scene, 7), ['matching'], 'and none has');
  assert.equal(await reclaimOnce(pool, engine, -HOUR_MS), 2);
  await scene.sell({ amount: 200n * ONE });
  await pool.query('update payonce.p2p_deposit_orders set next_at = payonce.now()');
  await scene.settleDown();
  assert.deepEqual(await watchedAfter(scene, 11), []);
  for (const id of bought) assert.equal((await scene.deposit(id)).order.status, 'MATCHED');
  await end(scene);
});

test('orders that wait for a provider, and legs that are said to be paid and are not confirmed, are told (req M22)', async () => {
  const scene = await makeP2pScene({
    lp: {
      send: () => Promise.resolve({ kind: 'in_progress' }),
      look: () => Promise.resolve([{ kind: 'in_progress' }]),
    },
  });
  const { pool, engine } = scene.world;
  const waiting = await scene.buy();
  await scene.settleDown();
  assert.equal((await scene.deposit(waiting)).order.waitsLp, true);
  assert.deepEqual(await watchedAfter(scene, 4), []);
  assert.deepEqual(await watchedAfter(scene, 6), ['waits_lp']);

  await scene.sell();
  const matched = await scene.buy();
  await scene.settleDown();
  const [leg] = (await scene.deposit(matched)).legs;
  assert.equal(await markPaid(pool, engine, { partnerId: BUYER, legId: leg?.id ?? '' }), 'marked');
  assert.deepEqual(await watchedAfter(scene, 59), ['waits_lp']);
  assert.deepEqual(await watchedAfter(scene, 61), ['marked', 'waits_lp']);
  assert.deepEqual(await scene.confirm(leg?.id ?? ''), { outcome: 'settled' });
  assert.deepEqual(await watchedAfter(scene, 61), ['waits_lp']);
  await end(scene);
});

test('a part of a payment whose rest has not come after ten minutes is a person’s, once (case I1, case D4)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { pool, engine } = scene.world;
  await scene.sell();
  const bought = await scene.buy();
  await scene.settleDown();
  const [leg] = (await scene.deposit(bought)).legs;
  assert.ok(leg !== undefined);
  const pay = (externalId: string, fiatAmount: bigint) =>
    pool.tx('pay', (tx) =>
      countPayment(tx, engine, { source: 'payments-kb', externalId, reference: leg.id, fiat: 'KRW', fiatAmount }),
    );
  assert.deepEqual(await pay('p-1', 50_000n), { outcome: 'counted', fate: 'part', legId: leg.id });
  const watched = (minutes: number): Promise<number> =>
    after(scene, minutes, (shifted) => watchParts({ ...engine, pool: shifted }));
  assert.equal(await watched(9), 0);
  assert.deepEqual(await unclear(scene), []);
  assert.equal(await watched(11), 1);
  const [summary, more] = await unclear(scene);
  assert.match(
    summary ?? '',
    new RegExp(`^payment p-1 of payments-kb is a part of leg ${leg.id}, and the rest has not come`),
  );
  assert.equal(more, undefined);
  await pool.query("update payonce.cases set closed_at = payonce.now(), closed_how = 'it is on its way'");
  assert.equal(await watched(30), 0, 'who has closed it is not asked again');
  // The rest comes after all: nothing was ended by the wait.
  assert.deepEqual(await pay('p-2', 80_000n), { outcome: 'counted', fate: 'settled', legId: leg.id });
  assert.equal((await scene.deposit(bought)).order.status, 'COMPLETED');
  await end(scene);
});

test('a payment that names no leg is a person’s at once, and one that cannot be read after ten minutes (case D4, case I1)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { pool, engine, log } = scene.world;
  const source = `${PAYMENT_SOURCE}kb`;
  const worked = (minutes: number) =>
    after(scene, minutes, (shifted) =>
      makeInboxWorker({
        pool: shifted,
        log,
        handlers: { [source]: makePaymentHandler(engine) },
        people: { openCase: (tx, one) => openCase(tx, engine.makeId, one), raiseAlert, clearAlert },
      }).runOnce(),
    );
  const arrive = (id: string, data: object) =>
    pool.query("insert into payonce.inbox (source, external_id, headers, body) values ($1, $2, '{}', $3)", [
      source,
      id,
      Buffer.from(JSON.stringify({ type: 'payment.received', data })),
    ]);
  const cases = async (): Promise<string[]> =>
    (
      await pool.query<{ kind: string; subject_key: string }>(
        'select kind, subject_key from payonce.cases order by kind',
      )
    ).rows.map((row) => `${row.kind} ${row.subject_key}`);
  await arrive('e-1', { payment_id: 'p-1', reference: 'rent', fiat: 'KRW', fiat_amount: '5' });
  await arrive('e-2', { payment_id: 'p-2', reference: 'rent', fiat: 'KRW', fiat_amount: 5 });
  await worked(0);
  assert.deepEqual(await cases(), [`payment_unclear payment:${source}:p-1`]);
  await worked(9);
  assert.equal((await cases()).length, 1, 'it may belong to something that is not here yet');
  await worked(11);
  assert.deepEqual(await cases(), [`payment_unclear payment:${source}:p-1`, `unmatched_inbound inbox:${source}:e-2`]);
  await worked(30);
  assert.equal((await cases()).length, 2);
  await end(scene);
});
