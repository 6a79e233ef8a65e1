/*
 * Goal: one intent has one identity and one text, and what cannot be asked is refused before the seal. Method: the seal and the
 * plan as they are, with everything by which a provider tells one request from another changed in turn.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EffectIntent, TradeTerms } from '../../src/engine/rail.ts';
import { TRADE_PROFILES } from '../../src/rails/escrow/index.ts';
import { ESCROW_KIND } from '../../src/rails/escrow/kind.ts';
import { planTrade } from '../../src/rails/escrow/plan.ts';
import { readExpect } from '../../src/rails/escrow/seal.ts';
import { readSealedRequest } from '../../src/rails/keyed-request.ts';
import { cancelIntent, intentOf, SCOPE, sealOf, standard } from './escrow-scene.ts';

const NOW = new Date('2030-01-02T03:04:05Z');

test('the seal is the exact request: key, body, place and credential, and no secret (req T2, req T3, req M9)', () => {
  for (const profile of TRADE_PROFILES) {
    const sealed = sealOf(profile);
    const request = readSealedRequest(ESCROW_KIND.requestForm, sealed);
    assert.match(request.key, /^[0-9a-z]{32}$/);
    assert.equal(request.headers['idempotency-key'], request.key);
    assert.deepEqual([request.method, request.path, request.credentialId], ['POST', '/v1/trades', 'cred_1']);
    assert.equal(
      request.body,
      '{"amount":"100.5","asset":"USDT","fiat":"KRW","fiat_amount":"130000","pay_by":"2030-01-02T04:04:05.000Z","price":"1300","reference":"leg_1","side":"buy"}',
    );
    assert.deepEqual(sealOf(profile).seal, sealed.seal, 'a restored intent meets the same trade');
  }
});

test('another try, payment, account, place or act has another identity and another key (req M9)', () => {
  const seals = [
    sealOf(standard),
    sealOf(standard, intentOf({}, { seq: 2 })),
    sealOf(standard, intentOf({}, { naturalKey: '5:par_13:two1:1' })),
    sealOf(standard, intentOf({}, { wallet: 'other' }), { ...SCOPE, account: 'other' }),
    sealOf(standard, intentOf(), { ...SCOPE, deployment: 'other' }),
    // Whatever its caller's key: the same here.
    sealOf(standard, cancelIntent),
  ];
  const keys = seals.map((one) => readSealedRequest(ESCROW_KIND.requestForm, one).key);
  assert.equal(new Set(keys).size, seals.length);
  const elsewhere = sealOf(standard, intentOf(), { ...SCOPE, baseUrl: 'https://other.invalid' });
  assert.notEqual(elsewhere.seal.identity, seals[0]?.seal.identity);
});

test('a cancel is a request of its own about the trade’s id, which is in its seal', () => {
  const sealed = sealOf(standard, intentOf({ act: 'cancel', tradeId: 'tr/../9' }));
  const request = readSealedRequest(ESCROW_KIND.requestForm, sealed);
  assert.deepEqual([request.path, request.body], ['/v1/trades/tr%2F..%2F9/cancel', '{}']);
  assert.equal(readExpect(sealed).tradeId, 'tr/../9');
  assert.throws(() => sealOf(standard, intentOf({ act: 'cancel', tradeId: null })), /cancels no trade/);
});

test('what cannot be asked is refused before the seal, with its reason', () => {
  const reasonOf = (trade: Partial<TradeTerms>, change: Partial<EffectIntent> = {}): string => {
    const verdict = planTrade(standard, SCOPE, NOW, intentOf(trade, change));
    return verdict.verdict === 'wait' ? `${verdict.reason} ${verdict.lasts}: ${verdict.detail}` : verdict.verdict;
  };
  assert.equal(reasonOf({}), 'ready');
  assert.equal(reasonOf({ act: 'cancel', tradeId: 'tr_9', payBy: '2029-01-01T00:00:00Z' }), 'ready');
  const { trade: _left, ...without } = intentOf();
  const bare = planTrade(standard, SCOPE, NOW, without);
  assert.equal(bare.verdict === 'wait' && bare.detail, 'it names no trade');
  const refused: readonly (readonly [Partial<TradeTerms>, Partial<EffectIntent>, RegExp])[] = [
    [{}, { wallet: 'other' }, /TRADE_REFUSED for_good: it is of account other, not lp-account/],
    [{}, { amount: 0n }, /its amount is zero or less/],
    [{ reference: '' }, {}, /its reference cannot be asked for/],
    [{ fiat: 'W' }, {}, /W is no currency/],
    [{ fiatAmount: '1.3E+5' }, {}, /its fiat amount is 1.3E\+5/],
    [{ fiatAmount: '0' }, {}, /its fiat amount is 0/],
    [{ price: '-1' }, {}, /its price is -1/],
    [{ payBy: 'soon' }, {}, /soon is no time/],
    [{ payBy: '2030-01-02T03:04:05Z' }, {}, /TRADE_TOO_LATE for_good: it had to be paid by/],
    [{ act: 'cancel' }, {}, /the trade to cancel is not known by its id/],
    [{ act: 'cancel', tradeId: '..' }, {}, /the trade to cancel is not known by its id/],
  ];
  for (const [trade, change, wanted] of refused) assert.match(reasonOf(trade, change), wanted);
});
