/*
 * Stripe, API v1: payouts to external accounts and transfers to connected accounts.
 *
 * From its documents: form-encoded bodies, header Idempotency-Key up to 255 characters, at least 24 hours, then the key is
 * new again. Status and body of the first answer are kept, 500 too, once execution began; validation (400), 401, 429 and
 * concurrent conflicts (409) are not. The same key with other parameters or another path: 400, type `idempotency_error`.
 * Replays carry `Idempotent-Replayed: true` and show the object as it was. Lists know no metadata filter. A payout that is
 * `paid` may become `failed` later; the money is back by `failure_balance_transaction`.
 * Not in the documents, chosen here: the codes of refusals other than `balance_insufficient`.
 *
 *   POST /v1/payouts     amount, currency, destination?, description?, metadata[…]
 *   POST /v1/transfers   amount, currency, destination, transfer_group?, metadata[…]
 *   GET  both, by id and as lists (limit, starting_after, destination, status; transfers: transfer_group)
 *   GET  /v1/balance_transactions/{id}
 */
import type { Answer, BankRequest, Profile, Refusal } from '../profile.ts';
import type { Transfer } from '../transfer.ts';
import { at, isWireObject, textAt, type Wire, type WireObject } from '../wire-json.ts';
import { basicOf, bearerOf, DAY_MS, headerKey, idUnder, json, unixSeconds } from './pieces.ts';

const PAYOUTS = '/v1/payouts';
const TRANSFERS = '/v1/transfers';
const BALANCE_TRANSACTIONS = '/v1/balance_transactions';
const PAGE_DEFAULT = 10;
const PAGE_MAX = 100;

const ERRORS: Readonly<Record<Refusal, readonly [status: number, type: string, code: string | null]>> = {
  insufficient_funds: [400, 'invalid_request_error', 'balance_insufficient'],
  account_unknown: [400, 'invalid_request_error', 'resource_missing'],
  account_closed: [400, 'invalid_request_error', 'bank_account_unusable'],
  limit: [400, 'invalid_request_error', 'amount_too_large'],
  closed_hours: [400, 'invalid_request_error', 'payouts_not_allowed'],
  duplicate_payment: [400, 'invalid_request_error', 'duplicate_transaction'],
  bad_request: [400, 'invalid_request_error', 'parameter_invalid_empty'],
  unauthenticated: [401, 'invalid_request_error', 'api_key_expired'],
  forbidden: [403, 'invalid_request_error', 'platform_account_required'],
  rate_limited: [429, 'invalid_request_error', 'rate_limit'],
  maintenance: [503, 'api_error', null],
  not_found: [404, 'invalid_request_error', 'resource_missing'],
  key_missing: [400, 'invalid_request_error', null],
  key_bad: [400, 'invalid_request_error', null],
  new_key_please: [409, 'api_error', 'idempotency_key_retry'],
  internal: [500, 'api_error', null],
  unheard_of: [400, 'invalid_request_error', 'quantum_ledger_drift'],
};

function error(status: number, type: string, code: string | null, message: string, param?: string): Answer {
  const body: WireObject = { type, message };
  if (code !== null) body['code'] = code;
  if (param !== undefined) body['param'] = param;
  return json(status, { error: body });
}

/** `metadata[order]=7` becomes { metadata: { order: '7' } }. */
function fromForm(text: string): WireObject {
  const body: WireObject = {};
  for (const [name, value] of new URLSearchParams(text)) {
    const nested = /^([^[\]]+)\[([^[\]]+)\]$/.exec(name);
    if (nested?.[1] === undefined || nested[2] === undefined) {
      body[name] = value;
      continue;
    }
    const inner = body[nested[1]];
    body[nested[1]] = { ...(isWireObject(inner) ? inner : {}), [nested[2]]: value };
  }
  return body;
}

function balanceTransactionId({ returns }: Transfer): string | null {
  const [first] = returns;
  return first === undefined ? null : first.id.replace('ret_', 'txn_');
}

function show(transfer: Transfer): WireObject {
  const { line, batch, returns } = transfer;
  const reversed = returns.reduce((sum, each) => sum + each.units + each.feeUnits, 0n);
  const shared: WireObject = {
    amount: line.amount,
    currency: line.currency.toLowerCase(),
    created: unixSeconds(transfer.at),
    description: line.memo,
    destination: line.destination.handle,
    livemode: false,
    metadata: at(line.extra, 'metadata') ?? {},
  };
  if (batch.path === TRANSFERS) {
    return {
      id: transfer.id.replace('po_', 'tr_'),
      object: 'transfer',
      ...shared,
      amount_reversed: reversed,
      reversed: reversed === line.amount,
      reversals: {
        object: 'list',
        data: returns.map((each) => ({
          id: each.id.replace('ret_', 'trr_'),
          object: 'transfer_reversal',
          amount: each.units,
        })),
        has_more: false,
      },
      transfer_group: at(line.extra, 'transfer_group'),
    };
  }
  return {
    id: transfer.id,
    object: 'payout',
    ...shared,
    arrival_date: unixSeconds(transfer.at),
    automatic: false,
    failure_balance_transaction: balanceTransactionId(transfer),
    failure_code: transfer.failure,
    failure_message: transfer.failure === null ? null : transfer.failure.replaceAll('_', ' '),
    method: 'standard',
    source_type: 'card',
    statement_descriptor: at(line.extra, 'statement_descriptor'),
    status: transfer.state,
    type: 'bank_account',
  };
}

