/**
 * `payonce up` (npm start): a running system with nothing else installed. An embedded PostgreSQL, a local EVM chain with a
 * test USDT behind two nodes that now and then lose an answer, a simulated TRON, a bank and a liquidity provider that do so too,
 * a market with a little traffic, the API, the workers, a partner with a key; and nine lines to paste. Nothing here is for production, and production refuses its keys.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createApiKey, makeKeyReader } from '../api/keys.ts';
import type { Tx } from '../db/pool.ts';
import { postingKey } from '../kernel/ids.ts';
import { systemChance } from '../kernel/ports.ts';
import { accountName } from '../ledger/accounts.ts';
import { post } from '../ledger/post.ts';
import { openKeyFiles } from '../rails/keystore.ts';
import { canonicalAddress } from '../rails/tron/index.ts';
import type { Anvil } from '../../sim/anvil.ts';
import type { Bank } from '../../sim/bank/bank.ts';
import { ROLES } from '../worker/roles.ts';
import { startApi } from './api.ts';
import type { Config } from './config.ts';
import { keepRunning, makeDataFolder } from './data-folder.ts';
import { BANK_FUNDS, bankConfig, PARTNER_FUNDS, resumeBalance, startDevBank } from './dev-bank.ts';
import { chainConfig, type DevChain, gasWalletOf, startDevChain, WALLET_TOKENS } from './dev-chain.ts';
import { DEMO_MARKET, type DevMarket, escrowConfig, resumeTrades, seedTraders, startDevMarket } from './dev-p2p.ts';
import { addDevRoutes } from './dev-routes.ts';
import { startTraffic } from './dev-traffic.ts';
import {
  type DevTron,
  startDevTron,
  TRON_PARTNER_TOKENS,
  TRON_WALLET_SUN,
  TRON_WALLET_TOKENS,
  tronConfig,
} from './dev-tron.ts';
import { devKeysBeside } from './keys.ts';
import { registerChain } from './register.ts';
import { needFreePort, openApp, openDatabase, runUntilStopped, startWorkers } from './serve.ts';
import type { App } from './wire.ts';

/** A weak passphrase hash on purpose: these keys hold test tokens. */
const DEV_SCRYPT_N = 4_096;
/** A receiver that belongs to nobody here. */
export const DEMO_RECEIVER = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8';
/** The same key's address, as TRON writes it. */
const DEMO_TRON_RECEIVER = canonicalAddress(DEMO_RECEIVER);
const DEMO_PARTNER = 'par_demo';

export async function up(config: Config): Promise<void> {
  const say = (line: string): void => {
    process.stdout.write(`${line}\n`);
  };
  const { dataFolder } = config;
  await runUntilStopped(async (standing) => {
    await needFreePort(config);
    if (dataFolder !== null) await makeDataFolder(dataFolder);
    const folder =
      dataFolder ??
      standing.adopt(await mkdtemp(join(tmpdir(), 'payonce-up-')), (one) => rm(one, { recursive: true, force: true }));
    say('starting PostgreSQL, two local chains, a bank and a market …');
    // The database first: it is what refuses a folder that is in use, before a second chain writes into it.
    const database = standing.adopt(await openDatabase(config), (one) => one.stop());
    const chain = await startDevChain(standing, dataFolder, database.url);
    const tron = await startDevTron(standing);
    const bank = await startDevBank(standing, dataFolder);
    const market = await startDevMarket(standing, dataFolder);
    const files = await openKeyFiles(join(folder, 'keys'), 'development', systemChance, DEV_SCRYPT_N);
    const wallet = chain.anvil.accounts[0]?.address ?? '';
    const onChains = {
      chains: [chainConfig(chain, wallet)],
      tron: [tronConfig(tron)],
      wallets: [{ chain: `eip155:${chain.anvil.chainId}`, address: gasWalletOf(chain), kind: 'GAS' as const }],
    };
    const app = standing.adopt(
      await openApp(
        {
          ...config,
          ...onChains,
          banks: [bankConfig(bank)],
          escrows: [escrowConfig(market)],
          p2p: [DEMO_MARKET],
          inbound: [...config.inbound, market.inbound],
        },
        database,
        {
          keys: devKeysBeside(files),
        },
      ),
      (one) => one.close(),
    );
    if (dataFolder !== null) standing.adopt(await keepRunning(dataFolder, onChains), (one) => one.drop());
    for (const wired of app.chains) await registerChain(app, wired);
    await seedDemo(app, chain, tron, wallet.toLowerCase());
    for (const wired of app.banks) await resumeBalance(app, wired, bank);
    await resumeTrades(app, market);
    const key = await readyKey(app, dataFolder);
    standing.adopt(startWorkers(app, ROLES), (one) => one.stop());
    const stage = { chain, tron, bank, escrow: market.escrow };
    const api = standing.adopt(await startApi(app, (server) => addDevRoutes(server, app, stage)), (one) => one.stop());
    market.listenAt(api.url);
    standing.adopt(startTraffic(app, tradedAsset(app, chain)), (one) => one.stop());
    for (const line of welcome(api.url, key, { chain, tron, bank, market }, dataFolder)) say(line);
  });
}

