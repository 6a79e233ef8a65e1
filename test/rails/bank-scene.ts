/*
 * What the bank rail's tests share: a payee and an intent that each profile can carry, its seal, and answers as the rail
 * stores them. The bodies are written from the providers' documents (rails.md §1), with our key and amounts put in.
 */
import type { Answer, BankPayee, EffectIntent, Json, Observation, SealedEffect } from '../../src/engine/rail.ts';
import { type AnswerBody, writeAnswer } from '../../src/rails/answer-body.ts';
import type { Profile, TransferLook } from '../../src/rails/bank/profile.ts';
import type { LookUp } from '../../src/rails/keyed-profile.ts';
import type { Scope } from '../../src/rails/keyed-request.ts';
import { BANK_KIND } from '../../src/rails/bank/kind.ts';
import { readBankAnswer } from '../../src/rails/bank/read.ts';
import { readExpect, sealTransfer } from '../../src/rails/bank/seal.ts';

export const SCOPE: Scope = {
  deployment: 'test',
  account: 'acc_1',
  credentialId: 'cred_1',
  baseUrl: 'https://bank.invalid',
};

const PAYEES: Readonly<Record<string, BankPayee>> = {
  toss: { bankCode: 'seller', accountNumber: 'sel_a1', holderName: '김토스', memo: '정산금' },
  stripe: { bankCode: 'external', accountNumber: 'ba_1', holderName: 'Ian Crease', memo: 'PAYONCE' },
  increase: { bankCode: '101050001', accountNumber: '0987654321', holderName: 'Ian Crease', memo: 'payout' },
  'modern-treasury': { bankCode: '101050001', accountNumber: '0987654321', holderName: 'Ian Crease', memo: '' },
  'paypal-payouts': { bankCode: 'paypal', accountNumber: 'a@example.invalid', holderName: 'Ian Crease', memo: '' },
};
const DEFAULT_PAYEE: BankPayee = { bankCode: '004', accountNumber: '110-123-0456', holderName: '홍길동', memo: '급여' };

const DOLLARS = new Set(['stripe', 'increase', 'modern-treasury', 'paypal-payouts']);

export function intentFor(profile: Profile, change: Partial<EffectIntent> = {}): EffectIntent {
  const payee = PAYEES[profile.name] ?? DEFAULT_PAYEE;
  const dollars = DOLLARS.has(profile.name);
  return {
    effectId: 7n,
    subjectType: 'transfer',
    subjectId: 'tr_1',
    seq: 1,
    partnerId: 'par_1',
    naturalKey: '5:par_13:one',
    rail: 'bank:test',
    asset: {
      id: 'fiat',
      code: dollars ? 'USD' : 'KRW',
      decimals: dollars ? 2 : 0,
      chain: 'bank:test',
      contract: null,
    },
    amount: 12_500n,
    destination: `${payee.bankCode}:${payee.accountNumber}`,
    wallet: 'acc_1',
    signer: 'acc_1',
    call: null,
    payee,
    ...change,
  };
}

export function sealFor(profile: Profile, change: Partial<EffectIntent> = {}, scope: Scope = SCOPE): SealedEffect {
  const intent = intentFor(profile, change);
  return {
    ...intent,
    seal: sealTransfer(profile, scope, intent),
    plan: {},
    variants: [],
    sealedAt: new Date('2030-01-02T03:04:05Z'),
  };
}

export function keyOf(sealed: SealedEffect): string {
  return readExpect(sealed).key;
}

export interface Told {
  readonly status: number;
  readonly body: string | Json;
  readonly headers?: Readonly<Record<string, string>>;
}

export function answerTo(
  told: Told | readonly Told[],
  about: {
    look?: LookUp<TransferLook>['name'];
    objectId?: string;
    whole?: boolean;
    credential?: string;
    beside?: AnswerBody['beside'];
  } = {},
): Answer {
  const pages = 'status' in told ? [told] : told;
  return {
    operation: about.look === undefined ? 'send' : 'look',
    source: `test ${about.look ?? 'send'}`,
    operator: 'test',
    reach: 'answer',
    status: pages.at(-1)?.status ?? null,
    variantHash: null,
    body: writeAnswer(BANK_KIND.answerForm, {
      look: about.look ?? null,
      objectId: about.objectId ?? null,
      credential: about.credential ?? SCOPE.credentialId,
      whole: about.whole ?? true,
      beside: about.beside ?? [],
      pages: pages.map((page) => ({
        status: page.status,
        headers: page.headers ?? {},
        body: typeof page.body === 'string' ? page.body : JSON.stringify(page.body),
        cut: false,
      })),
    }),
  };
}

export function readSend(profile: Profile, sealed: SealedEffect, told: Told): Observation {
  return readBankAnswer(profile, answerTo(told), sealed);
}

/** An object of the profile that echoes our seal, in this state; `change` replaces top-level members. */
export function objectOf(
  profile: Profile,
  sealed: SealedEffect,
  state: string,
  change: { [key: string]: Json } = {},
): { [key: string]: Json } {
  const key = keyOf(sealed);
  const { payee } = sealed;
  switch (profile.name) {
    case 'toss':
      return {
        id: 'FPA_1',
        refPayoutId: key,
        destination: 'sel_a1',
        scheduleType: 'EXPRESS',
        amount: { currency: 'KRW', value: 12500 },
        status: state,
        error: null,
        ...change,
      };
    case 'stripe':
      return {
        id: 'po_1',
        object: 'payout',
        amount: 12500,
        currency: 'usd',
        destination: 'ba_1',
        metadata: { payonce_key: key },
        status: state,
        failure_code: null,
        failure_message: null,
        ...change,
      };
    case 'increase':
      return {
        id: 'ach_transfer_1',
        type: 'ach_transfer',
        idempotency_key: key,
        amount: 12500,
        currency: 'USD',
        account_number: '0987654321',
        routing_number: '101050001',
        status: state,
        return: null,
        ...change,
      };
    case 'modern-treasury':
      return {
        id: '0f0f-1',
        object: 'payment_order',
        amount: 12500,
        currency: 'USD',
        direction: 'credit',
        metadata: { payonce_key: key },
        status: state,
        current_return: null,
        ...change,
      };
    case 'paypal-payouts':
      return {
        batch_header: {
          payout_batch_id: 'BATCH1',
          batch_status: state,
          sender_batch_header: { sender_batch_id: key },
        },
        ...change,
      };
    case 'unkeyed':
      return {
        transferId: 'tr_9',
        reference: key,
        amount: '12500',
        currency: 'KRW',
        bankCode: payee?.bankCode ?? '',
        accountNumber: payee?.accountNumber ?? '',
        status: state,
        ...change,
      };
    default:
      return {
        id: 'tr_9',
        reference: key,
        amount: { currency: 'KRW', value: '12500' },
        creditor: { bank_code: payee?.bankCode ?? '', account_number: payee?.accountNumber ?? '' },
        status: state,
        ...change,
      };
  }
}

/** As the provider wraps it in the answer to a send. */
export function wrap(profile: Profile, object: Json): Json {
  return profile.name === 'toss'
    ? { version: '2022-11-16', traceId: 't', entityType: 'payouts', entityBody: { items: [object] } }
    : object;
}
