/*
 * A worker dies by SIGKILL at each turn of a realization over TRON: when the night is made (KM), when it is claimed and not
 * sealed (K0), sealed and not sent (K1), sent and the answer not stored (K2), settled (K3); then at every port call, one
 * after another, from the claim to the stored answer and from the proof to its end; and while energy is bought for it first
 * (issue 4, show 8).
 * Method: real processes over the simulated chain with a block each 0.4 s, a partner and a night for each kill; then one
 * worker drains, and the chain's own books count.
 */
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { watchLongStays } from '../../src/engine/long-stays.ts';
import { judgeNight } from '../../src/flows/realizations/index.ts';
import { type EnergyMarket, startEnergyMarket } from '../../sim/tron/energy-market.ts';
import { assertBooksClean } from '../support/books.ts';
import { processesOn, type Worker, type WorkerStarter } from '../support/processes.ts';
import { FEE, type RealizeTron, startRealizeTron } from '../support/realize-tron.ts';
import { SETTLEMENT } from '../support/tron-app.ts';

const ALL_ROLES = 'scheduler,sender,watcher';
const SECRET = 'PAYONCE_TRON_ENERGY';
/** Forty blocks until a transaction expires: sixteen seconds. */
const BLOCK_MS = 400;
const SLOT_MS = 3_000;
const MINUTE_MS = 60_000;
const SOLID_LAG_BLOCKS = 6;
/** What is rented is used within seconds. */
const LENT_BLOCKS = 150;
/** A sealed one that nobody sends expires, and is proved absent as long after. */
const DRAIN_MS_MAX = 120_000;
/** What is killed between two drains: no effect comes to its third try by kills alone. */
const KILLS_PER_DRAIN = 12;

/** The port call at which the process ends, by name: see `kernel/ports.ts`. */
const POINTS = {
  KM: 'db:/commit realize/:1:after',
  K0: 'db:/commit claim pending/:1:after',
  K1: 'db:/commit store variants/:1:after',
  K2: 'http:/broadcasthex/:1:after',
  K2h: 'http:/broadcasthex/:1:half_written',
  K2r: 'http:/broadcasthex/:1:half_read',
  K3: "db:/state = 'SETTLED'>commit record/:1:after",
} as const;
/** From the claim of what is pending: the plan's questions, the seal, the signature, the broadcast, its record. */
const SENDING = { role: 'sender', from: 'commit claim pending', calls: 36, step: 1 } as const;
/** From the last question of a look that finds it solid: the testimony, the verdict, the postings, the scan
 *  beside it, whose calls lie between: every second one. */
const SETTLING = { role: 'watcher', from: 'gettransactionbyid', calls: 40, step: 2 } as const;
/** Where energy is bought first: the rental written down, sealed, sent, taken; then the realization's own seal. */
const RENTALS = {
  'written down': 'db:/payonce.supplies>commit give back/:1:after',
  'sealed, not sent': 'db:/commit seal/:1:after',
  'half of the order out': 'http:/energy:main send/:1:half_written',
  'half of the answer in': 'http:/energy:main send/:1:half_read',
  'sent, the answer not stored': 'http:/energy:main send/:1:after',
  'the realization sealed, not sent': 'db:/commit store variants/:1:after',
} as const;

interface Scene {
  readonly its: RealizeTron;
  readonly market: EnergyMarket | null;
  readonly workers: WorkerStarter;
  /** Partners with a fee of their own, each due in a night of its own. */
  count(): number;
  /** The next day, with a fee of a new partner before it. */
  dawn(): Promise<void>;
  died(what: string, cut: string, roles: string): Promise<void>;
  drain(): Promise<void>;
}

