/**
 * The wire of one provider: a send is the sealed request and nothing else, a look is one list of questions of the profile.
 *
 * A send whose credential, base URL or account is not the sealed one is withheld: to the provider the key would be a new one
 * (rails.md §0.4). Looks go on under another credential of the same account and place, where a hit is still a hit.
 * Never: builds a body at the time of a send, retries, follows a redirect, decides what an answer means.
 */
import type { Dispatcher } from 'undici';
import type { Answer, SealedEffect } from '../../engine/rail.ts';
import type { Ports } from '../../kernel/ports.ts';
import { type Exchange, exchangeOnce, type Outgoing, type WireLimits } from '../http.ts';
import { parseLossless } from '../json.ts';
import { keptHeaders, type Page, type Shown, writeAnswer } from './answer-body.ts';
import { idText, reasonText } from './foreign-text.ts';
import type { BodyCipher } from './jwe.ts';
import { PAGES_MAX, READ_BYTES_MAX } from './limits.ts';
import { keyHeaderOf, type LookFacts, type LookUp, type Profile } from './profile.ts';
import { type Credential, credentialOf } from './redact.ts';
import { readRequest, type Scope, type SealedRequest } from './seal.ts';
import { ownObjects } from './under-key.ts';

/** Where a secret comes from: asked at each request, held nowhere. For a provider with tokens it is the current token. */
export type SecretPort = () => Promise<string> | string;

export interface WireParts {
  readonly railName: string;
  readonly operator: string;
  readonly profile: Profile;
  readonly scope: Scope;
  readonly secret: SecretPort;
  readonly cipher: BodyCipher | null;
  readonly agent: Dispatcher;
  readonly ports: Ports;
  readonly limits: WireLimits;
}

/** Why the sealed request must not leave from here, or `null`. Pure. */
export function withholdReason(profile: Profile, scope: Scope, request: SealedRequest): string | null {
  const differs = (what: string, sealed: string, now: string, looks: string): string =>
    `sealed for ${what} ${sealed}, configured is ${now}: to the provider the key would be a new one. Configure the sealed one again${looks}.`;
  const unseen = '; until then it is neither sent nor looked at';
  if (request.baseUrl !== scope.baseUrl) return differs('base URL', request.baseUrl, scope.baseUrl, unseen);
  if (request.account !== scope.account) return differs('account', request.account, scope.account, unseen);
  if (request.credentialId !== scope.credentialId && (profile.key === null || profile.scope.includes('credential')))
    return differs('credential', request.credentialId, scope.credentialId, ', or decide by what looks show');
  return null;
}

