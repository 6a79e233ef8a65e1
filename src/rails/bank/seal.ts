/**
 * The seal of a bank transfer: the exact request, and what its answers are compared with. Pure.
 *
 * The payload is one canonical text that names everything by which the provider could tell this request from another:
 * credential, base URL, method, path, headers, key, body. It is built once; what leaves later is read from it and never
 * made again (C1, T3). The secret is no part of it.
 */
import type { EffectIntent, Json, Seal, SealedEffect } from '../../engine/rail.ts';
import { assert } from '../../kernel/errors.ts';
import { deriveRailKey } from '../../kernel/ids.ts';
import { field, isArray, isObject, parseJson, textOf, unitsOf } from '../json.ts';
import { keyHeaderOf, type Profile, type TransferFacts } from './profile.ts';
import { canonicalText } from './wire-json.ts';

const PAYLOAD_FORM = 'bank-request-1';

export interface Scope {
  readonly deployment: string;
  readonly account: string;
  readonly credentialId: string;
  readonly baseUrl: string;
}

/** A sealed request, read back. */
export interface SealedRequest {
  readonly account: string;
  readonly baseUrl: string;
  readonly credentialId: string;
  readonly method: 'POST';
  readonly path: string;
  /** The key's own header included. */
  readonly headers: Readonly<Record<string, string>>;
  readonly key: string;
  readonly body: string;
}

export function factsOf(profile: Profile, scope: Scope, effect: EffectIntent): TransferFacts {
  const key = deriveRailKey(scope.deployment, scope.account, effect.naturalKey, effect.seq);
  const { payee } = effect;
  assert(payee !== null || effect.lines !== undefined, `effect ${effect.effectId} names nobody to pay`);
  const lines = effect.lines ?? (payee === null ? [] : [{ ref: key, payee, amount: effect.amount }]);
  const first = lines[0];
  assert(first !== undefined, `effect ${effect.effectId} has no line`);
  assert(lines.length <= profile.linesMax, `${profile.name} takes ${profile.linesMax} lines, not ${lines.length}`);
  assert(new Set(lines.map((line) => line.ref)).size === lines.length, 'two lines have one name');
  assert(
    lines.reduce((sum, line) => sum + line.amount, 0n) === effect.amount,
    'the lines do not add up to the effect’s amount',
  );
  return {
    key,
    account: scope.account,
    amount: effect.amount,
    decimals: effect.asset.decimals,
    currency: effect.asset.code.toUpperCase(),
    payee: payee ?? first.payee,
    lines,
  };
}

export function sealTransfer(profile: Profile, scope: Scope, effect: EffectIntent): Seal {
  const facts = factsOf(profile, scope, effect);
  if (profile.key !== null) {
    // Derived keys are short by construction (M2); a profile that cannot carry them is a fault of ours, not of the transfer.
    assert(
      facts.key.length <= profile.key.charactersMax && profile.key.charset.test(facts.key),
      `${profile.name} cannot carry the key ${facts.key}`,
    );
  }
  const request = profile.request(facts);
  const payload = canonicalText({
    form: PAYLOAD_FORM,
    account: scope.account,
    baseUrl: scope.baseUrl,
    credential: scope.credentialId,
    method: request.method,
    path: request.path,
    headers: { ...request.headers, ...keyHeader(profile, facts.key) },
    key: facts.key,
    body: request.body,
  });
  return {
    identity: `bank:${profile.name}:${request.method} ${scope.baseUrl}${request.path} ${scope.account} ${scope.credentialId} ${facts.key}`,
    payload: new TextEncoder().encode(payload),
    expect: toExpect(facts),
    signer: null,
    nonce: null,
  };
}

/** The key as it leaves, quotes included: sealed, so that a later reading of the documents changes no sealed request. */
function keyHeader(profile: Profile, key: string): Record<string, string> {
  const header = keyHeaderOf(profile);
  return header === null ? {} : { [header]: profile.key?.quoted === true ? `"${key}"` : key };
}

/** The inverse of the payload. A sealed payload that does not read back is a broken invariant. */
export function readRequest(sealed: SealedEffect): SealedRequest {
  const value = parseJson(new TextDecoder().decode(sealed.seal.payload));
  const read = (name: string): string => {
    const text = textOf(field(value, name));
    assert(text !== null, `sealed request of effect ${sealed.effectId}: ${name} is missing`);
    return text;
  };
  const headers = field(value, 'headers');
  assert(read('form') === PAYLOAD_FORM && isObject(headers), `effect ${sealed.effectId} was sealed by another rail`);
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

/** What an answer must echo. */
export interface Expect {
  readonly key: string;
  readonly amount: bigint;
  readonly decimals: number;
  readonly currency: string;
  readonly bankCode: string;
  readonly accountNumber: string;
  readonly holderName: string;
  readonly lines: readonly { readonly ref: string; readonly receiver: string; readonly amount: bigint }[];
}

function toExpect(facts: TransferFacts): Json {
  return {
    key: facts.key,
    amount: facts.amount.toString(),
    decimals: String(facts.decimals),
    currency: facts.currency,
    bankCode: facts.payee.bankCode,
    accountNumber: facts.payee.accountNumber,
    holderName: facts.payee.holderName,
    lines: facts.lines.map((line) => ({
      ref: line.ref,
      receiver: line.payee.accountNumber,
      amount: line.amount.toString(),
    })),
  };
}

export function readExpect(sealed: SealedEffect): Expect {
  const value = sealed.seal.expect;
  const text = (from: Json, name: string): string => {
    const found = textOf(field(from, name));
    assert(found !== null, `sealed expectation of effect ${sealed.effectId}: ${name} is missing`);
    return found;
  };
  const units = (from: Json, name: string): bigint => {
    const found = unitsOf(field(from, name));
    assert(found !== null, `sealed expectation of effect ${sealed.effectId}: ${name} is no amount`);
    return found;
  };
  const lines = field(value, 'lines');
  assert(isArray(lines), `sealed expectation of effect ${sealed.effectId}: no lines`);
  return {
    key: text(value, 'key'),
    amount: units(value, 'amount'),
    decimals: Number(units(value, 'decimals')),
    currency: text(value, 'currency'),
    bankCode: text(value, 'bankCode'),
    accountNumber: text(value, 'accountNumber'),
    holderName: text(value, 'holderName'),
    lines: lines.map((line) => ({
      ref: text(line, 'ref'),
      receiver: text(line, 'receiver'),
      amount: units(line, 'amount'),
    })),
  };
}
