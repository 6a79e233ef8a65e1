/**
 * The wire of one provider: a send is the sealed request and nothing else, a look is one list of questions of the profile.
 *
 * A send whose credential, base URL or account is not the sealed one is withheld: to the provider the key would be a new one
 * (rails.md §0.4). Looks go on under another credential of the same account and place, where a hit is still a hit.
 * Never: builds a body at the time of a send, retries, follows a redirect, decides what an answer means.
 */
import type { Dispatcher } from 'undici';
import type { Answer, SealedEffect } from '../engine/rail.ts';
import type { Ports } from '../kernel/ports.ts';
import { keptHeaders, type Page, type Shown, writeAnswer } from './answer-body.ts';
import { urlUnder } from './base-url.ts';
import { idText, reasonText } from './foreign-text.ts';
import { type Exchange, exchangeOnce, type Outgoing, type WireLimits } from './http.ts';
import { parseLossless } from './json.ts';
import { PAGES_MAX, READ_BYTES_MAX } from './keyed-limits.ts';
import { type Item, type KeyedProfile, keyHeaderOf, type LookFacts, type LookUp } from './keyed-profile.ts';
import {
  readSealedRequest,
  type RequestForm,
  type Scope,
  type SealedRequest,
  withholdReason,
} from './keyed-request.ts';
import { type Credential, credentialOf } from './redact.ts';
import { ownObjects } from './under-key.ts';

/** Where a secret comes from: asked at each request, held nowhere. For a provider with tokens it is the current token. */
export type SecretPort = () => Promise<string> | string;

/** A body that is encrypted anew at each send; the plaintext is what is sealed and stored. */
export interface BodyCipher {
  encrypt(plain: string): Promise<string>;
  /** The plaintext, or the text as it came where it is not ours to open: it will read as unreadable. */
  decrypt(text: string): Promise<string>;
}

/** What a rail says of its own to the wire: the names of its stored texts, and what it looks for. */
export interface KeyedKind<One extends Item, Facts extends LookFacts> {
  readonly requestForm: RequestForm;
  readonly answerForm: string;
  factsOf(sealed: SealedEffect, request: SealedRequest): Facts;
  /** An object beside others: its id, and its state as far as it matters there. */
  readonly toShown: (one: One) => Shown;
}

export interface WireParts<One extends Item, Facts extends LookFacts> extends KeyedKind<One, Facts> {
  readonly railName: string;
  readonly profile: KeyedProfile<One, Facts>;
  readonly scope: Scope;
  readonly secret: SecretPort;
  readonly cipher: BodyCipher | null;
  readonly agent: Dispatcher;
  readonly ports: Ports;
  readonly limits: WireLimits;
}

export async function sendOnce<One extends Item, Facts extends LookFacts>(
  parts: WireParts<One, Facts>,
  sealed: SealedEffect,
): Promise<Answer> {
  const { profile, scope } = parts;
  const request = readSealedRequest(parts.requestForm, sealed);
  const answer = {
    operation: 'send',
    source: `${parts.railName} send`,
    operator: parts.profile.operator,
    variantHash: null,
  } as const;
  const reason = withholdReason(profile, scope, request);
  if (reason !== null) return { ...answer, reach: 'withheld', status: null, body: reason };
  const credential = await credentialNow(parts);
  if (credential === null) return { ...answer, reach: 'withheld', status: null, body: NO_SECRET };
  const body = parts.cipher === null ? request.body : await parts.cipher.encrypt(request.body);
  const exchanged = await exchange(parts, 'send', {
    method: request.method,
    url: urlUnder(request.baseUrl, request.path),
    headers: request.headers,
    credential,
    body: new TextEncoder().encode(body),
  });
  return {
    ...answer,
    reach: exchanged.reach,
    status: exchanged.status,
    body: hasPages(exchanged)
      ? writeAnswer(parts.answerForm, {
          look: null,
          objectId: null,
          credential: scope.credentialId,
          pages: await pagesOf(parts, credential, [exchanged]),
          whole: true,
          beside: [],
        })
      : exchanged.body,
  };
}

