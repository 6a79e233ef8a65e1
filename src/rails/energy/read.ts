/**
 * From a market's raw answer to an observation. Pure: the stored answer, the seal and the profile are all it sees. Default
 * `unreadable`.
 *
 * Order: how far the request got; whose answer it is; only then what it says. A status alone is never enough, a code or a
 * state without a row is unreadable, and a refusal is read from the answer to a send only. A refusal frees nothing by itself: a
 * market may have said no to what it then did, so its word is believed after lateness and a look that shows nothing.
 */
import type { Answer, Observation, ObservationKind, RailCost, SealedEffect } from '../../engine/rail.ts';
import { excerpt, isArray, isObject, longOf, parseLossless } from '../json.ts';
import { readAnswerBody } from './answer-body.ts';
import { readOrder, type SealedOrder } from './order.ts';
import type { CodeRow, MarketError, MarketOrder, MarketProfile, OrderMeaning } from './profile.ts';

/** Answers of a door-keeper or a gateway, whatever the body says: they come before the order is looked at. */
const DOOR = new Set([401, 403, 407, 408, 413, 415, 429, 502, 503, 504]);

type Told = Omit<Observation, 'source' | 'operator' | 'witness' | 'cost'> & { readonly cost?: RailCost };

interface Scene {
  readonly profile: MarketProfile;
  readonly answer: Answer;
  readonly order: SealedOrder;
  /** Sun: the effect's amount. */
  readonly priceMax: bigint;
  toCost(units: bigint): RailCost;
}

export function readMarketAnswer(profile: MarketProfile, answer: Answer, sealed: SealedEffect): Observation {
  const scene: Scene = {
    profile,
    answer,
    order: readOrder(sealed),
    priceMax: sealed.amount,
    toCost: (units) => ({ assetId: sealed.asset.id, payer: sealed.wallet, units }),
  };
  return { source: answer.source, operator: answer.operator, witness: false, cost: null, ...readAny(scene) };
}

function says(kind: ObservationKind, detail: string, rest: Partial<Told> = {}): Told {
  return { kind, detail, objectId: null, ...rest };
}

function readAny(scene: Scene): Told {
  const { profile, answer, order } = scene;
  if (answer.reach === 'withheld') return says('blocked', `not sent: ${excerpt(answer.body)}`);
  if (answer.reach === 'never_connected')
    return answer.operation === 'send'
      ? says('never_left', `no byte left: ${excerpt(answer.body)}`)
      : says('unreadable', `the look never left: ${excerpt(answer.body)}`);
  if (answer.reach !== 'answer' || answer.status === null)
    return says('unreadable', `${answer.reach}: ${excerpt(answer.body)}`);
  const kept = readAnswerBody(answer.body);
  if (kept === null) return says('unreadable', 'the stored answer is not one of this rail');
  const { status } = answer;
  if (DOOR.has(status)) return says('blocked', `HTTP ${status}: ${excerpt(kept.body)}`);
  const json = parseLossless(kept.body);
  if (json === undefined || (!isObject(json) && !isArray(json)))
    return says('unreadable', `HTTP ${status}, no JSON object: ${excerpt(kept.body)}`);
  if (status >= 200 && status <= 299) {
    const orders = profile.orders(json);
    if (orders === null) return says('unreadable', `HTTP ${status}, not an order: ${excerpt(kept.body)}`);
    return readOrders(scene, orders);
  }
  const error = profile.error(json);
  if (error === null) return says('unreadable', `HTTP ${status}, not an error we know: ${excerpt(kept.body)}`);
  if (error.clientOrderId !== null && error.clientOrderId !== order.clientOrderId)
    return says('unreadable', `HTTP ${status} ${error.code}: about another order, ${error.clientOrderId}`);
  return answer.operation === 'send'
    ? readRefusal(profile, status, error, kept.askedAfterMs)
    : readLookError(profile, status, error);
}

