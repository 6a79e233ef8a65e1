/** The other side: requests that are lost, late and delivered twice; a provider's keys and objects; a chain's nonce. */
import { clone, type Effect, type Node } from './state.ts';
import { effectAt } from './books.ts';
import { NO_LOOK, type World } from './world.ts';

export interface Step {
  readonly label: string;
  readonly node: Node;
}

/** Money that really moved for this effect. */
export function paidBy(effect: Effect): number {
  const objects = Array.from(effect.objects).filter((one) => one === 'D').length;
  return objects + (effect.final && (effect.mined === 'o' || effect.mined === 'f') ? 1 : 0);
}

/** What a look may show, by the truth and by what is too fresh for it. */
export function looksAt(world: World, effect: Effect): string[] {
  if (world.kind === 'evm') return looksAtChain(world, effect);
  if (!world.lookUp) return [NO_LOOK];
  const shown = (text: string): string => {
    const paid = text.indexOf('D');
    if (paid >= 0) return `final_success/o${paid}`;
    const accepted = text.search(/[aA]/);
    if (accepted >= 0) return `accepted/o${accepted}`;
    return text.includes('F') ? `object_failed/o${text.lastIndexOf('F')}` : 'not_found';
  };
  const settled = effect.objects.replaceAll('a', '.');
  return [...new Set([shown(effect.objects), shown(settled), 'unreadable'])];
}

/** Two nodes; either may lag or not answer, and one may lie where the world says so. Where nothing is mined, a nothing is as good as another. */
function looksAtChain(world: World, effect: Effect): string[] {
  const truth = chainShows(effect);
  if (truth === 'not_found') return ['not_found not_found'];
  const lies = world.nodeLies && truth.startsWith('included/') ? [`reverted_final/${effect.mined} ${truth}`] : [];
  return [`${truth} ${truth}`, `not_found ${truth}`, 'unreadable unreadable', ...lies];
}

function chainShows(effect: Effect): string {
  const { mined, final } = effect;
  if (mined === '') return 'not_found';
  if (!final)
    return mined === 'o' || mined === 'f' ? `included/${mined}` : mined === 'x' ? 'not_found' : `in_progress/${mined}`;
  switch (mined) {
    case 'o':
    case 'f':
      return `final_success/${mined}`;
    case 'c':
      return 'cancel_mined/c';
    case 'x':
      return 'spent_by_other/x';
    default:
      return `reverted_final/${mined}`;
  }
}

/** Everything that may happen out there, one thing at a time. */
export function outsideSteps(world: World, node: Node): Step[] {
  const steps: Step[] = [];
  node.flights.forEach((flight, index) => {
    if (
      node.flights.findIndex((one) => one.e === flight.e && one.age === flight.age && one.worker === flight.worker) !==
      index
    )
      return;
    steps.push(...executions(world, node, index));
    const lost = clone(node);
    lost.flights.splice(index, 1);
    steps.push({ label: `a request of effect ${flight.e + 1} is lost`, node: lost });
    if (node.duplicates > 0) {
      const twice = clone(node);
      twice.duplicates -= 1;
      twice.flights.push({ e: flight.e, age: flight.age, worker: 0 });
      steps.push({ label: `a request of effect ${flight.e + 1} is delivered twice`, node: twice });
    }
  });
  node.effects.forEach((effect, at) =>
    steps.push(...(world.kind === 'evm' ? mines(node, effect, at) : objectSteps(world, node, effect, at))),
  );
  return steps;
}