async function startScene(t: TestContext, label: string, rents = false): Promise<Scene> {
  let market: EnergyMarket | null = null;
  const held = (): EnergyMarket | null => market;
  const terms = { name: 'main', account: 'prepaid-1', priceMaxSun: '60' };
  const its = await startRealizeTron({
    label,
    sim: { pace: BLOCK_MS, solidLagBlocks: SOLID_LAG_BLOCKS },
    network: { lookEveryMs: 200, resendAfterMs: 1_000 },
    async prepare(tron) {
      if (!rents) return {};
      const fault = { kind: 'take_back', afterMs: LENT_BLOCKS * SLOT_MS } as const;
      const started = await startEnergyMarket({ tron, faults: [{ on: 'create', fault }] });
      market = started;
      return { energy: { market: { ...terms, baseUrl: started.url, secret: () => started.apiKey } } };
    },
  });
  const { one } = its;
  const rented = held();
  const energy = { market: { ...terms, baseUrl: rented?.url, secretFrom: SECRET } };
  const tron = one.config.tron.map((network) => ({ ...network, ...(rented === null ? {} : { energy }) }));
  const workers = await processesOn(
    one.url,
    { chains: [], tron, wallets: one.config.wallets, realizations: { timeZone: 'UTC' } },
    rented === null ? {} : { [SECRET]: rented.apiKey },
  );
  t.after(async () => {
    await workers.stopAll();
    await one.end();
    await rented?.stop();
  });
  const busy = (): void => {
    one.tron.act(one.stranger, { kind: 'send', to: one.gas, sun: 1n });
    one.tron.after(SLOT_MS, busy);
  };
  busy();
  let partners = 0;
  const openEffects = async (): Promise<string> => {
    const rows = await one.rows<{ text: string }>(
      `select concat_ws(' ', id, subject_type, seq, state, send_count, wait_reason,
         (select string_agg(v.kind, ',' order by v.id) from payonce.effect_evidence v where v.effect_id = e.id)) as text
       from payonce.effects e where ended_at is null order by id`,
    );
    return rows.map(({ text }) => text).join('\n');
  };
  return {
    its,
    market: rented,
    workers,
    count: () => partners,
    async dawn() {
      partners += 1;
      // What a rental left unused goes back before the next one is needed.
      if (rented !== null) one.tron.mine(LENT_BLOCKS);
      const partner = `par_${String(partners).padStart(3, '0')}`;
      await its.partner(partner);
      await its.owe(partner, FEE);
      await its.nextDay();
    },
    async died(what, cut, roles) {
      const worker = workers.start({ cut, roles });
      await until(worker, `${what} is not reached`, () => Promise.resolve(worker.process.signalCode !== null));
      const gone = await worker.gone;
      assert.equal(gone.signal, 'SIGKILL', `${what}: ${worker.lines.slice(-5).join('\n')}`);
    },
    async drain() {
      // Everybody is dead: leases run out, and what was sealed may be sent again.
      await its.later(MINUTE_MS);
      const worker = workers.start({ roles: ALL_ROLES });
      await until(
        worker,
        'not all was settled',
        async () => {
          // A day older, it would be looked at once a minute.
          await one.app.pool.query(
            "update payonce.effects set next_at = payonce.now() where ended_at is null and lease_until is null and next_at > payonce.now() + interval '1 second'",
          );
          const [row] = await one.rows<{ open: bigint; settled: bigint }>(
            `select count(*) filter (where ended_at is null) as open,
                  count(*) filter (where state = 'SETTLED' and subject_type = 'realization') as settled
           from payonce.effects`,
          );
          return row?.open === 0n && row.settled === BigInt(partners);
        },
        openEffects,
      );
      worker.process.kill('SIGTERM');
      await worker.gone;
    },
  };
}

