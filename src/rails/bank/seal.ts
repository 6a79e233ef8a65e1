/** The seal of a bank transfer: the exact request (`keyed-request.ts`), and what its answers are compared with. Pure. */
import type { BankLine, EffectIntent, Json, Seal, SealedEffect } from '../../engine/rail.ts';
import { assert } from '../../kernel/errors.ts';
import { deriveRailKey } from '../../kernel/ids.ts';
import { field, isArray, textOf, unitsOf } from '../json.ts';
import { readSealedRequest, type Scope, type SealedRequest, sealRequest } from '../keyed-request.ts';
import { BANK_KIND } from './kind.ts';
import type { Profile, TransferFacts } from './profile.ts';

/** A batch's lines, or the one of a single transfer, under `ref`. Lines of a chain are none of a bank's. */
export function bankLines(effect: EffectIntent, ref: string): readonly BankLine[] {
  const { lines, payee, amount } = effect;
  if (lines === undefined) return payee === null ? [] : [{ ref, payee, amount }];
  const ours = lines.flatMap((line) => ('payee' in line ? [line] : []));
  assert(ours.length === lines.length, `effect ${effect.effectId} has lines that no bank can pay`);
  return ours;
}

export function factsOf(profile: Profile, scope: Scope, effect: EffectIntent): TransferFacts {
  const key = deriveRailKey(scope.deployment, scope.account, effect.naturalKey, effect.seq);
  const { payee } = effect;
  const lines = bankLines(effect, key);
  const first = lines[0];
  assert(first !== undefined, `effect ${effect.effectId} names nobody to pay`);
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
  return {
    ...sealRequest(BANK_KIND.requestForm, profile, scope, facts.key, profile.request(facts)),
    expect: toExpect(facts),
    signer: null,
    nonce: null,
  };
}

export function readRequest(sealed: SealedEffect): SealedRequest {
  return readSealedRequest(BANK_KIND.requestForm, sealed);
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
