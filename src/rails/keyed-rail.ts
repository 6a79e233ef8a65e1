/**
 * What rails with keys over HTTP are made of: the wire, the promises of the profile as the engine asks for them, and the part
 * of the port that is the same for all. A rail adds its plan, its seal and its reading.
 */
import type { Capabilities, Rail } from '../engine/rail.ts';
import { CLAIM_BATCH } from '../kernel/limits.ts';
import { type Log, silentLog } from '../kernel/log.ts';
import type { Ports } from '../kernel/ports.ts';
import { type ConfigFault, plainBaseUrl } from './base-url.ts';
import { makeSendAgent, WIRE_LIMITS, type WireLimits } from './http.ts';
import type { KeyedRailConfig } from './keyed-config.ts';
import type { Item, KeyedProfile, LookFacts } from './keyed-profile.ts';
import { readSealedRequest, type Scope, withholdReason } from './keyed-request.ts';
import { type BodyCipher, type KeyedKind, lookOnce, sendOnce, type WireParts } from './keyed-wire.ts';

export interface KeyedRailDeps {
  readonly ports: Ports;
  readonly log?: Log;
  readonly http?: Partial<WireLimits>;
}

/** How fast a rail of this kind goes; its own limits. */
export interface Pace {
  readonly sendConcurrencyMax: number;
  readonly lookEveryMs: number;
  readonly resendAfterMs: number;
  readonly returnsWithinMs: number;
}

export interface KeyedRail extends Pick<Rail, 'name' | 'capabilities' | 'withholds' | 'send' | 'look'> {
  readonly scope: Scope;
  close(): Promise<void>;
}

/** Throws for a configuration that has faults. Nothing is opened. */
export function refuseFaults(name: string, faults: readonly ConfigFault[]): void {
  const [fault] = faults;
  if (fault !== undefined) throw new Error(`${name}: ${fault.field}: ${fault.why}`);
}

export function makeKeyedRail<One extends Item, Facts extends LookFacts>(
  kind: KeyedKind<One, Facts>,
  config: KeyedRailConfig<KeyedProfile<One, Facts>>,
  pace: Pace,
  deps: KeyedRailDeps,
  cipher: BodyCipher | null = null,
): KeyedRail {
  const { profile, account, deployment, credential } = config;
  const log = deps.log ?? silentLog;
  const limits: WireLimits = { ...WIRE_LIMITS, timeoutMs: profile.timeoutMs, ...deps.http };
  const agent = makeSendAgent(pace.sendConcurrencyMax, limits);
  const scope: Scope = { deployment, account, credentialId: credential.id, baseUrl: plainBaseUrl(config.baseUrl) };
  const parts: WireParts<One, Facts> = {
    ...kind,
    railName: config.name,
    profile,
    scope,
    secret: credential.secret,
    cipher,
    agent,
    ports: deps.ports,
    limits,
  };
  return {
    name: config.name,
    scope,
    capabilities: capabilitiesOf(config, pace, limits.timeoutMs),
    withholds: (sealed) => withholdReason(profile, scope, readSealedRequest(kind.requestForm, sealed)),
    async send(sealed) {
      const answer = await sendOnce(parts, sealed);
      if (answer.reach === 'withheld') log.warn({ effect_id: sealed.effectId, rail: config.name }, answer.body);
      return answer;
    },
    look: (sealed) => inTurns(sealed, pace.sendConcurrencyMax, (one) => lookOnce(parts, one)),
    close: () => agent.destroy(),
  };
}

function capabilitiesOf<One extends Item, Facts extends LookFacts>(
  { profile, narrower, direct, capabilities }: KeyedRailConfig<KeyedProfile<One, Facts>>,
  pace: Pace,
  answerWithinMs: number,
): Capabilities {
  const keyed = profile.key !== null;
  return {
    keyed,
    keyRetentionMs: keyed ? (narrower?.retentionMs ?? profile.retentionMs) : null,
    latenessMs: narrower?.latenessMs ?? profile.latenessMs,
    decideWithinMs: profile.decideWithinMs,
    sequenced: false,
    inFlightPerSignerMax: CLAIM_BATCH,
    lookUp: profile.lookUp,
    // A look-up of a provider never proves absence; nothing here is witnessed.
    absenceWitnesses: 1,
    // Without a key a seal is a payment: one by one.
    sendConcurrencyMax: keyed ? pace.sendConcurrencyMax : 1,
    lookEveryMs: pace.lookEveryMs,
    resendAfterMs: Math.max(pace.resendAfterMs, answerWithinMs),
    answerWithinMs,
    returnsWithinMs: pace.returnsWithinMs,
    bumpAfterMs: null,
    bumpsMax: 0,
    refusedAtOnceCounts: direct === true,
    ...capabilities,
  };
}

/** Answers in order, so many at once. */
async function inTurns<In, Out>(
  items: readonly In[],
  atOnce: number,
  work: (item: In) => Promise<Out>,
): Promise<Out[]> {
  const results: Out[] = [];
  let next = 0;
  async function run(): Promise<void> {
    for (let index = next; index < items.length; index = next) {
      next += 1;
      const item = items[index];
      if (item !== undefined) results[index] = await work(item);
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, run));
  return results;
}
