/**
 * A world that pays over one bank: a database, an engine with the transfers flow, the rail to a simulated bank, a funded
 * partner and a request of it. Closed by `end`.
 */
import assert from 'node:assert/strict';
import { makePool, type Pool } from '../../src/db/pool.ts';
import type { EngineDeps } from '../../src/engine/deps.ts';
import type { Rail } from '../../src/engine/rail.ts';
import { createOperator, type Operator } from '../../src/engine/operators.ts';
import { createTransfers, makeTransfers, readTransfer, type TransferRequest } from '../../src/flows/transfers/index.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { type BankRail, type BankRailConfig, makeBankRail, PROFILES } from '../../src/rails/bank/index.ts';
import { intentFor } from '../rails/bank-scene.ts';
import { makeWorld, type World } from './world.ts';

export const AMOUNT = 12_500n;
export const FUNDS = 1_000_000_000n;
const PROVIDER_ACCOUNT = 'acc_1';

export interface BankWorldOptions {
  readonly label: string;
  readonly profile: string;
  readonly url: string;
  readonly secret: () => string;
  /** As configured: the rail is `bank:{name}`. */
  readonly name?: string;
  readonly config?: Partial<Pick<BankRailConfig, 'capabilities' | 'direct' | 'narrower' | 'deployment'>>;
  readonly timeoutMs?: number;
  readonly connectionsMax?: number;
  readonly fundUnits?: bigint;
  readonly feeFlat?: bigint;
  /** Stands between the engine and the rail. */
  readonly between?: (rail: Rail) => Rail;
}

export interface BankWorld extends World {
  /** As the engine sees it. */
  readonly rail: Rail;
  readonly bankRail: BankRail;
  readonly currency: string;
  transferRequest(key: string): TransferRequest;
  /** Takes one transfer in; answers its id. */
  take(key: string): Promise<string>;
  person(name: string): Promise<Operator>;
  /** The same world through another connection string (a shifted clock, say). */
  at(url: string): { readonly pool: Pool; readonly engine: EngineDeps };
}

export async function makeBankWorld(options: BankWorldOptions): Promise<BankWorld> {
  const profile = PROFILES.find((one) => one.name === options.profile) ?? assert.fail(options.profile);
  const { asset, payee } = intentFor(profile);
  const name = `bank:${options.name ?? 'main'}`;
  const made: BankRail[] = [];
  const world = await makeWorld({
    label: options.label,
    rails(ports) {
      const rail = makeBankRail(
        {
          name,
          profile,
          baseUrl: options.url,
          account: PROVIDER_ACCOUNT,
          credential: { id: 'cred_1', secret: options.secret },
          deployment: 'test',
          ...options.config,
        },
        { ports, http: { timeoutMs: options.timeoutMs ?? 2_000 } },
      );
      made.push(rail);
      return [options.between?.(rail) ?? rail];
    },
    flows: (chart) => [makeTransfers(chart)],
    chain: name,
    contract: asset.code,
    assetId: `${name}/iso4217:${asset.code}`,
    assetCode: asset.code,
    decimals: asset.decimals,
    wallet: PROVIDER_ACCOUNT,
    fundUnits: options.fundUnits ?? FUNDS,
    ...(options.feeFlat === undefined ? {} : { feeFlat: options.feeFlat }),
    ...(options.connectionsMax === undefined ? {} : { connectionsMax: options.connectionsMax }),
  });
  const bankRail = made[0] ?? assert.fail();
  const transferRequest = (key: string): TransferRequest => {
    const read = readTransfer((input) => bankRail.readPayee(input), {
      partnerId: world.partnerId,
      idempotencyKey: key,
      fingerprint: `body of ${key}`,
      externalId: null,
      assetId: world.assetId,
      amount: AMOUNT,
      ...(payee ?? assert.fail()),
    });
    return read.ok ? read.request : assert.fail(JSON.stringify(read.faults));
  };
  return {
    ...world,
    rail: world.engine.rails.get(name) ?? assert.fail(),
    bankRail,
    currency: asset.code,
    transferRequest,
    async take(key) {
      const [created] = await createTransfers(world, [transferRequest(key)]);
      return created?.outcome === 'created' ? created.id : assert.fail(JSON.stringify(created));
    },
    async person(who) {
      const { operator } = await world.pool.tx('operator', (tx) =>
        createOperator(tx, world.makeId, world.ports.chance, who, 'approver', 'test'),
      );
      return operator;
    },
    at(url) {
      const pool = makePool({ url, ports: world.ports, log: silentLog, connectionsMax: 2 });
      return { pool, engine: { ...world.engine, pool } };
    },
    async end() {
      await bankRail.close();
      await world.end();
    },
  };
}
