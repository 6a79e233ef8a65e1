/**
 * The wiring: the only place that imports everything and puts it together from a configuration.
 *
 * `wire` opens what is needed and starts nothing; `startWorkers` and the API are started by the commands. A rail whose
 * nodes are down is degraded, not fatal: the API serves, effects wait, `registerChain` is tried again by the scheduler.
 */
import { appendFileSync } from 'node:fs';
import type { ApiDeps } from '../api/deps.ts';
import { makeRepairVerbs } from '../audit/repair/index.ts';
import { CHANNEL } from '../db/listen.ts';
import { makePool, type Pool } from '../db/pool.ts';
import { raiseAlert, clearAlert } from '../engine/alerts.ts';
import { openCase } from '../engine/cases.ts';
import { confirmNamed } from '../engine/confirm.ts';
import type { EngineDeps } from '../engine/deps.ts';
import type { FlowVerb } from '../engine/deps.ts';
import { makeEngine } from '../engine/engine.ts';
import { quarantineWallet } from '../engine/quarantine.ts';
import { makeCollections } from '../flows/collections/index.ts';
import { makeScanner, type Scanner } from '../flows/deposits/index.ts';
import { PayonceError } from '../kernel/errors.ts';
import { makeRealizations } from '../flows/realizations/index.ts';
import { makeBatchVerbs, makeTransferBatches } from '../flows/transfers/batch.ts';
import { makeTransfers } from '../flows/transfers/index.ts';
import { makeWithdrawals } from '../flows/withdrawals/index.ts';
import { makeChainMonitor, mentionsIn } from '../inbox/chain-monitor.ts';
import { makeReceiver, type Receiver } from '../inbox/receive.ts';
import { type InboxWorker, makeInboxWorker } from '../inbox/work.ts';
import { makeIds } from '../kernel/ids.ts';
import { type Log, makeLog, silentLog } from '../kernel/log.ts';
import { type Ports, systemPorts } from '../kernel/ports.ts';
import { makeChart } from '../ledger/accounts.ts';
import { type Courier, makeCourier } from '../outbox/courier.ts';
import {
  type EvmRail,
  type EvmSigner,
  isDevKey,
  makeDevSigner,
  makeEvmRail,
  openKeystore,
  readAddress,
} from '../rails/evm/index.ts';
import type { ChainConfig, Config } from './config.ts';
import { makeDepositVerbs } from './deposit-verbs.ts';
import { bankOf, type PayeeCheck, type WiredBank, wireBank } from './wire-banks.ts';

export interface WiredChain {
  readonly config: ChainConfig;
  /** CAIP-2. */
  readonly chain: string;
  readonly coinAssetId: string;
  readonly rail: EvmRail;
  readonly scanner: Scanner;
}

export interface App {
  readonly config: Config;
  readonly ports: Ports;
  readonly log: Log;
  readonly pool: Pool;
  readonly engine: EngineDeps;
  readonly chains: readonly WiredChain[];
  readonly banks: readonly WiredBank[];
  readonly courier: Courier;
  readonly receiver: Receiver;
  readonly inbox: InboxWorker;
  /** How the rails were when last asked; empty: not asked yet. */
  readonly health: Map<string, 'ok' | 'degraded'>;
  /** Set by the workers in this process: hints that there is work. */
  readonly wakes: Set<() => void>;
  wake(): void;
  newDepositAddress(chain: string): Promise<string>;
  readDestination: ApiDeps['readDestination'];
  /** The rules for payees of the bank that pays an asset; `null`: it is not paid through a bank. */
  readPayee(assetId: string): PayeeCheck | null;
  /** How many lines one batch of an asset may have; 1 where its rail knows no batches. */
  batchLinesMax(assetId: string): number;
  close(): Promise<void>;
}

export interface WireOptions {
  readonly url: string;
  /** For the development start: the keys of its chain. */
  readonly signer?: EvmSigner;
  readonly newAddress?: () => Promise<string>;
}

