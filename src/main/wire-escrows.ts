/** Escrow providers, from their configuration: the rail of each. */
import type { Log } from '../kernel/log.ts';
import type { Ports } from '../kernel/ports.ts';
import { type EscrowRail, makeEscrowRail } from '../rails/escrow/index.ts';
import { type EscrowConfig, toEscrowRailConfig } from './config-p2p.ts';

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
