/**
 * The EVM rail: native and ERC-20 transfers and contract calls on any chain that speaks Ethereum's JSON-RPC.
 *
 * Promises: one identity is one (chain, signer, nonce); every variant of it keeps target, value and data and differs in
 * fees and gas alone, except a cancel, which pays nobody. A send is one request to one node. A look asks every node,
 * each on one connection, and a node is a witness only if it shows the block that the seal names and has finality past
 * it. Success is the log that was meant in a final receipt, never calldata, never a status alone for a token.
 * Never: takes a nonce from a node, retries, falls back from `finalized` to `latest`, or reads a node's refusal as
 * proof that nothing moved. It holds no database handle.
 * Beside it: the deposit scanner reads whole blocks through `blocks`, on connections of its own.
 * Files: rpc (the wire), nodes (which chain, heads), plan, fees, payload (the seal), signer and keystore, send, look,
 * allowances (relayers'), competitor (who used the nonce), read, receipt, answers (the table of node answers), address, blocks, check, survey.
 */
import type { AssetRef, Capabilities, Rail } from '../../engine/rail.ts';
import { assert } from '../../kernel/errors.ts';
import { type Log, silentLog } from '../../kernel/log.ts';
import type { Ports } from '../../kernel/ports.ts';
import { makeSendAgent, WIRE_LIMITS, type WireLimits } from '../http.ts';
import { makeAllowances } from './allowances.ts';
import { type BlockReader, makeBlockReader } from './blocks.ts';
import { type AssetCheck, checkAssetOn } from './check.ts';
import { marketCalls, nextSpec, originalSpec, readMarket } from './fees.ts';
import { toQuantity } from './json.ts';
import { ASK_WITHIN_MS, CAPABILITIES } from './limits.ts';
import { lookAtAll } from './look.ts';
import { type EvmNode, type Finality, openNodes, quantityIn } from './nodes.ts';
import { readPayload, sealEffect } from './payload.ts';
import { planEffects } from './plan.ts';
import { readAnswer } from './read.ts';
import type { NodeConfig } from './rpc.ts';
import { makeSend } from './send.ts';
import { type EvmSigner, signVariant } from './signer.ts';
import { surveySigners } from './survey.ts';

export { type AddressFault, type ReadAddress, readAddress } from './address.ts';
export type { BlockReader, ChainBlock, ChainTransaction } from './blocks.ts';
export type { AssetCheck } from './check.ts';
export { FeeCapReached } from './fees.ts';
export { isDevKey, type Keystore, makeDevSigner, openKeystore, signerOf } from './keystore.ts';
export type { Finality, Header, Read } from './nodes.ts';
export type { WaitReason } from './plan.ts';
export type { Receipt, ReceiptLog } from './receipt.ts';
export type { NodeConfig } from './rpc.ts';
export { type EvmSigner, makeLocalSigner } from './signer.ts';

export interface EvmRailConfig {
  /** For example `evm:31337`. */
  readonly name: string;
  readonly chainId: bigint;
  /** Tells forks of one chain id apart; checked on every node where it is given. */
  readonly genesisHash?: string;
  readonly nodes: readonly NodeConfig[];
  /** A tag where the chain has one; a depth is a bet on the deepest reorganisation. */
  readonly finality: Finality;
  /** The highest `maxFeePerGas` of any variant, in wei per unit of gas. A first variant leaves room below it for all
   *  bumps and a cancel. */
  readonly feeCapWei: bigint;
  readonly gasLimitCap: bigint;
  /** A look or a plan waits so long for each node. */
  readonly askWithinMs?: number;
  readonly capabilities?: Partial<Capabilities>;
  /** The asset in which gas is paid. */
  readonly coinAssetId: string;
}

export interface EvmRailDeps {
  readonly ports: Ports;
  readonly signer: EvmSigner;
  readonly log?: Log;
  readonly http?: Partial<WireLimits>;
}

export interface EvmRail extends Rail {
  /** For start-up: configured decimals against the contract's own. */
  checkAsset(asset: AssetRef): Promise<AssetCheck>;
  /** One reader per node, for the deposit scanner. */
  readonly blocks: readonly BlockReader[];
  close(): Promise<void>;
}

export function makeEvmRail(config: EvmRailConfig, deps: EvmRailDeps): EvmRail {
  const { ports, signer } = deps;
  const limits: WireLimits = { ...WIRE_LIMITS, ...deps.http };
  const log = deps.log ?? silentLog;
  const capabilities: Capabilities = { ...CAPABILITIES, ...config.capabilities };
  const nodes = openNodes(config, ports, limits, log);
  // The scanner's large answers must not stand before a payment's look in one connection's queue.
  const scanNodes = openNodes(config, ports, limits, log);
  const agent = makeSendAgent(capabilities.sendConcurrencyMax, limits);
  const sendVariant = makeSend(nodes, agent, ports, limits);
  const askWithinMs = config.askWithinMs ?? ASK_WITHIN_MS;
  const planConfig = {
    ...config,
    askWithinMs,
    bumpsMax: capabilities.bumpsMax,
    inFlightPerSignerMax: capabilities.inFlightPerSignerMax,
    holdsKey: (address: string) => signer.holds(address),
  };

  return {
    name: config.name,
    capabilities,
    plan: (effects, context) => planEffects(nodes, planConfig, effects, context),
    seal: (effect, plan, allotment) => sealEffect(config.chainId, effect, plan, allotment),
    allowances: makeAllowances(nodes),
    survey: (signers) => surveySigners(nodes, askWithinMs, signers),
    async specify(sealed, kind) {
      if (kind === 'original') return originalSpec(sealed.plan);
      const { market, gasEstimate } = await askMarket(nodes, readPayload(sealed.seal.payload));
      return nextSpec(sealed, kind, market, gasEstimate, planConfig);
    },
    sign: (sealed, spec) => signVariant(ports, signer, sealed, spec),
    send(sealed, signed) {
      assert(signed !== null, 'an EVM send carries a signed variant');
      return sendVariant(sealed, signed);
    },
    look: (sealed) => lookAtAll(nodes, { ...config, askWithinMs }, sealed),
    read: (answer, sealed) => readAnswer(config, answer, sealed),
    checkAsset: (asset) => checkAssetOn(nodes, asset),
    blocks: scanNodes.map((node) => makeBlockReader(node, config.finality)),
    async close() {
      await Promise.all([...nodes, ...scanNodes].map((node) => node.line.close()));
      await agent.destroy();
    },
  };
}

/** The market for a bump, from the first node that tells; without any the bump goes by the stored fees alone. */
async function askMarket(nodes: readonly EvmNode[], payload: ReturnType<typeof readPayload>) {
  const { from, to, value, data } = payload;
  const calls = marketCalls();
  for (const node of nodes) {
    const results = await node.checked.ask([
      ...calls,
      { method: 'eth_estimateGas', params: [{ from, to, value: toQuantity(value), data }] },
    ]);
    const market = readMarket(results);
    if (market !== null) return { market, gasEstimate: quantityIn(results[calls.length]) };
  }
  return { market: null, gasEstimate: null };
}
