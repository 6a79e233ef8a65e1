/**
 * The stage for tests of deposits: a real chain with a token, one or more nodes that can misbehave, a database of its own
 * with partners and addresses of every kind, and scanners over them. The chain's own balances judge the books.
 */
import assert from 'node:assert/strict';
import type { Address, Hex } from 'viem';
import { type Anvil, type AnvilOptions, type DevAccount, startAnvil } from '../../sim/anvil.ts';
import { type EvmProxy, startEvmProxy } from '../../sim/evm-proxy.ts';
import { deployToken, mintTokens, nativeBalance, sendAndMine, tokenBalance, transferData } from '../../sim/evm-send.ts';
import type { Json, JsonObject } from '../../sim/json-rpc.ts';
import { makePool, type Pool } from '../../src/db/pool.ts';
import { quarantineWallet } from '../../src/engine/quarantine.ts';
import { makeScanner, type Scanner, type ScannerDeps } from '../../src/flows/deposits/index.ts';
import { makeIds } from '../../src/kernel/ids.ts';
import { systemPorts } from '../../src/kernel/ports.ts';
import { makeChart } from '../../src/ledger/accounts.ts';
import { type EvmRail, makeDevSigner, makeEvmRail, readAddress } from '../../src/rails/evm/index.ts';
import { testDatabase } from './postgres.ts';
import { collectingLog } from './world.ts';

export const CHAIN = 'eip155:31337';
export const RAIL = 'evm:31337';
export const UNIT = 1_000_000n;

export type OwnKind = 'MASTER' | 'DEPOSIT' | 'SETTLEMENT' | 'GAS' | 'RELAYER' | 'ADMIN';

export interface DepositScene {
  readonly chain: Anvil;
  readonly nodes: readonly EvmProxy[];
  readonly rail: EvmRail;
  readonly pool: Pool;
  readonly deps: ScannerDeps;
  readonly log: ReturnType<typeof collectingLog>;
  readonly token: Address;
  readonly owner: DevAccount;
  /** Somebody outside, with tokens. */
  readonly payer: DevAccount;
  scanner(change?: Partial<ScannerDeps>): Scanner;
  /** Registers an address of ours; without one given, an address that nobody has used. */
  own(kind: OwnKind, partnerId?: string | null, address?: string): Promise<Address>;
  pay(to: string, units: bigint, from?: DevAccount): Promise<JsonObject>;
  /** Makes what is mined now final. */
  finalize(): Promise<void>;
  balance(code: string, assetId?: string): Promise<bigint>;
  rows<R extends Record<string, unknown>>(sql: string, values?: readonly unknown[]): Promise<R[]>;
  end(): Promise<void>;
}

export interface SceneOptions extends AnvilOptions {
  readonly label: string;
  readonly nodeCount?: number;
  readonly scanner?: Partial<ScannerDeps>;
}