/** What a look may ask for by id, beside the accepted object: a refusal points at one, and a second one may correct it. */
const HINTS_MAX = 3;
/** Objects of other answers that are noted in one: two are a case already. */
const BESIDE_MAX = 10;

/**
 * One answer for each look-up that can be asked. Each of them notes what the others show under our key: an object that failed
 * may stand beside one that lives, in another list.
 */
export async function lookOnce<One extends Item, Facts extends LookFacts>(
  parts: WireParts<One, Facts>,
  sealed: SealedEffect,
): Promise<readonly Answer[]> {
  const request = readSealedRequest(parts.requestForm, sealed);
  const facts = parts.factsOf(sealed, request);
  const elsewhere = request.baseUrl !== parts.scope.baseUrl || request.account !== parts.scope.account;
  const asked: Asked<Facts>[] = [];
  for (const question of questionsOf(parts.profile.lookUps, facts, sealed.objectHints ?? [])) {
    asked.push(
      elsewhere
        ? unasked(question, 'withheld', withholdReason(parts.profile, parts.scope, request) ?? '')
        : await ask(parts, question),
    );
  }
  return asked.map((one) => toAnswer(parts, one, besideOf(one, asked)));
}

interface Question<Facts extends LookFacts> {
  readonly lookUp: LookUp<Facts>;
  readonly facts: Facts;
  readonly path: string;
  /** Answers are compared with the last of their source, so each hint is a source of its own. */
  readonly source: string;
}

interface Asked<Facts extends LookFacts> {
  readonly question: Question<Facts>;
  readonly reach: Answer['reach'];
  readonly status: number | null;
  /** Of an answer without pages: the transport's words. */
  readonly why: string;
  readonly pages: readonly Page[];
  readonly whole: boolean;
  readonly shown: readonly Shown[];
}

function questionsOf<Facts extends LookFacts>(
  lookUps: readonly LookUp<Facts>[],
  facts: Facts,
  hints: readonly string[],
): readonly Question<Facts>[] {
  const ids =
    facts.objectId === null ? [...new Set(hints)].filter((id) => idText(id) !== null).slice(0, HINTS_MAX) : [];
  return lookUps.flatMap((lookUp): Question<Facts>[] => {
    const about =
      lookUp.name === 'by_object' && ids.length > 0 ? ids.map((objectId) => ({ ...facts, objectId })) : [facts];
    return about.flatMap((one): Question<Facts>[] => {
      const path = lookUp.path(one);
      const hinted = one.objectId !== null && one.objectId !== facts.objectId;
      return path === null
        ? []
        : [{ lookUp, facts: one, path, source: hinted ? `${lookUp.name} ${one.objectId}` : lookUp.name }];
    });
  });
}

function besideOf(
  one: Pick<Asked<LookFacts>, 'shown'>,
  all: readonly Pick<Asked<LookFacts>, 'shown'>[],
): readonly Shown[] {
  const others = all.flatMap((other) => (other === one ? [] : other.shown));
  const here = new Set(one.shown.map((shown) => shown.id));
  const beside = new Map(others.flatMap((shown) => (here.has(shown.id) ? [] : [[shown.id, shown]])));
  return [...beside.values()].slice(0, BESIDE_MAX);
}

function toAnswer<One extends Item, Facts extends LookFacts>(
  parts: WireParts<One, Facts>,
  asked: Asked<Facts>,
  beside: readonly Shown[],
): Answer {
  const { lookUp, facts, source } = asked.question;
  return {
    operation: 'look',
    source: `${parts.railName} ${source}`,
    operator: parts.profile.operator,
    reach: asked.reach,
    status: asked.status,
    body:
      asked.pages.length === 0
        ? asked.why
        : writeAnswer(parts.answerForm, {
            look: lookUp.name,
            objectId: lookUp.name === 'by_object' ? facts.objectId : null,
            credential: parts.scope.credentialId,
            pages: asked.pages,
            whole: asked.whole,
            beside,
          }),
    variantHash: null,
  };
}

function unasked<Facts extends LookFacts>(
  question: Question<Facts>,
  reach: Answer['reach'],
  why: string,
): Asked<Facts> {
  return { question, reach, status: null, why, pages: [], whole: false, shown: [] };
}