/** The test USDT of the first chain: what the market trades. */
function tradedAsset(app: App, { token }: DevChain): string {
  const id = app.chains[0]?.assetIdOf(token);
  if (id === undefined) throw new Error('the development chain is missing');
  return id;
}

/** A partner, and what the wallets hold from the start: money of our own, and at the bank some of the partner's. */
async function seedDemo(app: App, chain: DevChain, tron: DevTron, wallet: string): Promise<void> {
  const [wired, onTron, bank] = [app.chains[0], app.chains[1], app.banks[0]];
  const won = bank?.assets[0];
  if (wired === undefined || onTron === undefined || bank === undefined || won === undefined)
    throw new Error('the development chain or bank is missing');
  const gasWallet = gasWalletOf(chain);
  const coin = BigInt((await balances(chain.anvil, wallet)) ?? '0');
  const gas = BigInt((await balances(chain.anvil, gasWallet)) ?? '0');
  const onChain = { chain: wired.chain, wallet, partner: 0n };
  await app.pool.tx('seed demo', async (tx) => {
    await tx.query(
      'insert into payonce.partners (id, name, time_zone) values ($1, $2, $3) on conflict (id) do nothing',
      [DEMO_PARTNER, 'Demo partner', 'UTC'],
    );
    await openBalance(tx, app, { ...onChain, asset: wired.assetIdOf(chain.token), units: WALLET_TOKENS });
    await openBalance(tx, app, { ...onChain, asset: wired.coinAssetId, units: coin });
    await openBalance(tx, app, {
      ...onChain,
      wallet: gasWallet,
      asset: wired.coinAssetId,
      units: gas,
      key: `opening:gas:${wired.chain}`,
    });
    const ofTron = { chain: onTron.chain, wallet: tron.wallet };
    await openBalance(tx, app, {
      ...ofTron,
      asset: onTron.assetIdOf(tron.token),
      units: TRON_WALLET_TOKENS,
      partner: TRON_PARTNER_TOKENS,
    });
    await openBalance(tx, app, { ...ofTron, asset: onTron.coinAssetId, units: TRON_WALLET_SUN, partner: 0n });
    await openBalance(tx, app, {
      chain: bank.rail.name,
      wallet: bank.config.account,
      asset: won.id,
      units: BANK_FUNDS,
      partner: PARTNER_FUNDS,
    });
    await seedTraders(tx, app, tradedAsset(app, chain), DEMO_PARTNER);
  });
}

/** `units` in the wallet, `partner` of them the partner's and the rest ours; once, however often it is asked. */
async function openBalance(
  tx: Tx,
  app: App,
  one: {
    readonly chain: string;
    readonly wallet: string;
    readonly asset: string;
    readonly units: bigint;
    readonly partner: bigint;
    /** Absent: the asset's one. */
    readonly key?: string;
  },
): Promise<void> {
  const { chain, wallet, asset, units, partner } = one;
  const key = one.key ?? `opening:${asset.startsWith('tron:') ? asset : asset.slice(-40)}`;
  const [custody, treasury, owed] = await app.engine.chart.ids(tx, [
    accountName.custody(chain, wallet, asset),
    accountName.treasury(asset),
    accountName.partner(DEMO_PARTNER, asset),
  ]);
  if (custody === undefined || treasury === undefined || owed === undefined) throw new Error('an account is missing');
  await post(tx, [
    {
      kind: 'post',
      key: postingKey.migrated(key),
      reference: 'opening balance',
      entries: [
        { accountId: custody, amount: -units },
        { accountId: treasury, amount: units - partner },
        ...(partner === 0n ? [] : [{ accountId: owed, amount: partner }]),
      ],
    },
  ]);
}

/** The key of an earlier start in the same folder, if it is one still; else a new one, kept where only its owner reads it. */
async function readyKey(app: App, dataFolder: string | null): Promise<string> {
  const file = dataFolder === null ? null : join(dataFolder, 'partner-key');
  const kept = file === null ? null : await readFile(file, 'utf8').catch(() => null);
  if (kept !== null) {
    const caller = await makeKeyReader(app.pool)(kept.trim());
    if (caller.found === 'partner' && caller.partnerId === DEMO_PARTNER) return kept.trim();
  }
  const by = { makeId: app.engine.makeId, chance: app.ports.chance };
  const { key } = await app.pool.tx('demo key', (tx) => createApiKey(tx, by, DEMO_PARTNER, 'test'));
  if (file !== null) {
    await rm(file, { force: true });
    await writeFile(file, `${key}\n`, { mode: 0o600 });
  }
  return key;
}

