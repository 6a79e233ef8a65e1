/*
 * A market for energy: we have a prepaid balance there, order energy for an address under an order id of ours, and after a
 * while the market lends it on the chain, for as long as was paid.
 *
 *   GET  /v1/price?energy=65000&duration_s=3600   { "price_sun": "3900000" }
 *   POST /v1/orders   { "client_order_id", "receiver", "energy", "duration_s" }   201 the order · 200 it is there already ·
 *                     409 the id is another order's · 402 the balance is too small · 422 none to be had or a bad receiver
 *   GET  /v1/orders?client_order_id=…   { "orders": [ … ] }, empty where there is none
 *   GET  /v1/orders/{order_id}          404 where there is none
 *   GET  /v1/balance                    { "balance_sun": "…" }
 *   All with `authorization: Bearer <key>`. Amounts are decimal text in sun.
 *
 * Promises: one order id is paid once, unless a fault says otherwise, and the books say what was really paid and lent. Lends
 * from an account of its own by transactions on the chain: the energy is there with the next block.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Break } from '../bank/faults.ts';
import type { Answer } from '../bank/profile.ts';
import { breakOff, gatewayPage, readBody, respond } from '../bank/respond.ts';
import { isWireObject, parseWire, printWire, textAt, type Wire, wholeAt, type WireObject } from '../bank/wire-json.ts';
import { fromBase58, sha256, toBase58 } from './address.ts';
import { type FaultRule, makeFaultPlan } from './faults.ts';
import { MAIN_NET_PRICES, sunForEnergy } from './resources.ts';
import type { Tron } from './tron.ts';

export type EnergyFault =
  | { readonly kind: 'lose_request'; readonly how?: Break }
  | { readonly kind: 'lose_answer'; readonly how?: Break }
  | { readonly kind: 'slow'; readonly ms: number }
  | { readonly kind: 'http'; readonly status: number; readonly effect?: boolean }
  /** In its own words, and nothing is paid. */
  | { readonly kind: 'refuse'; readonly reason: 'no_supply' | 'insufficient_balance' | 'receiver_invalid' }
  /** The same words, and it is paid and lent. */
  | { readonly kind: 'lie'; readonly reason: 'no_supply' | 'insufficient_balance' }
  /** Paid, lent so much later. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** Paid, never lent, and it stays `accepted`. */
  | { readonly kind: 'never_lend' }
  /** Given up after so long, and paid back. */
  | { readonly kind: 'fail_later'; readonly ms: number }
  /** One order id, paid and lent twice. */
  | { readonly kind: 'double' }
  /** Taken back so long after it was lent, whatever was paid for. */
  | { readonly kind: 'take_back'; readonly afterMs: number }
  /** The look finds nothing, though it is there. */
  | { readonly kind: 'blind' };

export type EnergyCall = 'create' | 'look' | 'other';
type EnergyRequest = { readonly node: string; readonly path: string; readonly body: string };
export type EnergyFaultRule = FaultRule<EnergyCall, EnergyFault, EnergyRequest>;
type EnergyFaultName = EnergyFault['kind'];

export type EnergyOrder = {
  readonly orderId: string;
  readonly clientOrderId: string;
  /** Base58. */
  readonly receiver: string;
  readonly energy: bigint;
  readonly durationS: number;
  readonly priceSun: bigint;
  readonly at: Date;
  state: 'accepted' | 'lent' | 'ended' | 'failed';
  /** Ids on the chain. */
  lentBy: string | null;
  takenBackBy: string | null;
};

export type EnergyMarketOptions = {
  readonly tron: Tron;
  readonly seed?: number | string;
  readonly faults?: readonly EnergyFaultRule[];
  /** What we have there, sun. Absent: 10,000 TRX. */
  readonly balanceSun?: bigint;
  /** For one energy and day; a shorter time costs a share, at least a tenth. Absent: 60. */
  readonly sunPerEnergyDay?: bigint;
  /** From acceptance to the loan, on the chain's clock. Absent: 3 s. */
  readonly lendAfterMs?: number;
  readonly port?: number;
};

export type EnergyMarket = {
  readonly url: string;
  readonly port: number;
  readonly apiKey: string;
  /** The account that lends, base58. */
  readonly lender: string;
  readonly counts: Readonly<Partial<Record<EnergyFaultName, number>>>;
  readonly calls: Readonly<Partial<Record<EnergyCall, number>>>;
  script(rule: EnergyFaultRule): () => void;
  heal(): void;
  readonly books: {
    /** All that were ever paid, doubles too. */
    orders(): readonly EnergyOrder[];
    balanceSun(): bigint;
    /** What we paid it in all, less what was paid back. */
    paidSun(): bigint;
  };
  setBalance(sun: bigint): void;
  stop(): Promise<void>;
};

