/**
 * The contract that we ask a provider of escrowed trades to speak, and the profile that stands on it.
 *
 * `POST /v1/trades {reference, side: "buy", asset, amount, fiat, fiat_amount, price, pay_by}` with `Idempotency-Key`, amounts as
 * decimal texts: 201 and the trade. Same key and body: the same trade, with `Idempotent-Replayed: true`; another body: 409
 * `idempotency_mismatch` with `trade_id`; still working: 409 `in_progress`. Refusals are 422 with a code, and stay stored under
 * the key. Keys are kept for two days; a trade keeps its key whatever becomes of it.
 * `GET /v1/trades/{id}` and `GET /v1/trades?reference=` (a list, which may lag). `POST /v1/trades/{id}/cancel`: 200 and the trade,
 * or 409 `not_cancellable`.
 * A trade is `{id, reference, asset, amount, fiat, fiat_amount, price, state, paid_marked_at|null, payment, released_amount, …}`,
 * alone, as `trade`, or in a list (`trades`, `data`, or bare).
 */
import type { Json } from '../../../engine/rail.ts';
import { formatUnits } from '../../../kernel/money.ts';
import { amountOf } from '../../amount-text.ts';
import { segment } from '../../base-url.ts';
import { field, isArray, isObject, textOf } from '../../json.ts';
import { DAY_MS, LATENESS_MS_MIN } from '../../keyed-limits.ts';
import type { CodeRow, LookUp, ProviderError } from '../../keyed-profile.ts';
import type { ProviderRequest } from '../../keyed-request.ts';
import { canonicalText } from '../../wire-json.ts';
import type { TradeFacts, TradeLook, TradeObject, TradeProfile } from '../profile.ts';

const CONTRACT = 'the contract of this profile, in its head';
const BASE = '/v1/trades';

/** What other vocabularies keep of the contract: none of it frees anything by itself. */
export const OPEN_CODES: readonly CodeRow[] = [
  { statuses: [409], code: 'in_progress', means: { reads: 'in_progress', why: 'still working on it' } },
  {
    statuses: [409],
    code: 'idempotency_mismatch',
    means: { reads: 'key_taken', why: 'the key was used with another body' },
  },
  {
    statuses: [409],
    code: 'not_cancellable',
    means: { reads: 'in_progress', why: 'not cancelled: what becomes of it shows in the trade' },
  },
];

const stored = (code: string, why: string, worth: { final: boolean; atOnce?: string }): CodeRow => ({
  statuses: [422],
  code,
  means: { reads: 'refused', why, ...worth, storedUnderKey: CONTRACT },
});

function toTrade(item: Json): TradeObject {
  const text = (name: string): string | null => textOf(field(item, name));
  const marked = field(item, 'paid_marked_at');
  return {
    id: text('id'),
    key: null,
    reference: text('reference'),
    state: text('state'),
    asset: text('asset'),
    amount: amountOf(field(item, 'amount'), 'major'),
    fiat: text('fiat'),
    fiatAmount: amountOf(field(item, 'fiat_amount'), 'major'),
    markedPaid: marked === undefined ? 'not_shown' : marked === null ? 'never' : 'marked',
    releasedAmount: amountOf(field(item, 'released_amount'), 'major'),
  };
}

/** The trades of a success, as they stand there, or `null` where it has not the contract's shape. */
export function tradesIn(body: Json): readonly Json[] | null {
  const items = isArray(body) ? body : (field(body, 'trades') ?? field(body, 'data'));
  if (isArray(items)) return items;
  const trade = field(body, 'trade') ?? body;
  return isObject(trade) && textOf(field(trade, 'state')) !== null ? [trade] : null;
}

function toError(body: Json): ProviderError | null {
  const code = textOf(field(body, 'code'));
  const trade = field(body, 'trade');
  return code === null
    ? null
    : {
        code,
        message: textOf(field(body, 'message')) ?? '',
        objectId: textOf(field(body, 'trade_id')) ?? textOf(field(trade, 'id')),
        key: textOf(field(trade, 'reference')),
      };
}

function toRequest(facts: TradeFacts): ProviderRequest {
  const headers = { 'content-type': 'application/json', accept: 'application/json' };
  if (facts.act === 'cancel')
    return { method: 'POST', path: `${BASE}/${segment(facts.tradeId ?? '')}/cancel`, headers, body: '{}' };
  return {
    method: 'POST',
    path: BASE,
    headers,
    body: canonicalText({
      reference: facts.reference,
      side: 'buy',
      asset: facts.asset,
      amount: formatUnits(facts.amount, facts.decimals),
      fiat: facts.fiat,
      fiat_amount: facts.fiatAmount,
      price: facts.price,
      pay_by: facts.payBy,
    }),
  };
}

const LOOK_UPS: readonly LookUp<TradeLook>[] = [
  {
    name: 'by_reference',
    lagMs: null,
    // Whether a trade was cancelled is asked of that trade alone.
    path: ({ act, key }) => (act === 'open' ? `${BASE}?reference=${segment(key)}` : null),
    next: (page) => (field(page, 'has_more') === true ? 'unknown' : null),
    absent: [],
  },
  {
    name: 'by_object',
    lagMs: null,
    path: ({ objectId }) => (objectId === null ? null : `${BASE}/${segment(objectId)}`),
    next: () => null,
    absent: [{ status: 404, code: 'not_found' }],
  },
];

export const standard: TradeProfile = {
  name: 'standard',
  operator: 'standard',
  key: { header: 'Idempotency-Key', bodyPath: null, quoted: false, charactersMax: 64, charset: /^[0-9a-z]+$/ },
  scope: ['credential', 'base_url', 'method', 'path'],
  retentionMs: 2 * DAY_MS,
  retentionCite: CONTRACT,
  latenessMs: LATENESS_MS_MIN,
  decideWithinMs: DAY_MS,
  // Some providers match a counterparty before they answer; a shorter wait makes each slow success an unknown.
  timeoutMs: 40_000,
  replayMark: { header: 'idempotent-replayed', value: 'true', cite: CONTRACT },
  codes: [
    ...OPEN_CODES,
    stored('bad_request', 'the request is refused', { final: true, atOnce: CONTRACT }),
    stored('account_disabled', 'the account is refused', { final: true, atOnce: CONTRACT }),
    stored('amount_out_of_range', 'over or under a limit', { final: false }),
    stored('no_liquidity', 'nobody sells so much now', { final: false }),
    stored('market_closed', 'closed now', { final: false }),
  ],
  failedKeepsKey: CONTRACT,
  states: {
    created: 'stands',
    escrowed: 'stands',
    buyer_marked_paid: 'stands',
    releasing: 'stands',
    on_hold: 'stands',
    released: 'released',
    cancelled: 'ended',
    expired: 'ended',
    disputed: 'disputed',
    refunded: 'refunded',
  },
  echoes: ['reference', 'asset', 'amount', 'fiat', 'fiatAmount'],
  echoesKeyInErrors: false,
  keepHeaders: [],
  lookUps: LOOK_UPS,
  lookUp: true,
  auth: 'bearer',
  objects: (body) => tradesIn(body)?.map(toTrade) ?? null,
  error: toError,
  request: toRequest,
};
