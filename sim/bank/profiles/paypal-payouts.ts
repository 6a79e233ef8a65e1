/*
 * PayPal Payouts: a batch with lines.
 *
 * From its documents: the key is `sender_batch_header.sender_batch_id` in the body, good for 30 days. A second batch under it
 * is refused, the same body or not: 400 USER_BUSINESS_ERROR, "Batch with given sender_batch_id already exists", with a link
 * to the first. A batch with one invalid item is refused as a whole (400 VALIDATION_ERROR, case M7). The state of a batch
 * says nothing about an item: PENDING, SUCCESS, FAILED, RETURNED, UNCLAIMED, ONHOLD, BLOCKED, REFUNDED, REVERSED. After a
 * 5xx the same id may be sent again. The header PayPal-Request-Id was seen not to deduplicate batches, so nobody reads it.
 * Only batches are kept, so a refusal leaves the id free. Not in the documents, chosen here: a second request while the
 * first runs gets the duplicate's words without the link; how a partial return shows (RETURNED, the amount on statements).
 *
 *   POST /v1/oauth2/token                 basic client:secret → { access_token }; the secret itself is a good bearer too
 *   POST /v1/payments/payouts             { sender_batch_header: { sender_batch_id, … }, items: [{ recipient_type, amount:
 *                                         { currency, value: "12.50" }, receiver, note?, sender_item_id? }] } → 201
 *   GET  /v1/payments/payouts/{payout_batch_id}, GET /v1/payments/payouts-item/{payout_item_id}
 */
import { fixedDecimal, readDecimal } from '../amounts.ts';
import type { Answer, Desk, Profile, Refusal } from '../profile.ts';
import type { Batch, Line, Transfer } from '../transfer.ts';
import { at, isWireObject, textAt, type Wire, type WireObject } from '../wire-json.ts';
import { basicOf, bearerOf, DAY_MS, decodeJson, idUnder, json } from './pieces.ts';

const BASE = '/v1/payments/payouts';
const ITEMS = '/v1/payments/payouts-item';
const TOKEN = '/v1/oauth2/token';
const RETENTION_MS = 30 * DAY_MS;
const ITEMS_MAX = 15_000;
const TOKEN_SECONDS = 32_400n;

const ERRORS: Readonly<Record<Refusal, readonly [status: number, name: string]>> = {
  insufficient_funds: [422, 'INSUFFICIENT_FUNDS'],
  account_unknown: [422, 'RECEIVER_ACCOUNT_INVALID'],
  account_closed: [422, 'RECEIVER_ACCOUNT_LOCKED'],
  limit: [422, 'EXCEEDS_SENDING_LIMIT'],
  closed_hours: [422, 'TRANSACTION_NOT_ALLOWED'],
  duplicate_payment: [400, 'USER_BUSINESS_ERROR'],
  bad_request: [400, 'VALIDATION_ERROR'],
  unauthenticated: [401, 'AUTHENTICATION_FAILURE'],
  forbidden: [403, 'AUTHORIZATION_ERROR'],
  rate_limited: [429, 'RATE_LIMIT_REACHED'],
  maintenance: [503, 'SERVICE_UNAVAILABLE'],
  not_found: [404, 'RESOURCE_NOT_FOUND'],
  key_missing: [400, 'VALIDATION_ERROR'],
  key_bad: [400, 'VALIDATION_ERROR'],
  new_key_please: [400, 'USER_BUSINESS_ERROR'],
  internal: [500, 'INTERNAL_ERROR'],
  unheard_of: [422, 'TIDAL_LOCK_DETECTED'],
};

function error(status: number, name: string, message: string, details: Wire[] = []): Answer {
  return json(status, {
    name,
    message,
    debug_id: 'debug0000000000',
    information_link: `https://developer.paypal.com/docs/api/payments.payouts-batch/#errors`,
    details,
  });
}

function duplicate(batch: Batch | null, desk: Desk | null): Answer {
  const link =
    batch === null || desk === null
      ? {}
      : { link: [{ href: `${desk.url}${BASE}/${batch.id}`, rel: 'self', method: 'GET' }] };
  return error(400, 'USER_BUSINESS_ERROR', 'User business error.', [
    { field: 'SENDER_BATCH_ID', location: 'body', issue: 'Batch with given sender_batch_id already exists', ...link },
  ]);
}

const OPEN = new Set(['PENDING', 'ONHOLD']);

function header({ id, key, at: created, order }: Batch, transfers: readonly Transfer[]): WireObject {
  const open = transfers.some(({ state }) => OPEN.has(state));
  const denied = transfers.every(({ state }) => state === 'FAILED');
  return {
    payout_batch_id: id,
    batch_status: denied ? 'DENIED' : open ? 'PENDING' : 'SUCCESS',
    time_created: created.toISOString(),
    sender_batch_header: { ...order.extra, sender_batch_id: key },
  };
}

function money(units: bigint, currency: string): WireObject {
  return { value: fixedDecimal(units, currency), currency };
}

