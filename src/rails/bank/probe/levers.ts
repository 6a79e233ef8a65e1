/**
 * What a sandbox offers beside its API, or a few lines of the user's in front of it: URLs that move its clock, empty and fill
 * the account, tell the balance, and make a transfer fail. Each is optional; what needs a missing one is not tried.
 *
 * A lever that does not answer 2xx throws: what follows from it was then not tried.
 */
import type { Dispatcher } from 'undici';
import type { Ports } from '../../../kernel/ports.ts';
import { exchangeOnce } from '../../http.ts';
import { field, parseJson, textOf, excerpt } from '../../json.ts';
import { doorOf } from '../../redact.ts';

export interface Levers {
  /** POST `{"ms": 3600000}`. */
  readonly clock?: string;
  /** POST `{}`. */
  readonly drain?: string;
  /** POST `{"currency", "units": "5000"}`: so much, in the smallest unit, comes in. */
  readonly topUp?: string;
  /** GET, answers `{"units": "5000"}`. */
  readonly balance?: string;
  /** POST `{"key", "object_id"}`: what was accepted under the key fails before it left. */
  readonly fail?: string;
}

const LEVER_MS = 30_000;
const LEVER_BYTES_MAX = 65_536;

export interface LeverPort {
  pull(what: keyof Levers, body: object): Promise<void>;
  balance(): Promise<bigint | null>;
}

export function makeLevers(levers: Levers, agent: Dispatcher, ports: Ports): LeverPort {
  const call = async (what: keyof Levers, method: 'GET' | 'POST', body: object | null): Promise<string> => {
    const url = levers[what];
    if (url === undefined) throw new Error(`no lever for ${what}`);
    const answer = await exchangeOnce(
      agent,
      ports,
      `probe lever ${what}`,
      {
        method,
        url: new URL(url),
        headers: { 'content-type': 'application/json', accept: 'application/json' },
        credential: doorOf(url),
        body: body === null ? null : new TextEncoder().encode(JSON.stringify(body)),
      },
      { timeoutMs: LEVER_MS, connectMs: LEVER_MS, bytesMax: LEVER_BYTES_MAX },
    );
    if (answer.reach !== 'answer' || answer.status === null || answer.status >= 300)
      throw new Error(`the lever ${what} answered ${answer.status ?? answer.reach}: ${excerpt(answer.body)}`);
    return answer.body;
  };
  return {
    async pull(what, body) {
      await call(what, 'POST', body);
    },
    async balance() {
      if (levers.balance === undefined) return null;
      const text = textOf(field(parseJson(await call('balance', 'GET', null)), 'units'));
      if (text === null || !/^-?[0-9]+$/.test(text)) throw new Error('the lever balance answers {"units": "5000"}');
      return BigInt(text);
    },
  };
}
