/*
 * A network with faults before any TCP server: connections refused, cut, stalled, black-holed, slowed.
 *
 * Promises: without faults bytes pass unchanged, in order. A rule looks at whole frames (with `postgres`, at the wire
 * messages; else at chunks as they come) and can cut the connection right before or right after one passes; so the answer to
 * a COMMIT that did happen can be swallowed, whole or by half. Each fault that really fired is counted.
 * Never does: encrypted connections in `postgres` mode (their frames cannot be seen), or anything to the server itself.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, connect as dial, type Server, type Socket } from 'node:net';
import { makeChunkReader, makePostgresReader, type Frame, type FrameReader } from './wire-frames.ts';

export type TcpProxyOptions = {
  readonly host: string;
  readonly port: number;
  readonly listenPort?: number;
  /** How bytes become frames for the rules. */
  readonly protocol?: 'chunks' | 'postgres';
  /** What goes on to the server in place of a client's frame: as long as the frame itself, which carries its length. */
  readonly rewriteClient?: (frame: Frame) => Buffer;
};

/** Says of each frame whether it is the one. */
export type FrameTest = (frame: Frame) => boolean;

export type TcpCounts = {
  accepted: number;
  cutByHand: number;
  cutByRule: number;
  swallowedFrames: number;
  swallowedBytes: number;
  delayedFrames: number;
};

export type TcpProxy = {
  readonly host: string;
  readonly port: number;
  readonly counts: Readonly<TcpCounts>;
  openConnections(): number;
  /** Resets every connection there is. */
  cutAll(): void;
  /** true: nobody listens on the port any more, existing connections live on. false: listens again. */
  refuse(refuse: boolean): Promise<void>;
  /** Bytes wait, in both directions; nothing is lost. */
  pause(): void;
  resume(): void;
  /** Connections stay open and every byte is swallowed. Ending it helps new connections only: the old ones lost bytes. */
  blackhole(on: boolean): void;
  /** Every frame passes so much later, in order; 0 ends it. */
  delay(ms: number): void;
  /** Cuts one connection, the first that gets so far, when it has passed so many bytes from the client (or server). */
  cutAfterClientBytes(bytes: number): void;
  cutAfterServerBytes(bytes: number): void;
  /** Cuts one connection at the first frame that passes the test. `before`: the frame never arrives. Returns a withdrawal. */
  cutWhenClient(test: FrameTest, place: 'before' | 'after'): () => void;
  cutWhenServer(test: FrameTest, place: 'before' | 'after'): () => void;
  stop(): Promise<void>;
};

type Side = 'client' | 'server';
type Rule = { readonly side: Side; readonly test: FrameTest; readonly place: 'before' | 'after' };
type Budget = { readonly side: Side; readonly bytes: number };
type State = {
  readonly options: TcpProxyOptions;
  readonly counts: TcpCounts;
  readonly links: Set<Link>;
  readonly rules: Set<Rule>;
  readonly budgets: Set<Budget>;
  paused: boolean;
  blackholed: boolean;
  delayMs: number;
};
/** One client and its connection to the server. */
type Link = {
  readonly client: Socket;
  readonly server: Socket;
  readonly passed: Record<Side, number>;
  black: boolean;
  cut: boolean;
};

export async function startTcpProxy(options: TcpProxyOptions): Promise<TcpProxy> {
  const counts = { accepted: 0, cutByHand: 0, cutByRule: 0, swallowedFrames: 0, swallowedBytes: 0, delayedFrames: 0 };
  const state: State = {
    options,
    counts,
    links: new Set(),
    rules: new Set(),
    budgets: new Set(),
    paused: false,
    blackholed: false,
    delayMs: 0,
  };
  let listener: Server | undefined = await listen(state, options.listenPort ?? 0);
  const { port } = listener.address() as AddressInfo;
  const refuse = async (yes: boolean): Promise<void> => {
    if (yes) listener?.close();
    listener = yes ? undefined : (listener ?? (await listen(state, port)));
  };
  const addRule = (rule: Rule): (() => void) => {
    state.rules.add(rule);
    return () => void state.rules.delete(rule);
  };
  return {
    host: '127.0.0.1',
    port,
    counts,
    openConnections: () => state.links.size,
    cutAll: () => cutAll(state),
    refuse,
    pause: () => setPaused(state, true),
    resume: () => setPaused(state, false),
    blackhole(on) {
      state.blackholed = on;
      if (on) for (const link of state.links) link.black = true;
    },
    delay(ms) {
      state.delayMs = ms;
    },
    cutAfterClientBytes: (bytes) => void state.budgets.add({ side: 'client', bytes }),
    cutAfterServerBytes: (bytes) => void state.budgets.add({ side: 'server', bytes }),
    cutWhenClient: (test, place) => addRule({ side: 'client', test, place }),
    cutWhenServer: (test, place) => addRule({ side: 'server', test, place }),
    async stop() {
      await refuse(true);
      for (const link of state.links) destroy(link);
    },
  };
}

