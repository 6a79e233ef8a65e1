/*
 * A liquidity provider with escrowed trades: a real HTTP server that keeps its own book, slow by choice, with the faults that
 * providers have.
 *
 * Promises: without a script it does what the contract says. Whatever happens on the wire, the book holds what really was opened and
 * released, and `counts` what really went wrong. Retention, lag, late delivery and what buyers do run on its own steerable clock;
 * latency is real time.
 * Never does: decide at random without a seed, or look at how Payonce reads a provider.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type BankClock, makeBankClock } from '../bank/clock.ts';
import { makeIds } from '../bank/ids.ts';
import { breakOff, closeServer, readBody, toRequest } from '../bank/respond.ts';
import { type EscrowBook, isOver, makeBook, type Move, type NewTrade, type Trade } from './book.ts';
import { makeCounter } from './counter.ts';
import { makeEscrowDoor } from './door.ts';
import {
  type EscrowCall,
  type EscrowFaultCounts,
  type EscrowFaultRule,
  makeEscrowPlan,
  type Refusal,
} from './faults.ts';
import { type Stage, type Vocabulary, VOCABULARY } from './vocabulary.ts';
import { makeWebhooks, type Webhooks, type WebhookTarget } from './webhooks.ts';

/** Buyers and the provider by themselves, for demonstrations and loads. Shares are of trades, by their ordinal: every n-th. */
export type Auto = {
  readonly payAfterMs: number;
  readonly releaseAfterMs: number;
  /** Absent: none. */
  readonly everyDisputed?: number;
  /** Never paid. Absent: none. */
  readonly everyExpired?: number;
};

/** Of answers, in real time: of all, or by the kind of call; a kind that is left out stays as it is. */
export type Latency = number | Readonly<Partial<Record<EscrowCall, number>>>;

export type EscrowOptions = {
  readonly vocabulary?: Vocabulary;
  /** Absent: 0. Rules with a chance draw from it, ids come from it. */
  readonly seed?: number | string;
  /** Absent: it starts with real time and runs with it. `ticking: false` stands still between steps. */
  readonly clock?: { readonly start?: Date | string; readonly ticking?: boolean };
  readonly faults?: readonly EscrowFaultRule[];
  /** May be changed at any time. Absent: 0. */
  readonly latencyMs?: Latency;
  /** Absent: two days. */
  readonly keyRetentionMs?: number;
  readonly auto?: Auto;
  /** Where each change of a trade is told; `webhooks.sendTo` sets it later. */
  readonly webhook?: WebhookTarget;
  readonly port?: number;
};

export type Escrow = {
  readonly url: string;
  readonly port: number;
  readonly secret: string;
  readonly book: EscrowBook;
  readonly counts: EscrowFaultCounts;
  /** Requests seen, by kind. */
  readonly calls: Readonly<Record<EscrowCall, number>>;
  readonly clock: BankClock;
  readonly webhooks: Webhooks;
  /** Adds a rule; the returned function withdraws it. */
  script(rule: EscrowFaultRule): () => void;
  /** Withdraws all rules and refusals and wakes it up; counters, latency and the book stay. */
  heal(): void;
  /** From now on, 0 to 30,000; what is under way keeps what it began with. */
  latency(ms: Latency): void;
  /** New trades are refused so from now on; `null`: they are opened. */
  refuse(reason: Refusal | null): void;
  /** What the buyer or the provider does with a trade. Throws where there is no such trade. */
  readonly trades: {
    readonly markPaid: (id: string) => void;
    /** All that is left, or so much (decimal text). Later releases add to it; throws where nothing is left. */
    readonly release: (id: string, amount?: string) => void;
    readonly cancel: (id: string) => void;
    readonly expire: (id: string) => void;
    readonly dispute: (id: string) => void;
    readonly refund: (id: string) => void;
    /** Frozen by the provider, until something else becomes of it. */
    readonly hold: (id: string) => void;
    /** Any other step of the provider's. */
    readonly move: (id: string, stage: Stage) => void;
    /** Shown in this word until its next step, whatever its stage: one of the provider's other words, or one unheard of. */
    readonly say: (id: string, state: string) => void;
  };
  /** Trades that stood in the book of an earlier run stand in this one, under their ids; what is there already stays. */
  carryOver(trades: readonly (NewTrade & Pick<Trade, 'id'>)[]): void;
  /** The old secret is refused from now on. Returns the new one. */
  rotate(): string;
  /** Requests are taken in, nothing is executed, as under SIGSTOP; `resume` executes them all. */
  pause(): void;
  resume(): void;
  /** Connections are refused, as with a server that is not running. `up` listens on the same port again. */
  down(): Promise<void>;
  up(): Promise<void>;
  stop(): Promise<void>;
};

const KEYS_KEPT_MS = 2 * 86_400_000;
/** Slower than any caller waits. */
const LATENCY_MS_MAX = 30_000;

