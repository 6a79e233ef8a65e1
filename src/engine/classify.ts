/**
 * `classify(facts, observation)`: the one pure function that says what an observation is worth as evidence, and
 * `decide(facts, evidence)`: what follows from all the evidence of a pass.
 *
 * Every source comes through here: a send's answer, a look, a webhook's read, an operator's word. The default is nothing.
 * A "no" needs its guarantee (design §2's table); a "yes" needs none.
 */
import { EVIDENCE, type Evidence, type EvidenceKind, type Facts } from './effect.ts';
import type { Capabilities, Observation } from './rail.ts';

/**
 * Whether finality itself shows that an effect did not happen: a nonce used by another, solid time past an expiration.
 * On such a rail two persons' word replaces no proof, not even after it: the machine sees then what they would say, and
 * if its nodes cannot show it, what is missing is a node (design §2).
 */
export function provesAbsence({ sequenced, latenessMs }: Pick<Capabilities, 'sequenced' | 'latenessMs'>): boolean {
  return sequenced || latenessMs === null;
}

function evidence(kind: EvidenceKind, from: Observation, detail = from.detail): Evidence {
  return {
    kind,
    rank: EVIDENCE[kind].rank,
    source: from.source,
    operator: from.operator,
    objectId: from.objectId,
    detail,
  };
}

/** What one observation says of this effect. Pure and total: an unknown kind is `UNREADABLE`. */
export function classify(facts: Facts, observation: Observation): Evidence {
  switch (observation.kind) {
    case 'never_left':
      return evidence('NEVER_LEFT', observation);
    case 'not_found':
      return evidence('NOT_FOUND', observation);
    case 'in_progress':
      return evidence('IN_PROGRESS', observation);
    case 'blocked':
      return evidence('BLOCKED', observation);
    case 'included':
      return evidence('INCLUDED', observation);
    case 'accepted':
      return evidence('ACCEPTED', observation);
    case 'key_taken':
      return evidence('KEY_TAKEN', observation);
    case 'moved_otherwise':
      return evidence('MOVED_OTHERWISE', observation);
    case 'final_success':
      return evidence('FINAL_SUCCESS', observation);
    case 'came_back':
      return evidence('CAME_BACK', observation);
    case 'refused':
      return classifyRefusal(facts, observation);
    case 'object_failed':
      return classifyObjectFailed(observation);
    case 'reverted_final':
      return evidence('REVERTED_FINAL', observation);
    case 'cancel_mined':
      return evidence('CANCEL_MINED', observation);
    case 'spent_by_other':
      return classifyAbsence(facts, observation, 'NONCE_SPENT_BY_OTHER');
    case 'expired_unincluded':
      return classifyAbsence(facts, observation, 'EXPIRED_UNINCLUDED');
    case 'operator_absent':
      return evidence(facts.provesAbsence ? 'BLOCKED' : 'OPERATOR_ABSENT', observation);
    case 'unreadable':
      return evidence('UNREADABLE', observation);
    default:
      return evidence('UNREADABLE', observation, `no rule for "${String(observation.kind)}"`);
  }
}

/** Absence takes as many witnesses, each with an operator of its own, as the rail asks for; one alone says nothing yet. */
function classifyAbsence(
  facts: Facts,
  observation: Observation,
  kind: 'NONCE_SPENT_BY_OTHER' | 'EXPIRED_UNINCLUDED',
): Evidence {
  if (!observation.witness) return evidence('UNREADABLE', observation, `no witness: ${observation.detail}`);
  const operators = new Set(
    facts.absence.filter((one) => one.objectId === observation.objectId).map((one) => one.operator),
  );
  operators.add(observation.operator);
  if (operators.size < facts.absenceWitnesses) {
    return evidence(
      'NOT_FOUND',
      observation,
      `${operators.size} of ${facts.absenceWitnesses} witnesses: ${observation.detail}`,
    );
  }
  return evidence(kind, observation, `${operators.size} witnesses: ${observation.detail}`);
}

function classifyRefusal(facts: Facts, observation: Observation): Evidence {
  const refusal = observation.refusal;
  if (refusal === undefined) return evidence('UNREADABLE', observation);
  if ((refusal.storedUnderKey || refusal.replayed) && facts.keyed && facts.latenessWithinKey)
    return evidence('REJECTION_STORED', observation);
  const everySendRefused = facts.sendsRefused >= facts.sends && facts.sends > 0;
  if (refusal.atOnce && facts.refusedAtOnceCounts && facts.sendsRefusedAtOnce >= facts.sends && facts.sends > 0) {
    return evidence('REFUSED_AT_ONCE', observation);
  }
  // Before the key check, or in unknown order, a refusal says nothing about an earlier send that is unanswered (T5, T12).
  if (refusal.final && ((refusal.stage === 'after_key_check' && facts.keyed) || everySendRefused))
    return evidence('REJECTED', observation);
  if (!facts.keyed && facts.sends === 1 && everySendRefused) return evidence('REJECTED', observation);
  return evidence('BLOCKED', observation);
}

function classifyObjectFailed(observation: Observation): Evidence {
  const dead = evidence('PROVIDER_FAILED', observation);
  return observation.keyStaysBound === true ? dead : { ...dead, rank: 'believed' };
}

