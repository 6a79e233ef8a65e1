/* What banks and providers send in about legs: payments count once, hints only make us look, what cannot be read is kept for people. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listPayments } from '../../src/audit/p2p-list.ts';
import { makePaymentHandler, makeTradeHints, PAYMENT_SOURCE, TRADE_SOURCE } from '../../src/flows/p2p/index.ts';
import { assertBooksClean } from '../support/books.ts';
import { BUYER, makeP2pScene, ONE } from '../support/p2p-scene.ts';

const event = (source: string, body: unknown, id = 'evt-1') => ({
  id: 1n,
  source,
  externalId: id,
  headers: {},
  body: Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)),
  receivedAt: new Date(),
  attempts: 1,
  ageMs: 0,
});

test('a bank’s notice settles the leg whose id stands in the payer’s text, once however often it comes (req M13)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  await scene.sell();
  const bought = await scene.buy();
  await scene.settleDown();
  const leg = (await scene.deposit(bought)).legs[0]?.id ?? '';
  const handle = makePaymentHandler(scene.world.engine);
  const data = { payment_id: 'p-1', reference: `Kim ${leg} thanks`, fiat: 'KRW', fiat_amount: '130000' };
  for (let times = 0; times < 3; times += 1)
    assert.equal(
      await scene.world.pool.tx('work', (tx) =>
        handle(event(`${PAYMENT_SOURCE}kb`, { type: 'payment.received', data }), tx),
      ),
      'done',
    );
  assert.equal((await scene.deposit(bought)).order.status, 'COMPLETED');
  assert.equal(await scene.available(BUYER), 100n * ONE);
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
});

test('an amount is read as the leg’s own market writes it, whatever another group calls the smallest unit (req M13)', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const { pool, assetId, engine } = scene.world;
  for (const group of ['africa', 'zone']) {
    await pool.query('insert into payonce.p2p_groups (name) values ($1)', [group]);
    await pool.query(
      `insert into payonce.p2p_markets (group_name, asset_id, fiat, fiat_decimals, order_min, order_max, leg_min, fee_bp, pay_within_ms, order_for_ms)
       values ($1, $2, 'KRW', 2, 1, 1, 1, 0, 1, 1)`,
      [group, assetId],
    );
  }
  // Their rows come first, in the heap and by name.
  await pool.query("update payonce.p2p_markets set fee_bp = 1 where group_name = 'asia'");
  await scene.sell();
  const bought = await scene.buy();
  await scene.settleDown();
  const leg = (await scene.deposit(bought)).legs[0]?.id ?? '';
  const handle = makePaymentHandler(engine);
  const pay = (id: string, amount: string) =>
    pool.tx('work', (tx) => {
      const data = { payment_id: id, reference: leg, fiat: 'KRW', fiat_amount: amount };
      return handle(event(`${PAYMENT_SOURCE}kb`, { type: 'payment.received', data }), tx);
    });
  assert.equal(await pay('p-1', '1300'), 'done', 'a hundredth of it');
  assert.equal((await scene.deposit(bought)).order.status, 'MATCHED');
  assert.equal(await pay('p-2', '1.50'), 'unmatched', 'won have no places');
  assert.equal(await pay('p-3', '128700'), 'done', 'the rest');
  assert.equal((await scene.deposit(bought)).order.status, 'COMPLETED');
  const { rows } = await pool.query<{ summary: string }>(
    "select summary from payonce.cases where kind = 'payment_unclear'",
  );
  assert.deepEqual(rows, []);
  assert.equal(await pay('p-4', '7'), 'done', 'one too many');
  const told = await pool.query<{ summary: string }>(
    "select summary from payonce.cases where kind = 'payment_unclear'",
  );
  assert.match(
    told.rows[0]?.summary ?? '',
    /^payment p-4 of payments-kb \(7 KRW\) is for leg leg_\w+, which is settled already/,
  );
  const listed = await listPayments(pool, { unclear: false, limit: null });
  assert.deepEqual(
    listed.map((one) => one.fiat_amount),
    ['7', '128700', '1300'],
  );
  await assertBooksClean(pool);
  await scene.world.end();
});

test('what cannot be read as a payment is not counted: a number for an amount, an unknown currency, no JSON', async () => {
  const scene = await makeP2pScene({ routes: [] });
  const handle = makePaymentHandler(scene.world.engine);
  const good = { payment_id: 'p-1', reference: 'x', fiat: 'KRW', fiat_amount: '1' };
  const bad: unknown[] = [
    'not JSON',
    { type: 'payment.returned', data: good },
    { type: 'payment.received', data: { ...good, fiat_amount: 130_000 } },
    { type: 'payment.received', data: { ...good, fiat_amount: '1.5' } },
    { type: 'payment.received', data: { ...good, fiat: 'JPY' } },
    { type: 'payment.received', data: { ...good, reference: 'a\u0000b' } },
  ];
  for (const body of bad)
    assert.equal(
      await scene.world.pool.tx('work', (tx) => handle(event(`${PAYMENT_SOURCE}kb`, body), tx)),
      'unmatched',
      JSON.stringify(body),
    );
  assert.equal((await scene.world.pool.query('select 1 from payonce.p2p_payments')).rowCount, 0);
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
});

test('a provider’s webhook makes us look at the trade now, and nothing that it says is believed (req W10)', async () => {
  const scene = await makeP2pScene({
    lp: {
      send: () => Promise.resolve({ kind: 'accepted', objectId: 'trade-1' }),
      look: () => Promise.resolve([{ kind: 'accepted', objectId: 'trade-1' }]),
    },
  });
  const bought = await scene.buy();
  await scene.settleDown();
  const leg = (await scene.deposit(bought)).legs[0]?.id ?? '';
  await scene.world.pool.query("update payonce.effects set next_at = payonce.now() + interval '1 hour'");
  let woken = 0;
  const handle = makeTradeHints(() => (woken += 1));
  const said = { type: 'trade.updated', trade_id: 'trade-1', reference: leg, state: 'released' };
  await scene.world.pool.tx('work', (tx) => handle(event(`${TRADE_SOURCE}lp`, said), tx));
  const due = await scene.world.pool.query('select 1 from payonce.effects where next_at <= payonce.now()');
  assert.deepEqual([woken, due.rowCount], [1, 1]);
  assert.equal((await scene.deposit(bought)).order.status, 'MATCHED');
  await assertBooksClean(scene.world.pool);
  await scene.world.end();
});
