/*
 * A liquidity provider with escrowed trades: a real HTTP server that keeps its own book, slow by choice, with the faults that
 * providers have.
 *
 * Promises: without a script it does what the contract says. Whatever happens on the wire, the book holds what really was opened and
 * released, and `counts` what really went wrong. Retention, lag, late delivery and what buyers do run on its own steerable clock.
 * Never does: decide at random without a seed, or look at how Payonce reads a provider.
 */
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type BankClock, makeBankClock } from '../bank/clock.ts';
import {
  type BankFault,
  type BankFaultRule,
  type CallKind,
  type FaultCounts,
  makeFaultPlan,
  nameOf,
} from '../bank/faults.ts';
import { makeIds } from '../bank/ids.ts';
import type { Answer, BankRequest } from '../bank/profile.ts';
import { breakOff, closeServer, gatewayPage, readBody, respond, respondGarbled, toRequest } from '../bank/respond.ts';
import { type EscrowBook, isOver, makeBook, type Trade } from './book.ts';
import { type Bent, kindOf, makeCounter, type Refusal } from './counter.ts';
import type { Stage, Vocabulary } from './vocabulary.ts';

/** Buyers and the provider by themselves, for demonstrations and loads. Shares are of trades, by their ordinal: every n-th. */
export type Auto = {
  readonly payAfterMs: number;
  readonly releaseAfterMs: number;
  /** Absent: none. */
  readonly everyDisputed?: number;
  readonly everyExpired?: number;
};

export type EscrowOptions = {
  readonly vocabulary?: Vocabulary;
  readonly seed?: number | string;
  readonly clock?: { readonly start?: Date | string; readonly ticking?: boolean };
  readonly faults?: readonly BankFaultRule[];
  /** Of each answer, in real time; may be changed at any time. Absent: 0. */
  readonly latencyMs?: number;
  readonly keyRetentionMs?: number;
  readonly auto?: Auto;
  /** Where each change of a trade is told, signed by the rules of Standard Webhooks. */
  readonly webhook?: { readonly url: string; readonly secret: string };
  readonly port?: number;
};

export type Escrow = {
  readonly url: string;
  readonly port: number;
  readonly secret: string;
  readonly book: EscrowBook;
  readonly counts: FaultCounts;
  readonly calls: Readonly<Record<CallKind, number>>;
  readonly clock: BankClock;
  /** Adds a rule; the returned function withdraws it. */
  script(rule: BankFaultRule): () => void;
  heal(): void;
  /** Of every answer from now on, 0 to 30,000 and more. */
  latency(ms: number): void;
  /** New trades are refused so from now on; `null`: they are opened. */
  refuse(reason: Refusal | null): void;
  /** What the buyer or the provider does with a trade. */
  readonly trades: {
    readonly markPaid: (id: string) => void;
    /** The whole, or so much of it (decimal text). */
    readonly release: (id: string, amount?: string) => void;
    readonly cancel: (id: string) => void;
    readonly expire: (id: string) => void;
    readonly dispute: (id: string) => void;
    readonly refund: (id: string) => void;
    readonly hold: (id: string) => void;
  };
  /** The old secret is refused from now on. Returns the new one. */
  rotate(): string;
  /** Requests are taken in, nothing is executed, as under SIGSTOP; `resume` executes them all. */
  pause(): void;
  resume(): void;
  down(): Promise<void>;
  up(): Promise<void>;
  stop(): Promise<void>;
};

const KEYS_KEPT_MS = 2 * 86_400_000;

