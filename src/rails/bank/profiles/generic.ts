/**
 * A server that follows the IETF draft on `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header) and nothing more
 * particular, for providers that have no profile of their own yet.
 *
 * Wire: `POST /transfers` with `{account, account_number, amount, bank_code, currency, holder_name, memo, reference}`, the
 * amount as decimal text; answers are that object with `id`, `status`, perhaps `reason` and `returns [{id, amount, reason}]`.
 * Look-ups: `GET /transfers?idempotency_key=`, `?reference=` (lists in `data` or bare), `GET /transfers/{id}`. Refusals are
 * problem+json; the code is `code`, else the last part of `type`, else the title, in snake case.
 * The draft leaves the order of checks, and which errors are stored, to the server: both lists are empty here.
 */
import type { Json } from '../../../engine/rail.ts';
import { isArray, isObject } from '../../json.ts';
import { DAY_MS, LATENESS_MS_MIN } from '../limits.ts';
import type { CodeRow, LookUp, Profile, ProviderError, ProviderObject, TransferFacts } from '../profile.ts';
import { canonicalText } from '../wire-json.ts';
import { formatUnits } from '../../../kernel/money.ts';
import { KOREAN_PAYEE } from './payees.ts';
import { amountOf, at, NOTHING_SHOWN, segment, text } from './shapes.ts';

const DRAFT = 'draft-ietf-httpapi-idempotency-key-header-07 §2.6, §2.7';
const CONTRACT = 'the contract of this profile, in its head';

const refusedAtOnce = (codes: readonly string[], why: string): readonly CodeRow[] =>
  codes.map((code) => ({
    statuses: [400, 404, 422],
    code,
    means: { reads: 'refused', why, final: true, atOnce: CONTRACT },
  }));

const refusedForNow = (codes: readonly string[], why: string): readonly CodeRow[] =>
  codes.map((code) => ({ statuses: [400, 402, 409, 422], code, means: { reads: 'refused', why, final: false } }));

const mismatch = (code: string): CodeRow => ({
  statuses: [400, 409, 422],
  code,
  means: { reads: 'key_taken', why: 'the key was used with another body' },
});

export const GENERIC_CODES: readonly CodeRow[] = [
  // The draft's own examples share one `type` and are told apart by status.
  { statuses: [409], code: 'idempotency', means: { reads: 'in_progress', why: `still working on it (${DRAFT})` } },
  { statuses: [422], code: 'idempotency', means: { reads: 'key_taken', why: `used with another body (${DRAFT})` } },
  { statuses: [400], code: 'idempotency', means: { reads: 'blocked', why: `no key seen (${DRAFT})` } },
  ...[
    'idempotency_key_in_use',
    'idempotency_key_in_progress',
    'request_in_progress',
    'in_progress',
    'key_in_progress',
  ].map(
    (code): CodeRow => ({ statuses: [409, 425], code, means: { reads: 'in_progress', why: 'still working on it' } }),
  ),
  {
    statuses: [409],
    code: 'a_request_is_outstanding_for_this_idempotency_key',
    means: { reads: 'in_progress', why: DRAFT },
  },
  ...[
    'idempotency_key_reused',
    'idempotency_key_mismatch',
    'idempotency_key_already_used',
    'idempotency_key_is_already_used',
    'key_reused',
  ].map(mismatch),
  ...['idempotency_key_missing', 'idempotency_key_is_missing', 'idempotency_key_invalid'].map(
    (code): CodeRow => ({ statuses: [400], code, means: { reads: 'blocked', why: 'the key did not arrive' } }),
  ),
  ...['insufficient_funds', 'insufficient_balance', 'balance_insufficient'].map(
    (code): CodeRow => ({
      statuses: [400, 402, 409, 422],
      code,
      means: { reads: 'refused', why: 'not enough money at the provider', final: false },
    }),
  ),
  ...refusedForNow(['limit_exceeded', 'daily_limit_exceeded', 'amount_limit_exceeded'], 'over a limit'),
  ...refusedForNow(['outside_service_hours', 'service_hours', 'maintenance', 'bank_maintenance'], 'closed now'),
  ...refusedAtOnce(
    [
      'invalid_account',
      'invalid_account_number',
      'account_not_found',
      'account_closed',
      'holder_name_mismatch',
      'unknown_bank',
      'invalid_bank_code',
    ],
    'the account is refused',
  ),
  ...refusedAtOnce(
    ['validation_error', 'invalid_request', 'invalid_amount', 'unsupported_currency'],
    'the request is refused',
  ),
];

