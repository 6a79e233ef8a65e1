/**
 * Toss Payments, payouts to registered sellers (v2).
 *
 * The key's scope is key, API key, URL and method, and the body is no part of it: another body under a used key gets the
 * first answer, silently. So our key is also `refPayoutId`, which answers echo. Bodies and answers are JWE. State names and
 * which errors are replayed are not confirmed in the vendor's text (rails.md §7): no refusal code is listed, and a failed
 * payout ends nothing by itself.
 */
import type { Json } from '../../../engine/rail.ts';
import { amountOf } from '../../amount-text.ts';
import { segment } from '../../base-url.ts';
import { isArray, isObject } from '../../json.ts';
import { DAY_MS, JSON_INTEGER_MAX, LATENESS_MS_MIN } from '../limits.ts';
import type { Profile, ProviderObject } from '../profile.ts';
import { canonicalText } from '../../wire-json.ts';
import { registered } from './payees.ts';
import { at, NOTHING_SHOWN, text } from './shapes.ts';

const DOCS = 'docs.tosspayments.com/reference/using-api/authorization';
const PAGE_ITEMS = 100;

function items(body: Json): readonly Json[] | null {
  const entity = at(body, 'entityBody') ?? body;
  const list = isArray(entity) ? entity : at(entity, 'items');
  if (isArray(list)) return list;
  return text(entity, 'refPayoutId') === null ? null : [entity];
}

function toObject(item: Json): ProviderObject {
  return {
    ...NOTHING_SHOWN,
    id: text(item, 'id'),
    reference: text(item, 'refPayoutId'),
    amount: amountOf(at(item, 'amount', 'value'), 'minor'),
    currency: text(item, 'amount', 'currency'),
    accountNumber: text(item, 'destination'),
    state: text(item, 'status'),
    reason: text(item, 'error', 'message'),
  };
}

export const toss: Profile = {
  name: 'toss',
  operator: 'toss',
  key: { header: 'Idempotency-Key', bodyPath: null, quoted: false, charactersMax: 300, charset: /^[\x21-\x7E]+$/ },
  scope: ['credential', 'base_url', 'method', 'path'],
  retentionMs: 15 * DAY_MS,
  retentionCite: `${DOCS}: 15 days from first use`,
  latenessMs: LATENESS_MS_MIN,
  // Express payouts go out on weekdays in the daytime: a long weekend fits in.
  decideWithinMs: 5 * DAY_MS,
  // "Up to 60 s; set your time-out to 60 s at least" (docs.tosspayments.com/guides/payouts).
  timeoutMs: 65_000,
  sameKeyOtherBody: 'first_answer',
  replayMark: null,
  codes: [
    {
      statuses: [409],
      code: 'IDEMPOTENT_REQUEST_PROCESSING',
      means: { reads: 'in_progress', why: `still working on it (${DOCS})` },
    },
    {
      statuses: [400],
      code: 'INVALID_IDEMPOTENCY_KEY',
      means: { reads: 'blocked', why: `the key is too long (${DOCS})` },
    },
  ],
  failedKeepsKey: null,
  paidMayFail: null,
  states: {
    REQUESTED: 'accepted',
    IN_PROGRESS: 'accepted',
    COMPLETED: 'paid',
    FAILED: 'failed',
    CANCELED: 'failed',
  },
  lineStates: {},
  echoes: ['reference', 'amount', 'currency', 'accountNumber'],
  echoesKeyInErrors: false,
  keepHeaders: [],
  lookUps: [
    {
      name: 'by_reference',
      lagMs: null,
      path: () => `/v2/payouts?limit=${PAGE_ITEMS}`,
      next(page) {
        const list = items(page) ?? [];
        const last = text(list.at(-1), 'id');
        const more = at(page, 'entityBody', 'hasNext');
        if (more === false || (more === undefined && list.length < PAGE_ITEMS)) return null;
        return last === null ? 'unknown' : { path: `/v2/payouts?limit=${PAGE_ITEMS}&startingAfter=${segment(last)}` };
      },
      absent: [],
    },
    {
      name: 'by_object',
      lagMs: null,
      path: ({ objectId }) => (objectId === null ? null : `/v2/payouts/${segment(objectId)}`),
      next: () => null,
      absent: [],
    },
  ],
  lookUp: true,
  currencies: [{ code: 'KRW', decimals: 0 }],
  amountUnitsMax: JSON_INTEGER_MAX,
  linesMax: 1,
  // The memo is what the receiver's passbook shows: seven characters, and it must be there.
  payee: registered('the id of a registered seller', /^[A-Za-z0-9_-]{1,64}$/, {
    unitsMax: 7,
    unit: 'characters',
    charset: 'hangul_latin',
    required: true,
  }),
  auth: 'basic',
  encryption: 'jwe',
  request(facts) {
    return {
      method: 'POST',
      path: '/v2/payouts',
      headers: { 'content-type': 'text/plain', 'tosspayments-api-security-mode': 'ENCRYPTION' },
      body: canonicalText([
        {
          amount: { currency: facts.currency, value: facts.amount },
          destination: facts.payee.accountNumber,
          refPayoutId: facts.key,
          scheduleType: 'EXPRESS',
          transactionDescription: facts.payee.memo,
        },
      ]),
    };
  },
  objects: (body) => items(body)?.map(toObject) ?? null,
  error(body) {
    const from = isObject(at(body, 'error')) ? at(body, 'error') : body;
    const code = text(from, 'code');
    return code === null ? null : { code, message: text(from, 'message') ?? '', objectId: null, key: null };
  },
};
