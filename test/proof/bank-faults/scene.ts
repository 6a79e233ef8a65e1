/*
 * One provider against every fault at once: a database, and for each fault a simulated bank with books of its own, a rail to
 * it and a partner. All clocks (the banks', the database's, ours) go through the same five weeks in steps, and at each step
 * each cell is passed over as a worker would, then looked at: as long as the bank could still pay, the money is held.
 */
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { type Bank, startBank } from '../../../sim/bank/bank.ts';
import type { BankMovement } from '../../../sim/bank/books.ts';
import type { ProfileName } from '../../../sim/bank/profile.ts';
import { makePool, type Pool } from '../../../src/db/pool.ts';
import { advanceOnce } from '../../../src/engine/advance.ts';
import type { EngineDeps } from '../../../src/engine/deps.ts';
import { watchReleasedOnce } from '../../../src/engine/look.ts';
import { reopenOnce } from '../../../src/engine/reopen.ts';
import { createTransfers, makeTransfers, readTransfer } from '../../../src/flows/transfers/index.ts';
import { silentLog } from '../../../src/kernel/log.ts';
import { type Ports, systemPorts } from '../../../src/kernel/ports.ts';
import { type BankRail, makeBankRail, type Profile, PROFILES } from '../../../src/rails/bank/index.ts';
import { intentFor } from '../../rails/bank-scene.ts';
import { bankBooks } from '../../support/bank-books.ts';
import type { Breach } from '../../../src/audit/invariants.ts';
import { findBreaches } from '../../support/books.ts';
import { makeWorld, type World } from '../../support/world.ts';
import { AMOUNT, type Fault, MINUTE_MS } from './faults.ts';
import { type Facts, type Outcome, outcomeOf } from './outcomes.ts';

const FEE = 100n;
const FUNDS = 1_000_000n;
/** Longer than any answer of a simulator that answers; shorter than the slow ones. */
const TIMEOUT_MS = 3_000;
/** Between two states of an accepted transfer. */
const SETTLE_MS = MINUTE_MS / 2;
/** Cells at once: more only makes time-outs tighter on two cores. */
const CELLS_AT_ONCE = 12;
/** Less than the two minutes between the first steps; a quarter of it is the time to send, on a machine that is held up. */
const LEASE_MS = 100_000;
/** Minutes since the transfers were taken in: dense at first, then past each lateness, retention and time to decide. */
const HOUR = 60;
const DAY = 24 * HOUR;
const STEPS: readonly number[] = [
  0,
  2,
  4,
  6,
  10,
  40,
  75,
  150,
  ...[3.5, 5.5, 13, 25.5, 26.5, 30.5, 51].map((hours) => hours * HOUR),
  ...[3.2, 4.2, 6.2, 8.2, 9.2, 15.5, 17, 30.5, 31.5, 33, 35].map((days) => days * DAY),
];
/** Into the hour in which Korean banks are closed. */
const START_OF_DAY_MS = (23 * HOUR + 40 - 9 * HOUR) * MINUTE_MS;

interface Cell {
  readonly fault: Fault;
  readonly bank: Bank;
  readonly partnerId: string;
  rail: BankRail;
  transferId: string;
}

export interface CellResult {
  readonly outcome: Outcome | null;
  readonly facts: Facts;
  /** Counters that should have risen and did not. */
  readonly unfired: readonly string[];
  /** Where the money was free although the bank could still pay. */
  readonly unheld: readonly string[];
}

export interface ProfileResult {
  readonly cells: ReadonlyMap<string, CellResult>;
  /** Of the database, and of the banks' books beside it. */
  readonly breaches: readonly Breach[];
  /** By transfer, whose cell it is. */
  readonly faultOf: ReadonlyMap<string, string>;
}

interface Time {
  /** What is added to the machine's clock. */
  shiftMs: number;
  minute: number;
  /** With that clock. */
  readonly ports: Ports;
}

function makeTime(startMs: number): Time {
  const system = systemPorts();
  const time: Time = {
    shiftMs: startMs - Date.now(),
    minute: 0,
    ports: { ...system, clock: { ...system.clock, now: () => new Date(system.clock.now().getTime() + time.shiftMs) } },
  };
  return time;
}

export async function runProfile(name: ProfileName, faults: readonly Fault[]): Promise<ProfileResult> {
  const profile = PROFILES.find((one) => one.name === name) ?? assert.fail(name);
  const dayMs = DAY * MINUTE_MS;
  const startMs = Math.ceil(Date.now() / dayMs) * dayMs + START_OF_DAY_MS;
  const time = makeTime(startMs);
  const cells = await Promise.all(faults.map((fault) => makeCell(profile, name, fault, time, startMs)));
  let world: World | null = null;
  try {
    const started = await makeCellsWorld(profile, cells);
    world = started;
    await takeAll(started, profile, cells, time);
    const unheld = new Map<string, string[]>(cells.map((cell) => [cell.fault.id, []]));
    for (const minute of STEPS) {
      await step(started, cells, time, minute, unheld);
    }
    return await gather(started, name, cells, time, unheld);
  } finally {
    await Promise.all(cells.map((cell) => cell.bank.stop()));
    await Promise.all(cells.map((cell) => cell.rail.close()));
    await world?.end();
  }
}