export type Decision =
  | { readonly act: 'settle'; readonly by: Evidence }
  | { readonly act: 'release'; readonly by: Evidence }
  /** A believed no: stop sends, start (or go on with) lateness and the fresh look. */
  | { readonly act: 'believe'; readonly by: Evidence }
  /** The fresh look was not clear: lateness runs anew. */
  | { readonly act: 'wait_anew'; readonly overdue: boolean }
  /** Testimony for an effect that was released: re-open, or contradict. */
  | { readonly act: 'reopen'; readonly by: Evidence }
  | { readonly act: 'case'; readonly kind: 'undecided' | 'moved_otherwise' | 'contradiction'; readonly why: string }
  | { readonly act: 'wait' };

/** What the evidence of a pass, with what is on record, leads to. A yes goes before any no. */
export function decide(facts: Facts, found: readonly Evidence[]): Decision {
  const yes = found.filter((one) => one.rank === 'object');
  const word = found.filter((one) => one.rank === 'word');
  if (facts.state === 'SETTLED') return { act: 'wait' };
  if (facts.state === 'RELEASED') {
    // Word about the very object that failed changes nothing; any other re-opens (design §2, rank).
    const news = yes[0] ?? word.find((one) => one.objectId === null || one.objectId !== facts.failedObject);
    return news === undefined ? { act: 'wait' } : { act: 'reopen', by: news };
  }
  // A restored backup, or a stranger with our identity: it can be neither sealed nor released now, so a person decides.
  const bestYes = yes[0] ?? word[0];
  if (bestYes !== undefined && facts.state === 'PENDING')
    return { act: 'case', kind: 'contradiction', why: `${bestYes.kind} came before anything was sealed here` };
  if (yes[0] !== undefined) return { act: 'settle', by: yes[0] };

  const dead = found.find((one) => one.rank === 'dead');
  const denied = dead !== undefined && EVIDENCE[dead.kind].chainFinal ? shownBeside(dead, found) : undefined;
  if (dead !== undefined && denied !== undefined && facts.state === 'SEALED') {
    const why = `${dead.source} shows ${dead.kind}, and ${denied.source} that it went: a node is wrong`;
    return facts.pastDecide ? { act: 'case', kind: 'contradiction', why } : { act: 'wait' };
  }
  const known = facts.testimonies > 0 || word.length > 0;
  if (dead !== undefined && facts.state === 'SEALED') {
    if (!known) return { act: 'release', by: dead };
    if (
      !facts.objectTestimony &&
      (EVIDENCE[dead.kind].chainFinal ||
        (dead.kind === 'PROVIDER_FAILED' &&
          dead.objectId !== null &&
          dead.objectId === facts.acceptedObject &&
          ![...facts.namedObjects, ...word.map((one) => one.objectId)].some(
            (one) => one !== null && one !== dead.objectId,
          )))
    ) {
      return { act: 'release', by: dead };
    }
    return { act: 'case', kind: 'contradiction', why: `${dead.kind} against testimony` };
  }
  if (found.some((one) => one.kind === 'MOVED_OTHERWISE'))
    return { act: 'case', kind: 'moved_otherwise', why: 'final success of our payload without what was expected' };
  if (facts.state !== 'SEALED') return { act: 'wait' };
  const believed = facts.believing ?? found.find((one) => one.rank === 'believed');
  if (believed !== undefined && !known) return decideBelieved(facts, believed);
  if (!facts.pastDecide) return { act: 'wait' };
  const neverLeft = found.find((one) => one.kind === 'NEVER_LEFT');
  // Every send was refused its connection, and the time to decide is over: no byte of it exists outside.
  if (!known && !facts.sequenced && neverLeft !== undefined && facts.sends > 0 && facts.sendsNeverLeft >= facts.sends) {
    return { act: 'release', by: { ...neverLeft, rank: 'dead', source: 'engine', detail: 'no send ever left' } };
  }
  return { act: 'case', kind: 'undecided', why: 'past the time in which the rail decides' };
}

/** Another node that shows our transaction successful, in a block or final, in the very pass in which one says that it failed. */
function shownBeside(dead: Evidence, found: readonly Evidence[]): Evidence | undefined {
  return found.find((one) => (one.kind === 'INCLUDED' || one.kind === 'MOVED_OTHERWISE') && one.source !== dead.source);
}

/** A believed no waits: whoever is told `failed` pays another way, and a request may still execute late. */
function decideBelieved(facts: Facts, believed: Evidence): Decision {
  if (!facts.canBelieve && believed.kind !== 'OPERATOR_ABSENT')
    return { act: 'case', kind: 'undecided', why: `${believed.kind}, and the rail cannot be asked afterwards` };
  if (facts.believing === null) return { act: 'believe', by: believed };
  switch (facts.freshLook) {
    case 'absent':
      return { act: 'release', by: believed };
    case 'unclear':
      // The rail may show for ever what is no absence (the failed object itself): then a person decides.
      return { act: 'wait_anew', overdue: facts.pastDecide };
    case 'none':
      return facts.canBelieve || !facts.pastDecide
        ? { act: 'wait' }
        : { act: 'case', kind: 'undecided', why: 'the rail has no look-up: two persons look again after lateness' };
  }
}
