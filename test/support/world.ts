/**
 * A small world for tests: a migrated database of its own, a pool, one partner with a funded account, one asset with its
 * policy, a signer with its wallet, and an engine over the rails that the test gives.
 */
import { after } from 'node:test';
import { makeEngine } from '../../src/engine/engine.ts';
import type { EngineDeps } from '../../src/engine/deps.ts';
import type { Flow } from '../../src/engine/flow.ts';
import type { Rail } from '../../src/engine/rail.ts';
import { makeWithdrawals, type WithdrawalRequest } from '../../src/flows/withdrawals/index.ts';
import { makePool, type Pool } from '../../src/db/pool.ts';
import { type MakeId, makeIds } from '../../src/kernel/ids.ts';
import { type Log, silentLog } from '../../src/kernel/log.ts';
import { type Ports, systemPorts } from '../../src/kernel/ports.ts';
import { accountName, type Chart, makeChart } from '../../src/ledger/accounts.ts';
import { post } from '../../src/ledger/post.ts';
import { testDatabase } from './postgres.ts';

export interface World {
  readonly url: string;
  readonly pool: Pool;
  readonly ports: Ports;
  readonly log: Log;
  readonly makeId: MakeId;
  readonly chart: Chart;
  readonly engine: EngineDeps;
  readonly partnerId: string;
  readonly assetId: string;
  readonly coinAssetId: string;
  readonly wallet: string;
  /** A request of the partner; key and fields as given, else unique. */
  request(fields?: Partial<WithdrawalRequest>): WithdrawalRequest;
  /** Credits the partner, out of the wallet's custody; the world's asset unless another one is named. */
  fund(units: bigint, partnerId?: string, of?: { assetId: string; chain: string; wallet: string }): Promise<void>;
  end(): Promise<void>;
}

export interface WorldOptions {
  label?: string;
  rails: (ports: Ports) => readonly Rail[];
  chain?: string;
  contract?: string | null;
  decimals?: number;
  wallet?: string;
  wallets?: readonly string[];
  fundUnits?: bigint;
  leaseMs?: number;
  /** Absent: withdrawals. */
  flows?: (chart: Chart, makeId: MakeId) => readonly Flow[];
  /** Absent: made from chain and contract. */
  assetId?: string;
  /** Absent: USDT. */
  assetCode?: string;
  feeFlat?: bigint;
  log?: Log;
  connectionsMax?: number;
  /** Ended by a hook of the file's own, which may run after ours. */
  endedByHook?: boolean;
}

const PARTNER = 'par_test';

/** A test that fails leaves its world open: ended here, else the file's process would live on with its connections. */
const open = new Set<World>();
after(async () => {
  for (const world of open) await world.end();
});