function list(request: BankRequest, found: readonly WireObject[]): Answer {
  const newestFirst = found.toReversed();
  const after = request.query.get('starting_after');
  const from = after === null ? 0 : newestFirst.findIndex(({ id }) => id === after) + 1;
  const limit = Math.min(PAGE_MAX, Number(request.query.get('limit') ?? PAGE_DEFAULT));
  const data = newestFirst.slice(from, from + limit);
  return json(200, { object: 'list', url: request.path, has_more: from + limit < newestFirst.length, data });
}

export const stripe: Profile = {
  name: 'stripe',
  currency: 'USD',
  behaviour: {
    order: ['credential', 'decode', 'read', 'key', 'business', 'balance'],
    keyLengthMax: 255,
    keyScope: 'account',
    retentionMs: DAY_MS,
    compares: 'canonical',
    keeps: 'all',
    lookLagMs: 0,
  },
  lifecycle: ['pending', 'in_transit', 'paid'],
  failedState: 'failed',
  returnedState: 'failed',
  ids: { transfer: 'po_', batch: 'req_' },

  classify: ({ method, path }) =>
    method === 'POST' && (path === PAYOUTS || path === TRANSFERS) ? 'create' : method === 'GET' ? 'look' : 'other',
  authorization: (secret) => ({ authorization: `Bearer ${secret}` }),
  presented: (request) => bearerOf(request) ?? basicOf(request)?.name ?? null,
  decode(request) {
    const plain = request.body.toString('utf8');
    return { ok: true, body: fromForm(plain), plain };
  },
  key: (request) => ({ ok: true, key: headerKey(request) }),
  read(request, body, desk) {
    const bad = (field: string) => ({ ok: false as const, answer: stripe.refuse('bad_request', desk, { field }) });
    const amountText = textAt(body, 'amount') ?? '';
    const currency = (textAt(body, 'currency') ?? '').toUpperCase();
    if (!/^[1-9][0-9]{0,11}$/.test(amountText)) return bad('amount');
    if (!/^[A-Z]{3}$/.test(currency)) return bad('currency');
    const handle = textAt(body, 'destination') ?? (request.path === PAYOUTS ? 'ba_default' : null);
    if (handle === null) return bad('destination');
    const destination = desk.resolve(handle);
    if (destination === null)
      return { ok: false, answer: stripe.refuse('account_unknown', desk, { field: 'destination' }) };
    const metadata: Wire = at(body, 'metadata') ?? {};
    const reference = isWireObject(metadata)
      ? (Object.values(metadata).find((value) => typeof value === 'string') ?? null)
      : null;
    const line = {
      reference: typeof reference === 'string' ? reference : null,
      destination,
      amount: BigInt(amountText),
      currency,
      memo: textAt(body, 'description'),
      extra: {
        metadata,
        transfer_group: at(body, 'transfer_group'),
        statement_descriptor: at(body, 'statement_descriptor'),
      },
    };
    return { ok: true, order: { reference: line.reference, lines: [line], extra: {} } };
  },
  accepted: ({ transfers }) => json(200, transfers[0] === undefined ? null : show(transfers[0])),
  replayed: (stored) => ({ ...stored, headers: { ...stored.headers, 'idempotent-replayed': 'true' } }),
  mismatch: () =>
    error(
      400,
      'idempotency_error',
      null,
      'Keys for idempotent requests can only be used with the same parameters they were first used with.',
    ),
  inProgress: () =>
    error(
      409,
      'idempotency_error',
      'idempotency_key_in_use',
      'There is currently another in-progress request using this Idempotent Key.',
    ),
  refuse: (reason, _desk, detail) => error(...ERRORS[reason], reason.replaceAll('_', ' '), detail?.field),
  look(request, { transfers, shown }, desk) {
    const { path, query } = request;
    const transactionId = idUnder(path, BALANCE_TRANSACTIONS);
    if (transactionId !== null) {
      const found = transfers.find((transfer) => balanceTransactionId(transfer) === transactionId);
      const [returned] = found?.returns ?? [];
      if (found === undefined || returned === undefined) return stripe.refuse('not_found', desk);
      return json(200, {
        id: transactionId,
        object: 'balance_transaction',
        amount: returned.units + returned.feeUnits,
        fee: returned.feeUnits,
        net: returned.units,
        currency: found.line.currency.toLowerCase(),
        source: found.id,
        type: 'payout_failure',
      });
    }
    for (const base of [PAYOUTS, TRANSFERS]) {
      const own = transfers.filter(({ batch }) => batch.path === base);
      const id = idUnder(path, base);
      if (id !== null) {
        const found = own.find((transfer) => show(transfer)['id'] === id);
        return found === undefined ? stripe.refuse('not_found', desk) : json(200, show(shown(found)));
      }
      if (path !== base) continue;
      const found = own
        .filter(
          ({ line, state }) =>
            (query.get('destination') ?? line.destination.handle) === line.destination.handle &&
            (query.get('status') ?? state) === state &&
            (query.get('transfer_group') ?? at(line.extra, 'transfer_group')) === at(line.extra, 'transfer_group'),
        )
        .map((transfer) => show(shown(transfer)));
      return list(request, found);
    }
    return stripe.refuse('not_found', desk);
  },
};
