/**
 * One run against one provider: every request goes through the rail's own seal, wire and reader, is counted against what was
 * announced, and is kept raw. A transfer is counted by what the provider shows under its key, never by one answer alone.
 */
import type { Answer, BankPayee, Observation, SealedEffect } from '../../../engine/rail.ts';
import { assert } from '../../../kernel/errors.ts';
import type { Ports } from '../../../kernel/ports.ts';
import { makeSendAgent, WIRE_LIMITS } from '../../http.ts';
import { readAnswerBody } from '../../answer-body.ts';
import { plainBaseUrl } from '../../base-url.ts';
import type { ProviderError } from '../../keyed-profile.ts';
import { rowOf } from '../../keyed-read.ts';
import type { Scope } from '../../keyed-request.ts';
import { lookOnce, type SecretPort, sendOnce, type WireParts } from '../../keyed-wire.ts';
import { BANK_KIND } from '../kind.ts';
import { makeJwe } from '../jwe.ts';
import { MINUTE_MS, SEND_CONCURRENCY_MAX } from '../limits.ts';
import type { Profile, ProviderObject, TransferLook } from '../profile.ts';
import { readBankAnswer } from '../read.ts';
import { readExpect } from '../seal.ts';
import { parseLossless } from '../../json.ts';
import { type LeverPort, type Levers, makeLevers } from './levers.ts';
import type { RawAnswer } from './report.ts';
import { type Change, type Plain, sealedRequest } from './requests.ts';

export interface ProbeCredential {
  readonly id: string;
  readonly secret: SecretPort;
}

export interface ProbeInput {
  readonly profile: Profile;
  readonly baseUrl: string;
  readonly account: string;
  readonly credential: ProbeCredential;
  /** Another credential of the same account. */
  readonly second?: ProbeCredential;
  readonly encryptionKey?: string;
  readonly asset: { readonly code: string; readonly decimals: number };
  /** Of each transfer, in the smallest unit. One request asks for one unit more. */
  readonly amount: bigint;
  readonly payee: BankPayee;
  /** A receiver that the sandbox refuses. */
  readonly refused?: BankPayee;
  /** Another path that takes the same request. */
  readonly otherPath?: string;
  readonly levers: Levers;
  /** Without a lever for the clock: how long a look-up may lag before it is called blind. */
  readonly lagWaitMs: number;
  readonly timeoutMs?: number;
}

/** One answer, with what stands in it. */
export interface Heard {
  readonly what: string;
  readonly answer: Answer;
  readonly observation: Observation;
  readonly status: number | null;
  readonly headers: Readonly<Record<string, string>>;
  /** Those that carry our key or reference. */
  readonly objects: readonly ProviderObject[];
  readonly error: ProviderError | null;
}

/** One key of the kit's, and all that came of it. */
export interface Trial {
  readonly plain: Plain;
  readonly sealed: SealedEffect;
  readonly key: string;
  readonly heard: Heard[];
  /** The provider's ids that were shown under the key. */
  readonly ids: Set<string>;
  /** A list of the provider's showed it. */
  listed: boolean;
  /** Made to fail by the kit itself. */
  failed: boolean;
}

/** Steps in which a lag is searched for where the clock can be moved; beyond an hour a look-up is no use to anybody. */
const LAG_STEPS_MS = [
  0,
  1_000,
  4_000,
  10_000,
  15_000,
  30_000,
  MINUTE_MS,
  3 * MINUTE_MS,
  25 * MINUTE_MS,
  30 * MINUTE_MS,
];
const REAL_STEP_MS_MAX = 10_000;

export class Session {
  readonly input: ProbeInput;
  readonly trials: Trial[] = [];
  /** Raw answers since they were taken last. */
  private kept: RawAnswer[] = [];
  /** A refusal that would have counted although something stands under the key. */
  readonly falseNos: string[] = [];
  /** How long the slowest look-up takes to show a new transfer, as far as it was measured. */
  lagMs = 0;
  requestsSent = 0;
  private readonly requestsMax: number;
  private readonly ports: Ports;
  private readonly run: string;
  private readonly agent;
  private readonly levers: LeverPort;

  constructor(input: ProbeInput, requestsMax: number, ports: Ports) {
    const limits = { ...WIRE_LIMITS, timeoutMs: input.timeoutMs ?? input.profile.timeoutMs };
    this.input = input;
    this.requestsMax = requestsMax;
    this.ports = ports;
    this.run = `probe-${Buffer.from(ports.chance.bytes(12)).toString('hex')}`;
    this.agent = makeSendAgent(SEND_CONCURRENCY_MAX, limits);
    this.levers = makeLevers(input.levers, this.agent, ports);
  }

