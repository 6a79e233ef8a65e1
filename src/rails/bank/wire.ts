/**
 * The wire of one provider: a send is the sealed request and nothing else, a look is one list of questions of the profile.
 *
 * A send whose credential, base URL or account is not the sealed one is withheld: to the provider the key would be a new one
 * (rails.md §0.4). Looks go on under another credential of the same account and place, where a hit is still a hit.
 * Never: builds a body at the time of a send, retries, follows a redirect, decides what an answer means.
 */
import type { Dispatcher } from 'undici';
import type { Answer, Json, SealedEffect } from '../../engine/rail.ts';
import type { Ports } from '../../kernel/ports.ts';
import { type Exchange, exchangeOnce, type Outgoing, type WireLimits } from '../http.ts';
import { parseLossless } from '../json.ts';
import { type AnswerBody, keptHeaders, type Page, writeAnswer } from './answer-body.ts';
import type { BodyCipher } from './jwe.ts';
import { PAGES_MAX, READ_BYTES_MAX } from './limits.ts';
import { keyHeaderOf, type LookFacts, type LookUp, type Profile } from './profile.ts';
import { readRequest, type Scope, type SealedRequest } from './seal.ts';

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
  const auth = await authorization(parts);
  if (auth === null) return { ...answer, reach: 'withheld', status: null, body: NO_SECRET };
  const body = parts.cipher === null ? request.body : await parts.cipher.encrypt(request.body);
  const exchanged = await exchange(parts, 'send', {
    method: request.method,
    url: urlOf(request.baseUrl, request.path),
    headers: { ...request.headers, ...auth },
    body: new TextEncoder().encode(body),
  });
  return {
    ...answer,
    reach: exchanged.reach,
    status: exchanged.status,
    body: await textOf(parts, [exchanged], { look: null, objectId: null, whole: true }),
  };
}

/** One answer for each look-up that can be asked. */
export async function lookOnce(parts: WireParts, sealed: SealedEffect): Promise<readonly Answer[]> {
  const request = readRequest(sealed);
  const facts: LookFacts = {
    key: request.key,
    account: request.account,
    currency: sealed.asset.code.toUpperCase(),
    objectId: sealed.acceptedObject ?? null,
    sealedAt: sealed.sealedAt,
  };
  const elsewhere = request.baseUrl !== parts.scope.baseUrl || request.account !== parts.scope.account;
  const answers: Answer[] = [];
  for (const lookUp of parts.profile.lookUps) {
    const path = lookUp.path(facts);
    if (path === null) continue;
    answers.push(
      elsewhere
        ? lookAnswer(parts, lookUp, 'withheld', null, withholdReason(parts.profile, parts.scope, request) ?? '')
        : await ask(parts, lookUp, facts, path),
    );
  }
  return answers;
}

function lookAnswer(
  parts: WireParts,
  lookUp: LookUp,
  reach: Answer['reach'],
  status: number | null,
  body: string,
): Answer {
  return {
    operation: 'look',
    source: `${parts.railName} ${lookUp.name}`,
    operator: parts.operator,
    reach,
    status,
    body,
    variantHash: null,
  };
}

async function ask(parts: WireParts, lookUp: LookUp, facts: LookFacts, first: string): Promise<Answer> {
  const auth = await authorization(parts);
  if (auth === null) return lookAnswer(parts, lookUp, 'withheld', null, NO_SECRET);
  const pages: Exchange[] = [];
  let whole = false;
  for (let path: string | null = first; path !== null && pages.length < PAGES_MAX; ) {
    const page: Exchange = await exchange(parts, lookUp.name, {
      method: 'GET',
      url: urlOf(parts.scope.baseUrl, path),
      headers: { ...auth, accept: 'application/json' },
      body: null,
    });
    pages.push(page);
    const read =
      page.reach === 'answer' && page.status !== null && page.status < 300 ? await open(parts, page) : undefined;
    const json = read === undefined ? undefined : parseLossless(read);
    if (json === undefined) break;
    const next = lookUp.next(json, facts, pages.length);
    if (next === null) whole = true;
    // What was looked for is found: what lies on later pages is not ours, or the batch's own other lines.
    path = next === null || next === 'unknown' || foundIn(parts.profile, lookUp, json, facts) ? null : next.path;
  }
  const last = pages.at(-1);
  if (last === undefined) return lookAnswer(parts, lookUp, 'never_connected', null, 'nothing was asked');
  const objectId = lookUp.name === 'by_object' ? facts.objectId : null;
  return lookAnswer(
    parts,
    lookUp,
    last.reach,
    last.status,
    await textOf(parts, pages, { look: lookUp.name, objectId, whole }),
  );
}

function foundIn(profile: Profile, lookUp: LookUp, json: Json, facts: LookFacts): boolean {
  if (lookUp.name === 'by_object') return false;
  return (profile.objects(json) ?? []).some((object) => object.key === facts.key || object.reference === facts.key);
}

function exchange(parts: WireParts, what: string, outgoing: Outgoing): Promise<Exchange> {
  return exchangeOnce(parts.agent, parts.ports, `${parts.railName} ${what}`, outgoing, {
    ...parts.limits,
    bytesMax: READ_BYTES_MAX,
  });
}

/** What is stored: the pages in one text, or, where no answer came, the transport's own words. */
async function textOf(
  parts: WireParts,
  exchanges: readonly Exchange[],
  about: Pick<AnswerBody, 'look' | 'objectId' | 'whole'>,
): Promise<string> {
  const last = exchanges.at(-1);
  if (last === undefined) return '';
  if (last.reach !== 'answer' && last.reach !== 'partial_answer') return last.body;
  const pages = await Promise.all(
    exchanges.map(
      async (one): Promise<Page> => ({
        status: one.status ?? 0,
        headers: keptHeaders(one.headers, headersOf(parts.profile)),
        body: await open(parts, one),
        cut: one.cut,
      }),
    ),
  );
  return writeAnswer({ ...about, credential: parts.scope.credentialId, pages });
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

async function authorization(parts: WireParts): Promise<Readonly<Record<string, string>> | null> {
  try {
    const secret = await parts.secret();
    if (secret === '') return null;
    if (parts.profile.auth === 'x_api_key') return { 'x-api-key': secret };
    if (parts.profile.auth === 'bearer') return { authorization: `Bearer ${secret}` };
    // A secret without a colon is a user name without a password.
    const pair = secret.includes(':') ? secret : `${secret}:`;
    return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` };
  } catch {
    return null;
  }
}

/** The base URL may have a path of its own. */
function urlOf(baseUrl: string, path: string): URL {
  return new URL(baseUrl.replace(/\/+$/, '') + path);
}
