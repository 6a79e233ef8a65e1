/**
 * The development start's chain: a local EVM chain with a test USDT, and two nodes before it that now and then lose an
 * answer.
 *
 * Promises: with a data folder the chain goes on where it was; a chain that does not know what the database calls final is
 * never put under it, because every payment on it would be doubted or made again. Never: anything for production.
 */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makePool, type Query } from '../db/pool.ts';
import { PayonceError } from '../kernel/errors.ts';
import { silentLog } from '../kernel/log.ts';
import { systemPorts } from '../kernel/ports.ts';
import { type Anvil, startAnvil } from '../../sim/anvil.ts';
import { type EvmProxy, startEvmProxy } from '../../sim/evm-proxy.ts';
import { deployToken, mintTokens } from '../../sim/evm-send.ts';
import type { Config } from './config.ts';

export const WALLET_TOKENS = 1_000_000_000_000n;
const CUSTOMER_TOKENS = 10_000_000_000n;
/** One answer in ten is lost: what the product is for should be seen at work. */
const LOST_ANSWERS = 0.1;
/** Less at a deposit address is dust: it stays there, and is listed. */
const COLLECT_MIN = '20';
const STATE_FILE = 'chain.gz';

export interface DevChain {
  readonly anvil: Anvil;
  readonly token: `0x${string}`;
  readonly nodes: readonly EvmProxy[];
  /** The block that an earlier run had come to; null: a new chain. */
  readonly resumedFrom: number | null;
}

/** Everything started is given to `standing`, also when a later step throws. */
export async function startDevChain(
  standing: AsyncDisposableStack,
  dataFolder: string | null,
  databaseUrl: string,
): Promise<DevChain> {
  const stateFile = dataFolder === null ? undefined : join(dataFolder, STATE_FILE);
  const isKept = stateFile !== undefined && existsSync(stateFile);
  if (dataFolder !== null && !isKept) await needNoMoney(databaseUrl, dataFolder);
  const anvil = standing.adopt(
    // Blocks by time alone, since each is saved before the next: what is final here is always in the file.
    await startAnvil({
      mining: 'ticks',
      blockTimeSec: 1,
      historyBlocks: 64,
      ...(stateFile === undefined ? {} : { stateFile }),
    }),
    (one) => one.stop(),
  );
  const resumedFrom = isKept ? Number(await anvil.rpc('eth_blockNumber', [])) : null;
  if (dataFolder !== null && resumedFrom !== null) await needKnown(anvil, resumedFrom, databaseUrl, dataFolder);
  const token = await readyToken(anvil, dataFolder);
  const faults = [
    { method: 'eth_sendRawTransaction', chance: LOST_ANSWERS, fault: { kind: 'lose_answer', how: 'close' } },
  ] as const;
  const nodes: EvmProxy[] = [];
  for (const seed of ['node-a', 'node-b'])
    nodes.push(
      standing.adopt(await startEvmProxy({ upstream: anvil.url, seed, faults: [...faults] }), (one) => one.stop()),
    );
  return { anvil, token, nodes, resumedFrom };
}

async function readyToken(anvil: Anvil, dataFolder: string | null): Promise<`0x${string}`> {
  const [wallet, customer] = [anvil.accounts[0], anvil.accounts[5]];
  if (wallet === undefined || customer === undefined) throw new Error('the chain has no accounts');
  const remembered = dataFolder === null ? null : await readFile(join(dataFolder, 'token'), 'utf8').catch(() => null);
  if (remembered !== null && (await anvil.rpc('eth_getCode', [remembered, 'latest'])) !== '0x')
    return remembered as `0x${string}`;
  // Nobody pays yet: three blocks at once instead of three seconds.
  const atOnce: Anvil = { ...anvil, mining: 'manual' };
  const token = await deployToken(atOnce, customer.privateKey, { name: 'Test USDT', symbol: 'USDT', decimals: 6 });
  await mintTokens(atOnce, customer.privateKey, token, wallet.address, WALLET_TOKENS);
  await mintTokens(atOnce, customer.privateKey, token, customer.address, CUSTOMER_TOKENS);
  // What was minted is the opening balance: final before the first scan begins, or it would be money of nobody known.
  const minted = await anvil.rpc('eth_blockNumber', []);
  while ((await finalBlock(anvil)) < BigInt(typeof minted === 'string' ? minted : 0))
    await anvil.rpc('anvil_mine', ['0x1']);
  if (dataFolder !== null) await writeFile(join(dataFolder, 'token'), token);
  return token;
}

