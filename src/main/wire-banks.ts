/** Banks, from their configuration: the rail of each, and which asset it pays. */
import type { Log } from '../kernel/log.ts';
import type { Ports } from '../kernel/ports.ts';
import { type BankRail, makeBankRail, type PayeeInput, type ReadPayee } from '../rails/bank/index.ts';
import { type BankConfig, toRailConfig } from './config-banks.ts';

/** The rules of the bank that will pay: what it cannot carry unchanged is refused at the edge. */
export type PayeeCheck = (input: PayeeInput) => ReadPayee;

export interface WiredBank {
  readonly config: BankConfig;
  readonly rail: BankRail;
  readonly assets: readonly { readonly id: string; readonly code: string; readonly decimals: number }[];
}

/** A provider is not a chain: ISO 4217 within the rail's name. */
export function bankAssetId(rail: string, code: string): string {
  return `${rail}/iso4217:${code}`;
}

export function wireBank(config: BankConfig, deployment: string, ports: Ports, log: Log): WiredBank {
  const http = config.answerWithinMs === undefined ? {} : { timeoutMs: config.answerWithinMs };
  const rail = makeBankRail(toRailConfig(config, deployment), { ports, log, http });
  return {
    config,
    rail,
    assets: config.assets.map(({ code, decimals }) => ({ id: bankAssetId(rail.name, code), code, decimals })),
  };
}

/** The bank that pays an asset, or `null`: another rail does, or none. */
export function bankOf(banks: readonly WiredBank[], assetId: string): WiredBank | null {
  return banks.find((bank) => bank.assets.some((asset) => asset.id === assetId)) ?? null;
}
