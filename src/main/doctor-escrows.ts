/** What the doctor says of each provider of trades: what its profile promises, and whether it answers us, knows us and keeps our time. */
import type { Finding, Level } from '../audit/finding.ts';
import { keyWindowMs } from '../engine/send.ts';
import type { Log } from '../kernel/log.ts';
import type { Ports } from '../kernel/ports.ts';
import { greetProvider, tradeEvidenceOf } from '../rails/escrow/index.ts';
import { toEscrowRailConfig } from './config-p2p.ts';
import { promisesOf, unsafeIn } from './doctor-banks.ts';
import type { WiredEscrow } from './wire-escrows.ts';

/** A trade's time to pay is told in our time, and its webhooks are signed in the provider's: half of what a signature may be old. */
const CLOCK_APART_MS = 150_000;
const ANSWER_MS_MAX = 10_000;

/** Nothing leaves here. */
export function examineEscrow({ config, rail }: WiredEscrow, production: boolean): Finding {
  const faults = unsafeIn(config, production);
  const window = keyWindowMs(rail) ?? Number.POSITIVE_INFINITY;
  const level: Level = faults.length > 0 ? 'refuse' : window > 0 ? 'ok' : 'warn';
  const evidence = tradeEvidenceOf(rail.profile);
  return {
    name: `escrow ${config.name}`,
    level,
    found: [
      ...faults,
      `${rail.profile.name} at ${config.baseUrl} trades from ${config.account} as ${config.credential.id}`,
      ...promisesOf(rail, { ...evidence, failedStates: evidence.endedStates }, 'trade'),
    ].join('; '),
    hint:
      level === 'refuse'
        ? 'Mend it in the file of PAYONCE_CONFIG: nothing new is sealed meanwhile.'
        : level === 'warn'
          ? 'What stays in doubt here is decided by people, with the provider.'
          : '',
  };
}

export async function askEscrow(
  { config }: WiredEscrow,
  by: { readonly deployment: string; readonly ports: Ports; readonly log: Log },
): Promise<{ ok: boolean; found: string; hint: string }> {
  const { ports, log, deployment } = by;
  const { outcome, detail, aheadMs } = await greetProvider(toEscrowRailConfig(config, deployment), {
    ports,
    log,
    http: { timeoutMs: ANSWER_MS_MAX },
  });
  const apart = aheadMs !== null && Math.abs(aheadMs) > CLOCK_APART_MS;
  const seconds = Math.round(Math.abs(aheadMs ?? 0) / 1_000);
  const clock =
    aheadMs === null
      ? 'it does not tell its time'
      : apart
        ? `its clock is ${seconds} seconds ${aheadMs > 0 ? 'ahead of' : 'behind'} this machine’s`
        : 'its clock and this machine’s agree';
  const hints = {
    unreached:
      'Orders wait for it and nothing is lost. Check its baseUrl in the file of PAYONCE_CONFIG, and what lies between.',
    refused:
      'No trade can be opened there. Renew its credential, under another id where it is another to the provider.',
    unlike: 'No trade can be read there. Check its baseUrl and profile in the file of PAYONCE_CONFIG.',
    answered: 'Trades end before their time, and its webhooks count as too old: let both machines keep time by NTP.',
  };
  return {
    ok: outcome === 'answered' && !apart,
    found: outcome === 'unreached' ? `${config.baseUrl} is not reached: ${detail}` : `${detail}; ${clock}`,
    hint: hints[outcome],
  };
}
