/*
 * What partners are told of P2P (issue 5, show 3). Real processes: matchers, couriers and who speaks to the provider die by SIGKILL while
 * orders of both sides go through their lives, couriers in the middle of a send, one matcher before its commit and one after. Two endpoints keep what they got.
 * What an order's rows say in the end is the judge of what it should have been told; the endpoint is the judge of what it was.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { cancelDepositOrder, cancelLeg, cancelWithdrawOrder } from '../../src/flows/p2p/index.ts';
import { LEASE_MS } from '../../src/kernel/limits.ts';
import { formatUnits } from '../../src/kernel/money.ts';
import { assertBooksClean } from '../support/books.ts';
import { makeP2pProcesses, type P2pProcesses, untilNone } from '../support/p2p-processes.ts';
import { BUYER, ONE, SELLER } from '../support/p2p-scene.ts';
import type { Worker } from '../support/processes.ts';
import { type Reply, startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.ts';

/** Far more than a busy machine needs; only a fault takes so long. */
const WAIT_MS_MAX = 120_000;
/** Who wants more, and no part of it, is filled by sellers alone. */
const LP_MAX = 45n * ONE;
/** Nobody has so much. */
const TOO_MUCH = 5_000n * ONE;
/** After the orders were given to the workers, a matcher and who speaks to the provider die within this. */
const STRIKE_MS_MAX = 300;
/** The couriers die at these requests, counted over both endpoints: the request has arrived, its answer is never recorded. */
const DEATHS_AT_HIT: ReadonlySet<number> = new Set([8, 32, 56]);
/** Each so manyeth event is refused when it first comes. */
const REFUSED_EVERY = 9;

const CLAIMS_OF_THE_DEAD = `update payonce.p2p_deposit_orders
set claimed_at = claimed_at - interval '6 minutes'
where status = 'MATCHING' and not waits_lp and claimed_at <= payonce.now() - interval '2 s'`;
/** What was refused, and what a courier has had for longer than any living one needs, is not waited for. */
const SENDS_OF_THE_DEAD = `update payonce.deliveries
set next_at = payonce.now(), lease_until = case when lease_until is null then null else payonce.now() end
where state = 'waiting'
  and (lease_until is null and next_at > payonce.now()
    or lease_until > payonce.now() and lease_until < payonce.now() + interval '${LEASE_MS - 2_000} ms')`;

interface Leg {
  readonly id: string;
  readonly kind: string;
  readonly state: string;
  readonly deposit_order_id: string;
  readonly withdraw_order_id: string | null;
}

interface Order {
  readonly id: string;
  readonly status: string;
  readonly close_reason: string | null;
  readonly amount: bigint;
  readonly settled: bigint;
  readonly matched: boolean;
}

interface Event {
  readonly event_id: string;
  readonly partner_id: string;
  readonly subject_id: string;
  readonly sequence: bigint;
  readonly type: string;
  readonly body: string;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Workers of all roles that die again and again; what a matcher or a courier left is old at once: the test does not wait so long. */
function mortals(one: P2pProcesses) {
  const roles = ['matcher', 'matcher', 'courier', 'courier', 'sender,watcher'];
  const cuts = ['db:/commit match/:1:before', 'db:/commit match/:1:after'];
  const living: Worker[] = roles.map((role) => one.workers.start({ roles: role }));
  const dead: Worker[] = [];
  const over = new AbortController();
  let strikes = 0;
  const replace = (place: number, cut?: string): void => {
    const victim = living[place];
    if (victim === undefined || over.signal.aborted) return;
    victim.process.kill('SIGKILL');
    dead.push(victim);
    living[place] = one.workers.start({ roles: roles[place] ?? '', ...(cut === undefined ? {} : { cut }) });
  };
  const ready = async (): Promise<void> => {
    const deadline = Date.now() + WAIT_MS_MAX;
    while (!living.every(({ lines }) => lines.some((line) => line.includes('payonce works')))) {
      assert.ok(Date.now() < deadline, 'a worker does not start');
      await pause(50);
    }
  };
  const ageing = (async () => {
    while (!over.signal.aborted) {
      await pause(500);
      // By its cut.
      living.forEach((worker, place) => {
        if (worker.process.signalCode !== null) replace(place);
      });
      await one.scene.world.pool.query(CLAIMS_OF_THE_DEAD);
      await one.scene.world.pool.query(SENDS_OF_THE_DEAD);
    }
  })();
  return {
    dead,
    lines: (): string => [...dead, ...living].flatMap((worker) => worker.lines.slice(-3)).join('\n'),
    killCouriers: (): void => [2, 3].forEach((place) => replace(place)),
    /** Gives work to workers that all live, and kills a matcher in the midst of it; the sender too where trades are asked for. */
    async strike(asksForTrades: boolean, work: () => Promise<unknown>): Promise<void> {
      await ready();
      const killing = async (): Promise<void> => {
        await pause(Math.random() * STRIKE_MS_MAX);
        replace(strikes % 2, cuts[strikes]);
        if (asksForTrades) replace(4);
        strikes += 1;
      };
      await Promise.all([killing(), work()]);
    },
    async end(): Promise<void> {
      over.abort();
      await ageing;
      for (const worker of living) worker.process.kill('SIGKILL');
      await Promise.all(living.map((worker) => worker.gone));
    },
  };
}

const repeat = <T>(times: number, make: () => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: times }, make));

