/*
 * The life of a withdrawal under faults of the database: taken in, sealed, sent, settled, by callers who ask again as ours do. The
 * rail keeps a book of its own: what it paid, under which identity. It is keyed: the same identity again is one payment.
 */
import assert from 'node:assert/strict';
import { makePool, type Pool, type PoolOptions } from '../../../src/db/pool.ts';
import { advanceOnce } from '../../../src/engine/advance.ts';
import type { EngineDeps } from '../../../src/engine/deps.ts';
import { createWithdrawals, type WithdrawalRequest } from '../../../src/flows/withdrawals/index.ts';
import { silentLog } from '../../../src/kernel/log.ts';
import { type Gate, makeGate, type Ports, systemPorts } from '../../../src/kernel/ports.ts';
import { makeNoopWorld, railOf } from '../../engine/noop-scene.ts';
import { assertBooksClean, type BooksOptions } from '../../support/books.ts';
import type { World } from '../../support/world.ts';

export const AMOUNT = 1_000n;
/** Tries of one step: more than any fault here lasts. */
const TRIES_MAX = 400;

export interface LifeWorld extends World {
  /** By the subject's identity: how often it moved. */
  readonly book: Map<string, bigint>;
  sends: number;
}

export async function makeLifeWorld(label: string): Promise<LifeWorld> {
  const book = new Map<string, bigint>();
  const state = { sends: 0 };
  const world = await makeNoopWorld(
    {
      send: (sealed) => {
        state.sends += 1;
        book.set(sealed.seal.identity, sealed.amount);
        return Promise.resolve({ kind: 'in_progress' });
      },
      look: (sealed) =>
        Promise.resolve([
          book.has(sealed.seal.identity)
            ? { kind: 'final_success', objectId: sealed.seal.identity }
            : { kind: 'not_found' },
        ]),
    },
    { world: { label, fundUnits: 10n ** 14n } },
  );
  return Object.assign(world, {
    book,
    get sends() {
      return state.sends;
    },
  });
}

/** A process of its own: another pool, with these options, over this URL. */
export function processOf(
  world: LifeWorld,
  url: string,
  options: Partial<PoolOptions> & { gate?: Gate } = {},
): { readonly engine: EngineDeps; readonly pool: Pool; end(): Promise<void> } {
  const system = systemPorts();
  const ports: Ports = {
    ...system,
    gate: options.gate ?? makeGate(),
    // The pauses between two questions for a fate are as long as a server's restart.
    clock: { ...system.clock, sleep: (ms) => system.clock.sleep(Math.min(ms, 20)) },
  };
  const pool = makePool({ url, log: silentLog, connectionsMax: 2, ...options, ports });
  return { engine: { ...world.engine, pool, ports }, pool, end: () => pool.end() };
}

/** Asks again until it is answered; what went wrong on the way is counted. */
export async function untilDone<T>(faults: unknown[], work: () => Promise<T>, pauseMs = 0): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      faults.push(error);
      assert.ok(tries < TRIES_MAX, `it is never answered: ${String(error)}`);
      if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}

/** Takes one in under its key, asking again until it is answered. */
export async function takeOne(engine: EngineDeps, request: WithdrawalRequest, faults: unknown[]): Promise<string> {
  const [outcome] = await untilDone(faults, () => createWithdrawals(engine, [request]));
  assert.ok(outcome?.outcome === 'created' || outcome?.outcome === 'replayed', JSON.stringify(outcome));
  return outcome.id;
}

/** A worker's passes over what is open, until nothing is. Leases of passes that died end by `due`. */
export async function drain(world: LifeWorld, engine: EngineDeps, faults: unknown[], pauseMs = 0): Promise<void> {
  const rail = railOf(world);
  for (let pass = 0; ; pass += 1) {
    const { rows } = await untilDone(
      faults,
      () =>
        world.pool.query<{ open: number }>('select count(*)::int as open from payonce.effects where ended_at is null'),
      pauseMs,
    );
    if (rows[0]?.open === 0) return;
    assert.ok(pass < TRIES_MAX, `${rows[0]?.open} effects never end`);
    await untilDone(
      faults,
      () =>
        world.pool.query(
          "update payonce.effects set next_at = payonce.now() - interval '1 second', lease_until = case when lease_until is null then null else payonce.now() - interval '1 second' end where ended_at is null",
        ),
      pauseMs,
    );
    await untilDone(faults, () => advanceOnce(engine, rail), pauseMs);
  }
}

/** Each of so many was paid once, by the rail's own book and by ours, and nothing is left. */
export async function assertPaid(world: LifeWorld, many: number, options: BooksOptions = {}): Promise<void> {
  assert.equal(world.book.size, many, `the rail paid ${world.book.size} of ${many}`);
  const { rows } = await world.pool.query<{ confirmed: number; debits: number; told: number }>(
    `select (select count(*) from payonce.withdrawal_states where status = 'confirmed')::int as confirmed,
            (select count(*) from payonce.postings where idem_key like 'WDR_CONFIRM:%')::int as debits,
            (select count(*) from payonce.events where type = 'withdrawal.confirmed')::int as told`,
  );
  assert.deepEqual(rows[0], { confirmed: many, debits: many, told: many });
  await assertBooksClean(world.pool, options);
}
