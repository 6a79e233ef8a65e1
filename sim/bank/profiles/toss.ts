/*
 * Toss Payments, payouts v2 (지급대행).
 *
 * From its documents: header Idempotency-Key up to 300 characters, 15 days from the first use, one space for (secret key,
 * URL, method); the body is no part of it, so another body under the same key gets the first answer as success. 409
 * IDEMPOTENT_REQUEST_PROCESSING while the first runs, 400 INVALID_IDEMPOTENCY_KEY when it is too long. Errors are kept too
 * ("the same as the first response"). Requests with a body are JWE (dir, A256GCM, key of 64 hexadecimal digits) with `iat`
 * and a `nonce` used once, so that the ciphertext of a repetition differs; answers to them are encrypted as well. Sellers
 * are registered first: `destination` is a seller's id. At most 100 payouts a request, memo of at most 7 characters.
 * Not in stored documents: the names of states (REQUESTED, IN_PROGRESS, COMPLETED, FAILED, CANCELED), the codes of business
 * refusals, that errors are not encrypted, that a nonce seen before is refused, how a return shows (here: FAILED with an
 * error). Look-ups page through the list; there is no filter by refPayoutId.
 *
 *   POST /v2/payouts   one or a list of { refPayoutId, destination, scheduleType, payoutDate?, amount: { currency, value },
 *                      transactionDescription, metadata? }
 *   GET  /v2/payouts/{id}, GET /v2/payouts?limit=&startingAfter=, GET /v2/balances
 */
import { randomUUID } from 'node:crypto';
import { decryptJwe, encryptJwe } from '../jwe.ts';
import type { Answer, Desk, Profile, Refusal } from '../profile.ts';
import type { Line, Transfer } from '../transfer.ts';
import { at, parseWire, printWire, textAt, type Wire, wholeAt, type WireObject } from '../wire-json.ts';
import { basic, basicOf, DAY_MS, decodeJson, headerKey, idUnder, json } from './pieces.ts';

const BASE = '/v2/payouts';
const KEY_LENGTH_MAX = 300;
const RETENTION_MS = 15 * DAY_MS;
const PAYOUTS_MAX = 100;
const MEMO_LENGTH_MAX = 7;
const PAGE_DEFAULT = 100;
const KST_MS = 9 * 3_600_000;

const ERRORS: Readonly<Record<Refusal, readonly [status: number, code: string]>> = {
  insufficient_funds: [400, 'INSUFFICIENT_AVAILABLE_BALANCE'],
  account_unknown: [404, 'NOT_FOUND_SELLER'],
  account_closed: [400, 'INVALID_SELLER_ACCOUNT'],
  limit: [400, 'EXCEED_MAX_AMOUNT'],
  closed_hours: [400, 'NOT_AVAILABLE_TIME'],
  duplicate_payment: [400, 'DUPLICATED_REF_PAYOUT_ID'],
  bad_request: [400, 'INVALID_REQUEST'],
  unauthenticated: [401, 'UNAUTHORIZED_KEY'],
  forbidden: [403, 'FORBIDDEN_REQUEST'],
  rate_limited: [429, 'TOO_MANY_REQUESTS'],
  maintenance: [503, 'SERVICE_UNAVAILABLE'],
  not_found: [404, 'NOT_FOUND'],
  key_missing: [400, 'INVALID_IDEMPOTENCY_KEY'],
  key_bad: [400, 'INVALID_IDEMPOTENCY_KEY'],
  new_key_please: [409, 'RETRY_WITH_NEW_KEY'],
  internal: [500, 'FAILED_INTERNAL_SYSTEM_PROCESSING'],
  unheard_of: [400, 'LUNAR_CALENDAR_MISMATCH'],
};

/** As Korean systems write time: 2026-11-30T09:00:00+09:00. */
function koreanTime(date: Date): string {
  return `${new Date(date.getTime() + KST_MS).toISOString().slice(0, 19)}+09:00`;
}

function entity(desk: Desk, type: string, body: Wire): WireObject {
  return { version: '2022-11-16', traceId: desk.id('', 32), entityType: type, entityBody: body };
}

function show({ id, line, state, at: requestedAt, failure }: Transfer): WireObject {
  return {
    id,
    refPayoutId: line.reference,
    destination: line.destination.handle,
    scheduleType: at(line.extra, 'scheduleType'),
    payoutDate: at(line.extra, 'payoutDate') ?? koreanTime(requestedAt).slice(0, 10),
    amount: { currency: line.currency, value: line.amount },
    transactionDescription: line.memo,
    requestedAt: koreanTime(requestedAt),
    status: state,
    error: failure === null ? null : { code: failure.toUpperCase(), message: failure.replaceAll('_', ' ') },
    metadata: at(line.extra, 'metadata'),
  };
}

/** Answers to encrypted requests are encrypted, with a nonce of their own. */
function sealed(body: WireObject, desk: Desk): Answer {
  if (desk.securityKey === null) return json(200, body);
  const jwe = encryptJwe(printWire(body), desk.securityKey, { iat: koreanTime(desk.now()), nonce: randomUUID() });
  return { status: 200, headers: { 'content-type': 'text/plain;charset=UTF-8' }, body: jwe };
}

