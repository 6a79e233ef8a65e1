/*
 * The provider behind the counter: one request in, one answer out, as its contract says (README of `payonce p2p`: docs/p2p.md).
 *
 * Promises: keys decide before anything else but the credential; a refusal is kept under its key; all that decides is decided in one
 * turn, so that two requests under one key never both open a trade. Never does: touch a socket.
 */
import type { Answer, BankRequest } from '../bank/profile.ts';
import { asOf, type EscrowBook, type Trade, unitsOf } from './book.ts';
import type { EscrowCall, EscrowFaultName, Refusal, TradeField } from './faults.ts';
import type { Stage } from './vocabulary.ts';

/** How the faults of this call bend what is done and shown. */
export type Bent = {
  readonly lagMs: number;
  readonly staleMs: number;
  readonly forgetKey: boolean;
  readonly blind: boolean;
  /** `name`: the fault to note; absent where the provider itself refuses. */
  readonly refuse: { readonly reason: Refusal; readonly stored: boolean; readonly name?: EscrowFaultName } | null;
  /** What is answered, and perhaps kept, in place of what was done. */
  readonly instead: {
    readonly answer: (trade: Trade | null) => Answer;
    readonly effect: boolean;
    readonly stored: boolean;
    readonly name: EscrowFaultName;
  } | null;
  readonly state: string | null;
  /** Another trade's words in these fields of the answer. */
  readonly foreign: readonly TradeField[];
};

export type CounterParts = {
  readonly book: EscrowBook;
  /** The provider's word for how this trade stands. */
  readonly wordOf: (trade: Trade) => string;
  readonly now: () => Date;
  readonly secretIsGood: (secret: string) => boolean;
  readonly keyRetentionMs: number;
  readonly note: (event: EscrowFaultName) => void;
  /** After each change that a caller asked for. */
  readonly changed: (trade: Trade) => void;
};

export type Counter = {
  /** Said before anything is decided, or `finish`: called once, now or when the work took its time. */
  begin(request: BankRequest, bent: Bent): Answer | { readonly finish: () => Answer };
};

type Entry = { readonly fingerprint: string; readonly at: number; answer: Answer | null; tradeId: string | null };
type Done = { readonly trade: Trade; readonly status: number };

const REPLAYED = { 'idempotent-replayed': 'true' };
const CANCELLABLE: ReadonlySet<Stage> = new Set(['created', 'escrowed']);
const CANCEL_PATH = /^\/v1\/trades\/([^/]+)\/cancel$/;
const TRADE_PATH = /^\/v1\/trades\/([^/]+)$/;
const STRANGERS: Readonly<Record<TradeField, string>> = {
  id: 'trd_of_somebody_else',
  reference: 'leg_of_somebody_else',
  asset: 'ELSE',
  amount: '1',
  fiat: 'ELS',
  fiat_amount: '1',
};

export function kindOf(request: BankRequest): EscrowCall {
  if (request.method === 'GET') return 'look';
  return request.path.endsWith('/cancel') ? 'cancel' : 'create';
}

export function jsonAnswer(status: number, body: object, headers: Readonly<Record<string, string>> = {}): Answer {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) };
}