function readOrders(scene: Scene, orders: readonly MarketOrder[]): Told {
  const { profile, answer, order } = scene;
  const own = orders.filter((one) => one.clientOrderId === order.clientOrderId);
  const [first, second] = own;
  if (first === undefined) {
    if (answer.operation === 'look' && orders.length === 0) return says('not_found', 'the market knows no such order');
    return says('unreadable', 'an answer without our order in it');
  }
  if (second !== undefined) {
    const alive = own.filter((one) => meaningOf(profile, one) !== 'failed');
    return says('key_taken', `more than one order carries our id: ${own.map((one) => one.id ?? '?').join(', ')}`, {
      objectId: second.id,
      ...(alive.length > 1 ? { doubled: true } : {}),
    });
  }
  return judge(scene, first);
}

function meaningOf(profile: MarketProfile, { status }: MarketOrder): OrderMeaning | undefined {
  return status !== null && Object.hasOwn(profile.states, status) ? profile.states[status] : undefined;
}

function judge(scene: Scene, order: MarketOrder): Told {
  const { profile } = scene;
  const name = order.id ?? 'the order';
  const about = { objectId: order.id };
  const differs = difference(scene.order, order);
  if (differs !== null) return says('key_taken', `${name}: under our id, but ${differs}`, about);
  const detail = `${name} is ${order.status ?? '(no state)'}`;
  switch (meaningOf(profile, order)) {
    case 'delegated': {
      // Delivered, but not at what price: what would be booked is not known.
      const price = longOf(order.price ?? undefined);
      if (price === null || price === 0n) return says('accepted', `${detail}, and shows no price`, about);
      // Dearer than allowed it is paid all the same: what was taken is booked, and the flow tells people and orders no more.
      const over = price > scene.priceMax ? `, ordered for ${scene.priceMax} at most` : '';
      return says('final_success', `${detail} for ${price}${over}`, { ...about, cost: scene.toCost(price) });
    }
    case 'pending':
      return says('accepted', detail, about);
    case 'failed':
      return says('object_failed', detail, { ...about, keyStaysBound: profile.failedKeepsKey !== null });
    case undefined:
      return says('unreadable', `ours, but its state ${order.status ?? '(none)'} is not known`, about);
  }
}

/** What an order shows that is not what we ordered, in words; `null`: nothing. What is due and missing differs too. */
function difference(sealed: SealedOrder, order: MarketOrder): string | null {
  const due = [
    ['receiver', order.receiver, sealed.receiver],
    ['energy', order.energy, sealed.energy.toString()],
    ['duration', order.durationSeconds, sealed.durationSeconds.toString()],
  ] as const;
  const found = due.find(([, shown, wanted]) => shown !== wanted);
  return found === undefined ? null : `its ${found[0]} is ${found[1] ?? 'missing'}, not ${found[2]}`;
}

function rowOf(profile: MarketProfile, status: number, code: string): CodeRow | undefined {
  return profile.codes.find((row) => row.code === code && row.statuses.includes(status));
}

function readRefusal(profile: MarketProfile, status: number, error: MarketError, askedAfterMs: number): Told {
  const what = `HTTP ${status} ${error.code}`;
  const row = status >= 500 ? undefined : rowOf(profile, status, error.code);
  if (row === undefined) return says('unreadable', `${what} (a code that is not known)`);
  const { means } = row;
  if (means.reads !== 'refused') return says(means.reads, `${what} (${means.why})`);
  return says('refused', `${what} (${means.why})`, {
    refusal: {
      stage: means.afterKeyCheck === undefined ? 'unknown' : 'after_key_check',
      storedUnderKey: false,
      replayed: false,
      final: means.about === 'order' || askedAfterMs > profile.retryForMs,
      atOnce: false,
    },
  });
}

/** What is said against a look is about the look. */
function readLookError(profile: MarketProfile, status: number, error: MarketError): Told {
  const blocked = rowOf(profile, status, error.code)?.means.reads === 'blocked';
  return says(blocked ? 'blocked' : 'unreadable', `HTTP ${status} ${error.code}`);
}
