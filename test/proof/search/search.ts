/**
 * Breadth first through every reachable state, each once. A fault ends the search with the shortest way to it. Without
 * one, the graph is walked backwards: from every state there must be a way to an end or to a case, and from a second
 * payment that is on no record yet (a provider that broke its promise) a way onto the record.
 */
import { Fault, makeRules } from './books.ts';
import type { Step } from './outside.ts';
import { canonical, keyOf, type Node } from './state.ts';
import { isDone, paidTwice, requireSafe, start, stepsFrom } from './steps.ts';
import { type Broken, oldestTicks, type World } from './world.ts';

export interface Found {
  readonly fault: string | null;
  /** The labels of the shortest way to the fault. */
  readonly trace: readonly string[];
  readonly states: number;
  readonly steps: number;
  /** Some state has a second payment (only where promises are broken). */
  readonly seesDouble: boolean;
  readonly ends: Readonly<Record<string, number>>;
}

/** More than this is a mistake in the bounds, not a proof. */
const STATES_MAX = 6_000_000;

export function search(world: World, broken: Broken | null = null): Found {
  const rules = makeRules(world, broken);
  const oldest = oldestTicks(world);
  const ids = new Map<string, number>();
  const parents: number[] = [];
  const ways: string[] = [];
  const done: boolean[] = [];
  const unrecorded: boolean[] = [];
  const from: number[] = [];
  const to: number[] = [];
  const ends: Record<string, number> = {};
  let level: { readonly id: number; readonly node: Node }[] = [];
  let next: { readonly id: number; readonly node: Node }[] = [];
  let fault: string | null = null;
  let trace: string[] = [];

  function way(id: number): string[] {
    const labels: string[] = [];
    for (let at = id; at > 0; at = parents[at] ?? 0) labels.push(ways[at] ?? '');
    return labels.reverse();
  }
  function meet(parent: number, step: Step): void {
    canonical(step.node, oldest);
    const key = keyOf(step.node);
    let id = ids.get(key);
    if (id === undefined) {
      id = ids.size;
      if (id >= STATES_MAX) throw new Error(`more than ${STATES_MAX} states in "${world.name}"`);
      ids.set(key, id);
      parents.push(parent);
      ways.push(step.label);
      done.push(isDone(step.node));
      unrecorded.push(paidTwice(step.node) && !step.node.contradiction && !step.node.toldFailed);
      for (const one of step.node.effects) ends[one.st] = (ends[one.st] ?? 0) + 1;
      if (step.label.startsWith('operators:') && step.node.effects.some((one) => one.st === 'RELEASED'))
        ends['released by two persons'] = (ends['released by two persons'] ?? 0) + 1;
      next.push({ id, node: step.node });
      requireSafe(rules, step.node);
    }
    from.push(parent);
    to.push(id);
  }
  function guarded(id: number, last: () => string, act: () => void): boolean {
    try {
      act();
      return true;
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      fault = error.message;
      trace = [...way(id), last()];
      return false;
    }
  }
  const found = (): Found => ({
    fault,
    trace,
    states: ids.size,
    steps: from.length,
    seesDouble: unrecorded.includes(true),
    ends,
  });

  if (
    !guarded(
      0,
      () => 'at the start',
      () => meet(0, { label: '', node: start(rules) }),
    )
  )
    return found();
  while (next.length > 0) {
    level = next;
    next = [];
    for (const { id, node } of level) {
      let label = 'the next step';
      const alright = guarded(
        id,
        () => label,
        () => {
          const steps = stepsFrom(rules, node);
          for (const step of steps) {
            ({ label } = step);
            meet(id, step);
          }
        },
      );
      if (!alright) return found();
    }
  }
  const stuck = firstWithout(ids.size, from, to, (id) => done[id] === true);
  const untold = firstWithout(ids.size, from, to, (id) => unrecorded[id] !== true);
  if (stuck !== null) [fault, trace] = ['no way to an end or a case', way(stuck)];
  else if (untold !== null) [fault, trace] = ['paid twice, and no way onto the record', way(untold)];
  return found();
}

/** The first state (breadth first) from which no goal can be reached. */
function firstWithout(
  count: number,
  from: readonly number[],
  to: readonly number[],
  isGoal: (id: number) => boolean,
): number | null {
  const starts = new Int32Array(count + 1);
  for (const id of to) starts[id + 1] = (starts[id + 1] ?? 0) + 1;
  for (let id = 0; id < count; id += 1) starts[id + 1] = (starts[id + 1] ?? 0) + (starts[id] ?? 0);
  const fill = starts.slice();
  const before = new Int32Array(to.length);
  to.forEach((id, edge) => {
    const place = fill[id] ?? 0;
    before[place] = from[edge] ?? 0;
    fill[id] = place + 1;
  });
  const reached = new Uint8Array(count);
  const queue: number[] = [];
  for (let id = 0; id < count; id += 1) {
    if (!isGoal(id)) continue;
    reached[id] = 1;
    queue.push(id);
  }
  for (let head = 0; head < queue.length; head += 1) {
    const id = queue[head] ?? 0;
    for (let edge = starts[id] ?? 0; edge < (starts[id + 1] ?? 0); edge += 1) {
      const source = before[edge] ?? 0;
      if (reached[source] === 1) continue;
      reached[source] = 1;
      queue.push(source);
    }
  }
  const missing = reached.indexOf(0);
  return missing < 0 ? null : missing;
}