const BALANCE_SUN = 10_000_000_000n;
const LEND_AFTER_MS = 3_000;
const DAY_S = 86_400;
/** Less than this nobody rents. */
const ENERGY_MIN = 1_000n;
/** Enough for every order of a test. */
const LENDER_ENERGY = 10n ** 12n;
const CLIENT_ORDER_ID = /^[A-Za-z0-9_.:-]{1,64}$/;

export async function startEnergyMarket(options: EnergyMarketOptions): Promise<EnergyMarket> {
  const { tron } = options;
  const plan = makeFaultPlan<EnergyCall, EnergyFault, EnergyRequest, EnergyFaultName>(
    String(options.seed ?? 0),
    options.faults ?? [],
  );
  const secret = sha256(Buffer.from(`energy market ${options.seed ?? 0}`)).toString('hex');
  const apiKey = `em_${secret.slice(0, 32)}`;
  const lender = toBase58(`41${secret.slice(0, 40)}`);
  const perDay = options.sunPerEnergyDay ?? 60n;
  const orders: EnergyOrder[] = [];
  let balance = options.balanceSun ?? BALANCE_SUN;
  tron.fund(lender, BALANCE_SUN);
  tron.stake(lender, { energy: LENDER_ENERGY, bandwidth: 1_000_000n });

  const priceOf = (energy: bigint, durationS: number): bigint => {
    const share = (energy * perDay * BigInt(durationS)) / BigInt(DAY_S);
    const least = (energy * perDay) / 10n;
    return share > least ? share : least;
  };

  const later = (ms: number, task: () => void): void => tron.after(ms, task);

  const lend = (order: EnergyOrder, faults: readonly EnergyFault[]): void => {
    if (order.state !== 'accepted') return;
    const sun = sunForEnergy(order.energy, MAIN_NET_PRICES);
    order.lentBy = tron.act(lender, { kind: 'lend_energy', to: order.receiver, sun });
    order.state = 'lent';
    const takeBack = pick(faults, 'take_back');
    later(takeBack?.afterMs ?? order.durationS * 1_000, () => {
      if (takeBack !== null) plan.note('take_back');
      order.takenBackBy = tron.act(lender, { kind: 'take_energy_back', to: order.receiver, sun });
      order.state = 'ended';
    });
  };

  const accept = (wanted: Wanted, faults: readonly EnergyFault[]): EnergyOrder => {
    const orderId = `eo_${sha256(Buffer.from(`${secret} ${orders.length}`))
      .toString('hex')
      .slice(0, 24)}`;
    const priceSun = priceOf(wanted.energy, wanted.durationS);
    const rest = { orderId, priceSun, at: tron.clock.now(), lentBy: null, takenBackBy: null };
    const order: EnergyOrder = { ...wanted, ...rest, state: 'accepted' };
    orders.push(order);
    balance -= priceSun;
    const failLater = pick(faults, 'fail_later');
    if (pick(faults, 'never_lend') !== null) plan.note('never_lend');
    else if (failLater !== null) {
      plan.note('fail_later');
      later(failLater.ms, () => {
        order.state = 'failed';
        balance += priceSun;
      });
    } else {
      const delay = pick(faults, 'delay');
      if (delay !== null) plan.note('delay');
      later(delay?.ms ?? options.lendAfterMs ?? LEND_AFTER_MS, () => lend(order, faults));
    }
    return order;
  };

  const create = (body: Wire, faults: readonly EnergyFault[]): Answer => {
    const wanted = readWanted(body);
    if (wanted === null) return answer(400, { error: 'malformed' });
    const before = orders.find(({ clientOrderId }) => clientOrderId === wanted.clientOrderId);
    if (before !== undefined) {
      const same =
        before.receiver === wanted.receiver && before.energy === wanted.energy && before.durationS === wanted.durationS;
      return same ? answer(200, print(before)) : answer(409, { error: 'client_order_id_used', order: print(before) });
    }
    const refuse = pick(faults, 'refuse');
    if (refuse !== null) {
      plan.note('refuse');
      return refusal(refuse.reason);
    }
    if (fromBase58(wanted.receiver) === null) return refusal('receiver_invalid');
    if (balance < priceOf(wanted.energy, wanted.durationS)) return refusal('insufficient_balance');
    const order = accept(wanted, faults);
    if (pick(faults, 'double') !== null) {
      plan.note('double');
      accept(wanted, []);
    }
    const lie = pick(faults, 'lie');
    if (lie === null) return answer(201, print(order));
    plan.note('lie');
    return refusal(lie.reason);
  };

  const look = (target: URL, faults: readonly EnergyFault[]): Answer => {
    const blind = pick(faults, 'blind') !== null;
    const byId = /^\/v1\/orders\/([^/]+)$/.exec(target.pathname)?.[1];
    const clientId = target.searchParams.get('client_order_id');
    const found = orders.filter((order) =>
      byId === undefined ? order.clientOrderId === clientId : order.orderId === byId,
    );
    if (blind && found.length > 0) plan.note('blind');
    const shown = blind ? [] : found.map(print);
    if (byId === undefined) return answer(200, { orders: shown });
    return shown[0] === undefined ? answer(404, { error: 'not_found' }) : answer(200, shown[0]);
  };

  const execute = (request: Incoming, faults: readonly EnergyFault[]): Answer => {
    if (request.authorization !== `Bearer ${apiKey}`) return answer(401, { error: 'unauthorized' });
    const { target } = request;
    if (request.kind === 'create') return create(parseWire(request.body) ?? null, faults);
    if (request.kind === 'look') return look(target, faults);
    if (target.pathname === '/v1/balance') return answer(200, { balance_sun: balance.toString() });
    if (target.pathname !== '/v1/price') return answer(404, { error: 'not_found' });
    const energy = BigInt(target.searchParams.get('energy') ?? '0');
    const durationS = Number(target.searchParams.get('duration_s') ?? DAY_S);
    return answer(200, { price_sun: priceOf(energy, durationS).toString() });
  };

  const serve = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = (await readBody(incoming)).toString('utf8');
    const target = new URL(incoming.url ?? '/', 'http://market');
    const isOrder = target.pathname.startsWith('/v1/orders');
    const kind: EnergyCall = !isOrder ? 'other' : incoming.method === 'POST' ? 'create' : 'look';
    const faults = plan.next(kind, { node: 'market', path: target.pathname, body });
    const request: Incoming = { kind, target, body, authorization: incoming.headers.authorization ?? '' };
    const lost = pick(faults, 'lose_request');
    if (lost !== null) {
      plan.note('lose_request');
      return breakOff(response, lost.how ?? 'reset');
    }
    const bare = pick(faults, 'http');
    if (bare !== null) {
      plan.note('http');
      if (bare.effect === true) execute(request, faults);
      return respond(response, gatewayPage(bare.status, undefined));
    }
    const said = execute(request, faults);
    const slow = pick(faults, 'slow');
    if (slow !== null) {
      plan.note('slow');
      await sleep(slow.ms);
    }
    const unanswered = pick(faults, 'lose_answer');
    if (unanswered === null) return respond(response, said);
    plan.note('lose_answer');
    return breakOff(response, unanswered.how ?? 'reset');
  };

  const server = createServer((incoming, response) => {
    // A caller that leaves in the middle of its own request is no error of the market's.
    serve(incoming, response).catch(() => breakOff(response, 'fin'));
  });
  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;

  return {
    url: `http://127.0.0.1:${port}`,
    port,
    apiKey,
    lender,
    counts: plan.counts,
    calls: plan.calls,
    script: plan.add,
    heal: plan.clear,
    books: {
      orders: () => orders,
      balanceSun: () => balance,
      paidSun: () => orders.reduce((sum, { state, priceSun }) => (state === 'failed' ? sum : sum + priceSun), 0n),
    },
    setBalance(sun) {
      balance = sun;
    },
    async stop() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

type Incoming = {
  readonly kind: EnergyCall;
  readonly target: URL;
  readonly body: string;
  readonly authorization: string;
};

type Wanted = Pick<EnergyOrder, 'clientOrderId' | 'receiver' | 'energy' | 'durationS'>;

function readWanted(body: Wire): Wanted | null {
  const clientOrderId = textAt(body, 'client_order_id');
  const receiver = textAt(body, 'receiver');
  const energy = wholeAt(body, 'energy');
  const durationS = Number(wholeAt(body, 'duration_s') ?? 0n);
  if (!isWireObject(body) || clientOrderId === null || !CLIENT_ORDER_ID.test(clientOrderId)) return null;
  if (receiver === null || energy === null || energy < ENERGY_MIN || durationS < 1) return null;
  return { clientOrderId, receiver, energy, durationS };
}

function print(order: EnergyOrder): WireObject {
  return {
    order_id: order.orderId,
    client_order_id: order.clientOrderId,
    receiver: order.receiver,
    energy: order.energy,
    duration_s: BigInt(order.durationS),
    price_sun: order.priceSun.toString(),
    status: order.state,
    created_at: order.at.toISOString(),
    ...(order.lentBy === null ? {} : { delegate_txid: order.lentBy }),
    ...(order.takenBackBy === null ? {} : { undelegate_txid: order.takenBackBy }),
  };
}

function refusal(reason: 'no_supply' | 'insufficient_balance' | 'receiver_invalid'): Answer {
  return answer(reason === 'insufficient_balance' ? 402 : 422, { error: reason });
}

function answer(status: number, body: Wire): Answer {
  return { status, headers: { 'content-type': 'application/json; charset=utf-8' }, body: printWire(body) };
}

function pick<K extends EnergyFault['kind']>(
  faults: readonly EnergyFault[],
  kind: K,
): Extract<EnergyFault, { kind: K }> | null {
  return faults.find((fault): fault is Extract<EnergyFault, { kind: K }> => fault.kind === kind) ?? null;
}