async function listen(state: State, port: number): Promise<Server> {
  const listener = createServer({ allowHalfOpen: true }, (client) => open(state, client));
  listener.listen(port, '127.0.0.1');
  await once(listener, 'listening');
  return listener;
}

function open(state: State, client: Socket): void {
  const { host, port, protocol } = state.options;
  const server = dial({ host, port, allowHalfOpen: true });
  const link: Link = { client, server, passed: { client: 0, server: 0 }, black: state.blackholed, cut: false };
  state.links.add(link);
  state.counts.accepted += 1;
  const readers =
    protocol === 'postgres' ? makePostgresReader() : { client: makeChunkReader(), server: makeChunkReader() };
  pump(state, link, 'client', readers.client);
  pump(state, link, 'server', readers.server);
  if (state.paused) for (const socket of [client, server]) socket.pause();
}

function pump(state: State, link: Link, side: Side, read: FrameReader): void {
  const [from, to] = side === 'client' ? [link.client, link.server] : [link.server, link.client];
  const inOrder = makeQueue(state);
  from.setNoDelay(true);
  from.on('data', (chunk) => {
    for (const frame of read(chunk)) inOrder(() => pass(state, link, side, to, frame));
  });
  from.on('end', () => inOrder(() => link.black || to.end()));
  // Which error it was is the ends' business; `close` follows and tells the other side.
  from.on('error', () => undefined);
  from.on('close', () => {
    inOrder(() => {
      if (!link.black) to.destroySoon();
    });
    if (link.client.destroyed && link.server.destroyed) state.links.delete(link);
  });
}

/** Runs at once, or after the delay that was set when it was asked; never out of order, whichever timer comes first. */
function makeQueue(state: State): (act: () => void) => void {
  const waiting: (() => void)[] = [];
  return (act) => {
    if (state.delayMs === 0 && waiting.length === 0) return act();
    waiting.push(act);
    state.counts.delayedFrames += 1;
    setTimeout(() => waiting.shift()?.(), state.delayMs);
    return undefined;
  };
}

function pass(state: State, link: Link, side: Side, to: Socket, frame: Frame): void {
  if (link.cut) return;
  if (link.black) {
    state.counts.swallowedFrames += 1;
    state.counts.swallowedBytes += frame.bytes.length;
    return;
  }
  const rule = [...state.rules].find((it) => it.side === side && it.test(frame));
  if (rule !== undefined) {
    state.rules.delete(rule);
    state.counts.cutByRule += 1;
    if (rule.place === 'before') state.counts.swallowedFrames += 1;
    return cutAfter(link, to, rule.place === 'before' ? undefined : frame.bytes);
  }
  const had = link.passed[side];
  const budget = [...state.budgets].find((it) => it.side === side && had + frame.bytes.length >= it.bytes);
  if (budget !== undefined) {
    state.budgets.delete(budget);
    state.counts.cutByRule += 1;
    return cutAfter(link, to, frame.bytes.subarray(0, Math.max(0, budget.bytes - had)));
  }
  link.passed[side] = had + frame.bytes.length;
  to.write(side === 'client' ? (state.options.rewriteClient?.(frame) ?? frame.bytes) : frame.bytes);
}

/** Delivers the last bytes, then breaks both sides; nothing else passes from now on. */
function cutAfter(link: Link, to: Socket, last: Buffer | undefined): void {
  link.cut = true;
  if (last === undefined || last.length === 0) return destroy(link);
  to.write(last, () => {
    // `end` before `destroy`: an immediate reset could throw away bytes that the peer has not read yet.
    to.end(() => destroy(link));
  });
}

function cutAll(state: State): void {
  for (const link of state.links) {
    state.counts.cutByHand += 1;
    link.cut = true;
    for (const socket of [link.client, link.server]) socket.resetAndDestroy();
  }
}

function destroy(link: Link): void {
  link.client.destroy();
  link.server.destroy();
}

function setPaused(state: State, paused: boolean): void {
  state.paused = paused;
  for (const link of state.links) {
    for (const socket of [link.client, link.server]) {
      if (paused) socket.pause();
      else socket.resume();
    }
  }
}