/** The lives. Each step waits for what the workers do about the one before. */
async function live(one: P2pProcesses, workers: ReturnType<typeof mortals>): Promise<void> {
  const { scene, escrow } = one;
  const { engine, pool } = scene.world;
  const until = (what: string, sql: string): Promise<void> =>
    untilNone(one, sql, WAIT_MS_MAX, () => `${what}\n${workers.lines()}`);
  const matched = (what: string): Promise<void> =>
    until(
      what,
      "select count(*)::int as n from payonce.p2p_deposit_orders where status in ('PENDING', 'MATCHING') and amount < 5000000000",
    );
  const closed = (what: string): Promise<void> =>
    until(
      what,
      'select count(*)::int as n from payonce.p2p_deposit_orders where closed_at is null and amount < 5000000000',
    );
  const open = async (kind: string): Promise<Leg[]> =>
    (
      await pool.query<Leg & Record<string, unknown>>(
        "select id, kind, state, deposit_order_id, withdraw_order_id from payonce.p2p_legs where kind = $1 and state = 'OPEN' order by id",
        [kind],
      )
    ).rows;
  const overdue = (legs: readonly Leg[]) =>
    pool.query('update payonce.p2p_legs set pay_by = payonce.now() where id = any ($1::text[])', [
      legs.map((leg) => leg.id),
    ]);
  const tradeOf = (leg: Leg): string => escrow.book.trades().find((trade) => trade.reference === leg.id)?.id ?? '';

  // By sellers alone: paid, not paid in time, given up by the buyer.
  await repeat(12, () => scene.sell({ amount: 50n * ONE }));
  await workers.strike(false, () => repeat(12, () => scene.buy({ amount: 50n * ONE, takesPart: false })));
  await matched('by sellers');
  const bySellers = await open('SELLER');
  for (const leg of bySellers.slice(0, 8)) assert.deepEqual(await scene.confirm(leg.id), { outcome: 'settled' });
  for (const leg of bySellers.slice(8, 10)) assert.equal(await cancelLeg(engine, BUYER, leg.id), 'cancelled');
  await overdue(bySellers.slice(10));
  await closed('by sellers');
  // What was not paid is the sellers' again: two give up, and the time of the others is over.
  const { rows: left } = await pool.query<{ id: string }>(
    "select id from payonce.p2p_withdraw_orders where status = 'OPEN' order by id",
  );
  assert.equal(left.length, 4);
  for (const { id } of left.slice(0, 2)) assert.equal(await cancelWithdrawOrder(engine, SELLER, id), 'cancelled');
  await pool.query(
    "update payonce.p2p_withdraw_orders set expires_at = created_at + interval '1 ms' where status = 'OPEN'",
  );
  await until('sellers expire', "select count(*)::int as n from payonce.p2p_withdraw_orders where status = 'OPEN'");

  // By the provider: released, and two that it gave up.
  await workers.strike(true, () => repeat(12, () => scene.buy({ amount: 40n * ONE })));
  await matched('by the provider');
  for (const [index, leg] of (await open('LP')).entries())
    if (index < 10) escrow.trades.release(tradeOf(leg));
    else escrow.trades.cancel(tradeOf(leg));
  await closed('by the provider');

  // By both: sellers are paid, and of every second trade nothing comes. Larger sellers, of whom a part is sold and the rest given up.
  await repeat(4, () => scene.sell({ amount: 40n * ONE }));
  await workers.strike(true, () => repeat(4, () => scene.buy({ amount: 80n * ONE })));
  await matched('by both');
  for (const leg of await open('SELLER')) assert.deepEqual(await scene.confirm(leg.id), { outcome: 'settled' });
  for (const [index, leg] of (await open('LP')).entries())
    if (index % 2 === 0) escrow.trades.cancel(tradeOf(leg));
    else escrow.trades.release(tradeOf(leg));
  await closed('by both');
  await repeat(4, () => scene.sell({ amount: 100n * ONE }));
  await workers.strike(false, () => repeat(6, () => scene.buy({ amount: 46n * ONE, takesPart: false })));
  await matched('halves');
  for (const [index, leg] of (await open('SELLER')).entries())
    if (index % 3 === 2) await overdue([leg]);
    else assert.deepEqual(await scene.confirm(leg.id), { outcome: 'settled' });
  await closed('halves');
  const unsold = await pool.query<{ id: string }>('select id from payonce.p2p_withdraw_orders where closed_at is null');
  for (const { id } of unsold.rows) await cancelWithdrawOrder(engine, SELLER, id);
  await until('halves end', 'select count(*)::int as n from payonce.p2p_withdraw_orders where closed_at is null');

  // For whom there is nothing: more than the provider gives, and no part of it is wanted.
  const waiting = await repeat(6, () => scene.buy({ amount: TOO_MUCH, takesPart: false }));
  for (const id of waiting.slice(0, 3)) assert.equal(await cancelDepositOrder(engine, BUYER, id), 'cancelled');
  await pool.query(
    "update payonce.p2p_deposit_orders set expires_at = created_at + interval '1 ms', next_at = payonce.now() where closed_at is null",
  );
  await until('nobody', 'select count(*)::int as n from payonce.p2p_deposit_orders where closed_at is null');
}