function item(transfer: Transfer, desk: Desk): WireObject {
  const { id, line, batch, state, failure, changedAt } = transfer;
  return {
    payout_item_id: id,
    transaction_id: id.replace('ITM', 'TXN'),
    transaction_status: state,
    payout_batch_id: batch.id,
    sender_batch_id: batch.key,
    payout_item_fee: money(0n, line.currency),
    payout_item: {
      recipient_type: at(line.extra, 'recipient_type'),
      amount: money(line.amount, line.currency),
      note: line.memo,
      receiver: line.destination.handle,
      sender_item_id: line.reference,
    },
    time_processed: changedAt.toISOString(),
    ...(failure === null ? {} : { errors: { name: failure.toUpperCase(), message: failure.replaceAll('_', ' ') } }),
    links: [{ href: `${desk.url}${ITEMS}/${id}`, rel: 'item', method: 'GET' }],
  };
}

function readItem(one: Wire, desk: Desk): Line | { field: string } {
  const currency = textAt(one, 'amount', 'currency') ?? '';
  const value = textAt(one, 'amount', 'value');
  const amount = value === null ? null : readDecimal(value, currency);
  const receiver = textAt(one, 'receiver');
  if (amount === null || amount === 0n) return { field: 'amount' };
  const destination = receiver === null || receiver === '' ? null : desk.resolve(receiver);
  if (destination === null) return { field: 'receiver' };
  const extra = { recipient_type: at(one, 'recipient_type') };
  return { reference: textAt(one, 'sender_item_id'), destination, amount, currency, memo: textAt(one, 'note'), extra };
}

export const paypalPayouts: Profile = {
  name: 'paypal-payouts',
  currency: 'USD',
  behaviour: {
    order: ['credential', 'decode', 'read', 'key', 'business', 'balance'],
    keyLengthMax: 256,
    keyScope: 'account',
    retentionMs: RETENTION_MS,
    compares: 'canonical',
    keeps: 'successes',
    lookLagMs: 0,
  },
  lifecycle: ['PENDING', 'SUCCESS'],
  failedState: 'FAILED',
  returnedState: 'RETURNED',
  ids: { transfer: 'ITM', batch: 'BAT' },

  classify: ({ method, path }) => (method === 'POST' && path === BASE ? 'create' : method === 'GET' ? 'look' : 'other'),
  authorization: (secret) => ({ authorization: `Bearer ${secret}` }),
  presented: bearerOf,
  decode: (request, desk) => decodeJson(request, () => paypalPayouts.refuse('bad_request', desk)),
  key: (_request, body) => ({ ok: true, key: textAt(body, 'sender_batch_header', 'sender_batch_id') }),
  read(_request, body, desk) {
    const senderHeader = at(body, 'sender_batch_header');
    const items = at(body, 'items');
    if (!isWireObject(senderHeader) || !Array.isArray(items) || items.length === 0 || items.length > ITEMS_MAX) {
      return { ok: false, answer: paypalPayouts.refuse('bad_request', desk, { field: 'items' }) };
    }
    const lines: Line[] = [];
    const faults: Wire[] = [];
    for (const [place, one] of items.entries()) {
      const line = readItem(one, desk);
      if ('field' in line) {
        faults.push({ field: `items[${place}].${line.field}`, location: 'body', issue: `${line.field} is invalid` });
      } else lines.push(line);
    }
    if (faults.length > 0) {
      return { ok: false, answer: error(400, 'VALIDATION_ERROR', 'Invalid request - see details', faults) };
    }
    return { ok: true, order: { reference: textAt(senderHeader, 'sender_batch_id'), lines, extra: senderHeader } };
  },
  accepted(batch, desk) {
    const href = `${desk.url}${BASE}/${batch.id}`;
    return json(201, {
      batch_header: header(batch, batch.transfers),
      links: [{ href, rel: 'self', method: 'GET', encType: 'application/json' }],
    });
  },
  replayed: (_stored, batch, desk) => duplicate(batch, desk),
  mismatch: (_stored, batch, desk) => duplicate(batch, desk),
  inProgress: () => duplicate(null, null),
  refuse(reason, _desk, detail) {
    const [status, name] = ERRORS[reason];
    if (reason === 'new_key_please') return error(status, name, 'Try again with a different sender_batch_id.');
    return error(
      status,
      name,
      reason.replaceAll('_', ' '),
      detail?.field === undefined ? [] : [{ field: detail.field }],
    );
  },
  look({ path }, { transfers, shown }, desk) {
    const itemId = idUnder(path, ITEMS);
    if (itemId !== null) {
      const found = transfers.find((transfer) => transfer.id === itemId);
      return found === undefined ? paypalPayouts.refuse('not_found', desk) : json(200, item(shown(found), desk));
    }
    const batchId = idUnder(path, BASE);
    const found = transfers.filter(({ batch }) => batch.id === batchId).map(shown);
    const [first] = found;
    if (first === undefined) return paypalPayouts.refuse('not_found', desk);
    return json(200, {
      batch_header: header(first.batch, found),
      items: found.map((transfer) => item(transfer, desk)),
      total_items: BigInt(found.length),
      total_pages: 1n,
    });
  },
  other(request, desk) {
    if (request.path !== TOKEN || request.method !== 'POST') return paypalPayouts.refuse('not_found', desk);
    const secret = basicOf(request)?.secret ?? null;
    if (secret === null || !desk.credentialIsGood(secret)) {
      return json(401, { error: 'invalid_client', error_description: 'Client Authentication failed' });
    }
    const token = desk.id('A21AA', 40);
    desk.grant(token);
    return json(200, { access_token: token, token_type: 'Bearer', expires_in: TOKEN_SECONDS });
  },
};
