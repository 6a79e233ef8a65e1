/* Critical pairs of what comes in and of what is made by the clock: deposits, sweeps, the night, inbox and outbox. */
import assert from 'node:assert/strict';
import { advanceEffect } from '../../../src/engine/advance.ts';
import { takeOwnMoves, type MoveOutcome } from '../../../src/engine/own-move.ts';
import { bookFinal, bookHead } from '../../../src/flows/deposits/book.ts';
import type { Sightings } from '../../../src/flows/deposits/sightings.ts';
import { COLLECTION, collectOnce } from '../../../src/flows/collections/cycle.ts';
import { makeCollections } from '../../../src/flows/collections/index.ts';
import { runNightly } from '../../../src/flows/realizations/index.ts';
import { makeReceiver } from '../../../src/inbox/receive.ts';
import { claimEvents, markEvent } from '../../../src/inbox/store.ts';
import { silentLog } from '../../../src/kernel/log.ts';
import { claimDeliveries, recordAttempts } from '../../../src/outbox/store.ts';
import { assertBooksClean } from '../../support/books.ts';
import { depositAt, ownAddress, sweepAbove } from '../../support/collect-scene.ts';
import { makeRealizeWorld } from '../../support/realize-world.ts';
import { balanceOf } from '../../support/world.ts';
import { makeNoopWorld } from '../../engine/noop-scene.ts';
import { letter, secret } from '../../inbox/inbox-world.ts';
import { makeCourierWorld } from '../../outbox/courier-world.ts';
import { openStage, type Side, type Stage } from './explore.ts';
import { countOf, engineOf, race, type Race, type Races } from './race.ts';

type Ends = (() => Promise<void>)[];

/** Each pair has a world of its own: what they claim is claimed from one queue. */
export async function flowRaces(): Promise<Races> {
  const ends: Ends = [];
  const checks: Ends = [];
  const races = [
    ...(await deposits(ends, checks)),
    ...(await sweeps(ends, checks)),
    ...(await nights(ends, checks)),
    ...(await arrivals(ends)),
    await deliveries(ends),
  ];
  return {
    races,
    async check() {
      for (const check of checks) await check();
    },
    async end() {
      for (const end of ends) await end();
    },
  };
}

async function stageOf(ends: Ends, url: string): Promise<Stage> {
  const stage = await openStage(url);
  ends.push(() => stage.end());
  return stage;
}

const UNITS = 250n;

async function deposits(ends: Ends, checks: Ends): Promise<Race[]> {
  const world = await makeNoopWorld({}, { world: { label: 'races deposits', fundUnits: 0n } });
  const stage = await stageOf(ends, world.url);
  ends.push(() => world.end());
  checks.push(() => assertBooksClean(world.pool));
  const id = world.makeId('adr');
  await world.pool.query(
    "insert into payonce.addresses (id, chain, address, kind, partner_id) values ($1, 'noop', 'deposit-1', 'DEPOSIT', $2)",
    [id, world.partnerId],
  );
  const deps = {
    chain: 'noop',
    rail: 'noop',
    chart: world.chart,
    makeId: world.makeId,
    log: silentLog,
    onUnknownMovement: () => Promise.resolve(),
  };
  let nth = 0;
  const prepare = async (): Promise<{ found: Sightings; txHash: string; before: bigint }> => {
    nth += 1;
    const txHash = `0xrace${nth}`;
    const found: Sightings = {
      sightings: [
        {
          class: 'DEPOSIT',
          reason: 'from_outside',
          sender: null,
          effectId: null,
          receiver: { id, kind: 'DEPOSIT', partnerId: world.partnerId },
          movement: {
            txHash,
            position: 0,
            blockNumber: BigInt(nth),
            blockHash: `0xblock${nth}`,
            assetId: world.assetId,
            from: 'outsider',
            to: 'deposit-1',
            sender: 'outsider',
            nonce: 1n,
            amount: UNITS,
          },
        },
      ],
      skipped: { lookAlikes: 0, malformed: 0, zeroAmounts: 0 },
      complaints: new Map(),
      doubts: [],
    };
    return { found, txHash, before: (await balanceOf(world)).balance };
  };
  type Subject = Awaited<ReturnType<typeof prepare>>;
  const final = (side: Side, { found }: Subject): Promise<unknown> =>
    side.pool.tx('book blocks', (tx) => bookFinal(tx, deps, found));
  const judge = async ({ txHash, before }: Subject): Promise<string> => {
    const credits = await countOf(
      world.pool,
      "payonce.deposits d join payonce.chain_transfers t on t.id = d.transfer_id where t.tx_hash = $1 and d.state = 'credited'",
      [txHash],
    );
    assert.equal(credits, 1);
    assert.equal((await balanceOf(world)).balance - before, UNITS, 'credited once');
    return 'credited once';
  };
  return [
    race(stage, { name: 'deposit final || the same deposit final', prepare, left: final, right: final, judge }),
    race(stage, {
      name: 'deposit seen at the head || the same deposit final',
      prepare,
      left: (side, { found }) => side.pool.tx('book head', (tx) => bookHead(tx, deps, found)),
      right: final,
      judge,
    }),
  ];
}

