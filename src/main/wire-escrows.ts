/** Escrow providers, from their configuration: the rail of each. */
import type { Log } from '../kernel/log.ts';
import type { Ports } from '../kernel/ports.ts';
import { type EscrowRail, type EscrowRailConfig, makeEscrowRail, TRADE_PROFILES } from '../rails/escrow/index.ts';
import type { EscrowConfig } from './config-p2p.ts';

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

export function makeEscrows(
  escrows: readonly EscrowConfig[],
  deployment: string,
  ports: Ports,
  log: Log,
): EscrowRail[] {
  return escrows.map((one) =>
    makeEscrowRail(toEscrowRailConfig(one, deployment), {
      ports,
      log,
      ...(one.answerWithinMs === undefined ? {} : { http: { timeoutMs: one.answerWithinMs } }),
    }),
  );
}
