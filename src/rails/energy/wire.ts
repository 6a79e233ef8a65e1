/**
 * The wire of one market: a send is the sealed order and nothing else, a look is one question by our own order id. Prices and
 * the balance are asked before a seal, and nothing is bought by asking.
 *
 * Never: builds a body at the time of a send, retries, follows a redirect, decides what an answer means.
 */
import type { Dispatcher } from 'undici';
import type { Answer, SealedEffect } from '../../engine/rail.ts';
import type { Ports } from '../../kernel/ports.ts';
import { type Exchange, exchangeOnce, type WireLimits } from '../http.ts';
import { excerpt } from '../json.ts';
import { writeAnswer } from './answer-body.ts';
import { READ_BYTES_MAX } from './limits.ts';
import { readOrder, type Scope, type SealedOrder } from './order.ts';
import type { MarketProfile } from './profile.ts';
import { type Credential, credentialOf } from '../redact.ts';

export interface WireParts {
  readonly railName: string;
  readonly profile: MarketProfile;
  readonly scope: Scope;
  /** Asked at each request, held nowhere. */
  readonly secret: () => Promise<string> | string;
  readonly agent: Dispatcher;
  readonly ports: Ports;
  readonly limits: WireLimits;
}

/** Why the sealed order must not leave from here, or `null`: to another market or account its id would be a new one. Pure. */
export function withholdReason(scope: Scope, order: SealedOrder): string | null {
  const differs = (what: string, sealed: string, now: string): string =>
    `sealed for ${what} ${sealed}, configured is ${now}: there the order would be a new one. Configure the sealed one again, or decide by what the market shows.`;
  if (order.baseUrl !== scope.baseUrl) return differs('base URL', order.baseUrl, scope.baseUrl);
  if (order.account !== scope.account) return differs('account', order.account, scope.account);
  return null;
}

export async function sendOnce(parts: WireParts, sealed: SealedEffect): Promise<Answer> {
  const order = readOrder(sealed);
  return ask(parts, 'send', sealed, order, {
    method: 'POST',
    path: order.path,
    headers: { 'content-type': 'application/json' },
    body: order.body,
  });
}

export async function lookOnce(parts: WireParts, sealed: SealedEffect): Promise<Answer> {
  const order = readOrder(sealed);
  const path = parts.profile.lookPath(order.clientOrderId);
  return ask(parts, 'look', sealed, order, { method: 'GET', path, headers: {}, body: null });
}

interface Question {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

async function ask(
  parts: WireParts,
  operation: Answer['operation'],
  sealed: SealedEffect,
  order: SealedOrder,
  question: Question,
): Promise<Answer> {
  const { profile, scope, ports } = parts;
  const source = `${parts.railName} ${operation === 'send' ? 'send' : 'by_client_order_id'}`;
  const answer = { operation, source, operator: profile.operator, variantHash: null } as const;
  const withheld = (why: string): Answer => ({ ...answer, reach: 'withheld', status: null, body: why });
  const reason = withholdReason(scope, order);
  if (reason !== null) return withheld(reason);
  const askedAfterMs = ports.clock.now().getTime() - sealed.sealedAt.getTime();
  const exchanged = await exchange(parts, source, question);
  if (exchanged === null) return withheld('the credential could not be read: make its secret available again');
  const { reach, status } = exchanged;
  // A body that is not whole reads as unreadable, whatever it begins with.
  const body = exchanged.cut ? exchanged.body : writeAnswer({ askedAfterMs, body: exchanged.body });
  return { ...answer, reach, status, body: reach === 'answer' ? body : exchanged.body };
}

/** A question about the market itself: the body of a success, or what was wrong. */
export async function askMarket(
  parts: WireParts,
  path: string,
): Promise<{ readonly ok: true; readonly body: string } | { readonly ok: false; readonly fault: string }> {
  const asked = await exchange(parts, `${parts.railName} ask`, { method: 'GET', path, headers: {}, body: null });
  if (asked === null) return { ok: false, fault: 'the credential could not be read: make its secret available again' };
  const isWhole = asked.reach === 'answer' && !asked.cut;
  if (isWhole && asked.status === 200) return { ok: true, body: asked.body };
  const what = asked.status === null ? asked.reach : `HTTP ${asked.status}`;
  return { ok: false, fault: `${what}: ${excerpt(asked.body)}` };
}

/** `null`: without a credential nothing is asked. */
async function exchange(
  parts: WireParts,
  name: string,
  { method, path, headers, body }: Question,
): Promise<Exchange | null> {
  const credential = await credentialNow(parts);
  if (credential === null) return null;
  return exchangeOnce(
    parts.agent,
    parts.ports,
    name,
    {
      method,
      url: new URL(parts.scope.baseUrl + path),
      headers: { accept: 'application/json', ...headers },
      credential,
      body: body === null ? null : new TextEncoder().encode(body),
    },
    { ...parts.limits, bytesMax: READ_BYTES_MAX },
  );
}

async function credentialNow(parts: WireParts): Promise<Credential | null> {
  try {
    const secret = await parts.secret();
    return secret === '' ? null : credentialOf(parts.profile.auth, secret);
  } catch {
    return null;
  }
}
