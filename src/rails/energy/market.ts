/**
 * A market at which orders go by the client's own id. Its contract, on which this profile stands:
 *
 * `POST /v1/orders {client_order_id, receiver, energy, duration_s}`: 201 the new order, 200 the same order again when one of
 * that id and content is there already, 409 where the id is another content's. The id is looked for before anything else is
 * checked. Refusals store nothing: 402 for the balance, 422 for stock or a wrong receiver, 400 for a malformed order.
 * `GET /v1/orders?client_order_id=` lists what carries an id, none where there is none. `accepted`: paid, not lent yet;
 * `lent` and `ended`: it was lent; `failed`: given up, paid back, and the id stays its own.
 * `GET /v1/price?energy=&duration_s=`, `GET /v1/balance`: sun as text. An order shows what it took as `price_sun`.
 */
import type { Json } from '../../engine/rail.ts';
import { field, isArray, isObject, textOf } from '../json.ts';
import { DAY_MS, LATENESS_MS_MIN, RETRY_FOR_MS } from './limits.ts';
import type { CodeRow, MarketError, MarketOrder, MarketProfile, OrderFacts } from './profile.ts';

const CONTRACT = 'the contract of this profile, in its head';
const BASE = '/v1/orders';

const CODES: readonly CodeRow[] = [
  {
    statuses: [409],
    code: 'client_order_id_used',
    means: { reads: 'key_taken', why: 'the id stands for another order' },
  },
  {
    statuses: [402],
    code: 'insufficient_balance',
    means: { reads: 'refused', why: 'the prepaid balance is too small', about: 'now', afterKeyCheck: CONTRACT },
  },
  {
    statuses: [422],
    code: 'no_supply',
    means: { reads: 'refused', why: 'no energy to be had', about: 'now', afterKeyCheck: CONTRACT },
  },
  {
    statuses: [422],
    code: 'receiver_invalid',
    means: { reads: 'refused', why: 'the receiver is refused', about: 'order', afterKeyCheck: CONTRACT },
  },
  // Refused before the id is looked at.
  { statuses: [400], code: 'malformed', means: { reads: 'refused', why: 'the order is refused', about: 'order' } },
];

function toOrder(item: Json): MarketOrder {
  const text = (name: string): string | null => textOf(field(item, name));
  return {
    id: text('order_id'),
    clientOrderId: text('client_order_id'),
    receiver: text('receiver'),
    energy: text('energy'),
    durationSeconds: text('duration_s'),
    price: text('price_sun'),
    status: text('status'),
  };
}

function toOrders(body: Json): readonly MarketOrder[] | null {
  const items = field(body, 'orders');
  if (isArray(items)) return items.map(toOrder);
  return isObject(body) && textOf(field(body, 'order_id')) !== null ? [toOrder(body)] : null;
}

function toError(body: Json): MarketError | null {
  const code = textOf(field(body, 'error'));
  // Where it shows the order that has the id, that is ours by id and another's by content.
  return code === null ? null : { code, clientOrderId: textOf(field(field(body, 'order'), 'client_order_id')) };
}

function toBody({ clientOrderId, receiver, energy, durationSeconds }: OrderFacts): string {
  // Figures as their digits: no number stands between.
  return `{"client_order_id":${JSON.stringify(clientOrderId)},"duration_s":${durationSeconds},"energy":${energy},"receiver":${JSON.stringify(receiver)}}`;
}

export const energyMarket: MarketProfile = {
  name: 'market',
  operator: 'energy-market',
  keyCharactersMax: 64,
  // Its contract sets no end; what is asked after so long is looked at and not sent.
  retentionMs: DAY_MS,
  retentionCite: CONTRACT,
  latenessMs: LATENESS_MS_MIN,
  decideWithinMs: 2 * LATENESS_MS_MIN,
  timeoutMs: 10_000,
  retryForMs: RETRY_FOR_MS,
  codes: CODES,
  states: { accepted: 'pending', lent: 'delegated', ended: 'delegated', failed: 'failed' },
  failedKeepsKey: CONTRACT,
  auth: 'bearer',
  orderPath: BASE,
  body: toBody,
  lookPath: (clientOrderId) => `${BASE}?client_order_id=${encodeURIComponent(clientOrderId)}`,
  orders: toOrders,
  error: toError,
  pricePath: (energy, durationSeconds) => `/v1/price?energy=${energy}&duration_s=${durationSeconds}`,
  balancePath: '/v1/balance',
  price: (body) => textOf(field(body, 'price_sun')),
  balance: (body) => textOf(field(body, 'balance_sun')),
};
