/*
 * The stage for tests of supplies: a chain on which payments need energy or gas before they can be sealed, and a market, both
 * on the rail where nothing moves and answers are the test's. What was delivered, the chain shows.
 */
import assert from 'node:assert/strict';
import { sendOnce, watchOnce } from '../../src/engine/advance.ts';
import type { EngineDeps } from '../../src/engine/deps.ts';
import { makeNoopRail, type NoopBehaviour } from '../../src/engine/noop.ts';
import type { EffectIntent, Need, PlanVerdict, Rail } from '../../src/engine/rail.ts';
import { makePool } from '../../src/db/pool.ts';
import {
  ENERGY_GIVE_UP_MS,
  makeSupplies,
  makeSupplyFlows,
  type ReadBalance,
  type Supplies,
  type SupplyPolicy,
} from '../../src/flows/supplies/index.ts';
import { createWithdrawals, makeWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { makeWorld, type World } from '../support/world.ts';

export const CHAIN = 'tron:test';
export const MARKET = 'market-account';
export const GAS_WALLET = 'gas-wallet';
export const ENERGY = 65_000n;
/** What the scene's payments would burn in place of it. */
export const BURN = 6_500_000n;
export const COIN = `${CHAIN}/slip44:60`;

export interface Scene {
  readonly world: World;
  /** Addresses that have the gas that they need. */
  readonly gassed: Set<string>;
  /** Addresses with energy, as the chain shows it. */
  readonly energised: Set<string>;
  /** Whether the chain shows what the market delivered. */
  shows: boolean;
  needs(effect: EffectIntent): Need | null;
  /** The engine as it is so many ms from now. */
  at(shiftMs: number): Promise<Moment>;
  pay(): Promise<bigint>;
}

export interface Moment {
  readonly engine: EngineDeps;
  readonly supplies: Supplies;
  /** Plans and sends what is due on a rail, looks at what is sealed; answers how many were pending. */
  pass(rail?: string): Promise<number>;
  end(): Promise<void>;
}

export function policyOf(fields: Partial<SupplyPolicy> = {}): SupplyPolicy {
  return {
    gas: [{ chain: CHAIN, rail: CHAIN, coinAssetId: COIN, wallets: [GAS_WALLET], level: 50n, amountMax: 1_000n }],
    energy: [
      {
        chain: CHAIN,
        market: {
          rail: 'energy:main',
          account: MARKET,
          coinAssetId: COIN,
          priceMaxPerUnit: 50n,
          durationMs: 3_600_000,
          unitsMin: 32_000n,
          unitsMax: 200_000n,
        },
        giveUpAfterMs: ENERGY_GIVE_UP_MS,
        whenNone: { act: 'wait' },
      },
    ],
    watched: [],
    ...fields,
  };
}

export async function makeScene(options: {
  readonly label: string;
  readonly policy: SupplyPolicy;
  readonly market?: NoopBehaviour;
  /** What a payment lacks. */
  readonly lacks: 'energy' | 'gas';
  readonly readBalance?: ReadBalance;
}): Promise<Scene> {
  const gassed = new Set<string>([GAS_WALLET]);
  const energised = new Set<string>();
  const scene = { shows: true };
  const market = makeNoopRail('energy:main', {
    async send(sealed) {
      const seen = (await options.market?.send?.(sealed)) ?? {};
      if ((seen.kind ?? 'final_success') === 'final_success') energised.add(sealed.destination.split(':')[0] ?? '');
      return seen;
    },
    look: async (sealed) => (await options.market?.look?.(sealed)) ?? [{}],
  });
  const needs = (effect: EffectIntent): Need | null => {
    if (effect.subjectType === 'topup') return null;
    if (options.lacks === 'gas')
      return gassed.has(effect.signer) ? null : { kind: 'gas', address: effect.signer, assetId: COIN, units: 7n };
    return scene.shows && energised.has(effect.wallet)
      ? null
      : { kind: 'energy', address: effect.wallet, units: ENERGY };
  };
  const chain: Rail = {
    ...makeNoopRail(CHAIN, {
      send(sealed) {
        if (sealed.subjectType === 'topup') gassed.add(sealed.destination);
        return Promise.resolve({});
      },
    }),
    plan: (effects, context) =>
      Promise.resolve(
        effects.map((effect): PlanVerdict => {
          const need = needs(effect);
          const burns = need?.kind === 'energy' && (context.burnUpTo?.get(effect.effectId) ?? 0n) >= BURN;
          if (need === null || burns) return { verdict: 'ready', plan: { burns } };
          const reason = need.kind === 'gas' ? 'GAS_SHORT' : 'ENERGY_SHORT';
          return { verdict: 'wait', reason, detail: 'short', alert: true, lasts: 'until_mended', needs: need };
        }),
      ),
  };
  const world = await makeWorld({
    label: options.label,
    rails: () => [chain, market],
    flows: (chart, makeId) => [makeWithdrawals(chart), ...makeSupplyFlows(chart, silentLog, makeId)],
    chain: CHAIN,
    wallets: ['wallet-1', GAS_WALLET],
  });
  await world.pool.query(
    "insert into payonce.signers (rail, address, label, next_nonce) values ('energy:main', $1, 'market', 0)",
    [MARKET],
  );
  return Object.assign(scene, {
    world,
    gassed,
    energised,
    needs,
    async at(shiftMs: number): Promise<Moment> {
      const url = new URL(world.url);
      if (shiftMs !== 0) url.searchParams.set('options', `-c payonce.clock_shift_ms=${shiftMs}`);
      const pool = makePool({ url: url.href, ports: world.ports, log: silentLog, connectionsMax: 3 });
      const supplies = makeSupplies(
        {
          pool,
          makeId: world.makeId,
          log: world.log,
          ...(options.readBalance === undefined ? {} : { readBalance: options.readBalance }),
        },
        options.policy,
      );
      const engine = { ...world.engine, pool, supply: supplies.port };
      return {
        engine,
        supplies,
        async pass(name = CHAIN) {
          const rail = engine.rails.get(name) ?? assert.fail(name);
          const pending = await sendOnce(engine, rail);
          await watchOnce(engine, rail);
          return pending;
        },
        end: () => pool.end(),
      };
    },
    async pay() {
      const [created] = await createWithdrawals(world, [world.request()]);
      assert.equal(created?.outcome, 'created');
      const { rows } = await world.pool.query<{ id: bigint }>(
        "select max(id) as id from payonce.effects where subject_type = 'withdrawal'",
      );
      return rows[0]?.id ?? assert.fail();
    },
  });
}

export interface EffectSeen {
  readonly state: string;
  readonly reason: string | null;
  readonly identity: string | null;
  readonly wait_ms: number;
}

export async function effectSeen(world: World, id: bigint): Promise<EffectSeen> {
  const { rows } = await world.pool.query<EffectSeen & Record<string, unknown>>(
    `select state, wait_reason as reason, identity, (extract(epoch from next_at - payonce.now()) * 1000)::float8 as wait_ms
     from payonce.effects where id = $1`,
    [id],
  );
  return rows[0] ?? assert.fail();
}

/** Kind, state and amount of everything bought, in order. */
export async function bought(world: World): Promise<string[]> {
  const { rows } = await world.pool.query<{ text: string }>(
    `select e.subject_type || ' ' || s.ordinal || ' ' || e.state || ' ' || e.amount as text
     from payonce.supplies s
     join payonce.effects e on e.subject_type = s.subject_type and e.subject_id = s.id
     order by e.id`,
  );
  return rows.map((row) => row.text);
}

export async function alertsOf(world: World, kind: string): Promise<{ open: number; ever: number }> {
  const { rows } = await world.pool.query<{ open: number; ever: number }>(
    `select count(*) filter (where cleared_at is null)::int as open, count(*)::int as ever
     from payonce.alerts where kind = $1`,
    [kind],
  );
  return rows[0] ?? assert.fail();
}
