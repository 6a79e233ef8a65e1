/*
 * Which call a scripted fault hits, for every simulator that answers calls of a few kinds.
 *
 * Promises: a rule hits by the kind of call and the ordinal of that kind, or by a chance drawn from (seed, rule, kind, ordinal):
 * the same seed hits the same calls whatever ran in between. `counts` rises only when a simulator notes that a fault really
 * changed what happened.
 * Never does: know what any fault means.
 */
import { createHash } from 'node:crypto';

/** Kinds of call, faults, and what a rule may look at. */
export type FaultRule<Kind extends string, Fault, Request> = {
  /** Absent: every kind of call. */
  readonly on?: Kind;
  /** Of a simulator with several: calls at this one. */
  readonly node?: string;
  /** Which calls of that kind, from 1; of that node where one is named. Absent: all. */
  readonly calls?: readonly number[];
  /** Of those, how likely: 0 to 1. Absent: always. */
  readonly chance?: number;
  /** After so many hits the rule is spent. */
  readonly hitsMax?: number;
  readonly when?: (request: Request) => boolean;
  readonly fault: Fault;
};

export type RulePlan<Kind extends string, Fault, Request, Name extends string> = {
  /** Counts the call and says what hits it. */
  readonly next: (kind: Kind, request: Request) => Fault[];
  /** The returned function withdraws it. */
  readonly add: (rule: FaultRule<Kind, Fault, Request>) => () => void;
  readonly note: (name: Name) => void;
  readonly clear: () => void;
  readonly counts: Readonly<Partial<Record<Name, number>>>;
  readonly calls: Readonly<Partial<Record<Kind, number>>>;
};

/** `calls` is counted in; a kind that is absent there has not been called. */
export function makeRulePlan<Kind extends string, Fault, Request, Name extends string>(
  seed: string,
  initial: readonly FaultRule<Kind, Fault, Request>[],
  calls: Partial<Record<Kind, number>>,
  nodeOf: (request: Request) => string = () => '',
): RulePlan<Kind, Fault, Request, Name> {
  const rules: { rule: FaultRule<Kind, Fault, Request>; number: number; hits: number }[] = [];
  const ofNode = new Map<string, number>();
  const counts: Partial<Record<Name, number>> = {};
  let rulesEver = 0;

  const add = (rule: FaultRule<Kind, Fault, Request>): (() => void) => {
    const entry = { rule, number: ++rulesEver, hits: 0 };
    rules.push(entry);
    return () => {
      const place = rules.indexOf(entry);
      if (place >= 0) rules.splice(place, 1);
    };
  };
  for (const rule of initial) add(rule);

  return {
    next(kind, request) {
      const all = (calls[kind] ?? 0) + 1;
      calls[kind] = all;
      const node = nodeOf(request);
      const nodeKey = `${node}\n${kind}`;
      const own = (ofNode.get(nodeKey) ?? 0) + 1;
      ofNode.set(nodeKey, own);
      const hit = rules.filter(({ rule, number, hits }) => {
        const ordinal = rule.node === undefined ? all : own;
        return (
          hits < (rule.hitsMax ?? Infinity) &&
          (rule.on === undefined || rule.on === kind) &&
          (rule.node === undefined || rule.node === node) &&
          (rule.calls === undefined || rule.calls.includes(ordinal)) &&
          (rule.when === undefined || rule.when(request)) &&
          (rule.chance === undefined || draw(seed, number, kind, ordinal) < rule.chance)
        );
      });
      for (const entry of hit) entry.hits += 1;
      return hit.map(({ rule }) => rule.fault);
    },
    add,
    note(name) {
      counts[name] = (counts[name] ?? 0) + 1;
    },
    clear() {
      rules.length = 0;
    },
    counts,
    calls,
  };
}

/** No generator with a state: an answer that comes earlier or later must not move the next draw. */
function draw(seed: string, rule: number, kind: string, ordinal: number): number {
  const digest = createHash('sha256').update(`${seed}\n${rule}\n${kind}\n${ordinal}`).digest();
  return digest.readUInt32BE(0) / 2 ** 32;
}
