/* What several providers do alike on the wire: JSON bodies, bearer and basic credentials, plain keys in a header. */
import type { Answer, BankRequest, Read } from '../profile.ts';
import { parseWire, printWire, type Wire } from '../wire-json.ts';

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

export function json(status: number, body: Wire, headers: Record<string, string> = {}): Answer {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: printWire(body) };
}

export function decodeJson(request: BankRequest, bad: () => Answer): Read<{ body: Wire; plain: string }> {
  const plain = request.body.toString('utf8');
  const body = parseWire(plain);
  return body === undefined ? { ok: false, answer: bad() } : { ok: true, body, plain };
}

export function bearerOf(request: BankRequest): string | null {
  return /^Bearer (.+)$/.exec(request.headers['authorization'] ?? '')?.[1] ?? null;
}

/** Name and secret of HTTP's basic scheme. */
export function basicOf(request: BankRequest): { name: string; secret: string } | null {
  const code = /^Basic (.+)$/.exec(request.headers['authorization'] ?? '')?.[1];
  if (code === undefined) return null;
  const text = Buffer.from(code, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  return colon < 0 ? null : { name: text.slice(0, colon), secret: text.slice(colon + 1) };
}

export function basic(name: string, secret: string): Record<string, string> {
  return { authorization: `Basic ${Buffer.from(`${name}:${secret}`).toString('base64')}` };
}

export function headerKey(request: BankRequest): string | null {
  const key = request.headers['idempotency-key'];
  return key === undefined || key === '' ? null : key;
}

/** The last part of a path under `base`, `null` for another path. */
export function idUnder(path: string, base: string): string | null {
  const rest = path.startsWith(`${base}/`) ? path.slice(base.length + 1) : '';
  return rest === '' || rest.includes('/') ? null : decodeURIComponent(rest);
}

export function unixSeconds(date: Date): bigint {
  return BigInt(Math.floor(date.getTime() / 1000));
}
