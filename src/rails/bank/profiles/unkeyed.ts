/**
 * A provider without idempotency keys (B15, T15): the same request twice is two payments, so nothing is ever sent again after
 * an unknown, and a person is the way out. The reference in the body is for look-ups, where a hit is a yes and a miss nothing.
 *
 * Wire: `POST /transfers` with `{reference, bankCode, accountNumber, holderName, amount: "1000", currency, memo?}`; answers are
 * that object with `transferId`, `status`, `failureReason` and `returns [{returnId, amount, fee?, reason}]`, where `amount` is
 * what came back after `fee` was kept. Look-ups: `GET /transfers?reference=` (a list in `transfers`) and
 * `GET /transfers/{transferId}`. Refusals are `{code, message}` with a code of this profile. Its header is `X-Api-Key`.
 */
import type { Json } from '../../../engine/rail.ts';
import { formatUnits } from '../../../kernel/money.ts';
import { amountOf } from '../../amount-text.ts';
import { segment } from '../../base-url.ts';
import { isArray } from '../../json.ts';
import { DAY_MS, LATENESS_MS_MIN } from '../limits.ts';
import type { CodeRow } from '../../keyed-profile.ts';
import type { Profile, ProviderObject } from '../profile.ts';
import { canonicalText } from '../../wire-json.ts';
import { KOREAN_PAYEE } from './payees.ts';
import { at, bareDigits, NOTHING_SHOWN, text } from './shapes.ts';

const BASE = '/transfers';
const CONTRACT = 'the contract of this profile, in its head';

const atOnce = (code: string, why: string): CodeRow => ({
  statuses: [400],
  code,
  means: { reads: 'refused', why, final: true, atOnce: CONTRACT },
});
const forNow = (code: string, why: string): CodeRow => ({
  statuses: [400],
  code,
  means: { reads: 'refused', why, final: false },
});

function toObject(item: Json): ProviderObject {
  const returns = at(item, 'returns');
  return {
    ...NOTHING_SHOWN,
    id: text(item, 'transferId'),
    reference: text(item, 'reference'),
    amount: amountOf(at(item, 'amount'), 'major'),
    currency: text(item, 'currency'),
    bankCode: text(item, 'bankCode'),
    accountNumber: text(item, 'accountNumber'),
    holderName: text(item, 'holderName'),
    state: text(item, 'status'),
    reason: text(item, 'failureReason'),
    returns: isArray(returns)
      ? returns.map((one, index) => ({
          id: text(one, 'returnId') ?? `${text(item, 'transferId') ?? ''}:return:${index + 1}`,
          amount: amountOf(at(one, 'amount'), 'major'),
          fee: amountOf(at(one, 'fee'), 'major'),
          reason: text(one, 'reason'),
        }))
      : [],
  };
}

export const unkeyed: Profile = {
  name: 'unkeyed',
  operator: 'unkeyed',
  key: null,
  scope: ['credential', 'base_url', 'method', 'path'],
  retentionMs: null,
  retentionCite: 'there is no key',
  latenessMs: LATENESS_MS_MIN,
  decideWithinMs: DAY_MS,
  timeoutMs: 10_000,
  sameKeyOtherBody: 'unknown',
  replayMark: null,
  codes: [
    atOnce('E0001', 'the request is refused'),
    atOnce('E2001', 'no such account'),
    atOnce('E2002', 'the account is closed'),
    forNow('E1001', 'not enough money at the provider'),
    forNow('E1002', 'over a limit'),
    forNow('E1003', 'it looks like another payment'),
    forNow('E3001', 'closed now'),
    {
      statuses: [409],
      code: 'E1010',
      means: { reads: 'in_progress', why: 'a transfer with this reference is being processed' },
    },
  ],
  failedKeepsKey: null,
  paidMayFail: null,
  states: { ACCEPTED: 'accepted', SENT: 'accepted', COMPLETED: 'paid', FAILED: 'failed', RETURNED: 'returned' },
  lineStates: {},
  echoes: ['reference', 'amount', 'currency', 'bankCode', 'accountNumber'],
  echoesKeyInErrors: false,
  keepHeaders: [],
  lookUps: [
    {
      name: 'by_reference',
      lagMs: null,
      path: ({ key }) => `${BASE}?reference=${segment(key)}`,
      next: () => null,
      absent: [],
    },
    {
      name: 'by_object',
      lagMs: null,
      path: ({ objectId }) => (objectId === null ? null : `${BASE}/${segment(objectId)}`),
      next: () => null,
      absent: [{ status: 404, code: 'E0404' }],
    },
  ],
  lookUp: true,
  currencies: null,
  amountUnitsMax: null,
  linesMax: 1,
  payee: KOREAN_PAYEE,
  auth: 'x_api_key',
  encryption: 'none',
  request(facts) {
    const { payee } = facts;
    return {
      method: 'POST',
      path: BASE,
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: canonicalText({
        accountNumber: bareDigits(payee.accountNumber),
        amount: formatUnits(facts.amount, facts.decimals),
        bankCode: payee.bankCode,
        currency: facts.currency,
        holderName: payee.holderName,
        ...(payee.memo === '' ? {} : { memo: payee.memo }),
        reference: facts.key,
      }),
    };
  },
  objects(body) {
    const list = at(body, 'transfers');
    if (isArray(list)) return list.map(toObject);
    return text(body, 'transferId') === null ? null : [toObject(body)];
  },
  error(body) {
    const code = text(body, 'code');
    return code === null ? null : { code, message: text(body, 'message') ?? '', objectId: null, key: null };
  },
};
