/*
 * A bank without idempotency: each request that it takes is a payment, the same reference or not. What was made is found by
 * reference, and only after a lag: its look-up reads a replica (cases B15, B3).
 *
 *   POST /transfers               { reference, bankCode, accountNumber, holderName, amount: "1000", currency, memo? }
 *   GET  /transfers/{transferId}
 *   GET  /transfers?reference=    { transfers: [...] }
 */
import { fixedDecimal, readDecimal } from '../amounts.ts';
import type { Answer, Profile, Refusal } from '../profile.ts';
import type { Transfer } from '../transfer.ts';
import { textAt, type WireObject } from '../wire-json.ts';
import { decodeJson, idUnder, json } from './pieces.ts';

const BASE = '/transfers';
/** The end-to-end reference of most bank files. */
const REFERENCE_LENGTH_MAX = 35;
/** A replica a minute and a half behind, as in case B3. */
const LOOK_LAG_MS = 90_000;

const CODES: Readonly<Record<Refusal, readonly [number, string]>> = {
  insufficient_funds: [400, 'E1001'],
  account_unknown: [400, 'E2001'],
  account_closed: [400, 'E2002'],
  limit: [400, 'E1002'],
  closed_hours: [400, 'E3001'],
  duplicate_payment: [400, 'E1003'],
  bad_request: [400, 'E0001'],
  unauthenticated: [401, 'E9001'],
  forbidden: [403, 'E9003'],
  rate_limited: [429, 'E9029'],
  maintenance: [503, 'E9503'],
  not_found: [404, 'E0404'],
  key_missing: [400, 'E0001'],
  key_bad: [400, 'E0001'],
  new_key_please: [409, 'E1009'],
  internal: [500, 'E9500'],
  unheard_of: [400, 'E7777'],
};

function fault(status: number, code: string, message: string): Answer {
  return json(status, { code, message });
}

function show(transfer: Transfer): WireObject {
  const { line, returns } = transfer;
  return {
    transferId: transfer.id,
    reference: line.reference,
    status: transfer.state,
    bankCode: line.destination.bankCode,
    accountNumber: line.destination.accountNumber,
    holderName: line.destination.holder,
    amount: fixedDecimal(line.amount, line.currency),
    currency: line.currency,
    requestedAt: transfer.at.toISOString(),
    failureReason: transfer.failure,
    returns: returns.flatMap((each) =>
      Array.from({ length: each.reports }, () => ({
        returnId: each.id,
        amount: fixedDecimal(each.units, line.currency),
        fee: fixedDecimal(each.feeUnits, line.currency),
        reason: each.reason,
        returnedAt: each.at.toISOString(),
      })),
    ),
  };
}

export const unkeyed: Profile = {
  name: 'unkeyed',
  currency: 'KRW',
  behaviour: {
    order: ['credential', 'decode', 'key', 'read', 'business', 'balance'],
    keyLengthMax: 0,
    keyScope: 'account',
    retentionMs: 0,
    compares: 'no',
    keeps: 'successes',
    lookLagMs: LOOK_LAG_MS,
  },
  lifecycle: ['ACCEPTED', 'SENT', 'COMPLETED'],
  failedState: 'FAILED',
  returnedState: 'RETURNED',
  ids: { transfer: 'T', batch: 'R' },

  classify: ({ method, path }) => (method === 'POST' && path === BASE ? 'create' : method === 'GET' ? 'look' : 'other'),
  authorization: (secret) => ({ 'x-api-key': secret }),
  presented: ({ headers }) => headers['x-api-key'] ?? null,
  decode: (request, desk) => decodeJson(request, () => unkeyed.refuse('bad_request', desk)),
  // Whatever a client sends as a key is a header that nobody reads.
  key: () => ({ ok: true, key: null }),
  read(_request, body, desk) {
    const bad = (field: string) => ({ ok: false as const, answer: unkeyed.refuse('bad_request', desk, { field }) });
    const reference = textAt(body, 'reference');
    const currency = textAt(body, 'currency') ?? 'KRW';
    const text = textAt(body, 'amount');
    const amount = text === null ? null : readDecimal(text, currency);
    const bankCode = textAt(body, 'bankCode');
    const accountNumber = textAt(body, 'accountNumber');
    if (reference === null || reference.length > REFERENCE_LENGTH_MAX) return bad('reference');
    if (amount === null || amount === 0n) return bad('amount');
    if (bankCode === null || bankCode === '') return bad('bankCode');
    if (accountNumber === null || !/^[0-9]{4,34}$/.test(accountNumber)) return bad('accountNumber');
    const line = {
      reference,
      destination: { bankCode, accountNumber, holder: textAt(body, 'holderName'), handle: null },
      amount,
      currency,
      memo: textAt(body, 'memo'),
      extra: {},
    };
    return { ok: true, order: { reference, lines: [line], extra: {} } };
  },
  accepted: ({ transfers }) => json(200, transfers[0] === undefined ? null : show(transfers[0])),
  replayed: (stored) => stored,
  mismatch: (_stored, _batch, desk) => unkeyed.refuse('duplicate_payment', desk),
  inProgress: () => fault(409, 'E1010', 'A transfer with this reference is being processed.'),
  refuse: (reason, _desk, detail) => fault(...CODES[reason], detail?.field ?? reason.replaceAll('_', ' ')),
  look({ path, query }, { transfers, shown }, desk) {
    const id = idUnder(path, BASE);
    if (id !== null) {
      const found = transfers.find((transfer) => transfer.id === id);
      return found === undefined ? unkeyed.refuse('not_found', desk) : json(200, show(shown(found)));
    }
    if (path !== BASE) return unkeyed.refuse('not_found', desk);
    const reference = query.get('reference');
    const found = transfers.filter(({ line }) => (reference ?? line.reference) === line.reference);
    return json(200, { transfers: found.map((transfer) => show(shown(transfer))) });
  },
};
