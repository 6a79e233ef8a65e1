/*
 * An engine that pays over the simulated TRON and rents the energy for it at the simulated market: in this process, or in one
 * of its own that kills itself at a port call (`supplyWorker`), as a worker is killed between renting and sealing.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { makePool, type Pool } from '../../src/db/pool.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import type { EngineDeps } from '../../src/engine/deps.ts';
import { makeEngine } from '../../src/engine/engine.ts';
import {
  ENERGY_GIVE_UP_MS,
  type EnergyPolicy,
  makeSupplies,
  makeSupplyFlows,
  type SupplyPolicy,
} from '../../src/flows/supplies/index.ts';
import { makeWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { makeIds } from '../../src/kernel/ids.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { type Cut, systemPorts } from '../../src/kernel/ports.ts';
import { makeChart } from '../../src/ledger/accounts.ts';
import { energyMarket, makeEnergyRail } from '../../src/rails/energy/index.ts';
import { makeLocalSigner, makeTronRail } from '../../src/rails/tron/index.ts';

export const MARKET_ACCOUNT = 'prepaid-1';
export const MARKET_RAIL = 'energy:main';
const TRX = 1_000_000n;

export interface SupplyPlace {
  readonly databaseUrl: string;
  /** CAIP-2, and the rail's name. */
  readonly chain: string;
  readonly genesisId: string;
  readonly nodes: readonly string[];
  readonly keys: readonly `0x${string}`[];
  readonly market: { readonly url: string; readonly apiKey: string };
  readonly gasWallets?: readonly string[];
  readonly whenNone?: EnergyPolicy['whenNone'];
}

export interface SupplyEngine {
  readonly engine: EngineDeps;
  readonly pool: Pool;
  /** Everything due, on both rails, once. */
  pass(): Promise<void>;
  close(): Promise<void>;
}

export function policyFor(place: SupplyPlace): SupplyPolicy {
  const coinAssetId = `${place.chain}/slip44:60`;
  return {
    gas: [
      {
        chain: place.chain,
        rail: place.chain,
        coinAssetId,
        wallets: place.gasWallets ?? [],
        level: 20n * TRX,
        amountMax: 100n * TRX,
      },
    ],
    energy: [
      {
        chain: place.chain,
        market: {
          rail: MARKET_RAIL,
          account: MARKET_ACCOUNT,
          coinAssetId,
          priceMaxPerUnit: 10n,
          durationMs: 3_600_000,
          unitsMin: 32_000n,
          unitsMax: 400_000n,
        },
        giveUpAfterMs: ENERGY_GIVE_UP_MS,
        whenNone: place.whenNone ?? { act: 'wait' },
      },
    ],
    watched: [],
  };
}

export async function makeSupplyEngine(place: SupplyPlace, cut?: Cut): Promise<SupplyEngine> {
  const ports = systemPorts(cut);
  const pool = makePool({ url: place.databaseUrl, ports, log: silentLog, connectionsMax: 4 });
  const chart = makeChart();
  const makeId = makeIds(ports.clock, ports.chance);
  const chain = makeTronRail(
    {
      name: place.chain,
      genesisId: place.genesisId,
      nodes: place.nodes.map((url, index) => ({ url, operator: `operator-${index}` })),
      coinAssetId: `${place.chain}/slip44:60`,
      feeLimitCapSun: 100n * TRX,
      capabilities: { lookEveryMs: 20, resendAfterMs: 100 },
    },
    { ports, signer: makeLocalSigner(place.keys) },
  );
  const market = makeEnergyRail(
    {
      name: MARKET_RAIL,
      profile: energyMarket,
      baseUrl: place.market.url,
      account: MARKET_ACCOUNT,
      secret: () => place.market.apiKey,
      deployment: 'test',
      capabilities: { lookEveryMs: 20, resendAfterMs: 100 },
    },
    { ports, http: { timeoutMs: 1_000 } },
  );
  const supplies = makeSupplies({ pool, makeId, log: silentLog }, policyFor(place));
  const engine = await makeEngine({
    pool,
    ports,
    log: silentLog,
    makeId,
    chart,
    flows: [makeWithdrawals(chart), ...makeSupplyFlows(chart, silentLog, makeId)],
    rails: [chain, market],
    supply: supplies.port,
    leaseMs: 1_000,
  });
  return {
    engine,
    pool,
    async pass() {
      for (const rail of engine.rails.values()) await advanceOnce(engine, rail);
    },
    async close() {
      await chain.close();
      await market.close();
      await pool.end();
    },
  };
}

export interface SupplyWorker {
  readonly process: ChildProcess;
  readonly gone: Promise<string | null>;
}

/** A worker in a process of its own, which dies by SIGKILL at the cut. */
export function supplyWorker(place: SupplyPlace, cut: Cut): SupplyWorker {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify({ place, cut })], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  return { process: child, gone: once(child, 'exit').then(([, signal]) => signal as string | null) };
}

if (process.argv[1] === fileURLToPath(import.meta.url) && process.send !== undefined) {
  const { place, cut } = JSON.parse(process.argv[2] ?? '{}') as { place: SupplyPlace; cut: Cut };
  process.on('disconnect', () => process.exit(0));
  const worker = await makeSupplyEngine(place, cut);
  for (;;) {
    await worker.pass();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
