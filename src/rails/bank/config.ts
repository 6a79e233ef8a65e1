/** What a bank rail is configured with, and what is wrong with it: a wrong configuration stops the start, not a payment. */
import type { Capabilities } from '../../engine/rail.ts';
import { LATENESS_MS_MIN } from './limits.ts';
import { isClosed, type Maintenance } from './plan.ts';
import type { Profile } from './profile.ts';
import type { SecretPort } from './wire.ts';

export interface BankRailConfig {
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
    /** Where the provider encrypts bodies: 64 hexadecimal characters. */
    readonly encryptionKey?: string;
  };
  readonly deployment: string;
  /** Our requests reach the provider itself over TLS, and nothing between delivers one again. */
  readonly direct?: boolean;
  readonly maintenance?: readonly Maintenance[];
  /** What this contract says, where it promises less than the profile. */
  readonly narrower?: { readonly retentionMs?: number; readonly latenessMs?: number };
  readonly capabilities?: Partial<
    Pick<Capabilities, 'decideWithinMs' | 'lookEveryMs' | 'resendAfterMs' | 'sendConcurrencyMax'>
  >;
}

export interface ConfigFault {
  /** As in `BankRailConfig`, for example `credential.id`. */
  readonly field: string;
  readonly why: string;
}

/** All of them; secrets are in none. */
export function configFaults(config: BankRailConfig): ConfigFault[] {
  const { profile, narrower, credential } = config;
  const faults = baseUrlFaults(config.baseUrl);
  const fault = (field: string, why: string): void => void faults.push({ field, why });
  if (credential.id === '') fault('credential.id', 'name the credential');
  if (config.account === '') fault('account', 'name the account that pays');
  if (profile.encryption === 'jwe' && !/^[0-9a-fA-F]{64}$/.test(credential.encryptionKey ?? ''))
    fault('credential.encryptionKey', `${profile.name} needs it: 64 hexadecimal characters`);
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
  // Bytes that something between delivers twice are two payments there.
  if (profile.key === null && config.direct !== true)
    fault(
      'direct',
      `${profile.name} keeps no keys: it is used only where requests reach it directly over TLS and nothing between delivers one again; say direct: true where that is so`,
    );
  config.maintenance?.forEach((window, index) => {
    try {
      isClosed(window, new Date(0));
    } catch (error) {
      fault(`maintenance[${index}]`, error instanceof Error ? error.message : 'there is no such time or zone');
    }
  });
  return faults;
}

function baseUrlFaults(baseUrl: string): ConfigFault[] {
  if (!URL.canParse(baseUrl)) return [{ field: 'baseUrl', why: 'it is no URL' }];
  const url = new URL(baseUrl);
  const faults: ConfigFault[] = [];
  if (url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '')
    faults.push({ field: 'baseUrl', why: 'the base URL carries neither query nor credentials' });
  if (url.protocol !== 'https:' && !isLoopback(url.hostname))
    faults.push({ field: 'baseUrl', why: 'the base URL must be https' });
  return faults;
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || /^127(?:\.[0-9]{1,3}){3}$/.test(host);
}
