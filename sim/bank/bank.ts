/*
 * A bank, or a payout provider: a real HTTP server that plays one provider's document and keeps its own books.
 *
 * Promises: without a script it does what the document of its profile says. Whatever happens on the wire (an answer lost, a
 * request executed hours later, a body that is no answer), the books hold what really moved, and `counts` what really went
 * wrong. Retention, lag, late delivery, settling and returns run on its own steerable clock.
 * Never does: decide at random without a seed, or look at how Payonce reads a provider. It is written from their documents.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type BankBooks, makeBankBooks } from './books.ts';
import { type BankClock, makeBankClock } from './clock.ts';
import { makeCore } from './core.ts';
import { makeCredentials } from './credentials.ts';
import { type BankAccount, makeDirectory } from './directory.ts';
import { makeDoor } from './door.ts';
import { type BankFaultRule, type CallKind, type FaultCounts, makeFaultPlan } from './faults.ts';
import { makeIds } from './ids.ts';
import type { Behaviour, Desk, ProfileName } from './profile.ts';
import { PROFILES } from './profiles.ts';
import { breakOff, closeServer, readBody, toRequest } from './respond.ts';
import { makeSteering, type Steering } from './steering.ts';

export type BankOptions = {
  readonly profile: ProfileName;
  /** Absent: 0. Rules with a chance draw from it, ids come from it. */
  readonly seed?: number | string;
  /** Absent: it starts with real time and runs with it. `ticking: false` stands still between steps. */
  readonly clock?: { readonly start?: Date | string; readonly ticking?: boolean };
  readonly faults?: readonly BankFaultRule[];
  /** A provider that is not as its document says. */
  readonly behave?: Partial<Behaviour>;
  /** How long a transfer takes from each state to the next; `null`: it stays until the test moves it. Absent: 0. */
  readonly settleMs?: number | null;
  /** What we have there at the start, in the profile's currency. Absent: 10^15 units. */
  readonly balance?: bigint;
  /** What each transfer costs us. Absent: nothing. */
  readonly feeUnits?: bigint;
  readonly accounts?: readonly BankAccount[];
  /** Accounts that nobody listed: they exist (absent), or they are refused. */
  readonly otherAccounts?: 'open' | 'unknown';
  /** Toss only. False: bodies are plain JSON both ways. Absent: encrypted. */
  readonly encryption?: boolean;
  readonly port?: number;
};

export type Bank = {
  readonly url: string;
  readonly port: number;
  readonly profile: ProfileName;
  readonly behaviour: Behaviour;
  readonly books: BankBooks;
  readonly counts: FaultCounts;
  /** Requests seen, by kind. */
  readonly calls: Readonly<Record<CallKind, number>>;
  /** Adds a rule; the returned function withdraws it. */
  script(rule: BankFaultRule): () => void;
  /** Withdraws all rules and wakes it up; the counters and the books stay. */
  heal(): void;
  readonly clock: BankClock;
  readonly credentials: {
    current(): string;
    /** The old secret is refused from now on. Returns the new one. */
    rotate(): string;
    /** One more good secret of the same account. */
    issue(): string;
    /** The headers that show a secret (the current one) to this provider. */
    headers(secret?: string): Readonly<Record<string, string>>;
  };
  /** Toss: 64 hexadecimal digits; elsewhere, or without encryption, `null`. */
  readonly securityKey: string | null;
  readonly balance: { set(units: bigint, currency?: string): void; get(currency?: string): bigint };
  readonly accounts: {
    /** Our own account there, as in movements. */
    readonly own: string;
    add(account: BankAccount): void;
    close(accountNumber: string): void;
    reopen(accountNumber: string): void;
  };
  readonly transfers: Steering;
  /** Like SIGSTOP: connections and requests are taken in, nothing is executed. `resume` executes them all in their order,
      those of clients that are long gone too. */
  pause(): void;
  resume(): void;
  /** Connections are refused, as with a server that is not running. `up` listens on the same port again. */
  down(): Promise<void>;
  up(): Promise<void>;
  stop(): Promise<void>;
};

const BALANCE_UNITS = 10n ** 15n;
const OWN_ACCOUNT = 'own';

export async function startBank(options: BankOptions): Promise<Bank> {
  const profile = PROFILES[options.profile];
  const behaviour: Behaviour = { ...profile.behaviour, ...options.behave };
  const seed = String(options.seed ?? 0);
  const plan = makeFaultPlan(seed, options.faults ?? []);
  const clock = makeBankClock(new Date(options.clock?.start ?? Date.now()), options.clock?.ticking ?? true);
  const id = makeIds(`${profile.name}\n${seed}`);
  const directory = makeDirectory(options.accounts ?? [], options.otherAccounts ?? 'open');
  const credentials = makeCredentials(profile, id);
  const securityKey = profile.name === 'toss' && options.encryption !== false ? id('', 64, '0123456789abcdef') : null;
  const books = makeBankBooks({
    rail: `bank:${profile.name}`,
    own: OWN_ACCOUNT,
    feeUnits: options.feeUnits ?? 0n,
    now: clock.now,
    id,
  });
  books.setAvailable(profile.currency, options.balance ?? BALANCE_UNITS);

  const nonces = new Set<string>();
  let url = '';
  const desk: Desk = {
    now: clock.now,
    get url() {
      return url;
    },
    securityKey: securityKey === null ? null : Buffer.from(securityKey, 'hex'),
    currency: profile.currency,
    id,
    resolve: directory.resolve,
    nonceIsNew(nonce) {
      if (nonces.has(nonce)) {
        plan.note('nonce_reused');
        return false;
      }
      nonces.add(nonce);
      return true;
    },
    available: books.available,
    credentialIsGood: credentials.isGood,
    grant: credentials.grant,
  };

  const core = makeCore({ profile, behaviour, books, desk, note: plan.note, objection: directory.objection });
  const transfers = makeSteering(profile, books, clock, options.settleMs === undefined ? 0 : options.settleMs);
  const door = makeDoor({ profile, plan, core, desk, books, clock, settle: transfers.settle });

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
      // A caller that leaves in the middle of its own request is no error of the bank's.
      serve(incoming, response).catch(() => breakOff(response, 'fin'));
    });
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return server;
  };
  let server = await listen(options.port ?? 0);
  const { port } = server.address() as AddressInfo;
  url = `http://127.0.0.1:${port}`;

  return {
    url,
    port,
    profile: profile.name,
    behaviour,
    books,
    counts: plan.counts,
    calls: plan.calls,
    script: plan.add,
    heal() {
      plan.clear();
      wake();
    },
    clock,
    credentials,
    securityKey,
    balance: {
      set: (units, currency = profile.currency) => books.setAvailable(currency, units),
      get: (currency = profile.currency) => books.available(currency),
    },
    accounts: { own: OWN_ACCOUNT, add: directory.add, close: directory.close, reopen: directory.reopen },
    transfers,
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
    },
  };
}
