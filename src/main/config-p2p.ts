/** Escrow providers and groups as they are configured, with the providers' keys from the environment, and every fault with its field. */
import { type EscrowRailConfig, readTradeFaults, TRADE_PROFILES } from '../rails/escrow/index.ts';
import { refuseUnsafe } from './config-banks.ts';
import type { WrittenEscrow, WrittenGroup } from './config-p2p-shape.ts';

export interface EscrowConfig extends Omit<WrittenEscrow, 'credential'> {
  readonly credential: { readonly id: string; readonly secret: () => string };
}

/** Reads the keys of providers that have the file's shape; all faults are added. Keys are functions here, and print as such. */
export function readEscrows(
  written: readonly WrittenEscrow[],
  from: { readonly text: (name: string) => string | null; readonly production: boolean; readonly deployment: string },
  faults: string[],
): EscrowConfig[] {
  return written.map((escrow, index) => {
    const fault = (field: string, why: string): void =>
      void faults.push(`PAYONCE_CONFIG: escrows[${index}].${field}: ${why}`);
    const { id, secretFrom } = escrow.credential;
    const secret = from.text(secretFrom);
    if (secret === null) fault('credential.secretFrom', `${secretFrom} is not set in the environment`);
    else if (!/^[\x21-\x7E]+$/.test(secret))
      fault('credential.secretFrom', `${secretFrom} holds something else than one word of ASCII`);
    if (written.findIndex((one) => one.name === escrow.name) < index)
      fault('name', `another provider is named "${escrow.name}" already`);
    const config: EscrowConfig = { ...escrow, credential: { id, secret: () => secret ?? '' } };
    for (const one of readTradeFaults(toEscrowRailConfig(config, from.deployment))) fault(one.field, one.why);
    if (from.production) refuseUnsafe(escrow.baseUrl, (field, why) => fault(field, why));
    return config;
  });
}

export function escrowRail(name: string): string {
  return `escrow:${name}`;
}

/** Throws for a profile that is unknown: the configuration knows the names. */
export function toEscrowRailConfig(config: EscrowConfig, deployment: string): EscrowRailConfig {
  const profile = TRADE_PROFILES.find((one) => one.name === config.profile);
  if (profile === undefined) throw new Error(`escrow ${config.name}: there is no profile ${config.profile}`);
  const { baseUrl, account, credential, direct, lookEveryMs, decideWithinMs, resendAfterMs } = config;
  return {
    name: escrowRail(config.name),
    profile,
    baseUrl,
    account,
    credential,
    deployment,
    ...(direct === undefined ? {} : { direct }),
    capabilities: {
      ...(lookEveryMs === undefined ? {} : { lookEveryMs }),
      ...(resendAfterMs === undefined ? {} : { resendAfterMs }),
      ...(decideWithinMs === undefined ? {} : { decideWithinMs }),
    },
  };
}

/** What of the groups can be judged without assets: names, doubles, providers. */
export function groupFaults(
  groups: readonly WrittenGroup[],
  escrows: readonly Pick<WrittenEscrow, 'name'>[],
  faults: string[],
): void {
  const known = new Set(escrows.map((one) => one.name));
  groups.forEach((group, index) => {
    const fault = (field: string, why: string): void =>
      void faults.push(`PAYONCE_CONFIG: p2p[${index}].${field}: ${why}`);
    if (groups.findIndex((one) => one.name === group.name) < index)
      fault('name', `another group is named "${group.name}" already`);
    group.markets.forEach((market, at) => {
      if (group.markets.findIndex((one) => one.asset === market.asset && one.fiat === market.fiat) < at)
        fault(`markets[${at}]`, `${market.asset} for ${market.fiat} is there already`);
    });
    (group.routes ?? []).forEach((route, at) => {
      if (!known.has(route.escrow))
        fault(
          `routes[${at}].escrow`,
          `got "${route.escrow}", expected one of "escrows": ${[...known].join(', ') || 'there is none'}`,
        );
      if (!group.markets.some((market) => market.asset === route.asset && market.fiat === route.fiat))
        fault(`routes[${at}].asset`, `${route.asset} for ${route.fiat} is no market of this group`);
      const before = (group.routes ?? []).findIndex(
        (one) =>
          one.escrow === route.escrow &&
          one.asset === route.asset &&
          one.fiat === route.fiat &&
          one.partner === route.partner,
      );
      if (before < at) fault(`routes[${at}]`, `routes[${before}] is the same`);
    });
  });
}
