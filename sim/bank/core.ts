/*
 * The bank behind the counter: one request in, one answer out, in the order of checks that the profile gives.
 *
 * Promises: all that decides is decided in one turn, so that two requests under one key never both pass; what runs longer
 * holds its key as in progress. Books move in `finish` only.
 * Never does: touch a socket. What is lost or garbled on the way is the server's part.
 */
import type { FaultName } from './faults.ts';
import type { BankBooks } from './books.ts';
import { type KeyEntry, makeKeyStore, slotOf } from './keys.ts';
import type { Answer, BankRequest, Behaviour, Desk, Profile, Refusal } from './profile.ts';
import type { Batch, Order, Transfer } from './transfer.ts';
import { canonicalWire, type Wire } from './wire-json.ts';

/** How the faults of this call bend what the bank does. */
export type Shape = {
  readonly balanceFirst: boolean;
  readonly forgetKey: boolean;
  /** Read as the last of the business rules. */
  readonly refuse: { readonly reason: Refusal; readonly stored: boolean | undefined; readonly name: FaultName } | null;
  /** What is answered, and perhaps kept, in place of the acceptance. */
  readonly instead: {
    readonly answer: (batch: Batch | null) => Answer;
    readonly effect: boolean;
    readonly stored: boolean | undefined;
    readonly name: FaultName;
  } | null;
  readonly lagMs: number;
  readonly disguise: (transfer: Transfer) => Transfer;
  readonly onAccepted: (batch: Batch) => void;
};

export type Outcome =
  | { readonly kind: 'answer'; readonly answer: Answer }
  /** All checks passed. `finish` is called once, now or when the work took its time. */
  | { readonly kind: 'work'; readonly finish: () => Answer };

export type Core = {
  readonly create: (request: BankRequest, shape: Shape) => Outcome;
  readonly look: (
    request: BankRequest,
    disguise: (transfer: Transfer) => Transfer,
    blind: boolean,
    lagged: () => void,
  ) => Answer;
  readonly other: (request: BankRequest) => Answer;
};

export type CoreParts = {
  readonly profile: Profile;
  readonly behaviour: Behaviour;
  readonly books: BankBooks;
  readonly desk: Desk;
  readonly note: (name: FaultName) => void;
  /** What the bank's directory has against this line, if anything. */
  readonly objection: (order: Order) => Refusal | null;
};

type Asked = { body: Wire; plain: string; key: string | null; order: Order; entry: KeyEntry | null };

