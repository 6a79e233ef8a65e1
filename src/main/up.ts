/**
 * `payonce up` (npm start): a running system with nothing else installed. An embedded PostgreSQL, a local EVM chain with a
 * test USDT behind two nodes that now and then lose an answer, the API, the workers, a partner with a key; and three
 * lines to paste. Nothing here is for production, and production refuses its keys.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createApiKey } from '../api/keys.ts';
import { accountName } from '../ledger/accounts.ts';
import { post } from '../ledger/post.ts';
import { postingKey } from '../kernel/ids.ts';
import { systemChance } from '../kernel/ports.ts';
import { makeDevSigner, openKeystore } from '../rails/evm/index.ts';
import { type Anvil, startAnvil } from '../../sim/anvil.ts';
import { type EvmProxy, startEvmProxy } from '../../sim/evm-proxy.ts';
import { deployToken, mintTokens } from '../../sim/evm-send.ts';
import { ROLES } from '../worker/roles.ts';
import { startApi } from './api.ts';
import type { Config } from './config.ts';
import { addDevRoutes } from './dev-routes.ts';
import { registerChain } from './register.ts';
import { openApp, openDatabase, startWorkers, untilStopped } from './serve.ts';
import { type App, assetId } from './wire.ts';

const WALLET_TOKENS = 1_000_000_000_000n;
const CUSTOMER_TOKENS = 10_000_000_000n;
/** One answer in ten is lost: what the product is for should be seen at work. */
const LOST_ANSWERS = 0.1;
/** A weak passphrase hash on purpose: these keys hold test tokens. */
const DEV_SCRYPT_N = 4_096;
/** A receiver that belongs to nobody here. */
export const DEMO_RECEIVER = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8';
const DEMO_PARTNER = 'par_demo';

interface Chain {
  readonly anvil: Anvil;
  readonly token: `0x${string}`;
  readonly nodes: readonly EvmProxy[];
}

export async function up(config: Config): Promise<void> {
  const say = (line: string): void => {
    process.stdout.write(`${line}\n`);
  };
  const folder = config.dataFolder ?? (await mkdtemp(join(tmpdir(), 'payonce-up-')));
  say('starting PostgreSQL and a local chain …');
  const [database, chain] = await Promise.all([openDatabase(config), startChain(config.dataFolder)]);
  if (config.dataFolder !== null) await writeFile(join(folder, 'database-url'), database.url, { mode: 0o600 });
  const keystore = await openKeystore(join(folder, 'keys'), 'development', systemChance, DEV_SCRYPT_N);
  const wallet = chain.anvil.accounts[0]?.address ?? '';
  const app = await openApp({ ...config, chains: [chainConfig(chain, wallet)] }, database, {
    signer: makeDevSigner(),
    newAddress: () => keystore.createAddress(),
  });
  for (const wired of app.chains) await registerChain(app, wired);
  const key = await seedDemo(app, chain, wallet.toLowerCase());
  const api = await startApi(app, (server) => addDevRoutes(server, app, chain, DEMO_PARTNER));
  const workers = startWorkers(app, ROLES);
  for (const line of welcome(api.url, key)) say(line);
  await untilStopped(async () => {
    await api.stop();
    await workers.stop();
    await app.close();
    await Promise.all(chain.nodes.map((node) => node.stop()));
    await chain.anvil.stop();
    await database.stop();
    if (config.dataFolder === null) await rm(folder, { recursive: true, force: true });
  });
}

async function startChain(dataFolder: string | null): Promise<Chain> {
  const stateFile = dataFolder === null ? undefined : join(dataFolder, 'chain.json');
  const anvil = await startAnvil({
    blockTimeSec: 1,
    historyBlocks: 64,
    ...(stateFile === undefined ? {} : { stateFile }),
  });
  const [wallet, customer] = [anvil.accounts[0], anvil.accounts[5]];
  if (wallet === undefined || customer === undefined) throw new Error('the chain has no accounts');
  const remembered = dataFolder === null ? null : await readFile(join(dataFolder, 'token'), 'utf8').catch(() => null);
  const known =
    remembered !== null && (await anvil.rpc('eth_getCode', [remembered, 'latest'])) !== '0x'
      ? (remembered as `0x${string}`)
      : null;
  const token =
    known ?? (await deployToken(anvil, customer.privateKey, { name: 'Test USDT', symbol: 'USDT', decimals: 6 }));
  if (known === null) {
    await mintTokens(anvil, customer.privateKey, token, wallet.address, WALLET_TOKENS);
    await mintTokens(anvil, customer.privateKey, token, customer.address, CUSTOMER_TOKENS);
    if (dataFolder !== null) await writeFile(join(dataFolder, 'token'), token);
  }
  const faults = [
    { method: 'eth_sendRawTransaction', chance: LOST_ANSWERS, fault: { kind: 'lose_answer', how: 'close' } },
  ] as const;
  const nodes = await Promise.all(
    ['node-a', 'node-b'].map((seed) => startEvmProxy({ upstream: anvil.url, seed, faults: [...faults] })),
  );
  return { anvil, token, nodes };
}

function chainConfig(chain: Chain, wallet: string): Config['chains'][number] {
  const limits = { min: '0.01', max: '100000', dayMax: '1000000', feeBasisPoints: 0 };
  return {
    chainId: String(chain.anvil.chainId),
    nodes: chain.nodes.map((node, index) => ({ url: node.url, operator: `local-${index + 1}` })),
    finality: { tag: 'finalized' },
    feeCapWei: '1000000000000',
    gasLimitCap: '1000000',
    lookEveryMs: 500,
    resendAfterMs: 3_000,
    assets: [
      {
        code: 'USDT',
        contract: chain.token,
        decimals: 6,
        wallet,
        ownAddress: 'allow_deposit_addresses',
        withdrawal: { ...limits, feeFlat: '0.5' },
        deposit: { feeFlat: '0', feeBasisPoints: 10 },
      },
      {
        code: 'ETH',
        contract: null,
        decimals: 18,
        wallet,
        withdrawal: { ...limits, max: '100', dayMax: '1000', feeFlat: '0' },
      },
    ],
  };
}

/** A partner with a key, and what the wallet holds from the start as money of our own. */
async function seedDemo(app: App, chain: Chain, wallet: string): Promise<string> {
  const wired = app.chains[0];
  if (wired === undefined) throw new Error('the development chain is missing');
  return app.pool.tx('seed demo', async (tx) => {
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
    return (await createApiKey(tx, { makeId: app.engine.makeId, chance: app.ports.chance }, DEMO_PARTNER, 'test')).key;
  });
}

async function balances(anvil: Anvil, wallet: string): Promise<string | null> {
  const balance = await anvil.rpc('eth_getBalance', [wallet, 'latest']);
  return typeof balance === 'string' ? balance : null;
}

function welcome(url: string, key: string): string[] {
  return [
    '',
    `Payonce is ready at ${url}   (API: ${url}/openapi.json)`,
    `partner key: ${key}`,
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
