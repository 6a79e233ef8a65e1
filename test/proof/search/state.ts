/** A state of the search: the rows as our database has them, the workers' memory, and the truth outside. */
import type { State } from '../../../src/engine/effect.ts';

export interface Effect {
  st: State;
  /** Whose lease is the row's: 0 nobody's. */
  holder: number;
  noSend: boolean;
  /** A character a send: `-` no answer, `n` never left, `r` refused, `a` refused at once, `o` other. */
  outs: string;
  /** Ticks until `send_by`. */
  sendBy: number;
  /** Ticks since the seal; stops counting where nothing depends on it any more. */
  age: number;
  /** `kind:object` of the believed no. */
  bel: string;
  /** Ticks until lateness has ended; -1: none runs. */
  late: number;
  testimony: boolean;
  objectTestimony: boolean;
  accepted: string;
  /** Each source's last evidence that says something (repeats of it are not stored). */
  last: readonly [string, string];
  /** Testimony stored after the release: `reopenOnce` finds it. */
  reopens: boolean;
  contradicted: boolean;
  /** The object whose failure released it. */
  ended: string;
  // outside
  /** '' free, `s` an object, `r` a stored refusal. */
  key: string;
  keyAge: number;
  /** A character an object: a/A accepted, F failed, D paid; a small letter is too fresh for every look. */
  objects: string;
  /** Signed variants that may be in a mempool: o, b, c. */
  variants: string;
  /** What spent the nonce: o our success, r our revert, c our cancel, x another payload, f a foreign copy of ours, g the same reverted. */
  mined: string;
  final: boolean;
}
type Phase = 'idle' | 'plan' | 'look' | 'open' | 'permit' | 'wait' | 'answer';
export interface Worker {
  e: number;
  ph: Phase;
  obs: string;
  /** Ticks left in which the send may begin. */
  until: number;
  send: number;
  /** Its look began after lateness had ended. */
  fresh: boolean;
  variant: string;
}
export interface Request {
  readonly e: number;
  age: number;
  worker: number;
}
export interface Node {
  effects: Effect[];
  workers: [Worker, Worker];
  flights: Request[];
  duplicates: number;
  reorgs: number;
  foreign: number;
  closed: '' | 'failed' | 'cancelled';
  undecided: boolean;
  contradiction: boolean;
  toldFailed: boolean;
  review: boolean;
}

export const IDLE: Worker = { e: -1, ph: 'idle', obs: '', until: 0, send: 0, fresh: false, variant: '' };
export const PENDING: Effect = {
  st: 'PENDING',
  holder: 0,
  noSend: false,
  outs: '',
  sendBy: 0,
  age: 0,
  bel: '',
  late: -1,
  testimony: false,
  objectTestimony: false,
  accepted: '',
  last: ['', ''],
  reopens: false,
  contradicted: false,
  ended: '',
  key: '',
  keyAge: 0,
  objects: '',
  variants: '',
  mined: '',
  final: false,
};

export function clone(node: Node): Node {
  return {
    ...node,
    effects: node.effects.map((one) => ({ ...one })),
    workers: [{ ...node.workers[0] }, { ...node.workers[1] }],
    flights: node.flights.map((one) => ({ ...one })),
  };
}

/** One text per state; the two workers are interchangeable, and so are requests of one age. */
export function keyOf(node: Node): string {
  const straight = write(node, 0);
  if (node.workers[0].ph === 'idle' && node.workers[1].ph === 'idle') return straight;
  const crossed = write(node, 1);
  return straight < crossed ? straight : crossed;
}

function write(node: Node, first: 0 | 1): string {
  const name = (worker: number): number => (worker === 0 ? 0 : (worker - 1 + first) % 2 === 0 ? 1 : 2);
  let text = `${node.duplicates}${node.reorgs}${node.foreign}${node.closed}${flag(node.undecided)}${flag(node.contradiction)}${flag(node.toldFailed)}${flag(node.review)}`;
  for (const one of node.effects) {
    text += `|${one.st}${name(one.holder)}${flag(one.noSend)}${one.outs},${one.sendBy},${one.age},${one.bel},${one.late},${flag(one.testimony)}${flag(one.objectTestimony)}${one.accepted},${one.last[0]},${one.last[1]},${flag(one.reopens)}${flag(one.contradicted)}${one.ended},${one.key}${one.keyAge}${one.objects},${one.variants},${one.mined}${flag(one.final)}`;
  }
  for (const index of first === 0 ? [0, 1] : [1, 0]) {
    const one = node.workers[index === 0 ? 0 : 1];
    text += `/${one.e}${one.ph}${one.obs}${one.until}${one.send}${flag(one.fresh)}${one.variant}`;
  }
  return `${text}/${node.flights
    .map((one) => `${one.e}${one.age}${name(one.worker)}`)
    .sort()
    .join(' ')}`;
}

function flag(value: boolean): string {
  return value ? '1' : '0';
}

/**
 * Forgets what nothing can depend on any more, so that states which differ in it alone are one: a stale worker's nothing,
 * a settled effect's doubts, the key of an effect for which no request is under way.
 */
export function canonical(node: Node, oldest: number): void {
  for (const name of [1, 2] as const) {
    const worker = node.workers[name - 1];
    const effect = worker === undefined ? undefined : node.effects[worker.e];
    if (worker === undefined || effect === undefined || worker.ph === 'permit') continue;
    const stale = effect.holder !== name;
    const useless =
      effect.st === 'SETTLED' ||
      (stale &&
        (worker.ph === 'plan' || worker.ph === 'open' || (worker.ph === 'look' && !YES_TEXT.test(worker.obs)))) ||
      (effect.st === 'RELEASED' && worker.ph === 'answer' && !YES_TEXT.test(worker.obs));
    if (!useless) continue;
    for (const flight of node.flights) if (flight.worker === name) flight.worker = 0;
    if (effect.holder === name) effect.holder = 0;
    node.workers[name - 1] = { ...IDLE };
  }
  node.effects.forEach((one, at) => {
    if (one.st !== 'SETTLED' && one.st !== 'RELEASED') return;
    if (one.outs !== '')
      Object.assign(one, { outs: '-', sendBy: 0, bel: '', late: -1, age: oldest } satisfies Partial<Effect>);
    if (one.st === 'SETTLED')
      Object.assign(one, { last: ['', ''], accepted: '', noSend: false } satisfies Partial<Effect>);
    const underWay =
      node.flights.some((flight) => flight.e === at) ||
      node.workers.some((worker) => worker.e === at && worker.ph === 'permit');
    if (!underWay) Object.assign(one, { key: '', keyAge: 0 } satisfies Partial<Effect>);
  });
}
const YES_TEXT = /accepted|key_taken|moved_otherwise|final_success|came_back/;
