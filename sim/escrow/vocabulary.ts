/*
 * The words in which providers tell how a trade stands (their documents, as far as they are public). Ours are on the left; a provider
 * that has no word of its own for a stage says the one before it.
 */
export type Stage =
  | 'created'
  | 'escrowed'
  | 'buyer_marked_paid'
  | 'releasing'
  | 'on_hold'
  | 'released'
  | 'cancelled'
  | 'expired'
  | 'disputed'
  | 'refunded';

export type Vocabulary = 'standard' | 'binance-c2c' | 'bybit-p2p' | 'trustap' | 'rapyd-escrow' | 'transak';

const words = (
  created: string,
  escrowed: string,
  marked: string,
  releasing: string,
  onHold: string,
  released: string,
  cancelled: string,
  expired: string,
  disputed: string,
  refunded: string,
): Readonly<Record<Stage, string>> => ({
  created,
  escrowed,
  buyer_marked_paid: marked,
  releasing,
  on_hold: onHold,
  released,
  cancelled,
  expired,
  disputed,
  refunded,
});

export const VOCABULARY: Readonly<Record<Vocabulary, Readonly<Record<Stage, string>>>> = {
  standard: words(
    'created',
    'escrowed',
    'buyer_marked_paid',
    'releasing',
    'on_hold',
    'released',
    'cancelled',
    'expired',
    'disputed',
    'refunded',
  ),
  'binance-c2c': words(
    'PENDING',
    'TRADING',
    'BUYER_PAYED',
    'DISTRIBUTING',
    'DISTRIBUTING',
    'COMPLETED',
    'CANCELLED',
    'CANCELLED_BY_SYSTEM',
    'IN_APPEAL',
    'IN_APPEAL',
  ),
  'bybit-p2p': words('5', '10', '20', '60', '60', '50', '40', '40', '30', '80'),
  trustap: words(
    'created',
    'joined',
    'paid',
    'delivered',
    'tracked',
    'funds_released',
    'cancelled',
    'cancelled',
    'complained',
    'payment_refunded',
  ),
  'rapyd-escrow': words(
    'pending',
    'pending',
    'pending',
    'pending',
    'on_hold',
    'released',
    'canceled',
    'canceled',
    'on_hold',
    'canceled',
  ),
  transak: words(
    'AWAITING_PAYMENT_FROM_USER',
    'AWAITING_PAYMENT_FROM_USER',
    'PAYMENT_DONE_MARKED_BY_USER',
    'PROCESSING',
    'ON_HOLD_PENDING_DELIVERY_FROM_TRANSAK',
    'COMPLETED',
    'CANCELLED',
    'EXPIRED',
    'ON_HOLD_PENDING_DELIVERY_FROM_TRANSAK',
    'REFUNDED',
  ),
};