  close(): Promise<void> {
    return this.agent.destroy();
  }

  trial(name: string): Trial {
    const plain: Plain = {
      profile: this.input.profile,
      scope: this.scope(this.input.credential),
      asset: this.input.asset,
      amount: this.input.amount,
      payee: this.input.payee,
      naturalKey: `${this.run}:${name}`,
      sealedAt: this.ports.clock.now(),
    };
    const sealed = sealedRequest(plain);
    const trial: Trial = {
      plain,
      sealed,
      key: readExpect(sealed).key,
      heard: [],
      ids: new Set(),
      listed: false,
      failed: false,
    };
    this.trials.push(trial);
    return trial;
  }

  /** One request under the trial's key. Whether it may be a new transfer is the provider's to say: it counts as one. */
  async send(trial: Trial, what: string, change: Change = {}, as: ProbeCredential | null = null): Promise<Heard> {
    this.requestsSent += 1;
    assert(this.requestsSent <= this.requestsMax, 'the kit sends no more than it announced');
    const stood = trial.ids.size > 0 && !trial.failed && as === null && change.path === undefined;
    const plain = as === null ? trial.plain : { ...trial.plain, scope: this.scope(as) };
    const sealed = sealedRequest(plain, change);
    const heard = this.hear(trial, sealed, what, await sendOnce(this.parts(as ?? this.input.credential), sealed));
    if (stood && denies(heard.observation)) this.falseNos.push(`${what}: ${heard.observation.detail}`);
    return heard;
  }

  /** All look-ups of the profile, once each. */
  async look(trial: Trial, what: string, objectId: string | null = [...trial.ids].at(-1) ?? null): Promise<Heard[]> {
    const sealed = { ...trial.sealed, acceptedObject: objectId };
    const answers = await lookOnce(this.parts(this.input.credential), sealed);
    return answers.map((answer) => {
      const name = readAnswerBody(BANK_KIND.answerForm, answer.body)?.look ?? null;
      const heard = this.hear(trial, sealed, `${what}, ${name ?? 'look-up'}`, answer);
      if (name !== 'by_object' && heard.objects.length > 0) trial.listed = true;
      return heard;
    });
  }

  /** Looks until every look-up showed it, or the time is over; how long each took at most. */
  async lookUntilShown(trial: Trial): Promise<ReadonlyMap<string, number | null>> {
    const shown = new Map<string, number | null>();
    let waitedMs = 0;
    for (const stepMs of this.lagSteps()) {
      if (stepMs > 0) await this.wait(stepMs);
      waitedMs += stepMs;
      for (const heard of await this.look(trial, `look-up after ${waitedMs} ms`)) {
        const name = readAnswerBody(BANK_KIND.answerForm, heard.answer.body)?.look ?? null;
        if (name !== null && (shown.get(name) ?? null) === null)
          shown.set(name, heard.objects.length > 0 ? waitedMs : null);
      }
      if (shown.size > 0 && [...shown.values()].every((one) => one !== null)) break;
    }
    this.lagMs = Math.max(0, ...[...shown.values()].map((one) => one ?? 0));
    return shown;
  }

  /** After the lag: how many transfers the provider shows under this key. */
  async payments(trial: Trial, what: string): Promise<number> {
    await this.wait(this.lagMs);
    await this.look(trial, what);
    return trial.ids.size;
  }

  /** One request, and whether a transfer came of it: more ids under the key, or money that left. */
  async sendAndCount(
    trial: Trial,
    what: string,
    change: Change = {},
    as: ProbeCredential | null = null,
  ): Promise<{ readonly heard: Heard; readonly anew: boolean }> {
    const known = trial.ids.size;
    const before = await this.balance();
    const heard = await this.send(trial, what, change, as);
    const shown = await this.payments(trial, `after ${what}`);
    const after = await this.balance();
    const left = before !== null && after !== null && before - after >= this.input.amount;
    return { heard, anew: left || shown > known };
  }

  async wait(ms: number): Promise<void> {
    if (ms <= 0) return;
    if (this.input.levers.clock !== undefined) await this.levers.pull('clock', { ms });
    else await this.ports.clock.sleep(ms);
  }

  async drain(): Promise<void> {
    await this.levers.pull('drain', {});
  }

