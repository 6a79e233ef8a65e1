/**
 * The stage for collections on a real chain: master and gas wallet, deposit addresses whose keys are at hand, a scanner that
 * credits what comes, and supplies that bring gas. Deposits are made on the chain by somebody outside.
 */
import { encodeFunctionData, type Abi, type Address } from 'viem';
import { mintTokens, nativeBalance, sendAndMine, tokenBalance } from '../../sim/evm-send.ts';
import { testToken } from '../../sim/contracts/artifacts.ts';
import type { AnvilOptions, DevAccount } from '../../sim/anvil.ts';
import { advanceOnce } from '../../src/engine/advance.ts';
import type { EngineDeps } from '../../src/engine/deps.ts';
import { quarantineWallet } from '../../src/engine/quarantine.ts';
import { collectOnce, makeCollections } from '../../src/flows/collections/index.ts';
import { makeScanner, type Scanner } from '../../src/flows/deposits/index.ts';
import { makeSupplies, makeSupplyFlows } from '../../src/flows/supplies/index.ts';
import { makeWithdrawals } from '../../src/flows/withdrawals/index.ts';
import { silentLog } from '../../src/kernel/log.ts';
import { accountName } from '../../src/ledger/accounts.ts';
import { post } from '../../src/ledger/post.ts';
import { readAddress } from '../../src/rails/evm/index.ts';
import { ownAddress } from './collect-scene.ts';
import { type EvmWorld, makeEvmWorld } from './evm-world.ts';

export interface CollectScene extends EvmWorld {
  readonly chain: string;
  readonly engine: EngineDeps;
  readonly scanner: Scanner;
  readonly master: string;
  readonly gasWallet: string;
  /** A deposit address of the partner's, with its key. */
  deposit(partnerId?: string): Promise<DevAccount & { readonly lower: string }>;
  /** Somebody outside pays tokens there; final and credited on return. */
  payIn(address: string, units: bigint): Promise<void>;
  finalize(): Promise<void>;
  /** Everything due, until nothing of ours is open or `passes` are over. */
  work(passes?: number): Promise<void>;
  collect(): ReturnType<typeof collectOnce>;
  tokens(address: string): Promise<bigint>;
  coins(address: string): Promise<bigint>;
  tokenSays(functionName: string, args: readonly unknown[]): Promise<void>;
}

export async function makeCollectScene(label: string, anvilOptions: AnvilOptions = {}): Promise<CollectScene> {
  const world = await makeEvmWorld({
    label,
    anvil: anvilOptions,
    walletCount: 2,
    flows: (chart, makeId) => [
      makeWithdrawals(chart),
      makeCollections(chart),
      ...makeSupplyFlows(chart, silentLog, makeId),
    ],
  });
  const [master = '', gasWallet = ''] = world.wallets;
  const chain = `eip155:${world.anvil.chainId}`;
  const { anvil, pool, chart, makeId, log, rail } = world;
  const outsider = anvil.accounts[9];
  if (outsider === undefined) throw new Error('anvil without accounts');
  await pool.query("update payonce.addresses set kind = 'GAS' where address = $1", [gasWallet]);
  await pool.query("update payonce.asset_policies set own_address_policy = 'allow_deposit_addresses'");
  await pool.query(
    `insert into payonce.asset_policies (asset_id, rail, wallet, withdrawal_max, withdrawal_day_max) values ($1, $2, $3, 1, 1)`,
    [world.coinAssetId, rail.name, master],
  );
  // What the gas wallet has from the chain's genesis is in our books too.
  const opening = await nativeBalance(anvil, gasWallet as Address);
  await pool.tx('opening', async (tx) => {
    const [custody = -1n, treasury = -1n] = await chart.ids(tx, [
      accountName.custody(chain, gasWallet, world.coinAssetId),
      accountName.treasury(world.coinAssetId),
    ]);
    const entries = [
      { accountId: custody, amount: -opening },
      { accountId: treasury, amount: opening },
    ];
    await post(tx, [{ kind: 'post', key: 'MIGRATED:gas', reference: 'opening', entries }]);
  });
  const supplies = makeSupplies(
    { pool, makeId, log },
    {
      gas: [
        {
          chain,
          rail: rail.name,
          coinAssetId: world.coinAssetId,
          wallets: [gasWallet],
          level: 10n ** 16n,
          amountMax: 10n ** 18n,
        },
      ],
      energy: [],
      watched: [],
    },
  );
  const engine: EngineDeps = { ...world.engine, supply: supplies.port };
  const head = BigInt((await anvil.rpc('eth_blockNumber', [])) as string);
  const scanner = makeScanner({
    pool,
    makeId,
    chart,
    log,
    chain,
    rail: rail.name,
    nodes: rail.blocks,
    canonical(text) {
      const read = readAddress(text);
      return read.ok ? read.address : null;
    },
    onUnknownMovement: (tx, moved) => quarantineWallet(tx, { makeId, log }, { ...moved, reason: moved.txHash }),
    firstBlock: head + 1n,
  });
  let given = 1;
  const scene: CollectScene = {
    ...world,
    chain,
    engine,
    scanner,
    master,
    gasWallet,
    async deposit(partnerId = world.partnerId) {
      given += 1;
      const account = anvil.accounts[given];
      if (account === undefined || given > 8) throw new Error('no more deposit addresses');
      const lower = account.address.toLowerCase();
      await ownAddress(world, chain, lower, 'DEPOSIT', partnerId);
      return { ...account, lower };
    },
    async payIn(address, units) {
      await mintTokens(anvil, outsider.privateKey, world.token, address as Address, units);
      await scene.finalize();
    },
    async finalize() {
      await anvil.mine(3);
      await scanner.runOnce();
    },
    async work(passes = 12) {
      for (let round = 0; round < passes; round += 1) {
        await pool.query(
          "update payonce.effects set next_at = payonce.now() - interval '1 second' where ended_at is null and lease_until is null",
        );
        await advanceOnce(engine, rail);
        await anvil.mine(3);
        if ((await pool.query('select 1 from payonce.effects where ended_at is null limit 1')).rowCount === 0) break;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      await scanner.runOnce();
    },
    collect: () => collectOnce(engine, chain, { now: true }),
    tokens: (address) => tokenBalance(anvil, world.token, address as Address),
    coins: (address) => nativeBalance(anvil, address as Address),
    async tokenSays(functionName, args) {
      const abi: Abi = testToken.abi;
      const data = encodeFunctionData({ abi, functionName, args: [...args] });
      await sendAndMine(anvil, outsider.privateKey, { to: world.token, data });
    },
  };
  return scene;
}
