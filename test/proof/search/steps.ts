/**
 * Every step that may follow a state: two workers (who may stall or die between any two of their transactions), the
 * re-opener, looks beside every lease, an operator, the other side, and time.
 */
import { effectAt, Fault, forget, go, raise, record, reopen, type Rules } from './books.ts';
import { looksAt, outsideSteps, paidBy, type Step } from './outside.ts';
import { clone, type Effect, IDLE, type Node, PENDING } from './state.ts';
import { oldestTicks } from './world.ts';

export function start(rules: Rules): Node {
  const { world } = rules;
  return {
    effects: [{ ...PENDING }],
    workers: [{ ...IDLE }, { ...IDLE }],
    flights: [],
    duplicates: world.duplicates,
    reorgs: world.reorgs,
    foreign: world.foreign,
    closed: '',
    undecided: false,
    contradiction: false,
    toldFailed: false,
    review: false,
  };
}

export function stepsFrom(rules: Rules, node: Node): Step[] {
  const steps: Step[] = [];
  const idle = node.workers.findIndex((one) => one.ph === 'idle');
  for (const name of [1, 2] as const) {
    const worker = node.workers[name - 1];
    // Idle workers are alike: one of them will do.
    if (worker?.ph === 'idle' && idle !== name - 1) continue;
    steps.push(...workerSteps(rules, node, name));
  }
  node.effects.forEach((_, at) => {
    const reopened = reopen(node, at);
    if (reopened !== null) steps.push({ label: `re-open effect ${at + 1}, or contradict it`, node: reopened });
  });
  steps.push(...tellings(rules, node), ...operatorSteps(rules, node), ...outsideSteps(rules.world, node));
  steps.push({ label: 'time passes', node: tick(rules, node) });
  return steps;
}

function workerSteps(rules: Rules, node: Node, name: 1 | 2): Step[] {
  const worker = node.workers[name - 1];
  if (worker === undefined) return [];
  const who = `worker ${name}`;
  switch (worker.ph) {
    case 'idle':
      return node.effects.flatMap((_, at) => claims(rules, node, name, at));
    case 'plan':
      return [{ label: `${who} seals effect ${worker.e + 1}`, node: seal(node, name) }];
    case 'look':
      return record(rules, node, worker, name, worker.e, 'look', worker.obs).map((next) => {
        const effect = effectAt(next, worker.e);
        if (effect.st === 'SEALED' && effect.holder === name)
          next.workers[name - 1] = { ...worker, ph: 'open', obs: '', fresh: false };
        else forget(next, name);
        return { label: `${who} records its look (${worker.obs})`, node: next };
      });
    case 'open':
      return opens(rules, node, name, who);
    case 'permit':
      return [...sends(rules, node, name, who), dies(node, name, who)];
    case 'wait': {
      const timedOut = clone(node);
      timedOut.workers[name - 1] = { ...worker, ph: 'answer', obs: 'unreadable' };
      for (const flight of timedOut.flights) if (flight.worker === name) flight.worker = 0;
      return [{ label: `${who} waits no longer`, node: timedOut }];
    }
    case 'answer': {
      const recorded = record(rules, node, worker, name, worker.e, 'send', worker.obs).map((next) => {
        forget(next, name);
        return { label: `${who} records the answer (${worker.obs})`, node: next };
      });
      return [...recorded, dies(node, name, who)];
    }
  }
}

function dies(node: Node, name: 1 | 2, who: string): Step {
  const next = clone(node);
  forget(next, name);
  return { label: `${who} dies`, node: next };
}

/** A lease may end at any time: whoever comes takes it. */
function claims(rules: Rules, node: Node, name: 1 | 2, at: number): Step[] {
  const effect = effectAt(node, at);
  const take = (ph: 'plan' | 'look', obs: string): Node => {
    const next = clone(node);
    const row = effectAt(next, at);
    row.holder = name;
    next.workers[name - 1] = { ...IDLE, e: at, ph, obs, send: row.outs.length, fresh: row.late === 0 };
    return next;
  };
  if (effect.st === 'PENDING') return [{ label: `worker ${name} claims effect ${at + 1}`, node: take('plan', '') }];
  if (effect.st !== 'SEALED') return [];
  return looksAt(rules.world, effect).map((obs) => ({
    label: `worker ${name} claims effect ${at + 1} and looks: ${obs}`,
    node: take('look', obs),
  }));
}

