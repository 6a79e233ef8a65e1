/*
 * The provider behind the counter: one request in, one answer out, as its contract says (README of `payonce p2p`: docs/p2p.md).
 *
 * Promises: keys decide before anything else but the credential; a refusal is kept under its key; all that decides is decided in one
 * turn, so that two requests under one key never both open a trade. Never does: touch a socket.
 */
import type { Answer, BankRequest } from '../bank/profile.ts';
import type { EscrowBook, Trade } from './book.ts';
import { isOver } from './book.ts';
import { type Vocabulary, VOCABULARY } from './vocabulary.ts';

export type Refusal = 'no_liquidity' | 'amount_out_of_range' | 'market_closed' | 'bad_request' | 'account_disabled';

/** How the faults of this call bend what is done and shown. */
export type Bent = {
  readonly lagMs: number;
  readonly forgetKey: boolean;
  readonly blind: boolean;
  readonly refuse: Refusal | null;
  /** It opens, and says that it refused. */
  readonly lie: Refusal | null;
  readonly state: string | null;
  /** Another trade's words in these fields of the answer. */
  readonly foreign: readonly ('reference' | 'amount' | 'fiat_amount' | 'asset')[];
};

export type CounterEvents =
  | 'replayed'
  | 'key_expired'
  | 'forget_key'
  | 'lag'
  | 'blind'
  | 'refuse'
  | 'lie'
  | 'stale_credential'
  | 'unknown_state'
  | 'other_transfer';

export type CounterParts = {
  readonly book: EscrowBook;
  readonly vocabulary: Vocabulary;
  readonly now: () => Date;
  readonly secretIsGood: (secret: string) => boolean;
  readonly keyRetentionMs: number;
  readonly note: (event: CounterEvents) => void;
  readonly opened: (trade: Trade) => void;
};

export type Counter = {
  /** Said before anything is decided; `null`: go on to `finish`, now or when the work took its time. */
  begin(request: BankRequest, bent: Bent): Answer | { readonly finish: () => Answer };
};

type Entry = { readonly fingerprint: string; readonly at: number; answer: Answer | null; tradeId: string | null };

const REPLAYED = { 'idempotent-replayed': 'true' };
/** Below and above this a trade is none of this provider's. */
const AMOUNT = /^(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,30})?$/;

export function kindOf(request: BankRequest): 'create' | 'look' | 'other' {
  if (request.method === 'GET') return 'look';
  return request.path.endsWith('/cancel') ? 'other' : 'create';
}