export async function startEscrow(options: EscrowOptions = {}): Promise<Escrow> {
  const seed = String(options.seed ?? 0);
  const plan = makeEscrowPlan(seed, options.faults ?? []);
  const clock = makeBankClock(new Date(options.clock?.start ?? Date.now()), options.clock?.ticking ?? true);
  const id = makeIds(`escrow\n${seed}`);
  const messageId = makeIds(`escrow webhooks\n${seed}`);
  const book = makeBook(clock.now, () => id('trd_'));
  const webhooks = makeWebhooks(clock, () => messageId('msg_'));
  webhooks.sendTo(options.webhook ?? null);
  const words = VOCABULARY[options.vocabulary ?? 'standard'];
  const said = new Map<string, { readonly state: string; readonly steps: number }>();
  let secret = id('lp_', 32);
  let latencyMs: Readonly<Record<EscrowCall, number>> = { create: 0, look: 0, cancel: 0 };
  let refusing: Refusal | null = null;

  const latency = (ms: Latency): void => {
    const wanted = typeof ms === 'number' ? { create: ms, look: ms, cancel: ms } : ms;
    for (const one of Object.values(wanted))
      if (!(one >= 0 && one <= LATENCY_MS_MAX))
        throw new RangeError(`a latency of ${one} ms: choose one of 0 to ${LATENCY_MS_MAX}`);
    latencyMs = { ...latencyMs, ...wanted };
  };
  latency(options.latencyMs ?? 0);

  const move = (tradeId: string, step: Move): void => webhooks.tell(book.move(tradeId, step));
  const playOut = (trade: Trade, { payAfterMs, releaseAfterMs, everyDisputed, everyExpired }: Auto): void => {
    const ordinal = book.count();
    const isOf = (every: number | undefined): boolean => every !== undefined && ordinal % every === 0;
    const step = (ms: number, stage: Stage, by: 'buyer' | 'provider'): void =>
      clock.after(ms, () => {
        const now = book.get(trade.id);
        // Somebody else decided meanwhile.
        if (now !== null && !isOver(now)) move(trade.id, { stage, by });
      });
    if (isOf(everyExpired)) return step(payAfterMs, 'expired', 'provider');
    step(payAfterMs, 'buyer_marked_paid', 'buyer');
    step(payAfterMs + releaseAfterMs, isOf(everyDisputed) ? 'disputed' : 'released', 'provider');
  };
  const counter = makeCounter({
    book,
    wordOf(trade) {
      const own = said.get(trade.id);
      return own?.steps === trade.steps.length ? own.state : words[trade.stage];
    },
    now: clock.now,
    secretIsGood: (given) => given === secret,
    keyRetentionMs: options.keyRetentionMs ?? KEYS_KEPT_MS,
    note: plan.note,
    changed(trade) {
      webhooks.tell(trade);
      if (trade.stage === 'created' && options.auto !== undefined) playOut(trade, options.auto);
    },
  });
  const door = makeEscrowDoor({
    plan,
    counter,
    book,
    clock,
    latencyMsOf: (call) => latencyMs[call],
    refusing: () => refusing,
  });

  let awake: PromiseWithResolvers<void> | null = null;
  const wake = (): void => {
    awake?.resolve();
    awake = null;
  };
  const serve = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const request = toRequest(incoming, await readBody(incoming));
    if (awake !== null) await awake.promise;
    await door.serve(request, response);
  };
  const listen = async (port: number): Promise<Server> => {
    const server = createServer((incoming, response) => {
      // A caller that leaves in the middle of its own request is no error of the provider's.
      serve(incoming, response).catch(() => breakOff(response, 'fin'));
    });
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return server;
  };
  let server = await listen(options.port ?? 0);
  const { port } = server.address() as AddressInfo;
  const provider =
    (stage: Stage) =>
    (tradeId: string): void =>
      move(tradeId, { stage, by: 'provider' });

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
    webhooks,
    script: plan.add,
    heal() {
      plan.clear();
      refusing = null;
      wake();
    },
    latency,
    refuse(reason) {
      refusing = reason;
    },
    trades: {
      markPaid: (tradeId) => move(tradeId, { stage: 'buyer_marked_paid', by: 'buyer' }),
      release: (tradeId, amount) =>
        move(tradeId, { stage: 'released', by: 'provider', ...(amount === undefined ? {} : { amount }) }),
      cancel: provider('cancelled'),
      expire: provider('expired'),
      dispute: provider('disputed'),
      refund: provider('refunded'),
      hold: provider('on_hold'),
      move: (tradeId, stage) => provider(stage)(tradeId),
      say(tradeId, state) {
        const trade = book.get(tradeId);
        if (trade === null) throw new RangeError(`there is no trade ${tradeId}`);
        said.set(tradeId, { state, steps: trade.steps.length });
        webhooks.tell(trade);
      },
    },
    carryOver(standing) {
      for (const { id: tradeId, ...trade } of standing) {
        if (book.get(tradeId) !== null) continue;
        const resumed = book.open(trade, 0, tradeId);
        if (options.auto !== undefined) playOut(resumed, options.auto);
      }
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
      // What was taken in while it slept is executed before the clock stands.
      await sleep(0);
      clock.stop();
      await webhooks.stop();
    },
  };
}
