/**
 * The credential goes out and nothing of it comes back: a provider, a gateway or a debug page that echoes our headers would
 * put it into stored answers, details, events and what partners read. Taken out of every text before it is kept. Pure.
 *
 * Found as it stands, in base64 as it was sent, and in the ways in which JSON, URLs and HTML write a character otherwise.
 * Never: a shorter text than eight characters by itself, which would tear answers apart; with its scheme it is found all the same.
 */
import type { Auth } from './keyed-profile.ts';

const TOKEN_CHARACTERS_MIN = 8;
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
  const tokens = [...Object.values(headers), secret, base64(secret), base64(pair), hiddenHalf(auth, secret)];
  // The longest first: a shorter one may be its part.
  const wanted = [...new Set(tokens.filter((token) => token.length >= TOKEN_CHARACTERS_MIN))].sort(
    (a, b) => b.length - a.length,
  );
  const patterns = wanted.map((token) => new RegExp(patternOf(token), 'gi'));
  return {
    headers,
    redact(text, cut = false) {
      const clean = patterns.reduce((rest, pattern) => rest.replace(pattern, REDACTED), text);
      return cut ? wanted.reduce(withoutTail, clean) : clean;
    },
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