/** What each order must have told, by what became of it and its legs. Nobody is told of a leg before its order is matched. */
function impliedTypes(
  deposits: readonly Order[],
  withdraws: readonly Order[],
  legs: readonly Leg[],
): Map<string, string[]> {
  const implied = new Map<string, string[]>();
  const ofLeg = (prefix: string, leg: Leg): string =>
    `${prefix}.${leg.state === 'SETTLED' ? 'leg_settled' : 'leg_ended'}`;
  for (const order of deposits)
    implied.set(order.id, [
      'deposit_order.created',
      ...(order.matched ? ['deposit_order.matched'] : []),
      ...(order.matched
        ? legs.filter((leg) => leg.deposit_order_id === order.id).map((leg) => ofLeg('deposit_order', leg))
        : []),
      `deposit_order.${order.status.toLowerCase()}`,
    ]);
  for (const order of withdraws)
    implied.set(order.id, [
      'withdraw_order.created',
      ...legs
        .filter((leg) => leg.withdraw_order_id === order.id)
        .flatMap((leg) => ['withdraw_order.matched', ofLeg('withdraw_order', leg)]),
      `withdraw_order.${order.status.toLowerCase()}`,
    ]);
  return implied;
}

/** The closing event: what came, what did not, and why. */
function assertClosing(event: Event, order: Order): void {
  const { data } = JSON.parse(event.body) as { data: Record<string, unknown> };
  assert.equal(data['settled_amount'], formatUnits(order.settled, 6), event.body);
  assert.equal(data['remaining_amount'], formatUnits(order.amount - order.settled, 6), event.body);
  assert.ok(order.close_reason !== null && order.close_reason !== '');
  assert.equal(data['close_reason'], order.close_reason, event.body);
  assert.equal(data['status'], order.status.toLowerCase());
}

const DEPOSITS = `select o.id, o.status, o.close_reason, o.amount, o.matched_at is not null as matched,
  coalesce((select sum(g.amount) from payonce.p2p_legs g where g.deposit_order_id = o.id and g.state = 'SETTLED'), 0) as settled
from payonce.p2p_deposit_orders o order by o.id`;
const WITHDRAWS = `select o.id, o.status, o.close_reason, o.amount, true as matched,
  coalesce((select sum(g.amount) from payonce.p2p_legs g where g.withdraw_order_id = o.id and g.state = 'SETTLED'), 0) as settled
from payonce.p2p_withdraw_orders o order by o.id`;

