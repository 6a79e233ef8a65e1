/**
 * One question to a provider, for who wants to know whether it would answer us: a look-up of a reference that no trade of ours has,
 * with our credential. Opens nothing, and says nothing of any trade.
 */
import { urlUnder } from '../base-url.ts';
import { exchangeOnce, makeSendAgent, WIRE_LIMITS } from '../http.ts';
import { parseLossless } from '../json.ts';
import { READ_BYTES_MAX } from '../keyed-limits.ts';
import type { KeyedRailDeps } from '../keyed-rail.ts';
import { credentialOf } from '../redact.ts';
import type { EscrowRailConfig } from './config.ts';

/** In no trade: a leg's id begins otherwise. */
const NOBODYS = 'payonce-doctor';

export interface Greeting {
  /** `answered`: as the profile says; `refused`: the credential; `unlike`: something else than the profile's contract. */
  readonly outcome: 'answered' | 'refused' | 'unlike' | 'unreached';
  readonly detail: string;
  /** How far its clock is ahead of ours, less what the way may have taken; `null`: it does not say. */
  readonly aheadMs: number | null;
}

/** Never throws for what the other side did. */
export async function greetProvider(config: EscrowRailConfig, deps: KeyedRailDeps): Promise<Greeting> {
  const { profile, credential, baseUrl, name } = config;
  const limits = { ...WIRE_LIMITS, ...deps.http };
  const agent = makeSendAgent(1, limits);
  const path = profile.lookUps
    .map((lookUp) => lookUp.path({ act: 'open', key: NOBODYS, objectId: null }))
    .find((one) => one !== null);
  if (path === undefined || path === null)
    return { outcome: 'unlike', detail: 'its profile has no question to ask', aheadMs: null };
  try {
    const secret = credentialOf(profile.auth, await credential.secret());
    const before = deps.ports.clock.now().getTime();
    const got = await exchangeOnce(
      agent,
      deps.ports,
      `${name} doctor`,
      {
        method: 'GET',
        url: urlUnder(baseUrl, path),
        headers: { accept: 'application/json' },
        credential: secret,
        body: null,
      },
      { ...limits, bytesMax: READ_BYTES_MAX },
    );
    const after = deps.ports.clock.now().getTime();
    if (got.reach !== 'answer' || got.status === null)
      return {
        outcome: 'unreached',
        detail: got.reach === 'answer' ? 'no status' : got.body.slice(0, 200),
        aheadMs: null,
      };
    const aheadMs = aheadOf(got.headers['date'], before, after);
    if (got.status === 401 || got.status === 403)
      return { outcome: 'refused', detail: `it answers ${got.status} to our credential`, aheadMs };
    const read = got.status < 300 ? parseLossless(got.body) : undefined;
    return read !== undefined && profile.objects(read) !== null
      ? { outcome: 'answered', detail: 'it answers a look-up', aheadMs }
      : { outcome: 'unlike', detail: `it answers ${got.status} with something that is no list of trades`, aheadMs };
  } finally {
    await agent.close();
  }
}

/** Of an HTTP date, which is of whole seconds, against the time in which it was written; 0 within that. */
function aheadOf(date: string | undefined, before: number, after: number): number | null {
  const at = date === undefined ? Number.NaN : Date.parse(date);
  if (Number.isNaN(at)) return null;
  if (at > after) return at - after;
  return at + 1_000 < before ? at + 1_000 - before : 0;
}