export async function wire(config: Config, options: WireOptions): Promise<App> {
  const log = config.logLevel === 'silent' ? silentLog : makeLog(config.logLevel);
  const { cutLog } = config;
  const ports = systemPorts(
    config.cut ?? undefined,
    cutLog === null ? undefined : (ordinal, kind, name) => appendFileSync(cutLog, `${ordinal}\t${kind}\t${name}\n`),
  );
  // Before the pool: keys that do not open must leave no connection behind.
  const keys = await openKeys(config, options, ports);
  refuseDevKeys(config, keys.signer);
  const pool = makePool({ url: options.url, ports, log, connectionsMax: config.poolConnections });
  const makeId = makeIds(ports.clock, ports.chance);
  const chart = makeChart();
  const rails = config.chains.map((chain) => makeRail(chain, ports, log, keys.signer));
  const banks = config.banks.map((bank) => wireBank(bank, config.deployment, ports, log));
  const bankRails = banks.map((bank) => bank.rail);
  const batchVerbs = makeBatchVerbs(chart, makeId, pool);
  const depositVerbs = makeDepositVerbs({
    pool,
    makeId,
    chart,
    log,
    nodesOf: (chain) => rails.find((_, index) => `eip155:${config.chains[index]?.chainId}` === chain)?.blocks ?? [],
  });
  const engine = await makeEngine({
    pool,
    ports,
    log,
    makeId,
    chart,
    flows: [
      makeWithdrawals(chart),
      makeTransfers(chart),
      makeTransferBatches(chart, makeId),
      makeCollections(chart),
      makeRealizations(chart),
    ],
    rails: [...rails, ...bankRails],
    verbs: {
      ...batchVerbs,
      ...depositVerbs,
      ...makeRepairVerbs({ pool, chart, makeId }),
      close: objectAll([batchVerbs.close, depositVerbs.close]),
    },
    leaseMs: config.leaseMs,
  });
  const wakes = new Set<() => void>();
  let notifying = false;
  const wake = (): void => {
    for (const one of wakes) one();
    if (notifying) return;
    // One hint for all that came meanwhile: NOTIFY in every commit would cost more than half of them (design §11).
    notifying = true;
    setTimeout(() => {
      notifying = false;
      pool
        .query(NOTIFY, [CHANNEL])
        .catch((error: unknown) => log.debug({ err: error }, 'other processes were not woken; they poll'));
    }, NOTIFY_MS).unref();
  };
  const chains = config.chains.map((chain, index): WiredChain => {
    const rail = rails[index];
    if (rail === undefined) throw new Error('a chain without its rail');
    const name = `eip155:${chain.chainId}`;
    const scanner = makeScanner({
      pool,
      makeId,
      chart,
      log,
      chain: name,
      rail: rail.name,
      nodes: rail.blocks,
      canonical: (address) => {
        const read = readAddress(address);
        return read.ok ? read.address : null;
      },
      ...(chain.agreeing === undefined ? {} : { agreeing: chain.agreeing }),
      ...(chain.scanOverlapBlocks === undefined ? {} : { overlapBlocks: BigInt(chain.scanOverlapBlocks) }),
      onUnknownMovement: (tx, moved) =>
        quarantineWallet(
          tx,
          { makeId, log },
          { ...moved, reason: `${moved.txHash} left ${moved.wallet} without a record` },
        ),
    });
    return { config: chain, chain: name, coinAssetId: assetId(name, null), rail, scanner };
  });
  const courier = makeCourier({
    pool,
    ports,
    log,
    masterSecret: config.masterSecret,
    policy: { allowPrivate: !config.production },
  });
  const monitor = makeChainMonitor({ wake, hurry: hurryEffects });
  const inbox = makeInboxWorker({
    pool,
    log,
    handlers: Object.fromEntries(config.inbound.map((source) => [source.name, monitor])),
    readTruth: (event) => confirmNamed(engine, mentionsIn(event).hashes),
    people: {
      openCase: (tx, one) => openCase(tx, makeId, one),
      raiseAlert: (tx, kind, key, message) => raiseAlert(tx, kind, key, message, log),
      clearAlert,
    },
  });
  const receiver = makeReceiver({ pool, ports, log, sources: config.inbound, wake });
  return {
    config,
    ports,
    log,
    pool,
    engine,
    chains,
    banks,
    courier,
    receiver,
    inbox,
    health: new Map(),
    wakes,
    wake,
    newDepositAddress: () => keys.newAddress(),
    readDestination: (chain, text) =>
      bankRails.some((rail) => rail.name === chain)
        ? { ok: false, fault: 'it is paid through a bank', expected: 'a transfer: POST /v1/transfers' }
        : readAddress(text),
    readPayee(assetId) {
      const bank = bankOf(banks, assetId);
      return bank === null ? null : (input) => bank.rail.readPayee(input);
    },
    batchLinesMax: (assetId) => bankOf(banks, assetId)?.rail.profile.linesMax ?? 1,
    async close() {
      await courier.close();
      await Promise.all([...rails, ...bankRails].map((rail) => rail.close()));
      await pool.end();
    },
  };
}

