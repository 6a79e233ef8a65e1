/**
 * A server that follows the IETF draft on `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header) and nothing more
 * particular, for providers that have no profile of their own yet.
 *
 * Wire: `POST /v1/transfers` with `{reference, amount: {currency, value: "12.50"}, creditor: {bank_code, account_number, name},
 * memo?}`; answers are that object with `id`, `idempotency_key`, `status`, perhaps `failure {code}` and `returns [{id, amount,
 * fee?, reason}]`, where `amount` is what came back after `fee` was kept. Look-ups: `GET /v1/transfers?idempotency_key=`,
 * `?reference=` (lists in `data` or bare), `GET /v1/transfers/{id}`. Refusals are problem+json; the code is `code`, else the
 * last part of `type`, in snake case. A title stands in for a code that is missing, for what frees nothing: a route that is
 * gone answers `about:blank`, `Not Found` too, and that is no absence.
 * The draft leaves the order of checks, and which errors are stored, to the server: both lists are empty here.
 */
import type { Json } from '../../../engine/rail.ts';
import { amountOf } from '../../amount-text.ts';
import { segment } from '../../base-url.ts';
import { isArray, isObject } from '../../json.ts';
import { DAY_MS, LATENESS_MS_MIN } from '../limits.ts';
import type { CodeRow, LookUp, ProviderError } from '../../keyed-profile.ts';
import type { Profile, ProviderObject, TransferFacts, TransferLook } from '../profile.ts';
import { formatUnits } from '../../../kernel/money.ts';
import { canonicalText } from '../../wire-json.ts';
import { KOREAN_PAYEE } from './payees.ts';
import { at, bareDigits, NOTHING_SHOWN, text } from './shapes.ts';

/** The longest code below has 49 characters; a longer text is none of them. */
const CODE_CHARACTERS_MAX = 100;
const DRAFT = 'draft-ietf-httpapi-idempotency-key-header-07 §2.6, §2.7';
const BASE = '/v1/transfers';
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

const CODES: readonly CodeRow[] = [
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
  ...[
    'idempotency_key_missing',
    'idempotency_key_is_missing',
    'idempotency_key_invalid',
    'idempotency_key_malformed',
  ].map((code): CodeRow => ({ statuses: [400], code, means: { reads: 'blocked', why: 'the key did not arrive' } })),
  ...['insufficient_funds', 'insufficient_balance', 'balance_insufficient'].map(
    (code): CodeRow => ({
      statuses: [400, 402, 409, 422],
      code,
      means: { reads: 'refused', why: 'not enough money at the provider', final: false },
    }),
  ),
  ...refusedForNow(['limit_exceeded', 'daily_limit_exceeded', 'amount_limit_exceeded'], 'over a limit'),
  ...refusedForNow(['duplicate_payment'], 'it looks like another payment'),
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

const STATES: Profile['states'] = {
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

function list(name: 'by_key' | 'by_reference', parameter: string): LookUp<TransferLook> {
  return {
    name,
    lagMs: null,
    path: ({ key }) => `${BASE}?${parameter}=${segment(key)}`,
    next: (page) => (at(page, 'has_more') === true ? 'unknown' : null),
    absent: ABSENT,
  };
}

const BY_OBJECT: LookUp<TransferLook> = {
  name: 'by_object',
  lagMs: null,
  path: ({ objectId }) => (objectId === null ? null : `${BASE}/${segment(objectId)}`),
  next: () => null,
  absent: ABSENT,
};

function toRequest(facts: TransferFacts): ReturnType<Profile['request']> {
  const { payee } = facts;
  return {
    method: 'POST',
    path: BASE,
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: canonicalText({
      amount: { currency: facts.currency, value: formatUnits(facts.amount, facts.decimals) },
      creditor: {
        account_number: bareDigits(payee.accountNumber),
        bank_code: payee.bankCode,
        name: payee.holderName,
      },
      ...(payee.memo === '' ? {} : { memo: payee.memo }),
      reference: facts.key,
    }),
  };
}

function toObjects(body: Json): readonly ProviderObject[] | null {
  const items = isArray(body) ? body : at(body, 'data');
  if (isArray(items)) return items.map(toObject);
  return isObject(body) && text(body, 'status') !== null ? [toObject(body)] : null;
}

function toObject(item: Json): ProviderObject {
  const returns = at(item, 'returns');
  return {
    ...NOTHING_SHOWN,
    id: text(item, 'id'),
    key: text(item, 'idempotency_key'),
    reference: text(item, 'reference'),
    amount: amountOf(at(item, 'amount', 'value'), 'major'),
    currency: text(item, 'amount', 'currency'),
    bankCode: text(item, 'creditor', 'bank_code'),
    accountNumber: text(item, 'creditor', 'account_number'),
    holderName: text(item, 'creditor', 'name'),
    state: text(item, 'status'),
    reason: text(item, 'failure', 'code'),
    returns: isArray(returns)
      ? returns.map((one, index) => ({
          id: text(one, 'id') ?? `${text(item, 'id') ?? ''}:return:${index + 1}`,
          amount: amountOf(at(one, 'amount', 'value'), 'major'),
          fee: amountOf(at(one, 'fee', 'value'), 'major'),
          reason: text(one, 'reason'),
        }))
      : [],
  };
}

function toError(body: Json): ProviderError | null {
  const type = text(body, 'type')?.split(/[/#:]/).at(-1);
  const own = text(body, 'code') ?? (type === undefined || type === 'blank' ? null : type);
  const code = own ?? text(body, 'title');
  if (code === null) return null;
  return {
    code: code
      .slice(0, CODE_CHARACTERS_MAX)
      .trim()
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '_'),
    ...(own === null ? { inWords: true } : {}),
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
  codes: CODES,
  failedKeepsKey: null,
  paidMayFail: null,
  states: STATES,
  lineStates: {},
  echoes: ['reference', 'amount', 'currency', 'bankCode', 'accountNumber'],
  echoesKeyInErrors: false,
  keepHeaders: [],
  lookUps: [list('by_key', 'idempotency_key'), list('by_reference', 'reference'), BY_OBJECT],
  lookUp: true,
  currencies: null,
  amountUnitsMax: null,
  linesMax: 1,
  payee: KOREAN_PAYEE,
  auth: 'bearer',
  encryption: 'none',
  request: toRequest,
  objects: toObjects,
  error: toError,
};