export function makeCore({ profile, behaviour, books, desk, note, objection }: CoreParts): Core {
  const keys = makeKeyStore(behaviour, () => desk.now().getTime());

  const unknownCredential = (request: BankRequest): Answer | null => {
    const secret = profile.presented(request);
    if (secret !== null && desk.credentialIsGood(secret)) return null;
    if (secret !== null) note('stale_credential');
    return profile.refuse('unauthenticated', desk);
  };

  /** Keeps or forgets what a check after the key said. */
  const refused = (asked: Asked, answer: Answer, stored: boolean | undefined): Answer => {
    if (asked.entry === null) return answer;
    if (stored ?? behaviour.keeps === 'all') asked.entry.answer = answer;
    else keys.drop(asked.entry);
    return answer;
  };

  const takeKey = (request: BankRequest, asked: Asked, shape: Shape): Answer | null => {
    const read = profile.key(request, asked.body);
    if (!read.ok) return read.answer;
    if (read.key === null) return null;
    if (read.key.length > behaviour.keyLengthMax) return profile.refuse('key_bad', desk);
    asked.key = read.key;
    const slot = slotOf(behaviour, read.key, profile.presented(request) ?? '', request.path);
    const fingerprint = behaviour.compares === 'raw' ? asked.plain : `${request.path}\n${canonicalWire(asked.body)}`;
    const found = keys.find(slot);
    let { entry } = found;
    if (found.expired) note('key_expired');
    if (entry !== null && entry.answer !== null && shape.forgetKey) {
      keys.drop(entry);
      note('forget_key');
      entry = null;
    }
    if (entry === null) {
      asked.entry = keys.take(slot, fingerprint);
      return null;
    }
    if (entry.answer === null) return profile.inProgress();
    note('replayed');
    if (behaviour.compares !== 'no' && entry.fingerprint !== fingerprint) {
      return profile.mismatch(entry.answer, entry.batch, desk);
    }
    const batch = entry.batch === null ? null : disguised(entry.batch, shape);
    const stored = batch === null || batch === entry.batch ? entry.answer : profile.accepted(batch, desk);
    return profile.replayed(stored, batch, desk);
  };

  const keyIsTaken = (request: BankRequest, body: Wire): boolean => {
    const read = profile.key(request, body);
    if (!read.ok || read.key === null) return false;
    return keys.find(slotOf(behaviour, read.key, profile.presented(request) ?? '', request.path)).entry !== null;
  };

  const short = (order: Order): boolean => {
    const wanted = new Map<string, bigint>();
    for (const { currency, amount } of order.lines) wanted.set(currency, (wanted.get(currency) ?? 0n) + amount);
    return [...wanted].some(([currency, units]) => desk.available(currency) < units);
  };

  const work = (request: BankRequest, asked: Asked, shape: Shape): Answer => {
    const { entry, key, order } = asked;
    const { instead } = shape;
    if (instead !== null) note(instead.name);
    if (instead !== null && !instead.effect) return refused(asked, instead.answer(null), instead.stored);
    const batch = books.accept(profile, key, request.path, order, Math.max(behaviour.lookLagMs, shape.lagMs));
    shape.onAccepted(batch);
    const acceptance = profile.accepted(batch, desk);
    const answer = instead === null ? profile.accepted(disguised(batch, shape), desk) : instead.answer(batch);
    if (entry !== null) {
      entry.batch = batch;
      const keepsInstead = instead !== null && (instead.stored ?? behaviour.keeps === 'all');
      entry.answer = keepsInstead ? answer : acceptance;
    }
    return answer;
  };

  return {
    create(request, shape) {
      const asked: Asked = {
        body: null,
        plain: '',
        key: null,
        order: { reference: null, lines: [], extra: {} },
        entry: null,
      };
      for (const stage of stagesOf(behaviour, shape.balanceFirst)) {
        switch (stage) {
          case 'credential': {
            const answer = unknownCredential(request);
            if (answer !== null) return { kind: 'answer', answer };
            break;
          }
          case 'decode': {
            const read = profile.decode(request, desk);
            if (!read.ok) return { kind: 'answer', answer: read.answer };
            asked.body = read.body;
            asked.plain = read.plain;
            break;
          }
          case 'key': {
            const answer = takeKey(request, asked, shape);
            if (answer !== null) return { kind: 'answer', answer };
            break;
          }
          case 'read': {
            const read = profile.read(request, asked.body, desk);
            if (!read.ok) return { kind: 'answer', answer: refused(asked, read.answer, undefined) };
            asked.order = read.order;
            break;
          }
          case 'business': {
            const own = objection(asked.order);
            const reason = own ?? shape.refuse?.reason ?? null;
            if (reason === null) break;
            if (own === null && shape.refuse !== null) note(shape.refuse.name);
            const stored = own === null ? shape.refuse?.stored : undefined;
            return { kind: 'answer', answer: refused(asked, profile.refuse(reason, desk), stored) };
          }
          case 'balance': {
            if (!short(asked.order)) break;
            if (asked.entry === null && keyIsTaken(request, asked.body)) note('balance_first');
            return { kind: 'answer', answer: refused(asked, profile.refuse('insufficient_funds', desk), undefined) };
          }
        }
      }
      return { kind: 'work', finish: () => work(request, asked, shape) };
    },

    look(request, disguise, blind, lagged) {
      const barred = unknownCredential(request);
      if (barred !== null) return barred;
      const now = desk.now();
      const all = books.all();
      const seen = blind ? [] : all.filter(({ visibleFrom }) => visibleFrom <= now);
      const answer = profile.look(request, { transfers: seen, shown: disguise }, desk);
      if (seen.length < all.length) {
        const full = profile.look(request, { transfers: all, shown: disguise }, desk);
        if (full.body !== answer.body) lagged();
      }
      return answer;
    },

    other(request) {
      return profile.other?.(request, desk) ?? profile.refuse('not_found', desk);
    },
  };
}

function stagesOf({ order }: Behaviour, balanceFirst: boolean): Behaviour['order'] {
  const place = order.indexOf('key');
  if (!balanceFirst || place < 0) return order;
  // A balance can only be compared with an order that was read.
  const moved = order.filter((stage) => stage !== 'balance' && stage !== 'read');
  const key = moved.indexOf('key');
  return [...moved.slice(0, key), 'read', 'balance', ...moved.slice(key)];
}

/** The same batch where nothing is disguised, so that a caller can tell by identity. */
function disguised(batch: Batch, shape: Shape): Batch {
  const transfers = batch.transfers.map((transfer) => shape.disguise(transfer));
  if (transfers.every((transfer, place) => transfer === batch.transfers[place])) return batch;
  const [first] = transfers;
  const order = { ...batch.order, reference: first?.line.reference ?? null, lines: transfers.map(({ line }) => line) };
  return { ...batch, key: first?.batch.key ?? batch.key, order, transfers };
}