function executions(world: World, node: Node, index: number): Step[] {
  const flight = node.flights[index];
  if (flight === undefined) return [];
  const { e, worker } = flight;
  const steps: Step[] = [];
  const effect = effectAt(node, e);
  const make = (label: string, answer: string, change: (effect: Effect) => void): void => {
    const done = clone(node);
    done.flights.splice(index, 1);
    change(effectAt(done, e));
    const waiting = worker === 0 ? undefined : done.workers[worker === 1 ? 0 : 1];
    if (waiting?.ph === 'wait') {
      waiting.ph = 'answer';
      waiting.obs = answer;
    }
    steps.push({ label: `a request of effect ${e + 1} executes: ${label}`, node: done });
  };
  const keyed = world.kind === 'keyed';
  const object = `o${effect.objects.length}`;
  if (!keyed || effect.key === '') {
    if (effect.objects.length < 2) {
      make('accepted', `accepted/${object}`, (one) => {
        one.objects += world.lookLags ? 'a' : 'A';
        if (keyed) Object.assign(one, { key: 's', keyAge: 0 });
      });
    }
    for (const refusal of world.refusals) {
      make(`refused (${refusal})`, `refused/${refusal}`, (one) => {
        if (refusal === 'stored') Object.assign(one, { key: 'r', keyAge: 0 });
      });
    }
    return steps;
  }
  if (effect.key === 'r') make('the stored refusal again', 'refused/stored', () => undefined);
  else {
    const last = effect.objects.length - 1;
    const letter = effect.objects[last];
    if (letter === 'F') make('the failed object again', `object_failed/o${last}`, () => undefined);
    else {
      make('the same object again', `${letter === 'D' ? 'final_success' : 'accepted'}/o${last}`, () => undefined);
      make('the key is taken', `key_taken/o${last}`, () => undefined);
    }
  }
  for (const refusal of world.refusals)
    if (refusal === 'balance' || refusal === 'lying_stored')
      make(`refused (${refusal})`, `refused/${refusal}`, () => undefined);
  return steps;
}

function objectSteps(world: World, node: Node, effect: Effect, at: number): Step[] {
  const steps: Step[] = [];
  Array.from(effect.objects).forEach((letter, index) => {
    if (letter === 'D' || letter === 'F') return;
    const become = (to: string): Effect & { node: Node } => {
      const next = clone(node);
      const one = effectAt(next, at);
      one.objects = one.objects.slice(0, index) + to + one.objects.slice(index + 1);
      return { ...one, node: next };
    };
    steps.push({ label: `object ${index + 1} of effect ${at + 1} is paid`, node: become('D').node });
    if (!world.acceptedMayFail) return;
    const { node: failed } = become('F');
    if (world.failFreesKey) effectAt(failed, at).key = '';
    steps.push({ label: `object ${index + 1} of effect ${at + 1} fails`, node: failed });
  });
  return steps;
}

function mines(node: Node, effect: Effect, at: number): Step[] {
  const steps: Step[] = [];
  const to = (label: string, change: (next: Node, one: Effect) => void): void => {
    const next = clone(node);
    change(next, effectAt(next, at));
    steps.push({ label: `nonce of effect ${at + 1}: ${label}`, node: next });
  };
  if (effect.outs === '') return steps;
  if (effect.mined !== '') {
    if (effect.final) return steps;
    to('final', (_, one) => Object.assign(one, { final: true }));
    if (node.reorgs > 0)
      to('its block leaves the chain', (next, one) => {
        one.mined = '';
        next.reorgs -= 1;
      });
    return steps;
  }
  if (/[ob]/.test(effect.variants)) {
    to('our payload is mined', (_, one) => Object.assign(one, { mined: 'o' }));
    to('our payload is mined and reverts', (_, one) => Object.assign(one, { mined: 'r' }));
  }
  if (effect.variants.includes('c')) to('our cancel is mined', (_, one) => Object.assign(one, { mined: 'c' }));
  if (node.foreign > 0) {
    for (const [letter, label] of [
      ['x', 'another payload is mined'],
      ['f', 'a foreign copy of ours is mined'],
      ['g', 'a foreign copy of ours is mined and reverts'],
    ] as const) {
      to(label, (next, one) => {
        one.mined = letter;
        next.foreign -= 1;
      });
    }
  }
  return steps;
}