function readOne(body: Wire, desk: Desk): Line | { field: string } | 'account_unknown' {
  const amount = wholeAt(body, 'amount', 'value');
  const currency = textAt(body, 'amount', 'currency');
  const reference = textAt(body, 'refPayoutId');
  const handle = textAt(body, 'destination');
  const memo = textAt(body, 'transactionDescription');
  const scheduleType = textAt(body, 'scheduleType');
  if (reference === null || reference === '') return { field: 'refPayoutId' };
  if (handle === null || handle === '') return { field: 'destination' };
  if (scheduleType !== 'EXPRESS' && scheduleType !== 'SCHEDULED') return { field: 'scheduleType' };
  if (scheduleType === 'SCHEDULED' && textAt(body, 'payoutDate') === null) return { field: 'payoutDate' };
  if (amount === null || amount <= 0n || currency !== 'KRW') return { field: 'amount' };
  if (memo === null || memo === '' || memo.length > MEMO_LENGTH_MAX) return { field: 'transactionDescription' };
  const destination = desk.resolve(handle);
  if (destination === null) return 'account_unknown';
  const extra = { scheduleType, payoutDate: at(body, 'payoutDate'), metadata: at(body, 'metadata') };
  return { reference, destination, amount, currency, memo, extra };
}

export const toss: Profile = {
  name: 'toss',
  currency: 'KRW',
  behaviour: {
    order: ['credential', 'decode', 'key', 'read', 'business', 'balance'],
    keyLengthMax: KEY_LENGTH_MAX,
    keyScope: 'credential_and_path',
    retentionMs: RETENTION_MS,
    compares: 'no',
    keeps: 'all',
    lookLagMs: 0,
  },
  lifecycle: ['REQUESTED', 'IN_PROGRESS', 'COMPLETED'],
  failedState: 'FAILED',
  returnedState: 'FAILED',
  ids: { transfer: 'FPA_', batch: 'REQ_' },

  classify: ({ method, path }) => (method === 'POST' && path === BASE ? 'create' : method === 'GET' ? 'look' : 'other'),
  authorization: (secret) => basic(secret, ''),
  presented: (request) => basicOf(request)?.name ?? null,
  decode(request, desk) {
    const bad = (field: string) => ({ ok: false as const, answer: toss.refuse('bad_request', desk, { field }) });
    if (desk.securityKey === null) return decodeJson(request, () => bad('body').answer);
    if (request.headers['tosspayments-api-security-mode'] !== 'ENCRYPTION') {
      return bad('TossPayments-api-security-mode');
    }
    const opened = decryptJwe(request.body.toString('utf8').trim(), desk.securityKey);
    if (opened === null) return bad('body');
    const iat = textAt(opened.header, 'iat');
    const nonce = textAt(opened.header, 'nonce');
    if (iat === null || !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$/.test(iat)) return bad('iat');
    if (nonce === null || !desk.nonceIsNew(nonce)) return bad('nonce');
    const body = parseWire(opened.plain);
    return body === undefined ? bad('body') : { ok: true, body, plain: opened.plain };
  },
  key: (request) => ({ ok: true, key: headerKey(request) }),
  read(_request, body, desk) {
    const asked = Array.isArray(body) ? body : [body];
    const lines: Line[] = [];
    if (asked.length === 0 || asked.length > PAYOUTS_MAX) {
      return { ok: false, answer: toss.refuse('bad_request', desk, { field: 'payouts' }) };
    }
    for (const one of asked) {
      const line = readOne(one, desk);
      if (line === 'account_unknown') return { ok: false, answer: toss.refuse('account_unknown', desk) };
      if ('field' in line) return { ok: false, answer: toss.refuse('bad_request', desk, line) };
      lines.push(line);
    }
    return { ok: true, order: { reference: lines[0]?.reference ?? null, lines, extra: {} } };
  },
  accepted: ({ transfers }, desk) => sealed(entity(desk, 'payout-list', { items: transfers.map(show) }), desk),
  replayed: (stored) => stored,
  mismatch: () => json(409, { code: 'IDEMPOTENCY_KEY_REUSED', message: 'This key was used with another request.' }),
  inProgress: () => json(409, { code: 'IDEMPOTENT_REQUEST_PROCESSING', message: '이전 멱등 요청이 처리중입니다.' }),
  refuse(reason, _desk, detail) {
    const [status, code] = ERRORS[reason];
    return json(status, { code, message: detail?.field ?? reason.replaceAll('_', ' ') });
  },
  look({ path, query }, { transfers, shown }, desk) {
    if (path === '/v2/balances') {
      const money = (value: bigint): WireObject => ({ currency: 'KRW', value });
      const body = { pendingAmount: money(0n), availableAmount: money(desk.available('KRW')) };
      return json(200, entity(desk, 'balance', body));
    }
    const id = idUnder(path, BASE);
    if (id !== null) {
      const found = transfers.find((transfer) => transfer.id === id);
      return found === undefined
        ? toss.refuse('not_found', desk)
        : json(200, entity(desk, 'payout', show(shown(found))));
    }
    if (path !== BASE) return toss.refuse('not_found', desk);
    const newestFirst = transfers.toReversed();
    const after = query.get('startingAfter');
    const from = after === null ? 0 : newestFirst.findIndex((transfer) => transfer.id === after) + 1;
    const limit = Number(query.get('limit') ?? PAGE_DEFAULT);
    const items = newestFirst.slice(from, from + limit);
    const body = {
      hasNext: from + limit < newestFirst.length,
      lastCursor: items.at(-1)?.id ?? null,
      items: items.map((transfer) => show(shown(transfer))),
    };
    return json(200, entity(desk, 'payout-list', body));
  },
};
