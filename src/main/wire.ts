/**
 * The wiring: the only place that imports everything and puts it together from a configuration.
 *
 * `wire` opens what is needed and starts nothing; `startWorkers` and the API are started by the commands. A rail whose
 * nodes are down is degraded, not fatal: the API serves, effects wait, `registerChain` is tried again by the scheduler.
 */
import { appendFileSync } from 'node:fs';
import type { ApiDeps } from '../api/deps.ts';
import { seenOnStatement } from '../audit/reconcile/moved-after-all.ts';
import { makeFundingVerbs } from '../audit/funding.ts';
import { makeStatementVerbs } from '../audit/statements/void.ts';
import { makeRepairVerbs } from '../audit/repair/index.ts';
import { CHANNEL } from '../db/listen.ts';
import { makePool, type Pool } from '../db/pool.ts';
import { raiseAlert, clearAlert } from '../engine/alerts.ts';
import { openCase } from '../engine/cases.ts';
import { confirmNamed } from '../engine/confirm.ts';
import type { EngineDeps, FlowVerb } from '../engine/deps.ts';
import { makeEngine } from '../engine/engine.ts';
import { quarantineWallet } from '../engine/quarantine.ts';
import type { Rail } from '../engine/rail.ts';
import { makeAllowanceFlow, makeAllowanceVerbs } from '../flows/allowances/index.ts';
import { makeCollections } from '../flows/collections/index.ts';
import { makeScanner, type Scanner } from '../flows/deposits/index.ts';
import {
  makeLegVerbs,
  makeMatcher,
  makeP2pFlows,
  makePaymentHandler,
  makeTradeHints,
  type Matcher,
  PAYMENT_SOURCE,
  TRADE_SOURCE,
} from '../flows/p2p/index.ts';
import { makePayoutBatches, makePayoutBatchVerbs, makePayoutFlow, type PayoutDeps } from '../flows/payouts/index.ts';
import { makeRealizations } from '../flows/realizations/index.ts';
import { makeSupplies, makeSupplyFlows, type Supplies, type SupplyPolicy } from '../flows/supplies/index.ts';
import { makeBatchVerbs, makeTransferBatches } from '../flows/transfers/batch.ts';
import { makeTransfers } from '../flows/transfers/index.ts';
import { makeWithdrawals } from '../flows/withdrawals/index.ts';
import { makeChainMonitor, mentionsIn } from '../inbox/chain-monitor.ts';
import { makeReceiver, type Receiver } from '../inbox/receive.ts';
import { type Handler, type InboxWorker, makeInboxWorker } from '../inbox/work.ts';
import { InvariantBroken, PayonceError } from '../kernel/errors.ts';
import { makeIds } from '../kernel/ids.ts';
import { type Log, makeLog, silentLog } from '../kernel/log.ts';
import { type Ports, systemPorts } from '../kernel/ports.ts';
import { makeChart } from '../ledger/accounts.ts';
import { type Courier, makeCourier } from '../outbox/courier.ts';
import type { Config } from './config.ts';
import { configFaults } from './config-check.ts';
import { makeDepositVerbs } from './deposit-verbs.ts';
import { type Keys, openKeys, refuseDevKeys } from './keys.ts';
import { bankOf, type PayeeCheck, type WiredBank, wireBank } from './wire-banks.ts';
import { makeEscrows, type WiredEscrow } from './wire-escrows.ts';
import { type Chain, makeChains, makeMayCall } from './wire-chains.ts';
import { balanceReader, makeMarkets, supplyPolicy, type WiredMarket } from './wire-supplies.ts';

export interface WiredChain extends Chain {
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
  /** Providers of trades. */
  readonly escrows: readonly WiredEscrow[];
  /** Where energy is rented. */
  readonly markets: readonly WiredMarket[];
  readonly supplies: Supplies;
  readonly supplyPolicy: SupplyPolicy;
  readonly courier: Courier;
  readonly receiver: Receiver;
  readonly inbox: InboxWorker;
  readonly matcher: Matcher;
  readonly payouts: PayoutDeps;
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
  /** For the development start: the keys of its chains. */
  readonly keys?: Keys;
}