test('matchers, senders and couriers killed at random: each order’s events reach its partner in order, whole, and none that is not committed (req M11, M21, inv N1, N2)', async (t) => {
  const one = await makeP2pProcesses('p2p_events', { lpMax: LP_MAX });
  const { pool } = one.scene.world;
  const endpoints = new Map<string, WebhookReceiver>();
  t.after(async () => {
    await one.end();
    for (const endpoint of endpoints.values()) await endpoint.close();
  });
  for (const partner of [BUYER, SELLER]) {
    const endpoint = await startWebhookReceiver();
    endpoints.set(partner, endpoint);
    await pool.query('insert into payonce.endpoints (id, partner_id, url) values ($1, $2, $3)', [
      `ep_${partner}`,
      partner,
      endpoint.url,
    ]);
  }
  const workers = mortals(one);
  let hits = 0;
  let deaths = 0;
  let isOver = false;
  const seen = new Set<string>();
  const notCommitted: Promise<string[]>[] = [];
  for (const endpoint of endpoints.values())
    endpoint.answer = ({ headers }): Reply | null => {
      const id = String(headers['webhook-id']);
      hits += 1;
      // Asked as it arrives, on a connection of our own: what is not committed yet is not there.
      notCommitted.push(
        pool
          .query('select 1 from payonce.events where event_id = $1', [id])
          .then(({ rowCount }) => (rowCount === 1 ? [] : [id])),
      );
      if (DEATHS_AT_HIT.has(hits) && !isOver) {
        deaths += 1;
        workers.killCouriers();
        return null;
      }
      const isFirst = !seen.has(id);
      seen.add(id);
      return isFirst && seen.size % REFUSED_EVERY === 0 ? { status: 503 } : { status: 200, afterMs: 10 };
    };
  try {
    await live(one, workers);
    const deadline = Date.now() + WAIT_MS_MAX;
    while (deaths < DEATHS_AT_HIT.size) {
      assert.ok(Date.now() < deadline, `couriers died ${deaths} times in a send`);
      await pause(100);
    }
  } finally {
    await workers.end();
  }
  // Nothing that was alive then is alive now; one courier brings what is left, and what was refused is not waited for.
  isOver = true;
  const fresh = one.workers.start({ roles: 'courier' });
  const deadline = Date.now() + WAIT_MS_MAX;
  while ((await pool.query("select 1 from payonce.deliveries where state = 'waiting'")).rowCount > 0) {
    assert.ok(Date.now() < deadline, fresh.lines.slice(-5).join('\n'));
    await pool.query(SENDS_OF_THE_DEAD);
    await pause(500);
  }

  const deposits = (await pool.query<Order & Record<string, unknown>>(DEPOSITS)).rows;
  const withdraws = (await pool.query<Order & Record<string, unknown>>(WITHDRAWS)).rows;
  const legs = (
    await pool.query<Leg & Record<string, unknown>>(
      'select id, kind, state, deposit_order_id, withdraw_order_id from payonce.p2p_legs order by id',
    )
  ).rows;
  const events = (
    await pool.query<Event & Record<string, unknown>>(
      "select event_id, partner_id, subject_id, sequence, type, body from payonce.events where subject_type in ('deposit_order', 'withdraw_order') order by subject_id, sequence",
    )
  ).rows;
  const tally = Object.groupBy([...deposits, ...withdraws], (order) => order.status);
  t.diagnostic(
    `${deposits.length} + ${withdraws.length} orders ${JSON.stringify(Object.fromEntries(Object.entries(tally).map(([status, list]) => [status, list?.length])))}, ${events.length} events, ${hits} requests, killed ${workers.dead.length} workers, couriers ${deaths} times in a send`,
  );
  assert.ok(workers.dead.length >= 12, `${workers.dead.length} deaths`);
  for (const status of ['COMPLETED', 'PARTIALLY_SETTLED', 'EXPIRED', 'CANCELLED'])
    for (const side of [deposits, withdraws])
      assert.ok(
        side.some((order) => order.status === status),
        status,
      );
  assert.deepEqual((await Promise.all(notCommitted)).flat(), [], 'delivered before its commit');

  const committed = new Map(events.map((event) => [event.event_id, event]));
  const arrived = new Map<string, string[]>();
  let repeated = 0;
  for (const [partner, endpoint] of endpoints) {
    const first = new Set<string>();
    for (const { headers, body } of endpoint.hits) {
      const id = String(headers['webhook-id']);
      const event = committed.get(id);
      assert.ok(event !== undefined, `${id} was delivered and is not committed`);
      assert.equal(event.partner_id, partner);
      assert.equal(body, event.body, 'the same bytes each time');
      if (first.has(id)) repeated += 1;
      else arrived.set(event.subject_id, [...(arrived.get(event.subject_id) ?? []), id]);
      first.add(id);
    }
  }
  assert.ok(repeated >= 5, `deaths and refusals make repetitions, there were ${repeated}`);

  const implied = impliedTypes(deposits, withdraws, legs);
  for (const order of [...deposits, ...withdraws]) {
    const own = events.filter((event) => event.subject_id === order.id);
    assert.deepEqual(
      own.map((event) => event.sequence),
      own.map((_, index) => BigInt(index + 1)),
      `${order.id}: a gap`,
    );
    assert.deepEqual(
      arrived.get(order.id),
      own.map((event) => event.event_id),
      `${order.id}: not all, or not in order`,
    );
    assert.deepEqual(own.map((event) => event.type).toSorted(), implied.get(order.id)?.toSorted(), order.id);
    const closing = own.at(-1);
    assert.ok(closing !== undefined);
    assert.equal(closing.type.slice(closing.type.indexOf('.') + 1), order.status.toLowerCase());
    assertClosing(closing, order);
  }
  assert.equal(
    [...arrived.values()].flat().length,
    events.length,
    'every event arrived, and nothing of anybody else’s order',
  );
  await assertBooksClean(pool);
});
