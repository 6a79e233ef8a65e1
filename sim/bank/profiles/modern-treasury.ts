/*
 * Modern Treasury: payment orders.
 *
 * From its documents: header Idempotency-Key, 24 hours, one space of keys for each API key and for all routes together: the
 * same key on another route echoes the payment order, and under another API key it is executed again. Only successes are
 * kept: after an error the next request executes. A repetition echoes status and body of the first, whatever its body; 409
 * while the first runs. `completed` may become `returned`.
 * The order does not show the account that it went to, only `receiving_account_id`.
 * Not in the documents, chosen here: the codes of refusals; that balances are refused at once.
 *
 *   POST /api/payment_orders                { type, amount, direction: 'credit', currency, originating_account_id,
 *     receiving_account: { party_name, account_details: [{ account_number }], routing_details: [{ routing_number_type,
 *     routing_number }] } or receiving_account_id, metadata?, description?, statement_descriptor? }  → 201
 *   POST /api/payment_orders/create_async   the same → 202
 *   GET  /api/payment_orders/{id}, GET /api/payment_orders?metadata[name]=value&page=&per_page=   a bare array
 */
import type { Answer, Profile, Refusal } from '../profile.ts';
import type { Transfer } from '../transfer.ts';
import { at, isWireObject, textAt, wholeAt, type WireObject } from '../wire-json.ts';
import { basic, basicOf, DAY_MS, decodeJson, headerKey, idUnder, json } from './pieces.ts';

const BASE = '/api/payment_orders';
const ASYNC = `${BASE}/create_async`;
const ORGANIZATION = 'organization';
const PAGE_DEFAULT = 25;

const ERRORS: Readonly<Record<Refusal, readonly [status: number, code: string]>> = {
  insufficient_funds: [422, 'insufficient_balance'],
  account_unknown: [422, 'resource_not_found'],
  account_closed: [422, 'invalid_account'],
  limit: [422, 'limit_exceeded'],
  closed_hours: [422, 'cutoff_passed'],
  duplicate_payment: [422, 'duplicate_payment_order'],
  bad_request: [422, 'parameter_invalid'],
  unauthenticated: [401, 'invalid_key'],
  forbidden: [403, 'forbidden'],
  rate_limited: [429, 'rate_limited'],
  maintenance: [503, 'unavailable'],
  not_found: [404, 'resource_not_found'],
  key_missing: [422, 'parameter_missing'],
  key_bad: [422, 'parameter_invalid'],
  new_key_please: [409, 'retry_with_new_key'],
  internal: [500, 'internal_server_error'],
  unheard_of: [422, 'astral_alignment_failed'],
};

function errors(status: number, code: string, message: string, parameter?: string): Answer {
  return json(status, { errors: { code, message, ...(parameter === undefined ? {} : { parameter }) } });
}

function show(transfer: Transfer): WireObject {
  const { line, returns } = transfer;
  const [returned] = returns;
  return {
    id: transfer.id,
    object: 'payment_order',
    live_mode: false,
    type: at(line.extra, 'type'),
    amount: line.amount,
    currency: line.currency,
    direction: 'credit',
    originating_account_id: at(line.extra, 'originating_account_id'),
    receiving_account_id: line.destination.handle ?? `receiving_${line.destination.accountNumber.slice(-4)}`,
    description: line.memo,
    statement_descriptor: at(line.extra, 'statement_descriptor'),
    metadata: at(line.extra, 'metadata') ?? {},
    status: transfer.state,
    current_return:
      returned === undefined
        ? null
        : {
            id: returned.id,
            object: 'return',
            amount: returned.units,
            currency: line.currency,
            code: 'R02',
            reason: returned.reason,
            returnable_id: transfer.id,
            status: 'completed',
            created_at: returned.at.toISOString(),
          },
    created_at: transfer.at.toISOString(),
    updated_at: transfer.changedAt.toISOString(),
  };
}

