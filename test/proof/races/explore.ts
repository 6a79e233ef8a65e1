/*
 * Every order in which two of the product's functions can interleave, at the grain of statements, on a real PostgreSQL.
 *
 * Goal: what a pair may do to each other is not left to chance. Method: a search of depth first over who goes next. At each
 * point the sessions that stand before a statement are the choices; one that waits for a lock is none until the other lets it
 * go. So exactly those orders are run that PostgreSQL allows, and each once. Each run has a subject of its own, and what it
 * leaves stays: a breach of an invariant in one order is still there when the views are read at the end.
 *
 * Why not isolationtester for these: its steps are fixed texts, and a function's next statement is made of the last one's
 * answer (ids, verdicts, whether it goes on at all). What is fixed text goes to isolationtester (isolation.ts).
 */
import assert from 'node:assert/strict';
import pg from 'pg';
import { sqlState } from '../../../src/db/pool.ts';
import { type Level, type LevelCount, openSession, type Session } from './session.ts';

/** Whose pool and ports a side is to use. */
export type Side = Pick<Session, 'pool' | 'ports'>;

export interface Pair<Subject> {
  readonly name: string;
  /** Makes what the two are about, anew for each order. */
  prepare(): Promise<Subject>;
  left(side: Side, subject: Subject): Promise<unknown>;
  right(side: Side, subject: Subject): Promise<unknown>;
  /** Throws where this order did what it must not; else says in words what came of it. */
  judge(subject: Subject, left: unknown, right: unknown): Promise<string>;
}

export interface Explored {
  readonly name: string;
  readonly level: Level;
  readonly orders: number;
  /** Every order was run; else those in which the sides change at most so often while both could go on. */
  readonly whole: boolean;
  readonly steps: readonly [number, number];
  /** Orders in which one had to wait for the other's lock. */
  readonly waited: number;
  readonly outcomes: ReadonlyMap<string, number>;
}

interface Choice {
  readonly options: number;
  chosen: number;
}

export interface Stage {
  readonly url: string;
  readonly monitor: pg.Client;
}

/** Should a bug make a pair endless. */
const ORDERS_MAX = 20_000;

export async function openStage(url: string): Promise<Stage & { end(): Promise<void> }> {
  const monitor = new pg.Client({ connectionString: url });
  await monitor.connect();
  // Two that wait for each other are told soon; a second each would be the run's whole time.
  await monitor.query(`alter database "${new URL(url).pathname.slice(1)}" set deadlock_timeout = '15ms'`);
  return { url, monitor, end: () => monitor.end() };
}

/** `switchesMax`: orders in which the sides change more often while both could go on are left out. */
export async function explore<Subject>(
  stage: Stage,
  level: Level,
  pair: Pair<Subject>,
  switchesMax: number,
): Promise<Explored> {
  const raised: LevelCount = { raised: 0 };
  const sessions = [
    await openSession(stage.url, level, stage.monitor, raised),
    await openSession(stage.url, level, stage.monitor, raised),
  ] as const;
  const outcomes = new Map<string, number>();
  let [orders, waited, whole] = [0, 0, true];
  let steps: readonly [number, number] = [0, 0];
  try {
    // Once without holding: what a first call of a process reads and keeps is not part of any race.
    const first = await pair.prepare();
    await pair.left(sessions[0], first).catch(() => undefined);
    await pair.right(sessions[1], first).catch(() => undefined);
    for (let path: Choice[] | null = []; path !== null; path = nextPath(path)) {
      const subject = await pair.prepare();
      const run = await runOnce(sessions, pair, subject, { path, level, switchesMax });
      orders += 1;
      if (run.waited) waited += 1;
      whole &&= run.whole;
      steps = [Math.max(steps[0], run.steps[0]), Math.max(steps[1], run.steps[1])];
      const word = await judged(pair, subject, sessions, run.trace);
      outcomes.set(word, (outcomes.get(word) ?? 0) + 1);
      assert.ok(orders < ORDERS_MAX, `${pair.name}: more than ${ORDERS_MAX} orders`);
    }
  } finally {
    for (const session of sessions) await session.end();
  }
  assert.equal(raised.raised > 0, level === 'repeatable read', 'the level was not the one asked for');
  return { name: pair.name, level, orders, whole, steps, waited, outcomes };
}

