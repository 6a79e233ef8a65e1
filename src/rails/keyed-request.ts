/**
 * A sealed request under a key of ours, as one canonical text that names everything by which the provider could tell it from
 * another: credential, base URL, method, path, headers, key, body. Pure.
 *
 * It is built once; what leaves later is read from it and never made again (C1, T3). The secret is no part of it.
 */
import type { SealedEffect } from '../engine/rail.ts';
import { assert } from '../kernel/errors.ts';
import { field, isObject, parseJson, textOf } from './json.ts';
import { type KeyRule, keyHeaderOf } from './keyed-profile.ts';
import { canonicalText } from './wire-json.ts';

export interface Scope {
  readonly deployment: string;
  readonly account: string;
  readonly credentialId: string;
  readonly baseUrl: string;
}

/** What a mapper builds. */
export interface ProviderRequest {
  readonly method: 'POST';
  /** Path with query, relative to the base URL. */
  readonly path: string;
  /** Headers that are part of what is asked; never the credential, never the key's own header. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A sealed request, read back. */
export interface SealedRequest extends ProviderRequest {
  readonly account: string;
  readonly baseUrl: string;
  readonly credentialId: string;
  /** The key's own header included. */
  readonly headers: Readonly<Record<string, string>>;
  readonly key: string;
}

/** `kind` is the rail's, `form` names the text, for who reads it years later. */
export interface RequestForm {
  readonly kind: string;
  readonly form: string;
}

/** The two parts of a seal that are the request. */
export function sealRequest(
  { kind, form }: RequestForm,
  profile: { readonly name: string; readonly key: KeyRule | null },
  scope: Scope,
  key: string,
  request: ProviderRequest,
): { readonly identity: string; readonly payload: Uint8Array } {
  if (profile.key !== null) {
    // Derived keys are short by construction (M2); a profile that cannot carry them is a fault of ours, not of the payment.
    assert(
      key.length <= profile.key.charactersMax && profile.key.charset.test(key),
      `${profile.name} cannot carry the key ${key}`,
    );
  }
  const payload = canonicalText({
    form,
    account: scope.account,
    baseUrl: scope.baseUrl,
    credential: scope.credentialId,
    method: request.method,
    path: request.path,
    headers: { ...request.headers, ...keyHeader(profile, key) },
    key,
    body: request.body,
  });
  return {
    identity: `${kind}:${profile.name}:${request.method} ${scope.baseUrl}${request.path} ${scope.account} ${scope.credentialId} ${key}`,
    payload: new TextEncoder().encode(payload),
  };
}

/** The key as it leaves, quotes included: sealed, so that a later reading of the documents changes no sealed request. */
function keyHeader(profile: { readonly key: KeyRule | null }, key: string): Record<string, string> {
  const header = keyHeaderOf(profile);
  return header === null ? {} : { [header]: profile.key?.quoted === true ? `"${key}"` : key };
}

/** The inverse of the payload. A sealed payload that does not read back is a broken invariant. */
export function readSealedRequest({ form }: RequestForm, sealed: SealedEffect): SealedRequest {
  const value = parseJson(new TextDecoder().decode(sealed.seal.payload));
  const read = (name: string): string => {
    const text = textOf(field(value, name));
    assert(text !== null, `sealed request of effect ${sealed.effectId}: ${name} is missing`);
    return text;
  };
  const headers = field(value, 'headers');
  assert(read('form') === form && isObject(headers), `effect ${sealed.effectId} was sealed by another rail`);
  assert(read('method') === 'POST', 'a sealed request is a POST');
  return {
    account: read('account'),
    baseUrl: read('baseUrl'),
    credentialId: read('credential'),
    method: 'POST',
    path: read('path'),
    headers: Object.fromEntries(Object.entries(headers).map(([name, text]) => [name, textOf(text) ?? ''])),
    key: read('key'),
    body: read('body'),
  };
}

/** Why the sealed request must not leave from here, or `null`. Pure. */
export function withholdReason(
  profile: { readonly key: KeyRule | null; readonly scope: readonly string[] },
  scope: Scope,
  request: SealedRequest,
): string | null {
  const differs = (what: string, sealed: string, now: string, looks: string): string =>
    `sealed for ${what} ${sealed}, configured is ${now}: to the provider the key would be a new one. Configure the sealed one again${looks}.`;
  const unseen = '; until then it is neither sent nor looked at';
  if (request.baseUrl !== scope.baseUrl) return differs('base URL', request.baseUrl, scope.baseUrl, unseen);
  if (request.account !== scope.account) return differs('account', request.account, scope.account, unseen);
  if (request.credentialId !== scope.credentialId && (profile.key === null || profile.scope.includes('credential')))
    return differs('credential', request.credentialId, scope.credentialId, ', or decide by what looks show');
  return null;
}
