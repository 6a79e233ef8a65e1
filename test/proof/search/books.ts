/**
 * Our side: what the engine's transactions do to the rows. Judging is the shipped `judge` (and through it `classify` and
 * `decide`), every transition is asked of the shipped edge table, the key window is the shipped one. What SQL does
 * (the conditions of SETTLE, RELEASE, BELIEVE, RAISE and REOPEN, and the guards of migration 0004) is written out here.
 *
 * A fault is thrown where a rule that must hold at every step does not.
 */
import { canGo, EVIDENCE, type EvidenceKind, type State } from '../../../src/engine/effect.ts';
import type { SendOutcome, StoredEvidence } from '../../../src/engine/evidence-store.ts';
import { type Found, judge, type Judged } from '../../../src/engine/judge.ts';
import type { Answer, Observation, ObservationKind, Rail } from '../../../src/engine/rail.ts';
import { keyWindowMs } from '../../../src/engine/send.ts';
import type { EffectRow } from '../../../src/engine/store.ts';
import { clone, type Effect, IDLE, type Node, PENDING, type Worker } from './state.ts';
import { type Broken, capabilitiesOf, NO_LOOK, TICK_MS, type World } from './world.ts';

export class Fault extends Error {}

export interface Rules {
  readonly world: World;
  readonly broken: Broken | null;
  readonly rail: Rail;
  readonly windowMs: number | null;
}

export function makeRules(world: World, broken: Broken | null): Rules {
  const capabilities = capabilitiesOf(world);
  // Only the capabilities are read by what is driven here.
  const rail = { name: world.name, capabilities } as Rail;
  const half = broken === 'the key window is half the retention' && capabilities.keyRetentionMs !== null;
  return { world, broken, rail, windowMs: half ? (capabilities.keyRetentionMs ?? 0) / 2 : keyWindowMs(rail) };
}

/** What is observed, as a text: `kind/object`, `refused/how`; a second source's after a space. */
function toObservation(code: string, source: string, world: World): Observation {
  const [kind = '', rest = ''] = code.split('/');
  const refused = kind === 'refused';
  return {
    kind: kind as ObservationKind,
    source,
    operator: source,
    witness: world.kind === 'evm' && kind !== 'unreadable',
    objectId: refused || rest === '' ? null : rest,
    detail: code,
    cost: null,
    ...(refused
      ? {
          refusal: {
            stage:
              rest === 'balance' || rest === 'at_once' ? ('before_key_check' as const) : ('after_key_check' as const),
            storedUnderKey: rest === 'stored' || rest === 'lying_stored',
            replayed: false,
            final: true,
            atOnce: rest === 'at_once',
          },
        }
      : {}),
    ...(kind === 'object_failed' ? { keyStaysBound: !world.failFreesKey } : {}),
  };
}

function toFound(rules: Rules, operation: 'send' | 'look', codes: string, send: number): Found[] {
  return codes
    .replace(NO_LOOK, '')
    .split(' ')
    .filter((code) => code !== '')
    .map((code, index) => {
      const observation = toObservation(code, sourceName(rules, operation, index), rules.world);
      const answer: Answer = {
        operation,
        source: observation.source,
        operator: observation.operator,
        reach: observation.kind === 'never_left' ? 'never_connected' : 'answer',
        status: null,
        body: code,
        variantHash: null,
      };
      return { answer, observation, sendNumber: send };
    });
}

/** A node both takes transactions and is looked at: one source. A provider's two are apart. */
function sourceName(rules: Rules, operation: 'send' | 'look', index: number): string {
  return rules.world.kind === 'evm' ? `s${index}` : operation === 'send' ? 's0' : 's1';
}

const NOW_MS = 1_000_000;
const NOW = new Date(NOW_MS);
const LONG_AGO = new Date(0);
const SOME_ROW = { now: NOW, wanted: null } as unknown as EffectRow;

function toRow(effect: Effect): EffectRow {
  return {
    ...SOME_ROW,
    id: 1n,
    state: effect.st,
    leaseToken: 1n,
    leaseUntil: effect.holder === 0 ? null : NOW,
    sealedAt: effect.outs === '' ? null : new Date(NOW_MS - effect.age * TICK_MS),
    sendCount: effect.outs.length,
    testimonies: effect.testimony ? 1 : 0,
    acceptedObject: effect.accepted === '' ? null : effect.accepted,
    believedEvidence: effect.bel === '' ? null : 1n,
    latenessUntil: effect.late < 0 ? null : new Date(NOW_MS + effect.late * TICK_MS),
    includedAt: null,
  };
}

