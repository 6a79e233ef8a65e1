/**
 * Chains, from their configuration: the rail of each, and what differs between families, so that nothing else asks which one
 * it has. Addresses come out of here in the chain's one spelling; one that is none is a fault of the configuration.
 */
import type { ChainNode } from '../audit/reconcile/chain-read.ts';
import type { AssetRef, Rail } from '../engine/rail.ts';
import type { MayCall } from '../flows/payouts/index.ts';
import type { Log } from '../kernel/log.ts';
import type { Ports } from '../kernel/ports.ts';
import { makeEvmRail, readAddress as readEvmAddress } from '../rails/evm/index.ts';
import * as tron from '../rails/tron/index.ts';
import type { ChainConfig, Config, PayoutCallConfig, TronConfig } from './config.ts';
import type { AssetConfig, GasConfig } from './config-asset-shape.ts';
import type { Keys } from './keys.ts';

/** What the rails of all chains have beside the port. */
interface ChainRail extends Rail {
  /** For start-up: configured decimals against the contract's own. */
  checkAsset(
    asset: AssetRef,
  ): Promise<{ readonly ok: true } | { readonly ok: false; readonly reason: string; readonly detail: string }>;
  /** One reader per node. */
  readonly blocks: readonly ChainNode[];
  close(): Promise<void>;
}

type ReadAddress =
  | { readonly ok: true; readonly address: string; readonly display: string }
  | { readonly ok: false; readonly fault: string; readonly expected: string };

/** An asset as it is configured, its addresses in the chain's one spelling. */
export interface ChainAsset extends AssetConfig {
  /** CAIP-19. */
  readonly id: string;
  readonly relayers: string[];
}

export interface Chain {
  /** CAIP-2. */
  readonly chain: string;
  readonly rail: ChainRail;
  readonly coinAssetId: string;
  readonly assets: readonly ChainAsset[];
  /** The most that a plain transfer of the coin may burn, in its smallest unit: no sweep of it can burn more. */
  readonly coinTransferCostMax: bigint;
  readonly gas?: GasConfig;
  /** Told of a wallet that pays fees, where nothing else is configured. Units of the coin. */
  readonly warnBelow: bigint;
  readonly agreeing?: number;
  readonly scanOverlapBlocks?: number;
  /** Asks no node: it judges the spelling. */
  readonly readAddress: (text: string) => ReadAddress;
  /** The one spelling of a text; `null`: it is no address. */
  readonly canonical: (text: string) => string | null;
  readonly assetIdOf: (contract: string | null) => string;
  /** A key's address, given as 20 bytes in hex. */
  readonly spell: (address: string) => string;
  /** An address of it as a word of its contracts: 64 hex digits. */
  readonly wordOf: (address: string) => string;
}

interface Parts {
  readonly ports: Ports;
  readonly log: Log;
  readonly keys: Keys;
}

export interface ChainFamily {
  /** Where it stands in the file. */
  readonly place: string;
  readonly about: Family;
  readonly written: ChainConfig | TronConfig;
}

/** EVM chains come first. Asks and opens nothing. */
export function familiesOf(config: Pick<Config, 'chains' | 'tron' | 'leaseMs'>): ChainFamily[] {
  return [
    ...config.chains.map((one, index) => ({
      place: `chains[${index}]`,
      about: evmChain(one, config.leaseMs),
      written: one,
    })),
    ...config.tron.map((one, index) => ({
      place: `tron[${index}]`,
      about: tronChain(one, config.leaseMs),
      written: one,
    })),
  ];
}

/** Nothing is asked and nothing leaves. Of a configuration without faults (`config-check.ts`). */
export function makeChains(config: Config, parts: Parts): Chain[] {
  const read = familiesOf(config).map(({ about, written }) => ({
    about,
    written,
    assets: written.assets.map((asset) => readAsset(about, asset)),
  }));
  return read.map(({ about, assets, written: { agreeing, scanOverlapBlocks, gas } }) => ({
    ...about,
    rail: about.makeRail(parts),
    coinAssetId: about.assetIdOf(null),
    assets,
    ...(gas === undefined ? {} : { gas }),
    ...(agreeing === undefined ? {} : { agreeing }),
    ...(scanOverlapBlocks === undefined ? {} : { scanOverlapBlocks }),
    canonical: (text: string) => canonicalIn(about, text),
  }));
}

/** What a family says of one of its chains. */
interface Family
  extends Pick<
    Chain,
    'chain' | 'readAddress' | 'assetIdOf' | 'coinTransferCostMax' | 'warnBelow' | 'spell' | 'wordOf'
  > {
  makeRail(parts: Parts): ChainRail;
}

function canonicalIn(family: Pick<Family, 'readAddress'>, text: string): string | null {
  const read = family.readAddress(text);
  return read.ok ? read.address : null;
}

function readAsset(family: Family, asset: AssetConfig): ChainAsset {
  const address = (text: string): string => canonicalIn(family, text) ?? text;
  const contract = asset.contract === null ? null : address(asset.contract);
  return {
    ...asset,
    id: family.assetIdOf(contract),
    contract,
    ...(asset.wallet === undefined ? {} : { wallet: address(asset.wallet) }),
    relayers: (asset.relayers ?? []).map(address),
  };
}

/** Absence takes two operators (design §2), also where only one is configured: then it stays a person's. */
function witnessesOf(chain: ChainConfig | TronConfig): number {
  const operators = new Set(chain.nodes.map((node) => node.operator)).size;
  return Math.max(chain.absenceWitnesses ?? 2, operators === 1 ? 2 : 1);
}

