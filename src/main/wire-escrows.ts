/** Escrow providers, from their configuration: the rail of each. */
import type { Log } from '../kernel/log.ts';
import type { Ports } from '../kernel/ports.ts';
import { type EscrowRail, makeEscrowRail } from '../rails/escrow/index.ts';
import { type EscrowConfig, toEscrowRailConfig } from './config-p2p.ts';

export interface WiredEscrow {
  readonly config: EscrowConfig;
  readonly rail: EscrowRail;
}

export function makeEscrows(
  escrows: readonly EscrowConfig[],
  deployment: string,
  ports: Ports,
  log: Log,
): WiredEscrow[] {
  return escrows.map((config) => ({
    config,
    rail: makeEscrowRail(toEscrowRailConfig(config, deployment), {
      ports,
      log,
      ...(config.answerWithinMs === undefined ? {} : { http: { timeoutMs: config.answerWithinMs } }),
    }),
  }));
}
