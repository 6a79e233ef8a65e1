/** What an escrow rail is configured with, and what is wrong with it: a wrong configuration stops the start, not a trade. */
import type { ConfigFault } from '../base-url.ts';
import { type KeyedRailConfig, keyedConfigFaults } from '../keyed-config.ts';
import type { TradeProfile } from './profile.ts';

/** `name` is for example `escrow:main`; `account` is the one at the provider that trades: the effects' wallet. */
export type EscrowRailConfig = KeyedRailConfig<TradeProfile>;

/** All of them; secrets are in none. Nothing is opened. */
export function readTradeFaults(config: EscrowRailConfig): ConfigFault[] {
  return keyedConfigFaults(config);
}