function toStored(effect: Effect): StoredEvidence[] {
  const rows: StoredEvidence[] = [];
  const some = { effectId: 1n, source: 's1', operator: 's1', struck: false };
  if (effect.bel !== '') {
    const [kind = '', object = ''] = effect.bel.split(':');
    rows.push({
      ...some,
      id: 1n,
      kind: kind as EvidenceKind,
      rank: 'believed',
      objectId: object === '' ? null : object,
    });
  }
  if (effect.objectTestimony)
    rows.push({ ...some, id: 2n, kind: 'FINAL_SUCCESS', rank: 'object', objectId: effect.accepted });
  return rows;
}

function toOutcomes(effect: Effect): SendOutcome[] {
  return Array.from(effect.outs).flatMap((one, index) =>
    one === '-'
      ? []
      : [{ sendNumber: index + 1, neverLeft: one === 'n', refused: one === 'r' || one === 'a', atOnce: one === 'a' }],
  );
}

/** The shipped judgement of a pass, with what a broken draft of the rules changes in it. */
function judgePass(rules: Rules, effect: Effect, found: Found[], holds: boolean, freshLook: boolean): Judged {
  const pass = {
    effectId: 1n,
    token: holds ? 1n : 0n,
    found: found.map((one) => bend(rules, one, found)),
    nextAfterMs: null,
    lookedAt: freshLook ? NOW : LONG_AGO,
  };
  const judged = judge(rules.rail, toRow(effect), pass, toStored(effect), toOutcomes(effect));
  const stored = judged.evidence.find((one) => one.kind === 'REJECTION_STORED');
  if (
    rules.broken === 'a stored refusal ends an accepted effect' &&
    stored !== undefined &&
    judged.decision.act === 'case'
  )
    return { ...judged, decision: { act: 'release', by: stored } };
  const dead = judged.evidence.find((one) => one.kind === 'REVERTED_FINAL');
  if (rules.broken === 'a no of finality passes over an inclusion' && dead !== undefined && effect.st === 'SEALED')
    return { ...judged, decision: { act: 'release', by: dead } };
  if (rules.broken === 'later word testimony is dropped' && effect.st === 'RELEASED')
    return { ...judged, evidence: judged.evidence.filter((one) => one.rank !== 'word') };
  if (rules.broken === "a stale worker's yes is left lying" && !judged.fresh)
    return { ...judged, evidence: [], decision: { act: 'wait' } };
  return judged;
}

function bend(rules: Rules, found: Found, all: readonly Found[]): Found {
  const { observation } = found;
  if (
    rules.broken === "two persons' word is content with a time-out" &&
    observation.kind === 'unreadable' &&
    all.some((one) => one.observation.kind === 'operator_absent')
  )
    return { ...found, observation: { ...observation, kind: 'not_found' } };
  if (
    rules.broken === 'a fresh look is content with a time-out' &&
    found.answer.operation === 'look' &&
    observation.kind === 'unreadable'
  )
    return { ...found, observation: { ...observation, kind: 'not_found' } };
  if (rules.broken === 'a failed object that frees its key is dead' && observation.kind === 'object_failed')
    return { ...found, observation: { ...observation, keyStaysBound: true } };
  if (
    rules.broken === 'a reverted foreign copy of our payload settles' &&
    observation.kind === 'reverted_final' &&
    observation.objectId === 'g'
  )
    return { ...found, observation: { ...observation, kind: 'final_success' } };
  return found;
}

