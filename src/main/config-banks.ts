/**
 * Banks as they are configured: what the file says, with the secrets from the environment, and every fault with its field.
 *
 * Never: a secret in a fault or in anything that prints a configuration; they are functions here, and print as such.
 */
import { parseAmount } from '../kernel/money.ts';
import { isLoopback } from '../rails/base-url.ts';
import { type BankRailConfig, configFaults } from '../rails/bank/config.ts';
import type { Profile } from '../rails/bank/profile.ts';
import { PROFILES } from '../rails/bank/profiles/index.ts';
import type { WrittenBank } from './config-bank-shape.ts';

export interface BankConfig extends Omit<WrittenBank, 'credential'> {
  readonly credential: {
    readonly id: string;
    readonly secret: () => string;
    readonly encryptionKey: (() => string) | null;
  };
}

/** Reads the secrets of banks that have the file's shape; all faults are added. */
export function readBanks(
  written: readonly WrittenBank[],
  from: { readonly text: (name: string) => string | null; readonly production: boolean; readonly deployment: string },
  faults: string[],
): BankConfig[] {
  return written.map((bank, index) => {
    const fault = (field: string, why: string): void =>
      void faults.push(`PAYONCE_CONFIG: banks[${index}]${field === '' ? '' : `.${field}`}: ${why}`);
    const secretOf = (field: string, name: string): string => {
      const secret = from.text(name);
      if (secret === null) fault(field, `${name} is not set in the environment`);
      else if (!/^[\x20-\x7E]+$/.test(secret)) fault(field, `${name} holds something else than one line of ASCII`);
      return secret ?? '';
    };
    const { credential, ...rest } = bank;
    const secret = secretOf('credential.secretFrom', credential.secretFrom);
    const encryptionKey =
      credential.encryptionKeyFrom === undefined
        ? null
        : secretOf('credential.encryptionKeyFrom', credential.encryptionKeyFrom);
    const config: BankConfig = {
      ...rest,
      credential: {
        id: credential.id,
        secret: () => secret,
        encryptionKey: encryptionKey === null ? null : () => encryptionKey,
      },
    };
    const railConfig = toRailConfig(config, from.deployment);
    for (const one of configFaults(railConfig))
      fault(one.field === 'credential.encryptionKey' ? 'credential.encryptionKeyFrom' : one.field, one.why);
    if (from.production) refuseUnsafe(bank.baseUrl, fault);
    bank.assets.forEach((asset, at) => {
      for (const [field, why] of assetFaults(railConfig.profile, asset)) fault(`assets[${at}].${field}`, why);
    });
    if (written.findIndex((one) => one.name === bank.name) < index)
      fault('name', `another bank is named "${bank.name}" already`);
    return config;
  });
}

/** Throws where the profile is unknown: the file's shape knows the names. */
export function toRailConfig(config: BankConfig, deployment: string): BankRailConfig {
  const profile = PROFILES.find((one) => one.name === config.profile);
  if (profile === undefined) throw new Error(`bank ${config.name}: there is no profile ${config.profile}`);
  const { baseUrl, account, credential, direct, maintenance, narrower, lookEveryMs, resendAfterMs, decideWithinMs } =
    config;
  return {
    name: `bank:${config.name}`,
    profile,
    baseUrl,
    account,
    credential: {
      id: credential.id,
      secret: credential.secret,
      ...(credential.encryptionKey === null ? {} : { encryptionKey: credential.encryptionKey() }),
    },
    deployment,
    ...(direct === undefined ? {} : { direct }),
    ...(maintenance === undefined ? {} : { maintenance }),
    ...(narrower === undefined ? {} : { narrower }),
    capabilities: {
      ...(lookEveryMs === undefined ? {} : { lookEveryMs }),
      ...(resendAfterMs === undefined ? {} : { resendAfterMs }),
      ...(decideWithinMs === undefined ? {} : { decideWithinMs }),
    },
  };
}

/** Production speaks to providers over TLS, and to none on this machine. */
export function refuseUnsafe(baseUrl: string, fault: (field: string, why: string) => void): void {
  if (!URL.canParse(baseUrl)) return;
  const url = new URL(baseUrl);
  if (url.protocol !== 'https:') fault('baseUrl', 'http is refused in production: expected an https:// URL');
  if (isLoopback(url.hostname)) fault('baseUrl', `${url.hostname} is this machine: refused in production`);
}

/** Field and what is wrong with it. */
function* assetFaults(profile: Profile, asset: WrittenBank['assets'][number]): Generator<readonly [string, string]> {
  const { currencies, amountUnitsMax } = profile;
  const known = currencies?.find((one) => one.code === asset.code);
  if (currencies !== null && known === undefined)
    yield ['code', `${profile.name} pays ${currencies.map((one) => one.code).join(', ')} only`];
  else if (known !== undefined && known.decimals !== asset.decimals)
    yield ['decimals', `got ${asset.decimals}, expected ${known.decimals}: ${profile.name} counts ${asset.code} so`];
  for (const field of ['min', 'max', 'dayMax', 'feeFlat'] as const) {
    const amount = parseAmount(asset.transfer[field], asset.decimals);
    if (!amount.ok)
      yield [`transfer.${field}`, `"${asset.transfer[field]}" is no amount with ${asset.decimals} decimals`];
    else if (field === 'max' && amountUnitsMax !== null && amount.units > amountUnitsMax)
      yield [
        'transfer.max',
        `${profile.name} carries ${amountUnitsMax} units at most: larger integers are rounded on the way`,
      ];
  }
}
