/**
 * What the kit sends: the rail's own sealed requests, and those that the rail would never send, built here and nowhere else
 * (another body under a used key, the same JSON in another order, a used key on another path or under another credential).
 */
import type { BankPayee, EffectIntent, SealedEffect } from '../../../engine/rail.ts';
import { assert } from '../../../kernel/errors.ts';
import { isObject, parseJson } from '../../json.ts';
import type { Profile } from '../profile.ts';
import type { Scope } from '../../keyed-request.ts';
import { readRequest, sealTransfer } from '../seal.ts';

/** How a request differs from the plain one under the same key. */
export interface Change {
  readonly amount?: bigint;
  readonly payee?: BankPayee;
  /** The same content, its names in another order. */
  readonly reordered?: true;
  readonly path?: string;
}

export interface Plain {
  readonly profile: Profile;
  readonly scope: Scope;
  readonly asset: { readonly code: string; readonly decimals: number };
  readonly amount: bigint;
  readonly payee: BankPayee;
  /** What the key is derived from. */
  readonly naturalKey: string;
  readonly sealedAt: Date;
}

export function sealedRequest(plain: Plain, change: Change = {}): SealedEffect {
  const { scope, asset } = plain;
  const payee = change.payee ?? plain.payee;
  const effect: EffectIntent = {
    effectId: 0n,
    subjectType: 'probe',
    subjectId: plain.naturalKey,
    seq: 1,
    partnerId: 'probe',
    naturalKey: plain.naturalKey,
    rail: 'bank:probe',
    asset: { id: 'probe', code: asset.code, decimals: asset.decimals, chain: 'bank:probe', contract: null },
    amount: change.amount ?? plain.amount,
    destination: `${payee.bankCode}:${payee.accountNumber}`,
    wallet: scope.account,
    signer: scope.account,
    call: null,
    payee,
  };
  const seal = sealTransfer(elsewhere(plain.profile, change.path), scope, effect);
  const sealed: SealedEffect = { ...effect, seal, plan: {}, variants: [], sealedAt: plain.sealedAt };
  return change.reordered === true ? reordered(sealed) : sealed;
}

function elsewhere(profile: Profile, path: string | undefined): Profile {
  return path === undefined ? profile : { ...profile, request: (facts) => ({ ...profile.request(facts), path }) };
}

function reordered(sealed: SealedEffect): SealedEffect {
  const payload = parseJson(new TextDecoder().decode(sealed.seal.payload));
  assert(isObject(payload), 'a seal that does not read back');
  const body = reorderedText(readRequest(sealed).body);
  const text = JSON.stringify({ ...payload, body });
  return { ...sealed, seal: { ...sealed.seal, payload: new TextEncoder().encode(text) } };
}

/** JSON with the names of every object backwards, or a form's fields backwards. Figures stay as they were written. */
export function reorderedText(body: string): string {
  if (!/^\s*[[{]/.test(body)) return body.split('&').reverse().join('&');
  const written: unknown = JSON.parse(
    body,
    (_name: string, value: unknown, context?: { readonly source?: string }): unknown =>
      typeof value === 'number' ? new Figure(context?.source ?? String(value)) : value,
  );
  return backwards(written);
}

class Figure {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

function backwards(value: unknown): string {
  if (value instanceof Figure) return value.text;
  if (Array.isArray(value)) return `[${value.map(backwards).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  return `{${Object.entries(value)
    .reverse()
    .map(([name, member]) => `${JSON.stringify(name)}:${backwards(member)}`)
    .join(',')}}`;
}