async function makeCell(profile: Profile, name: ProfileName, fault: Fault, time: Time, startMs: number): Promise<Cell> {
  const since = (): number => bank.clock.now().getTime() - startMs;
  const bank: Bank = await startBank({
    profile: name,
    seed: `${name} ${fault.id}`,
    clock: { start: new Date(startMs), ticking: false },
    settleMs: SETTLE_MS,
    ...fault.options,
  });
  for (const rule of fault.rules?.(since, name) ?? []) bank.script(rule);
  const rail = makeRail(profile, fault, bank, time.ports, 'cred_1');
  return { fault, bank, partnerId: `par_${fault.id}`, rail, transferId: '' };
}

function makeRail(profile: Profile, fault: Fault, bank: Bank, ports: Ports, credentialId: string): BankRail {
  return makeBankRail(
    {
      name: `bank:${fault.id}`,
      profile,
      baseUrl: bank.url,
      account: 'acc_1',
      credential: {
        id: credentialId,
        // Basic credentials are a name and a secret with this provider.
        secret: () => `${profile.name === 'modern-treasury' ? 'organization:' : ''}${bank.credentials.current()}`,
        ...(bank.securityKey === null ? {} : { encryptionKey: bank.securityKey }),
      },
      deployment: 'test',
      direct: true,
      maintenance: fault.maintenance ?? [],
    },
    { ports, http: { timeoutMs: TIMEOUT_MS } },
  );
}

async function makeCellsWorld(profile: Profile, cells: readonly Cell[]): Promise<World> {
  const { asset } = intentFor(profile);
  const world = await makeWorld({
    label: `faults_${profile.name}`,
    rails: () => cells.map((cell) => cell.rail),
    flows: (chart) => [makeTransfers(chart)],
    chain: `bank:${profile.name}`,
    contract: asset.code,
    assetCode: asset.code,
    decimals: asset.decimals,
    wallet: 'acc_1',
    fundUnits: 0n,
    connectionsMax: 2,
    leaseMs: LEASE_MS,
  });
  const ids = cells.map((cell) => cell.partnerId);
  await world.pool.query(
    "insert into payonce.partners (id, name, time_zone) select id, id, 'Asia/Seoul' from unnest($1::text[]) as u (id)",
    [ids],
  );
  await world.pool.query(
    `insert into payonce.asset_policies (asset_id, partner_id, rail, wallet, withdrawal_max, withdrawal_day_max, withdrawal_fee_flat)
     select $1, partner, rail, 'acc_1', 1000000000, 1000000000, $4 from unnest($2::text[], $3::text[]) as u (partner, rail)`,
    [world.assetId, ids, cells.map((cell) => cell.rail.name), FEE],
  );
  await world.pool.query(
    "insert into payonce.signers (rail, address, label, next_nonce) select rail, 'acc_1', 'account', 0 from unnest($1::text[]) as u (rail) on conflict do nothing",
    [cells.map((cell) => cell.rail.name)],
  );
  for (const id of ids) await world.fund(FUNDS, id);
  return world;
}

/** Sessions whose clock is at `time`: the setting that a test database honours. */
async function atTime<T>(world: World, time: Time, work: (pool: Pool) => Promise<T>): Promise<T> {
  const url = new URL(world.url);
  url.searchParams.set('options', `-c payonce.clock_shift_ms=${time.shiftMs}`);
  const pool = makePool({ url: url.href, ports: world.ports, log: silentLog, connectionsMax: 4 });
  try {
    return await work(pool);
  } finally {
    await pool.end();
  }
}

async function takeAll(world: World, profile: Profile, cells: readonly Cell[], time: Time): Promise<void> {
  const { payee } = intentFor(profile);
  assert.ok(payee !== null);
  const requests = cells.map((cell) => {
    const read = readTransfer((input) => cell.rail.readPayee(input), {
      partnerId: cell.partnerId,
      idempotencyKey: cell.fault.id,
      fingerprint: cell.fault.id,
      externalId: null,
      assetId: world.assetId,
      amount: AMOUNT,
      ...payee,
    });
    return read.ok ? read.request : assert.fail(JSON.stringify(read.faults));
  });
  const taken = await atTime(world, time, (pool) => createTransfers({ ...world, pool }, requests));
  taken.forEach((one, index) => {
    const cell = cells[index];
    assert.ok(one.outcome === 'created' && cell !== undefined, JSON.stringify(one));
    cell.transferId = one.id;
  });
}

