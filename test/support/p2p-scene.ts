/*
 * A market for tests of P2P: a group of two partners, one asset for won, a provider behind whatever rail the test gives, and the
 * few things that buyers, sellers and the matcher do. Ends with the books.
 */
import assert from 'node:assert/strict';
import { advanceOnce } from '../../src/engine/advance.ts';
import type { CreateOutcome } from '../../src/engine/intake.ts';
import { makeNoopRail, type NoopBehaviour } from '../../src/engine/noop.ts';
import type { Capabilities, Rail } from '../../src/engine/rail.ts';
import {
  confirmLeg,
  createDepositOrders,
  createWithdrawOrders,
  type DepositOrderRequest,
  makeMatcher,
  makeP2pFlows,
  type Matcher,
  type WithdrawOrderRequest,
} from '../../src/flows/p2p/index.ts';
import { readDepositOrder, type ReadDeposit, readWithdrawOrder, type ReadWithdraw } from '../../src/flows/p2p/reads.ts';
import type { Ports } from '../../src/kernel/ports.ts';
import { makeWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { makeWorld, type World } from './world.ts';

export const SELLER = 'par_test';
export const BUYER = 'par_buyer';
/** One whole unit of the asset. */
export const ONE = 1_000_000n;
/** 1,300 won per unit. */
export const PRICE = 1_300n * 10n ** 12n;

export interface P2pScene {
  readonly world: World;
  readonly rail: Rail;
  readonly matcher: Matcher;
  buy(fields?: Partial<DepositOrderRequest>): Promise<string>;
  sell(fields?: Partial<WithdrawOrderRequest>): Promise<string>;
  tryBuy(fields?: Partial<DepositOrderRequest>): Promise<CreateOutcome>;
  trySell(fields?: Partial<WithdrawOrderRequest>): Promise<CreateOutcome>;
  deposit(id: string, partnerId?: string): Promise<ReadDeposit>;
  withdraw(id: string): Promise<ReadWithdraw>;
  /** Matcher and engine, until nothing is left to do now. */
  settleDown(): Promise<void>;
  /** The seller's partner says that a leg was paid. */
  confirm(legId: string, fiatAmount?: string): ReturnType<typeof confirmLeg>;
  available(partnerId: string): Promise<bigint>;
  events(orderId: string): Promise<string[]>;
  /** Moves everything's time on by moving deadlines back. */
  later(ms: number): Promise<void>;
}

export interface P2pOptions {
  readonly lp?: NoopBehaviour;
  readonly capabilities?: Partial<Capabilities>;
  readonly rail?: (ports: Ports) => Rail;
  /** Absent: a route from one unit to a thousand. */
  readonly routes?: readonly {
    readonly rail?: string;
    readonly min: bigint;
    readonly max: bigint;
    readonly priority?: number;
  }[];
  readonly feeBp?: number;
  readonly label?: string;
  readonly connectionsMax?: number;
  /** Absent: those of `makeWorld`. */
  readonly chain?: string;
  readonly contract?: string;
  readonly fundUnits?: bigint;
}

/** A group that trades the world's asset for won, and who belongs to it. */
export async function openMarket(
  { pool, assetId }: Pick<World, 'pool' | 'assetId'>,
  group: string,
  partners: readonly string[],
  feeBp = 0,
): Promise<void> {
  await pool.query('insert into payonce.p2p_groups (name) values ($1)', [group]);
  for (const partner of partners)
    await pool.query('insert into payonce.p2p_members (partner_id, group_name) values ($1, $2)', [partner, group]);
  await pool.query(
    `insert into payonce.p2p_markets (group_name, asset_id, fiat, fiat_decimals, order_min, order_max, leg_min, fee_bp, pay_within_ms, order_for_ms)
     values ($1, $2, 'KRW', 0, $3, $4, $3, $5, 900000, 3600000)`,
    [group, assetId, ONE, 100_000n * ONE, feeBp],
  );
}

export async function makeP2pScene(options: P2pOptions = {}): Promise<P2pScene> {
  const made: Rail[] = [];
  const world = await makeWorld({
    label: options.label ?? 'p2p',
    rails: (ports) => {
      made.push(options.rail?.(ports) ?? makeNoopRail('escrow:lp', options.lp ?? {}, options.capabilities));
      return made;
    },
    flows: (chart, makeId) => [makeWithdrawals(chart), ...makeP2pFlows(chart, makeId)],
    ...(options.connectionsMax === undefined ? {} : { connectionsMax: options.connectionsMax }),
    ...(options.chain === undefined ? {} : { chain: options.chain }),
    ...(options.contract === undefined ? {} : { contract: options.contract }),
    ...(options.fundUnits === undefined ? {} : { fundUnits: options.fundUnits }),
  });
  const [rail] = made;
  assert.ok(rail !== undefined);
  const { pool, assetId } = world;
  await pool.query("insert into payonce.partners (id, name) values ($1, 'Buyers')", [BUYER]);
  await openMarket(world, 'asia', [SELLER, BUYER], options.feeBp);
  for (const [index, route] of (options.routes ?? [{ min: ONE, max: 1_000n * ONE }]).entries())
    await pool.query(
      `insert into payonce.p2p_routes (group_name, asset_id, fiat, rail, account, priority, min, max) values ('asia', $1, 'KRW', $2, 'lp-account', $3, $4, $5)`,
      [assetId, route.rail ?? rail.name, route.priority ?? index, route.min, route.max],
    );
  await pool.query(
    "insert into payonce.signers (rail, address, label, next_nonce) values ($1, 'lp-account', 'lp', 0)",
    [rail.name],
  );
  const matcher = makeMatcher(world.engine, world.log);
  let counter = 0;
  const common = (partnerId: string): Omit<DepositOrderRequest, 'takesPart'> => {
    counter += 1;
    return {
      partnerId,
      idempotencyKey: `order-${counter}`,
      fingerprint: `order-${counter}`,
      externalId: null,
      assetId,
      fiat: 'KRW',
      userRef: `user-${partnerId}-${counter}`,
      amount: 100n * ONE,
      price: PRICE,
      forMs: null,
    };
  };
  const tryBuy = async (fields: Partial<DepositOrderRequest> = {}): Promise<CreateOutcome> => {
    const [outcome] = await createDepositOrders(world.engine, [{ ...common(BUYER), takesPart: true, ...fields }]);
    assert.ok(outcome !== undefined);
    return outcome;
  };
  const trySell = async (fields: Partial<WithdrawOrderRequest> = {}): Promise<CreateOutcome> => {
    const [outcome] = await createWithdrawOrders(world.engine, [
      { ...common(SELLER), bankCode: '004', accountNumber: '1234567890', holderName: 'Kim', ...fields },
    ]);
    assert.ok(outcome !== undefined);
    return outcome;
  };
  const idOf = (outcome: CreateOutcome): string => {
    assert.equal(outcome.outcome, 'created', JSON.stringify(outcome));
    return outcome.outcome === 'created' ? outcome.id : '';
  };
  return {
    world,
    rail,
    matcher,
    tryBuy,
    trySell,
    buy: async (fields) => idOf(await tryBuy(fields)),
    sell: async (fields) => idOf(await trySell(fields)),
    async deposit(id, partnerId = BUYER) {
      const found = await readDepositOrder(pool, partnerId, id);
      assert.ok(found !== null, `no deposit order ${id}`);
      return found;
    },
    async withdraw(id) {
      const found = await readWithdrawOrder(pool, SELLER, id);
      assert.ok(found !== null, `no withdraw order ${id}`);
      return found;
    },
    async settleDown() {
      for (let idle = 0; idle < 2; ) {
        await pool.query(
          'update payonce.effects set next_at = payonce.now() where ended_at is null and lease_until is null',
        );
        const worked = await matcher.runOnce();
        await advanceOnce(world.engine, rail);
        idle = worked ? 0 : idle + 1;
      }
    },
    async confirm(legId, fiatAmount) {
      const { rows } = await pool.query<{ fiat: bigint }>(
        'select fiat_amount as fiat from payonce.p2p_legs where id = $1',
        [legId],
      );
      return confirmLeg(pool, world.engine, {
        partnerId: SELLER,
        legId,
        fiatAmount: fiatAmount ?? String(rows[0]?.fiat),
      });
    },
    async available(partnerId) {
      const { rows } = await pool.query<{ free: bigint }>(
        "select balance - held as free from payonce.accounts where code = 'partner:' || $1 and asset_id = $2",
        [partnerId, assetId],
      );
      return rows[0]?.free ?? 0n;
    },
    async events(orderId) {
      const { rows } = await pool.query<{ type: string }>(
        'select type from payonce.events where subject_id = $1 order by sequence',
        [orderId],
      );
      return rows.map((row) => row.type.slice(row.type.indexOf('.') + 1));
    },
    async later(ms) {
      const moved = `- make_interval(secs => ${ms / 1_000})`;
      await pool.query(
        `update payonce.p2p_deposit_orders set expires_at = greatest(expires_at ${moved}, created_at + interval '1 ms'), next_at = next_at ${moved}, claimed_at = claimed_at ${moved}`,
      );
      await pool.query(
        `update payonce.p2p_withdraw_orders set expires_at = greatest(expires_at ${moved}, created_at + interval '1 ms')`,
      );
      await pool.query(`update payonce.p2p_legs set pay_by = pay_by ${moved} where pay_by is not null`);
    },
  };
}
