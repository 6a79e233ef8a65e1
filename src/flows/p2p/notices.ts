/**
 * What comes in at `POST /v1/inbound/{source}` about legs.
 *
 * A source named `payments-…` tells of payments to sellers' accounts, as a bank shows them (M13): what it signs counts towards a leg.
 * `{"type":"payment.received","data":{"payment_id","reference","fiat","fiat_amount"}}`, the amount as decimal text; the reference is the
 * payer's own text, with the leg's id in it. A source named `escrow-…` tells of trades: a hint to look now, and never more, since a
 * provider's word counts only where it was asked. What cannot be read waits, and becomes a person's.
 */
import type { Query, Tx } from '../../db/pool.ts';
import type { Handler, InboxEvent } from '../../inbox/work.ts';
import { parseAmount } from '../../kernel/money.ts';
import type { DeskDeps } from './desk.ts';
import { countPayment, type PaymentNotice } from './payments.ts';

/** Whose notices are payments. */
export const PAYMENT_SOURCE = 'payments-';
/** Whose notices are hints about trades. */
export const TRADE_SOURCE = 'escrow-';

const LEG_ID = /leg_[0-9a-z]{26}/;

// The leg's own: groups may write one currency in different units, and an amount read by another's would be a hundred times too much.
const DECIMALS = `select coalesce(
  (select o.fiat_decimals
   from payonce.p2p_legs g
   join payonce.p2p_deposit_orders o on o.id = g.deposit_order_id
   where g.id = $2
     and o.fiat = $1),
  (select max(m.fiat_decimals) from payonce.p2p_markets m where m.fiat = $1)) as fiat_decimals`;

export function makePaymentHandler(deps: DeskDeps): Handler {
  return async (event, tx) => {
    const notice = await readNotice(tx, event);
    if (notice === null) return 'unmatched';
    await countPayment(tx, deps, notice);
    return 'done';
  };
}

/** `null`: it cannot be read as a payment. */
async function readNotice(query: Query, event: InboxEvent): Promise<PaymentNotice | null> {
  let body: unknown;
  try {
    body = JSON.parse(event.body.toString('utf8'));
  } catch {
    return null;
  }
  if (typeof body !== 'object' || body === null || !('type' in body) || body.type !== 'payment.received') return null;
  const data = 'data' in body ? body.data : null;
  if (typeof data !== 'object' || data === null) return null;
  const text = (name: string): string | null => {
    const value = (data as Readonly<Record<string, unknown>>)[name];
    return typeof value === 'string' && value !== '' && value.length <= TEXT_CHARACTERS_MAX && !CONTROL.test(value)
      ? value
      : null;
  };
  const [externalId, reference, fiat] = [text('payment_id'), text('reference'), text('fiat')];
  if (externalId === null || reference === null || fiat === null) return null;
  const named = LEG_ID.exec(reference)?.[0] ?? reference;
  const [market] = (await query.query<{ fiat_decimals: number | null }>(DECIMALS, [fiat, named])).rows;
  if (market === undefined || market.fiat_decimals === null) return null;
  const amount = parseAmount(text('fiat_amount'), market.fiat_decimals);
  if (!amount.ok || amount.units === 0n) return null;
  return {
    source: event.source,
    externalId,
    reference: named,
    fiat,
    fiatAmount: amount.units,
    written: text('fiat_amount') ?? '',
  };
}

/** Of ids and references, which banks keep far shorter. */
const TEXT_CHARACTERS_MAX = 200;
const CONTROL = /[\p{Cc}\p{Cs}]/u;

const HURRY = `update payonce.effects
set next_at = payonce.now()
where subject_type in ('p2p_leg', 'p2p_cancel')
  and subject_id = any ($1::text[])
  and state = 'SEALED'
  and lease_until is null`;

/** More than one event of a provider names. */
const LEGS_NAMED_MAX = 100;

export function makeTradeHints(wake: () => void): Handler {
  return async (event: InboxEvent, tx: Tx) => {
    const named = event.body.toString('utf8').match(new RegExp(LEG_ID, 'g')) ?? [];
    if (named.length > 0) await tx.query(HURRY, [[...new Set(named)].slice(0, LEGS_NAMED_MAX)]);
    tx.afterCommit(wake);
    return 'done';
  };
}