/** `record`: answers, evidence and verdict in one transaction. More than one node where the flow's policy may choose. */
export function record(
  rules: Rules,
  before: Node,
  worker: Worker | null,
  name: number,
  at: number,
  operation: 'send' | 'look',
  codes: string,
): Node[] {
  const node = clone(before);
  const effect = effectAt(node, at);
  const holds = worker !== null && effect.holder === name;
  const found = toFound(rules, operation, codes, worker?.send ?? 0);
  const judged = judgePass(rules, effect, found, holds, worker?.fresh ?? false);
  const known = effect.testimony;
  if (operation === 'send' && worker !== null) keepOutcome(effect, worker.send, found[0]?.observation);
  keepEvidence(effect, judged);
  for (const one of found) requireKept(effect, one.observation);
  const { decision } = judged;
  switch (decision.act) {
    case 'settle':
      if (effect.st === 'SEALED') {
        go(effect, 'SETTLED');
        node.undecided = false;
      }
      return [node];
    case 'release': {
      const over = EVIDENCE[decision.by.kind].chainFinal || decision.by.kind === 'PROVIDER_FAILED';
      const mayPass = over || !effect.testimony || rules.broken === 'a stored refusal ends an accepted effect';
      if (effect.st !== 'SEALED' || !holds || !mayPass) return [node];
      guardRelease(effect, decision.by.kind, decision.by.rank, decision.by.objectId, worker?.fresh ?? false);
      go(effect, 'RELEASED');
      effect.ended = decision.by.objectId ?? '';
      effect.reopens = false;
      node.undecided = false;
      return afterRelease(before, node, at, decision.by.rank === 'believed');
    }
    case 'believe':
      if (holds && effect.bel === '' && !effect.testimony) {
        effect.bel = `${decision.by.kind}:${decision.by.objectId ?? ''}`;
        waitFrom(node, at, Math.max(0, effect.sendBy) + rules.world.latenessTicks);
      }
      return [node];
    case 'wait_anew':
      if (holds && decision.overdue) node.undecided = true;
      if (holds && effect.bel !== '') waitFrom(node, at, rules.world.latenessTicks);
      return [node];
    case 'case':
      if (!holds) return [node];
      if (decision.kind === 'contradiction') node.contradiction = true;
      else node.undecided = true;
      return [node];
    case 'reopen':
      if (!known && !effect.testimony) throw new Fault('re-opened without testimony');
      return [node];
    case 'wait':
      return [node];
  }
}

function keepOutcome(effect: Effect, send: number, observation: Observation | undefined): void {
  if (observation === undefined || send < 1) return;
  const letter =
    observation.kind === 'never_left'
      ? 'n'
      : observation.kind === 'refused'
        ? observation.refusal?.atOnce === true
          ? 'a'
          : 'r'
        : 'o';
  effect.outs = effect.outs.slice(0, send - 1) + letter + effect.outs.slice(send);
}

/** Stores what differs from its source's last word (`storeNew`). */
function keepEvidence(effect: Effect, judged: Judged): void {
  const last: [string, string] = [...effect.last];
  for (const one of judged.evidence) {
    const index = one.source === 's1' ? 1 : 0;
    const says = EVIDENCE[one.kind].says;
    const text = says === 'nothing' ? '' : `${one.kind}:${one.objectId ?? ''}`;
    const counts = one.rank === 'word' || one.rank === 'object';
    if (counts && text !== last[index]) {
      effect.testimony = true;
      effect.objectTestimony ||= one.rank === 'object';
      if (effect.accepted === '') effect.accepted = one.objectId ?? '';
      // Word of the very object that failed is answered by its failure (design §2, rank).
      const answered = one.rank === 'word' && one.objectId !== null && one.objectId === effect.ended;
      if (effect.st === 'RELEASED' && !answered) effect.reopens = true;
    }
    last[index] = text;
  }
  effect.last = last;
}

const YES: readonly ObservationKind[] = ['accepted', 'key_taken', 'moved_otherwise', 'final_success', 'came_back'];

/** Inv: no testimony is lost, whoever brings it and whatever the state. */
function requireKept(effect: Effect, observation: Observation): void {
  if (!YES.includes(observation.kind)) return;
  if (!effect.testimony) throw new Fault(`lost testimony: ${observation.detail}`);
  if (effect.st !== 'RELEASED' || effect.reopens || effect.contradicted) return;
  // Word of the very object that failed is answered by its failure.
  const object = observation.objectId ?? '';
  if (observation.kind !== 'final_success' && object !== '' && object === effect.ended) return;
  throw new Fault(`lost testimony against a release: ${observation.detail}`);
}

/** The guard of 0004 on a release, and what the design demands of it. */
function guardRelease(effect: Effect, kind: EvidenceKind, rank: string, object: string | null, fresh: boolean): void {
  if (EVIDENCE[kind].says !== 'no' && !(kind === 'NEVER_LEFT' && rank === 'dead'))
    throw new Fault(`released by nothing: ${kind}`);
  const aboutAccepted = kind === 'PROVIDER_FAILED' && rank === 'dead' && object !== null && object === effect.accepted;
  if (effect.testimony && (effect.objectTestimony || !(EVIDENCE[kind].chainFinal || aboutAccepted)))
    throw new Fault(`released over testimony by ${kind}`);
  if (rank === 'believed' && (effect.late !== 0 || !fresh))
    throw new Fault('a believed no did not wait for lateness and a fresh look');
}

