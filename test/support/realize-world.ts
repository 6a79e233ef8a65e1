/*
 * The stage for realizations without a chain: partners whose fees are booked on days of the test's choosing, a master
 * wallet, a settlement wallet, virtual time, and processes, each with its own pool, engine and clock, over one database. The
 * rail's book keeps what moved, by identity, as a chain does: the same transaction twice is one.
 */
import assert from 'node:assert/strict';
import { makePool } from '../../src/db/pool.ts';
import type { EngineDeps } from '../../src/engine/deps.ts';
import { makeEngine } from '../../src/engine/engine.ts';
import { makeNoopRail } from '../../src/engine/noop.ts';
import type { Observation, Rail, SealedEffect } from '../../src/engine/rail.ts';
import { makeRealizations, type NightDeps } from '../../src/flows/realizations/index.ts';
import { makeIds } from '../../src/kernel/ids.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { makeGate, systemChance } from '../../src/kernel/ports.ts';
import { accountName, makeChart } from '../../src/ledger/accounts.ts';
import { post } from '../../src/ledger/post.ts';
import { makeVirtualTime, type VirtualTime } from './virtual-time.ts';
import { makeWorld, type World } from './world.ts';

export const ZONE = 'Asia/Seoul';
export const MASTER = 'wallet-1';
export const SETTLEMENT = 'settlement-1';

export interface BookedMove {
  readonly tx: string;
  readonly from: string;
  readonly to: string;
  readonly amount: bigint;
}

/** What moved, by identity, and how often somebody sent. */
export interface Book {
  readonly moves: Map<string, BookedMove>;
  sends: number;
}

export interface RealizeWorld extends World {
  readonly time: VirtualTime;
  readonly book: Book;
  /** Another process: pool, engine and clock of its own. */
  process(offMs?: number): Promise<EngineDeps>;
  nights(engine?: EngineDeps): NightDeps;
  /** Books a fee of the partner now (below nothing: gives it back); the partner is made where it is new. */
  fee(partnerId: string, units: bigint): Promise<void>;
  /** What the book shows, as the scanner would have stored it. */
  scan(): Promise<void>;
}

export interface RealizeOptions {
  readonly start: string;
  /** How long an item takes from its send to its answer. */
  readonly takesMs?: (sealed: SealedEffect) => number;
  readonly leaseMs?: number;
  readonly send?: (sealed: SealedEffect) => Promise<Partial<Observation>>;
}

export async function makeRealizeWorld(options: RealizeOptions): Promise<RealizeWorld> {
  const book: Book = { moves: new Map(), sends: 0 };
  const held: { time?: VirtualTime } = {};
  const railOf = (): Rail =>
    makeNoopRail('noop', {
      async send(sealed) {
        if (options.send !== undefined) return options.send(sealed);
        book.sends += 1;
        const { identity } = sealed.seal;
        book.moves.set(identity, {
          tx: identity,
          from: sealed.wallet,
          to: sealed.destination,
          amount: sealed.amount,
        });
        await held.time?.sleep(options.takesMs?.(sealed) ?? 0);
        return { kind: 'final_success', objectId: identity };
      },
      look: (sealed) =>
        Promise.resolve([book.moves.has(sealed.seal.identity) ? { kind: 'in_progress' } : { kind: 'not_found' }]),
    });
  const world = await makeWorld({
    label: 'realize',
    rails: () => [railOf()],
    flows: (chart) => [makeRealizations(chart)],
    fundUnits: 0n,
    leaseMs: options.leaseMs ?? 30_000,
  });
  const clock = await makeVirtualTime(world.pool, options.start);
  held.time = clock;
  await world.pool.query('insert into payonce.addresses (id, chain, address, kind) values ($1, $2, $3, $4)', [
    world.makeId('adr'),
    'noop',
    SETTLEMENT,
    'SETTLEMENT',
  ]);
  const pools: { end(): Promise<void> }[] = [];
  let fees = 0;
  return {
    ...world,
    time: clock,
    book,
    async process(offMs = 0) {
      const ports = { clock: clock.clock(offMs), chance: systemChance, gate: makeGate() };
      const pool = makePool({ url: world.url, ports, log: silentLog, connectionsMax: 4 });
      pools.push(pool);
      const chart = makeChart();
      return makeEngine({
        pool,
        ports,
        log: silentLog,
        makeId: makeIds(ports.clock, ports.chance),
        chart,
        flows: [makeRealizations(chart)],
        rails: [railOf()],
        leaseMs: options.leaseMs ?? 30_000,
      });
    },
    nights: (engine = world.engine) => ({
      pool: engine.pool,
      makeId: engine.makeId,
      log: silentLog,
      timeZone: ZONE,
    }),
    async fee(partnerId, units) {
      fees += 1;
      await world.pool.query('insert into payonce.partners (id, name) values ($1, $1) on conflict do nothing', [
        partnerId,
      ]);
      await world.pool.tx('fee', async (tx) => {
        const [partner, earned, custody] = await world.chart.ids(tx, [
          accountName.partner(partnerId, world.assetId),
          accountName.fees(world.assetId),
          accountName.custody('noop', MASTER, world.assetId),
        ]);
        assert.ok(partner !== undefined && earned !== undefined && custody !== undefined);
        await post(tx, [
          {
            kind: 'post',
            key: `MIGRATED:fee-${fees}`,
            reference: 'fee',
            entries: [
              { accountId: partner, amount: 1_000n },
              { accountId: custody, amount: -1_000n - units },
              { accountId: earned, amount: units },
            ],
          },
        ]);
      });
    },
    async scan() {
      for (const move of book.moves.values()) {
        await world.pool.query(
          `insert into payonce.chain_transfers
             (chain, tx_hash, position, block_number, block_hash, asset_id, from_address, to_address, amount, class, class_reason, final_at)
           values ('noop', $1, 0, 1, 'block', $2, $3, $4, $5, 'OWN_EFFECT', 'transaction_is_ours', payonce.now())
           on conflict do nothing`,
          [move.tx, world.assetId, move.from, move.to, move.amount],
        );
      }
    },
    async end() {
      for (const pool of pools) await pool.end();
      await world.end();
    },
  };
}
