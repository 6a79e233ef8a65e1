/**
 * The product itself, wired from a configuration file's content over the simulated TRON: two nodes with operators of their own,
 * USDT whose transfer answers false, a master wallet with a known key, a keystore for deposit addresses.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { advanceOnce } from '../../src/engine/advance.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { accountName } from '../../src/ledger/accounts.ts';
import { post } from '../../src/ledger/post.ts';
import { type Config, readConfig, type TronConfig } from '../../src/main/config.ts';
import { openKeys } from '../../src/main/keys.ts';
import { registerChain } from '../../src/main/register.ts';
import { openApp } from '../../src/main/serve.ts';
import type { App, WiredChain } from '../../src/main/wire.ts';
import { devKeys } from '../../src/rails/dev-keys.ts';
import { openKeyFiles } from '../../src/rails/keystore.ts';
import { canonicalAddress, makeLocalSigner, signerOf, type TronSigner } from '../../src/rails/tron/index.ts';
import { startTron, type Tron, type TronOptions } from '../../sim/tron/tron.ts';
import { testDatabase } from './postgres.ts';

export const TRX = 1_000_000n;
export const PARTNER = 'par_tron';
/** The stranger moves TRX in each block, so that nodes have something to show. */
const [MASTER = '', GAS = '', STRANGER = '', RELAYER = ''] = devKeys().map(({ address }) => canonicalAddress(address));
/** Where realizations go; nobody here has its key. */
export const SETTLEMENT = canonicalAddress(`0x${'5e771e'.padEnd(40, '5')}`);
export { RELAYER };

export interface TronApp {
  readonly app: App;
  readonly chain: WiredChain;
  readonly tron: Tron;
  readonly token: string;
  readonly tokenAssetId: string;
  readonly master: string;
  readonly gas: string;
  readonly relayer: string;
  readonly stranger: string;
  readonly config: Config;
  readonly url: string;
  mine(blocks?: number): void;
  /** Everything due now, on all rails, one pass. */
  pass(): Promise<void>;
  /** Passes, scans and blocks until nothing of ours is open, or gives up. */
  drain(rounds?: number): Promise<void>;
  rows<R extends Record<string, unknown>>(sql: string, values?: readonly unknown[]): Promise<R[]>;
  balance(code: string, assetId: string): Promise<bigint>;
  /** Credits the partner, out of the master's custody. */
  fund(units: bigint): Promise<void>;
  /** The same configuration and database, opened anew, as after a restart. */
  reopen(): Promise<TronApp>;
  end(): Promise<void>;
}

export interface TronAppOptions {
  readonly label: string;
  readonly sim?: TronOptions;
  readonly token?: Parameters<Tron['deployToken']>[0];
  /** Of USDT. */
  readonly asset?: Partial<TronConfig['assets'][number]>;
  readonly network?: Partial<TronConfig>;
  readonly config?: Partial<Config>;
  /** A wallet of the kind GAS is configured. */
  readonly gasWallet?: boolean;
  /** A wallet of the kind SETTLEMENT is configured, for all partners. */
  readonly settlementWallet?: boolean;
  /** Before the application is wired. */
  readonly prepare?: (tron: Tron, token: string) => Promise<Partial<TronConfig>>;
}

const open = new Set<TronApp>();
after(async () => {
  for (const one of open) await one.end();
});

export function tronConfig(tron: Tron, token: string, options: TronAppOptions): TronConfig {
  const limits = { min: '0.000001', max: '1000000', dayMax: '1000000000', feeFlat: '0', feeBasisPoints: 0 };
  return {
    network: 'test',
    genesisId: tron.genesisId,
    nodes: tron.nodes.map((node, index) => ({ url: node.url, operator: `operator-${index + 1}` })),
    feeLimitCapSun: String(100n * TRX),
    energy: { burnUpToSun: String(50n * TRX) },
    lookEveryMs: 50,
    resendAfterMs: 100,
    assets: [
      {
        code: 'USDT',
        contract: token,
        decimals: 6,
        wallet: MASTER,
        withdrawal: limits,
        ownAddress: 'allow_deposit_addresses',
        ...options.asset,
      },
      { code: 'TRX', contract: null, decimals: 6, wallet: MASTER, withdrawal: limits },
    ],
    ...options.network,
  };
}

/** Keys of the development accounts, and of deposit addresses made since. */
async function keyring(folder: string) {
  const ports = systemPorts();
  const files = await openKeyFiles(folder, 'test', ports.chance, 1_024);
  const [dev, own] = [makeLocalSigner(devKeys().map(({ key }) => key)), signerOf(files)];
  const tron: TronSigner = {
    addresses: () => [...dev.addresses(), ...own.addresses()],
    holds: async (address) => (await dev.holds(address)) || own.holds(address),
    sign: async (address, txId) => ((await dev.holds(address)) ? dev : own).sign(address, txId),
  };
  const { evm } = await openKeys(readConfig({ PAYONCE_LOG: 'silent' }), ports);
  return { evm, tron, newAddress: () => files.createAddress() };
}

