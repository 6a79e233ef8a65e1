/**
 * The bank rail: transfers over one provider's HTTP API, told apart by a profile.
 *
 * Promises: one identity is one derived key within (credential, account, base URL, method, path) with one exact request; what
 * leaves is read from the seal and never built again. Asking again is sending the same bytes; a changed credential or address
 * withholds that, and looks go on. An answer counts only when it echoes our key or reference, and a code or state that the
 * profile does not know is unreadable.
 * Never: retries, follows a redirect, cuts a text, reads a 5xx, a 404 or a silence as "no". It holds no database handle.
 * Beside it: a provider's webhook wakes a look and proves nothing.
 * Files: config, profile (the type), profiles/ (the providers), destination (the edge), plan, seal, wire (what leaves), answer-body
 * (what is stored), read (the table), echo and lines (whose answer it is), evidence (what a profile claims), jwe.
 */
import type { Capabilities, Rail } from '../../engine/rail.ts';
import { CLAIM_BATCH } from '../../kernel/limits.ts';
import { type Log, silentLog } from '../../kernel/log.ts';
import type { Ports } from '../../kernel/ports.ts';
import { makeSendAgent, WIRE_LIMITS, type WireLimits } from '../http.ts';
import { type BankRailConfig, configFaults } from './config.ts';
import { type PayeeInput, type ReadPayee, readPayee } from './destination.ts';
import { makeJwe } from './jwe.ts';
import { LOOK_EVERY_MS, RESEND_AFTER_MS, RETURNS_WITHIN_MS, SEND_CONCURRENCY_MAX } from './limits.ts';
import { planTransfer } from './plan.ts';
import type { Profile } from './profile.ts';
import { readBankAnswer } from './read.ts';
import { readRequest, type Scope, sealTransfer } from './seal.ts';
import { lookOnce, sendOnce, type WireParts, withholdReason } from './wire.ts';

export { type BankRailConfig, isLoopback } from './config.ts';
export type { PayeeInput, ReadPayee } from './destination.ts';
export { evidenceOf, type ProfileEvidence, widenings } from './evidence.ts';
export type { Maintenance } from './plan.ts';
export type { Profile } from './profile.ts';
export { PROFILES } from './profiles/index.ts';

export interface BankRailDeps {
  readonly ports: Ports;
  readonly log?: Log;
  readonly http?: Partial<WireLimits>;
}

export interface BankRail extends Rail {
  readonly profile: Profile;
  /** The edge: what this provider can carry of a receiver. */
  readPayee(input: PayeeInput): ReadPayee;
  close(): Promise<void>;
}

export function makeBankRail(config: BankRailConfig, deps: BankRailDeps): BankRail {
  const { profile } = config;
  const log = deps.log ?? silentLog;
  refuseFaults(config);
  const limits: WireLimits = { ...WIRE_LIMITS, timeoutMs: profile.timeoutMs, ...deps.http };
  const capabilities = capabilitiesOf(config, limits.timeoutMs);
  const agent = makeSendAgent(SEND_CONCURRENCY_MAX, limits);
  const scope: Scope = {
    deployment: config.deployment,
    account: config.account,
    credentialId: config.credential.id,
    baseUrl: new URL(config.baseUrl).href.replace(/\/+$/, ''),
  };
  const parts: WireParts = {
    railName: config.name,
    operator: profile.operator,
    profile,
    scope,
    secret: config.credential.secret,
    cipher: profile.encryption === 'jwe' ? makeJwe(config.credential.encryptionKey ?? '', deps.ports) : null,
    agent,
    ports: deps.ports,
    limits,
  };
  return {
    name: config.name,
    profile,
    capabilities,
    plan: (effects) => {
      const now = deps.ports.clock.now();
      return Promise.resolve(effects.map((effect) => planTransfer(profile, config.maintenance ?? [], now, effect)));
    },
    seal: (effect) => sealTransfer(profile, scope, effect),
    withholds(sealed) {
      return withholdReason(profile, scope, readRequest(sealed));
    },
    async send(sealed) {
      const answer = await sendOnce(parts, sealed);
      if (answer.reach === 'withheld') log.warn({ effect_id: sealed.effectId, rail: config.name }, answer.body);
      return answer;
    },
    look: (sealed) => inTurns(sealed, SEND_CONCURRENCY_MAX, (one) => lookOnce(parts, one)),
    read: (answer, sealed) => readBankAnswer(profile, answer, sealed),
    readPayee: (input) => readPayee(input, profile.payee),
    close: () => agent.destroy(),
  };
}

function capabilitiesOf(config: BankRailConfig, answerWithinMs: number): Capabilities {
  const { profile, narrower } = config;
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
    sendConcurrencyMax: keyed ? SEND_CONCURRENCY_MAX : 1,
    lookEveryMs: LOOK_EVERY_MS,
    resendAfterMs: Math.max(RESEND_AFTER_MS, answerWithinMs),
    answerWithinMs,
    returnsWithinMs: RETURNS_WITHIN_MS,
    bumpAfterMs: null,
    bumpsMax: 0,
    refusedAtOnceCounts: config.direct === true,
    ...config.capabilities,
  };
}

function refuseFaults(config: BankRailConfig): void {
  const [fault] = configFaults(config);
  if (fault !== undefined) throw new Error(`${config.name}: ${fault.field}: ${fault.why}`);
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