export async function wire(config: Config, options: WireOptions): Promise<App> {
  const log = config.logLevel === 'silent' ? silentLog : makeLog(config.logLevel);
  const { cutLog } = config;
  const ports = systemPorts(
    config.cut ?? undefined,
    cutLog === null ? undefined : (ordinal, kind, name) => appendFileSync(cutLog, `${ordinal}\t${kind}\t${name}\n`),
  );
  const faults = configFaults(config);
  if (faults.length > 0) throw new PayonceError('PO_CONFIG_INVALID', { detail: faults.join('\n') });
  // Before the pool: keys that do not open must leave no connection behind.
  const keys = options.keys ?? (await openKeys(config, ports));
  refuseDevKeys(config, keys);
  const configured = makeChains(config, { ports, log, keys });
  const policy = supplyPolicy(config, configured);
  const pool = makePool({ url: options.url, ports, log, connectionsMax: config.poolConnections });
  const makeId = makeIds(ports.clock, ports.chance);
  const chart = makeChart();
  const banks = config.banks.map((bank) => wireBank(bank, config.deployment, ports, log));
  const bankRails = banks.map((bank) => bank.rail);
  const markets = makeMarkets(config, ports, log);
  const escrows = makeEscrows(config.escrows, config.deployment, ports, log);
  const rails = [
    ...configured.map(({ rail }) => rail),
    ...bankRails,
    ...markets.map(({ rail }) => rail),
    ...escrows.map(({ rail }) => rail),
  ];
  const railOf = (name: string): Rail | undefined => rails.find((rail) => rail.name === name);
  const supplies = makeSupplies({ pool, makeId, log, readBalance: balanceReader(configured) }, policy);
  const chainOf = (chain: string): Chain | undefined => configured.find((one) => one.chain === chain);
  const wordOf: PayoutDeps['wordOf'] = (chain, address) => {
    const found = chainOf(chain);
    if (found === undefined) throw new InvariantBroken(`chain ${chain} is not configured here`);
    return found.wordOf(address);
  };
  const batchVerbs = makeBatchVerbs(chart, makeId, pool);
  const depositVerbs = makeDepositVerbs({
    pool,
    makeId,
    chart,
    log,
    nodesOf: (chain) => chainOf(chain)?.rail.blocks ?? [],
  });
  const legVerbs = makeLegVerbs(pool, { chart, makeId });
  const payoutVerbs = makePayoutBatchVerbs(pool, { chart, makeId });
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
      ...makeSupplyFlows(chart, log, makeId),
      makeAllowanceFlow(chart, makeId, railOf),
      ...makeP2pFlows(chart, makeId),
      makePayoutFlow(chart),
      makePayoutBatches(chart, makeId),
    ],
    supply: supplies.port,
    rails,
    verbs: {
      ...batchVerbs,
      ...depositVerbs,
      ...makeRepairVerbs({ pool, chart, makeId }),
      ...makeFundingVerbs({ pool, chart }),
      ...makeStatementVerbs(pool),
      ...makeAllowanceVerbs({ pool, makeId, railOf }),
      ...legVerbs,
      decide_line: ofSubject({ transfer_batch: batchVerbs.decide_line, payout_batch: payoutVerbs.decide_line }),
      close: objectAll([batchVerbs.close, depositVerbs.close, legVerbs.close, payoutVerbs.close]),
    },
    leaseMs: config.leaseMs,
    seenElsewhere: seenOnStatement,
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
  const chains = configured.map((one): WiredChain => {
    const { chain, rail, agreeing, scanOverlapBlocks, canonical } = one;
    const scanner = makeScanner({
      pool,
      makeId,
      chart,
      log,
      chain,
      rail: rail.name,
      nodes: rail.blocks,
      canonical,
      ...(agreeing === undefined ? {} : { agreeing }),
      ...(scanOverlapBlocks === undefined ? {} : { overlapBlocks: BigInt(scanOverlapBlocks) }),
      onUnknownMovement: (tx, moved) =>
        quarantineWallet(
          tx,
          { makeId, log },
          { ...moved, reason: `${moved.txHash} left ${moved.wallet} without a record` },
        ),
    });
    return { ...one, scanner };
  });
  const courier = makeCourier({
    pool,
    ports,
    log,
    masterSecret: config.masterSecret,
    policy: { allowPrivate: !config.production },
  });
  const monitor = makeChainMonitor({ wake, hurry: hurryEffects });
  const payments = makePaymentHandler({ chart, makeId });
  const trades = makeTradeHints(wake);
  const handlerOf = (source: string): Handler => {
    if (source.startsWith(PAYMENT_SOURCE)) return payments;
    return source.startsWith(TRADE_SOURCE) ? trades : monitor;
  };
  const inbox = makeInboxWorker({
    pool,
    log,
    handlers: Object.fromEntries(config.inbound.map(({ name }) => [name, handlerOf(name)])),
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
    escrows,
    markets,
    supplies,
    supplyPolicy: policy,
    courier,
    receiver,
    inbox,
    matcher: makeMatcher(engine, log),
    payouts: { pool, makeId, chart, log, wordOf, mayCall: makeMayCall(config.payoutCalls, configured) },
    health: new Map(),
    wakes,
    wake,
    async newDepositAddress(chain) {
      const spell = chainOf(chain)?.spell;
      if (spell === undefined) throw new Error(`no chain ${chain} is configured here`);
      return spell(await keys.newAddress());
    },
    readDestination(chain, text) {
      const found = chainOf(chain);
      if (found !== undefined) return found.readAddress(text);
      return bankRails.some((rail) => rail.name === chain)
        ? { ok: false, fault: 'it is paid through a bank', expected: 'a transfer: POST /v1/transfers' }
        : { ok: false, fault: 'no_chain', expected: 'an asset of a chain that is configured' };
    },
    readPayee(assetId) {
      const bank = bankOf(banks, assetId);
      return bank === null ? null : (input) => bank.rail.readPayee(input);
    },
    batchLinesMax: (assetId) => bankOf(banks, assetId)?.rail.profile.linesMax ?? 1,
    async close() {
      await courier.close();
      await Promise.all(rails.map((rail) => rail.close()));
      await pool.end();
    },
  };
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

/** A verb that two flows have, each for cases about its own subjects. */
function ofSubject(verbs: Readonly<Record<string, FlowVerb>>): FlowVerb {
  const of = (subjectKey: string): FlowVerb | undefined => verbs[subjectKey.split(':')[0] ?? ''];
  return {
    objection: (about, detail) =>
      of(about.subjectKey)?.objection(about, detail) ?? Promise.resolve('this case is not about lines of a batch'),
    carryOut: (tx, proposal) =>
      of(proposal.about.subjectKey)?.carryOut?.(tx, proposal) ?? Promise.resolve({ refused: 'no such lines' }),
  };
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