export const GENERIC_STATES: Profile['states'] = {
  pending: 'open',
  accepted: 'accepted',
  processing: 'accepted',
  sent: 'accepted',
  paid: 'paid',
  completed: 'paid',
  settled: 'paid',
  failed: 'failed',
  rejected: 'failed',
  cancelled: 'failed',
  canceled: 'failed',
  returned: 'returned',
  reversed: 'returned',
};

const ABSENT = [
  { status: 404, code: 'not_found' },
  { status: 404, code: 'transfer_not_found' },
];

export function genericList(name: 'by_key' | 'by_reference', parameter: string): LookUp {
  return {
    name,
    lagMs: null,
    path: ({ key }) => `/transfers?${parameter}=${segment(key)}`,
    next: (page) => (at(page, 'has_more') === true ? 'unknown' : null),
    absent: ABSENT,
  };
}

export const GENERIC_BY_OBJECT: LookUp = {
  name: 'by_object',
  lagMs: null,
  path: ({ objectId }) => (objectId === null ? null : `/transfers/${segment(objectId)}`),
  next: () => null,
  absent: ABSENT,
};

export function genericRequest(facts: TransferFacts): ReturnType<Profile['request']> {
  const { payee } = facts;
  return {
    method: 'POST',
    path: '/transfers',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: canonicalText({
      account: facts.account,
      account_number: payee.accountNumber,
      amount: formatUnits(facts.amount, facts.decimals),
      bank_code: payee.bankCode,
      currency: facts.currency,
      holder_name: payee.holderName,
      memo: payee.memo,
      reference: facts.key,
    }),
  };
}

export function genericObjects(body: Json): readonly ProviderObject[] | null {
  const list = isArray(body) ? body : at(body, 'data');
  if (isArray(list)) return list.map(toObject);
  return isObject(body) && text(body, 'status') !== null ? [toObject(body)] : null;
}

function toObject(item: Json): ProviderObject {
  const returns = at(item, 'returns');
  return {
    ...NOTHING_SHOWN,
    id: text(item, 'id'),
    key: text(item, 'idempotency_key'),
    reference: text(item, 'reference'),
    amount: amountOf(at(item, 'amount'), 'major'),
    currency: text(item, 'currency'),
    bankCode: text(item, 'bank_code'),
    accountNumber: text(item, 'account_number'),
    holderName: text(item, 'holder_name'),
    state: text(item, 'status'),
    reason: text(item, 'reason'),
    returns: isArray(returns)
      ? returns.map((one, index) => ({
          id: text(one, 'id') ?? `${text(item, 'id') ?? ''}:return:${index + 1}`,
          amount: amountOf(at(one, 'amount'), 'major'),
          reason: text(one, 'reason'),
        }))
      : [],
  };
}

export function genericError(body: Json): ProviderError | null {
  const type = text(body, 'type')?.split(/[/#:]/).at(-1);
  const code = text(body, 'code') ?? (type === undefined || type === 'blank' ? text(body, 'title') : type);
  if (code === null) return null;
  return {
    code: code
      .trim()
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '_'),
    message: text(body, 'detail') ?? text(body, 'title') ?? '',
    objectId: text(body, 'resource_id'),
    key: text(body, 'idempotency_key'),
  };
}

export const generic: Profile = {
  name: 'generic',
  operator: 'generic',
  key: { header: 'Idempotency-Key', bodyPath: null, quoted: true, charactersMax: 64, charset: /^[\x21-\x7E]+$/ },
  scope: ['credential', 'base_url', 'method', 'path'],
  retentionMs: DAY_MS,
  retentionCite: 'the draft asks servers to publish it; 24 h is common, and a server with less must be configured so',
  latenessMs: LATENESS_MS_MIN,
  decideWithinMs: DAY_MS,
  timeoutMs: 10_000,
  sameKeyOtherBody: 'error',
  replayMark: {
    header: 'idempotent-replayed',
    value: 'true',
    cite: 'the server’s own statement about this very answer',
  },
  codes: GENERIC_CODES,
  failedKeepsKey: null,
  paidMayFail: null,
  states: GENERIC_STATES,
  lineStates: {},
  echoes: ['reference', 'amount', 'currency', 'bankCode', 'accountNumber'],
  echoesKeyInErrors: false,
  keepHeaders: [],
  lookUps: [genericList('by_key', 'idempotency_key'), genericList('by_reference', 'reference'), GENERIC_BY_OBJECT],
  lookUp: true,
  currencies: null,
  amountUnitsMax: null,
  linesMax: 1,
  payee: KOREAN_PAYEE,
  auth: 'bearer',
  encryption: 'none',
  request: genericRequest,
  objects: genericObjects,
  error: genericError,
};
