/**
 * Stripe v1, payouts to an external account.
 *
 * The one provider that documents its order of checks: rate limit, authentication and parameters come before the key; once
 * execution began, status and body are stored, refusals and 500 included, and a replay bears a mark. What is stored is read
 * from that mark alone. A payout that shows `paid` may still become `failed`: then the money came back.
 */
import type { Json } from '../../../engine/rail.ts';
import { amountOf } from '../../amount-text.ts';
import { segment } from '../../base-url.ts';
import { isArray } from '../../json.ts';
import { DAY_MS, JSON_INTEGER_MAX, LATENESS_MS_MIN } from '../limits.ts';
import type { CodeRow } from '../../keyed-profile.ts';
import type { Profile, ProviderObject } from '../profile.ts';
import { formText } from '../../wire-json.ts';
import { registered } from './payees.ts';
import { at, NOTHING_SHOWN, text } from './shapes.ts';

const IDEMPOTENCY = 'docs.stripe.com/api/idempotent_requests';
const LOW_LEVEL = 'docs.stripe.com/error-low-level';
const CODES = 'docs.stripe.com/error-codes';
const PAGE_ITEMS = 100;
/** Payouts made before the seal are not ours; a list begins a little earlier, for clocks. */
const CLOCK_MS = 60 * 60_000;

const atOnce = (code: string): CodeRow => ({
  statuses: [400, 404],
  code,
  means: { reads: 'refused', why: 'the request is refused', final: true, atOnce: CODES },
});

function toObject(item: Json): ProviderObject {
  return {
    ...NOTHING_SHOWN,
    id: text(item, 'id'),
    reference: text(item, 'metadata', 'payonce_key'),
    amount: amountOf(at(item, 'amount'), 'minor'),
    currency: text(item, 'currency'),
    accountNumber: text(item, 'destination'),
    state: text(item, 'status'),
    reason: text(item, 'failure_message') ?? text(item, 'failure_code'),
  };
}

function listPath(sealedAt: Date, after: string | null): string {
  const since = Math.floor((sealedAt.getTime() - CLOCK_MS) / 1_000);
  const query = new URLSearchParams({ 'created[gte]': String(since), limit: String(PAGE_ITEMS) });
  if (after !== null) query.set('starting_after', after);
  return `/v1/payouts?${query.toString()}`;
}

export const stripe: Profile = {
  name: 'stripe',
  operator: 'stripe',
  key: { header: 'Idempotency-Key', bodyPath: null, quoted: false, charactersMax: 255, charset: /^[\x21-\x7E]+$/ },
  // The text says "account"; the key that is configured belongs to one, and a rotation may change it.
  scope: ['credential', 'base_url', 'method', 'path'],
  retentionMs: DAY_MS,
  retentionCite: `${IDEMPOTENCY}: may be removed after at least 24 h; then a new request`,
  latenessMs: LATENESS_MS_MIN,
  // "Within 5 business days" it is paid, failed or cancelled.
  decideWithinMs: 8 * DAY_MS,
  timeoutMs: 30_000,
  sameKeyOtherBody: 'error',
  replayMark: { header: 'idempotent-replayed', value: 'true', cite: LOW_LEVEL },
  codes: [
    {
      statuses: [400, 409],
      code: 'idempotency_key_in_use',
      means: { reads: 'in_progress', why: `still working on it (${CODES})` },
    },
    { statuses: [409], code: 'lock_timeout', means: { reads: 'in_progress', why: `somebody works on it (${CODES})` } },
    // Matched by type: the status differs from page to page of the documents.
    {
      statuses: [400, 404],
      code: 'idempotency_error',
      means: { reads: 'key_taken', why: `the key was used with other parameters (${IDEMPOTENCY})` },
    },
    {
      statuses: [409],
      code: 'idempotency_error',
      means: { reads: 'in_progress', why: `409 is a concurrent request (${IDEMPOTENCY})` },
    },
    {
      statuses: [400, 402],
      code: 'balance_insufficient',
      means: {
        reads: 'refused',
        why: 'not enough money at the provider',
        final: false,
        afterKeyCheck: `${IDEMPOTENCY}: saved once execution began; the balance is looked at in execution`,
      },
    },
    ...[
      'parameter_invalid_integer',
      'parameter_invalid_string_blank',
      'parameter_invalid_string_empty',
      'parameter_missing',
      'parameter_unknown',
      'resource_missing',
    ].map(atOnce),
    {
      statuses: [400],
      code: 'payouts_not_allowed',
      means: { reads: 'refused', why: 'payouts are switched off for this account', final: false },
    },
    {
      statuses: [400],
      code: 'payouts_limit_exceeded',
      means: { reads: 'refused', why: 'over the daily limit', final: false },
    },
  ],
  failedKeepsKey: `${IDEMPOTENCY}: the first answer is saved, so the key stays with that payout`,
  paidMayFail: 'docs.stripe.com/api/payouts/object: "might initially show as paid, then change to failed"',
  states: { pending: 'accepted', in_transit: 'accepted', paid: 'paid', failed: 'failed', canceled: 'failed' },
  lineStates: {},
  echoes: ['reference', 'amount', 'currency', 'accountNumber'],
  echoesKeyInErrors: false,
  keepHeaders: [],
  lookUps: [
    {
      name: 'by_reference',
      lagMs: null,
      path: ({ sealedAt }) => listPath(sealedAt, null),
      next(page, { sealedAt }) {
        const list = at(page, 'data');
        const last = isArray(list) ? text(list.at(-1), 'id') : null;
        if (at(page, 'has_more') === false) return null;
        return at(page, 'has_more') === true && last !== null ? { path: listPath(sealedAt, last) } : 'unknown';
      },
      absent: [],
    },
    {
      name: 'by_object',
      lagMs: null,
      path: ({ objectId }) => (objectId === null ? null : `/v1/payouts/${segment(objectId)}`),
      next: () => null,
      absent: [{ status: 404, code: 'resource_missing' }],
    },
  ],
  lookUp: true,
  currencies: null,
  amountUnitsMax: JSON_INTEGER_MAX,
  linesMax: 1,
  payee: registered('the id of an external account, such as ba_…', /^[A-Za-z0-9_-]{1,64}$/, {
    unitsMax: 22,
    unit: 'characters',
    charset: 'latin',
    required: false,
  }),
  auth: 'bearer',
  encryption: 'none',
  request(facts) {
    return {
      method: 'POST',
      path: '/v1/payouts',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: formText({
        amount: facts.amount.toString(),
        currency: facts.currency.toLowerCase(),
        destination: facts.payee.accountNumber,
        'metadata[payonce_key]': facts.key,
        ...(facts.payee.memo === '' ? {} : { statement_descriptor: facts.payee.memo }),
      }),
    };
  },
  objects(body) {
    const list = at(body, 'data');
    if (isArray(list)) return list.map(toObject);
    return text(body, 'object') === 'payout' ? [toObject(body)] : null;
  },
  error(body) {
    const error = at(body, 'error');
    const code = text(error, 'code') ?? text(error, 'type');
    return code === null ? null : { code, message: text(error, 'message') ?? '', objectId: null, key: null };
  },
};
