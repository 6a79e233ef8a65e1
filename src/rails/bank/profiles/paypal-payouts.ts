/**
 * PayPal Payouts: a batch with lines. The batch is the effect; each line has its own truth (I2).
 *
 * The key is `sender_batch_id` in the body; a used one is refused with a link to the batch that stands under it, which means
 * "already submitted", never "failed". `SUCCESS` of a batch says nothing about a line. The document's advice on
 * `USER_BUSINESS_ERROR`, another id, pays twice and is not followed: without that link the code is unreadable. A request that
 * one line makes invalid is refused whole, before anything is accepted (M7).
 * The secret that the credential port gives is the access token.
 */
import type { Json } from '../../../engine/rail.ts';
import { formatUnits } from '../../../kernel/money.ts';
import { amountOf } from '../../amount-text.ts';
import { segment } from '../../base-url.ts';
import { isArray } from '../../json.ts';
import { DAY_MS, LATENESS_MS_MIN } from '../limits.ts';
import type { Profile, ProviderLine, ProviderObject } from '../profile.ts';
import { canonicalText } from '../../wire-json.ts';
import { registered } from './payees.ts';
import { at, NOTHING_SHOWN, text } from './shapes.ts';

const DOCS = 'developer.paypal.com/api/payments.payouts-batch/v1/payouts-post';
const ERRORS = 'developer.paypal.com/api/payments.payouts-batch/v1/errors';
/** An item is shown in about 1,100 bytes and its note: 50 stay well within what is kept of a page, and 100 of an answer. */
const PAGE_ITEMS = 50;
/** The provider takes 15,000. What cannot be read back whole could never settle, so no more are sent than that (see limits). */
const LINES_MAX = 100;

function toLine(item: Json): ProviderLine {
  const inner = at(item, 'payout_item');
  return {
    ref: text(inner, 'sender_item_id'),
    id: text(item, 'payout_item_id'),
    amount: amountOf(at(inner, 'amount', 'value'), 'major'),
    currency: text(inner, 'amount', 'currency'),
    receiver: text(inner, 'receiver'),
    state: text(item, 'transaction_status'),
  };
}

/** The batch that an error's link names. */
function linkedBatch(body: Json): string | null {
  const details = at(body, 'details');
  const links = [body, ...(isArray(details) ? details : [])].flatMap((from) => [at(from, 'links'), at(from, 'link')]);
  for (const list of links) {
    if (!isArray(list)) continue;
    for (const link of list) {
      const match = /\/payouts\/([A-Za-z0-9_-]{1,64})\/?$/.exec(text(link, 'href') ?? '');
      if (match !== null) return match[1] ?? null;
    }
  }
  return null;
}

function batchPath(id: string, page: number): string {
  return `/v1/payments/payouts/${segment(id)}?page=${page}&page_size=${PAGE_ITEMS}&total_required=true`;
}

export const paypalPayouts: Profile = {
  name: 'paypal-payouts',
  operator: 'paypal',
  key: {
    header: null,
    bodyPath: 'sender_batch_header.sender_batch_id',
    quoted: false,
    charactersMax: 256,
    charset: /^[\x21-\x7E]+$/,
  },
  scope: ['credential', 'base_url'],
  retentionMs: 30 * DAY_MS,
  retentionCite: `${DOCS}: 30 days`,
  latenessMs: LATENESS_MS_MIN,
  // Unclaimed money is given back after 30 days.
  decideWithinMs: 32 * DAY_MS,
  timeoutMs: 30_000,
  sameKeyOtherBody: 'error',
  replayMark: null,
  codes: [
    {
      statuses: [400, 409, 422],
      code: 'DUPLICATE_BATCH',
      means: { reads: 'key_taken', why: `a batch with our sender_batch_id exists (${DOCS})` },
    },
    {
      statuses: [400, 422],
      code: 'INSUFFICIENT_FUNDS',
      means: { reads: 'refused', why: 'not enough money at the provider', final: false },
    },
    {
      statuses: [400],
      code: 'VALIDATION_ERROR',
      means: { reads: 'refused', why: 'the whole request is refused, with no batch', final: true, atOnce: ERRORS },
    },
  ],
  failedKeepsKey: `${DOCS}: a sender_batch_id that was used in the last 30 days is refused`,
  paidMayFail: null,
  states: { PENDING: 'accepted', PROCESSING: 'accepted', SUCCESS: 'paid', DENIED: 'failed', CANCELED: 'failed' },
  lineStates: {
    SUCCESS: 'paid',
    FAILED: 'not_paid',
    PENDING: 'open',
    UNCLAIMED: 'open',
    ONHOLD: 'open',
    BLOCKED: 'open',
    RETURNED: 'came_back',
    REFUNDED: 'came_back',
    REVERSED: 'came_back',
  },
  // The batch's amount is the lines' sum, and those are compared one by one; the answer to a send shows neither.
  echoes: ['reference', 'lines'],
  echoesKeyInErrors: false,
  keepHeaders: [],
  lookUps: [
    {
      name: 'by_object',
      lagMs: null,
      path: ({ objectId }) => (objectId === null ? null : batchPath(objectId, 1)),
      next(page, { objectId }, pages) {
        const total = text(page, 'total_pages');
        if (total === null || objectId === null) return null;
        if (!/^[0-9]{1,6}$/.test(total)) return 'unknown';
        return pages < Number(total) ? { path: batchPath(objectId, pages + 1) } : null;
      },
      absent: [],
    },
  ],
  lookUp: false,
  currencies: null,
  amountUnitsMax: null,
  linesMax: LINES_MAX,
  payee: registered('a receiver’s e-mail address, phone number or PayPal id', /^[^\s<>"]{1,127}$/, {
    // The provider takes 1,000 characters; they are shown again in every look, see LINES_MAX.
    unitsMax: 140,
    unit: 'utf8',
    charset: 'any',
    required: false,
  }),
  auth: 'bearer',
  encryption: 'none',
  request(facts) {
    return {
      method: 'POST',
      path: '/v1/payments/payouts',
      headers: { 'content-type': 'application/json' },
      body: canonicalText({
        items: facts.lines.map((line) => ({
          amount: { currency: facts.currency, value: formatUnits(line.amount, facts.decimals) },
          note: line.payee.memo === '' ? undefined : line.payee.memo,
          receiver: line.payee.accountNumber,
          recipient_type: line.payee.accountNumber.includes('@') ? 'EMAIL' : 'PAYPAL_ID',
          sender_item_id: line.ref,
        })),
        sender_batch_header: { sender_batch_id: facts.key },
      }),
    };
  },
  objects(body) {
    const header = at(body, 'batch_header');
    const id = text(header, 'payout_batch_id');
    if (id === null) return null;
    const items = at(body, 'items');
    const object: ProviderObject = {
      ...NOTHING_SHOWN,
      id,
      reference: text(header, 'sender_batch_header', 'sender_batch_id'),
      state: text(header, 'batch_status'),
      lines: isArray(items) && items.length > 0 ? items.map(toLine) : null,
    };
    return [object];
  },
  error(body) {
    const name = text(body, 'name');
    if (name === null) return null;
    const objectId = linkedBatch(body);
    return {
      code: objectId === null ? name : 'DUPLICATE_BATCH',
      message: text(body, 'message') ?? '',
      objectId,
      key: null,
    };
  },
};
