/** What a rail with keys over HTTP is configured with, and what is wrong with it: a wrong one stops the start, not a payment. */
import type { Capabilities } from '../engine/rail.ts';
import { baseUrlFaults, type ConfigFault } from './base-url.ts';
import { LATENESS_MS_MIN } from './keyed-limits.ts';
import type { KeyRule } from './keyed-profile.ts';
import type { SecretPort } from './keyed-wire.ts';

export interface KeyedRailConfig<Profile> {
  /** For example `bank:main`. */
  readonly name: string;
  readonly profile: Profile;
  readonly baseUrl: string;
  /** The account at the provider that pays. */
  readonly account: string;
  readonly credential: {
    /** Its name: part of what is sealed. Another secret under the same name is a rotation that nobody sees: do not. */
    readonly id: string;
    readonly secret: SecretPort;
  };
  readonly deployment: string;
  /** Our requests reach the provider itself over TLS, and nothing between delivers one again. */
  readonly direct?: boolean;
  /** What this contract says, where it promises less than the profile. */
  readonly narrower?: { readonly retentionMs?: number; readonly latenessMs?: number };
  readonly capabilities?: Partial<
    Pick<Capabilities, 'decideWithinMs' | 'lookEveryMs' | 'resendAfterMs' | 'sendConcurrencyMax'>
  >;
}

interface Promises {
  readonly name: string;
  readonly key: KeyRule | null;
  readonly retentionMs: number | null;
  readonly latenessMs: number;
}

/** All of them; secrets are in none. */
export function keyedConfigFaults(config: KeyedRailConfig<Promises>): ConfigFault[] {
  const { profile, narrower, credential } = config;
  const faults = baseUrlFaults(config.baseUrl);
  const fault = (field: string, why: string): void => void faults.push({ field, why });
  if (credential.id === '') fault('credential.id', 'name the credential');
  if (config.account === '') fault('account', 'name the account that pays');
  if (profile.latenessMs < LATENESS_MS_MIN) fault('profile', 'a lateness under 30 minutes is not believed');
  const { retentionMs, latenessMs } = narrower ?? {};
  if (retentionMs !== undefined && profile.key === null)
    fault('narrower.retentionMs', `${profile.name} keeps no keys: there is nothing to narrow`);
  else if (retentionMs !== undefined && profile.retentionMs !== null && retentionMs > profile.retentionMs)
    fault(
      'narrower.retentionMs',
      `a longer retention than the profile’s ${profile.retentionMs} is a widening: change the profile and its baseline`,
    );
  if (latenessMs !== undefined && latenessMs < profile.latenessMs)
    fault(
      'narrower.latenessMs',
      `a shorter lateness than the profile’s ${profile.latenessMs} is a widening: change the profile and its baseline`,
    );
  return faults;
}