export const modernTreasury: Profile = {
  name: 'modern-treasury',
  currency: 'USD',
  behaviour: {
    order: ['credential', 'decode', 'key', 'read', 'business', 'balance'],
    keyLengthMax: 255,
    keyScope: 'credential',
    retentionMs: DAY_MS,
    compares: 'no',
    keeps: 'successes',
    lookLagMs: 0,
  },
  lifecycle: ['approved', 'processing', 'sent', 'completed'],
  failedState: 'failed',
  returnedState: 'returned',
  ids: { transfer: 'po_', batch: 'req_' },

  classify: ({ method, path }) =>
    method === 'POST' && (path === BASE || path === ASYNC) ? 'create' : method === 'GET' ? 'look' : 'other',
  authorization: (secret) => basic(ORGANIZATION, secret),
  presented: (request) => basicOf(request)?.secret ?? null,
  decode: (request, desk) => decodeJson(request, () => modernTreasury.refuse('bad_request', desk)),
  key: (request) => ({ ok: true, key: headerKey(request) }),
  read(_request, body, desk) {
    const bad = (field: string) => ({
      ok: false as const,
      answer: modernTreasury.refuse('bad_request', desk, { field }),
    });
    const amount = wholeAt(body, 'amount');
    const currency = textAt(body, 'currency') ?? 'USD';
    const handle = textAt(body, 'receiving_account_id');
    const accountNumber = textAt(body, 'receiving_account', 'account_details', 0, 'account_number');
    const bankCode = textAt(body, 'receiving_account', 'routing_details', 0, 'routing_number');
    if (textAt(body, 'type') === null) return bad('type');
    if (amount === null || amount <= 0n) return bad('amount');
    if (textAt(body, 'direction') !== 'credit') return bad('direction');
    if (textAt(body, 'originating_account_id') === null) return bad('originating_account_id');
    if (handle === null && (accountNumber === null || bankCode === null)) return bad('receiving_account');
    const holder = textAt(body, 'receiving_account', 'party_name');
    const destination =
      handle === null
        ? { bankCode: bankCode ?? '', accountNumber: accountNumber ?? '', holder, handle: null }
        : desk.resolve(handle);
    if (destination === null) {
      return { ok: false, answer: modernTreasury.refuse('account_unknown', desk, { field: 'receiving_account_id' }) };
    }
    const metadata = at(body, 'metadata') ?? {};
    const first = isWireObject(metadata) ? Object.values(metadata)[0] : undefined;
    const reference = typeof first === 'string' ? first : null;
    const line = {
      reference,
      destination,
      amount,
      currency,
      memo: textAt(body, 'description'),
      extra: {
        type: at(body, 'type'),
        originating_account_id: at(body, 'originating_account_id'),
        statement_descriptor: at(body, 'statement_descriptor'),
        metadata,
      },
    };
    return { ok: true, order: { reference, lines: [line], extra: {} } };
  },
  accepted: ({ transfers, path }) =>
    json(path === ASYNC ? 202 : 201, transfers[0] === undefined ? null : show(transfers[0])),
  replayed: (stored) => stored,
  mismatch: () => errors(422, 'idempotency_key_mismatch', 'This key was used with other parameters.'),
  inProgress: () => errors(409, 'conflict', 'A request with this idempotency key is in progress.'),
  refuse: (reason, _desk, detail) => errors(...ERRORS[reason], reason.replaceAll('_', ' '), detail?.field),
  look({ path, query }, { transfers, shown }, desk) {
    const id = idUnder(path, BASE);
    if (id !== null) {
      const found = transfers.find((transfer) => transfer.id === id);
      return found === undefined ? modernTreasury.refuse('not_found', desk) : json(200, show(shown(found)));
    }
    if (path !== BASE) return modernTreasury.refuse('not_found', desk);
    const wanted = [...query].flatMap(([name, value]) => {
      const inner = /^metadata\[([^\]]+)\]$/.exec(name)?.[1];
      return inner === undefined ? [] : [[inner, value] as const];
    });
    const found = transfers.filter(({ line }) =>
      wanted.every(([name, value]) => at(line.extra, 'metadata', name) === value),
    );
    const page = Number(query.get('page') ?? 1);
    const size = Number(query.get('per_page') ?? PAGE_DEFAULT);
    return json(
      200,
      found
        .toReversed()
        .slice((page - 1) * size, page * size)
        .map((transfer) => show(shown(transfer))),
    );
  },
};