  /** Enough for all that may still be sent. */
  async topUp(): Promise<void> {
    const units = (this.input.amount + 1n) * BigInt(this.requestsMax + 1);
    await this.levers.pull('topUp', { currency: this.input.asset.code, units: units.toString() });
  }

  async fail(trial: Trial): Promise<void> {
    await this.levers.pull('fail', { key: trial.key, object_id: [...trial.ids][0] ?? null });
    trial.failed = true;
  }

  balance(): Promise<bigint | null> {
    return this.levers.balance();
  }

  takeAnswers(): readonly RawAnswer[] {
    const taken = this.kept;
    this.kept = [];
    return taken;
  }

  private lagSteps(): readonly number[] {
    if (this.input.levers.clock !== undefined) return LAG_STEPS_MS;
    const steps = [0];
    for (let left = this.input.lagWaitMs, step = 500; left > 0; step = Math.min(step * 2, REAL_STEP_MS_MAX)) {
      steps.push(Math.min(step, left));
      left -= step;
    }
    return steps;
  }

  private scope(credential: ProbeCredential): Scope {
    const { account, baseUrl } = this.input;
    return {
      deployment: 'probe',
      account,
      credentialId: credential.id,
      baseUrl: plainBaseUrl(baseUrl),
    };
  }

  private parts(credential: ProbeCredential): WireParts<ProviderObject, TransferLook> {
    const { profile, encryptionKey, timeoutMs } = this.input;
    return {
      ...BANK_KIND,
      railName: 'probe',
      profile,
      scope: this.scope(credential),
      secret: credential.secret,
      cipher: profile.encryption === 'jwe' ? makeJwe(encryptionKey ?? '', this.ports) : null,
      agent: this.agent,
      ports: this.ports,
      limits: { ...WIRE_LIMITS, timeoutMs: timeoutMs ?? profile.timeoutMs },
    };
  }

  private hear(trial: Trial, sealed: SealedEffect, what: string, answer: Answer): Heard {
    const { profile } = this.input;
    const observation = readBankAnswer(profile, answer, sealed);
    const pages = readAnswerBody(BANK_KIND.answerForm, answer.body)?.pages ?? [];
    const objects: ProviderObject[] = [];
    let error: ProviderError | null = null;
    for (const page of pages) {
      const json = parseLossless(page.body);
      if (json === undefined) continue;
      if (page.status >= 400) error = profile.error(json);
      else if (page.status < 300) objects.push(...(profile.objects(json) ?? []));
    }
    const ours = objects.filter((one) => one.key === trial.key || one.reference === trial.key);
    for (const { id } of ours) if (id !== null) trial.ids.add(id);
    if (observation.kind === 'key_taken' && observation.objectId !== null) trial.ids.add(observation.objectId);
    const heard: Heard = {
      what,
      answer,
      observation,
      status: answer.status,
      headers: pages[0]?.headers ?? {},
      objects: ours,
      error,
    };
    trial.heard.push(heard);
    const { reach, status, body } = answer;
    this.kept.push({ what, reach, status, body, reads: observation.kind, detail: observation.detail });
    return heard;
  }
}

/** A success that shows our transfer, whatever state it is in. */
export function stands(heard: Heard): boolean {
  return heard.objects.length > 0;
}

/** The provider knows the key: it shows what stands under it, or says that something does. */
export function recognises(heard: Heard): boolean {
  return stands(heard) || heard.observation.kind === 'key_taken';
}

/** A reading that could end an effect, whatever was sent before it. */
export function denies(observation: Observation): boolean {
  const { refusal } = observation;
  if (observation.kind === 'object_failed') return true;
  return refusal !== undefined && (refusal.storedUnderKey || refusal.replayed || refusal.stage === 'after_key_check');
}

/** What the profile says of the refusal, or `null` where it does not know the code. */
export function claimsOf(profile: Profile, heard: Heard) {
  if (heard.error === null || heard.status === null) return null;
  const means = rowOf(profile, heard.status, heard.error.code)?.means;
  return means?.reads === 'refused' ? means : null;
}

export function codeOf(heard: Heard): string {
  return heard.error === null ? `${heard.status ?? heard.answer.reach}` : `${heard.status ?? ''} ${heard.error.code}`;
}

/** In a few words, for the table. */
export function told(heard: Heard): string {
  const [object] = heard.objects;
  return object === undefined ? codeOf(heard) : `${heard.status ?? ''} ${object.id ?? ''} ${object.state ?? ''}`.trim();
}
