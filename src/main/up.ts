/**
 * `payonce up` (npm start): a running system with nothing else installed. An embedded PostgreSQL, a local EVM chain with a
 * test USDT behind two nodes that now and then lose an answer, the API, the workers, a partner with a key; and three
 * lines to paste. Nothing here is for production, and production refuses its keys.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createApiKey, makeKeyReader } from '../api/keys.ts';
import { postingKey } from '../kernel/ids.ts';
import { systemChance } from '../kernel/ports.ts';
import { accountName } from '../ledger/accounts.ts';
import { post } from '../ledger/post.ts';
import { makeDevSigner, openKeystore } from '../rails/evm/index.ts';
import type { Anvil } from '../../sim/anvil.ts';
import { ROLES } from '../worker/roles.ts';
import { startApi } from './api.ts';
import type { Config } from './config.ts';
import { chainConfig, type DevChain, startDevChain, WALLET_TOKENS } from './dev-chain.ts';
import { addDevRoutes } from './dev-routes.ts';
import { registerChain } from './register.ts';
import { needFreePort, openApp, openDatabase, runUntilStopped, startWorkers } from './serve.ts';
import { type App, assetId } from './wire.ts';

/** A weak passphrase hash on purpose: these keys hold test tokens. */
const DEV_SCRYPT_N = 4_096;
/** A receiver that belongs to nobody here. */
export const DEMO_RECEIVER = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8';
const DEMO_PARTNER = 'par_demo';

export async function up(config: Config): Promise<void> {
  const say = (line: string): void => {
    process.stdout.write(`${line}\n`);
  };
  const { dataFolder } = config;
  await runUntilStopped(async (standing) => {
    await needFreePort(config);
    if (dataFolder !== null) await mkdir(dataFolder, { recursive: true });
    const folder =
      dataFolder ??
      standing.adopt(await mkdtemp(join(tmpdir(), 'payonce-up-')), (one) => rm(one, { recursive: true, force: true }));
    say('starting PostgreSQL and a local chain …');
    // The database first: it is what refuses a folder that is in use, before a second chain writes into it.
    const database = standing.adopt(await openDatabase(config), (one) => one.stop());
    const chain = await startDevChain(standing, dataFolder, database.url);
    if (dataFolder !== null) await writeFile(join(folder, 'database-url'), database.url, { mode: 0o600 });
    const keystore = await openKeystore(join(folder, 'keys'), 'development', systemChance, DEV_SCRYPT_N);
    const wallet = chain.anvil.accounts[0]?.address ?? '';
    const app = standing.adopt(
      await openApp({ ...config, chains: [chainConfig(chain, wallet)] }, database, {
        signer: makeDevSigner(),
        newAddress: () => keystore.createAddress(),
      }),
      (one) => one.close(),
    );
    for (const wired of app.chains) await registerChain(app, wired);
    await seedDemo(app, chain, wallet.toLowerCase());
    const key = await readyKey(app, dataFolder);
    standing.adopt(startWorkers(app, ROLES), (one) => one.stop());
    const api = standing.adopt(await startApi(app, (server) => addDevRoutes(server, app, chain)), (one) => one.stop());
    for (const line of welcome(api.url, key, chain, dataFolder)) say(line);
  });
}

/** A partner, and what the wallet holds from the start as money of our own. */
async function seedDemo(app: App, chain: DevChain, wallet: string): Promise<void> {
  const wired = app.chains[0];
  if (wired === undefined) throw new Error('the development chain is missing');
  await app.pool.tx('seed demo', async (tx) => {
    await tx.query(
      'insert into payonce.partners (id, name, time_zone) values ($1, $2, $3) on conflict (id) do nothing',
      [DEMO_PARTNER, 'Demo partner', 'UTC'],
    );
    const usdt = assetId(wired.chain, chain.token);
    const coin = BigInt((await balances(chain.anvil, wallet)) ?? '0');
    for (const [asset, units] of [
      [usdt, WALLET_TOKENS],
      [wired.coinAssetId, coin],
    ] as const) {
      const [custody, treasury] = await app.engine.chart.ids(tx, [
        accountName.custody(wired.chain, wallet, asset),
        accountName.treasury(asset),
      ]);
      if (custody === undefined || treasury === undefined) throw new Error('an account is missing');
      await post(tx, [
        {
          kind: 'post',
          key: postingKey.migrated(`opening:${asset.slice(-40)}`),
          reference: 'opening balance',
          entries: [
            { accountId: custody, amount: -units },
            { accountId: treasury, amount: units },
          ],
        },
      ]);
    }
  });
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

function welcome(url: string, key: string, chain: DevChain, dataFolder: string | null): string[] {
  return [
    '',
    ...(chain.resumedFrom === null
      ? []
      : [`Resumed the run kept in ${dataFolder ?? ''}: its ledger, its chain at block ${chain.resumedFrom}, its key.`]),
    `Payonce is ready at ${url}   (API: ${url}/openapi.json)`,
    `partner key: ${key}`,
    `chain: ${chain.anvil.url}   (JSON-RPC, chain ${chain.anvil.chainId}, test USDT ${chain.token})`,
    dataFolder === null
      ? 'data: temporary. PAYONCE_DATA=./payonce-data npm start keeps it and lets npx payonce … work beside it.'
      : `data: ${dataFolder}. PAYONCE_DATA=${dataFolder} npx payonce … works beside it.`,
    '',
    'Paste these three lines: a customer pays in, you pay out, and the chain shows it.',
    '',
    `curl -sw '\\n' -X POST ${url}/dev/deposits -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' -d '{"amount":"250"}'`,
    `curl -sw '\\n' -X POST ${url}/v1/withdrawals -H 'Authorization: Bearer ${key}' -H 'Idempotency-Key: payout-1' -H 'Content-Type: application/json' -d '{"asset":"USDT","amount":"100","destination":"${DEMO_RECEIVER}","external_id":"payout-1"}'`,
    `curl -sw '\\n' ${url}/dev/withdrawals/payout-1 -H 'Authorization: Bearer ${key}'`,
    '',
    'Ctrl-C stops everything.',
  ];
}
