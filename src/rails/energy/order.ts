/**
 * The seal of an order: the exact request, and what its answers are compared with. Pure. Built once; what leaves later is
 * read from it and never made again.
 *
 * An effect's destination names what is bought: `{receiver}:{energy}:{seconds}`. Its amount is the most that it may cost; what
 * was taken is what the order shows.
 */
import type { EffectIntent, Seal, SealedEffect } from '../../engine/rail.ts';
import { assert } from '../../kernel/errors.ts';
import { deriveRailKey } from '../../kernel/ids.ts';
import { field, parseJson, textOf, unitsOf } from '../json.ts';
import type { MarketProfile, OrderFacts } from './profile.ts';

const PAYLOAD_FORM = 'energy-order-1';

export interface Scope {
  readonly deployment: string;
  /** The account at the market that pays. */
  readonly account: string;
  readonly baseUrl: string;
}

export interface SealedOrder extends OrderFacts {
  readonly account: string;
  readonly baseUrl: string;
  readonly path: string;
  readonly body: string;
}

const DESTINATION = /^([^:\s]+):([1-9][0-9]{0,15}):([1-9][0-9]{0,9})$/;

/** What a destination names, or `null`. */
export function readDestination(
  destination: string,
): { readonly receiver: string; readonly energy: bigint; readonly durationSeconds: bigint } | null {
  const match = DESTINATION.exec(destination);
  const [receiver, energy, seconds] = match?.slice(1) ?? [];
  if (receiver === undefined || energy === undefined || seconds === undefined) return null;
  return { receiver, energy: BigInt(energy), durationSeconds: BigInt(seconds) };
}

export function sealOrder(profile: MarketProfile, scope: Scope, effect: EffectIntent): Seal {
  const bought = readDestination(effect.destination);
  assert(bought !== null, `effect ${effect.effectId} names no energy: ${effect.destination}`);
  assert(
    effect.wallet === scope.account,
    `effect ${effect.effectId} is paid by ${effect.wallet}, not ${scope.account}`,
  );
  const clientOrderId = deriveRailKey(scope.deployment, scope.account, effect.naturalKey, effect.seq);
  assert(clientOrderId.length <= profile.keyCharactersMax, `${profile.name} cannot carry ${clientOrderId}`);
  const facts: OrderFacts = { ...bought, clientOrderId };
  const expect = {
    clientOrderId,
    receiver: facts.receiver,
    energy: facts.energy.toString(),
    durationSeconds: facts.durationSeconds.toString(),
  };
  const payload = {
    form: PAYLOAD_FORM,
    account: scope.account,
    baseUrl: scope.baseUrl,
    path: profile.orderPath,
    body: profile.body(facts),
  };
  return {
    identity: `energy:${profile.name}:${scope.baseUrl} ${scope.account} ${clientOrderId}`,
    payload: new TextEncoder().encode(JSON.stringify(payload)),
    expect,
    signer: null,
    nonce: null,
  };
}

/** The inverse of the seal. What does not read back is a broken invariant. */
export function readOrder(sealed: SealedEffect): SealedOrder {
  const payload = parseJson(new TextDecoder().decode(sealed.seal.payload));
  const { expect } = sealed.seal;
  const text = (from: typeof payload, name: string): string => {
    const found = textOf(field(from, name));
    assert(found !== null, `sealed order of effect ${sealed.effectId}: ${name} is missing`);
    return found;
  };
  const units = (name: string): bigint => {
    const found = unitsOf(field(expect, name));
    assert(found !== null, `sealed order of effect ${sealed.effectId}: ${name} is no figure`);
    return found;
  };
  assert(text(payload, 'form') === PAYLOAD_FORM, `effect ${sealed.effectId} was sealed by another rail`);
  return {
    account: text(payload, 'account'),
    baseUrl: text(payload, 'baseUrl'),
    path: text(payload, 'path'),
    body: text(payload, 'body'),
    clientOrderId: text(expect, 'clientOrderId'),
    receiver: text(expect, 'receiver'),
    energy: units('energy'),
    durationSeconds: units('durationSeconds'),
  };
}