/** What a flow may do after a release: a next try, telling the partner, or a person. */
function afterRelease(before: Node, node: Node, at: number, believed: boolean): Node[] {
  const told = clone(node);
  if (told.closed === '') told.closed = 'failed';
  const other = clone(node);
  // A successor that was never sealed has its number, or the partner was told (after a re-open): the books refuse a next
  // try, and after five times it is a case.
  if (!believed && (at !== node.effects.length - 1 || node.closed !== ''))
    return [told, { ...clone(before), undecided: true }];
  if (believed || node.effects.length === 2) other.review = true;
  else other.effects.push({ ...PENDING });
  return [told, other];
}

function waitFrom(node: Node, at: number, ticks: number): void {
  effectAt(node, at).late = ticks;
  for (const worker of node.workers) if (worker.e === at && ticks > 0) worker.fresh = false;
}

export function go(effect: Effect, to: State): void {
  if (!canGo(effect.st, to)) throw new Fault(`no edge ${effect.st} -> ${to}`);
  effect.st = to;
  if (to !== 'SEALED') effect.holder = 0;
}

export function effectAt(node: Node, at: number): Effect {
  const effect = node.effects[at];
  if (effect === undefined) throw new Fault('no such effect');
  return effect;
}

/** RAISE: permission for one more send of the same identity, or `null`. */
export function raise(rules: Rules, before: Node, name: 1 | 2, variant: string): Node | null {
  const worker = before.workers[name - 1];
  if (worker === undefined) return null;
  const effect = effectAt(before, worker.e);
  const { broken, world } = rules;
  if (effect.st !== 'SEALED' || effect.holder !== name) return null;
  if (effect.noSend && broken !== 'a re-opened effect is sent again') return null;
  if (effect.bel !== '') return null;
  const allNeverLeft = Array.from(effect.outs).every((one) => one === 'n');
  if (rules.windowMs !== null && effect.age * TICK_MS >= rules.windowMs && !allNeverLeft) return null;
  const contradicted = before.effects.some((one) => one.contradicted);
  if (contradicted && variant !== 'c' && broken !== 'a contradicted successor is sent on') return null;
  if (effect.outs.length >= world.sendsMax - (worker.e === 0 ? 0 : world.successorLess)) return null;

  if (effect.noSend) throw new Fault('sent again after a re-open');
  if (contradicted && variant !== 'c') throw new Fault('the live effect of a contradicted subject is sent on');
  if (world.kind === 'unkeyed' && !allNeverLeft) throw new Fault('an unkeyed rail is sent to again');
  // It begins at most a tick later, and executes within lateness: the key must still stand then.
  if (world.retentionTicks !== null && effect.age + 1 + world.latenessTicks > world.retentionTicks && !allNeverLeft)
    throw new Fault('sent outside the key window');
  const node = clone(before);
  const raised = effectAt(node, worker.e);
  raised.outs += '-';
  raised.sendBy = 1;
  node.workers[name - 1] = { ...worker, ph: 'permit', obs: '', until: 1, send: raised.outs.length, variant };
  return node;
}

/** `reopenOnce`, for one effect. */
export function reopen(before: Node, at: number): Node | null {
  const effect = effectAt(before, at);
  if (effect.st !== 'RELEASED' || !effect.reopens || effect.contradicted) return null;
  const node = clone(before);
  const row = effectAt(node, at);
  const live = node.effects.find((one, index) => index !== at && one.st !== 'RELEASED');
  if (row.outs === '' || (live !== undefined && live.st !== 'PENDING')) {
    row.contradicted = true;
    row.reopens = false;
    node.contradiction = true;
    return node;
  }
  if (live !== undefined) go(live, 'RELEASED');
  go(row, 'SEALED');
  Object.assign(row, {
    noSend: true,
    bel: '',
    late: -1,
    reopens: false,
    holder: 0,
    ended: '',
  } satisfies Partial<Effect>);
  node.review = false;
  if (node.closed !== '') node.toldFailed = true;
  return node;
}

/** The worker forgets; a row whose lease nobody can use any more is anybody's. */
export function forget(node: Node, name: 1 | 2): void {
  const worker = node.workers[name - 1];
  if (worker === undefined) return;
  const effect = node.effects[worker.e];
  if (effect?.holder === name) effect.holder = 0;
  for (const flight of node.flights) if (flight.worker === name) flight.worker = 0;
  node.workers[name - 1] = { ...IDLE };
}
