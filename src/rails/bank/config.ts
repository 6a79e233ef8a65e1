/** What a bank rail is configured with, and what is wrong with it: a wrong configuration stops the start, not a payment. */
import type { ConfigFault } from '../base-url.ts';
import { type KeyedRailConfig, keyedConfigFaults } from '../keyed-config.ts';
import { isClosed, type Maintenance } from './plan.ts';
import type { Profile } from './profile.ts';

export interface BankRailConfig extends KeyedRailConfig<Profile> {
  readonly credential: KeyedRailConfig<Profile>['credential'] & {
    /** Where the provider encrypts bodies: 64 hexadecimal characters. */
    readonly encryptionKey?: string;
  };
  readonly maintenance?: readonly Maintenance[];
}

/** All of them; secrets are in none. */
export function configFaults(config: BankRailConfig): ConfigFault[] {
  const { profile, credential } = config;
  const faults = keyedConfigFaults(config);
  const fault = (field: string, why: string): void => void faults.push({ field, why });
  if (profile.encryption === 'jwe' && !/^[0-9a-fA-F]{64}$/.test(credential.encryptionKey ?? ''))
    fault('credential.encryptionKey', `${profile.name} needs it: 64 hexadecimal characters`);
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