export async function startEscrow(options: EscrowOptions = {}): Promise<Escrow> {
  const seed = String(options.seed ?? 0);
  const plan = makeFaultPlan(seed, options.faults ?? []);
  const clock = makeBankClock(new Date(options.clock?.start ?? Date.now()), options.clock?.ticking ?? true);
  const id = makeIds(`escrow\n${seed}`);
  const book = makeBook(clock.now, () => id('trd_'));
  let secret = id('lp_', 32);
  let latencyMs = options.latencyMs ?? 0;
  let refusing: Refusal | null = null;

  const tell = (trade: Trade): void => {
    if (options.webhook === undefined) return;
    const body = JSON.stringify({ type: 'trade.updated', trade_id: trade.id, reference: trade.reference });
    send(options.webhook, id('msg_'), clock.now(), body).catch(() => undefined);
  };
  const move = (tradeId: string, stage: Stage, by: 'buyer' | 'provider', amount?: string): void =>
    tell(book.move(tradeId, stage, by, amount));
  const playOut = (trade: Trade): void => {
    const { auto } = options;
    if (auto === undefined) return;
    const ordinal = book.trades().length;
    const isOf = (every: number | undefined): boolean => every !== undefined && ordinal % every === 0;
    const step = (ms: number, act: () => void): void =>
      clock.after(ms, () => {
        const now = book.get(trade.id);
        if (now !== null && !isOver(now)) act();
      });
    if (isOf(auto.everyExpired)) return step(auto.payAfterMs, () => move(trade.id, 'expired', 'provider'));
    step(auto.payAfterMs, () => move(trade.id, 'buyer_marked_paid', 'buyer'));
    step(auto.payAfterMs + auto.releaseAfterMs, () =>
      move(trade.id, isOf(auto.everyDisputed) ? 'disputed' : 'released', 'provider'),
    );
  };
  const counter = makeCounter({
    book,
    vocabulary: options.vocabulary ?? 'standard',
    now: clock.now,
    secretIsGood: (given) => given === secret,
    keyRetentionMs: options.keyRetentionMs ?? KEYS_KEPT_MS,
    note: plan.note,
    opened(trade) {
      tell(trade);
      playOut(trade);
    },
  });

  const execute = async (request: BankRequest, faults: readonly BankFault[]): Promise<Answer> => {
    const begun = counter.begin(request, bentBy(faults, refusing));
    if (!('finish' in begun)) return begun;
    const slow = pick(faults, 'slow');
    if (slow === null || slow.what === 'answer') return begun.finish();
    plan.note('slow');
    return new Promise((resolve) => clock.after(slow.ms, () => resolve(begun.finish())));
  };
  const executeLater = (ms: number, name: 'deliver_later' | 'deliver_twice', request: BankRequest): void =>
    clock.after(ms, () => {
      plan.note(name);
      execute(request, []).catch((error: unknown) =>
        setImmediate(() => {
          throw error;
        }),
      );
    });

  let awake: PromiseWithResolvers<void> | null = null;
  const wake = (): void => {
    awake?.resolve();
    awake = null;
  };
  const serve = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const request = toRequest(incoming, await readBody(incoming));
    if (awake !== null) await awake.promise;
    const { faults } = plan.next(kindOf(request), request);
    const lost = pick(faults, 'lose_request');
    if (lost !== null) {
      plan.note('lose_request');
      return breakOff(response, lost.how ?? 'reset');
    }
    const http = pick(faults, 'http');
    if (http !== null && http.effect !== true) {
      plan.note(nameOf(http));
      return respond(response, bare(http));
    }
    const late = pick(faults, 'deliver_later');
    if (late !== null) {
      executeLater(late.ms, 'deliver_later', request);
      return late.how === 504
        ? respond(response, gatewayPage(504, undefined))
        : breakOff(response, late.how ?? 'reset');
    }
    const conflict = pick(faults, 'conflict');
    if (conflict !== null && kindOf(request) === 'create') {
      plan.note(nameOf(conflict));
      return respond(response, inProgress());
    }
    const isGone = response.destroyed;
    const opened = book.trades().length;
    const answer = await execute(request, faults);
    if (isGone && book.trades().length > opened) plan.note('executed_for_nobody');
    const twice = pick(faults, 'deliver_twice');
    if (twice !== null) executeLater(twice.ms ?? 0, 'deliver_twice', request);
    if (latencyMs > 0) await sleep(latencyMs, undefined, { ref: false });
    await leave(response, http === null ? answer : bare(http), faults);
  };
  const leave = async (response: ServerResponse, answer: Answer, faults: readonly BankFault[]): Promise<void> => {
    const lost = pick(faults, 'lose_answer');
    if (lost !== null) {
      plan.note('lose_answer');
      return breakOff(response, lost.how ?? 'reset');
    }
    const slow = pick(faults, 'slow');
    if (slow?.what === 'answer') {
      plan.note('slow');
      await sleep(slow.ms, undefined, { ref: false });
    }
    const garbled = pick(faults, 'garble');
    if (garbled === null) return respond(response, answer);
    plan.note(nameOf(garbled));
    return respondGarbled(response, answer, garbled);
  };
  const listen = async (port: number): Promise<Server> => {
    const server = createServer((incoming, response) => {
      serve(incoming, response).catch(() => breakOff(response, 'fin'));
    });
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return server;
  };
  let server = await listen(options.port ?? 0);
  const { port } = server.address() as AddressInfo;

  return {
    url: `http://127.0.0.1:${port}`,
    port,
    get secret() {
      return secret;
    },
    book,
    counts: plan.counts,
    calls: plan.calls,
    clock,
    script: plan.add,
    heal() {
      plan.clear();
      refusing = null;
      wake();
    },
    latency(ms) {
      latencyMs = ms;
    },
    refuse(reason) {
      refusing = reason;
    },
    trades: {
      markPaid: (tradeId) => move(tradeId, 'buyer_marked_paid', 'buyer'),
      release: (tradeId, amount) => move(tradeId, 'released', 'provider', amount),
      cancel: (tradeId) => move(tradeId, 'cancelled', 'provider'),
      expire: (tradeId) => move(tradeId, 'expired', 'provider'),
      dispute: (tradeId) => move(tradeId, 'disputed', 'provider'),
      refund: (tradeId) => move(tradeId, 'refunded', 'provider'),
      hold: (tradeId) => move(tradeId, 'on_hold', 'provider'),
    },
    rotate() {
      secret = id('lp_', 32);
      return secret;
    },
    pause() {
      awake ??= Promise.withResolvers<void>();
    },
    resume: wake,
    down: async () => closeServer(server),
    async up() {
      server = await listen(port);
    },
    async stop() {
      wake();
      await closeServer(server);
      await sleep(0);
      clock.stop();
    },
  };
}

