/** What the doctor says of each bank: whether it may pay at all, what may free money or send again there, and whether it is
 *  reached. */
import { connect } from 'node:net';
import type { Finding, Level } from '../audit/finding.ts';
import { keyWindowMs } from '../engine/send.ts';
import type { Rail } from '../engine/rail.ts';
import { evidenceOf } from '../rails/bank/index.ts';
import { isLoopback } from '../rails/base-url.ts';
import type { WiredBank } from './wire-banks.ts';

/** Reached or not is seen at once on any line that a payment may go over. */
const CONNECT_MS_MAX = 5_000;

/** Nothing leaves here. */
export function examineBank(bank: WiredBank, production: boolean): Finding {
  const { config, rail } = bank;
  const faults = unsafeIn(config, production);
  const window = keyWindowMs(rail) ?? Number.POSITIVE_INFINITY;
  const level: Level = faults.length > 0 ? 'refuse' : window > 0 ? 'ok' : 'warn';
  const pays = bank.assets.map((asset) => asset.code).join(', ');
  return {
    name: `bank ${config.name}`,
    level,
    found: [
      ...faults,
      `${rail.profile.name} at ${config.baseUrl} pays ${pays} from ${config.account} as ${config.credential.id}`,
      ...promisesOf(rail, evidenceOf(rail.profile), 'transfer'),
    ].join('; '),
    hint:
      level === 'refuse'
        ? 'Mend it in the file of PAYONCE_CONFIG: nothing new is sealed meanwhile.'
        : level === 'warn'
          ? 'What stays in doubt here is decided by people, from the bank’s own statement.'
          : '',
  };
}

/** What no provider of money may be configured with. */
export function unsafeIn(
  config: { readonly baseUrl: string; readonly credential: { readonly secret: () => string } },
  production: boolean,
): string[] {
  const url = new URL(config.baseUrl);
  return [
    ...(config.credential.secret() === '' ? ['its secret is empty'] : []),
    ...(production && url.protocol !== 'https:' ? ['its base URL is not https'] : []),
    ...(production && isLoopback(url.hostname) ? ['its base URL is this machine'] : []),
  ];
}

/** In plain words what the profile, as this contract narrows it, promises: on these money is freed or sent again. */
export function promisesOf(
  rail: Rail,
  evidence: {
    readonly refusedAtOnce: readonly unknown[];
    readonly afterKeyCheck: readonly unknown[];
    readonly storedUnderKey: readonly unknown[];
    readonly failedStates: readonly string[];
  },
  noun: string,
): string[] {
  const { keyed, keyRetentionMs, latenessMs } = rail.capabilities;
  const window = keyWindowMs(rail);
  const refusals = [
    [rail.capabilities.refusedAtOnceCounts === true, evidence.refusedAtOnce.length, 'at once'],
    [true, evidence.afterKeyCheck.length, 'given after the key was looked up'],
    [true, evidence.storedUnderKey.length, 'kept under the key'],
  ] as const;
  const counted = refusals.filter(([counts, many]) => counts && many > 0);
  return [
    !keyed
      ? 'it knows no keys: nothing is ever sent again'
      : window === null
        ? 'it keeps keys for ever: the same bytes may always be sent again'
        : window > 0
          ? `it keeps keys for ${span(keyRetentionMs ?? 0)}: the same bytes are sent again for ${span(window)} at most`
          : `it keeps keys for ${span(keyRetentionMs ?? 0)}, which its lateness uses up: nothing is ever sent again`,
    ...(latenessMs === null ? [] : [`a request may still be executed ${span(latenessMs)} after it was sent`]),
    counted.length === 0
      ? 'no refusal frees money'
      : `money is freed by refusals ${counted.map(([, many, how]) => `${how} (${many} codes)`).join(', ')}`,
    evidence.failedStates.length === 0
      ? `no state of a ${noun} frees money`
      : `and by a ${noun} that stands as ${evidence.failedStates.join(', ')} there`,
    rail.capabilities.lookUp ? 'an unknown can be looked up' : 'an unknown cannot be looked up',
  ];
}

const UNITS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const;

/** In the largest unit that divides it. */
function span(ms: number): string {
  const [name, size] = UNITS.find(([, one]) => ms % one === 0) ?? ['second', 1_000];
  const count = Math.round((ms / size) * 10) / 10;
  return `${count} ${name}${count === 1 ? '' : 's'}`;
}

/** Whether anything listens there: a connection and not a word, since a provider counts what it is asked. */
export async function reachBank({
  config,
}: {
  readonly config: { readonly baseUrl: string };
}): Promise<{ ok: boolean; found: string; hint: string }> {
  const { protocol, hostname, port } = new URL(config.baseUrl);
  const where = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || (protocol === 'https:' ? 443 : 80)) };
  const fault = await new Promise<string | null>((resolve) => {
    const socket = connect(where);
    const end = (found: string | null): void => {
      socket.destroy();
      resolve(found);
    };
    socket.setTimeout(CONNECT_MS_MAX, () => end(`no connection within ${CONNECT_MS_MAX / 1_000} seconds`));
    socket.once('connect', () => end(null));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
  });
  const address = `${where.host}:${where.port}`;
  return {
    ok: fault === null,
    found: fault === null ? `${address} takes connections` : `${address} is not reached: ${fault}`,
    hint: 'Transfers wait and nothing is lost. Check its baseUrl in the file of PAYONCE_CONFIG, and what lies between.',
  };
}