/** CAIP-19: a token by its contract, the coin by its SLIP-44 number of the EVM family. */
export function assetId(chain: string, contract: string | null): string {
  return contract === null ? `${chain}/slip44:60` : `${chain}/erc20:${contract.toLowerCase()}`;
}

function makeRail(chain: ChainConfig, ports: Ports, log: Log, signer: EvmSigner): EvmRail {
  const { absenceWitnesses, lookEveryMs, resendAfterMs, bumpAfterMs, decideWithinMs } = chain;
  const operators = new Set(chain.nodes.map((node) => node.operator)).size;
  return makeEvmRail(
    {
      name: `evm:${chain.chainId}`,
      chainId: BigInt(chain.chainId),
      ...(chain.genesisHash === undefined ? {} : { genesisHash: chain.genesisHash }),
      nodes: chain.nodes,
      finality: chain.finality,
      feeCapWei: BigInt(chain.feeCapWei),
      gasLimitCap: BigInt(chain.gasLimitCap),
      coinAssetId: assetId(`eip155:${chain.chainId}`, null),
      capabilities: {
        // Absence takes two operators (design §2), also where only one is configured: then it stays a person's.
        absenceWitnesses: Math.max(absenceWitnesses ?? 2, operators === 1 ? 2 : 1),
        ...(lookEveryMs === undefined ? {} : { lookEveryMs }),
        ...(resendAfterMs === undefined ? {} : { resendAfterMs }),
        ...(bumpAfterMs === undefined ? {} : { bumpAfterMs }),
        ...(decideWithinMs === undefined ? {} : { decideWithinMs }),
      },
    },
    { ports, signer, log },
  );
}

async function openKeys(
  config: Config,
  options: WireOptions,
  ports: Ports,
): Promise<{ signer: EvmSigner; newAddress: () => Promise<string> }> {
  if (options.signer !== undefined && options.newAddress !== undefined)
    return { signer: options.signer, newAddress: options.newAddress };
  if (config.keystore !== null) {
    const keystore = await openKeystore(config.keystore.folder, config.keystore.passphrase, ports.chance);
    return { signer: keystore.signer, newAddress: () => keystore.createAddress() };
  }
  return {
    signer: makeDevSigner(),
    newAddress: () => Promise.reject(new Error('set PAYONCE_KEYSTORE to make deposit addresses')),
  };
}

function refuseDevKeys(config: Config, signer: EvmSigner): void {
  // Without a chain nothing is signed.
  if (config.production && config.chains.length > 0 && signer.addresses().some(isDevKey))
    throw new PayonceError('PO_CONFIG_INVALID', {
      detail: 'PAYONCE_KEYSTORE: a development key is in use; refused in production',
    });
}

/** Other processes poll twice a second anyway; a hint is worth having if it is rare. */
const NOTIFY_MS = 50;
const NOTIFY = `select pg_notify($1, 'work')`;

const HURRY = `update payonce.effects
set next_at = payonce.now()
where state = 'SEALED'
  and lease_until is null
  and id in (select effect_id from payonce.effect_variants where hash = any ($1::text[]))`;

/** A monitor named transactions of ours: look at once. It is a hint; what it says is not believed. */
async function hurryEffects(
  tx: { query(sql: string, values: readonly unknown[]): Promise<unknown> },
  mentions: { hashes: readonly string[] },
): Promise<void> {
  if (mentions.hashes.length > 0) await tx.query(HURRY, [mentions.hashes]);
}

/** A verb on which several flows have a say: the first objection stands. */
function objectAll(verbs: readonly FlowVerb[]): FlowVerb {
  return {
    async objection(about, detail) {
      for (const verb of verbs) {
        const objection = await verb.objection(about, detail);
        if (objection !== null) return objection;
      }
      return null;
    },
  };
}