export async function startTronApp(options: TronAppOptions): Promise<TronApp> {
  const tron = await startTron({ nodes: [{ name: 'a' }, { name: 'b' }], ...options.sim });
  const token = tron.deployToken(options.token);
  tron.fund(MASTER, 10_000n * TRX);
  tron.fund(GAS, 10_000n * TRX);
  tron.fund(STRANGER, 1_000_000n * TRX);
  tron.fundToken(token, MASTER, 1_000_000n * TRX);
  tron.fundToken(token, STRANGER, 1_000_000n * TRX);
  const database = await testDatabase(options.label);
  const folder = await mkdtemp(join(tmpdir(), 'payonce-tron-'));
  const sink = canonicalAddress(`0x${'5e'.repeat(20)}`);
  const mine = (blocks = 1): void => {
    for (let made = 0; made < blocks; made += 1) {
      tron.act(STRANGER, { kind: 'send', to: sink, sun: 1n });
      tron.mine();
    }
  };
  tron.fund(sink, 1n);
  mine(25);
  const network = { ...tronConfig(tron, token, options), ...(await options.prepare?.(tron, token)) };
  const config: Config = {
    ...readConfig({ PAYONCE_LOG: 'silent', PAYONCE_LEASE_MS: '2000' }),
    tron: [network],
    wallets: [
      ...(options.gasWallet === true ? [{ chain: tron.rail, address: GAS, kind: 'GAS' as const }] : []),
      ...(options.settlementWallet === true
        ? [{ chain: tron.rail, address: SETTLEMENT, kind: 'SETTLEMENT' as const }]
        : []),
    ],
    ...options.config,
  };
  const openOnce = async (): Promise<TronApp> => {
    const app = await openApp(
      config,
      { url: database.url, stop: () => Promise.resolve() },
      { keys: await keyring(folder) },
    );
    const [chain] = app.chains;
    if (chain === undefined) throw new Error('no chain was wired');
    await app.pool.query(
      "insert into payonce.partners (id, name) values ($1, 'Test partner') on conflict (id) do nothing",
      [PARTNER],
    );
    await registerChain(app, chain);
    let funded = 0;
    const one: TronApp = {
      app,
      chain,
      tron,
      token,
      tokenAssetId: chain.assetIdOf(token),
      master: MASTER,
      gas: GAS,
      relayer: RELAYER,
      stranger: STRANGER,
      config,
      url: database.url,
      mine,
      async pass() {
        await app.pool.query(
          "update payonce.effects set next_at = payonce.now() - interval '1 second' where ended_at is null and lease_until is null",
        );
        for (const rail of app.engine.rails.values()) await advanceOnce(app.engine, rail);
      },
      async drain(rounds = 60) {
        for (let round = 0; round < rounds; round += 1) {
          await one.pass();
          await chain.scanner.runOnce();
          const left = await app.pool.query('select 1 from payonce.effects where ended_at is null limit 1');
          if (left.rowCount === 0) return;
          mine(5);
        }
      },
      rows: async <R extends Record<string, unknown>>(sql: string, values?: readonly unknown[]) =>
        (await app.pool.query<R>(sql, values)).rows,
      async balance(code, assetId) {
        const { rows } = await app.pool.query<{ balance: bigint }>(
          'select balance from payonce.accounts where code = $1 and asset_id = $2',
          [code, assetId],
        );
        return rows[0]?.balance ?? 0n;
      },
      async fund(units) {
        funded += 1;
        await app.pool.tx('fund', async (tx) => {
          const [to, from] = await app.engine.chart.ids(tx, [
            accountName.partner(PARTNER, one.tokenAssetId),
            accountName.custody(chain.chain, MASTER, one.tokenAssetId),
          ]);
          if (to === undefined || from === undefined) throw new Error('no account');
          const entries = [
            { accountId: to, amount: units },
            { accountId: from, amount: -units },
          ];
          await post(tx, [{ kind: 'post', key: `MIGRATED:fund-${funded}`, reference: 'fund', entries }]);
        });
      },
      async reopen() {
        open.delete(one);
        await app.close();
        return openOnce();
      },
      async end() {
        if (!open.delete(one)) return;
        await app.close();
        await database.drop();
        await tron.stop();
        await rm(folder, { recursive: true, force: true });
      },
    };
    open.add(one);
    return one;
  };
  return openOnce();
}
