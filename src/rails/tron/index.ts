/**
 * The TRON rail: TRX and TRC-20 transfers and contract calls.
 *
 * Promises: one identity is one transaction id, the hash of bytes that are sealed before the first of them leaves; they
 * name a solid block and expire within minutes; the same bytes with the same signature are sent again until they are seen
 * or have expired, and nothing else ever is under that seal. Success is what was meant in a *solid* receipt. Nothing
 * moved only if it failed in a solid block, or if solid time is past the expiration and a margin and two witnesses, who
 * show that they would show it, do not have it.
 * Never: reads an answer to a broadcast as a yes or as a no, asks a node to build, sign or broadcast in one step, signs
 * a second variant (TRON has no nonce: both could be included), or retries. It holds no database handle.
 * Beside it: the deposit scanner reads whole blocks through `blocks`, on connections of its own.
 * Files: wire (HTTP), lanes (several connections, pace), nodes (which chain, blocks), plan, afford, resources and wait, payload (the seal), signer and keystore,
 * send, answers (the table of broadcast answers), look, look-body, read, receipt, address, blocks, check.
 */
import type { AssetRef, Capabilities, Rail, SealedEffect } from '../../engine/rail.ts';
import { assert } from '../../kernel/errors.ts';
import { type Log, silentLog } from '../../kernel/log.ts';
import type { Ports } from '../../kernel/ports.ts';
import { makeSendAgent, WIRE_LIMITS, type WireLimits } from '../http.ts';
import type { PlanConfig } from './afford.ts';
import { makeAllowances } from './allowances.ts';
import { type BlockReader, makeBlockReader } from './blocks.ts';
import { type AssetCheck, checkAssetOn } from './check.ts';
import { makePace } from './lanes.ts';
import { CAPABILITIES, CONNECTIONS_PER_NODE, EXPIRES_AFTER_MS, FEE_LIMIT_SUN_MAX, ASK_WITHIN_MS } from './limits.ts';
import { lookAtAll } from './look.ts';
import { openNodes } from './nodes.ts';
import { readExpect, sealEffect } from './payload.ts';
import { planEffects } from './plan.ts';
import { readAnswer } from './read.ts';
import { makeSend } from './send.ts';
import { signSealed, specOf, type TronSigner } from './signer.ts';
import type { NodeConfig } from './wire.ts';

export { canonicalAddress, machineAddress, readAddress } from './address.ts';
export type { BlockReader } from './blocks.ts';
export type { AssetCheck } from './check.ts';
export { makeDevSigner, openKeystore, signerOf } from './keystore.ts';
export { amountFault } from './payload.ts';
export { makeLocalSigner, type TronSigner } from './signer.ts';
export type { NodeConfig } from './wire.ts';

/** What happens where an account is short of energy and nobody supplies any. */
export type EnergyPolicy =
  | { readonly policy: 'wait' }
  /** TRX is burned in its place, up to so many sun for one effect. */
  | { readonly policy: 'burn'; readonly maxSun: bigint };

export interface TronRailConfig {
  /** For example `tron:mainnet`. */
  readonly name: string;
  /** The id of block 0, 64 hex digits: it tells TRON's networks apart, and is checked on every node. */
  readonly genesisId: string;
  readonly nodes: readonly NodeConfig[];
  readonly coinAssetId: string;
  /** The highest `fee_limit` of any transaction, in sun. */
  readonly feeLimitCapSun: bigint;
  /** Absent: wait. */
  readonly energy?: EnergyPolicy;
  readonly expiresAfterMs?: number;
  /** A look or a plan waits so long for each node. */
  readonly askWithinMs?: number;
  readonly capabilities?: Partial<Capabilities>;
}

export interface TronRailDeps {
  readonly ports: Ports;
  readonly signer: TronSigner;
  readonly log?: Log;
  readonly http?: Partial<WireLimits>;
}

export interface TronRail extends Rail {
  /** For start-up: configured decimals against the contract's own. */
  checkAsset(asset: AssetRef): Promise<AssetCheck>;
  /** One reader per node, for the deposit scanner. */
  readonly blocks: readonly BlockReader[];
  close(): Promise<void>;
}