export async function sendOnce(parts: WireParts, sealed: SealedEffect): Promise<Answer> {
  const { profile, scope } = parts;
  const request = readRequest(sealed);
  const answer = {
    operation: 'send',
    source: `${parts.railName} send`,
    operator: parts.operator,
    variantHash: null,
  } as const;
  const reason = withholdReason(profile, scope, request);
  if (reason !== null) return { ...answer, reach: 'withheld', status: null, body: reason };
  const credential = await credentialNow(parts);
  if (credential === null) return { ...answer, reach: 'withheld', status: null, body: NO_SECRET };
  const body = parts.cipher === null ? request.body : await parts.cipher.encrypt(request.body);
  const exchanged = await exchange(parts, 'send', {
    method: request.method,
    url: urlOf(request.baseUrl, request.path),
    headers: { ...request.headers, ...credential.headers },
    body: new TextEncoder().encode(body),
  });
  return {
    ...answer,
    reach: exchanged.reach,
    status: exchanged.status,
    body: hasPages(exchanged)
      ? writeAnswer({
          look: null,
          objectId: null,
          credential: scope.credentialId,
          pages: await pagesOf(parts, credential, [exchanged]),
          whole: true,
          beside: [],
        })
      : credential.redact(exchanged.body),
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
export async function lookOnce(parts: WireParts, sealed: SealedEffect): Promise<readonly Answer[]> {
  const request = readRequest(sealed);
  const facts: LookFacts = {
    key: request.key,
    account: request.account,
    currency: sealed.asset.code.toUpperCase(),
    objectId: idText(sealed.acceptedObject ?? null),
    sealedAt: sealed.sealedAt,
  };
  const elsewhere = request.baseUrl !== parts.scope.baseUrl || request.account !== parts.scope.account;
  const asked: Asked[] = [];
  for (const question of questionsOf(parts.profile, facts, sealed.objectHints ?? [])) {
    asked.push(
      elsewhere
        ? unasked(question, 'withheld', withholdReason(parts.profile, parts.scope, request) ?? '')
        : await ask(parts, question),
    );
  }
  return asked.map((one) => toAnswer(parts, one, besideOf(one, asked)));
}

interface Question {
  readonly lookUp: LookUp;
  readonly facts: LookFacts;
  readonly path: string;
  /** Answers are compared with the last of their source, so each hint is a source of its own. */
  readonly source: string;
}

interface Asked {
  readonly question: Question;
  readonly reach: Answer['reach'];
  readonly status: number | null;
  /** Of an answer without pages: the transport's words. */
  readonly why: string;
  readonly pages: readonly Page[];
  readonly whole: boolean;
  readonly shown: readonly Shown[];
}

function questionsOf(profile: Profile, facts: LookFacts, hints: readonly string[]): readonly Question[] {
  const ids =
    facts.objectId === null ? [...new Set(hints)].filter((id) => idText(id) !== null).slice(0, HINTS_MAX) : [];
  return profile.lookUps.flatMap((lookUp): Question[] => {
    const about =
      lookUp.name === 'by_object' && ids.length > 0 ? ids.map((objectId) => ({ ...facts, objectId })) : [facts];
    return about.flatMap((one): Question[] => {
      const path = lookUp.path(one);
      const hinted = one.objectId !== null && one.objectId !== facts.objectId;
      return path === null
        ? []
        : [{ lookUp, facts: one, path, source: hinted ? `${lookUp.name} ${one.objectId}` : lookUp.name }];
    });
  });
}

function besideOf(one: Asked, all: readonly Asked[]): readonly Shown[] {
  const others = all.flatMap((other) => (other === one ? [] : other.shown));
  const here = new Set(one.shown.map((shown) => shown.id));
  const beside = new Map(others.flatMap((shown) => (here.has(shown.id) ? [] : [[shown.id, shown]])));
  return [...beside.values()].slice(0, BESIDE_MAX);
}

function toAnswer(parts: WireParts, asked: Asked, beside: readonly Shown[]): Answer {
  const { lookUp, facts, source } = asked.question;
  return {
    operation: 'look',
    source: `${parts.railName} ${source}`,
    operator: parts.operator,
    reach: asked.reach,
    status: asked.status,
    body:
      asked.pages.length === 0
        ? asked.why
        : writeAnswer({
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

function unasked(question: Question, reach: Answer['reach'], why: string): Asked {
  return { question, reach, status: null, why, pages: [], whole: false, shown: [] };
}

async function ask(parts: WireParts, question: Question): Promise<Asked> {
  const credential = await credentialNow(parts);
  if (credential === null) return unasked(question, 'withheld', NO_SECRET);
  const { lookUp, facts } = question;
  const exchanges: Exchange[] = [];
  const shown: Shown[] = [];
  let whole = false;
  for (let path: string | null = question.path; path !== null && exchanges.length < PAGES_MAX; ) {
    const page: Exchange = await exchange(parts, lookUp.name, {
      method: 'GET',
      url: urlOf(parts.scope.baseUrl, path),
      headers: { ...credential.headers, accept: 'application/json' },
      body: null,
    });
    exchanges.push(page);
    const read =
      page.reach === 'answer' && page.status !== null && page.status < 300 ? await open(parts, page) : undefined;
    const json = read === undefined ? undefined : parseLossless(read);
    if (json === undefined) break;
    const own = ownObjects(facts.key, parts.profile.objects(json) ?? []);
    shown.push(...own.flatMap(({ id, state }) => (idText(id) === null ? [] : [{ id, state: reasonText(state) }])));
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
    why: credential.redact(last.body),
    pages: hasPages(last) ? await pagesOf(parts, credential, exchanges) : [],
    whole,
    shown,
  };
}

function exchange(parts: WireParts, what: string, outgoing: Outgoing): Promise<Exchange> {
  return exchangeOnce(parts.agent, parts.ports, `${parts.railName} ${what}`, outgoing, {
    ...parts.limits,
    bytesMax: READ_BYTES_MAX,
  });
}

/** Where no answer came, what is kept are the transport's own words. */
function hasPages({ reach }: Exchange): boolean {
  return reach === 'answer' || reach === 'partial_answer';
}

/** What is stored of the answers: nothing of it is the credential. */
function pagesOf(parts: WireParts, credential: Credential, exchanges: readonly Exchange[]): Promise<readonly Page[]> {
  return Promise.all(
    exchanges.map(async (one): Promise<Page> => {
      const headers = Object.entries(keptHeaders(one.headers, headersOf(parts.profile)));
      return {
        status: one.status ?? 0,
        headers: Object.fromEntries(headers.map(([name, value]) => [name, credential.redact(value)])),
        body: credential.redact(await open(parts, one), one.cut),
        cut: one.cut,
      };
    }),
  );
}

function headersOf(profile: Profile): readonly string[] {
  const mark = profile.replayMark === null ? [] : [profile.replayMark.header];
  const key = keyHeaderOf(profile);
  return [...profile.keepHeaders, ...mark, ...(key === null ? [] : [key])];
}

function open(parts: WireParts, one: Exchange): Promise<string> | string {
  return parts.cipher === null ? one.body : parts.cipher.decrypt(one.body);
}

const NO_SECRET = 'the credential could not be read: make its secret available again';

async function credentialNow(parts: WireParts): Promise<Credential | null> {
  try {
    const secret = await parts.secret();
    return secret === '' ? null : credentialOf(parts.profile.auth, secret);
  } catch {
    return null;
  }
}

/** The base URL may have a path of its own. */
function urlOf(baseUrl: string, path: string): URL {
  return new URL(baseUrl.replace(/\/+$/, '') + path);
}
