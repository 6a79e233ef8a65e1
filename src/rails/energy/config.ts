/** How the energy rail is configured, and what is wrong with a configuration; nothing is opened. */
import type { Capabilities } from '../../engine/rail.ts';
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
export function energyConfigFaults(config: EnergyRailConfig): { readonly field: string; readonly why: string }[] {
  const faults: { field: string; why: string }[] = [];
  const { baseUrl, account, profile } = config;
  if (account === '') faults.push({ field: 'account', why: 'name the account that pays' });
  if (profile.latenessMs < LATENESS_MS_MIN)
    faults.push({ field: 'profile', why: 'a lateness under 30 minutes is not believed' });
  if (!URL.canParse(baseUrl)) return [...faults, { field: 'baseUrl', why: 'it is no URL' }];
  const url = new URL(baseUrl);
  if (url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '')
    faults.push({ field: 'baseUrl', why: 'the base URL carries neither query nor credentials' });
  if (url.protocol !== 'https:' && !/^(?:localhost|\[::1\]|127(?:\.[0-9]{1,3}){3})$/.test(url.hostname))
    faults.push({ field: 'baseUrl', why: 'the base URL must be https' });
  return faults;
}
