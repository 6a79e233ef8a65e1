/*
 * What the escrow rail's tests share: an intent that opens or cancels a trade, its seal, a trade that echoes it, and answers as
 * the rail stores them.
 */
import type { Answer, EffectIntent, Json, Observation, SealedEffect, TradeTerms } from '../../src/engine/rail.ts';
import { type AnswerBody, writeAnswer } from '../../src/rails/answer-body.ts';
import { ESCROW_KIND } from '../../src/rails/escrow/kind.ts';
import type { TradeProfile } from '../../src/rails/escrow/profile.ts';
import { readTradeAnswer } from '../../src/rails/escrow/read.ts';
import { sealTrade } from '../../src/rails/escrow/seal.ts';
import { TRADE_PROFILES } from '../../src/rails/escrow/index.ts';
import type { Scope } from '../../src/rails/keyed-request.ts';

export const SCOPE: Scope = {
  deployment: 'test',
  account: 'lp-account',
  credentialId: 'cred_1',
  baseUrl: 'https://lp.invalid',
};

export const standard = profileOf('standard');

export function profileOf(name: string): TradeProfile {
  const found = TRADE_PROFILES.find((one) => one.name === name);
  if (found === undefined) throw new Error(`no profile ${name}`);
  return found;
}

const TERMS: TradeTerms = {
  act: 'open',
  reference: 'leg_1',
  fiat: 'KRW',
  fiatAmount: '130000',
  price: '1300',
  payBy: '2030-01-02T04:04:05.000Z',
  tradeId: null,
};

export function intentOf(trade: Partial<TradeTerms> = {}, change: Partial<EffectIntent> = {}): EffectIntent {
  return {
    effectId: 7n,
    subjectType: 'p2p_leg',
    subjectId: 'leg_1',
    seq: 1,
    partnerId: 'par_1',
    naturalKey: '5:par_13:one1:1',
    rail: 'escrow:test',
    asset: { id: 'usdt', code: 'USDT', decimals: 6, chain: 'eip155:1', contract: '0x01' },
    amount: 100_500_000n,
    destination: 'trade:leg_1',
    wallet: 'lp-account',
    signer: 'lp-account',
    call: null,
    payee: null,
    trade: { ...TERMS, ...trade },
    ...change,
  };
}

export function sealOf(profile: TradeProfile, intent = intentOf(), scope = SCOPE): SealedEffect {
  return {
    ...intent,
    seal: sealTrade(profile, scope, intent),
    plan: {},
    variants: [],
    sealedAt: new Date('2030-01-02T03:04:05Z'),
  };
}

export const cancelIntent = intentOf({ act: 'cancel', tradeId: 'tr_9' }, { subjectType: 'p2p_cancel' });

/** A trade that echoes the intent. */
export function tradeIn(state: string, change: { [key: string]: Json } = {}): { [key: string]: Json } {
  return {
    id: 'tr_9',
    reference: 'leg_1',
    asset: 'USDT',
    amount: '100.5',
    fiat: 'KRW',
    fiat_amount: '130000.00',
    price: '1300',
    state,
    paid_marked_at: null,
    payment: { bank_code: '004', account_number: '110', holder_name: 'Kim' },
    released_amount: null,
    ...change,
  };
}

export interface Told {
  readonly status: number;
  readonly body: string | Json;
  readonly headers?: Readonly<Record<string, string>>;
}

export function answerTo(told: Told, about: Partial<AnswerBody> = {}): Answer {
  return {
    operation: about.look === undefined || about.look === null ? 'send' : 'look',
    source: `test ${about.look ?? 'send'}`,
    operator: 'test',
    reach: 'answer',
    status: told.status,
    variantHash: null,
    body: writeAnswer(ESCROW_KIND.answerForm, {
      look: null,
      objectId: null,
      credential: SCOPE.credentialId,
      whole: true,
      beside: [],
      pages: [
        {
          status: told.status,
          headers: told.headers ?? {},
          body: typeof told.body === 'string' ? told.body : JSON.stringify(told.body),
          cut: false,
        },
      ],
      ...about,
    }),
  };
}

export function readSend(profile: TradeProfile, sealed: SealedEffect, told: Told): Observation {
  return readTradeAnswer(profile, answerTo(told), sealed);
}

/** The trade as each way of asking shows it. */
export function readEverywhere(
  profile: TradeProfile,
  sealed: SealedEffect,
  trade: { readonly [key: string]: Json },
): readonly Observation[] {
  const look = (name: 'by_reference' | 'by_object', body: Json): Observation =>
    readTradeAnswer(
      profile,
      answerTo({ status: 200, body }, { look: name, objectId: name === 'by_object' ? 'tr_9' : null }),
      sealed,
    );
  return [
    readSend(profile, sealed, { status: 201, body: { trade } }),
    readSend(profile, sealed, { status: 200, body: trade }),
    look('by_object', { trade }),
    ...(sealed.trade?.act === 'cancel' ? [] : [look('by_reference', { trades: [trade] })]),
  ];
}