async function sweeps(ends: Ends, checks: Ends): Promise<Race[]> {
  const world = await makeNoopWorld(
    {},
    { world: { label: 'races sweeps', fundUnits: 0n, flows: (chart) => [makeCollections(chart)] } },
  );
  const stage = await stageOf(ends, world.url);
  ends.push(() => world.end());
  checks.push(() => assertBooksClean(world.pool));
  await sweepAbove(world, 'noop', { assetId: world.assetId, min: 100n });
  let nth = 0;
  const move = (address: string, key: string) => ({
    partnerId: world.partnerId,
    naturalKey: `${address} ${key}`,
    lane: `sweep:${address}:${world.assetId}`,
    rail: 'noop',
    assetId: world.assetId,
    amount: UNITS,
    wallet: address,
    signer: address,
    destination: 'wallet-1',
  });
  const take = (side: Side, address: string, key: string): Promise<MoveOutcome[]> =>
    side.pool.tx('moves', (tx) => takeOwnMoves(tx, world, COLLECTION, [move(address, key)], () => Promise.resolve()));
  return [
    race(stage, {
      name: 'collection cycle || collection cycle',
      async prepare() {
        nth += 1;
        const address = `deposit-${nth}`;
        await ownAddress(world, 'noop', address, 'DEPOSIT', world.partnerId);
        await depositAt(world, 'noop', world.assetId, [{ address, units: UNITS, key: `race-${nth}` }]);
        return address;
      },
      left: async (side) => (await collectOnce(engineOf(world.engine, side), 'noop', { now: true })).made,
      right: async (side) => (await collectOnce(engineOf(world.engine, side), 'noop', { now: true })).made,
      async judge(address, left, right) {
        assert.equal(await countOf(world.pool, 'payonce.effects where wallet = $1', [address]), 1);
        assert.equal(Number(left) + Number(right), 1);
        return 'one sweep';
      },
    }),
    race(stage, {
      name: 'a lane || the same lane, another key',
      prepare: () => {
        nth += 1;
        return Promise.resolve(`lane-${nth}`);
      },
      left: (side, address) => take(side, address, 'first'),
      right: (side, address) => take(side, address, 'second'),
      judge(_, left, right) {
        const words = [left, right].map((one) => String((one as MoveOutcome[])[0]?.outcome)).sort();
        assert.deepEqual(words, ['lane_taken', 'made']);
        return Promise.resolve('one has the lane');
      },
    }),
  ];
}

const DAY_MS = 24 * 3_600_000;

async function nights(ends: Ends, checks: Ends): Promise<Race[]> {
  const world = await makeRealizeWorld({ start: '2026-03-10T12:00:00+09:00' });
  const stage = await stageOf(ends, world.url);
  ends.push(() => world.end());
  checks.push(() => assertBooksClean(world.pool));
  let nth = 0;
  const due = async (): Promise<string> => {
    nth += 1;
    const partner = `par_race_${nth}`;
    await world.fee(partner, 100n);
    await world.time.run(DAY_MS);
    return partner;
  };
  const madeFor = (partner: string): Promise<number> =>
    countOf(world.pool, 'payonce.realizations where partner_id = $1', [partner]);
  return [
    race(stage, {
      name: 'the night || the night',
      prepare: due,
      left: (side) => runNightly({ ...world.nights(), pool: side.pool }),
      right: (side) => runNightly({ ...world.nights(), pool: side.pool }),
      async judge(partner) {
        assert.equal(await madeFor(partner), 1);
        return 'made once';
      },
    }),
    race(stage, {
      name: 'advance || advance of one realization',
      async prepare() {
        const partner = await due();
        await runNightly(world.nights());
        const { rows } = await world.pool.query<{ id: bigint }>('select max(id) as id from payonce.effects');
        return { partner, id: rows[0]?.id ?? -1n, sends: world.book.sends };
      },
      left: (side, { id }) => advanceEffect(engineOf(world.engine, side), id),
      right: (side, { id }) => advanceEffect(engineOf(world.engine, side), id),
      async judge({ id, sends }, left, right) {
        assert.equal(world.book.sends - sends, 1, 'sent once');
        const state = await countOf(world.pool, "payonce.effects where id = $1 and state = 'SETTLED'", [id]);
        assert.equal(state, 1);
        return `${String(left)} and ${String(right)}`;
      },
    }),
  ];
}

