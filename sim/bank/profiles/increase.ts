/*
 * Increase: ACH transfers.
 *
 * From its documents: header Idempotency-Key up to 200 characters, unique across all of Increase and never forgotten; at most
 * one object per key. The same arguments: the object as it is now, and `Idempotent-Replayed: true`; others: 409
 * `idempotency_key_already_used_error` with `resource_id`. What is kept is the object, so a refusal leaves the key free.
 * Lists filter by `idempotency_key`. `submitted` is the best there is; a return follows days later, in full.
 * Not in the documents, chosen here: what a second request meets while the first runs (409 `invalid_operation_error`), and
 * that missing money is refused at once (the same type).
 *
 *   POST /ach_transfers   { account_id, amount, statement_descriptor, account_number, routing_number, individual_name? }
 *   GET  /ach_transfers/{id}, GET /ach_transfers?idempotency_key=&account_id=&limit=&cursor=
 */
import type { Answer, Profile, Refusal } from '../profile.ts';
import type { Transfer } from '../transfer.ts';
import { at, textAt, wholeAt, type WireObject } from '../wire-json.ts';
import { bearerOf, decodeJson, headerKey, idUnder, json } from './pieces.ts';

const BASE = '/ach_transfers';
const KEY_LENGTH_MAX = 200;

const ERRORS: Readonly<Record<Refusal, readonly [status: number, type: string]>> = {
  insufficient_funds: [409, 'invalid_operation_error'],
  account_unknown: [400, 'invalid_parameters_error'],
  account_closed: [409, 'invalid_operation_error'],
  limit: [409, 'invalid_operation_error'],
  closed_hours: [409, 'invalid_operation_error'],
  duplicate_payment: [409, 'invalid_operation_error'],
  bad_request: [400, 'invalid_parameters_error'],
  unauthenticated: [401, 'invalid_api_key_error'],
  forbidden: [403, 'insufficient_permissions_error'],
  rate_limited: [429, 'rate_limited_error'],
  maintenance: [503, 'internal_server_error'],
  not_found: [404, 'object_not_found_error'],
  key_missing: [400, 'invalid_parameters_error'],
  key_bad: [400, 'invalid_parameters_error'],
  new_key_please: [409, 'invalid_operation_error'],
  internal: [500, 'internal_server_error'],
  unheard_of: [409, 'moon_phase_error'],
};

function error(status: number, type: string, detail: string, extra: WireObject = {}): Answer {
  return json(status, { type, status: BigInt(status), title: type.replaceAll('_', ' '), detail, ...extra });
}

function show(transfer: Transfer): WireObject {
  const { line, batch, returns } = transfer;
  const [returned] = returns;
  return {
    id: transfer.id,
    type: 'ach_transfer',
    account_id: at(line.extra, 'account_id'),
    account_number: line.destination.accountNumber,
    routing_number: line.destination.bankCode,
    amount: line.amount,
    currency: line.currency,
    created_at: transfer.at.toISOString(),
    idempotency_key: batch.key,
    individual_name: line.destination.holder,
    network: 'ach',
    return:
      returned === undefined
        ? null
        : {
            created_at: returned.at.toISOString(),
            return_reason_code: returned.reason,
            raw_return_reason_code: 'R02',
            trace_number: '111122223333444',
            transaction_id: returned.id,
            transfer_id: transfer.id,
          },
    statement_descriptor: line.memo,
    status: transfer.state,
    submission: transfer.standing === 'final' ? { submitted_at: transfer.changedAt.toISOString() } : null,
  };
}

export const increase: Profile = {
  name: 'increase',
  currency: 'USD',
  behaviour: {
    order: ['credential', 'decode', 'read', 'key', 'business', 'balance'],
    keyLengthMax: KEY_LENGTH_MAX,
    keyScope: 'global',
    retentionMs: null,
    compares: 'canonical',
    keeps: 'successes',
    lookLagMs: 0,
  },
  lifecycle: ['pending_submission', 'submitted'],
  failedState: 'rejected',
  returnedState: 'returned',
  ids: { transfer: 'ach_transfer_', batch: 'req_' },

  classify: ({ method, path }) => (method === 'POST' && path === BASE ? 'create' : method === 'GET' ? 'look' : 'other'),
  authorization: (secret) => ({ authorization: `Bearer ${secret}` }),
  presented: bearerOf,
  decode: (request, desk) => decodeJson(request, () => increase.refuse('bad_request', desk)),
  key: (request) => ({ ok: true, key: headerKey(request) }),
  read(request, body, desk) {
    const bad = (field: string) => ({ ok: false as const, answer: increase.refuse('bad_request', desk, { field }) });
    const amount = wholeAt(body, 'amount');
    const accountNumber = textAt(body, 'account_number');
    const bankCode = textAt(body, 'routing_number');
    const memo = textAt(body, 'statement_descriptor');
    if (textAt(body, 'account_id') === null) return bad('account_id');
    if (amount === null || amount <= 0n) return bad('amount');
    if (accountNumber === null || !/^[0-9]{1,34}$/.test(accountNumber)) return bad('account_number');
    if (bankCode === null || bankCode === '') return bad('routing_number');
    if (memo === null) return bad('statement_descriptor');
    const holder = textAt(body, 'individual_name');
    const line = {
      reference: headerKey(request),
      destination: { bankCode, accountNumber, holder, handle: null },
      amount,
      currency: 'USD',
      memo,
      extra: { account_id: at(body, 'account_id') },
    };
    return { ok: true, order: { reference: line.reference, lines: [line], extra: {} } };
  },
  accepted: ({ transfers }) => json(200, transfers[0] === undefined ? null : show(transfers[0])),
  replayed(stored, batch) {
    const [transfer] = batch?.transfers ?? [];
    return transfer === undefined ? stored : json(200, show(transfer), { 'idempotent-replayed': 'true' });
  },
  mismatch: (_stored, batch) =>
    error(409, 'idempotency_key_already_used_error', 'This key belongs to another object.', {
      resource_id: batch?.transfers[0]?.id ?? 'ach_transfer_ofsomebodyelse0001',
    }),
  inProgress: () => error(409, 'invalid_operation_error', 'A request with this idempotency key is in progress.'),
  refuse: (reason, _desk, detail) =>
    error(
      ...ERRORS[reason],
      reason.replaceAll('_', ' '),
      detail?.field === undefined ? {} : { errors: [detail.field] },
    ),
  look({ path, query }, { transfers, shown }, desk) {
    const id = idUnder(path, BASE);
    if (id !== null) {
      const found = transfers.find((transfer) => transfer.id === id);
      return found === undefined ? increase.refuse('not_found', desk) : json(200, show(shown(found)));
    }
    if (path !== BASE) return increase.refuse('not_found', desk);
    const key = query.get('idempotency_key');
    const found = transfers.filter(({ batch }) => (key ?? batch.key) === batch.key);
    return json(200, { data: found.toReversed().map((transfer) => show(shown(transfer))), next_cursor: null });
  },
};
