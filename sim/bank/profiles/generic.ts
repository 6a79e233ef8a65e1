/*
 * A bank whose API follows the IETF draft "The Idempotency-Key HTTP Header Field" to the letter, with plain JSON otherwise.
 *
 * From the draft: the key is a structured-field String, so it is quoted; missing where required 400; used with another body
 * 422; in progress 409; a repetition after completion gets the first result, success or error; application/problem+json.
 * The draft leaves the order of checks, the retention and 401/403/429/5xx to the resource. Here: credential, body, key,
 * business, balance; 24 hours.
 *
 *   POST /v1/transfers            { reference, amount: { currency, value: "12.50" },
 *                                   creditor: { bank_code, account_number, name }, memo? }  → 201 the transfer
 *   GET  /v1/transfers/{id}       the transfer
 *   GET  /v1/transfers?reference= or ?idempotency_key=   { data: [the transfer] }
 */
import { fixedDecimal, readDecimal } from '../amounts.ts';
import type { Answer, Profile, Refusal } from '../profile.ts';
import type { Transfer } from '../transfer.ts';
import { isWireObject, textAt, type WireObject } from '../wire-json.ts';
import { bearerOf, DAY_MS, decodeJson, idUnder, json } from './pieces.ts';

const BASE = '/v1/transfers';
const REFERENCE_LENGTH_MAX = 35;

const STATUS: Readonly<Record<Refusal, readonly [number, string]>> = {
  insufficient_funds: [422, 'insufficient_funds'],
  account_unknown: [422, 'account_not_found'],
  account_closed: [422, 'account_closed'],
  limit: [422, 'limit_exceeded'],
  closed_hours: [422, 'outside_service_hours'],
  duplicate_payment: [422, 'duplicate_payment'],
  bad_request: [400, 'invalid_request'],
  unauthenticated: [401, 'unauthenticated'],
  forbidden: [403, 'forbidden'],
  rate_limited: [429, 'rate_limited'],
  maintenance: [503, 'maintenance'],
  not_found: [404, 'not_found'],
  key_missing: [400, 'idempotency_key_missing'],
  key_bad: [400, 'idempotency_key_malformed'],
  new_key_please: [409, 'retry_with_new_key'],
  internal: [500, 'internal_error'],
  unheard_of: [422, 'settlement_vector_misaligned'],
};

function problem(status: number, name: string, detail: string): Answer {
  return {
    ...json(status, {
      type: `https://api.bank.example/problems/${name}`,
      title: name.replaceAll('_', ' '),
      status: BigInt(status),
      detail,
      code: name,
    }),
    headers: { 'content-type': 'application/problem+json' },
  };
}

function show(transfer: Transfer): WireObject {
  const { line, batch, returns } = transfer;
  return {
    id: transfer.id,
    idempotency_key: batch.key,
    reference: line.reference,
    status: transfer.state,
    amount: { currency: line.currency, value: fixedDecimal(line.amount, line.currency) },
    creditor: {
      bank_code: line.destination.bankCode,
      account_number: line.destination.accountNumber,
      name: line.destination.holder,
    },
    memo: line.memo,
    failure: transfer.failure === null ? null : { code: transfer.failure },
    returns: returns.flatMap((each) =>
      Array.from({ length: each.reports }, () => ({
        id: each.id,
        amount: { currency: line.currency, value: fixedDecimal(each.units, line.currency) },
        fee: { currency: line.currency, value: fixedDecimal(each.feeUnits, line.currency) },
        reason: each.reason,
        returned_at: each.at.toISOString(),
      })),
    ),
    created_at: transfer.at.toISOString(),
    updated_at: transfer.changedAt.toISOString(),
  };
}

export const generic: Profile = {
  name: 'generic',
  currency: 'KRW',
  behaviour: {
    order: ['credential', 'decode', 'key', 'read', 'business', 'balance'],
    keyLengthMax: 255,
    keyScope: 'account',
    retentionMs: DAY_MS,
    compares: 'canonical',
    keeps: 'all',
    lookLagMs: 0,
  },
  lifecycle: ['accepted', 'processing', 'completed'],
  failedState: 'failed',
  returnedState: 'returned',
  ids: { transfer: 'trf_', batch: 'req_' },

  classify: ({ method, path }) => (method === 'POST' && path === BASE ? 'create' : method === 'GET' ? 'look' : 'other'),
  authorization: (secret) => ({ authorization: `Bearer ${secret}` }),
  presented: bearerOf,
  decode: (request, desk) => decodeJson(request, () => generic.refuse('bad_request', desk)),
  key(request) {
    const header = request.headers['idempotency-key'];
    if (header === undefined) return { ok: false, answer: problem(...STATUS.key_missing, 'Send Idempotency-Key.') };
    const quoted = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])+)"$/.exec(header)?.[1];
    if (quoted === undefined) {
      return { ok: false, answer: problem(...STATUS.key_bad, 'Idempotency-Key is a quoted string: "…".') };
    }
    return { ok: true, key: quoted.replaceAll(/\\(["\\])/g, '$1') };
  },
  read(_request, body, desk) {
    const bad = (field: string) => ({ ok: false as const, answer: generic.refuse('bad_request', desk, { field }) });
    const reference = textAt(body, 'reference');
    const currency = textAt(body, 'amount', 'currency');
    const value = textAt(body, 'amount', 'value');
    const bankCode = textAt(body, 'creditor', 'bank_code');
    const accountNumber = textAt(body, 'creditor', 'account_number');
    const amount = currency === null || value === null ? null : readDecimal(value, currency);
    if (!isWireObject(body)) return bad('body');
    if (reference === null || reference.length > REFERENCE_LENGTH_MAX) return bad('reference');
    if (currency === null || amount === null || amount === 0n) return bad('amount');
    if (bankCode === null || !/^[0-9A-Z]{2,11}$/.test(bankCode)) return bad('creditor.bank_code');
    if (accountNumber === null || !/^[0-9]{4,34}$/.test(accountNumber)) return bad('creditor.account_number');
    const holder = textAt(body, 'creditor', 'name');
    const line = {
      reference,
      destination: { bankCode, accountNumber, holder, handle: null },
      amount,
      currency,
      memo: textAt(body, 'memo'),
      extra: {},
    };
    return { ok: true, order: { reference, lines: [line], extra: {} } };
  },
  accepted: ({ transfers }) => json(201, transfers[0] === undefined ? null : show(transfers[0])),
  replayed: (stored) => stored,
  mismatch: () => problem(422, 'idempotency_key_reused', 'This key was used with another body.'),
  inProgress: () => problem(409, 'idempotency_key_in_progress', 'The first request under this key is in progress.'),
  refuse: (reason, _desk, detail) =>
    problem(...STATUS[reason], detail?.field === undefined ? `Refused: ${reason}.` : `Check ${detail.field}.`),
  look({ path, query }, { transfers, shown }, desk) {
    const id = idUnder(path, BASE);
    if (id !== null) {
      const found = transfers.find((transfer) => transfer.id === id);
      return found === undefined ? generic.refuse('not_found', desk) : json(200, show(shown(found)));
    }
    if (path !== BASE) return generic.refuse('not_found', desk);
    const reference = query.get('reference');
    const key = query.get('idempotency_key');
    const data = transfers
      .filter(({ line, batch }) => (reference ?? line.reference) === line.reference && (key ?? batch.key) === batch.key)
      .map((transfer) => show(shown(transfer)));
    return json(200, { data });
  },
};