async function arrivals(ends: Ends): Promise<Race[]> {
  const world = await makeNoopWorld({}, { world: { label: 'races inbox', fundUnits: 0n } });
  const stage = await stageOf(ends, world.url);
  ends.push(() => world.end());
  let nth = 0;
  const arrive = async (side: Side, id: string): Promise<string> => {
    const receiver = makeReceiver({
      pool: side.pool,
      ports: side.ports,
      log: silentLog,
      sources: [{ name: 'monitor', secrets: [secret] }],
      wake: () => {},
    });
    const { headers, body } = letter(id, { id });
    return (await receiver.receive('monitor', headers, Buffer.from(body))).kind;
  };
  /** Claims what is there, and marks it worked: as the inbox worker does around its handler. */
  const work = async (side: Side): Promise<number> => {
    const events = await side.pool.tx('inbox claim', (tx) => claimEvents(tx, 30_000, 10));
    let done = 0;
    for (const event of events) {
      const marked = await side.pool.tx('inbox work', (tx) =>
        markEvent(tx, event, { state: 'done', error: null, againInMs: 0 }),
      );
      if (marked) done += 1;
    }
    return done;
  };
  const fresh = (): Promise<string> => {
    nth += 1;
    return Promise.resolve(`event-${nth}`);
  };
  return [
    race(stage, {
      name: 'an event arrives || it arrives again',
      prepare: fresh,
      left: arrive,
      right: arrive,
      async judge(id, left, right) {
        assert.deepEqual([left, right].map(String).sort(), ['already_received', 'stored']);
        assert.equal(await countOf(world.pool, 'payonce.inbox where external_id = $1', [id]), 1);
        await world.pool.tx('done', async (tx) => {
          for (const event of await claimEvents(tx, 1_000, 10))
            await markEvent(tx, event, { state: 'done', error: null, againInMs: 0 });
        });
        return 'stored once';
      },
    }),
    race(stage, {
      name: 'an event worked || worked by another',
      async prepare() {
        const id = await fresh();
        await arrive({ pool: world.pool, ports: world.ports }, id);
        return id;
      },
      left: work,
      right: work,
      judge(_, left, right) {
        assert.equal(Number(left) + Number(right), 1, 'one worked it');
        return Promise.resolve('worked once');
      },
    }),
  ];
}

async function deliveries(ends: Ends): Promise<Race> {
  const world = await makeCourierWorld('races outbox');
  const stage = await stageOf(ends, world.pool.url);
  ends.push(() => world.close());
  const partner = await world.partner();
  const endpoint = await world.endpoint(partner, 'https://partner.test/hook');
  const wish = {
    leaseMs: 30_000,
    deliveriesMax: 10,
    afterEndpoint: '',
    perEndpointMax: 8,
    flying: new Map<string, number>(),
  };
  const deliver = async (side: Side): Promise<number> => {
    const claimed = await side.pool.tx('claim deliveries', (tx) => claimDeliveries(tx, wish));
    const recorded = await side.pool.tx('record attempts', (tx) =>
      recordAttempts(
        tx,
        claimed.map(({ id, token }) => ({
          id,
          token,
          state: 'delivered' as const,
          delayMs: 0,
          status: 200,
          error: null,
          gone: false,
        })),
      ),
    );
    return recorded.size;
  };
  return race(stage, {
    name: 'a delivery || the same delivery by another courier',
    async prepare() {
      const subject = await world.subject(partner);
      return { event: await world.event(subject) };
    },
    left: deliver,
    right: deliver,
    async judge({ event }, left, right) {
      assert.equal(Number(left) + Number(right), 1, 'one delivers it');
      const done = await countOf(
        world.pool,
        "payonce.deliveries d join payonce.events v on v.id = d.event_id where d.endpoint_id = $1 and v.event_id = $2 and d.state = 'delivered'",
        [endpoint, event],
      );
      assert.equal(done, 1);
      return 'delivered once';
    },
  });
}