async function finalBlock(anvil: Anvil): Promise<bigint> {
  const final = await anvil.rpc('eth_getBlockByNumber', ['finalized', false]);
  const number = typeof final === 'object' && final !== null && 'number' in final ? final.number : null;
  return BigInt(typeof number === 'string' ? number : 0);
}

const HAS_SCHEMA = "select to_regclass('payonce.postings') is not null as has";
const HAS_MONEY = 'select 1 from payonce.postings limit 1';
const SCANNED = `select next_block - 1 as block
from payonce.scan_cursors
where chain = $1`;
/** A settled transaction used its nonce in a final block. */
const SETTLED = `select signer, max(nonce) + 1 as used
from payonce.effects
where state = 'SETTLED'
  and rail = $1
  and nonce is not null
group by signer`;

async function needNoMoney(databaseUrl: string, dataFolder: string): Promise<void> {
  const hasMoney = await reading(databaseUrl, async (query) => (await query.query(HAS_MONEY)).rowCount > 0);
  if (hasMoney === true)
    throw refusal(`${dataFolder} has a ledger with money and no chain (${STATE_FILE} is missing)`, dataFolder);
}

async function needKnown(anvil: Anvil, head: number, databaseUrl: string, dataFolder: string): Promise<void> {
  const ahead = await reading(databaseUrl, async (query) => {
    const scanned = (await query.query<{ block: bigint }>(SCANNED, [`eip155:${anvil.chainId}`])).rows[0]?.block ?? 0n;
    if (scanned > BigInt(head)) return `its deposits were read up to block ${scanned}`;
    const { rows } = await query.query<{ signer: string; used: bigint }>(SETTLED, [`evm:${anvil.chainId}`]);
    for (const { signer, used } of rows) {
      const counted = await anvil.rpc('eth_getTransactionCount', [signer, 'latest']);
      const mined = typeof counted === 'string' ? BigInt(counted) : 0n;
      if (mined < used) return `${used} transactions of ${signer} are settled and the chain has ${mined}`;
    }
    return null;
  });
  if (ahead !== null)
    throw refusal(
      `The database in ${dataFolder} is ahead of its saved chain: ${ahead}; the chain ends at ${head}`,
      dataFolder,
    );
}

function refusal(found: string, dataFolder: string): PayonceError {
  return new PayonceError('PO_CONFIG_INVALID', {
    detail: `${found}. They belong together: put back the copy that has both, or remove the folder ${dataFolder} and start anew`,
  });
}

/** Null where the database has no schema yet. */
async function reading<T>(url: string, work: (query: Query) => Promise<T>): Promise<T | null> {
  const pool = makePool({ url, ports: systemPorts(), log: silentLog, connectionsMax: 1 });
  try {
    const has = (await pool.query<{ has: boolean }>(HAS_SCHEMA)).rows[0]?.has === true;
    return has ? await work(pool) : null;
  } finally {
    await pool.end();
  }
}

/** Brings gas to deposit addresses before they are swept. */
export function gasWalletOf({ anvil }: DevChain): string {
  return (anvil.accounts[2]?.address ?? '').toLowerCase();
}

export function chainConfig(chain: DevChain, wallet: string): Config['chains'][number] {
  const limits = { min: '0.01', max: '100000', dayMax: '1000000', feeBasisPoints: 0 };
  return {
    chainId: String(chain.anvil.chainId),
    nodes: chain.nodes.map((node, index) => ({ url: node.url, operator: `local-${index + 1}` })),
    finality: { tag: 'finalized' },
    feeCapWei: '1000000000000',
    gasLimitCap: '1000000',
    lookEveryMs: 500,
    resendAfterMs: 3_000,
    gas: { level: '0.05', topUpMax: '0.5' },
    assets: [
      {
        code: 'USDT',
        contract: chain.token,
        decimals: 6,
        wallet,
        ownAddress: 'allow_deposit_addresses',
        withdrawal: { ...limits, feeFlat: '0.5' },
        deposit: { feeFlat: '0', feeBasisPoints: 10 },
        collect: { min: COLLECT_MIN },
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
