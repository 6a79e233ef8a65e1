/** How the energy rail is configured, and what is wrong with a configuration; nothing is opened. */
import type { Capabilities } from '../../engine/rail.ts';
import { baseUrlFaults, type ConfigFault } from '../base-url.ts';
import { LATENESS_MS_MIN } from './limits.ts';
import type { MarketProfile } from './profile.ts';

export interface EnergyRailConfig {
  /** For example `energy:main`. */
  readonly name: string;
  readonly profile: MarketProfile;
  readonly baseUrl: string;
  /** The account at the market whose prepaid balance pays: the effects' wallet. */
  readonly account: string;
  readonly secret: () => Promise<string> | string;
  readonly deployment: string;
  readonly capabilities?: Partial<Pick<Capabilities, 'decideWithinMs' | 'lookEveryMs' | 'resendAfterMs'>>;
}

/** What is wrong with a configuration; secrets are in none of it. */
export function energyConfigFaults(config: EnergyRailConfig): ConfigFault[] {
  const faults: ConfigFault[] = [];
  const { baseUrl, account, profile } = config;
  if (account === '') faults.push({ field: 'account', why: 'name the account that pays' });
  if (profile.latenessMs < LATENESS_MS_MIN)
    faults.push({ field: 'profile', why: 'a lateness under 30 minutes is not believed' });
  return [...faults, ...baseUrlFaults(baseUrl)];
}