/** CAIP-19: a token by its contract, the coin by its SLIP-44 number of the EVM family. */
function evmAssetId(chain: string, contract: string | null): string {
  return contract === null ? `${chain}/slip44:60` : `${chain}/erc20:${contract.toLowerCase()}`;
}

/** A plain transfer of the coin. */
const COIN_TRANSFER_GAS = 21_000n;

/** What the quick nodes showed must be recorded while the lease stands. */
const ASK_PART_OF_LEASE = 0.3;

function evmChain(chain: ChainConfig, leaseMs: number): Family {
  const name = `eip155:${chain.chainId}`;
  const { lookEveryMs, resendAfterMs, bumpAfterMs, decideWithinMs } = chain;
  return {
    chain: name,
    coinTransferCostMax: COIN_TRANSFER_GAS * BigInt(chain.feeCapWei),
    warnBelow: 0n,
    readAddress: readEvmAddress,
    spell: (address) => address,
    wordOf: (address) => address.slice(2).toLowerCase().padStart(64, '0'),
    assetIdOf: (contract) => evmAssetId(name, contract),
    makeRail: ({ ports, log, keys }) =>
      makeEvmRail(
        {
          name: `evm:${chain.chainId}`,
          chainId: BigInt(chain.chainId),
          ...(chain.genesisHash === undefined ? {} : { genesisHash: chain.genesisHash }),
          nodes: chain.nodes,
          finality: chain.finality,
          feeCapWei: BigInt(chain.feeCapWei),
          gasLimitCap: BigInt(chain.gasLimitCap),
          coinAssetId: evmAssetId(name, null),
          askWithinMs: Math.round(leaseMs * ASK_PART_OF_LEASE),
          capabilities: {
            absenceWitnesses: witnessesOf(chain),
            ...(lookEveryMs === undefined ? {} : { lookEveryMs }),
            ...(resendAfterMs === undefined ? {} : { resendAfterMs }),
            ...(bumpAfterMs === undefined ? {} : { bumpAfterMs }),
            ...(decideWithinMs === undefined ? {} : { decideWithinMs }),
          },
        },
        { ports, signer: keys.evm, log },
      ),
  };
}

/** CAIP-2: the last four bytes of block 0's id. */
function tronChainName(genesisId: string): string {
  return `tron:0x${genesisId.slice(-8)}`;
}

/** CAIP-19, TRX by its SLIP-44 number. */
function tronAssetId(chain: string, contract: string | null): string {
  return contract === null ? `${chain}/slip44:195` : `${chain}/trc20:${tron.canonicalAddress(contract)}`;
}

/** A transfer of TRX takes under 300 bytes of bandwidth, 1,000 sun each where none is left; its price may be voted up. */
const TRX_TRANSFER_SUN_MAX = 1_000_000n;

/** R7: 100 TRX. A payment of USDT without energy burns 7 to 14 of them. */
const WARN_BELOW_SUN = 100_000_000n;

function tronChain(chain: TronConfig, leaseMs: number): Family {
  const name = tronChainName(chain.genesisId);
  const { expiresAfterMs, lookEveryMs, resendAfterMs, decideWithinMs } = chain;
  return {
    chain: name,
    coinTransferCostMax: TRX_TRANSFER_SUN_MAX,
    warnBelow: WARN_BELOW_SUN,
    readAddress: tron.readAddress,
    spell: tron.canonicalAddress,
    wordOf: (address) => tron.machineAddress(address).slice(2).toLowerCase().padStart(64, '0'),
    assetIdOf: (contract) => tronAssetId(name, contract),
    makeRail: ({ ports, log, keys }) =>
      tron.makeTronRail(
        {
          name: `tron:${chain.network}`,
          genesisId: chain.genesisId,
          nodes: chain.nodes.map(({ key, ...node }) => ({
            ...node,
            ...(key === undefined ? {} : { headers: { 'TRON-PRO-API-KEY': key() } }),
          })),
          coinAssetId: tronAssetId(name, null),
          feeLimitCapSun: BigInt(chain.feeLimitCapSun),
          ...(expiresAfterMs === undefined ? {} : { expiresAfterMs }),
          askWithinMs: Math.round(leaseMs * ASK_PART_OF_LEASE),
          capabilities: {
            absenceWitnesses: witnessesOf(chain),
            ...(lookEveryMs === undefined ? {} : { lookEveryMs }),
            ...(resendAfterMs === undefined ? {} : { resendAfterMs }),
            ...(decideWithinMs === undefined ? {} : { decideWithinMs }),
          },
        },
        { ports, signer: keys.tron, log },
      ),
  };
}

/** To the letter, the spelling of hex aside. */
export function makeMayCall(allowed: readonly PayoutCallConfig[], chains: readonly Chain[]): MayCall {
  const keyOf = (chain: string, { to, data, value = 'nothing' }: Omit<PayoutCallConfig, 'chain'>): string =>
    JSON.stringify([chain, to, data.toLowerCase(), value]);
  const known = new Set(
    allowed.map((one) => {
      const to = chains.find(({ chain }) => chain === one.chain)?.canonical(one.to) ?? one.to;
      return keyOf(one.chain, { ...one, to });
    }),
  );
  return (chain, call) => known.has(keyOf(chain, call));
}
