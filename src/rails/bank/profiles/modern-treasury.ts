/**
 * Modern Treasury, payment orders by ACH.
 *
 * Keys belong to the API key and to no route: several API keys with one key each execute, and another route under the key
 * echoes the payment order. Only successes are stored; after an error the next request executes. The body is not compared,
 * so our key stands in the metadata, which answers echo.
 */
import type { Json } from '../../../engine/rail.ts';
import { amountOf } from '../../amount-text.ts';
import { segment } from '../../base-url.ts';
import { isArray, isObject } from '../../json.ts';
import { DAY_MS, JSON_INTEGER_MAX, LATENESS_MS_MIN } from '../limits.ts';
import type { CodeRow } from '../../keyed-profile.ts';
import type { Profile, ProviderObject } from '../profile.ts';
import { canonicalText } from '../../wire-json.ts';
import { ACCOUNT_DIGITS, NAME_70, ROUTING_NUMBER } from './payees.ts';
import { at, NOTHING_SHOWN, text } from './shapes.ts';

const DOCS = 'docs.moderntreasury.com/reference/idempotent-requests';
const PAGE_ITEMS = 100;

const refused = (code: string): CodeRow => ({
  statuses: [400, 422],
  code,
  means: { reads: 'refused', why: 'the request is refused', final: true },
});

function toObject(item: Json): ProviderObject {
  const back = at(item, 'current_return');
  return {
    ...NOTHING_SHOWN,
    id: text(item, 'id'),
    reference: text(item, 'metadata', 'payonce_key'),
    amount: amountOf(at(item, 'amount'), 'minor'),
    currency: text(item, 'currency'),
    state: text(item, 'status'),
    reason: text(back, 'reason') ?? text(back, 'code'),
    returns: isObject(back)
      ? [
          {
            id: text(back, 'id') ?? `${text(item, 'id') ?? ''}:returned`,
            amount: amountOf(at(back, 'amount'), 'minor'),
            reason: text(back, 'code'),
          },
        ]
      : [],
  };
}

export const modernTreasury: Profile = {
  name: 'modern-treasury',
  operator: 'modern-treasury',
  key: { header: 'Idempotency-Key', bodyPath: null, quoted: false, charactersMax: 255, charset: /^[A-Za-z0-9-]+$/ },
  scope: ['credential', 'base_url'],
  retentionMs: DAY_MS,
  retentionCite: `${DOCS}: 24 h`,
  latenessMs: LATENESS_MS_MIN,
  decideWithinMs: 8 * DAY_MS,
  timeoutMs: 30_000,
  sameKeyOtherBody: 'first_answer',
  replayMark: null,
  codes: [
    // The one meaning that this provider gives to 409.
    { statuses: [409], code: '*', means: { reads: 'in_progress', why: `still working on it (${DOCS})` } },
    ...['parameter_invalid', 'parameter_missing'].map(refused),
  ],
  failedKeepsKey: `${DOCS}: the answer that made it is echoed for the key's whole life`,
  paidMayFail: null,
  states: {
    needs_approval: 'open',
    held: 'open',
    approved: 'accepted',
    pending: 'accepted',
    processing: 'accepted',
    sent: 'accepted',
    completed: 'paid',
    denied: 'failed',
    failed: 'failed',
    cancelled: 'failed',
    returned: 'returned',
    reversed: 'returned',
  },
  lineStates: {},
  echoes: ['reference', 'amount', 'currency'],
  echoesKeyInErrors: false,
  keepHeaders: [],
  lookUps: [
    {
      name: 'by_reference',
      lagMs: null,
      path: ({ key }) =>
        `/api/payment_orders?${new URLSearchParams({ 'metadata[payonce_key]': key, per_page: String(PAGE_ITEMS) }).toString()}`,
      // Its cursor is in a header, and the filter makes one page of it; a full one was not filtered.
      next: (page) => (isArray(page) && page.length < PAGE_ITEMS ? null : 'unknown'),
      absent: [],
    },
    {
      name: 'by_object',
      lagMs: null,
      path: ({ objectId }) => (objectId === null ? null : `/api/payment_orders/${segment(objectId)}`),
      next: () => null,
      absent: [{ status: 404, code: 'resource_not_found' }],
    },
  ],
  lookUp: true,
  currencies: [{ code: 'USD', decimals: 2 }],
  amountUnitsMax: JSON_INTEGER_MAX,
  linesMax: 1,
  payee: {
    account: { ...ACCOUNT_DIGITS, pattern: /^[0-9]{1,17}$/, what: 'an account number of at most 17 digits, as text' },
    bank: ROUTING_NUMBER,
    holderName: { ...NAME_70, charset: 'latin' },
    // What an ACH entry's description carries.
    memo: { unitsMax: 10, unit: 'characters', charset: 'latin', required: false },
  },
  auth: 'basic',
  encryption: 'none',
  request(facts) {
    const { payee } = facts;
    return {
      method: 'POST',
      path: '/api/payment_orders',
      headers: { 'content-type': 'application/json' },
      body: canonicalText({
        amount: facts.amount,
        currency: facts.currency,
        direction: 'credit',
        metadata: { payonce_key: facts.key },
        originating_account_id: facts.account,
        receiving_account: {
          account_details: [{ account_number: payee.accountNumber }],
          party_name: payee.holderName,
          routing_details: [{ routing_number: payee.bankCode, routing_number_type: 'aba' }],
        },
        statement_descriptor: payee.memo === '' ? undefined : payee.memo,
        type: 'ach',
      }),
    };
  },
  objects(body) {
    if (isArray(body)) return body.map(toObject);
    return text(body, 'object') === 'payment_order' || (text(body, 'id') !== null && text(body, 'status') !== null)
      ? [toObject(body)]
      : null;
  },
  error(body) {
    const errors = at(body, 'errors');
    const code = text(errors, 'code');
    return code === null ? null : { code, message: text(errors, 'message') ?? '', objectId: null, key: null };
  },
};
