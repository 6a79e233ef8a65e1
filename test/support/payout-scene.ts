/*
 * The stage for payouts without a chain: a world with payouts, programmes and creators of the test's choosing, and a rail whose
 * book keeps what moved, by identity: the same payment twice is one.
 */
import assert from 'node:assert/strict';
import { advanceOnce } from '../../src/engine/advance.ts';
import { makeNoopRail } from '../../src/engine/noop.ts';
import type { Capabilities, Observation, SealedEffect } from '../../src/engine/rail.ts';
import {
  accrue,
  type Accrued,
  makePayoutBatches,
  makePayoutFlow,
  type PayoutDeps,
  putCreator,
  putProgramme,
  type TermsRequest,
} from '../../src/flows/payouts/index.ts';
import type { Programme } from '../../src/flows/payouts/programme.ts';
import { readStatement, type StatementLine } from '../../src/flows/payouts/reads.ts';
import { makeWorld, type World, type WorldOptions } from './world.ts';

export interface PayoutWorld extends World {
  readonly deps: PayoutDeps;
  readonly book: { readonly to: string; readonly amount: bigint; readonly identity: string }[];
  programme(name: string, terms?: Partial<TermsRequest>, partnerId?: string): Promise<Programme>;
  /** Its address is `at-{name}`. */
  creator(name: string, address?: string, partnerId?: string): Promise<void>;
  /** Events of one unit of volume each, or as given. */
  accrue(items: readonly object[], partnerId?: string): Promise<Accrued>;
  /** Everything due, a few passes. */
  pass(): Promise<void>;
  statement(creator?: string): Promise<StatementLine[]>;
  payouts(): Promise<
    { id: string; creator: string; amount: bigint; status: string; origin: string; date: string | null }[]
  >;
}

export interface PayoutSceneOptions extends Partial<WorldOptions> {
  readonly send?: (sealed: SealedEffect) => Promise<Partial<Observation>>;
  readonly look?: (sealed: SealedEffect) => Promise<readonly Partial<Observation>[]>;
  readonly capabilities?: Partial<Capabilities>;
}

export async function makePayoutWorld(options: PayoutSceneOptions = {}): Promise<PayoutWorld> {
  const book: { to: string; amount: bigint; identity: string }[] = [];
  const pays = (sealed: SealedEffect): Promise<Partial<Observation>> => {
    const { identity } = sealed.seal;
    if (!book.some((one) => one.identity === identity))
      book.push({ to: sealed.destination, amount: sealed.amount, identity });
    return Promise.resolve({ kind: 'final_success', objectId: identity });
  };
  const rail = makeNoopRail(
    'noop',
    { send: options.send ?? pays, ...(options.look === undefined ? {} : { look: options.look }) },
    options.capabilities,
  );
  const world = await makeWorld({
    label: 'payouts',
    rails: () => [rail],
    flows: (chart, makeId) => [makePayoutFlow(chart), makePayoutBatches(chart, makeId)],
    ...options,
  });
  const deps: PayoutDeps = {
    ...world,
    mayCall: (_chain, { to }) => to === 'swap',
    wordOf: (_chain, address) => Buffer.from(address).toString('hex').padStart(64, '0').slice(-64),
  };
  const asset = { id: world.assetId, decimals: 6 };
  return {
    ...world,
    deps,
    book,
    async programme(name, terms = {}, partnerId = world.partnerId) {
      const rate = terms.tiers === undefined ? { rate: '0.1' } : {};
      return (await putProgramme(deps, partnerId, name, asset, { threshold: '100', ...rate, ...terms })).programme;
    },
    async creator(name, address = `at-${name}`, partnerId = world.partnerId) {
      await putCreator(deps, partnerId, name, { chain: 'noop', address });
    },
    accrue: (items, partnerId = world.partnerId) => accrue(deps, partnerId, items),
    async pass() {
      for (let round = 0; round < 3; round += 1) {
        await world.pool.query(
          "update payonce.effects set next_at = payonce.now() - interval '1 second' where ended_at is null and lease_until is null",
        );
        await advanceOnce(world.engine, rail);
      }
    },
    async statement(creator) {
      const lines = await readStatement(world.pool, {
        partnerId: null,
        programme: null,
        creator: creator ?? null,
        waiting: false,
        after: 0n,
        limit: 1_000,
      });
      return lines.map((one) => one.line);
    },
    async payouts() {
      const { rows } = await world.pool.query<{
        id: string;
        creator: string;
        amount: bigint;
        status: string;
        origin: string;
        date: string | null;
      }>(`select y.id, c.external_id as creator, y.amount, v.status, y.origin, y.cut_date::text as date
        from payonce.payouts y join payonce.creators c on c.id = y.creator_id join payonce.payout_states v on v.id = y.id order by y.id`);
      return rows;
    },
  };
}

let events = 0;
/** `many` events of `volume` each. */
export function eventsOf(creator: string, volume: string, many = 1, programme = 'p'): object[] {
  return Array.from({ length: many }, () => {
    events += 1;
    return { source_id: `event-${events}`, programme, creator, volume };
  });
}

export function lineOf(lines: readonly StatementLine[], creator: string): StatementLine {
  const line = lines.find((one) => one.creator === creator);
  assert.ok(line !== undefined, `no line of ${creator}`);
  return line;
}