async function until(
  worker: Worker,
  what: string,
  done: () => Promise<boolean>,
  left: () => Promise<string> = () => Promise.resolve(''),
): Promise<void> {
  const deadline = Date.now() + DRAIN_MS_MAX;
  while (!(await done())) {
    if (Date.now() > deadline)
      assert.fail(`${what} ${await left()}; last lines:\n${worker.lines.slice(-5).join('\n')}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** As many transfers as partners, each of its fee, final; nobody is asked; each night's verdict agrees. */
async function judge(scene: Scene): Promise<string> {
  const { its, workers } = scene;
  const count = (): number => scene.count();
  const { one } = its;
  const moved = await its.realized();
  assert.equal(moved.length, count());
  assert.ok(moved.every(({ amount, final }) => amount === FEE && final));
  assert.equal(await one.tron.books.balance(SETTLEMENT, one.token), FEE * BigInt(count()));
  assert.equal(
    -(await one.balance(`custody:${one.chain.chain}:${SETTLEMENT}`, one.tokenAssetId)),
    FEE * BigInt(count()),
  );
  // Days passed while they were open: that is told, and is over with them.
  for (const rail of one.app.engine.rails.values()) await watchLongStays(one.app.engine, rail);
  assert.deepEqual(await one.rows('select kind from payonce.cases where closed_at is null'), [], 'none is stuck');
  const worker = workers.start({ roles: 'watcher' });
  await until(worker, 'a night’s transfer was not seen', async () => {
    const dates = await one.rows<{ date: string }>(
      'select distinct business_date::text as date from payonce.realizations',
    );
    const verdicts = await Promise.all(dates.map(({ date }) => judgeNight(one.app.pool, date)));
    assert.deepEqual(
      verdicts.filter(({ verdict }) => verdict === 'fail'),
      [],
    );
    return verdicts.every(({ verdict }) => verdict !== 'pending');
  });
  worker.process.kill('SIGTERM');
  await worker.gone;
  const tries = await its.tries();
  await assertBooksClean(one.app.pool, { books: one.tron.books });
  return `${count()} realizations, ${tries.length} tries, ${moved.length} transfers on chain`;
}

test('killed when the night is made, and at K0, K1, K2 and K3 over TRON: as many transfers as realizations (case A2, G2, req R1, R8, inv E1, E2, E4)', async (t) => {
  const scene = await startScene(t, 'rlz_crash_tron');
  for (const [name, cut] of Object.entries(POINTS)) {
    // What the points before left behind would be the first to settle: K3 is about its own.
    if (name === 'K3') await scene.drain();
    await scene.dawn();
    await scene.died(name, cut, ALL_ROLES);
  }
  await scene.drain();
  t.diagnostic(`killed ${scene.count()} times: ${await judge(scene)}`);
});

test('killed at every port call from the claim to the stored answer, and from the proof to its end, over TRON: 0 double, 0 lost, 0 stuck (case A2, G2, req R12, inv E1, E2, E4)', async (t) => {
  const scene = await startScene(t, 'rlz_calls_tron');
  const { its } = scene;
  for (const { role, from, calls, step } of [SENDING, SETTLING]) {
    for (let call = 1; call <= calls; call += step) {
      await scene.dawn();
      // The night is made by this process, so that the worker's calls are those of the one role.
      await its.makeNights();
      if (role === 'watcher') {
        await its.sendAll();
        its.one.tron.mine(SOLID_LAG_BLOCKS + 1);
      }
      await scene.died(`${role} call ${call}`, `/${from}>/:${call}:after`, role);
      if (call % KILLS_PER_DRAIN === 0) await scene.drain();
    }
    await scene.drain();
  }
  t.diagnostic(`killed ${scene.count()} times: ${await judge(scene)}`);
});

test('killed between renting energy and the end of a realization: its fees move once, and its energy is paid once (case A2, req R8, R16, inv E1)', async (t) => {
  const scene = await startScene(t, 'rlz_rent_tron', true);
  const { its, market } = scene;
  assert.ok(market);
  for (const [name, cut] of Object.entries(RENTALS)) {
    await scene.dawn();
    await scene.died(name, cut, ALL_ROLES);
    // A market forgets a key within days, and each night is another day: an order of a dead worker is asked for at once.
    await scene.drain();
  }
  const orders = market.books.orders();
  const rentals = await its.one.rows(
    "select 1 from payonce.effects where subject_type = 'energy' and state = 'SETTLED'",
  );
  assert.equal(new Set(orders.map((order) => order.clientOrderId)).size, orders.length, 'no order was paid twice');
  assert.equal(orders.length, rentals.length);
  assert.equal(orders.length, scene.count(), 'one for each, out of the one wallet');
  assert.equal(
    await its.one.balance(`custody:${its.one.chain.chain}:prepaid-1`, its.one.chain.coinAssetId),
    market.books.paidSun(),
  );
  t.diagnostic(`killed ${scene.count()} times: ${await judge(scene)}; ${orders.length} orders`);
});