function seal(before: Node, name: 1 | 2): Node {
  const node = clone(before);
  const worker = node.workers[name - 1];
  if (worker === undefined) return node;
  const effect = effectAt(node, worker.e);
  if (effect.st !== 'PENDING' || effect.holder !== name || effect.testimony) {
    forget(node, name);
    return node;
  }
  go(effect, 'SEALED');
  Object.assign(effect, { outs: '-', sendBy: 1, age: 0 });
  node.workers[name - 1] = { ...worker, ph: 'permit', until: 1, send: 1, variant: 'o' };
  return node;
}

function opens(rules: Rules, node: Node, name: 1 | 2, who: string): Step[] {
  const rest = clone(node);
  forget(rest, name);
  const steps: Step[] = [{ label: `${who} rests`, node: rest }];
  const worker = node.workers[name - 1];
  const variants = worker === undefined ? '' : (node.effects[worker.e]?.variants ?? '');
  // After a cancel only cancels follow.
  const kinds = rules.world.kind !== 'evm' ? ['o'] : variants.includes('c') ? ['c'] : ['o', 'b', 'c'];
  for (const kind of kinds) {
    const raised = raise(rules, node, name, kind);
    if (raised !== null) steps.push({ label: `${who} may send again (${kind})`, node: raised });
  }
  return steps;
}

function sends(rules: Rules, node: Node, name: 1 | 2, who: string): Step[] {
  const worker = node.workers[name - 1];
  if (worker === undefined) return [];
  const about = `${who} sends effect ${worker.e + 1}`;
  const after = (ph: 'wait' | 'answer', obs: string, change: (next: Node) => void): Node => {
    const next = clone(node);
    next.workers[name - 1] = { ...worker, ph, obs, until: 0, fresh: false };
    change(next);
    return next;
  };
  const never = { label: `${about}: never connected`, node: after('answer', 'never_left', () => undefined) };
  if (rules.world.kind !== 'evm') {
    const flies = after('wait', '', (next) => next.flights.push({ e: worker.e, age: 0, worker: name }));
    return [{ label: about, node: flies }, never];
  }
  const spread = (next: Node): void => {
    const effect = effectAt(next, worker.e);
    effect.variants = [...new Set([...Array.from(effect.variants), worker.variant])].sort().join('');
  };
  return [
    // A node's "hash" says no more than its silence.
    { label: `${about} (${worker.variant})`, node: after('answer', 'in_progress', spread) },
    { label: `${about} (${worker.variant}) into nothing`, node: after('answer', 'unreadable', () => undefined) },
    never,
  ];
}

/** A webhook or the watch list: a look without a lease. Its noes count for nothing, so only a yes is a step. */
function tellings(rules: Rules, node: Node): Step[] {
  return node.effects.flatMap((effect, at) => {
    if (effect.st === 'SETTLED' || effect.outs === '') return [];
    const [truth = ''] = looksAt(rules.world, effect);
    if (!truth.startsWith('accepted') && !truth.startsWith('final_success')) return [];
    return record(rules, node, null, 0, at, 'look', truth).map((next) => ({
      label: `effect ${at + 1} is told without a lease: ${truth}`,
      node: next,
    }));
  });
}

function operatorSteps(rules: Rules, node: Node): Step[] {
  const steps: Step[] = [];
  const act = (label: string, change: (next: Node) => void): void => {
    const next = clone(node);
    change(next);
    steps.push({ label: `operator: ${label}`, node: next });
  };
  node.effects.forEach((effect, at) => {
    if (effect.st === 'PENDING' && node.closed === '')
      act(`cancels effect ${at + 1}, never sealed`, (next) => {
        go(effectAt(next, at), 'RELEASED');
        next.closed = 'cancelled';
      });
    const asked = node.undecided || node.contradiction || node.review;
    if (node.undecided) steps.push(...absences(rules, node, effect, at));
    if (
      asked &&
      paidBy(effect) > 0 &&
      (effect.st === 'SEALED' || (effect.st === 'RELEASED' && !effect.objectTestimony))
    )
      act(`two persons saw effect ${at + 1} paid`, (next) => {
        const row = effectAt(next, at);
        Object.assign(row, { testimony: true, objectTestimony: true });
        if (row.st === 'SEALED') {
          go(row, 'SETTLED');
          next.undecided = false;
        } else if (!row.contradicted) row.reopens = true;
      });
  });
  const live = node.effects.some((one) => one.st !== 'RELEASED');
  if (live) return steps;
  if (node.review && node.closed === '')
    act('the partner is told failed', (next) => Object.assign(next, { closed: 'failed', review: false }));
  const mayTry =
    (node.review && node.closed === '') ||
    (node.closed === 'failed' && rules.broken === 'a next try after failed was told');
  if (mayTry && node.effects.length === 1)
    act('a next try', (next) => {
      next.review = false;
      next.effects.push({ ...PENDING });
    });
  return steps;
}