export function makeTronRail(config: TronRailConfig, deps: TronRailDeps): TronRail {
  const { ports, signer } = deps;
  const limits: WireLimits = { ...WIRE_LIMITS, ...deps.http };
  const log = deps.log ?? silentLog;
  const capabilities: Capabilities = { ...CAPABILITIES, ...config.capabilities };
  const paces = config.nodes.map((node) => makePace(ports.clock, node.requestsPerSecond));
  const parts = { ports, limits, log, paces };
  const nodes = openNodes(config, parts, (node) => node.connections ?? CONNECTIONS_PER_NODE);
  // The scanner's large answers must not stand before a payment's look in one connection's queue.
  const scanNodes = openNodes(config, parts, () => 1);
  const agent = makeSendAgent(capabilities.sendConcurrencyMax, limits);
  const sendSigned = makeSend(nodes, agent, ports, limits);
  const energy = config.energy ?? { policy: 'wait' };
  const askWithinMs = config.askWithinMs ?? ASK_WITHIN_MS;
  const planConfig: PlanConfig = {
    askWithinMs,
    coinAssetId: config.coinAssetId,
    expiresAfterMs: config.expiresAfterMs ?? EXPIRES_AFTER_MS,
    feeLimitCapSun: config.feeLimitCapSun < FEE_LIMIT_SUN_MAX ? config.feeLimitCapSun : FEE_LIMIT_SUN_MAX,
    burnMaxSun: energy.policy === 'burn' ? energy.maxSun : 0n,
    log,
    holdsKey: (address) => signer.holds(address),
    now: () => ports.clock.now(),
  };
  const named = new Map(nodes.map((node) => [node.name.source, node.name] as const));
  const readConfig = { ...config, named };
  // What each operator's nodes of the right chain showed last: what they show less of later was not so.
  const solidTimes = new Map<string, number>();
  const witnesses = Math.min(2, new Set(nodes.map((node) => node.name.operator)).size);

  return {
    name: config.name,
    capabilities,
    plan: (effects, context) => planEffects(nodes, planConfig, effects, context),
    seal: (effect, plan) => sealEffect(effect, plan),
    allowances: makeAllowances(nodes),
    async specify(sealed, kind) {
      return specOf(sealed, kind);
    },
    sign: (sealed, spec) => signSealed(ports, signer, sealed, spec),
    withholds: (sealed) => whyExpired(sealed, agreedTimeMs(solidTimes, witnesses)),
    send(sealed, signed) {
      assert(signed !== null, 'a TRON send carries the signed transaction');
      return sendSigned(sealed, signed);
    },
    look: (sealed) =>
      lookAtAll(nodes, { ...config, askWithinMs }, sealed, (operator, timeMs) => {
        solidTimes.set(operator, timeMs);
      }),
    read: (answer, sealed) => readAnswer(readConfig, answer, sealed),
    checkAsset: (asset) => checkAssetOn(nodes, asset),
    blocks: scanNodes.map(makeBlockReader),
    async close() {
      await Promise.all([...nodes, ...scanNodes].map((node) => node.close()));
      await agent.destroy();
    },
  };
}

/** The newest time that two operators have reached, or the one where there is one. Of two, one alone keeps nothing from being sent. */
function agreedTimeMs(byOperator: ReadonlyMap<string, number>, witnesses: number): number {
  const newestFirst = [...byOperator.values()].sort((left, right) => right - left);
  return newestFirst[witnesses - 1] ?? 0;
}

/** After its expiration in solid time no block can take the bytes: sending them on would only make noise. */
function whyExpired(sealed: SealedEffect, solidTimeMs: number): string | null {
  const { expirationMs } = readExpect(sealed.seal.expect);
  if (solidTimeMs <= expirationMs) return null;
  const expired = new Date(expirationMs).toISOString();
  return `it expired at ${expired}: its bytes can never be included now, and absence is being proved before its money is freed`;
}