export function makeCounter(parts: CounterParts): Counter {
  const { book, now, note } = parts;
  const keys = new Map<string, Entry>();

  const show = (trade: Trade, bent: Bent): object => {
    if (bent.state !== null) note('unknown_state');
    if (bent.foreign.length > 0) note('other_trade');
    return {
      id: trade.id,
      reference: trade.reference,
      asset: trade.asset,
      amount: trade.amount,
      fiat: trade.fiat,
      fiat_amount: trade.fiatAmount,
      price: trade.price,
      state: bent.state ?? parts.wordOf(trade),
      paid_marked_at: trade.paidMarkedAt?.toISOString() ?? null,
      payment: { bank_code: '088', account_number: `110-${trade.id.slice(-6)}`, holder_name: 'Liquidity Co' },
      released_amount: trade.releasedAmount,
      created_at: trade.openedAt.toISOString(),
      updated_at: trade.updatedAt.toISOString(),
      pay_by: trade.payBy,
      ...Object.fromEntries(bent.foreign.map((field) => [field, STRANGERS[field]])),
    };
  };

  /** As the replica knows it that answers this look. */
  const seen = (trade: Trade, { staleMs }: Bent): Trade | null => {
    if (staleMs === 0) return trade;
    const old = asOf(trade, new Date(now().getTime() - staleMs));
    if (old?.steps.length !== trade.steps.length) note('stale');
    return old;
  };

  const look = (request: BankRequest, bent: Bent): Answer => {
    const id = TRADE_PATH.exec(request.path)?.[1];
    if (id !== undefined) {
      const trade = book.get(decodeURIComponent(id));
      if (trade !== null && bent.blind) note('blind');
      const shown = trade === null || bent.blind ? null : seen(trade, bent);
      return shown === null ? jsonAnswer(404, { code: 'not_found' }) : jsonAnswer(200, { trade: show(shown, bent) });
    }
    if (request.path !== '/v1/trades') return jsonAnswer(404, { error: 'no such path' });
    const all = book.of(request.query.get('reference') ?? '');
    const listed = all.filter((trade) => trade.visibleAt <= now());
    if (bent.blind && all.length > 0) note('blind');
    else if (listed.length < all.length) note('lag');
    const shown = bent.blind ? [] : listed.flatMap((trade) => seen(trade, bent) ?? []);
    return jsonAnswer(200, { trades: shown.map((trade) => show(trade, bent)), has_more: false });
  };

  /** Does it, and says so or what the script says instead; what the key answers from now on is in the entry. */
  const carryOut = (bent: Bent, entry: Entry, act: () => Done): Answer => {
    const { instead } = bent;
    if (instead !== null) note(instead.name);
    if (instead !== null && !instead.effect) {
      const said = instead.answer(null);
      if (instead.stored) entry.answer = said;
      return said;
    }
    const { trade, status } = act();
    entry.tradeId = trade.id;
    parts.changed(trade);
    const said = instead?.answer(trade) ?? jsonAnswer(status, { trade: show(trade, bent) });
    // What a disguise showed once is not what the key keeps: a replay shows the trade as it is then.
    entry.answer = instead?.stored === true ? said : jsonAnswer(status, {});
    return said;
  };

  const refuse = ({ reason, stored, name }: NonNullable<Bent['refuse']>, entry: Entry): Answer => {
    if (name !== undefined) note(name);
    const said = refusal(reason);
    if (stored) entry.answer = said;
    return said;
  };

  const open = (request: BankRequest, bent: Bent, entry: Entry): Answer => {
    const asked = readOrder(request.body);
    if (asked === null) return refuse({ reason: 'bad_request', stored: true }, entry);
    if (bent.refuse !== null) return refuse(bent.refuse, entry);
    const key = request.headers['idempotency-key'] ?? null;
    return carryOut(bent, entry, () => ({ trade: book.open({ ...asked, key }, bent.lagMs), status: 201 }));
  };

  const cancel = (request: BankRequest, bent: Bent, entry: Entry): Answer => {
    const trade = book.get(decodeURIComponent(CANCEL_PATH.exec(request.path)?.[1] ?? ''));
    if (trade === null) return jsonAnswer(404, { code: 'not_found' });
    // It may be asked again: nothing is kept under the key.
    if (!CANCELLABLE.has(trade.stage)) return jsonAnswer(409, { code: 'not_cancellable', trade: show(trade, bent) });
    const key = request.headers['idempotency-key'] ?? null;
    return carryOut(bent, entry, () => ({
      trade: book.move(trade.id, { stage: 'cancelled', by: 'caller', key }),
      status: 200,
    }));
  };

  /** What is kept under this key and still counts. */
  const keptUnder = (key: string, bent: Bent): Entry | undefined => {
    const entry = keys.get(key);
    if (entry === undefined || entry.answer === null) return entry;
    const isOld = now().getTime() - entry.at >= parts.keyRetentionMs;
    if (!isOld && !bent.forgetKey) return entry;
    note(isOld ? 'key_expired' : 'forget_key');
    return undefined;
  };

  const replay = (entry: Entry, kept: Answer, bent: Bent): Answer => {
    note('replayed');
    const trade = entry.tradeId === null ? null : book.get(entry.tradeId);
    // A refusal stays what it was; a trade is shown as it is now.
    return kept.status >= 400 || trade === null
      ? { ...kept, headers: { ...kept.headers, ...REPLAYED } }
      : jsonAnswer(kept.status, { trade: show(trade, bent) }, REPLAYED);
  };

  return {
    begin(request, bent) {
      const secret = /^Bearer (.+)$/.exec(request.headers['authorization'] ?? '')?.[1] ?? '';
      if (!parts.secretIsGood(secret)) {
        if (secret !== '') note('stale_credential');
        return jsonAnswer(401, { code: 'unauthenticated' });
      }
      const kind = kindOf(request);
      if (kind === 'look') return look(request, bent);
      const isKnown = kind === 'create' ? request.path === '/v1/trades' : CANCEL_PATH.test(request.path);
      if (request.method !== 'POST' || !isKnown) return jsonAnswer(404, { error: 'no such path' });
      const key = request.headers['idempotency-key'];
      if (key === undefined || key === '') return jsonAnswer(400, { code: 'key_missing' });
      const fingerprint = `${request.path}\n${request.body.toString('utf8')}`;
      const kept = keptUnder(key, bent);
      if (kept !== undefined) {
        if (kept.fingerprint !== fingerprint)
          return jsonAnswer(409, { code: 'idempotency_mismatch', trade_id: kept.tradeId });
        return kept.answer === null ? jsonAnswer(409, { code: 'in_progress' }) : replay(kept, kept.answer, bent);
      }
      const taken: Entry = { fingerprint, at: now().getTime(), answer: null, tradeId: null };
      keys.set(key, taken);
      return {
        finish() {
          const done = kind === 'create' ? open(request, bent, taken) : cancel(request, bent, taken);
          if (taken.answer === null && keys.get(key) === taken) keys.delete(key);
          return done;
        },
      };
    },
  };
}

export function refusal(reason: Refusal | 'code_of_tomorrow'): Answer {
  return jsonAnswer(422, { code: reason, message: `refused: ${reason}` });
}

function readOrder(body: Buffer): Omit<Parameters<EscrowBook['open']>[0], 'key'> | null {
  let asked: unknown;
  try {
    asked = JSON.parse(body.toString('utf8'));
  } catch {
    return null;
  }
  const text = (name: string): string => {
    const value = (asked as Readonly<Record<string, unknown>> | null)?.[name];
    return typeof value === 'string' ? value : '';
  };
  const order = {
    reference: text('reference'),
    asset: text('asset'),
    amount: text('amount'),
    fiat: text('fiat'),
    fiatAmount: text('fiat_amount'),
    price: text('price'),
    payBy: text('pay_by'),
  };
  const isWhole = Object.values(order).every((one) => one !== '') && text('side') === 'buy';
  return isWhole && [order.amount, order.fiatAmount, order.price].every((one) => (unitsOf(one) ?? 0n) > 0n)
    ? order
    : null;
}