async function judged<Subject>(
  pair: Pair<Subject>,
  subject: Subject,
  [left, right]: readonly [Session, Session],
  trace: readonly string[],
): Promise<string> {
  try {
    return await pair.judge(
      subject,
      await valueOf(left, () => pair.left(left, subject)),
      await valueOf(right, () => pair.right(right, subject)),
    );
  } catch (error) {
    throw new Error(`${pair.name}: ${String(error)}\nin this order:\n${trace.join('\n')}`, { cause: error });
  }
}

const UNIQUE_VIOLATION = '23505';

/**
 * What a side answered; one that throws answered nothing, with one exception. At REPEATABLE READ, where nothing of ours runs, a
 * read behind a lock shows what was there before it, and then only a constraint stands in the way: whoever is refused so comes
 * again, as every caller of ours does, and what counts is the answer to that.
 */
async function valueOf(session: Session, again: () => Promise<unknown>): Promise<unknown> {
  const outcome = session.outcome();
  if (!('error' in outcome)) return outcome.value;
  if (session.level === 'repeatable read' && sqlState(outcome.error) === UNIQUE_VIOLATION) return again();
  throw outcome.error;
}

interface Run {
  readonly trace: string[];
  readonly waited: boolean;
  /** No choice was left out. */
  readonly whole: boolean;
  readonly steps: readonly [number, number];
}

/** Follows the path, then the first choice each time; the path grows by what it met. */
async function runOnce<Subject>(
  sessions: readonly [Session, Session],
  pair: Pair<Subject>,
  subject: Subject,
  { path, level, switchesMax }: { readonly path: Choice[]; readonly level: Level; readonly switchesMax: number },
): Promise<Run> {
  const [left, right] = sessions;
  left.begin(() => pair.left(left, subject));
  right.begin(() => pair.right(right, subject));
  const trace: string[] = [];
  const steps: [number, number] = [0, 0];
  let [depth, last, switches, waited, whole] = [0, -1, 0, false, true];
  for (;;) {
    const states = [await left.stable(), await right.stable()];
    if (states.every((state) => state === 'ended')) break;
    const ready = [0, 1].filter((index) => states[index] === 'ready');
    // Both wait for each other, or one for nobody any more: PostgreSQL says who goes on.
    if (ready.length === 0) continue;
    if (states.includes('blocked')) waited = true;
    // Who went last goes on first, so that the first choice never changes sides.
    ready.sort((a, b) => Number(b === last) - Number(a === last));
    const mayChoose = ready.length === 1 || ready[0] !== last || switches < switchesMax;
    whole &&= mayChoose;
    const options = mayChoose ? ready.length : 1;
    let chosen = 0;
    if (options > 1) {
      const choice = path[depth];
      if (choice === undefined) path.push({ options, chosen: 0 });
      else {
        assert.equal(choice.options, options, `${pair.name}: the same order met other choices\n${trace.join('\n')}`);
        chosen = choice.chosen;
      }
      depth += 1;
    }
    const index = ready[chosen] ?? 0;
    if (last !== -1 && index !== last && ready.includes(last)) switches += 1;
    last = index;
    const session = sessions[index === 0 ? 0 : 1];
    for (;;) {
      const name = session.next();
      trace.push(`${index === 0 ? 'left ' : 'right'} ${name}`);
      steps[index === 0 ? 0 : 1] += 1;
      session.step();
      // At READ COMMITTED a BEGIN sees nothing: it and the statement after it are one step.
      if (name !== 'begin' || level !== 'read committed' || (await session.stable()) !== 'ready') break;
    }
  }
  return { trace, waited, whole, steps };
}

/** The next path in the search, or none. */
function nextPath(path: readonly Choice[]): Choice[] | null {
  const next = path.map((choice) => ({ ...choice }));
  for (let last = next.at(-1); last !== undefined; last = next.at(-1)) {
    if (last.chosen + 1 < last.options) {
      last.chosen += 1;
      return next;
    }
    next.pop();
  }
  return null;
}