async function balances(anvil: Anvil, wallet: string): Promise<string | null> {
  const balance = await anvil.rpc('eth_getBalance', [wallet, 'latest']);
  return typeof balance === 'string' ? balance : null;
}

function welcome(
  url: string,
  key: string,
  stage: { readonly chain: DevChain; readonly tron: DevTron; readonly bank: Bank; readonly market: DevMarket },
  dataFolder: string | null,
): string[] {
  const { chain, tron, bank, market } = stage;
  const tronAsset = `${tron.tron.rail}/trc20:${tron.token}`;
  // Each start is a network of its own, and so is what is ordered on it.
  const tronOrder = `payout-${tron.tron.rail.slice(-8)}`;
  return [
    '',
    ...(chain.resumedFrom === null
      ? []
      : [`Resumed the run kept in ${dataFolder ?? ''}: its ledger, its chain at block ${chain.resumedFrom}, its key.`]),
    `Payonce is ready at ${url}   (API: ${url}/openapi.json)`,
    `partner key: ${key}`,
    `chain: ${chain.anvil.url}   (JSON-RPC, chain ${chain.anvil.chainId}, test USDT ${chain.token})`,
    `TRON: ${tron.tron.url}   (simulated, ${tron.tron.rail}, test USDT ${tron.token}; a new network at each start)`,
    `bank: ${bank.url}   (a simulated bank; its own books begin anew at each start, with what the ledger says is left)`,
    `market: USDT for KRW, with a little traffic; liquidity provider ${market.escrow.url}   (simulated; its own book begins anew at each start)`,
    dataFolder === null
      ? 'data: temporary. PAYONCE_DATA=./payonce-data npm start keeps it and lets npx payonce … work beside it.'
      : `data: ${dataFolder}. PAYONCE_DATA=${dataFolder} npx payonce … works beside it: collect run sweeps now what was paid in.`,
    '',
    'Paste these lines: a customer pays in, you pay out, and the chain shows it; then you pay through a bank, which loses its',
    'answer after it has paid, and the bank’s own books show what arrived; once more over TRON, whose first answer is lost; and a',
    'user buys from other users, and the rest from a liquidity provider, which is slow and loses answers too.',
    '',
    `curl -sw '\\n' -X POST ${url}/dev/deposits -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' -d '{"amount":"250"}'`,
    `curl -sw '\\n' -X POST ${url}/v1/withdrawals -H 'Authorization: Bearer ${key}' -H 'Idempotency-Key: payout-1' -H 'Content-Type: application/json' -d '{"asset":"USDT","amount":"100","destination":"${DEMO_RECEIVER}","external_id":"payout-1"}'`,
    `curl -sw '\\n' ${url}/dev/withdrawals/payout-1 -H 'Authorization: Bearer ${key}'`,
    `curl -sw '\\n' -X POST ${url}/v1/transfers -H 'Authorization: Bearer ${key}' -H 'Idempotency-Key: salary-1' -H 'Content-Type: application/json' -d '{"asset":"KRW","amount":"50000","bank_code":"004","account_number":"110-123-0456","holder_name":"Kim Minji","external_id":"salary-1"}'`,
    `curl -sw '\\n' ${url}/dev/transfers/salary-1 -H 'Authorization: Bearer ${key}'`,
    `curl -sw '\\n' -X POST ${url}/v1/withdrawals -H 'Authorization: Bearer ${key}' -H 'Idempotency-Key: ${tronOrder}' -H 'Content-Type: application/json' -d '{"asset":"${tronAsset}","amount":"60","destination":"${DEMO_TRON_RECEIVER}","external_id":"${tronOrder}"}'`,
    `curl -sw '\\n' ${url}/dev/withdrawals/${tronOrder} -H 'Authorization: Bearer ${key}'`,
    `curl -sw '\\n' -X POST ${url}/v1/p2p/deposit-orders -H 'Authorization: Bearer ${key}' -H 'Idempotency-Key: buy-1' -H 'Content-Type: application/json' -d '{"asset":"USDT","amount":"500","fiat":"KRW","price":"1400","user_ref":"ann","external_id":"buy-1"}'`,
    `curl -sw '\\n' ${url}/dev/p2p/buy-1 -H 'Authorization: Bearer ${key}'`,
    '',
    'Ctrl-C stops everything.',
  ];
}
