/** The seal of a trade, or of its cancelling: the exact request, and what its answers are compared with. Pure. */
import type { EffectIntent, Seal, SealedEffect } from '../../engine/rail.ts';
import { assert } from '../../kernel/errors.ts';
import { deriveRailKey } from '../../kernel/ids.ts';
import { field, textOf, unitsOf } from '../json.ts';
import { type Scope, sealRequest } from '../keyed-request.ts';
import { ESCROW_KIND } from './kind.ts';
import type { TradeProfile } from './profile.ts';

export function sealTrade(profile: TradeProfile, scope: Scope, effect: EffectIntent): Seal {
  const { trade, asset, amount } = effect;
  assert(trade !== undefined, `effect ${effect.effectId} names no trade`);
  assert(effect.wallet === scope.account, `effect ${effect.effectId} is of ${effect.wallet}, not ${scope.account}`);
  const { act, reference, fiatAmount } = trade;
  const tradeId = act === 'cancel' ? trade.tradeId : null;
  assert(act === 'open' || tradeId !== null, `effect ${effect.effectId} cancels no trade`);
  const facts = {
    act,
    reference,
    tradeId,
    asset: asset.code.toUpperCase(),
    amount,
    decimals: asset.decimals,
    fiat: trade.fiat.toUpperCase(),
    fiatAmount,
    price: trade.price,
    payBy: trade.payBy,
  };
  // The act is part of it: a trade and its cancelling never share a key, whatever their callers' keys are.
  const key = deriveRailKey(scope.deployment, scope.account, `${act}:${effect.naturalKey}`, effect.seq);
  return {
    ...sealRequest(ESCROW_KIND.requestForm, profile, scope, key, profile.request(facts)),
    expect: {
      act,
      reference,
      tradeId,
      asset: facts.asset,
      amount: amount.toString(),
      decimals: String(asset.decimals),
      fiat: facts.fiat,
      fiatAmount,
    },
    signer: null,
    nonce: null,
  };
}

/** What an answer must echo. */
export interface Expect {
  readonly act: 'open' | 'cancel';
  readonly reference: string;
  /** `cancel` only. */
  readonly tradeId: string | null;
  readonly asset: string;
  readonly amount: bigint;
  readonly decimals: number;
  readonly fiat: string;
  readonly fiatAmount: string;
}

export function readExpect(sealed: SealedEffect): Expect {
  const { expect } = sealed.seal;
  const text = (name: string): string => {
    const found = textOf(field(expect, name));
    assert(found !== null, `sealed expectation of effect ${sealed.effectId}: ${name} is missing`);
    return found;
  };
  const units = (name: string): bigint => {
    const found = unitsOf(field(expect, name));
    assert(found !== null, `sealed expectation of effect ${sealed.effectId}: ${name} is no amount`);
    return found;
  };
  const act = text('act');
  assert(act === 'open' || act === 'cancel', `effect ${sealed.effectId} was sealed for ${act}`);
  return {
    act,
    reference: text('reference'),
    tradeId: textOf(field(expect, 'tradeId')),
    asset: text('asset'),
    amount: units('amount'),
    decimals: Number(units('decimals')),
    fiat: text('fiat'),
    fiatAmount: text('fiatAmount'),
  };
}