/** The operator's lease: no worker has this name. */
const OPERATOR = 3;

/** Two persons say that nothing moved: they take the lease, ask, and their word counts unless the answer is against it. */
function absences(rules: Rules, node: Node, effect: Effect, at: number): Step[] {
  if (!rules.world.absences || effect.st !== 'SEALED' || effect.testimony || effect.late > 0) return [];
  // Without any look-up their own look is the fresh one; what is there by then, they see.
  if (!rules.world.lookUp && effect.late === 0 && /[aAD]/.test(effect.objects)) return [];
  return looksAt(rules.world, effect)
    .filter((obs) => !obs.startsWith('accepted') && !obs.startsWith('final_success'))
    .flatMap((obs) => {
      const leased = clone(node);
      effectAt(leased, at).holder = OPERATOR;
      const asks = { ...IDLE, e: at, send: effect.outs.length, fresh: effect.late === 0 };
      return record(rules, leased, asks, OPERATOR, at, 'look', `${obs} operator_absent`).map((next) => {
        if (effectAt(next, at).holder === OPERATOR) effectAt(next, at).holder = 0;
        return { label: `operators: effect ${at + 1} is absent (asked: ${obs})`, node: next };
      });
    });
}

function tick(rules: Rules, before: Node): Node {
  const { world, broken } = rules;
  const node = clone(before);
  const oldest = oldestTicks(world);
  for (const one of node.effects) {
    one.objects = one.objects.replaceAll('a', 'A');
    if (one.outs === '') continue;
    one.age = Math.min(one.age + 1, oldest);
    one.sendBy = Math.max(0, one.sendBy - 1);
    if (one.late > 0) one.late -= 1;
    if (world.retentionTicks === null || one.key === '') continue;
    one.keyAge += 1;
    if (one.keyAge > world.retentionTicks) Object.assign(one, { key: '', keyAge: 0 });
  }
  const flights = node.flights.map((one) => ({ ...one, age: Math.min(one.age + 1, world.executesWithin + 1) }));
  node.flights = flights.filter((one) => world.lateBeyond || one.age <= world.executesWithin);
  for (const name of [1, 2] as const) {
    const worker = node.workers[name - 1];
    if (worker?.ph !== 'permit' || (broken === 'a first send may pause' && worker.send === 1)) continue;
    if (worker.until === 0) forget(node, name);
    else worker.until -= 1;
  }
  return node;
}

/** Money that moved, and word to the partner that it did not: he pays another way then. */
export function paidTwice(node: Node): boolean {
  return node.effects.reduce((sum, one) => sum + paidBy(one), node.closed === '' ? 0 : 1) > 1;
}

/** What must hold in every state. */
export function requireSafe(rules: Rules, node: Node): void {
  if (rules.world.promisesKept && paidTwice(node))
    throw new Fault(node.closed === '' ? 'paid twice' : 'paid after the partner was told that it was not');
  for (const one of node.effects)
    if (one.st === 'SETTLED' && paidBy(one) === 0) throw new Fault('settled, and nothing moved');
  if (node.effects.filter((one) => one.st !== 'RELEASED').length > 1)
    throw new Fault('two live effects of one subject');
}

/** An end, or a person has it. */
export function isDone(node: Node): boolean {
  if (node.undecided || node.contradiction || node.toldFailed || node.review) return true;
  return node.effects.every((one) => one.st === 'SETTLED' || (one.st === 'RELEASED' && !one.reopens));
}
