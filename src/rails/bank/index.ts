/**
 * The bank rail: transfers over one provider's HTTP API, told apart by a profile.
 *
 * Promises: one identity is one derived key within (credential, account, base URL, method, path) with one exact request; what
 * leaves is read from the seal and never built again. Asking again is sending the same bytes; a changed credential or address
 * withholds that, and looks go on. An answer counts only when it echoes our key or reference, and a code or state that the
 * profile does not know is unreadable.
 * Never: retries, follows a redirect, cuts a text, reads a 5xx, a 404 or a silence as "no". It holds no database handle.
 * Beside it: a provider's webhook wakes a look and proves nothing.
 * Files: profile (the type), profiles/ (the providers), destination (the edge), plan, seal, wire (what leaves), answer-body
 * (what is stored), read (the table), echo and lines (whose answer it is), evidence (what a profile claims), jwe.
 */
import type { Capabilities, Rail } from '../../engine/rail.ts';
import { CLAIM_BATCH } from '../../kernel/limits.ts';
import { type Log, silentLog } from '../../kernel/log.ts';
import type { Ports } from '../../kernel/ports.ts';
import { makeSendAgent, WIRE_LIMITS, type WireLimits } from '../http.ts';
import { type PayeeInput, type ReadPayee, readPayee } from './destination.ts';
import { makeJwe } from './jwe.ts';
import { LATENESS_MS_MIN, LOOK_EVERY_MS, RESEND_AFTER_MS, RETURNS_WITHIN_MS, SEND_CONCURRENCY_MAX } from './limits.ts';
import { isClosed, type Maintenance, planTransfer } from './plan.ts';
import type { Profile } from './profile.ts';
import { readBankAnswer } from './read.ts';
import { readRequest, type Scope, sealTransfer } from './seal.ts';
import { lookOnce, type SecretPort, sendOnce, type WireParts, withholdReason } from './wire.ts';

export type { PayeeInput, ReadPayee } from './destination.ts';
export { evidenceOf, type ProfileEvidence, widenings } from './evidence.ts';
export type { Maintenance } from './plan.ts';
export type { Profile } from './profile.ts';
export { PROFILES } from './profiles/index.ts';
export type { SecretPort } from './wire.ts';

export interface BankRailConfig {
  /** For example `bank:main`. */
  readonly name: string;
  readonly profile: Profile;
  readonly baseUrl: string;
  /** The account at the provider that pays. */
  readonly account: string;
  readonly credential: {
    /** Its name: part of what is sealed. Another secret under the same name is a rotation that nobody sees: do not. */
    readonly id: string;
    readonly secret: SecretPort;
    /** Where the provider encrypts bodies: 64 hexadecimal characters. */
    readonly encryptionKey?: string;
  };
  readonly deployment: string;
  /** Our requests reach the provider itself over TLS, and nothing between delivers one again. */
  readonly direct?: boolean;
  readonly maintenance?: readonly Maintenance[];
  /** What this contract says, where it promises less than the profile. */
  readonly narrower?: { readonly retentionMs?: number; readonly latenessMs?: number };
  readonly capabilities?: Partial<
    Pick<Capabilities, 'decideWithinMs' | 'lookEveryMs' | 'resendAfterMs' | 'sendConcurrencyMax'>
  >;
}

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
  checkConfig(config);
  const limits: WireLimits = { ...WIRE_LIMITS, timeoutMs: profile.timeoutMs, ...deps.http };
  const capabilities = capabilitiesOf(config);
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

function capabilitiesOf(config: BankRailConfig): Capabilities {
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
    resendAfterMs: Math.max(RESEND_AFTER_MS, profile.timeoutMs),
    returnsWithinMs: RETURNS_WITHIN_MS,
    bumpAfterMs: null,
    bumpsMax: 0,
    refusedAtOnceCounts: config.direct === true,
    ...config.capabilities,
  };
}

/** A wrong configuration stops the start, not a payment. */
function checkConfig(config: BankRailConfig): void {
  const { profile, narrower } = config;
  const url = new URL(config.baseUrl);
  const refuse = (why: string): never => {
    throw new Error(`${config.name}: ${why}`);
  };
  if (url.search !== '' || url.hash !== '' || url.username !== '')
    refuse('the base URL carries neither query nor credentials');
  if (url.protocol !== 'https:' && !isLoopback(url.hostname)) refuse('the base URL must be https');
  if (config.credential.id === '' || config.account === '') refuse('name the account and the credential');
  if (profile.encryption === 'jwe' && config.credential.encryptionKey === undefined)
    refuse(`${profile.name} needs credential.encryptionKey`);
  if (profile.latenessMs < LATENESS_MS_MIN) refuse('a lateness under 30 minutes is not believed');
  if (narrower?.retentionMs !== undefined && profile.retentionMs !== null && narrower.retentionMs > profile.retentionMs)
    refuse('a longer retention than the profile’s is a widening: change the profile and its baseline');
  if (narrower?.latenessMs !== undefined && narrower.latenessMs < profile.latenessMs)
    refuse('a shorter lateness than the profile’s is a widening: change the profile and its baseline');
  for (const window of config.maintenance ?? []) {
    // Throws for a time or a zone that does not exist.
    isClosed(window, new Date(0));
  }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || /^127(?:\.[0-9]{1,3}){3}$/.test(host);
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