export async function makeWorld(options: WorldOptions): Promise<World> {
  const database = await testDatabase(options.label ?? 'world');
  const { url } = database;
  const ports = systemPorts();
  const log = options.log ?? silentLog;
  const pool = makePool({ url, ports, log, connectionsMax: options.connectionsMax ?? 8 });
  const makeId = makeIds(ports.clock, ports.chance);
  const chart = makeChart();
  const rails = options.rails(ports);
  const engine = await makeEngine({
    pool,
    ports,
    log,
    makeId,
    chart,
    flows: options.flows?.(chart, makeId) ?? [makeWithdrawals(chart)],
    rails,
    leaseMs: options.leaseMs ?? 30_000,
  });
  const chain = options.chain ?? 'noop';
  const contract = options.contract === undefined ? 'token' : options.contract;
  // CAIP-19, as the configuration makes them.
  const assetId = options.assetId ?? (contract === null ? `${chain}/slip44:60` : `${chain}/erc20:${contract}`);
  const coinAssetId = `${chain}/slip44:60`;
  const wallet = options.wallet ?? 'wallet-1';
  const rail = rails[0]?.name ?? 'noop';
  await pool.tx('world', async (tx) => {
    await tx.query('insert into payonce.partners (id, name, time_zone) values ($1, $2, $3)', [
      PARTNER,
      'Test partner',
      'Asia/Seoul',
    ]);
    await tx.query('insert into payonce.assets (id, code, chain, contract, decimals) values ($1, $2, $3, $4, $5)', [
      assetId,
      options.assetCode ?? 'USDT',
      chain,
      contract,
      options.decimals ?? 6,
    ]);
    if (coinAssetId !== assetId)
      await tx.query('insert into payonce.assets (id, code, chain, contract, decimals) values ($1, $2, $3, null, 18)', [
        coinAssetId,
        'COIN',
        chain,
      ]);
    for (const one of options.wallets ?? [wallet]) {
      await tx.query('insert into payonce.signers (rail, address, label, next_nonce) values ($1, $2, $3, 0)', [
        rail,
        one,
        'hot',
      ]);
      await tx.query('insert into payonce.addresses (id, chain, address, kind) values ($1, $2, $3, $4)', [
        makeId('adr'),
        chain,
        one,
        'MASTER',
      ]);
    }
    await tx.query(
      `insert into payonce.asset_policies (asset_id, rail, wallet, withdrawal_max, withdrawal_day_max, withdrawal_fee_flat)
       values ($1, $2, $3, 1000000000000, 1000000000000000, $4)`,
      [assetId, rail, wallet, options.feeFlat ?? 0n],
    );
  });
  let counter = 0;
  let ended = false;
  const world: World = {
    url,
    pool,
    ports,
    log,
    makeId,
    chart,
    engine,
    assetId,
    coinAssetId,
    wallet,
    partnerId: PARTNER,
    request(fields = {}) {
      counter += 1;
      const idempotencyKey = fields.idempotencyKey ?? `key-${counter}`;
      return {
        partnerId: PARTNER,
        idempotencyKey,
        fingerprint: `body-of-${idempotencyKey}`,
        externalId: null,
        purpose: 'customer',
        assetId,
        amount: 1_000_000n,
        destination: 'somebody',
        reference: null,
        ...fields,
      };
    },
    async fund(units, partnerId = PARTNER, of = { assetId, chain, wallet }) {
      counter += 1;
      await pool.tx('fund', async (tx) => {
        const [to, from] = await chart.ids(tx, [
          accountName.partner(partnerId, of.assetId),
          accountName.custody(of.chain, of.wallet, of.assetId),
        ]);
        if (to === undefined || from === undefined) throw new Error('no account');
        await post(tx, [
          {
            kind: 'post',
            key: `MIGRATED:fund-${counter}`,
            reference: 'fund',
            entries: [
              { accountId: to, amount: units },
              { accountId: from, amount: -units },
            ],
          },
        ]);
      });
    },
    async end() {
      if (ended) return;
      ended = true;
      open.delete(world);
      await pool.end();
      await database.drop();
    },
  };
  if (options.endedByHook !== true) open.add(world);
  if ((options.fundUnits ?? 1_000_000_000n) > 0n) await world.fund(options.fundUnits ?? 1_000_000_000n);
  return world;
}

/** What a partner's account shows. */
export async function balanceOf(
  world: World,
  code = `partner:${PARTNER}`,
  assetId = world.assetId,
): Promise<{ balance: bigint; held: bigint }> {
  const { rows } = await world.pool.query<{ balance: bigint; held: bigint }>(
    'select balance, held from payonce.accounts where code = $1 and asset_id = $2',
    [code, assetId],
  );
  return rows[0] ?? { balance: 0n, held: 0n };
}

/** Collects log lines for tests that count them. */
export function collectingLog(): Log & {
  lines: { level: string; fields: Record<string, unknown>; message: string }[];
} {
  const lines: { level: string; fields: Record<string, unknown>; message: string }[] = [];
  const write =
    (level: string) =>
    (fields: object, message: string): void => {
      lines.push({ level, fields: { ...fields }, message });
    };
  return { lines, info: write('info'), warn: write('warn'), error: write('error'), debug: write('debug') };
}