async function ask<One extends Item, Facts extends LookFacts>(
  parts: WireParts<One, Facts>,
  question: Question<Facts>,
): Promise<Asked<Facts>> {
  const credential = await credentialNow(parts);
  if (credential === null) return unasked(question, 'withheld', NO_SECRET);
  const { lookUp, facts } = question;
  const exchanges: Exchange[] = [];
  const shown: Shown[] = [];
  let whole = false;
  for (let path: string | null = question.path; path !== null && exchanges.length < PAGES_MAX; ) {
    const page: Exchange = await exchange(parts, lookUp.name, {
      method: 'GET',
      url: urlUnder(parts.scope.baseUrl, path),
      headers: { accept: 'application/json' },
      credential,
      body: null,
    });
    exchanges.push(page);
    const read =
      page.reach === 'answer' && page.status !== null && page.status < 300 ? await open(parts, page) : undefined;
    const json = read === undefined ? undefined : parseLossless(read);
    if (json === undefined) break;
    const own = ownObjects(facts.key, parts.profile.objects(json) ?? []);
    shown.push(
      ...own
        .map((one) => parts.toShown(one))
        .flatMap(({ id, state }) => (idText(id) === null ? [] : [{ id, state: reasonText(state) }])),
    );
    const next = lookUp.next(json, facts, exchanges.length);
    if (next === null) whole = true;
    // What was looked for is found: what lies on later pages is not ours, or the batch's own other lines.
    const found = own.length > 0 && lookUp.name !== 'by_object';
    path = next === null || next === 'unknown' || found ? null : next.path;
  }
  const last = exchanges.at(-1);
  if (last === undefined) return unasked(question, 'never_connected', 'nothing was asked');
  return {
    question,
    reach: last.reach,
    status: last.status,
    why: last.body,
    pages: hasPages(last) ? await pagesOf(parts, credential, exchanges) : [],
    whole,
    shown,
  };
}

/** Of the wire, what every request needs. */
type Transport = Pick<WireParts<Item, LookFacts>, 'railName' | 'secret' | 'cipher' | 'agent' | 'ports' | 'limits'> & {
  readonly profile: Pick<KeyedProfile<Item, LookFacts>, 'key' | 'replayMark' | 'keepHeaders' | 'auth'>;
};

function exchange(parts: Transport, what: string, outgoing: Outgoing): Promise<Exchange> {
  return exchangeOnce(parts.agent, parts.ports, `${parts.railName} ${what}`, outgoing, {
    ...parts.limits,
    bytesMax: READ_BYTES_MAX,
  });
}

/** Where no answer came, what is kept are the transport's own words. */
function hasPages({ reach }: Exchange): boolean {
  return reach === 'answer' || reach === 'partial_answer';
}

/** What is stored of the answers: nothing of it is the credential, also where it came encrypted. */
function pagesOf(parts: Transport, credential: Credential, exchanges: readonly Exchange[]): Promise<readonly Page[]> {
  return Promise.all(
    exchanges.map(async (one): Promise<Page> => {
      return {
        status: one.status ?? 0,
        headers: keptHeaders(one.headers, headersOf(parts.profile)),
        body: parts.cipher === null ? one.body : credential.redact(await open(parts, one), one.cut),
        cut: one.cut,
      };
    }),
  );
}

function headersOf(profile: Transport['profile']): readonly string[] {
  const mark = profile.replayMark === null ? [] : [profile.replayMark.header];
  const key = keyHeaderOf(profile);
  return [...profile.keepHeaders, ...mark, ...(key === null ? [] : [key])];
}

function open(parts: Transport, one: Exchange): Promise<string> | string {
  return parts.cipher === null ? one.body : parts.cipher.decrypt(one.body);
}

const NO_SECRET = 'the credential could not be read: make its secret available again';

async function credentialNow(parts: Transport): Promise<Credential | null> {
  try {
    const secret = await parts.secret();
    return secret === '' ? null : credentialOf(parts.profile.auth, secret);
  } catch {
    return null;
  }
}
