/**
 * The credential goes out and nothing of it comes back: a provider, a node, a gateway or a debug page that echoes our headers
 * would put it into stored answers, details, alerts, events and what partners read. `http.ts` sends nothing without one of
 * these, and takes it out of every text that comes back. Pure.
 *
 * Found as it stands, in base64 as it was sent, and in the ways in which JSON, URLs and HTML write a character otherwise.
 * Never: a shorter text than eight characters by itself, which would tear answers apart; with its scheme it is found all the same.
 */
import type { Auth } from './keyed-profile.ts';

const TOKEN_CHARACTERS_MIN = 8;
/** Keys in a URL's path have 20 characters and more; words of paths, which answers may hold as well, are shorter. */
const PATH_KEY_CHARACTERS_MIN = 16;
const REDACTED = '[redacted]';

export interface Credential {
  readonly headers: Readonly<Record<string, string>>;
  /** `cut`: the text ends where it was cut, perhaps in the middle of the secret. */
  redact(text: string, cut?: boolean): string;
}

export function credentialOf(auth: Auth, secret: string): Credential {
  // A secret without a colon is a user name without a password.
  const pair = secret.includes(':') ? secret : `${secret}:`;
  const sent = auth === 'basic' ? Buffer.from(pair).toString('base64') : secret;
  const headers: Record<string, string> =
    auth === 'x_api_key'
      ? { 'x-api-key': secret }
      : { authorization: `${auth === 'bearer' ? 'Bearer' : 'Basic'} ${sent}` };
  return {
    headers,
    redact: redactorOf([...Object.values(headers), secret, base64(secret), base64(pair), hiddenHalf(auth, secret)]),
  };
}

/** What lets us in where it is configured with the URL: headers, a password, a key in the path or the query. */
export function doorOf(url: string, headers: Readonly<Record<string, string>> = {}): Credential {
  const { username, password, pathname, searchParams } = new URL(url);
  const [user, secret] = [decodeURIComponent(username), decodeURIComponent(password)];
  const basic: Record<string, string> =
    user === '' ? {} : { authorization: `Basic ${Buffer.from(`${user}:${secret}`).toString('base64')}` };
  const sent = Object.values({ ...headers, ...basic });
  const inUrl = [
    ...pathname.split('/').filter((part) => part.length >= PATH_KEY_CHARACTERS_MIN),
    ...searchParams.values(),
  ];
  // Behind its scheme a key stands by itself.
  const keys = [...sent.map((value) => value.slice(value.lastIndexOf(' ') + 1)), secret, ...inUrl];
  return { headers: { ...headers, ...basic }, redact: redactorOf([...sent, ...keys, ...keys.map(base64)]) };
}

function redactorOf(tokens: readonly string[]): Credential['redact'] {
  // The longest first: a shorter one may be its part.
  const wanted = [...new Set(tokens.filter((token) => token.length >= TOKEN_CHARACTERS_MIN))].sort(
    (a, b) => b.length - a.length,
  );
  const patterns = wanted.map((token) => new RegExp(patternOf(token), 'gi'));
  return (text, cut = false) => {
    const clean = patterns.reduce((rest, pattern) => rest.replace(pattern, REDACTED), text);
    return cut ? wanted.reduce(withoutTail, clean) : clean;
  };
}

/** Of a pair, the half that is secret. */
function hiddenHalf(auth: Auth, secret: string): string {
  const colon = auth === 'basic' ? secret.indexOf(':') : -1;
  if (colon < 0) return secret;
  return colon === secret.length - 1 ? secret.slice(0, -1) : secret.slice(colon + 1);
}

/** Without its padding, which not everybody writes. */
function base64(text: string): string {
  return Buffer.from(text).toString('base64').replaceAll('=', '');
}

/** Each character in its spellings: one after the other, without repetition, so that no text takes long. */
function patternOf(token: string): string {
  return Array.from(token, (character) => {
    const spellings = [character, ...(SAME_IN_BASE64_URL[character] ?? [])].flatMap((one) => {
      const hex = Array.from(Buffer.from(one), (byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
      const code = (one.codePointAt(0) ?? 0).toString(16);
      return [one, `\\${one}`, `\\u${code.padStart(4, '0')}`, hex, `&#x${code};`, `&#${one.codePointAt(0) ?? 0};`];
    });
    return `(?:${spellings.map((one) => literal(one)).join('|')})`;
  }).join('');
}

function literal(text: string): string {
  return text.replaceAll(/[$()*+./?[\\\]^{|}-]/g, '\\$&');
}

const SAME_IN_BASE64_URL: Readonly<Record<string, readonly string[]>> = { '+': ['-'], '/': ['_'] };

/** A beginning of the secret at the end of a text that was cut. */
function withoutTail(text: string, token: string): string {
  for (let length = Math.min(token.length - 1, text.length); length >= TOKEN_CHARACTERS_MIN; length -= 1)
    if (text.endsWith(token.slice(0, length))) return text.slice(0, -length) + REDACTED;
  return text;
}