export async function startDepositScene(options: SceneOptions): Promise<DepositScene> {
  const chain = await startAnvil({ mining: 'instant', ...options });
  const [owner, payer] = chain.accounts;
  assert.ok(owner && payer);
  const token = await deployToken(chain, owner.privateKey);
  await mintTokens(chain, owner.privateKey, token, payer.address, 1_000_000n * UNIT);
  const nodes: EvmProxy[] = [];
  for (let index = 0; index < (options.nodeCount ?? 1); index += 1)
    nodes.push(await startEvmProxy({ upstream: chain.url }));
  const ports = systemPorts();
  const rail = makeEvmRail(
    {
      name: RAIL,
      chainId: 31_337n,
      nodes: nodes.map((node, index) => ({ url: node.url, operator: `operator-${index + 1}` })),
      finality: { tag: 'finalized' },
      feeCapWei: 10n ** 12n,
      gasLimitCap: 1_000_000n,
      coinAssetId: 'coin',
    },
    { ports, signer: makeDevSigner(4), http: { timeoutMs: 5_000 } },
  );
  const database = await testDatabase(options.label);
  const log = collectingLog();
  const pool = makePool({ url: database.url, ports, log, connectionsMax: 8 });
  await prepare(pool, token);
  const makeId = makeIds(ports.clock, ports.chance);
  const deps: ScannerDeps = {
    pool,
    log,
    makeId,
    chart: makeChart(),
    chain: CHAIN,
    rail: RAIL,
    nodes: rail.blocks,
    canonical(text) {
      const read = readAddress(text);
      return read.ok ? read.address : null;
    },
    onUnknownMovement: (tx, moved) =>
      quarantineWallet(tx, { makeId, log }, { ...moved, reason: `unknown ${moved.txHash}` }),
    firstBlock: 1n,
    ...options.scanner,
  };
  let fresh = 0;
  return {
    chain,
    nodes,
    rail,
    pool,
    deps,
    log,
    token,
    owner,
    payer,
    scanner: (change = {}) => makeScanner({ ...deps, ...change }),
    async own(kind, partnerId = kind === 'DEPOSIT' ? 'par_a' : null, address) {
      fresh += 1;
      const chosen = (address ?? `0x${(0xd0000n + BigInt(fresh)).toString(16).padStart(40, '0')}`).toLowerCase();
      await pool.query(
        'insert into payonce.addresses (id, chain, address, kind, partner_id) values ($1, $2, $3, $4, $5)',
        [makeId('adr'), CHAIN, chosen, kind, partnerId],
      );
      return chosen as Address;
    },
    pay: (to, units, from = payer) =>
      sendAndMine(chain, from.privateKey, { to: token, data: transferData(to as Hex, units) }),
    finalize: () => chain.mine(2),
    async balance(code, assetId = 'usdt') {
      const { rows } = await pool.query<{ balance: bigint }>(
        'select balance from payonce.accounts where code = $1 and asset_id = $2',
        [code, assetId],
      );
      return rows[0]?.balance ?? 0n;
    },
    rows: async <R extends Record<string, unknown>>(sql: string, values?: readonly unknown[]) =>
      (await pool.query<R>(sql, values)).rows,
    async end() {
      await rail.close();
      await Promise.all(nodes.map((node) => node.stop()));
      await pool.end();
      await database.drop();
      await chain.stop();
    },
  };
}

/** A JSON text, and nothing else. */
export function textIn(value: Json | undefined): string {
  assert.equal(typeof value, 'string');
  return value as string;
}

/** Two partners; a flat fee of 0.1 and 1 % for the first, none for the second. */
async function prepare(pool: Pool, token: string): Promise<void> {
  await pool.tx('scene', async (tx) => {
    await tx.query(`insert into payonce.partners (id, name) values ('par_a', 'A'), ('par_b', 'B')`);
    await tx.query(`insert into payonce.assets (id, code, chain, contract, decimals)
      values ('usdt', 'USDT', '${CHAIN}', '${token}', 6), ('coin', 'ETH', '${CHAIN}', null, 18)`);
    await tx.query(`insert into payonce.rails (name) values ('${RAIL}') on conflict do nothing`);
    await tx.query(`insert into payonce.asset_policies
        (asset_id, partner_id, rail, wallet, withdrawal_max, withdrawal_day_max, deposit_fee_flat, deposit_fee_bp)
      values ('usdt', '*', '${RAIL}', 'hot', 1000000000, 1000000000, 100000, 100),
             ('usdt', 'par_b', '${RAIL}', 'hot', 1000000000, 1000000000, 0, 0)`);
  });
}

/** Inv I2 for tokens: what the ledger says that we hold at each address is what the chain says, to the unit. */
export async function assertCustodyMatchesChain(
  scene: DepositScene,
  assets: readonly ('usdt' | 'coin')[] = ['usdt'],
): Promise<void> {
  const addresses = await scene.rows<{ address: Address }>('select address from payonce.addresses where chain = $1', [
    CHAIN,
  ]);
  for (const { address } of addresses) {
    for (const asset of assets) {
      const shown =
        asset === 'usdt'
          ? await tokenBalance(scene.chain, scene.token, address)
          : await nativeBalance(scene.chain, address);
      assert.equal(
        -(await scene.balance(`custody:${CHAIN}:${address}`, asset)),
        shown,
        `custody of ${address} in ${asset}`,
      );
    }
  }
  const sums = await scene.rows<{ asset_id: string; sum: bigint }>(
    'select asset_id, sum(balance) as sum from payonce.accounts group by 1',
  );
  assert.ok(
    sums.every((one) => one.sum === 0n),
    'each asset sums to 0 over all accounts (inv L1)',
  );
}
