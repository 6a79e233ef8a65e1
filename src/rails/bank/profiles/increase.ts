/**
 * Increase, ACH credits.
 *
 * The only true look-up by key (rails.md §1.4), and "at most one object is created per key". There is no "completed":
 * `submitted` is the best there is, and returns follow within days. How long a key is remembered is not said, so re-sending
 * stops as early as with the shortest providers; which checks come before the key is not said either.
 */
import type { Json } from '../../../engine/rail.ts';
import { amountOf } from '../../amount-text.ts';
import { segment } from '../../base-url.ts';
import { isArray, isObject } from '../../json.ts';
import { DAY_MS, JSON_INTEGER_MAX, LATENESS_MS_MIN } from '../limits.ts';
import type { CodeRow } from '../../keyed-profile.ts';
import type { Profile, ProviderObject } from '../profile.ts';
import { canonicalText } from '../../wire-json.ts';
import { ACCOUNT_DIGITS, ROUTING_NUMBER } from './payees.ts';
import { at, NOTHING_SHOWN, text } from './shapes.ts';

const KEYS = 'increase.com/documentation/idempotency-keys';
const ERRORS = 'increase.com/documentation/errors';

const atOnce = (status: number, code: string): CodeRow => ({
  statuses: [status],
  code,
  means: { reads: 'refused', why: 'the request is refused', final: true, atOnce: ERRORS },
});

function toObject(item: Json): ProviderObject {
  const back = at(item, 'return');
  return {
    ...NOTHING_SHOWN,
    id: text(item, 'id'),
    key: text(item, 'idempotency_key'),
    amount: amountOf(at(item, 'amount'), 'minor'),
    currency: text(item, 'currency'),
    bankCode: text(item, 'routing_number'),
    accountNumber: text(item, 'account_number'),
    state: text(item, 'status'),
    reason: text(back, 'return_reason_code') ?? text(item, 'rejection', 'reject_reason_code'),
    returns: isObject(back)
      ? [
          {
            id: text(back, 'transaction_id') ?? text(back, 'transfer_id') ?? `${text(item, 'id') ?? ''}:returned`,
            amount: null,
            reason: text(back, 'return_reason_code'),
          },
        ]
      : [],
  };
}

export const increase: Profile = {
  name: 'increase',
  operator: 'increase',
  key: { header: 'Idempotency-Key', bodyPath: null, quoted: false, charactersMax: 200, charset: /^[\x21-\x7E]+$/ },
  scope: ['credential', 'base_url', 'method', 'path'],
  retentionMs: DAY_MS,
  retentionCite: 'none stated: the shortest that is common',
  latenessMs: LATENESS_MS_MIN,
  decideWithinMs: 4 * DAY_MS,
  timeoutMs: 20_000,
  sameKeyOtherBody: 'error',
  replayMark: { header: 'idempotent-replayed', value: 'true', cite: KEYS },
  codes: [
    {
      statuses: [409],
      code: 'idempotency_key_already_used_error',
      means: { reads: 'key_taken', why: `another body made the object named in resource_id (${KEYS})` },
    },
    atOnce(400, 'invalid_parameters_error'),
    atOnce(400, 'malformed_request_error'),
    {
      statuses: [409, 400],
      code: 'invalid_operation_error',
      means: { reads: 'refused', why: 'not possible now', final: false },
    },
  ],
  failedKeepsKey: `${KEYS}: "at most one object is created per key"`,
  paidMayFail: null,
  states: {
    pending_approval: 'open',
    pending_transfer_session_confirmation: 'open',
    requires_attention: 'open',
    pending_submission: 'accepted',
    pending_reviewing: 'accepted',
    submitted: 'paid',
    canceled: 'failed',
    rejected: 'failed',
    returned: 'returned',
  },
  lineStates: {},
  echoes: ['key', 'amount', 'currency', 'bankCode', 'accountNumber'],
  echoesKeyInErrors: false,
  keepHeaders: [],
  lookUps: [
    {
      name: 'by_key',
      lagMs: null,
      path: ({ key }) => `/ach_transfers?idempotency_key=${segment(key)}`,
      next: (page) => (text(page, 'next_cursor') === null ? null : 'unknown'),
      absent: [],
    },
    {
      name: 'by_object',
      lagMs: null,
      path: ({ objectId }) => (objectId === null ? null : `/ach_transfers/${segment(objectId)}`),
      next: () => null,
      absent: [{ status: 404, code: 'object_not_found_error' }],
    },
  ],
  lookUp: true,
  currencies: [{ code: 'USD', decimals: 2 }],
  amountUnitsMax: JSON_INTEGER_MAX,
  linesMax: 1,
  payee: {
    account: { ...ACCOUNT_DIGITS, pattern: /^[0-9]{1,17}$/, what: 'an account number of at most 17 digits, as text' },
    bank: ROUTING_NUMBER,
    holderName: { unitsMax: 22, unit: 'characters', charset: 'latin', required: true },
    memo: { unitsMax: 200, unit: 'characters', charset: 'latin', required: true },
  },
  auth: 'bearer',
  encryption: 'none',
  request(facts) {
    return {
      method: 'POST',
      path: '/ach_transfers',
      headers: { 'content-type': 'application/json' },
      body: canonicalText({
        account_id: facts.account,
        account_number: facts.payee.accountNumber,
        amount: facts.amount,
        individual_name: facts.payee.holderName,
        routing_number: facts.payee.bankCode,
        statement_descriptor: facts.payee.memo,
      }),
    };
  },
  objects(body) {
    const list = at(body, 'data');
    if (isArray(list)) return list.map(toObject);
    return text(body, 'type') === 'ach_transfer' || (text(body, 'id') !== null && text(body, 'status') !== null)
      ? [toObject(body)]
      : null;
  },
  error(body) {
    const code = text(body, 'type');
    if (code === null) return null;
    return {
      code,
      message: text(body, 'detail') ?? text(body, 'title') ?? '',
      objectId: text(body, 'resource_id'),
      key: null,
    };
  },
};