export function makeCounter(parts: CounterParts): Counter {
  const { book, now, note } = parts;
  const keys = new Map<string, Entry>();

  const show = (trade: Trade, bent: Bent): object => {
    if (bent.state !== null) note('unknown_state');
    if (bent.foreign.length > 0) note('other_transfer');
    const foreign = Object.fromEntries(
      bent.foreign.map((field) => [
        field,
        field === 'asset' ? 'ELSE' : field === 'reference' ? 'leg_of_somebody_else' : '1',
      ]),
    );
    return {
      id: trade.id,
      reference: trade.reference,
      asset: trade.asset,
      amount: trade.amount,
      fiat: trade.fiat,
      fiat_amount: trade.fiatAmount,
      price: trade.price,
      state: bent.state ?? VOCABULARY[parts.vocabulary][trade.stage],
      paid_marked_at: trade.paidMarkedAt?.toISOString() ?? null,
      payment: { bank_code: '088', account_number: `110-${trade.id.slice(-6)}`, holder_name: 'Liquidity Co' },
      released_amount: trade.releasedAmount,
      created_at: trade.openedAt.toISOString(),
      updated_at: trade.updatedAt.toISOString(),
      pay_by: trade.payBy,
      ...foreign,
    };
  };
  const answer = (status: number, body: object, headers: Readonly<Record<string, string>> = {}): Answer => ({
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });

  const look = (request: BankRequest, bent: Bent): Answer => {
    const [, id] = /^\/v1\/trades\/([^/]+)$/.exec(request.path) ?? [];
    if (id !== undefined) {
      const trade = book.get(decodeURIComponent(id));
      if (trade !== null && bent.blind) note('blind');
      return trade === null || bent.blind
        ? answer(404, { code: 'not_found' })
        : answer(200, { trade: show(trade, bent) });
    }
    if (request.path !== '/v1/trades') return answer(404, { error: 'no such path' });
    const all = book.of(request.query.get('reference') ?? '');
    const seen = all.filter((trade) => trade.visibleAt <= now());
    if (bent.blind && all.length > 0) note('blind');
    else if (seen.length < all.length) note('lag');
    return answer(200, { trades: bent.blind ? [] : seen.map((trade) => show(trade, bent)), has_more: false });
  };

  const open = (request: BankRequest, bent: Bent, entry: Entry): Answer => {
    const asked = readOrder(request.body);
    const refused = asked === null ? 'bad_request' : bent.refuse;
    if (refused !== null) {
      if (bent.refuse !== null) note('refuse');
      entry.answer = answer(422, { code: refused, message: `refused: ${refused}` });
      return entry.answer;
    }
    const trade = book.open(
      { ...(asked as NonNullable<typeof asked>), key: request.headers['idempotency-key'] ?? null },
      bent.lagMs,
    );
    entry.tradeId = trade.id;
    parts.opened(trade);
    if (bent.lie === null) {
      entry.answer = answer(201, { trade: show(trade, { ...bent, state: null, foreign: [] }) });
      return answer(201, { trade: show(trade, bent) });
    }
    note('lie');
    entry.answer = answer(422, { code: bent.lie });
    return entry.answer;
  };

  const cancel = (request: BankRequest, bent: Bent, entry: Entry): Answer => {
    const [, id = ''] = /^\/v1\/trades\/([^/]+)\/cancel$/.exec(request.path) ?? [];
    const trade = book.get(decodeURIComponent(id));
    if (trade === null) return answer(404, { code: 'not_found' });
    if (trade.stage !== 'created' && trade.stage !== 'escrowed') {
      // It may be asked again: nothing is kept under the key.
      return answer(409, {
        code: isOver(trade) && trade.stage === 'cancelled' ? 'cancelled' : 'not_cancellable',
        trade: show(trade, bent),
      });
    }
    entry.tradeId = trade.id;
    const done = book.move(trade.id, 'cancelled', 'caller');
    entry.answer = answer(200, { trade: show(done, bent) });
    return entry.answer;
  };

  return {
    begin(request, bent) {
      const secret = /^Bearer (.+)$/.exec(request.headers['authorization'] ?? '')?.[1] ?? '';
      if (!parts.secretIsGood(secret)) {
        if (secret !== '') note('stale_credential');
        return answer(401, { code: 'unauthenticated' });
      }
      const kind = kindOf(request);
      if (kind === 'look') return look(request, bent);
      const key = request.headers['idempotency-key'];
      if (key === undefined || key === '') return answer(400, { code: 'key_missing' });
      const fingerprint = `${request.path}\n${request.body.toString('utf8')}`;
      let entry = keys.get(key);
      if (entry !== undefined && entry.answer !== null && now().getTime() - entry.at >= parts.keyRetentionMs) {
        note('key_expired');
        entry = undefined;
      }
      if (entry !== undefined && entry.answer !== null && bent.forgetKey) {
        note('forget_key');
        entry = undefined;
      }
      if (entry === undefined) {
        const taken: Entry = { fingerprint, at: now().getTime(), answer: null, tradeId: null };
        keys.set(key, taken);
        return {
          finish() {
            const done = kind === 'create' ? open(request, bent, taken) : cancel(request, bent, taken);
            if (taken.answer === null && keys.get(key) === taken) keys.delete(key);
            return done;
          },
        };
      }
      if (entry.fingerprint !== fingerprint)
        return answer(409, { code: 'idempotency_mismatch', trade_id: entry.tradeId });
      if (entry.answer === null) return answer(409, { code: 'in_progress' });
      note('replayed');
      const trade = entry.tradeId === null ? null : book.get(entry.tradeId);
      // A refusal stays what it was; a trade is shown as it is now.
      return entry.answer.status >= 400 || trade === null
        ? { ...entry.answer, headers: { ...entry.answer.headers, ...REPLAYED } }
        : answer(entry.answer.status, { trade: show(trade, bent) }, REPLAYED);
    },
  };
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
  return isWhole && [order.amount, order.fiatAmount, order.price].every((one) => AMOUNT.test(one)) ? order : null;
}