function bentBy(faults: readonly BankFault[], refusing: Refusal | null): Bent {
  const lie = pick(faults, 'lie');
  const refused = pick(faults, 'refuse');
  const unknown = pick(faults, 'unknown_state');
  const other = pick(faults, 'other_transfer');
  return {
    lagMs: pick(faults, 'lag')?.ms ?? 0,
    forgetKey: pick(faults, 'forget_key') !== null,
    blind: pick(faults, 'blind') !== null,
    refuse: refused === null ? refusing : 'no_liquidity',
    lie: lie === null ? null : 'no_liquidity',
    state: unknown === null ? null : (unknown.state ?? 'NEW_STATE_9'),
    foreign:
      other === null
        ? []
        : other.fields.flatMap((field) =>
            field === 'reference' || field === 'amount' ? [field] : field === 'currency' ? ['asset' as const] : [],
          ),
  };
}

function pick<Kind extends BankFault['kind']>(
  faults: readonly BankFault[],
  kind: Kind,
): Extract<BankFault, { kind: Kind }> | null {
  const found = faults.find((fault) => fault.kind === kind);
  return found === undefined ? null : (found as Extract<BankFault, { kind: Kind }>);
}

function bare(fault: Extract<BankFault, { kind: 'http' }>): Answer {
  if (fault.html === true) return gatewayPage(fault.status, fault.retryAfterS);
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (fault.retryAfterS !== undefined) headers['retry-after'] = String(fault.retryAfterS);
  return { status: fault.status, headers, body: JSON.stringify({ error: `status ${fault.status}` }) };
}

function inProgress(): Answer {
  return {
    status: 409,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ code: 'in_progress' }),
  };
}

/** Standard Webhooks: base64 HMAC-SHA-256 over id, seconds and body, under the decoded secret. */
async function send(
  to: { readonly url: string; readonly secret: string },
  id: string,
  at: Date,
  body: string,
): Promise<void> {
  const seconds = String(Math.floor(at.getTime() / 1_000));
  const key = Buffer.from(to.secret.replace(/^whsec_/, ''), 'base64');
  const signature = createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64');
  await fetch(to.url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': seconds,
      'webhook-signature': `v1,${signature}`,
    },
    body,
  });
}