async function step(
  world: World,
  cells: readonly Cell[],
  time: Time,
  minute: number,
  unheld: ReadonlyMap<string, string[]>,
): Promise<void> {
  const ms = (minute - time.minute) * MINUTE_MS;
  time.minute = minute;
  time.shiftMs += ms;
  for (const cell of cells) {
    cell.bank.clock.advance(ms);
    await cell.fault.acts?.[minute]?.({ bank: cell.bank, rotate: () => rotate(cell, time) });
  }
  // What fell due answers nobody; it is executed before we look.
  await turn();
  await atTime(world, time, async (pool) => {
    const rails = new Map(cells.map((cell) => [cell.rail.name, cell.rail]));
    const engine: EngineDeps = { ...world.engine, pool, rails };
    // A pass over a rail where nothing is open or due would find nothing.
    const due = new Set((await pool.query<{ rail: string }>(DUE)).rows.map((row) => row.rail));
    const queue = cells.filter((cell) => due.has(cell.rail.name));
    const work = async (): Promise<void> => {
      for (let cell = queue.shift(); cell !== undefined; cell = queue.shift()) {
        await advanceOnce(engine, cell.rail);
        await watchReleasedOnce(engine, cell.rail);
      }
    };
    await Promise.all(Array.from({ length: CELLS_AT_ONCE }, work));
    await reopenOnce(engine);
    await checkHolds(pool, cells, minute, unheld);
  });
}

async function rotate(cell: Cell, time: Time): Promise<void> {
  cell.bank.credentials.rotate();
  await cell.rail.close();
  cell.rail = makeRail(cell.rail.profile, cell.fault, cell.bank, time.ports, 'cred_2');
}

/** Left or leaving, and not come back whole. */
function isStanding(movement: BankMovement): boolean {
  return movement.kind === 'out' && movement.returned !== 'fully';
}

const DUE = `select rail
from payonce.effects
where ended_at is null
   or watch_at <= payonce.now()`;

const HOLDS = `select e.partner_id, e.state, a.held
from payonce.effects e
join payonce.accounts a on a.code = 'partner:' || e.partner_id and a.asset_id = e.asset_id`;

/** Open: the whole hold stands. Released: nothing of it has been accepted by the bank. */
async function checkHolds(
  pool: Pool,
  cells: readonly Cell[],
  minute: number,
  unheld: ReadonlyMap<string, string[]>,
): Promise<void> {
  const { rows } = await pool.query<{ partner_id: string; state: string; held: bigint }>(HOLDS);
  const byPartner = new Map(rows.map((row) => [row.partner_id, row]));
  for (const cell of cells) {
    const row = byPartner.get(cell.partnerId) ?? assert.fail(cell.partnerId);
    const isOpen = row.state === 'PENDING' || row.state === 'SEALED';
    assert.equal(row.held, isOpen ? AMOUNT + FEE : 0n, `${cell.fault.id} at minute ${minute}: ${row.state}`);
    const standing = (await cell.bank.books.movements()).filter(isStanding);
    if (row.state === 'RELEASED' && standing.length > 0)
      unheld.get(cell.fault.id)?.push(`minute ${minute}: released, and the bank has accepted it`);
  }
}

const FACTS = `select t.id, v.status, e.state, e.contradicted_at is not null as contradicted,
       array(select c.kind from payonce.cases c where c.effect_id = e.id and c.closed_at is null order by c.kind) as open_cases,
       array(select c.kind from payonce.cases c where c.effect_id = e.id and c.closed_at is not null order by c.kind) as closed_cases,
       array(select replace(n.type, 'transfer.', '') from payonce.events n where n.subject_id = t.id order by n.id) as events,
       array(select a.observed || ': ' || a.observed_why from payonce.effect_answers a where a.effect_id = e.id order by a.id) as answers,
       coalesce((select sum(r.amount) from payonce.returns r where r.effect_id = e.id), 0) as returned
from payonce.transfers t
join payonce.transfer_states v on v.id = t.id
join payonce.effects e on e.id = v.effect_id`;

async function gather(
  world: World,
  name: ProfileName,
  cells: readonly Cell[],
  time: Time,
  unheld: ReadonlyMap<string, readonly string[]>,
): Promise<ProfileResult> {
  return atTime(world, time, async (pool) => {
    const { rows } = await pool.query(FACTS);
    const results = new Map<string, CellResult>();
    for (const cell of cells) {
      const row = rows.find((one) => one['id'] === cell.transferId) ?? assert.fail(cell.transferId);
      const movements = await cell.bank.books.movements();
      const facts: Facts = {
        status: row['status'] as string,
        state: row['state'] as string,
        openCases: row['open_cases'] as string[],
        closedCases: row['closed_cases'] as string[],
        events: row['events'] as string[],
        answers: row['answers'] as string[],
        returned: row['returned'] as bigint,
        amount: AMOUNT,
        movements: movements.filter((movement) => movement.kind === 'out').length,
        standing: movements.filter(isStanding).length,
        requests: cell.bank.calls.create,
      };
      results.set(cell.fault.id, {
        outcome: outcomeOf(facts),
        facts,
        unfired: cell.fault.fired(name).filter((fired) => (cell.bank.counts[fired] ?? 0) === 0),
        unheld: unheld.get(cell.fault.id) ?? [],
      });
    }
    const books = bankBooks(
      cells.map((cell) => cell.bank),
      `bank:${name}`,
    );
    const breaches = await findBreaches(pool, { books, wallets: ['acc_1'], drained: true });
    return { cells: results, breaches, faultOf: new Map(cells.map((cell) => [cell.transferId, cell.fault.id])) };
  });
}
